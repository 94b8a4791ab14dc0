"""Sentence pairs for natural-language inference: files, known data sets, generated ones, rationales and batches.

Reading files needs neither torch nor the grammars: batches, generated pairs and named sets are imported when they are
asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

from neurogame.data.pairs import DataError, Malformed, NoGold, Pair, PairDataset, concatenate
from neurogame.data.rationales import Rationale, rationales  # not later: the module and the function share a name
from neurogame.data.reading import iterate, read

if TYPE_CHECKING:
    from neurogame.data import fragments
    from neurogame.data.batching import EncodedDataset, collate, encode, sorted_batches
    from neurogame.data.grammar import generate
    from neurogame.data.sets import load

_LATER = {
    "EncodedDataset": "batching",
    "collate": "batching",
    "encode": "batching",
    "generate": "grammar",
    "load": "sets",
    "sorted_batches": "batching",
}

__all__ = [
    "DataError",
    "EncodedDataset",
    "Malformed",
    "NoGold",
    "Pair",
    "PairDataset",
    "Rationale",
    "collate",
    "concatenate",
    "encode",
    "fragments",
    "generate",
    "iterate",
    "load",
    "rationales",
    "read",
    "sorted_batches",
]


def __getattr__(name: str) -> Any:
    if name == "fragments":
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, "fragments"})
