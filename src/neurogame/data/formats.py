"""From the bytes of a file to numbered records: decompression, decoding, JSON lines, CSV and tab-separated text.

Parquet and Arrow files are read by `columnar`.

A record is (line, columns) or (line, reason why there are none). What the columns mean is decided in
`reading`. Everything streams: one record is in memory at a time.
"""

import csv
import gzip
import json
import math
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any, Literal

from neurogame._common.printing import plural
from neurogame._common.records import unique_keys
from neurogame.data import columnar
from neurogame.data.columnar import Columns, TruncatedFileError
from neurogame.data.pairs import DataError

Kind = Literal["csv", "tsv", "json", "parquet", "arrow"]
Record = tuple[int, dict[str, Any] | str]  # line, columns or why there are none
Fields = tuple[int, list[str] | str]  # line, fields of a row or why there are none

_TEXT: dict[str, Kind] = {".csv": "csv", ".tsv": "tsv", ".txt": "tsv", ".jsonl": "json", ".json": "json"}
KINDS: dict[str, Kind] = _TEXT | {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"}
COLUMNAR: tuple[Kind, ...] = ("parquet", "arrow")
STDIN = "-"
DAMAGE = (EOFError, zlib.error, OSError)  # what a truncated or damaged file raises while it is read

_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_LONGEST = 1 << 26  # characters of a field of CSV, and
_SPAN = 64  # lines of a malformed row: one that is longer begins with a quote that is not closed, and holds other rows
_BY_CHANCE = re.compile(r"\d[,;\t]\d|^[,;\t]|[,;\t]{2}|[,;\t]$")  # delimiters in prose: 1,000; or around nothing
_SWALLOWED = 3  # lines of one row that look like rows of their own: so many are no accident


def kind_of(path: str) -> Kind | None:
    """The format that the name of a file stands for, text gzipped or not; None: none that is known."""
    kind = KINDS.get(Path(path.lower().removesuffix(".gz")).suffix)
    return None if kind in COLUMNAR and path.lower().endswith(".gz") else kind


class Lines:
    """The lines of a byte stream as text, with their number.

    A line that is not UTF-8 does not end the stream: it comes with its bytes escaped, and sets
    `undecodable`, which `pop_undecodable` reads and clears for each record.
    """

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, file: str) -> None:
        self.stream, self.file = stream, file
        self.number = 0
        self.undecodable = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        raw = self.stream.readline()
        if not raw:
            raise StopIteration
        self.number += 1
        if self.number == 1:
            if raw.startswith(_UTF16):
                raise DataError(f"{self.file} is UTF-16 text; save it as UTF-8")
            raw = raw.removeprefix(_BOM)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.undecodable = True
            return raw.decode(errors="surrogateescape")

    def pop_undecodable(self) -> bool:
        """Whether a line since the last call was not UTF-8."""
        undecodable, self.undecodable = self.undecodable, False
        return undecodable


@contextmanager
def open_file(path: str) -> Iterator[Lines | Columns]:
    """The lines of a file, or of the standard input for "-"; gzip is recognised by content, not by name."""
    if (kind := kind_of(path)) in COLUMNAR:
        with columnar.open_columns(path, str(kind)) as columns:
            yield columns
        return
    if path == STDIN:
        yield Lines(sys.stdin.buffer, "<stdin>")
        return
    try:
        raw = Path(path).open("rb")  # noqa: SIM115 — closed by the `with` below; only opening it may fail here
    except OSError as error:
        raise DataError(f"{path} cannot be opened: {error.strerror}") from error
    with raw:
        if raw.peek(2)[:2] == b"\x1f\x8b":
            with gzip.open(raw) as stream:
                yield Lines(stream, path)
        else:
            yield Lines(raw, path)


