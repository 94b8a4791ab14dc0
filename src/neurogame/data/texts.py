"""Single texts from a file: which column holds them, and what becomes of a bad row. Pairs are `reading`'s.

    reviews.txt      one text per line
    reviews.csv      a column text, sentence, content, review … (.tsv, .jsonl, .parquet, .arrow likewise)

A file is of single texts or of pairs: `kind_of_texts` says which, by its columns. Labels are not needed and not looked
at; every other column stays with its row.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any, ClassVar

from neurogame.data.formats import DAMAGE, kind_of, open_file, read_records
from neurogame.data.pairs import Malformed
from neurogame.data.reading import Rule, join_names, stream

COLUMNS = ("text", "sentence", "content", "review", "comment", "document", "tweet", "title", "utterance")
_USUAL = " or ".join(COLUMNS)


@dataclass(frozen=True)
class Text:
    """A text with the other columns of its row."""

    text: str
    extras: Mapping[str, Any] = field(default_factory=dict)


class TextRule(Rule):
    """How a record becomes a text."""

    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {"text": COLUMNS}

    def __init__(self, column: str | None = None) -> None:
        super().__init__({} if column is None else {"text": column}, require_label=False)

    def lacks(self, lacking: Sequence[str], names: Sequence[str]) -> str:  # noqa: ARG002 — it is always the same
        """The error that names the missing column."""
        return f"no column for text; columns: {join_names(names)}; needed: {self.columns.get('text') or _USUAL}"

    def make(self, texts: Mapping[str, str], label: str | None, extras: Mapping[str, Any]) -> Text:  # noqa: ARG002
        """A row that is complete."""
        return Text(**texts, extras=extras)


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
    names: tuple[str, ...] = ()
    with suppress(*DAMAGE), open_file(file) as lines:  # the reader of the rows reports where the file breaks off
        header, records = read_records(lines, kind_of(file))
        names = header or next((tuple(record) for _, record in islice(records, 1) if isinstance(record, dict)), ())
    places, _ = Rule(require_label=False).locate(names)
    if "premise" in places and "hypothesis" in places:
        return False
    return _is_plain(file) or "text" in TextRule().locate(names)[0]
