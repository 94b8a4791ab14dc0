"""A run file as it lies on disk: YAML, a mapping, `key=value` on top. `config` checks the keys.

Needs neither torch nor transformers, so that a missing file is reported at once.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from neurogame._common.printing import printable

# what yaml raises over a text: also "2001-99-99", which is no date, "0b_", which is no number, and a thousand brackets
_NO_YAML = (yaml.YAMLError, ValueError, RecursionError)


class _OnceLoader(yaml.SafeLoader):
    """The safe loader, which refuses a key that is given twice instead of keeping the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [(key.tag, key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for at, key in enumerate(keys):
            if key in keys[:at]:
                raise yaml.constructor.ConstructorError(None, None, f"{key[1]} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _load(text: str) -> Any:
    return yaml.load(text, _OnceLoader)  # noqa: S506 — a safe loader


class ConfigError(ValueError):
    """A run file that cannot be run; the message is one line."""


def read_mapping(path: str | Path, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """The content of a run file, with `key.of.section=value` overrides on top (values are read as YAML).

    Raises:
        ConfigError: the file cannot be read, is not YAML or no mapping, or an override is malformed.
    """
    path = Path(path)
    try:
        content = _load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except _NO_YAML as error:
        raise ConfigError(f"{path}: not valid YAML: {printable(' '.join(str(error).split()))}") from None
    if not isinstance(content, dict):
        raise ConfigError(
            f"{path}: a run file is a mapping with model, data and training; found {type(content).__name__}"
        )
    for override in overrides:
        _override(content, override)
    return content


def _override(content: dict[str, Any], override: str) -> None:
    """Set `a.b=value` in place."""
    key, equals, value = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {override!r}: expected key=value, such as training.epochs=1")
    *sections, last = key.strip().split(".")
    target = content
    for section in sections:
        inner = target[section] = {} if target.get(section) is None else target[section]
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {override!r}: {section} is not a section")
        target = inner
    try:
        target[last] = _load(value)
    except _NO_YAML:
        raise ConfigError(f"--set {override!r}: the value is not valid YAML") from None
