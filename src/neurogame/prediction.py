"""Predictions for a file of pairs of any size: in constant memory, resumed after a crash, sharded over many machines.

A chunk of rows is read, predicted and written before the next; chunks are the same for any number of processes, so an
interrupted run that is resumed, and several processes that share a file, write the bytes that one would have written.
How that is done is in `neurogame.jobs`; how a file becomes pairs in `data.reading`.

What a line of output holds: the row's own columns under their own names (an id, a genre …), premise and
hypothesis, `gold` where the row has a label, and what the model says: `label`, `probabilities`,
`logits`, `truncated`. Of two columns with the same name the model's is written.
"""

import csv
import gzip
import io
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from neurogame import __version__
from neurogame._common.extras import need
from neurogame._common.printing import plural, printable
from neurogame._common.validation import check_count
from neurogame.data import columnar
from neurogame.data.formats import COLUMNAR, kind_of
from neurogame.data.pairs import DataError, Pair
from neurogame.data.reading import OnError, iterate
from neurogame.jobs import parts, tables
from neurogame.jobs.parts import Part, PartError, Shard
from neurogame.jobs.source import Reading, Rows, file_digest, fingerprint, is_damage, repeatable
from neurogame.modeling.checking import ModelError
from neurogame.nli import NLI, Prediction, Progress

__all__ = ["CHUNK", "FORMATS", "Done", "PartError", "Shard", "already", "check", "predict_file"]
CHUNK = 1024  # rows that are read, sorted by length and predicted together
FORMATS = (".jsonl", ".csv", *tables.FORMATS)  # text also with .gz
_SHOWN = 5  # rows that failed, of which the result names the reason
_OURS = frozenset({"premise", "hypothesis", "gold", *Prediction.__dataclass_fields__})  # of a line of JSON
_HARMLESS = ("a", "b")  # a pair that every model can read
Texts = tuple[str, str]
Labelled = Sequence[tuple[Pair, Prediction]]


@dataclass(frozen=True)
class Done:
    """The result of `predict_file`: how many pairs were labelled, cut, skipped."""

    pairs: int
    truncated: int  # longer than the model reads, and cut
    malformed_count: int  # rows that are no pair, or pairs on which the model fails
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
        counts = [f"{plural(self.pairs, 'pair')} labelled"]
        if self.resumed:
            counts[0] += f" ({self.resumed} of them before)"
        if self.shard:
            counts[0] = f"part {self.shard}: {counts[0]}"
        if self.truncated:
            counts.append(f"{self.truncated} longer than the model reads and cut")
        if self.malformed_count:
            counts.append(f"{plural(self.malformed_count, 'malformed row')} skipped")
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
        on_error: whether a malformed row, or a pair on which the model fails, ends everything or is skipped and
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

    def predict(texts: Sequence[Texts]) -> list[Prediction]:
        return nli.predict(texts, batch_size=batch_size, progress=advance)

    with closing(iterate(source, columns=columns, require_label=False, on_error=on_error)) as rows:
        job = _Job(predict, Reading(rows, chunk), str(source), skips=on_error == "skip")
        if output is None:
            return job.to_stdout(_json_lines if as_json else _text_lines)
        goal = Path(output)
        if resume and (done := already(goal, shard)):
            return done
        model, again = fingerprint(nli), repeatable(source)
        depends_on: dict[str, Any] = {"version": __version__, "model": model, "columns": columns, "on_error": on_error}
        depends_on |= {"batch_size": batch_size, "chunk": chunk}
        with Part(goal, shard, depends_on, source=file_digest(source), resume=resume) as part:
            before = part.at.kept.get("pairs", 0)
            try:
                if not part.at.ended:
                    metadata = {"version": __version__, "model": nli.name, "digest": model}
                    job.to_part(part, shard, _Writer(goal, str(source), metadata), advance)
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


def one_by_one(
    predict: Callable[[Sequence[Texts]], list[Prediction]], pairs: Sequence[Texts], *, works: bool = False
) -> list[Prediction | ModelError]:
    """The prediction of each pair, or why there is none; ModelError if the model answers no pair at all.

    A tokenizer that panics, or a logit that is NaN, raises for a whole list. The list is then halved until the pairs
    that raise are alone: a few of them cost a few more passes. `works`: the model is known to answer some pair.
    """
    try:
        return [*predict(pairs)]
    except ModelError as error:
        if not works:
            predict([_HARMLESS])
        if len(pairs) == 1:
            return [error]
    middle = len(pairs) // 2
    return [part for half in (pairs[:middle], pairs[middle:]) for part in one_by_one(predict, half, works=True)]


