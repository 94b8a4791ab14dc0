"""The rows of a job: read in chunks, compared with those of an interrupted run; and what else a result depends on."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from neurogame._common.types import Tensor
from neurogame.classifier import Classifier
from neurogame.data.formats import DAMAGE, STDIN
from neurogame.data.pairs import DataError, Malformed, Pair
from neurogame.data.reading import Row
from neurogame.data.texts import Text
from neurogame.jobs.parts import Mark, Part, PartError, Shard

_SHOWN = 5  # malformed rows that the record names
Rows = list[Row | Text]


class DamagedSourceError(PartError):
    """The source cannot be read to its end; an unknown number of rows is missing."""


def is_damage(error: BaseException) -> bool:
    """Whether an error says that the source cannot be read further; the job can be resumed once it is repaired."""
    return isinstance(error, DamagedSourceError) or (
        isinstance(error, DataError) and isinstance(error.__cause__, DAMAGE)
    )


def repeatable(source: str | Path) -> bool:
    """Whether a source can be read again: a file, not stdin or a pipe."""
    return str(source) != STDIN and Path(source).is_file()


def file_digest(source: str | Path) -> str:
    """BLAKE2 (hex) of the bytes of a file; "" for a pipe, or where the file cannot be read."""
    if not repeatable(source):
        return ""
    try:
        with Path(source).open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError:  # a failing disk: the reader names the row
        return ""


class Reading:
    """The rows of a file, chunk by chunk, and what has been read so far.

    Args:
        rows: of the file, from the first on.
        size: rows per chunk.
    """

    def __init__(self, rows: Iterator[Row | Text], size: int) -> None:
        self._source, self._size = rows, size
        self._digest = hashlib.blake2b(digest_size=16)
        self.chunks = self.rows = self.pairs = self.malformed_count = 0
        self.malformed: list[str] = []

    def __iter__(self) -> Iterator[Rows]:
        while chunk := list(islice(self._source, self._size)):
            faulty = [row for row in chunk if isinstance(row, Malformed)]
            if faulty and faulty[-1].is_end:  # no malformed row: an unknown number of rows is missing
                raise DamagedSourceError(
                    f"{faulty[-1]}; rows before it are kept, --resume continues once it is repaired"
                )
            for row in chunk:
                if isinstance(row, Pair):
                    self._hash(row.premise, row.hypothesis, row.label, row.extras)
                elif isinstance(row, Text):
                    self._hash(row.text, row.extras)
                elif isinstance(row, Malformed):
                    self._hash(row.line, row.reason)
            self.malformed += map(str, faulty[: _SHOWN - len(self.malformed)])
            self.chunks += 1
            self.rows += len(chunk)
            self.pairs += sum(isinstance(row, Pair | Text) for row in chunk)
            self.malformed_count += len(faulty)
            yield chunk

    def _hash(self, *content: object) -> None:
        self._digest.update(repr(content).encode("utf-8", "surrogatepass"))

    def pending(
        self,
        part: Part,
        shard: Shard,
        *,
        seen: Callable[[Rows], object] = lambda _: None,
        skipped: Callable[[Rows], object] = lambda _: None,
    ) -> Iterator[Rows]:
        """The chunks that a part does not have yet, each to be written, with `mark`, before the next is read.

        The rows before them are compared with its journal: PartError if they differ. `seen` is called with every chunk,
        those of other parts included, `skipped` with every chunk that the part has.
        """
        start = part.at
        for rows in self:
            seen(rows)
            if self.chunks - 1 == start.chunk and self._digest.hexdigest() != start.digest:
                raise PartError(f"{part.path} was begun with another source: its first {start.rows} rows differ")
            if shard.owns(self.chunks - 1) and self.chunks - 1 > start.chunk:
                yield rows
            elif shard.owns(self.chunks - 1):
                skipped(rows)
        if self.chunks - 1 < start.chunk:
            raise PartError(f"{part.path} was begun with another source: it had more than {self.rows} rows")

    def mark(self, *, ended: bool = False, **kept: Any) -> Mark:
        """The journal's mark for the last chunk that was read; `kept` are counts that a resumed run needs."""
        last = self.chunks if ended else self.chunks - 1
        return Mark(last, self.rows, self._digest.hexdigest(), kept=kept, ended=ended)


def fingerprint(nli: Classifier) -> str:
    """A digest of all that decides the answers of a model: weights, configuration, tokenizer, labels, explainer."""
    digest = hashlib.blake2b(digest_size=16)
    settings = _settings(nli.model.config.to_dict())  # of an ONNX export with the checksums of its files
    for part in (settings, _words(nli.tokenizer), nli.labels, nli.max_length, nli.temperature):
        digest.update(json.dumps(part, sort_keys=True, default=str).encode())
    for module in (nli.model, getattr(nli.explainer, "game", None)):
        weights: Mapping[str, Tensor] = getattr(module, "state_dict", dict)()
        for name, tensor in sorted(weights.items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without its path and the version that wrote it."""
    left_out = ("_name_or_path", "transformers_version")
    kept = {name: value for name, value in config.items() if name not in left_out}
    return {name: _settings(value) if isinstance(value, dict) else value for name, value in kept.items()}


def _words(tokenizer: Any) -> dict[str, Any]:
    """A fast tokenizer without the options of its last call; of a slow one the vocabulary."""
    if not hasattr(tokenizer, "backend_tokenizer"):
        return dict(tokenizer.get_vocab())
    return {**json.loads(tokenizer.backend_tokenizer.to_str()), "truncation": None, "padding": None}
