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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any, Literal

from neurogame._common.records import unique_keys
from neurogame.data import columnar
from neurogame.data.columnar import Columns, TruncatedFileError
from neurogame.data.pairs import DataError

Kind = Literal["csv", "tsv", "json", "parquet", "arrow"]
Record = tuple[int, dict[str, Any] | str]

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
    `undecodable`, which the code that assembles a record from lines reads and clears.
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


def records(lines: Lines | Columns, kind: Kind | None, check: Callable[[tuple[str, ...]], None]) -> Iterator[Record]:
    """The records of a stream; blank lines are none.

    Args:
        lines: the stream.
        kind: its format; None to guess it from the first character ("{" begins JSON lines).
        check: called with the columns of a header; raises if one is missing.

    Raises:
        TruncatedFileError: a double quote opens and is not closed, or only by another stray one, so that the rows
            behind it are lost.
    """
    if isinstance(lines, Columns):
        yield from lines.records(check)
        return
    first = next((text for text in lines if text.strip()), None)
    if first is None:
        return
    if kind is None:
        kind = "json" if first.lstrip()[0] in "{[" else "tsv" if _delimiter(first) == "\t" else "csv"
    if kind == "json" and first.lstrip().startswith("["):
        raise DataError(f"{lines.file} begins with a JSON array; write one JSON object per line instead")
    text = chain([first], lines)
    if kind == "json":
        yield from _json(lines, text)
    else:
        rows = _quoted(lines, text, _delimiter(first)) if kind == "csv" else _unquoted(lines, text)
        yield from _table(lines, rows, check)


def plain_records(lines: Lines | Columns) -> Iterator[Record]:
    """A text per line as records of one column; blank lines are none."""
    assert isinstance(lines, Lines)
    return ((lines.number, {"text": line.strip()}) for line in lines if line.strip())


def _json(lines: Lines, text: Iterator[str]) -> Iterator[Record]:
    for row in text:
        undecodable, lines.undecodable = lines.undecodable, False
        if undecodable:
            yield lines.number, "not UTF-8"
            continue
        if not row.strip():
            continue
        try:
            content = _decode(row)
        except (ValueError, RecursionError) as error:
            yield lines.number, f"not valid JSON: {getattr(error, 'msg', error)}"
            continue
        yield lines.number, content if isinstance(content, dict) else f"JSON {type(content).__name__}, not an object"


def _decode(row: str) -> Any:
    """A line of JSON; what Python's reader accepts and JSON does not have (NaN, repeated keys) is refused."""
    return json.loads(row, parse_constant=_no_number, parse_float=_finite, object_pairs_hook=unique_keys)


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON value; write null")


def _finite(text: str) -> float:
    number = float(text)
    if number in (math.inf, -math.inf):
        raise ValueError(f"the number {text:.40} is too large")
    return number


def _table(lines: Lines, rows: Iterator[tuple[int, list[str] | str]], check: Callable[..., None]) -> Iterator[Record]:
    """Rows under a header, each as wide as the header."""
    _, header = next(rows, (0, ""))
    if not header:  # a line of nothing but quotes is no row
        return
    if isinstance(header, str) or lines.undecodable:
        raise DataError(f"{lines.file}: the header is {'not UTF-8' if lines.undecodable else header}")
    names = tuple(name.strip() for name in header)
    unnamed = [place for place, name in enumerate(names) if not name]
    check(tuple(name for place, name in enumerate(names) if name or place == unnamed[-1]))
    for line, fields in rows:
        undecodable, lines.undecodable = lines.undecodable, False
        if undecodable:
            yield line, "not UTF-8"
        elif isinstance(fields, str):
            yield line, fields
        elif len(fields) != len(names):
            yield line, f"{len(fields)} fields where the header has {len(names)}{_through(lines, line)}"
        elif len(unnamed) > 1 and any(fields[place].strip() for place in unnamed):
            raise DataError(f"{lines.file}:{line}: two columns have no name, but values; name them in the header")
        else:  # nameless columns without values are what a spreadsheet leaves at the right
            yield line, dict(zip(names, fields, strict=True))