class _Job:
    """Predicts the pairs of a file, chunk by chunk; `kept` counts what became of them.

    With `skips`, a pair on which the model fails is skipped and counted.
    """

    def __init__(
        self, predict: Callable[[Sequence[Texts]], list[Prediction]], reading: Reading, source: str, *, skips: bool
    ) -> None:
        self.predict, self.reading, self.source, self.skips = predict, reading, source, skips
        self.kept: dict[str, Any] = {"pairs": 0, "truncated": 0, "left_out": [], "failed_count": 0, "failed": []}

    def to_stdout(self, lines: Callable[[Labelled], str]) -> Done:
        """Each chunk as `lines` writes it."""
        for rows in self.reading:
            sys.stdout.write(lines(self._label(rows)))
            sys.stdout.flush()
        self._finish(Shard())
        return _done(self.kept, Shard(), 0, [self.kept], [])

    def to_part(self, part: Part, shard: Shard, writer: "_Writer", progress: Progress) -> None:
        """The chunks of a part that are not there yet."""
        self.kept |= part.at.kept
        chunks = self.reading.pending(
            part,
            shard,
            seen=lambda rows: writer.meet(_pairs(rows)),
            skipped=lambda rows: progress(len(_pairs(rows))),
        )
        for rows in chunks:
            data = writer.chunk(self._label(rows, needs_one=writer.is_first))
            self.kept["left_out"] = [*dict.fromkeys([*self.kept["left_out"], *writer.left_out])]
            part.write(self.reading.mark(**self.kept), data)
        self._finish(shard)
        part.write(self.reading.mark(ended=True, **self.kept), b"")

    def _label(self, rows: Rows, *, needs_one: bool = False) -> Labelled:
        """The pairs of a chunk that have a prediction, with it; `needs_one` raises the error where none has."""
        pairs = _pairs(rows)
        texts = [(pair.premise, pair.hypothesis) for pair in pairs]
        answers = one_by_one(self.predict, texts) if self.skips else self.predict(texts)
        labelled, kept = [], self.kept
        for pair, answer in zip(pairs, answers, strict=True):
            if isinstance(answer, Prediction):
                labelled.append((pair, answer))
                continue
            if needs_one and not any(isinstance(other, Prediction) for other in answers):
                raise answer  # there is no label to name the columns of the header by
            kept["failed_count"] += 1
            kept["failed"] = [*kept["failed"], f"{self.source}: premise {pair.premise!r:.60}: {answer}"][:_SHOWN]
        kept["pairs"] += len(labelled)
        kept["truncated"] += sum(prediction.truncated for _, prediction in labelled)
        return labelled

    def _finish(self, shard: Shard) -> None:
        """Record the malformed rows; raise if the file has no pair, or the model failed on every pair."""
        reading, failed = self.reading, self.kept["failed"]
        if failed and not self.kept["pairs"] and shard.count == 1:
            raise DataError(f"{self.source}: no pair is labelled (the first: {failed[0]})")
        if not reading.pairs:
            bad = f"{reading.malformed_count} malformed rows (the first: {reading.malformed[0]})"
            raise DataError(f"{self.source}: no pair to label, {bad}")
        self.kept |= {"malformed_count": reading.malformed_count, "malformed": reading.malformed}


def _done(
    own: Mapping[str, Any], shard: Shard, before: int, joined: Sequence[Mapping[str, Any]], missing: Sequence[Shard]
) -> Done:
    """The counts of the whole file if this process completed it, else of its own part."""
    every = joined or [own]
    failed = [line for kept in every for line in kept.get("failed", ())]
    return Done(
        pairs=sum(kept["pairs"] for kept in every),
        truncated=sum(kept["truncated"] for kept in every),
        malformed_count=own["malformed_count"] + sum(kept.get("failed_count", 0) for kept in every),
        malformed=(*own["malformed"], *failed)[:_SHOWN],
        left_out=tuple(dict.fromkeys(name for kept in every for name in kept["left_out"])),
        resumed=before,
        shard=None if joined else str(shard),
        missing=tuple(map(str, missing)),
    )


def _pairs(rows: Rows) -> list[Pair]:
    return [row for row in rows if isinstance(row, Pair)]


# Formats


def _suffix(path: Path) -> str:
    """The suffix of the format; "" for a gzipped table, which is not supported."""
    inner = Path(path.name.lower().removesuffix(".gz"))
    return "" if tables.is_table(inner) and not tables.is_table(path) else inner.suffix


def _text_lines(labelled: Labelled) -> str:
    """Label, its probability, premise, hypothesis, between tabs: for reading, and for `cut` and `sort`."""
    lines = []
    for pair, prediction in labelled:
        texts = (printable(" ".join(text.split())) for text in (pair.premise, pair.hypothesis))
        probability = f"{prediction.probabilities[prediction.label]:.3f}"
        lines.append("\t".join((prediction.label, probability, *texts)) + "\n")
    return "".join(lines)


