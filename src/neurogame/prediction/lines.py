"""How the predictions of a chunk are written: JSON lines, CSV, tables, or columns to read."""

import csv
import io
from collections.abc import Sequence
from typing import IO, Any, Protocol

from neurogame.data.columnar import as_json
from neurogame.data.pairs import Pair
from neurogame.jobs.tables import Chunks
from neurogame.nli import Prediction
from neurogame.printing import printable

_OURS = frozenset({"premise", "hypothesis", "gold", *Prediction.__dataclass_fields__})  # of a line of JSON


class LineWriter(Protocol):
    """Writes the chunks of a file in one format."""

    left_out: dict[str, None]  # columns for which there is no place
    first: bool  # whether the chunk that was met last begins with a header

    def meet(self, pairs: Sequence[Pair]) -> None:
        """Called with every chunk before it is written, also those that another process writes."""

    def write(self, pairs: Sequence[Pair], predictions: Sequence[Prediction]) -> None:
        """Write the chunk that `meet` was called with last."""


def _gold(pair: Pair) -> Any:
    """The row's gold label: its column of that name, else its label by name, or as it is if it is none (a number)."""
    gold = pair.extras.get("gold", pair.label)
    return pair.extras.get("label") if gold is None else gold


class _AnyColumns:
    """Lines that have no header in common."""

    first = False

    def __init__(self, file: IO[str]) -> None:
        self.file = file
        self.left_out: dict[str, None] = {}

    def meet(self, pairs: Sequence[Pair]) -> None:
        """Nothing to learn from others."""


class JsonLines(_AnyColumns):
    """One object per pair; half a surrogate pair, which JSON can hold and UTF-8 cannot, stays as JSON writes it."""

    def write(self, pairs: Sequence[Pair], predictions: Sequence[Prediction]) -> None:
        """A line for each pair."""
        for pair, prediction in zip(pairs, predictions, strict=True):
            gold = _gold(pair)
            row = {name: value for name, value in pair.extras.items() if name not in _OURS}
            row |= {"premise": pair.premise, "hypothesis": pair.hypothesis}
            row |= ({} if gold is None else {"gold": gold}) | vars(prediction)  # `to_dict` without its copies
            line = as_json(row)
            self.file.write(line.encode("utf-8", "backslashreplace").decode() + "\n")
        self.file.flush()


class TextLines(_AnyColumns):
    """Label, its probability, premise, hypothesis, between tabs: for reading, and for `cut` and `sort`."""

    def write(self, pairs: Sequence[Pair], predictions: Sequence[Prediction]) -> None:
        """A line for each pair."""
        for pair, prediction in zip(pairs, predictions, strict=True):
            label = prediction.label
            texts = (printable(" ".join(text.split())) for text in (pair.premise, pair.hypothesis))
            self.file.write("\t".join((label, f"{prediction.probabilities[label]:.3f}", *texts)) + "\n")
        self.file.flush()


class _Table:
    """A header and one row per pair; the header has the columns that occur in the first chunk that has a pair.

    Every chunk is shown to `meet` before it is written, also those that another process writes: all have one header.
    """

    def __init__(self) -> None:
        self.own: dict[str, None] | None = None  # columns of the file, in order; None: no pair has been met yet
        self.labelled = self.first = False
        self.left_out: dict[str, None] = {}

    def meet(self, pairs: Sequence[Pair]) -> None:
        """Called with every chunk before it is written, also those that another process writes."""
        self.first = self.own is None and bool(pairs)
        if self.first:
            self.own = dict.fromkeys(name for pair in pairs for name in pair.extras)
            self.labelled = any(_gold(pair) is not None for pair in pairs)

    def _rows(self, pairs: Sequence[Pair], predictions: Sequence[Prediction]) -> tuple[list[str], list[dict[str, Any]]]:
        """The header, and the rows of the chunk met last; columns for which the header has no place are noted."""
        answers = [_answer(*both) for both in zip(pairs, predictions, strict=True)]
        names = answers[0] if answers else {}
        header = [
            *(name for name in self.own or () if name not in names),
            *(name for name in names if name != "gold" or self.labelled),
        ]
        rows = [{**pair.extras, **ours} for pair, ours in zip(pairs, answers, strict=True)]
        for row in rows:
            late = (name for name, value in row.items() if name not in header and value is not None)
            self.left_out |= dict.fromkeys(late)
        return header, rows


class CsvLines(_Table):
    """Comma-separated."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__()
        self.out = csv.writer(file)

    def write(self, pairs: Sequence[Pair], predictions: Sequence[Prediction]) -> None:
        """The rows of the chunk met last, under the header if it is the first."""
        header, rows = self._rows(pairs, predictions)
        if self.first:
            self.out.writerow(header)
        for row, prediction in zip(rows, predictions, strict=True):
            row |= {name: f"{p:.6f}" for name, p in probability_columns(prediction).items()}
            self.out.writerow([_cell(row.get(name)) for name in header])


class TableRows(_Table):
    """Parquet or Arrow: the columns of a CSV, with types."""

    def __init__(self, file: io.BytesIO, chunks: Chunks) -> None:
        super().__init__()
        self.file, self.chunks = file, chunks

    def write(self, pairs: Sequence[Pair], predictions: Sequence[Prediction]) -> None:
        """The rows of the chunk met last, behind the schema if it is the first."""
        header, rows = self._rows(pairs, predictions)
        if not rows:
            return
        ours: dict[str, str] = dict.fromkeys(("premise", "hypothesis", "gold", "label"), "string")
        ours |= {"truncated": "bool", **dict.fromkeys(probability_columns(predictions[0]), "double")}
        for row in rows:
            row["gold"] = None if row["gold"] is None else str(row["gold"])
        self.file.write(self.chunks.message({name: ours.get(name) for name in header}, rows, first=self.first))


def probability_columns(prediction: Prediction) -> dict[str, float]:
    """p_LABEL → probability: the columns of a table."""
    return {f"p_{name}": p for name, p in prediction.probabilities.items()}


def _answer(pair: Pair, prediction: Prediction) -> dict[str, Any]:
    """Our columns of a table."""
    columns = {"premise": pair.premise, "hypothesis": pair.hypothesis, "gold": _gold(pair), "label": prediction.label}
    return columns | probability_columns(prediction) | {"truncated": prediction.truncated}


def _cell(value: Any) -> Any:
    """A list or an object as JSON."""
    return as_json({"": value})[5:-1] if isinstance(value, list | dict | bool) else value