def _unquoted(lines: Lines, text: Iterator[str]) -> Iterator[tuple[int, list[str] | str]]:
    """Tab-separated, as GLUE, SNLI and HANS write it: a double quote is a character like any other."""
    for row in text:
        if row.strip("\r\n"):
            yield lines.number, row.removesuffix("\n").removesuffix("\r").split("\t")


def _quoted(lines: Lines, text: Iterator[str], delimiter: str) -> Iterator[tuple[int, list[str] | str]]:
    """CSV: a quoted field may hold delimiters, doubled quotes and line ends. The line of a row is its first.

    Raises:
        TruncatedFileError: a row of several lines holds other rows.
    """
    start = lines.number
    header: _Header | None = None
    swallowed = 0  # lines after the first of a row that look like rows

    def counted() -> Iterator[str]:
        nonlocal swallowed
        for line in text:
            swallowed += header is not None and lines.number > start and header.fits(line)
            yield line

    reader = csv.reader(counted(), delimiter=delimiter, strict=True)
    while True:
        try:
            fields = _next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "end of data" in str(error) or "field limit" in str(error):
                raise _unclosed(lines, start) from None
            _check_span(lines, start, swallowed)
            yield start, f"not valid CSV: {error}{_through(lines, start)}"
        else:
            if any(field.strip() for field in fields[:1]) or len(fields) > 1:
                header = header or _Header.of(fields, delimiter)
                yield start, fields if lines.number == start else _check_row(lines, start, fields, header, swallowed)
        start, swallowed = lines.number + 1, 0


@dataclass(frozen=True)
class _Header:
    """What a line has that is a row under a header."""

    width: int
    delimiter: str
    spaced: bool  # blanks follow the delimiters, as in prose

    @classmethod
    def of(cls, names: Sequence[str], delimiter: str) -> "_Header":
        return cls(len(names), delimiter, any(name.startswith(" ") for name in names[1:]))

    def fits(self, line: str) -> bool:
        """Whether a line looks like a row; with one column none does, as each would."""
        return 0 < self.width - 1 == line.count(self.delimiter) and (self.spaced or f"{self.delimiter} " not in line)


def _check_span(lines: Lines, start: int, swallowed: int) -> None:
    """A malformed row of many lines, or of some that look like rows, has swallowed them: they are not lost silently."""
    beyond = lines.number - start
    if beyond >= _SPAN or (swallowed >= _SWALLOWED and 2 * swallowed > beyond):
        raise _unclosed(lines, start)


def _check_row(lines: Lines, start: int, fields: list[str], header: _Header, swallowed: int) -> list[str] | str:
    """The fields of a row of several lines, if none of them holds other rows between two stray quotes.

    Three lines or more that look like rows, and most of a field, end the file. One or two that are all of it, but for
    its ends, make the row malformed, if the file has three columns or more: prose has a comma without a blank now and
    then.
    """
    if len(fields) != header.width:
        _check_span(lines, start, swallowed)
        return fields
    for field in fields:
        inner = [line for line in field.split("\n")[1:] if line.strip()]
        rows = [line for line in inner if header.fits(line)]
        if len(rows) >= _SWALLOWED and 2 * len(rows) > len(inner):
            raise TruncatedFileError(
                start,
                f"not valid CSV: a double quote that opens here is closed in line {lines.number}, and {len(rows)} lines"
                " between look like rows, which would be lost; write texts that hold such lines as .jsonl",
            )
        chance = header.width < 3 or any(_BY_CHANCE.search(line) for line in rows)
        if rows and not chance and all(map(header.fits, inner[:-1])):
            many = f"{len(rows)} {'line' if len(rows) == 1 else 'lines'}"
            return f"a field holds {many} with as many fields as a row{_through(lines, start)}"
    return fields


def _through(lines: Lines, start: int) -> str:
    """How far a malformed row reaches, where that is beyond its line."""
    if lines.number == start:
        return ""
    return f" (through line {lines.number}, {lines.number - start + 1} lines: an unbalanced double quote?)"


def _unclosed(lines: Lines, start: int) -> TruncatedFileError:
    detail = f"a double quote that opens here is not closed by line {lines.number}"
    return TruncatedFileError(start, f"not valid CSV: {detail}, and all between would be lost")


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
