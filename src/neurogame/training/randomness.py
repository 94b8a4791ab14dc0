"""Every random number of training is a function of (run seed, step, micro-batch), never of what ran before.

So a resumed run draws what an uninterrupted one draws, and two processes draw what one process draws
that accumulates two micro-batches: process r of w holds micro-batch m·w + r of the step.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import chain

import torch
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import get_length_grouped_indices


def derive(seed: int, *path: int | str) -> int:
    """A 62-bit seed for a purpose: the hash of the run's seed and the path to it."""
    text = "/".join(map(str, (seed, *path)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 2


def generator(seed: int, *path: int | str) -> torch.Generator:
    """A generator with a derived seed."""
    return torch.Generator().manual_seed(derive(seed, *path))


class LengthGroupedSampler(Sampler[int]):
    """Steps of rows of similar length, in an order that is a function of (seed, epoch).

    transformers has the grouping and a sampler of this name. That one draws its order from torch's global generator,
    so a resumed epoch need not repeat it, and goes from long rows to short ones again and again, which shows in the
    loss. Here the longest step comes first (memory runs out at once or not at all), the others follow in random order,
    and one that is not full comes last.

    Args:
        lengths: tokens of each row.
        batch: rows of an optimiser step, those of all processes together.
        seed: of the run.
        multiple: the shortest row is repeated at the end until there are a multiple of so many: several processes
            need as many batches each. `NeuroGameTrainer` leaves these rows out of the loss.
    """

    def __init__(self, lengths: Sequence[int], batch: int, seed: int, multiple: int = 1) -> None:
        self.lengths, self.batch, self.seed, self.epoch = list(lengths), batch, seed, 0
        self.repeated = -len(self.lengths) % multiple

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that the order depends on."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths) + self.repeated

    def __iter__(self) -> Iterator[int]:
        draw = generator(self.seed, "order", self.epoch)
        order: list[int] = get_length_grouped_indices(self.lengths, self.batch, generator=draw)
        steps = [order[i : i + self.batch] for i in range(0, len(order), self.batch)]
        full = len(order) // self.batch
        others = [1 + i for i in torch.randperm(max(full - 1, 0), generator=draw).tolist()]
        shuffled = [steps[i] for i in (0, *others, *range(max(full, 1), len(steps)))]
        shortest = min(range(len(order)), key=self.lengths.__getitem__)
        return chain(*shuffled, [shortest] * self.repeated)
