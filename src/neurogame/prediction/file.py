"""`predict_file`: the predictions for a file of pairs, read and written as a stream.

A chunk of rows is read, predicted and written before the next; chunks are the same for any number of processes, so an
interrupted run that is resumed, and several processes that share a file, write the bytes that one would have written.
How that is done is in `neurogame.jobs`.
"""

import gzip
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from neurogame.jobs.source import Reading, file_digest, fingerprint, is_damage, repeatable
from neurogame.nli import NLI, Prediction, Progress
from neurogame.prediction.lines import CsvLines, JsonLines, LineWriter, TableRows, TextLines
from neurogame.validation import check_count

__all__ = ["CHUNK", "FORMATS", "Done", "already", "check", "fingerprint", "predict_file"]
CHUNK = 1024  # rows that are read, sorted by length and predicted together
FORMATS = (".jsonl", ".csv", *tables.FORMATS)  # text also with .gz
Say = Callable[[Sequence[Pair]], list[Prediction]]


@dataclass(frozen=True)
class Done:
    """What became of the rows of a file."""

    pairs: int
    truncated: int  # longer than the model reads, and cut
    malformed_count: int
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
        said = [f"{self.pairs} {'pair' if self.pairs == 1 else 'pairs'} labelled"]
        if self.resumed:
            said[0] += f" ({self.resumed} of them before)"
        if self.shard:
            said[0] = f"part {self.shard}: {said[0]}"
        if self.truncated:
            said.append(f"{self.truncated} longer than the model reads and cut")
        if self.malformed_count:
            said.append(f"{self.malformed_count} malformed {'row' if self.malformed_count == 1 else 'rows'} skipped")
        if self.missing:
            said.append(f"the file waits for part {', '.join(self.missing)}")
        lines = [", ".join(said), *self.malformed]
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
        on_error: whether a malformed row ends everything or is skipped and counted.
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

    def say(pairs: Sequence[Pair]) -> list[Prediction]:
        texts = [(pair.premise, pair.hypothesis) for pair in pairs]
        return nli.predict(texts, batch_size=batch_size, progress=progress or (lambda _: None))

    rows = iterate(source, columns=columns, require_label=False, on_error=on_error)
    with closing(rows):
        reading = Reading(rows, chunk)
        if output is None:
            return _to_stdout(say, reading, str(source), as_json=as_json)
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
        metadata = {"version": __version__, "model": str(getattr(nli, "name", "")), "digest": model}
        with Part(goal, shard, job, source=file_digest(source), resume=resume) as part:
            before = part.at.kept.get("pairs", 0)
            try:
                if not part.at.ended:
                    sink = _Sink(goal, str(source), metadata)
                    _to_part(say, reading, part, shard, sink, str(source), progress)
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
    """Refuse what can be refused before a model is loaded: a missing source, an output that is in use or unknown."""
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


def _pairs(reading: Reading, source: str) -> Iterator[list[Pair]]:
    """The pairs of each chunk; a file without any is an error."""
    for rows in reading:
        yield [row for row in rows if isinstance(row, Pair)]
    if not reading.pairs:
        bad = f"{reading.malformed_count} malformed rows (the first: {reading.malformed[0]})"
        raise DataError(f"{source}: no pair to label, {bad}")


def _to_stdout(say: Say, reading: Reading, source: str, *, as_json: bool) -> Done:
    sink = JsonLines(sys.stdout) if as_json else TextLines(sys.stdout)
    truncated = 0
    for pairs in _pairs(reading, source):
        predictions = say(pairs)
        sink.write(pairs, predictions)
        truncated += sum(prediction.truncated for prediction in predictions)
    return Done(reading.pairs, truncated, reading.malformed_count, tuple(reading.malformed))


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
    say: Say, reading: Reading, part: Part, shard: Shard, sink: _Sink, source: str, progress: Progress | None
) -> None:
    """The chunks of a part that are not there yet."""
    start, kept = part.at, {"pairs": 0, "truncated": 0, "left_out": [], **part.at.kept}
    chunk = -1
    for chunk, pairs in enumerate(_pairs(reading, source)):
        sink.lines.meet(pairs)
        reading.check(chunk, start, part.path)
        if not shard.owns(chunk):
            continue
        if chunk <= start.chunk:
            if progress is not None:
                progress(len(pairs))
            continue
        predictions = say(pairs)
        sink.lines.write(pairs, predictions)
        kept["pairs"] += len(pairs)
        kept["truncated"] += sum(prediction.truncated for prediction in predictions)
        kept["left_out"] = [*dict.fromkeys([*kept["left_out"], *sink.lines.left_out])]
        part.write(reading.mark(chunk, **kept), sink.take())
    reading.check_end(chunk, start, part.path)
    whole = {"malformed_count": reading.malformed_count, "malformed": reading.malformed}
    part.write(reading.mark(chunk + 1, ended=True, **kept, **whole), b"")


def _done(
    own: Mapping[str, Any], shard: Shard, before: int, joined: Sequence[Mapping[str, Any]], missing: Sequence[Shard]
) -> Done:
    """Of the whole file, if this process has completed it; else of its part."""
    counted = joined or [own]
    return Done(
        pairs=sum(kept["pairs"] for kept in counted),
        truncated=sum(kept["truncated"] for kept in counted),
        malformed_count=own["malformed_count"],
        malformed=tuple(own["malformed"]),
        left_out=tuple(dict.fromkeys(name for kept in counted for name in kept["left_out"])),
        resumed=before,
        shard=None if joined else str(shard),
        missing=tuple(map(str, missing)),
    )
