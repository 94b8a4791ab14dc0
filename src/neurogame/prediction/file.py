"""`predict_file`: the predictions for a file of pairs, read and written as a stream.

A chunk of rows is read, predicted and written before the next; chunks are the same for any number of processes, so an
interrupted run that is resumed, and several processes that share a file, write the bytes that one would have written.
How that is done is in `neurogame.jobs`.
"""

import gzip
import io
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from neurogame import __version__
from neurogame.data import columnar
from neurogame.data.formats import COLUMNAR, kind_of
from neurogame.data.pairs import DataError, Pair
from neurogame.data.reading import OnError, iterate
from neurogame.extras import need
from neurogame.jobs import parts, tables
from neurogame.jobs.parts import Part, PartError, Shard
from neurogame.jobs.source import Reading, Rows, file_digest, fingerprint, is_damage, repeatable
from neurogame.modeling.checking import ModelError
from neurogame.nli import NLI, Prediction, Progress
from neurogame.prediction.lines import CsvLines, JsonLines, LineWriter, TableRows, TextLines
from neurogame.prediction.retrying import one_by_one
from neurogame.validation import check_count

__all__ = ["CHUNK", "FORMATS", "Done", "already", "check", "fingerprint", "predict_file"]
CHUNK = 1024  # rows that are read, sorted by length and predicted together
FORMATS = (".jsonl", ".csv", *tables.FORMATS)  # text also with .gz
_SHOWN = 5  # rows that failed, of which the result names the reason
Predict = Callable[[Sequence[Pair]], list[Prediction | ModelError]]


@dataclass(frozen=True)
class Done:
    """The result of `predict_file`: how many pairs were labelled, cut, skipped."""

    pairs: int
    truncated: int  # longer than the model reads, and cut
    malformed_count: int  # rows that are no pair, or pairs over which the model fails
    malformed: tuple[str, ...] = ()  # the first few, as "file:line: reason"
    left_out: tuple[str, ...] = ()  # columns that came too late for the header of a CSV
    resumed: int = 0  # of the pairs, those that an interrupted run had labelled
    shard: str | None = None  # "2/4": pairs, truncated and left_out are those of this part
    missing: tuple[str, ...] = ()  # parts that the file waits for
    already: bool = False  # the file was there: nothing was done

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    def summary(self) -> str:
        """One line, and one for each malformed row that is shown."""
        if self.already:
            return "the output exists already, nothing to do"
        counts = [f"{self.pairs} {'pair' if self.pairs == 1 else 'pairs'} labelled"]
        if self.resumed:
            counts[0] += f" ({self.resumed} of them before)"
        if self.shard:
            counts[0] = f"part {self.shard}: {counts[0]}"
        if self.truncated:
            counts.append(f"{self.truncated} longer than the model reads and cut")
        if self.malformed_count:
            counts.append(f"{self.malformed_count} malformed {'row' if self.malformed_count == 1 else 'rows'} skipped")
        if self.missing:
            counts.append(f"the file waits for part {', '.join(self.missing)}")
        lines = [", ".join(counts), *self.malformed]
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
    resume: bool = False,
    shard: Shard | None = None,
) -> Done:
    """Label the pairs of `source` in order and write one line for each.

    Args:
        nli: the model.
        source: a CSV, TSV or JSONL file, gzipped or not, a Parquet or Arrow file, or "-" for stdin.
        output: a .jsonl or .csv file, gzipped or not, or a .parquet or .arrow file, that does not exist yet: complete
            or absent, never in part; None: stdout.
        columns: ours → theirs, where the names of the columns are not the usual ones.
        on_error: whether a malformed row, or a pair over which the model fails, ends everything or is skipped and
            counted.
        batch_size: pairs per forward pass.
        as_json: on stdout, JSON lines instead of label, probability, premise and hypothesis between tabs.
        progress: called after each batch.
        chunk: rows in memory at a time; their predictions are written before the next are read.
        resume: continue an interrupted run, or start one; does nothing if the output exists.
        shard: label only this part of the chunks. The part that is complete last puts all of them together.

    Returns:
        What became of the rows.

    Raises:
        DataError: source or output cannot be used; of its kind `PartError`: what has been written stays.
    """
    check_count("chunk", chunk)
    shard = shard or Shard()
    check(source, output, columns, resume=resume, shard=shard)

    advance: Progress = progress or (lambda _: None)

    def predict(pairs: Sequence[Pair]) -> list[Prediction | ModelError]:
        texts = [(pair.premise, pair.hypothesis) for pair in pairs]
        if on_error == "raise":
            return [*nli.predict(texts, batch_size=batch_size, progress=advance)]
        return one_by_one(lambda some: nli.predict(some, batch_size=batch_size, progress=advance), texts)

    rows = iterate(source, columns=columns, require_label=False, on_error=on_error)
    with closing(rows):
        reading = Reading(rows, chunk)
        if output is None:
            return _to_stdout(predict, reading, str(source), as_json=as_json)
        goal = Path(output)
        if resume and (there := already(goal, shard)):
            return there
        model, again = fingerprint(nli), repeatable(source)
        job = {
            "version": __version__,
            "model": model,
            "columns": columns,
            "on_error": on_error,
            "batch_size": batch_size,
            "chunk": chunk,
        }
        metadata = {"version": __version__, "model": nli.name, "digest": model}
        with Part(goal, shard, job, source=file_digest(source), resume=resume) as part:
            before = part.at.kept.get("pairs", 0)
            try:
                if not part.at.ended:
                    sink = _Sink(goal, str(source), metadata)
                    _to_part(predict, reading, part, shard, sink, str(source), advance)
            except BaseException as error:
                if again and is_damage(error):
                    part.suspend()
                elif not again or (isinstance(error, DataError) and not isinstance(error, PartError)):
                    part.discard()  # it could not be resumed: the source has to change
                raise
        return _done(part.at.kept, shard, before, *parts.finish(goal, shard.count))


