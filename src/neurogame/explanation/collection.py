"""A file of pairs or of single texts, explained: a line of JSON per row, and pages to read them by; or a table of them.

    FOLDER/explanations.jsonl     one object per row of the file, in order; of a row that failed, the error
    FOLDER/index.html             the pairs with their heat maps, `PER_PAGE` to a page (index-2.html …)
    FOLDER/pairs/1.html …         the page of each pair

Explaining is one pass, drawing another: the lines are complete before the first page is written, and memory does not
grow with the file. Until then they are in `explanations.jsonl.part`, behind which an interrupted run is resumed; see
`neurogame.jobs.parts`. Where pairs share passes (`pipeline.is_batched`), `together` rows are written at once. A goal
that is called .parquet or .arrow is a table instead of a folder, a row for each line.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from neurogame import __version__
from neurogame._common.extras import need
from neurogame._common.records import plain
from neurogame._common.writing import naming_errors
from neurogame.classifier import Classifier, Progress, is_single
from neurogame.data.columnar import as_json
from neurogame.data.pairs import DataError, Malformed, NoGold, Pair
from neurogame.data.reading import Row, iterate
from neurogame.data.texts import Text, iterate_texts
from neurogame.explanation.pipeline import TOGETHER, explain_many, is_batched
from neurogame.explanation.reading import Question
from neurogame.explanation.record import Explanation
from neurogame.explanation.summary import plural
from neurogame.explanation.views.index import draw
from neurogame.jobs import parts, tables
from neurogame.jobs.parts import Part, Shard
from neurogame.jobs.source import Reading, file_digest, fingerprint, is_damage, repeatable

LINES = "explanations.jsonl"
_ALONE = Shard()
Pack = Callable[[Mapping[str, Any]], bytes]  # a record as bytes of the result


@dataclass(frozen=True)
class Done:
    """The result of `explain_file`: how many rows were explained, and how many failed."""

    explained: int
    failed: int
    first_failure: str | None
    resumed: int = 0  # rows that an earlier run had done
    noun: str = "pair"  # what was explained: pairs or texts

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {name: value for name, value in asdict(self).items() if name != "noun"}

    def summary(self) -> str:
        """One line."""
        line = f"{plural(self.explained, self.noun)} explained"
        line += f", {plural(self.resumed, 'row')} done before" if self.resumed else ""
        return line + (f", {self.failed} failed (the first: {self.first_failure})" if self.failed else "")


def explain_file(
    nli: Classifier,
    source: str | Path,
    folder: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    limit: int | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    together: int = TOGETHER,
    **question: Any,
) -> Done:
    """Explain the pairs of `source` in order, into a folder or a table; or its texts, if the explainer is for such.

    Args:
        nli: the model.
        source: a CSV, TSV or JSONL file, gzipped or not, a Parquet or Arrow file, or "-" for stdin.
        folder: new, or holding an interrupted run of the same question if `resume`; or a .parquet or .arrow file.
        columns: ours (premise, hypothesis, label; or text) → theirs, where the names are not the usual ones.
        limit: only the first so many rows.
        resume: continue an interrupted run.
        progress: called with the number of rows just done.
        together: rows that share passes and are written at once, where the method allows it.
        question: what `explain` takes: method, target, contrast, level, samples, seed.

    Returns:
        How many rows were explained, and how many failed.

    Raises:
        DataError: the source cannot be read to its end (what is complete stays), or no row could be explained.
    """
    goal, single = Path(folder).expanduser(), is_single(nli)
    check(source, goal, columns, resume=resume, single=single)
    asked = plain({"model": nli.name, "source": str(source), "columns": columns, "limit": limit, **question})
    lines, model, chunk = _lines(goal), fingerprint(nli), _chunk(nli, question, together)
    pack: Pack = _line
    if tables.is_table(goal):
        pack = _table({"version": __version__, "model": nli.name, "digest": model}, single=single)
    else:
        goal.mkdir(parents=True, exist_ok=True)
    job = {"version": __version__, **asked, "model": model, **({"chunk": chunk} if chunk > 1 else {})}
    rows = rows_of(source, columns, single=single)
    with closing(rows), Part(lines, _ALONE, job, source=file_digest(source), resume=resume) as part:
        before = part.at.rows
        try:
            if not part.at.ended:
                _explain(nli, question, Reading(islice(rows, limit), chunk), part, pack, progress)
        except BaseException as error:
            if is_damage(error) and repeatable(source):
                part.suspend()
            raise
        done = Done(**part.at.kept, resumed=before, noun="text" if single else "pair")
        if not done.explained:
            part.discard()
            raise DataError(
                f"{source}: none of {plural(done.failed, 'row')} could be explained; the first: {done.first_failure}"
            )
        if not tables.is_table(goal):
            draw(goal, part.path, title=Path(str(source)).name if str(source) != "-" else "stdin", asked=asked)
    parts.finish(lines, 1)
    return done


def rows_of(
    source: str | Path, columns: Mapping[str, str] | None = None, *, single: bool = False
) -> Generator[Row | Text, None, None]:
    """Pairs without labels, or single texts, of a file; what cannot be read comes as `Malformed`."""
    if not single:
        return iterate(source, columns=columns, require_label=False, on_error="skip")
    unknown = sorted(set(columns or {}) - {"text", "label"})
    if unknown:
        raise DataError(f"columns maps {unknown[0]!r}, but the explainer is for single texts; allowed: text")
    return iterate_texts(source, column=(columns or {}).get("text"), on_error="skip")


def _explain(
    nli: Classifier, question: Mapping[str, Any], reading: Reading, part: Part, pack: Pack, progress: Progress | None
) -> None:
    """Explain the rows that the part does not have yet; each chunk is on disk before the next is read."""
    kept = {"explained": 0, "failed": 0, "first_failure": None, **part.at.kept}
    for rows in reading.pending(part, _ALONE):
        records = _records(nli, rows, reading, question)
        for record in records:
            kept["failed" if "error" in record else "explained"] += 1
            if "error" in record and kept["first_failure"] is None:
                kept["first_failure"] = f"row {record['row']}: {record['error']}"
        part.write(reading.mark(**kept), b"".join(map(pack, records)))
        if progress is not None:
            progress(len(rows))
    part.write(reading.mark(ended=True, **kept), b"")


def write(
    nli: Classifier,
    rows: Iterator[Row | Text],
    file: IO[str],
    *,
    progress: Progress | None = None,
    live: bool = False,
    **question: Any,
) -> None:
    """A line of JSON per row: what `Explanation.from_dict` reads, and row, gold, columns; or row and error.

    Args:
        nli: the model.
        rows: of a file.
        file: where the lines go.
        progress: called with the number of rows just done.
        live: whether each row is answered before the next is read, as when they come from a person or a process.
        question: what `explain` takes.

    Raises:
        DataError: the source cannot be read to its end.
    """
    reading = Reading(rows, 1 if live else _chunk(nli, question))
    for chunk in reading:
        text = b"".join(map(_line, _records(nli, chunk, reading, question))).decode()
        with naming_errors(file.name):
            file.write(text)
            file.flush()
        if progress is not None:
            progress(len(chunk))


def _chunk(nli: Classifier, question: Mapping[str, Any], together: int = TOGETHER) -> int:
    """Rows that are explained and written at once."""
    try:
        return together if is_batched(nli, Question(**question)) else 1
    except (TypeError, ValueError):  # an invalid question, which the first row reports
        return 1


def _line(record: Mapping[str, Any]) -> bytes:
    return as_json(record).encode("utf-8", "backslashreplace") + b"\n"


def _table(metadata: Mapping[str, str], *, single: bool) -> Pack:
    """Rows of a table: the entries most asked for in columns of their own, the whole record as JSON in the last."""
    chunks = tables.Chunks(metadata, tables.lists(words="string", sides="string", scores="double"))
    texts = ("text",) if single else ("premise", "hypothesis")
    names = (*texts, "gold", "label", "method", "target", "sentence", *chunks.types, "columns", "error", "explanation")
    header = {"row": "int64", **dict.fromkeys(names)}

    def pack(record: Mapping[str, Any]) -> bytes:
        label = record.get("prediction", {}).get("label")
        row = {**record, "label": label, "explanation": None if "error" in record else as_json(record)}
        return chunks.message(header, [row], first=record["row"] == 1)

    return pack


def _records(
    nli: Classifier, rows: Sequence[Row | Text], reading: Reading, question: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The line of each row of the chunk that was read last: its number, and the explanation or the error."""
    texts = [tuple(_texts(row).values()) for row in rows if isinstance(row, Pair | Text)]
    results = iter(explain_many(nli, texts, **question))
    records = (_record(row, next(results) if isinstance(row, Pair | Text) else None) for row in rows)
    return [{"row": number, **record} for number, record in enumerate(records, 1 + reading.rows - len(rows))]


