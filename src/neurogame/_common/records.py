"""Records to plain JSON values and back: dataclasses, tuples, dictionaries and None."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

R = TypeVar("R")
_KINDS = {str: "text", int: "whole number", float: "number", bool: "yes or no", dict: "mapping"}


def plain(value: Any) -> Any:
    """Nested dataclasses, mappings, tuples and lists in JSON's own types.

    A float that is not finite becomes None, since JSON has no NaN; times become ISO 8601, bytes hexadecimal, anything
    else text. A field whose metadata has {"saved": False} is left out.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value) if f.metadata.get("saved", True)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The `object_pairs_hook` of `json.loads` that raises ValueError for a duplicate key; Python keeps the last."""
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r:.60} is given twice")
    return content


def restore(record: type[R], data: Mapping[str, Any]) -> R:
    """The inverse of `plain`: annotations of the dataclass say what becomes a tuple or a dataclass again.

    Unknown keys are ignored; a field that is missing or of another type is a ValueError.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"a {record.__name__} record must be a mapping, got {data!r:.60}; was it edited by hand?")
    hints = get_type_hints(record)
    saved = [f for f in fields(record) if f.metadata.get("saved", True)]  # type: ignore[arg-type]
    missing = [f.name for f in saved if f.name not in data]
    if missing:
        raise ValueError(
            f"a {record.__name__} record lacks {', '.join(missing)}; was it written by another version, or cut short?"
        )
    return record(**{f.name: _restore_value(hints[f.name], data[f.name], f"{record.__name__}.{f.name}") for f in saved})


def _restore_value(hint: Any, value: Any, where: str) -> Any:
    """`value` as its annotation has it: JSON knows neither tuples nor dataclasses."""
    if isinstance(hint, UnionType):
        if value is None:
            return None
        hint = next(choice for choice in get_args(hint) if choice is not NoneType)
    if is_dataclass(hint):
        return restore(hint, value)  # type: ignore[arg-type]
    kind, inner = get_origin(hint) or hint, get_args(hint)
    wanted = {tuple: list | tuple, list: list | tuple, dict: Mapping, float: int | float}.get(kind, kind)
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{where} must be a {_KINDS.get(kind, 'list')}, got {value!r:.60}; was it edited by hand?")
    if kind in (tuple, list):
        if kind is tuple and inner[-1] is not Ellipsis and len(value) != len(inner):
            raise ValueError(f"{where} must have {len(inner)} entries, got {value!r:.60}; was it edited by hand?")
        return kind(_restore_value(inner[0], item, where) for item in value)
    if kind is dict:
        return {key: _restore_value(inner[1], item, where) for key, item in value.items()}
    return value
