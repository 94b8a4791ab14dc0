"""Single texts from a file: which column holds them, and what becomes of a bad row. Pairs are `reading`'s.

    reviews.txt      one text per line
    reviews.csv      a column text, sentence, content, review … (.tsv, .jsonl, .parquet, .arrow likewise)

A file is of single texts or of pairs: `kind_of_texts` says which, by its columns. Labels are not needed and not looked
at; every other column stays with its row.
"""

from collections.abc import Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from neurogame.data.formats import DAMAGE, kind_of, open_file, records
from neurogame.data.pairs import Malformed
from neurogame.data.reading import Rule, find_clash, find_column, join_names, stream, text_fault

COLUMNS = ("text", "sentence", "content", "review", "comment", "document", "tweet", "title", "utterance")


@dataclass(frozen=True)
class Text:
    """A text with the other columns of its row."""

    text: str
    extras: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TextRule:
    """How a record becomes a text: the name of its column, None for a usual one."""

    column: str | None = None

    def place(self, columns: Iterable[str]) -> str | None:
        """The column of the texts; case does not matter."""
        return find_column(tuple(columns), self.column, COLUMNS)

    def missing(self, columns: Iterable[str]) -> str | None:
        """What is wrong with these columns; None if they suffice."""
        names = tuple(columns)
        place = self.place(names)
        if place is not None:
            return find_clash(names, () if place == self.column else (place,))
        needed = self.column or " or ".join(COLUMNS)
        return f"no column for text; columns: {join_names(names)}; needed: {needed}"

    def row(self, record: Mapping[str, Any], file: str, line: int) -> Text | Malformed:
        """The text of a record, or why there is none."""
        place = self.place(record)
        reason = self.missing(record) or text_fault("text", record[str(place)])
        if place is None or reason is not None:
            return Malformed(file, line, str(reason))
        return Text(record[place], {name: value for name, value in record.items() if name != place})


def iterate_texts(
    path: str | PathLike[str], *, column: str | None = None, on_error: str = "raise"
) -> Generator[Text | Malformed, None, None]:
    """The texts of a file one by one, in constant memory.

    Args:
        path: a .txt file with a text per line, or a .csv, .tsv, .jsonl, .parquet or .arrow file with a column of texts,
            text gzipped or not; "-" is the standard input, JSON lines or CSV.
        column: the column of the texts; None: one of `COLUMNS`.
        on_error: "raise" a `DataError` at the first row that is no text, or "skip": it comes as `Malformed`.

    Example:
        >>> [row.text for row in iterate_texts("reviews.csv")]  # doctest: +SKIP
    """
    file = fspath(path)
    plain = _is_plain(file) and Path(file).is_file()
    return stream(file, TextRule(None if plain else column), on_error, plain=plain)


def _is_plain(path: str) -> bool:
    return path.lower().removesuffix(".gz").endswith(".txt")


def is_single(path: str | PathLike[str], columns: Mapping[str, str] | None = None) -> bool:
    """Whether a file holds single texts: `columns` says so, or it has no column for a hypothesis but one of texts.

    Args:
        path: a file that can be read twice; False for the standard input.
        columns: as given: {"text": …} says single texts, {"premise": …} pairs.
    """
    if columns and set(columns) & {"text", "premise", "hypothesis"}:
        return "text" in columns
    file = fspath(path)
    if not Path(file).is_file():
        return False
    header: list[tuple[str, ...]] = []
    with suppress(*DAMAGE), open_file(file) as lines:  # the reader of the rows reports where the file breaks off
        for _, record in islice(records(lines, kind_of(file), header.append), 1):
            if isinstance(record, dict):
                header.append(tuple(record))
    names = header[-1] if header else ()
    places = Rule(require_label=False).places(names)
    if "premise" in places and "hypothesis" in places:
        return False
    return _is_plain(file) or TextRule().place(names) is not None