def _texts(row: Pair | Text) -> dict[str, str]:
    return {"text": row.text} if isinstance(row, Text) else {"premise": row.premise, "hypothesis": row.hypothesis}


def _record(row: Row | Text, result: Explanation | Exception | None) -> dict[str, Any]:
    """The explanation or the error, with the row's own label and columns."""
    if isinstance(row, Malformed):
        return {"error": f"line {row.line}: {row.reason}"}
    assert not isinstance(row, NoGold)  # labels are not asked for
    given: dict[str, Any] = {} if isinstance(row, Text) or row.label is None else {"gold": row.label}
    given |= {"columns": plain(row.extras)} if row.extras else {}
    if isinstance(result, Explanation):
        return {**result.to_dict(), **given}
    return {**_texts(row), **given, "error": " ".join(str(result).split()) or type(result).__name__}


def _lines(goal: Path) -> Path:
    """Where the records go: a file of the folder, or the table itself."""
    return goal if tables.is_table(goal) else goal / LINES


def check(
    source: str | Path,
    folder: Path,
    columns: Mapping[str, str] | None = None,
    *,
    resume: bool = False,
    single: bool = False,
) -> None:
    """Raise what can be raised before a model is loaded.

    Args:
        source: as of `explain_file`, like all that follow.
        folder: of the explanations, or the table.
        columns: ours → theirs.
        resume: whether an interrupted run is to be continued.
        single: whether the explainer is for single texts.

    Raises:
        DataError, FileExistsError, FileNotFoundError: source or folder cannot be used, or there is nothing to resume.
    """
    rows_of(source, columns, single=single).close()
    lines = _lines(folder)
    if tables.is_table(folder):
        need("pyarrow", "parquet")
        if not folder.parent.is_dir():
            raise DataError(f"{folder}: the folder {folder.parent} does not exist")
    elif folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; explanations go to a folder, or to a .parquet or .arrow file")
    if lines.exists():
        raise FileExistsError(f"{folder} already holds explanations, which are never overwritten; choose another")
    if not resume and parts.begun(_ALONE.path(lines)):
        raise FileExistsError(f"{folder} holds an interrupted run; --resume continues it, or choose another")
    parts.check(_ALONE.path(lines), resume=resume)
    if resume and not _ALONE.path(lines).exists():
        raise FileNotFoundError(f"{folder} holds no interrupted run: there is nothing to resume")
    if resume and not repeatable(source):
        raise DataError(f"{source} can be read only once; --resume needs a file")


def count(
    source: str | Path, columns: Mapping[str, str] | None = None, limit: int | None = None, *, single: bool = False
) -> int | None:
    """Rows of a file, for a bar with an end; None where it can be read only once."""
    if not repeatable(source):
        return None
    rows = rows_of(source, columns, single=single)
    with closing(rows):
        return sum(1 for _ in islice(rows, limit))
