"""A file of pairs, explained: a line of JSON per row, and pages to read them by.

    FOLDER/explanations.jsonl     one object per row of the file, in order, whatever became of it
    FOLDER/index.html             the pairs with their heat maps, `PER_PAGE` to a page (index-2.html …)
    FOLDER/pairs/1.html …         the page of each pair

Explaining is one pass, drawing another: the lines are complete before the first page is written, and memory does not
grow with the file. Until then they stand in `explanations.jsonl.part`, and an interrupted run goes on behind them.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from neurogame.classifier import Classifier, Progress
from neurogame.data.pairs import DataError, Malformed, NoGold, Pair
from neurogame.data.reading import Row, iterate
from neurogame.explanation.pipeline import explain
from neurogame.explanation.summary import counted
from neurogame.explanation.views.index import draw
from neurogame.records import plain
from neurogame.writing import named, sync, write_text

LINES, RUN = "explanations.jsonl", "run.json"  # what was asked, while the lines are written
_RECOVERABLE = (ArithmeticError, LookupError, RuntimeError, ValueError)  # of one row; the others go on


@dataclass(frozen=True)
class Done:
    """What became of the rows of a file."""

    explained: int
    failed: int
    first_failure: str | None
    resumed: int = 0  # rows that an earlier run had done

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    def summary(self) -> str:
        """One line."""
        said = f"{counted(self.explained, 'pair')} explained"
        said += f", {counted(self.resumed, 'row')} done before" if self.resumed else ""
        return said + (f", {self.failed} failed (the first: {self.first_failure})" if self.failed else "")


def explain_file(
    nli: Classifier,
    source: str | Path,
    folder: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    limit: int | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    **question: Any,
) -> Done:
    """Explain the pairs of `source` in order, into a folder.

    Args:
        nli: the model.
        source: a CSV, TSV or JSONL file, gzipped or not, or "-" for stdin.
        folder: new, or holding an interrupted run of the same question if `resume`.
        columns: ours → theirs, where the names of the columns are not the usual ones.
        limit: only the first so many rows.
        resume: go on where an interrupted run stopped.
        progress: told of each row.
        question: what `explain` takes: method, target, contrast, level, samples, seed.
    """
    goal = Path(folder).expanduser()
    check(source, goal, columns, resume=resume)
    asked = plain({"model": nli.name, "source": str(source), "columns": columns, "limit": limit, **question})
    goal.mkdir(parents=True, exist_ok=True)
    part, run = goal / f"{LINES}.part", goal / RUN
    done = _resumed(part, run, asked)
    if not done:
        write_text(run, json.dumps(asked, ensure_ascii=False, indent=1) + "\n")
    rows = iterate(source, columns=columns, require_label=False, on_error="skip")
    with closing(rows), part.open("a", encoding="utf-8", errors="backslashreplace") as file:
        write(nli, islice(rows, done, limit), file, first=done + 1, progress=progress, **question)
    found = _counted(part, done)
    if not found.explained:
        for path in (part, run):
            path.unlink()
        raise DataError(
            f"{source}: none of {counted(found.failed, 'row')} could be explained; the first: {found.first_failure}"
        )
    draw(goal, part, title=Path(str(source)).name if str(source) != "-" else "stdin", asked=asked)
    sync(part)
    part.rename(goal / LINES)
    run.unlink()
    return found


def write(
    nli: Classifier,
    rows: Iterator[Row],
    file: IO[str],
    *,
    first: int = 1,
    progress: Progress | None = None,
    **question: Any,
) -> None:
    """A line of JSON per row: what `Explanation.from_dict` reads, and row, gold, columns; or row and error."""
    for number, row in enumerate(rows, first):
        line = json.dumps({"row": number, **_record(nli, row, question)}, ensure_ascii=False)
        with named(file.name):
            file.write(line.encode("utf-8", "backslashreplace").decode() + "\n")
            file.flush()
        if progress is not None:
            progress(1)


def _record(nli: Classifier, row: Row, question: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(row, Malformed):
        return {"error": f"line {row.line}: {row.reason}"}
    assert not isinstance(row, NoGold)  # labels are not asked for
    given = _given(row)
    try:
        return {**explain(nli, row.premise, row.hypothesis, **question).to_dict(), **given}
    except _RECOVERABLE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        return {"premise": row.premise, "hypothesis": row.hypothesis, **given, "error": reason}


def _given(pair: Pair) -> dict[str, Any]:
    """The row's own label and columns."""
    found: dict[str, Any] = {} if pair.label is None else {"gold": pair.label}
    return {**found, "columns": plain(dict(pair.extras))} if pair.extras else found


def check(source: str | Path, folder: Path, columns: Mapping[str, str] | None = None, *, resume: bool = False) -> None:
    """Refuse what can be refused before a model is loaded."""
    iterate(source, columns=columns, require_label=False).close()
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; explanations go to a folder")
    if (folder / LINES).exists():
        raise FileExistsError(f"{folder} already holds explanations, which are never overwritten; choose another")
    begun = (folder / f"{LINES}.part").exists()
    if begun and not (folder / RUN).exists():
        raise DataError(f"{folder} holds lines but no {RUN}: it cannot be resumed; choose another folder")
    if begun and not resume:
        raise FileExistsError(f"{folder} holds an interrupted run; --resume goes on with it, or choose another folder")
    if resume and not begun:
        raise FileNotFoundError(f"{folder} holds no interrupted run: there is nothing to resume")
    if resume and str(source) == "-":
        raise DataError("stdin cannot be read again from where it stopped; --resume needs a file")


def count(source: str | Path, columns: Mapping[str, str] | None = None, limit: int | None = None) -> int | None:
    """Rows of a file, for a bar with an end; None where it can be read only once."""
    if str(source) == "-" or not Path(source).is_file():
        return None
    rows = iterate(source, columns=columns, require_label=False, on_error="skip")
    with closing(rows):
        return sum(1 for _ in islice(rows, limit))


def _resumed(part: Path, run: Path, asked: Mapping[str, Any]) -> int:
    """Rows that are done; the last line of an interrupted run may be half of one, and goes."""
    if not part.exists():
        return 0
    before = json.loads(run.read_text(encoding="utf-8"))
    other = sorted(name for name in {*before, *asked} if before.get(name) != asked.get(name))
    if other:
        raise DataError(f"{part.parent} holds a run with another {' and '.join(other)}; choose another folder")
    whole = done = 0
    with part.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            whole, done = whole + len(line), done + 1
    with part.open("r+b") as file:
        file.truncate(whole)
    return done


def _counted(lines: Path, resumed: int) -> Done:
    explained, failures = 0, list[str]()
    with lines.open(encoding="utf-8") as file:
        for row in map(json.loads, file):
            failures += [f"row {row['row']}: {row['error']}"] if "error" in row else []
            explained += "error" not in row
    return Done(explained, len(failures), failures[0] if failures else None, resumed)
