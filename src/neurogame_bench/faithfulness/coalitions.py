"""Which inputs a metric asks for, as rows of truth values over the words: True where a word stays.

`Answers` evaluates them: whatever several rankings have in common (single words left out, nothing left, the first words
of two that agree) is asked of the model once, and everything that is new in one call, so that it can batch it.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from neurogame.evaluation.alignment import Array, Booleans, Indices

Evaluate = Callable[[Booleans], Array]  # [coalitions, words] → [coalitions, labels]


def only(order: Indices, ks: Sequence[int]) -> Booleans:
    """x_{r_k} for each k: the first k words of a ranking."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place < np.asarray(ks, dtype=np.int64)[:, None]


def without(order: Indices, ks: Sequence[int]) -> Booleans:
    """x∖r_k for each k: all but the first k words of a ranking."""
    return ~only(order, ks)


def left_out(n: int, groups: Iterable[Sequence[int]] | None = None) -> Booleans:
    """x∖A for each group A of words; by default for each word alone."""
    chosen = [(i,) for i in range(n)] if groups is None else list(groups)
    keep = np.ones((len(chosen), n), dtype=bool)
    for row, group in zip(keep, chosen, strict=True):
        row[list(group)] = False
    return keep


class Answers:
    """What a model says of coalitions, remembered: `answers(keep)` is [coalitions, labels]."""

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate
        self._known: dict[bytes, Array] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __call__(self, keep: Booleans) -> Array:
        """One row of answers per row of `keep`; rows not seen before are evaluated together, each once."""
        keys = [row.tobytes() for row in keep]
        new = {key: row for key, row in zip(keys, keep, strict=True) if key not in self._known}
        if new:
            self._known.update(zip(new, self._evaluate(np.stack(list(new.values()))), strict=True))
        if not keys:
            return np.empty((0, len(next(iter(self._known.values()), ()))))
        return np.stack([self._known[key] for key in keys])