def check(
    source: str | Path,
    output: str | Path | None,
    columns: Mapping[str, str] | None = None,
    *,
    resume: bool = False,
    shard: Shard | None = None,
) -> None:
    """Raise what can be raised before a model is loaded: a missing source, an output that is in use or unknown.

    Args:
        source: as of `predict_file`, like all that follow.
        output: the file; None: stdout.
        columns: ours → theirs.
        resume: whether an interrupted run is to be continued.
        shard: the part to be written; None: all of it.

    Raises:
        DataError: source, output or part cannot be used.
    """
    iterate(source, columns=columns, require_label=False).close()
    shard = shard or Shard()
    if output is None:
        if resume or shard.count > 1:
            raise DataError("--resume and --shard need -o FILE")
        return
    path = Path(output)
    if _suffix(path) not in FORMATS:
        has = repr(path.suffix) if path.suffix else "no suffix"
        raise DataError(f"{path}: predictions are written as {' or '.join(FORMATS)}, it has {has}; text may have .gz")
    if tables.is_table(path):
        need("pyarrow", "parquet")
    if not path.parent.is_dir():
        raise DataError(f"{path}: the folder {path.parent} does not exist")
    if (resume or shard.count > 1) and not repeatable(source):
        raise DataError(f"{source} can be read only once; --resume and parts need a file")
    if path.exists():
        if not resume:
            raise DataError(f"{path} exists already; predictions never overwrite a file")
        return
    parts.check_others(path, shard)
    parts.check(shard.path(path), resume=resume)


def already(output: Path, shard: Shard) -> Done | None:
    """The result of `resume` where the output exists: nothing to do."""
    if not output.exists():
        return None
    parts.finish(output, shard.count)  # a process may have died between its last steps
    return Done(0, 0, 0, already=True)


def _suffix(path: Path) -> str:
    """Of the format; "" for a gzipped table, which is no format."""
    inner = Path(path.name.lower().removesuffix(".gz"))
    return "" if tables.is_table(inner) and not tables.is_table(path) else inner.suffix


def _check_pairs(reading: Reading, source: str, failed: Sequence[str] = (), *, labelled: int = 1) -> None:
    """A file without any pair is an error, and so is one over whose pairs the model fails, all of them."""
    if failed and not labelled:
        raise DataError(f"{source}: no pair is labelled (the first: {failed[0]})")
    if not reading.pairs:
        bad = f"{reading.malformed_count} malformed rows (the first: {reading.malformed[0]})"
        raise DataError(f"{source}: no pair to label, {bad}")


def _sorted_out(
    pairs: Sequence[Pair], answers: Sequence[Prediction | ModelError], source: str
) -> tuple[list[Pair], list[Prediction], list[str]]:
    """The pairs that have a prediction, with it, and a line for each of the others."""
    both = [(pair, answer) for pair, answer in zip(pairs, answers, strict=True) if isinstance(answer, Prediction)]
    failed = [
        f"{source}: premise {pair.premise!r:.60}: {answer}"
        for pair, answer in zip(pairs, answers, strict=True)
        if isinstance(answer, ModelError)
    ]
    return [pair for pair, _ in both], [prediction for _, prediction in both], failed