def read_records(lines: Lines | Columns, kind: Kind | None) -> tuple[tuple[str, ...] | None, Iterator[Record]]:
    """The header (None where each record names its own columns), and the records; blank lines are none.

    A format that is not known (`kind` None) is guessed from the first line: "{" begins JSON lines. TruncatedFileError
    where rows are lost behind a double quote that is not closed, or only by another stray one.
    """
    if isinstance(lines, Columns):
        return tuple(lines.schema.names), lines.records()
    first = next((text for text in lines if text.strip()), None)
    if first is None:
        return None, iter(())
    if kind is None:
        kind = "json" if first.lstrip()[0] in "{[" else "tsv" if _delimiter(first) == "\t" else "csv"
    text = chain([first], lines)
    if kind != "json":
        return _read_table(lines, _CsvRows(lines, text, _delimiter(first)) if kind == "csv" else _tsv_rows(lines, text))
    if first.lstrip().startswith("["):
        raise DataError(f"{lines.file} begins with a JSON array; write one JSON object per line instead")
    return None, _read_json(lines, text)


def plain_records(lines: Lines | Columns) -> tuple[None, Iterator[Record]]:
    """A text per line as records of one column; blank lines are none."""
    assert isinstance(lines, Lines)
    return None, ((lines.number, {"text": line.strip()}) for line in lines if line.strip())


def _read_json(lines: Lines, text: Iterator[str]) -> Iterator[Record]:
    for row in text:
        if lines.pop_undecodable():
            yield lines.number, "not UTF-8"
            continue
        if not row.strip():
            continue
        try:  # what Python's reader accepts and JSON does not have (NaN, repeated keys) is refused
            content = json.loads(row, parse_constant=_no_number, parse_float=_finite, object_pairs_hook=unique_keys)
        except (ValueError, RecursionError) as error:
            yield lines.number, f"not valid JSON: {getattr(error, 'msg', error)}"
            continue
        yield lines.number, content if isinstance(content, dict) else f"JSON {type(content).__name__}, not an object"


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON value; write null")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text:.40} is too large")
    return number


def _read_table(lines: Lines, source: Iterable[Fields]) -> tuple[tuple[str, ...] | None, Iterator[Record]]:
    """Rows under a header, each as wide as the header."""
    rows = iter(source)
    _, header = next(rows, (0, ""))
    if not header:  # a line of nothing but quotes is no row
        return None, iter(())
    if isinstance(header, str) or lines.undecodable:
        raise DataError(f"{lines.file}: the header is {'not UTF-8' if lines.undecodable else header}")
    names = tuple(name.strip() for name in header)
    unnamed = [place for place, name in enumerate(names) if not name]

    def records() -> Iterator[Record]:
        for line, fields in rows:
            if lines.pop_undecodable():
                yield line, "not UTF-8"
            elif isinstance(fields, str):
                yield line, fields
            elif len(fields) != len(names):
                yield line, f"{len(fields)} fields where the header has {len(names)}{_through(lines, line)}"
            elif len(unnamed) > 1 and any(fields[place].strip() for place in unnamed):
                raise DataError(f"{lines.file}:{line}: two columns have no name, but values; name them in the header")
            else:  # nameless columns without values are what a spreadsheet leaves at the right
                yield line, dict(zip(names, fields, strict=True))

    return tuple(name for place, name in enumerate(names) if name or place == unnamed[-1]), records()


def _tsv_rows(lines: Lines, text: Iterator[str]) -> Iterator[Fields]:
    """Tab-separated, as GLUE, SNLI and HANS write it: a double quote is a character like any other."""
    for row in text:
        if row.strip("\r\n"):
            yield lines.number, row.removesuffix("\n").removesuffix("\r").split("\t")


