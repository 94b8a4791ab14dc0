"""The coalitions inside an exported graph: drawn once, for the longest pair, and cut to the length of a batch.

A draw is a hash of (seed, head, sample, token), see `sampling`: what is drawn for 128 tokens begins with what is drawn
for 40. So a constant of the graph gives, for every batch and any padding, the coalitions that torch would draw.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from neurogame import sampling
from neurogame._types import Tensor


class Bank(nn.Module, sampling.Drawing):
    """Draws for a graph that is traced; buffers appear as a first, eager pass asks for them.

    Args:
        seed: of the draws; `sampling.FIXED_SEED` is what torch uses in evaluation.
        tokens: of the longest sequence.
    """

    def __init__(self, seed: int, tokens: int) -> None:
        super().__init__()
        self.seed = seed
        self.length = tokens + 1  # so that a slice is always shorter, as torch.export requires
        self._places: dict[tuple[Any, ...], str] = {}

    def drawn(self, what: Callable[..., Any], device: torch.device, *arguments: Any) -> Any:
        """`what(seed, *arguments)`, cut from the stored draw to the number of tokens among the arguments."""
        at = 1 if what is sampling.probes else len(arguments) - 1  # where the number of tokens stands
        key = (what.__name__, *arguments[:at], *arguments[at + 1 :])
        if key not in self._places:
            everything = (*arguments[:at], self.length, *arguments[at + 1 :])
            self._places[key] = f"draw{len(self._places)}"
            self.register_buffer(self._places[key], _stored(what, sampling.seed_of(self.seed, device), *everything))
        stored = getattr(self, self._places[key])
        cut = stored[:, : arguments[at]] if what is sampling.probes else stored[..., : arguments[at]]
        if what is sampling.permutations:
            return cut.argsort(dim=-1, stable=True)
        if what in (sampling.paired, sampling.independent):
            return sampling.Draws(cut, paired=what is sampling.paired)
        return cut

    @property
    def empty(self) -> bool:
        """Whether the model draws nothing."""
        return not self._places


def _stored(what: Callable[..., Any], seed: Tensor, *arguments: Any) -> Tensor:
    """The draw as a tensor; of permutations the numbers that they sort, since an order of 128 holds no order of 40."""
    if what is sampling.permutations:
        return sampling.words(seed, "permutations", *arguments)
    draw: Tensor | sampling.Draws = what(seed, *arguments)
    return draw.members if isinstance(draw, sampling.Draws) else draw