def _pairs(rows: Rows) -> list[Pair]:
    return [row for row in rows if isinstance(row, Pair)]


def _to_stdout(predict: Predict, reading: Reading, source: str, *, as_json: bool) -> Done:
    sink = JsonLines(sys.stdout) if as_json else TextLines(sys.stdout)
    truncated, failed = 0, []
    for rows in reading:
        asked = _pairs(rows)
        pairs, predictions, faults = _sorted_out(asked, predict(asked), source)
        sink.write(pairs, predictions)
        truncated += sum(prediction.truncated for prediction in predictions)
        failed += faults
    _check_pairs(reading, source, failed, labelled=reading.pairs - len(failed))
    shown = (*reading.malformed, *failed)[:_SHOWN]
    return Done(reading.pairs - len(failed), truncated, reading.malformed_count + len(failed), shown)


class _Sink:
    """The lines of a file, and each chunk as the bytes that are stored; gzipped chunks in a row are a gzipped file."""

    lines: LineWriter

    def __init__(self, output: Path, source: str, metadata: Mapping[str, str]) -> None:
        self._text, self._bytes = io.StringIO(newline=""), io.BytesIO()
        self._gzipped = output.suffix.lower() == ".gz"
        if tables.is_table(output):
            kind = kind_of(source) if repeatable(source) else None
            types = columnar.types(source, str(kind)) if kind in COLUMNAR else None
            self.lines = TableRows(self._bytes, tables.Chunks(metadata, types))
        else:
            self.lines = CsvLines(self._text) if _suffix(output) == ".csv" else JsonLines(self._text)

    def take(self) -> bytes:
        """What has been written since the last call."""
        data = self._bytes.getvalue() + self._text.getvalue().encode("utf-8", "backslashreplace")
        for file in (self._text, self._bytes):
            file.seek(0)
            file.truncate()
        return gzip.compress(data, mtime=0) if self._gzipped else data


def _to_part(
    predict: Predict, reading: Reading, part: Part, shard: Shard, sink: _Sink, source: str, progress: Progress
) -> None:
    """The chunks of a part that are not there yet."""
    kept = {"pairs": 0, "truncated": 0, "left_out": [], "failed_count": 0, "failed": [], **part.at.kept}
    chunks = reading.pending(
        part,
        shard,
        seen=lambda rows: sink.lines.meet(_pairs(rows)),
        skipped=lambda rows: progress(len(_pairs(rows))),
    )
    for rows in chunks:
        asked = _pairs(rows)
        pairs, predictions, faults = _sorted_out(asked, answers := predict(asked), source)
        if sink.lines.first and not pairs:  # no label to name the columns of the header by
            raise next(answer for answer in answers if isinstance(answer, ModelError))
        sink.lines.write(pairs, predictions)
        kept["pairs"] += len(pairs)
        kept["failed_count"] += len(faults)
        kept["failed"] = [*kept["failed"], *faults][:_SHOWN]
        kept["truncated"] += sum(prediction.truncated for prediction in predictions)
        kept["left_out"] = [*dict.fromkeys([*kept["left_out"], *sink.lines.left_out])]
        part.write(reading.mark(**kept), sink.take())
    _check_pairs(reading, source, kept["failed"], labelled=kept["pairs"] + shard.count - 1)
    whole = {"malformed_count": reading.malformed_count, "malformed": reading.malformed}
    part.write(reading.mark(ended=True, **kept, **whole), b"")


def _done(
    own: Mapping[str, Any], shard: Shard, before: int, joined: Sequence[Mapping[str, Any]], missing: Sequence[Shard]
) -> Done:
    """Of the whole file, if this process has completed it; else of its part."""
    counted = joined or [own]
    failed = [line for kept in counted for line in kept.get("failed", ())]
    return Done(
        pairs=sum(kept["pairs"] for kept in counted),
        truncated=sum(kept["truncated"] for kept in counted),
        malformed_count=own["malformed_count"] + sum(kept.get("failed_count", 0) for kept in counted),
        malformed=(*own["malformed"], *failed)[:_SHOWN],
        left_out=tuple(dict.fromkeys(name for kept in counted for name in kept["left_out"])),
        resumed=before,
        shard=None if joined else str(shard),
        missing=tuple(map(str, missing)),
    )
