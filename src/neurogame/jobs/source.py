"""The rows of a job: read in chunks, with a digest of what was read; and what a result depends on beside them."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from neurogame._types import Tensor
from neurogame.classifier import Classifier
from neurogame.data.formats import DAMAGE, STDIN
from neurogame.data.pairs import DataError, Malformed, Pair
from neurogame.data.reading import Row
from neurogame.data.texts import Text
from neurogame.jobs.parts import Mark, PartError

_SHOWN = 5  # malformed rows that the record names


class DamagedSourceError(PartError):
    """The source cannot be read to its end; an unknown number of rows is missing."""


def is_damage(error: BaseException) -> bool:
    """Whether an error says that the source cannot be read further; the job can be resumed once it is repaired."""
    return isinstance(error, DamagedSourceError) or (
        isinstance(error, DataError) and isinstance(error.__cause__, DAMAGE)
    )


def repeatable(source: str | Path) -> bool:
    """A file, not stdin or a pipe."""
    return str(source) != STDIN and Path(source).is_file()


def file_digest(source: str | Path) -> str:
    """Of the bytes of a file; "" where there is none, or it cannot be read."""
    if not repeatable(source):
        return ""
    try:
        with Path(source).open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError:  # a failing disk: the reader names the row
        return ""


class Reading:
    """The rows of a file, chunk by chunk, and what has been read so far."""

    def __init__(self, rows: Iterator[Row | Text], size: int) -> None:
        self._source, self._size = rows, size
        self._digest = hashlib.blake2b(digest_size=16)
        self.rows = self.pairs = self.malformed_count = 0
        self.malformed: list[str] = []

    def __iter__(self) -> Iterator[list[Row | Text]]:
        while taken := list(islice(self._source, self._size)):
            faulty = [row for row in taken if isinstance(row, Malformed)]
            if faulty and faulty[-1].is_end:  # no malformed row: an unknown number of rows is missing
                raise DamagedSourceError(
                    f"{faulty[-1]}; rows before it are kept, --resume continues once it is repaired"
                )
            for row in taken:
                if isinstance(row, Pair):
                    self._hash(row.premise, row.hypothesis, row.label, row.extras)
                elif isinstance(row, Text):
                    self._hash(row.text, row.extras)
                elif isinstance(row, Malformed):
                    self._hash(row.line, row.reason)
            self.malformed += map(str, faulty[: _SHOWN - len(self.malformed)])
            self.rows += len(taken)
            self.pairs += sum(isinstance(row, Pair | Text) for row in taken)
            self.malformed_count += len(faulty)
            yield taken

    def _hash(self, *content: object) -> None:
        self._digest.update(repr(content).encode("utf-8", "surrogatepass"))

    def mark(self, chunk: int, *, ended: bool = False, **kept: Any) -> Mark:
        """The place in the file, behind a chunk."""
        return Mark(chunk, self.rows, self._digest.hexdigest(), kept=kept, ended=ended)

    def check(self, chunk: int, start: Mark, part: Path) -> None:
        """Where an interrupted run stopped, the rows before must be those that it has read."""
        if chunk == start.chunk and self._digest.hexdigest() != start.digest:
            raise PartError(f"{part} was begun with another source: its first {start.rows} rows differ")

    def check_end(self, chunk: int, start: Mark, part: Path) -> None:
        """An interrupted run cannot have read more than there is."""
        if chunk < start.chunk:
            raise PartError(f"{part} was begun with another source: it had more than {self.rows} rows")


def fingerprint(nli: Classifier) -> str:
    """Of all that decides what a model says and explains: weights, configuration, tokenizer, labels, explainer."""
    known = getattr(nli, "fingerprint", None)
    if isinstance(known, str):
        return known
    digest = hashlib.blake2b(digest_size=16)
    settings = _settings(nli.model.config.to_dict())  # of an ONNX export with the checksums of its files
    for part in (settings, _words(nli.tokenizer), nli.labels, nli.max_length, nli.temperature):
        digest.update(json.dumps(part, sort_keys=True, default=str).encode())
    for module in (nli.model, getattr(getattr(nli, "explainer", None), "game", None)):
        weights: Mapping[str, Tensor] = getattr(module, "state_dict", dict)()
        for name, tensor in sorted(weights.items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Without where it lies, and what wrote it."""
    left_out = ("_name_or_path", "transformers_version")
    kept = {name: value for name, value in config.items() if name not in left_out}
    return {name: _settings(value) if isinstance(value, dict) else value for name, value in kept.items()}


def _words(tokenizer: Any) -> dict[str, Any]:
    """All of a tokenizer but the options of its last call; of one in Python its words."""
    if not hasattr(tokenizer, "backend_tokenizer"):
        return dict(tokenizer.get_vocab())
    return {**json.loads(tokenizer.backend_tokenizer.to_str()), "truncation": None, "padding": None}
