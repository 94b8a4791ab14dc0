"""Pairs from a file: which column is which, which label is which, and what becomes of a bad row.

`iterate` streams a file of any size; `read` collects one into a `PairDataset`. How bytes become
columns is in `formats`; which files make up a known data set is in `sets`.
"""

import difflib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from os import PathLike, fspath
from pathlib import Path
from typing import Any, ClassVar, Literal

from neurogame import labels
from neurogame.data.columnar import TruncatedFileError
from neurogame.data.formats import DAMAGE, KINDS, STDIN, kind_of, open_file, plain_records, read_records
from neurogame.data.pairs import DataError, Malformed, NoGold, Pair, PairDataset

OnError = Literal["raise", "skip"]
LabelNames = Sequence[str] | Mapping[str, str]
Row = Pair | Malformed | NoGold

_LONGEST, _LISTED = 40, 20  # characters of a column's name, and names, that an error shows


@dataclass(frozen=True, eq=False)
class Rule:
    """How a record becomes a pair: the column mapping, the names of the labels, whether there must be one."""

    columns: Mapping[str, str] = field(default_factory=dict)
    label_names: LabelNames | None = None
    require_label: bool = True

    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "premise": ("premise", "sentence1", "sentence_a", "text", "context"),
        "hypothesis": ("hypothesis", "sentence2", "sentence_b", "text_pair"),
        "label": ("label", "gold_label", "entailment_label", "entailment_judgment"),
    }

    def __post_init__(self) -> None:
        unknown = [name for name in self.columns if name not in self.aliases]
        if unknown:
            allowed = ", ".join(self.aliases)
            raise DataError(f"columns maps {unknown[0]!r}; allowed: {allowed}, each to a column of the file")
        for theirs in self.columns.values():
            if list(self.columns.values()).count(theirs) > 1:
                raise DataError(f"columns maps two names to the same column {theirs!r}")

    def locate(self, names: Iterable[str]) -> tuple[Mapping[str, str], str | None]:
        """Our column names → the file's, and what is wrong with the file's columns; None: they suffice."""
        return _locate(self, tuple(names))

    def lacks(self, lacking: Sequence[str], names: Sequence[str]) -> str:
        """The error that names the missing columns, and says how to map others."""
        needed = "; ".join(self.columns.get(ours) or " or ".join(self.aliases[ours]) for ours in lacking)
        return (
            f"no column for {' and '.join(lacking)}; found: {join_names(names)}; needed: {needed}; "
            f"name yours as in columns={{{lacking[0]!r}: {_shorten(names[0] if names else '…')!r}}}"
        )

    def row(self, record: Mapping[str, Any], file: str, line: int) -> Any:
        """The pair of a record, or why there is none."""
        places, fault = self.locate(record)
        texts = {} if fault else {ours: record[places[ours]] for ours in self.aliases if ours != "label"}
        for ours, text in texts.items():
            fault = fault or _text_fault(ours, text)
        if fault is not None:
            return Malformed(file, line, fault)
        label, used = None, set(places.values())
        if "label" in places:
            try:
                label = labels.canonical(record[places["label"]], self.label_names)
            except ValueError as error:
                if self.require_label:
                    return Malformed(file, line, str(error))
                used.discard(places["label"])  # not needed here; the raw label stays among the extras
        if label is None and self.require_label:
            return NoGold(file, line)
        return self.make(texts, label, {name: value for name, value in record.items() if name not in used})

    def make(self, texts: Mapping[str, str], label: str | None, extras: Mapping[str, Any]) -> Any:
        """A row that is complete."""
        return Pair(**texts, label=label, extras=extras)


@lru_cache(maxsize=64)
def _locate(rule: Rule, names: tuple[str, ...]) -> tuple[Mapping[str, str], str | None]:
    """See `Rule.locate`; the records of a file mostly have the same columns."""
    lowered = {name.lower(): name for name in reversed(names)}
    places = {}
    for ours, aliases in rule.aliases.items():
        given = rule.columns.get(ours)
        usual = aliases if given is None else (given.lower(),)
        place = given if given in names else next((lowered[alias] for alias in usual if alias in lowered), None)
        if place is not None:
            places[ours] = place
    label_needed = rule.require_label or "label" in rule.columns
    lacking = [ours for ours in rule.aliases if ours not in places and (ours != "label" or label_needed)]
    if lacking:
        return places, rule.lacks(lacking, names)
    return places, _clash(names, [place for ours, place in places.items() if rule.columns.get(ours) != place])