def _json_lines(labelled: Labelled) -> str:
    """One object per pair; half a surrogate pair, which JSON can hold and UTF-8 cannot, stays as JSON writes it."""
    lines = []
    for pair, prediction in labelled:
        gold = _gold(pair)
        row = {name: value for name, value in pair.extras.items() if name not in _OURS}
        row |= {"premise": pair.premise, "hypothesis": pair.hypothesis}
        row |= ({} if gold is None else {"gold": gold}) | vars(prediction)  # `to_dict` without its copies
        lines.append(columnar.as_json(row) + "\n")
    return "".join(lines).encode("utf-8", "backslashreplace").decode()


class _Writer:
    """Chunks of a file as the bytes that are stored; gzipped chunks in a row are a gzipped file.

    A CSV or a table (the columns of a CSV, with types) has one header: the columns of the first chunk with a pair.
    """

    def __init__(self, output: Path, source: str, metadata: Mapping[str, str]) -> None:
        self.kind, self.is_gzipped = _suffix(output), output.suffix.lower() == ".gz"
        self.own: dict[str, None] | None = None  # columns of the source, in order; None: no pair has been met yet
        self.is_labelled = self.is_first = False  # is_first: the chunk that was met last begins with the header
        self.left_out: dict[str, None] = {}  # columns for which the header has no place
        if tables.is_table(output):
            kind = kind_of(source) if repeatable(source) else None
            types = columnar.types(source, str(kind)) if kind in COLUMNAR else None
            self.table = tables.Chunks(metadata, types)

    def meet(self, pairs: Sequence[Pair]) -> None:
        """Take the header from the first chunk with a pair; each chunk is shown, so that all shards have one header."""
        self.is_first = self.kind != ".jsonl" and self.own is None and bool(pairs)
        if self.is_first:
            self.own = dict.fromkeys(name for pair in pairs for name in pair.extras)
            self.is_labelled = any(_gold(pair) is not None for pair in pairs)

    def chunk(self, labelled: Labelled) -> bytes:
        """The bytes of the chunk that `meet` was last called with."""
        if self.kind == ".jsonl":
            data = _json_lines(labelled).encode()
        else:
            data = self._csv(labelled) if self.kind == ".csv" else self._message(labelled)
        return gzip.compress(data, mtime=0) if self.is_gzipped else data

    def _rows(self, labelled: Labelled) -> tuple[list[str], list[dict[str, Any]]]:
        """The header and the rows; columns that are not in the header are recorded in `left_out`."""
        answers = [
            {"premise": pair.premise, "hypothesis": pair.hypothesis, "gold": _gold(pair), "label": prediction.label}
            | probability_columns(prediction)
            | {"truncated": prediction.truncated}
            for pair, prediction in labelled
        ]
        names = answers[0] if answers else {}
        header = [name for name in self.own or () if name not in names]
        header += [name for name in names if name != "gold" or self.is_labelled]
        rows = [{**pair.extras, **answer} for (pair, _), answer in zip(labelled, answers, strict=True)]
        for row in rows:
            self.left_out |= dict.fromkeys(name for name in row if name not in header and row[name] is not None)
        return header, rows

    def _csv(self, labelled: Labelled) -> bytes:
        header, rows = self._rows(labelled)
        text = io.StringIO(newline="")
        out = csv.writer(text)
        if self.is_first:
            out.writerow(header)
        for row, (_, prediction) in zip(rows, labelled, strict=True):
            row |= {name: f"{p:.6f}" for name, p in probability_columns(prediction).items()}
            cells = (row.get(name) for name in header)
            out.writerow([tables.json_of(cell) if isinstance(cell, list | dict | bool) else cell for cell in cells])
        return text.getvalue().encode("utf-8", "backslashreplace")

    def _message(self, labelled: Labelled) -> bytes:
        header, rows = self._rows(labelled)
        if not rows:
            return b""
        ours: dict[str, str] = dict.fromkeys(("premise", "hypothesis", "gold", "label"), "string")
        ours |= {"truncated": "bool", **dict.fromkeys(probability_columns(labelled[0][1]), "double")}
        for row in rows:
            row["gold"] = None if row["gold"] is None else str(row["gold"])
        return self.table.message({name: ours.get(name) for name in header}, rows, first=self.is_first)


def probability_columns(prediction: Prediction) -> dict[str, float]:
    """p_LABEL → probability: the columns of a table."""
    return {f"p_{name}": p for name, p in prediction.probabilities.items()}


def _gold(pair: Pair) -> Any:
    """The row's gold label: its column of that name, else its label by name, or as it is if it is none (a number)."""
    gold = pair.extras.get("gold", pair.label)
    return pair.extras.get("label") if gold is None else gold
