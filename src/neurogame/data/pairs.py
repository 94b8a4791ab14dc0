"""The records of sentence-pair data: a pair, a data set of pairs, and what was left out of it.

Nothing here reads a file or knows a data set by name; see `reading` and `sets`.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any, overload

from neurogame._common.printing import plural, printable
from neurogame.labels import LABELS, NON_ENTAILMENT


class DataError(ValueError):
    """Data that cannot be used; one line that names the file, the cause and the way out."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))  # the name of a file or a column may hold a line break


@dataclass(frozen=True)
class Pair:
    """A premise, a hypothesis, the label's name (None: not known) and the other columns of the row."""

    premise: str
    hypothesis: str
    label: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Malformed:
    """A row that is not a pair; as text "pairs.jsonl:17: empty premise"."""

    file: str
    line: int
    reason: str
    is_end: bool = False  # the file cannot be read from here on; an unknown number of rows is missing

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass(frozen=True)
class NoGold:
    """A row on whose label the annotators did not agree ("-", −1), where labels are needed."""

    file: str
    line: int


def check_seed(seed: object) -> None:
    """A seed is a whole number."""
    if not isinstance(seed, int):
        raise TypeError(f"seed must be a whole number, got {seed!r:.60}")


def order(count: int, seed: int) -> list[int]:
    """A random order of 0 … count − 1: the indices sorted by one uniform draw each.

    Only `Random.random` is used, whose sequence Python promises to keep; so a seed means the same
    rows with every version.
    """
    check_seed(seed)
    draw = Random(seed).random  # noqa: S311 — not cryptography
    keys = [draw() for _ in range(count)]
    return sorted(range(count), key=keys.__getitem__)


@dataclass(frozen=True)
class PairDataset(Sequence[Pair]):
    """Pairs in order, with where they come from and what was dropped on the way; also a torch map-style data set.

    Attributes:
        pairs: the pairs.
        name: how the data set is called in tables, such as "snli/dev".
        source: the file or files as given, or "hub:…".
        without_gold: rows dropped because they have no gold label.
        malformed: rows skipped because they could not be read.

    Subsets keep `name`, `source` and the record of what was dropped when the file was read.
    """

    pairs: tuple[Pair, ...]
    name: str = "pairs"
    source: str = ""
    without_gold: int = 0
    malformed: tuple[Malformed, ...] = ()

    def __len__(self) -> int:
        return len(self.pairs)

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> "PairDataset": ...
    def __getitem__(self, index: int | slice) -> "Pair | PairDataset":
        return replace(self, pairs=self.pairs[index]) if isinstance(index, slice) else self.pairs[index]

    @cached_property
    def counts(self) -> dict[str, int]:
        """Label → number of pairs, in the order of `neurogame.labels`; pairs without label are not in it."""
        counted = Counter(pair.label for pair in self.pairs if pair.label is not None)
        known = [name for name in (*LABELS, NON_ENTAILMENT) if name in counted]
        return {name: counted[name] for name in (*known, *sorted(set(counted) - set(known)))}

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels that occur."""
        return tuple(self.counts)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of premises, hypotheses and labels in order; names, files and extras do not enter."""
        digest = hashlib.sha256()
        for pair in self.pairs:
            digest.update(json.dumps([pair.premise, pair.hypothesis, pair.label]).encode() + b"\n")
        return digest.hexdigest()

    def take(self, limit: int | None, seed: int | None = None) -> "PairDataset":
        """The first `limit` pairs, or with a seed as many at random, in their order; None: all."""
        if limit is None:
            return self
        if limit < 0:
            raise DataError(f"limit {limit} is negative; allowed: a number of pairs, or None for all")
        if seed is None:
            return self[:limit]
        return self._at(sorted(order(len(self), seed)[:limit]))

    def shuffled(self, seed: int) -> "PairDataset":
        """The same pairs in a random order."""
        return self._at(order(len(self), seed))

    def split(self, fraction: float, seed: int) -> "tuple[PairDataset, PairDataset]":
        """(rest, held out): `fraction` of the pairs drawn at random, both parts in their order and not empty.

        The draw is by pair: a premise that occurs several times may occur in both parts.
        """
        held = round(fraction * len(self)) if 0 < fraction < 1 else 0
        if not 0 < held < len(self):
            raise DataError(
                f"a fraction of {fraction} of {len(self)} pairs of {self.name} leaves one part empty; "
                "allowed: between 0 and 1, such that both parts have a pair"
            )
        indices = order(len(self), seed)
        return self._at(sorted(indices[held:])), self._at(sorted(indices[:held]))

    def filter(self, predicate: Callable[[Pair], bool]) -> "PairDataset":
        """The pairs for which `predicate` holds; possibly none."""
        return replace(self, pairs=tuple(filter(predicate, self.pairs)))

    def summary(self) -> str:
        """One line: "snli/dev: 9842 pairs (entailment 3329, …), 158 without gold label dropped"."""
        parts = [f"{label} {count}" for label, count in self.counts.items()]
        unlabelled = len(self) - sum(self.counts.values())
        if unlabelled:
            parts.append(f"unlabelled {unlabelled}" if parts else "unlabelled")
        text = f"{self.name}: {plural(len(self), 'pair')}" + (f" ({', '.join(parts)})" if parts else "")
        if self.without_gold:
            text += f", {self.without_gold} without gold label dropped"
        if self.malformed:
            text += f", {plural(len(self.malformed), 'malformed row')} skipped"
        return text

    def _at(self, indices: Iterable[int]) -> "PairDataset":
        return replace(self, pairs=tuple(self.pairs[i] for i in indices))


def concatenate(name: str, datasets: Iterable[PairDataset]) -> PairDataset:
    """The data sets one after the other; what was dropped adds up.

        concatenate("both", [load("toy/train"), load("fragments/train")])

    Args:
        name: of the new set.
        datasets: in order.

    Returns:
        The new set.
    """
    parts = tuple(datasets)
    return PairDataset(
        pairs=tuple(pair for part in parts for pair in part.pairs),
        name=name,
        source=" + ".join(dict.fromkeys(part.source for part in parts)),
        without_gold=sum(part.without_gold for part in parts),
        malformed=tuple(row for part in parts for row in part.malformed),
    )
