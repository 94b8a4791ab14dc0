"""Predictions for a file of pairs, read and written as a stream: memory does not grow with the file.

What a line of output holds: the row's own columns under their own names (an id, a genre …), premise and
hypothesis, `gold` where the row has a label, and what the model says: `label`, `probabilities`,
`logits`, `truncated`. Of two columns with the same name the model's is written. How a file becomes
pairs is in `data.reading`.
"""

import csv
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol

from neurogame.data.pairs import DataError, Malformed, Pair
from neurogame.data.reading import OnError, iterate
from neurogame.nli import NLI, Prediction, Progress
from neurogame.printing import printable
from neurogame.validation import check_count

CHUNK = 1024  # rows that are read, sorted by length and predicted together
FORMATS = (".jsonl", ".csv")
_OURS = frozenset({"premise", "hypothesis", "gold", *Prediction.__dataclass_fields__})  # of a line of JSON
_SHOWN = 5  # malformed rows that the record names


@dataclass(frozen=True)
class Done:
    """What became of the rows of a file."""

    pairs: int
    truncated: int  # longer than the model reads, and cut
    malformed_count: int
    malformed: tuple[str, ...] = ()  # the first few, as "file:line: reason"
    left_out: tuple[str, ...] = ()  # columns that came too late for the header of a CSV

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    def summary(self) -> str:
        """One line, and one for each malformed row that is shown."""
        parts = [f"{self.pairs} {'pair' if self.pairs == 1 else 'pairs'} labelled"]
        if self.truncated:
            parts.append(f"{self.truncated} longer than the model reads and cut")
        if self.malformed_count:
            parts.append(f"{self.malformed_count} malformed {'row' if self.malformed_count == 1 else 'rows'} skipped")
        lines = [", ".join(parts), *self.malformed]
        if self.malformed_count > len(self.malformed):
            lines.append(f"… and {self.malformed_count - len(self.malformed)} more")
        if self.left_out:
            lines.append(f"columns not written, their first row comes after the header: {', '.join(self.left_out)}")
        return "\n".join(lines)


def predict_file(
    nli: NLI,
    source: str | Path,
    output: str | Path | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    on_error: OnError = "skip",
    batch_size: int = 32,
    as_json: bool = False,
    progress: Progress | None = None,
    chunk: int = CHUNK,
) -> Done:
    """Label the pairs of `source` in order and write one line for each.

    Args:
        nli: the model.
        source: a CSV, TSV or JSONL file, gzipped or not, or "-" for stdin.
        output: a .jsonl or .csv file that does not exist yet, complete or absent, never in part; None: stdout.
        columns: ours → theirs, where the names of the columns are not the usual ones.
        on_error: whether a malformed row ends everything or is skipped and counted.
        batch_size: pairs per forward pass.
        as_json: on stdout, JSON lines instead of label, probability, premise and hypothesis between tabs.
        progress: told of each batch.
        chunk: rows in memory at a time; their predictions are written before the next are read.
    """
    check_count("chunk", chunk)
    check(source, output, columns)
    shown: list[str] = []
    pairs = skipped = truncated = 0
    rows = iterate(source, columns=columns, require_label=False, on_error=on_error)
    with closing(rows), _sink(None if output is None else Path(output), as_json=as_json) as sink:
        while taken := list(islice(rows, chunk)):
            good = [row for row in taken if isinstance(row, Pair)]
            bad = [str(row) for row in taken if isinstance(row, Malformed)]
            shown += bad[: _SHOWN - len(shown)]
            skipped += len(bad)
            found = nli.predict(
                [(p.premise, p.hypothesis) for p in good],
                batch_size=batch_size,
                progress=progress or (lambda _: None),
            )
            sink.write(good, found)
            truncated += sum(prediction.truncated for prediction in found)
            pairs += len(good)
        if not pairs:
            raise DataError(f"{source}: no pair to label, {skipped} malformed rows (the first: {shown[0]})")
    return Done(pairs, truncated, skipped, tuple(shown), tuple(getattr(sink, "left_out", ())))


def check(source: str | Path, output: str | Path | None, columns: Mapping[str, str] | None = None) -> None:
    """Refuse what can be refused before a model is loaded: a missing source, an output that is in use or unknown."""
    iterate(source, columns=columns, require_label=False).close()
    if output is None:
        return
    path = Path(output)
    if path.suffix.lower() not in FORMATS:
        has = repr(path.suffix) if path.suffix else "no suffix"
        raise DataError(f"{path}: predictions are written as {' or '.join(FORMATS)}, it has {has}")
    if not path.parent.is_dir():
        raise DataError(f"{path}: the folder {path.parent} does not exist")
    _check_free(path)


