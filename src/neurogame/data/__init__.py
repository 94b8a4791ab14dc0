"""Sentence pairs for natural-language inference: files, known data sets, generated ones, rationales and batches."""

from neurogame.data import fragments
from neurogame.data.batching import EncodedDataset, collate, encode, sorted_batches
from neurogame.data.grammar import generate
from neurogame.data.pairs import DataError, Malformed, NoGold, Pair, PairDataset, concatenate
from neurogame.data.rationales import Rationale, rationales
from neurogame.data.reading import iterate, read
from neurogame.data.sets import load

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