def _clash(names: Sequence[str], guessed: Sequence[str]) -> str | None:
    """Which two columns have the same name, or one that differs in case alone from a column found by its usual name."""
    for at, name in enumerate(names):
        if name in names[:at]:
            what = f"column {_shorten(name)!r} occurs twice" if name else "two columns have no name"
            return f"{what}; found: {join_names(names)}"
    for place in guessed:
        for name in names:
            if name != place and name.lower() == place.lower():
                both = f"{_shorten(place)!r} and {_shorten(name)!r}"
                return f"columns {both} differ in case alone; found: {join_names(names)}"
    return None


def _text_fault(ours: str, text: object) -> str | None:
    """Why this is no text; None: it is one."""
    if not isinstance(text, str):
        return f"{ours} is {'null' if text is None else f'{type(text).__name__}, not text'}"
    if not text.strip():
        return f"empty {ours}"
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"{ours} is not valid Unicode (half of a surrogate pair)"
    return None


def iterate(
    path: str | PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    label_names: LabelNames | None = None,
    require_label: bool = True,
    on_error: OnError = "raise",
) -> Generator[Row, None, None]:
    """The rows of a file one by one, in constant memory.

    Args:
        path: a .csv, .tsv, .txt (tab separated), .jsonl or .json (lines) file, gzipped or not, or a .parquet, .arrow
            or .feather file (pyarrow); "-" is the standard input, JSON lines or CSV.
        columns: "premise", "hypothesis", "label" → the file's column names, for those without a usual name.
        label_names: what numbers or foreign names in the label column stand for; see `neurogame.labels.canonical`.
        require_label: a row without gold label comes as `NoGold`; otherwise as a pair with label None,
            and so does one whose label cannot be read.
        on_error: "raise" a `DataError` at the first row that is not a pair, or "skip": it comes as `Malformed`.
            The last one has `is_end` where the file is cut, the disk fails, or a quote of a CSV is never closed.

    Returns:
        A generator of `Pair`, `NoGold` and `Malformed`; close it to close the file.

    Raises:
        DataError: there is no such file, a column is missing, or, with on_error="raise", a row is malformed.

    Example:
        >>> sum(isinstance(row, Pair) for row in iterate("pairs.csv", on_error="skip"))  # doctest: +SKIP
    """
    return stream(fspath(path), Rule(columns or {}, label_names, require_label), on_error)


def stream(path: str, rule: Rule, on_error: str, *, plain: bool = False) -> Generator[Any, None, None]:
    """The rows that a rule makes of the records of a file, or of its lines (`plain`); the path is checked at once."""
    if on_error not in ("raise", "skip"):
        raise DataError(f"on_error {on_error!r} is unknown; allowed: raise, skip")
    return _stream(_existing(path), rule, fatal=on_error == "raise", plain=plain)


def _stream(path: str, rule: Rule, *, fatal: bool, plain: bool) -> Generator[Any, None, None]:
    rows, is_usable = 0, False  # is_usable: a record had all columns
    first_fault: str | None = None
    with open_file(path) as lines:
        file = lines.file
        try:
            header, records = plain_records(lines) if plain else read_records(lines, kind_of(path))
            if header is not None and (fault := rule.locate(header)[1]) is not None:
                raise DataError(f"{file}: {fault}")
            for line, record in records:
                rows += 1
                if isinstance(record, str):
                    row = Malformed(file, line, record)
                else:
                    row, fault = rule.row(record, file, line), rule.locate(record)[1]
                    is_usable, first_fault = is_usable or fault is None, first_fault or fault
                if fatal and isinstance(row, Malformed):
                    raise DataError(str(row))
                yield row
        except DAMAGE as error:
            rows += 1
            line = error.line if isinstance(error, TruncatedFileError) else lines.number + 1
            row = Malformed(file, line, f"the file is truncated or damaged: {error}", is_end=True)
            if fatal:
                raise DataError(str(row)) from error
            yield row
    if rows == 0:
        has_header = lines.number and not plain
        raise DataError(f"{file}: no rows" + (" below the header" if has_header else ", the file is empty"))
    if first_fault and not is_usable:
        raise DataError(f"{file}: in none of {rows} rows: {first_fault}")


