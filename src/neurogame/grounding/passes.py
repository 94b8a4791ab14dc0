"""Forward passes over texts, kept on disk as they are done: an interrupted fit goes on behind the last one.

    explainer.passes.part             the passes so far, batch after batch: a length, then safetensors
    explainer.passes.part.journal     what they depend on, then a line per batch; see `neurogame.jobs.parts`

Passes are most of the time of a fit, and each batch costs nothing to read back. What a batch holds is its maker's
business. Texts are drawn and batched anew by the same seed, so the n-th batch is the same text by text.
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
    """`passes(make)`: the next batch, as it was kept, or made and kept. A context manager.

    Args:
        path: beside the result; ".part" is added to its name.
        job: what the passes depend on, `version` first; others are refused.
        resume: go on with what is there; without, what is there is refused.
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
            kept: Batch = load(self._file.read(length))
            return kept
        made = make()
        data = save({name: x.contiguous() for name, x in made.items()})
        self._part.write(Mark(chunk=number), len(data).to_bytes(_LENGTH, "big") + data)
        return made

    def discard(self) -> None:
        """The result is there: nobody needs the passes any more."""
        self._part.discard()


def begun(path: str | Path) -> bool:
    """Whether an interrupted fit has kept passes there."""
    return parts.begun(Shard().path(Path(path).expanduser()))
