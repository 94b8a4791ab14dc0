"""The tables of `english.toml`: forms, words and inflections, a section for each module. Nothing is drawn here."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


def section(name: str) -> dict[str, Any]:
    """The tables of one module, by name.

    Args:
        name: of a section of `english.toml`, such as "events".

    Returns:
        Table → text, list or mapping.

    Raises:
        KeyError: if there is no such section.
    """
    tables: dict[str, Any] = _english()[name]
    return tables


@cache
def _english() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "english.toml").read_text(encoding="utf-8"))
