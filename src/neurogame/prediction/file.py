"""`predict_file`: the predictions for a file of pairs, read and written as a stream.

A chunk of rows is read, predicted and written before the next; chunks are the same for any number of processes, so an
interrupted run that goes on, and several processes that share a file, write the bytes that one would have written.
How they are kept is in `parts`.
"""

import gzip
import hashlib
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from neurogame import __version__
from neurogame._types import Tensor
from neurogame.data.formats import DAMAGE, STDIN
from neurogame.data.pairs import DataError, Malformed, Pair
from neurogame.data.reading import OnError, Row, iterate
from neurogame.nli import NLI, Prediction, Progress
from neurogame.prediction import parts
from neurogame.prediction.lines import CsvLines, JsonLines, Lines, TextLines
from neurogame.prediction.parts import Mark, Part, PartError, Shard
from neurogame.validation import check_count

CHUNK = 1024  # rows that are read, sorted by length and predicted together
FORMATS = (".jsonl", ".csv")  # each also with .gz
_SHOWN = 5  # malformed rows that the record names
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
            return "the file is there already, nothing is left to do"
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
        source: a CSV, TSV or JSONL file, gzipped or not, or "-" for stdin.
        output: a .jsonl or .csv file, gzipped or not, that does not exist yet: complete or absent, never in part;
            None: stdout.
        columns: ours → theirs, where the names of the columns are not the usual ones.
        on_error: whether a malformed row ends everything or is skipped and counted.
        batch_size: pairs per forward pass.
        as_json: on stdout, JSON lines instead of label, probability, premise and hypothesis between tabs.
        progress: told of each batch.
        chunk: rows in memory at a time; their predictions are written before the next are read.
        resume: go on where an interrupted run stopped; from the start if there is none, and if the output is there
            nothing is done.
        shard: label only this part of the chunks. The part that is complete last puts all of them together.
    """
    check_count("chunk", chunk)
    shard = shard or Shard()
    check(source, output, columns, resume=resume, shard=shard)

    def say(pairs: Sequence[Pair]) -> list[Prediction]:
        texts = [(pair.premise, pair.hypothesis) for pair in pairs]
        return nli.predict(texts, batch_size=batch_size, progress=progress or (lambda _: None))

    rows = iterate(source, columns=columns, require_label=False, on_error=on_error)
    with closing(rows):
        reading = _Reading(rows, chunk, str(source))
        if output is None:
            return _to_stdout(say, reading, as_json=as_json)
        goal = Path(output)
        if resume and (there := already(goal, shard)):
            return there
        again = _repeatable(source)
        job = {
            "version": __version__,
            "model": getattr(nli, "fingerprint", None) or fingerprint(nli),
            "source": Path(source).stat().st_size if again else None,
            "columns": columns,
            "on_error": on_error,
            "batch_size": batch_size,
            "chunk": chunk,
        }
        with Part(goal, shard, job, resume=resume) as part:
            before = part.at.kept.get("pairs", 0)
            try:
                if not part.at.ended:
                    _to_part(say, reading, part, shard, goal, progress)
            except BaseException as error:
                faulty = isinstance(error, DataError) and not isinstance(error, PartError)
                if not again or (faulty and not isinstance(error.__cause__, DAMAGE)):
                    part.discard()  # nobody could go on with it: the source has to change
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
            raise DataError("only a file can be gone on with, or be written in parts; name one with -o")
        return
    path = Path(output)
    if _suffix(path) not in FORMATS:
        has = repr(path.suffix) if path.suffix else "no suffix"
        raise DataError(f"{path}: predictions are written as {' or '.join(FORMATS)}, it has {has}; .gz may follow")
    if not path.parent.is_dir():
        raise DataError(f"{path}: the folder {path.parent} does not exist")
    if (resume or shard.count > 1) and not _repeatable(source):
        raise DataError(f"{source} can be read only once; --resume and parts need a file")
    if path.exists():
        if not resume:
            raise DataError(f"{path} exists already; predictions never overwrite a file")
        return
    parts.check_others(path, shard)
    parts.check(shard.path(path), resume=resume)


def already(output: Path, shard: Shard) -> Done | None:
    """What `resume` has to say of an output that is there: nothing is left to do."""
    if not output.exists():
        return None
    parts.finish(output, shard.count)  # a process may have died between its last steps
    return Done(0, 0, 0, already=True)


def _repeatable(source: str | Path) -> bool:
    """A file, not stdin or a pipe."""
    return str(source) != STDIN and Path(source).is_file()


def _suffix(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def fingerprint(nli: NLI) -> str:
    """Of all that decides what a model says: weights, configuration, tokenizer, names of the labels."""
    digest = hashlib.blake2b(digest_size=16)
    settings = _settings(nli.model.config.to_dict())  # of an ONNX export with the checksums of its files
    for part in (settings, _words(nli.tokenizer), nli.labels, nli.max_length, nli.temperature):
        digest.update(json.dumps(part, sort_keys=True, default=str).encode())
    weights: Mapping[str, Tensor] = getattr(nli.model, "state_dict", dict)()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Without where it lies, and what wrote it."""
    left_out = ("_name_or_path", "transformers_version")
    found = {name: value for name, value in config.items() if name not in left_out}
    return {name: _settings(value) if isinstance(value, dict) else value for name, value in found.items()}