def read(
    path: str | PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    label_names: LabelNames | None = None,
    require_label: bool = True,
    on_error: OnError = "raise",
    name: str | None = None,
    limit: int | None = None,
    keep: Callable[[Pair], bool] | None = None,
) -> PairDataset:
    """A file as a data set; arguments as of `iterate`.

    Args:
        path: the file, or "-".
        columns: see `iterate`.
        label_names: see `iterate`.
        require_label: rows without gold label are dropped and counted; otherwise kept with label None.
        on_error: "raise" at the first malformed row, or "skip" and record it. A file that is cut, and a quote of a
            CSV that is never closed, raise in both cases: nobody knows how many rows are missing.
        name: of the data set; the file's without suffix by default.
        limit: stop after so many pairs.
        keep: only the pairs for which this holds.

    Returns:
        The pairs in order, with what was dropped.

    Raises:
        DataError: as of `iterate`, or no pair is left.

    Example:
        >>> read("pairs.csv", columns={"premise": "text_a"}).summary()  # doctest: +SKIP
    """
    file = fspath(path)
    rows = iterate(file, columns=columns, label_names=label_names, require_label=require_label, on_error=on_error)
    stem = "stdin" if file == STDIN else Path(file.removesuffix(".gz")).stem
    return collect(rows, name=name or stem, source=file, limit=limit, keep=keep)


def collect(
    rows: Generator[Row, None, None],
    *,
    name: str,
    source: str,
    limit: int | None = None,
    keep: Callable[[Pair], bool] | None = None,
) -> PairDataset:
    """Rows as a data set with at least one pair, arguments as of `read`; closes the rows at the end or the limit."""
    check_limit(limit)
    pairs: list[Pair] = []
    malformed: list[Malformed] = []
    without_gold = left_out = 0
    with closing(rows) as stream:
        for row in stream:
            if isinstance(row, NoGold):
                without_gold += 1
            elif isinstance(row, Malformed):
                if row.is_end:
                    raise DataError(f"{row}; an unknown number of rows is missing, which is never skipped")
                malformed.append(row)
            elif keep is None or keep(row):
                pairs.append(row)
                if len(pairs) == limit:
                    break
            else:
                left_out += 1
    if not pairs:
        first = f" (the first: {malformed[0]})" if malformed else ""
        raise DataError(
            f"{source}: no pair is left: {without_gold} rows without gold label, {len(malformed)} malformed{first}, "
            f"{left_out} of another part"
        )
    return PairDataset(tuple(pairs), name, source, without_gold, tuple(malformed))


def check_limit(limit: int | None) -> None:
    """A limit is a positive number of pairs, or None."""
    if limit is not None and limit < 1:
        raise DataError(f"limit {limit} is not positive; allowed: a number of pairs, or None for all")


def _existing(path: str) -> str:
    """The path, if a file with a known suffix is there; else an error that names the nearest thing that is."""
    if path == STDIN:
        return path
    if Path(path).is_dir():
        raise DataError(f"{path} is a folder; a file is needed")
    if not Path(path).exists():
        raise DataError(f"{path} does not exist{_nearest(Path(path))}")
    if kind_of(path) is None and Path(path).is_file():  # a pipe has no suffix: its content is looked at
        raise DataError(f"{path}: the suffix is unknown; allowed: {', '.join(KINDS)}, text also with .gz")
    return path


def _nearest(path: Path) -> str:
    parent = path.parent
    if not parent.is_dir():
        return f", nor does the folder {parent}"
    files = sorted(entry.name for entry in parent.iterdir() if entry.is_file())
    same = [name for name in files if name.removesuffix(".gz") == path.name.removesuffix(".gz")]
    close = same or difflib.get_close_matches(path.name, files, n=1, cutoff=0.5)
    return f"; there is {parent / close[0]}" if close else f"; nothing in {parent} has a similar name"


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def join_names(names: Sequence[str]) -> str:
    """Names of columns for an error message."""
    shown = ", ".join(repr(_shorten(name)) for name in names[:_LISTED])
    return (shown or "none") + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
