"""A cache of forward passes on disk, by which an interrupted fit is resumed.

    explainer.passes.part             the passes so far, batch after batch: a length, then safetensors
    explainer.passes.part.journal     what they depend on, then a line per batch; see `neurogame.jobs.parts`

Passes take most of the time of a fit. A batch is any dictionary of tensors. A resumed fit draws and batches the texts
by the same seed, so its n-th batch has the same texts.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load, save

from neurogame._common.types import Tensor
from neurogame.jobs import parts
from neurogame.jobs.parts import Mark, Part, Shard

_LENGTH = 8  # bytes
Batch = dict[str, Tensor]


class Passes:
    """`passes(make)`: the next batch, read from the cache or made and added to it. A context manager.

    Args:
        path: beside the result; ".part" is added to its name.
        job: what the passes depend on, `version` first; a cache of another job is refused.
        resume: use an existing cache; without, an existing one is refused.
    """

    def __init__(self, path: str | Path, job: Mapping[str, Any], *, resume: bool) -> None:
        self._part = Part(Path(path).expanduser(), Shard(), job, resume=resume)
        self._next = 0

    def __enter__(self) -> "Passes":
        self._part.__enter__()
        self._file = self._part.path.open("rb")
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.close()
        self._part.__exit__(*error)

    def __call__(self, make: Callable[[], Batch]) -> Batch:
        """The next batch."""
        number, self._next = self._next, self._next + 1
        if number <= self._part.at.chunk:
            length = int.from_bytes(self._file.read(_LENGTH), "big")
            batch: Batch = load(self._file.read(length))
            return batch
        batch = make()
        data = save({name: x.contiguous() for name, x in batch.items()})
        self._part.write(Mark(chunk=number), len(data).to_bytes(_LENGTH, "big") + data)
        return batch

    def discard(self) -> None:
        """Delete the cache, when the result is saved."""
        self._part.discard()


def begun(path: str | Path) -> bool:
    """Whether an interrupted fit has left a cache there."""
    return parts.begun(Shard().path(Path(path).expanduser()))