def _words(tokenizer: Any) -> dict[str, Any]:
    """All of a tokenizer but the options of its last call; of one in Python its words."""
    if not hasattr(tokenizer, "backend_tokenizer"):
        return dict(tokenizer.get_vocab())
    return {**json.loads(tokenizer.backend_tokenizer.to_str()), "truncation": None, "padding": None}


class _Reading:
    """The pairs of a file, chunk by chunk, and what has been read so far."""

    def __init__(self, rows: Iterator[Row], size: int, name: str) -> None:
        self._source, self._size, self._name = rows, size, name
        self._digest = hashlib.blake2b(digest_size=16)
        self.rows = self.pairs = self.malformed_count = 0
        self.malformed: list[str] = []

    def __iter__(self) -> Iterator[list[Pair]]:
        while taken := list(islice(self._source, self._size)):
            good = [row for row in taken if isinstance(row, Pair)]
            faulty = [row for row in taken if isinstance(row, Malformed)]
            if faulty and faulty[-1].is_end:  # no malformed row: an unknown number of rows is missing
                raise PartError(f"{faulty[-1]}; what comes before is kept, --resume goes on once it can be read")
            for pair in good:
                self._hash(pair.premise, pair.hypothesis, pair.label, pair.extras)
            for row in faulty:
                self._hash(row.line, row.reason)
            self.malformed += map(str, faulty[: _SHOWN - len(self.malformed)])
            self.rows += len(taken)
            self.pairs += len(good)
            self.malformed_count += len(faulty)
            yield good
        if not self.pairs:
            bad = f"{self.malformed_count} malformed rows (the first: {self.malformed[0]})"
            raise DataError(f"{self._name}: no pair to label, {bad}")

    def _hash(self, *content: object) -> None:
        self._digest.update(repr(content).encode("utf-8", "surrogatepass"))

    def mark(self, chunk: int, *, ended: bool = False, **kept: Any) -> Mark:
        """The place in the file, behind a chunk."""
        return Mark(chunk, self.rows, self._digest.hexdigest(), kept=kept, ended=ended)


def _to_stdout(say: Say, reading: _Reading, *, as_json: bool) -> Done:
    sink = JsonLines(sys.stdout) if as_json else TextLines(sys.stdout)
    truncated = 0
    for pairs in reading:
        found = say(pairs)
        sink.write(pairs, found)
        truncated += sum(prediction.truncated for prediction in found)
    return Done(reading.pairs, truncated, reading.malformed_count, tuple(reading.malformed))


def _to_part(say: Say, reading: _Reading, part: Part, shard: Shard, output: Path, progress: Progress | None) -> None:
    """The chunks of a part that are not there yet."""
    text = io.StringIO(newline="")
    sink: Lines = CsvLines(text) if _suffix(output) == ".csv" else JsonLines(text)
    start, kept = part.at, {"pairs": 0, "truncated": 0, "left_out": [], **part.at.kept}
    chunk = -1
    for chunk, pairs in enumerate(reading):
        sink.meet(pairs)
        if chunk == start.chunk and reading.mark(chunk).digest != start.digest:
            raise PartError(f"{part.path} was begun with another source: its first {start.rows} rows differ")
        if not shard.owns(chunk):
            continue
        if chunk <= start.chunk:
            if progress is not None:
                progress(len(pairs))
            continue
        found = say(pairs)
        sink.write(pairs, found)
        kept["pairs"] += len(pairs)
        kept["truncated"] += sum(prediction.truncated for prediction in found)
        kept["left_out"] = [*dict.fromkeys([*kept["left_out"], *sink.left_out])]
        part.write(reading.mark(chunk, **kept), _packed(text.getvalue(), output))
        text.seek(0)
        text.truncate()
    if chunk < start.chunk:
        raise PartError(f"{part.path} was begun with another source: it had more than {reading.rows} rows")
    whole = {"malformed_count": reading.malformed_count, "malformed": reading.malformed}
    part.write(reading.mark(chunk + 1, ended=True, **kept, **whole), b"")


def _packed(text: str, output: Path) -> bytes:
    """A chunk as it is stored; gzipped chunks one behind the other are a gzipped file."""
    data = text.encode("utf-8", "backslashreplace")
    return gzip.compress(data, mtime=0) if output.suffix.lower() == ".gz" else data


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