class _CsvRows:
    """CSV: a quoted field may hold delimiters, doubled quotes and line ends. The line of a row is its first.

    A stray quote would swallow the rows up to the next one. A row of several lines is therefore compared with the
    header: lines in it that look like rows make it malformed, or end the file.
    """

    def __init__(self, lines: Lines, text: Iterator[str], delimiter: str) -> None:
        self.lines, self.text, self.delimiter = lines, text, delimiter
        self.start = lines.number  # of the row that is being read
        self.swallowed = 0  # lines after the first of this row that look like rows
        self.width = 0  # columns of the header; 0 until it has been read
        self.spaced = False  # blanks follow the delimiters of the header, as in prose

    def __iter__(self) -> Iterator[Fields]:
        reader = csv.reader(self._count_swallowed(), delimiter=self.delimiter, strict=True)
        while True:
            try:
                fields = _next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if "end of data" in str(error) or "field limit" in str(error):
                    raise self._unclosed() from None
                self._check_span()
                yield self.start, f"not valid CSV: {error}{_through(self.lines, self.start)}"
            else:
                if any(field.strip() for field in fields[:1]) or len(fields) > 1:
                    if not self.width:
                        self.width, self.spaced = len(fields), any(name.startswith(" ") for name in fields[1:])
                    yield self.start, fields if self.lines.number == self.start else self._check_row(fields)
            self.start, self.swallowed = self.lines.number + 1, 0

    def _count_swallowed(self) -> Iterator[str]:
        for line in self.text:
            self.swallowed += self.lines.number > self.start and self._fits(line)
            yield line

    def _fits(self, line: str) -> bool:
        """Whether a line looks like a row; with one column none does, as each would."""
        return 0 < self.width - 1 == line.count(self.delimiter) and (self.spaced or f"{self.delimiter} " not in line)

    def _check_span(self) -> None:
        """A malformed row of many lines, or of some that look like rows, would silently lose them."""
        beyond = self.lines.number - self.start
        if beyond >= _SPAN or (self.swallowed >= _SWALLOWED and 2 * self.swallowed > beyond):
            raise self._unclosed()

    def _unclosed(self) -> TruncatedFileError:
        detail = f"a double quote that opens here is not closed by line {self.lines.number}"
        return TruncatedFileError(self.start, f"not valid CSV: {detail}, and all between would be lost")

    def _check_row(self, fields: list[str]) -> list[str] | str:
        """The fields of a row of several lines, if none of them holds other rows between two stray quotes.

        Three lines or more that look like rows, and most of a field, end the file. One or two that are all of it, but
        for its ends, make the row malformed, if the file has three columns or more: prose has a comma without a blank
        now and then.
        """
        if len(fields) != self.width:
            self._check_span()
            return fields
        for field in fields:
            inner = [line for line in field.split("\n")[1:] if line.strip()]
            rows = [line for line in inner if self._fits(line)]
            if len(rows) >= _SWALLOWED and 2 * len(rows) > len(inner):
                raise TruncatedFileError(
                    self.start,
                    f"not valid CSV: a double quote that opens here is closed in line {self.lines.number}, and "
                    f"{len(rows)} lines between look like rows, which would be lost; write texts that hold such lines "
                    "as .jsonl",
                )
            chance = self.width < 3 or any(_BY_CHANCE.search(line) for line in rows)
            if rows and not chance and all(map(self._fits, inner[:-1])):
                lines = plural(len(rows), "line")
                return f"a field holds {lines} with as many fields as a row{_through(self.lines, self.start)}"
        return fields


def _through(lines: Lines, start: int) -> str:
    """How far a malformed row reaches, where that is beyond its line."""
    if lines.number == start:
        return ""
    return f" (through line {lines.number}, {lines.number - start + 1} lines: an unbalanced double quote?)"


def _next(reader: Iterator[list[str]]) -> list[str]:
    """The next row whatever its length; csv's limit is global, so it is lifted only while a row is parsed."""
    limit = csv.field_size_limit(_LONGEST)
    try:
        return next(reader)
    finally:
        csv.field_size_limit(limit)


def _delimiter(header: str) -> str:
    """Comma, unless the header has more semicolons (spreadsheets in half of Europe) or tabs."""
    return max(",;\t", key=header.count)