def _check_free(path: Path) -> None:
    if path.exists():
        raise DataError(f"{path} exists already; predictions never overwrite a file")


class _Sink(Protocol):
    """Where predictions go, chunk by chunk."""

    def write(self, pairs: Sequence[Pair], found: Sequence[Prediction]) -> None: ...


@contextmanager
def _sink(output: Path | None, *, as_json: bool) -> Iterator[_Sink]:
    """Stdout, or a file that appears under its name only when it is complete."""
    if output is None:
        yield _JsonLines(sys.stdout) if as_json else _TextLines(sys.stdout)
        return
    fresh = output.with_name(f"{output.name}.{os.getpid()}.new")
    try:
        # half a surrogate pair, which JSON can hold and UTF-8 cannot, is written as JSON writes it
        with fresh.open("x", encoding="utf-8", errors="backslashreplace", newline="") as file:
            yield _CsvLines(file) if output.suffix.lower() == ".csv" else _JsonLines(file)
        _check_free(output)  # another process may have been faster
        fresh.rename(output)
    finally:
        fresh.unlink(missing_ok=True)


def _gold(pair: Pair) -> Any:
    """The row's gold label: its column of that name, else its label by name, or as it is if it is none (a number)."""
    gold = pair.extras.get("gold", pair.label)
    return pair.extras.get("label") if gold is None else gold


class _JsonLines:
    """One object per pair."""

    def __init__(self, file: IO[str]) -> None:
        self.file = file

    def write(self, pairs: Sequence[Pair], found: Sequence[Prediction]) -> None:
        for pair, said in zip(pairs, found, strict=True):
            gold = _gold(pair)
            row = {name: value for name, value in pair.extras.items() if name not in _OURS}
            row |= {"premise": pair.premise, "hypothesis": pair.hypothesis}
            row |= ({} if gold is None else {"gold": gold}) | said.to_dict()
            line = json.dumps(row, ensure_ascii=False)
            self.file.write(line.encode("utf-8", "backslashreplace").decode() + "\n")
        self.file.flush()


class _TextLines:
    """Label, its probability, premise, hypothesis, between tabs: for reading, and for `cut` and `sort`."""

    def __init__(self, file: IO[str]) -> None:
        self.file = file

    def write(self, pairs: Sequence[Pair], found: Sequence[Prediction]) -> None:
        for pair, said in zip(pairs, found, strict=True):
            texts = (printable(" ".join(text.split())) for text in (pair.premise, pair.hypothesis))
            self.file.write("\t".join((said.label, f"{said.probabilities[said.label]:.3f}", *texts)) + "\n")
        self.file.flush()


class _CsvLines:
    """A header and one row per pair; the header has the columns that occur in the first chunk."""

    def __init__(self, file: IO[str]) -> None:
        self.out = csv.writer(file)
        self.header: tuple[str, ...] = ()
        self.left_out: dict[str, None] = {}

    def write(self, pairs: Sequence[Pair], found: Sequence[Prediction]) -> None:
        rows = [(pair.extras, _answer(pair, said)) for pair, said in zip(pairs, found, strict=True)]
        if rows and not self.header:
            labelled, names = any(ours["gold"] is not None for _, ours in rows), rows[0][1]
            self.header = (
                *dict.fromkeys(name for own, _ in rows for name in own if name not in names),
                *(name for name in names if name != "gold" or labelled),
            )
            self.out.writerow(self.header)
        for own, ours in rows:
            row = {**own, **ours}
            late = (name for name, value in row.items() if name not in self.header and value is not None)
            self.left_out |= dict.fromkeys(late)
            self.out.writerow([_cell(row.get(name)) for name in self.header])


def _answer(pair: Pair, said: Prediction) -> dict[str, Any]:
    """Our columns of a CSV."""
    found = {"premise": pair.premise, "hypothesis": pair.hypothesis, "gold": _gold(pair), "label": said.label}
    return found | {f"p_{name}": f"{p:.6f}" for name, p in said.probabilities.items()} | {"truncated": said.truncated}


def _cell(value: Any) -> Any:
    """A list or an object, which only JSON lines have, as JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict | bool) else value
