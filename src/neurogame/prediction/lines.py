"""How the predictions of a chunk are written: JSON lines, CSV, or columns to read."""

import csv
import json
from collections.abc import Sequence
from typing import IO, Any, Protocol

from neurogame.data.pairs import Pair
from neurogame.nli import Prediction
from neurogame.printing import printable

_OURS = frozenset({"premise", "hypothesis", "gold", *Prediction.__dataclass_fields__})  # of a line of JSON


class Lines(Protocol):
    """What becomes of a chunk."""

    left_out: dict[str, None]  # columns for which there is no place

    def meet(self, pairs: Sequence[Pair]) -> None:
        """The chunk that comes next, from any process."""

    def write(self, pairs: Sequence[Pair], found: Sequence[Prediction]) -> None:
        """The chunk met last."""


def _gold(pair: Pair) -> Any:
    """The row's gold label: its column of that name, else its label by name, or as it is if it is none (a number)."""
    gold = pair.extras.get("gold", pair.label)
    return pair.extras.get("label") if gold is None else gold


class _AnyColumns:
    """Lines that have no header in common."""

    def __init__(self, file: IO[str]) -> None:
        self.file = file
        self.left_out: dict[str, None] = {}

    def meet(self, pairs: Sequence[Pair]) -> None:
        """Nothing to learn from others."""


class JsonLines(_AnyColumns):
    """One object per pair; half a surrogate pair, which JSON can hold and UTF-8 cannot, stays as JSON writes it."""

    def write(self, pairs: Sequence[Pair], found: Sequence[Prediction]) -> None:
        """A line for each pair."""
        for pair, said in zip(pairs, found, strict=True):
            gold = _gold(pair)
            row = {name: value for name, value in pair.extras.items() if name not in _OURS}
            row |= {"premise": pair.premise, "hypothesis": pair.hypothesis}
            row |= ({} if gold is None else {"gold": gold}) | vars(said)  # as `to_dict`, without its copies
            line = json.dumps(row, ensure_ascii=False)
            self.file.write(line.encode("utf-8", "backslashreplace").decode() + "\n")
        self.file.flush()


class TextLines(_AnyColumns):
    """Label, its probability, premise, hypothesis, between tabs: for reading, and for `cut` and `sort`."""

    def write(self, pairs: Sequence[Pair], found: Sequence[Prediction]) -> None:
        """A line for each pair."""
        for pair, said in zip(pairs, found, strict=True):
            texts = (printable(" ".join(text.split())) for text in (pair.premise, pair.hypothesis))
            self.file.write("\t".join((said.label, f"{said.probabilities[said.label]:.3f}", *texts)) + "\n")
        self.file.flush()


class CsvLines:
    """A header and one row per pair; the header has the columns that occur in the first chunk that has a pair.

    Every chunk is shown to `meet` before it is written, also those that another process writes: all have one header.
    """

    def __init__(self, file: IO[str]) -> None:
        self.out = csv.writer(file)
        self.own: dict[str, None] | None = None  # columns of the file, in order; None: no pair has been met yet
        self.labelled = self.first = False
        self.left_out: dict[str, None] = {}

    def meet(self, pairs: Sequence[Pair]) -> None:
        """The chunk that comes next, from any process."""
        self.first = self.own is None and bool(pairs)
        if self.first:
            self.own = dict.fromkeys(name for pair in pairs for name in pair.extras)
            self.labelled = any(_gold(pair) is not None for pair in pairs)

    def write(self, pairs: Sequence[Pair], found: Sequence[Prediction]) -> None:
        """The rows of the chunk met last, under the header if it is the first."""
        rows = [(pair.extras, _answer(pair, said)) for pair, said in zip(pairs, found, strict=True)]
        if not rows:
            return
        names = rows[0][1]
        header = (
            *(name for name in self.own or () if name not in names),
            *(name for name in names if name != "gold" or self.labelled),
        )
        if self.first:
            self.out.writerow(header)
        for own, ours in rows:
            row = {**own, **ours}
            late = (name for name, value in row.items() if name not in header and value is not None)
            self.left_out |= dict.fromkeys(late)
            self.out.writerow([_cell(row.get(name)) for name in header])


def _answer(pair: Pair, said: Prediction) -> dict[str, Any]:
    """Our columns of a CSV."""
    found = {"premise": pair.premise, "hypothesis": pair.hypothesis, "gold": _gold(pair), "label": said.label}
    return found | {f"p_{name}": f"{p:.6f}" for name, p in said.probabilities.items()} | {"truncated": said.truncated}


def _cell(value: Any) -> Any:
    """A list or an object, which only JSON lines have, as JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict | bool) else value
