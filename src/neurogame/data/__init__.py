"""Sentence pairs for natural-language inference: files, known data sets, generated ones, rationales and batches.

Reading files needs neither torch nor the grammars: batches, generated pairs and named sets are imported when they are
asked for.
"""

from typing import TYPE_CHECKING

from neurogame._common.lazy import lazy
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
    "fragments": "fragments",
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

__getattr__, __dir__ = lazy(__name__, _LATER)
