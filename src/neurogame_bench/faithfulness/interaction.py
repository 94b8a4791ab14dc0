"""Whether pair interactions say what two words do together.

    Δ_ij = p(ŷ|x) − p(ŷ|x∖i) − p(ŷ|x∖j) + p(ŷ|x∖{i,j})

is how much the effect of removing one word depends on the other: the second-order effect of deletion, with the sign of
J_ij (positive: they need each other). Faithfulness is Spearman's ρ between J_ij and Δ_ij over pairs of words, drawn at
random where there are many. Δ is J of one coalition, all other words; J averages over all of them, so ρ < 1 even for
exact interactions.
"""

from collections.abc import Sequence
from itertools import combinations
from random import Random

import numpy as np

from neurogame.evaluation.alignment import Array
from neurogame_bench.faithfulness.correlation import spearman

Pairs = Sequence[tuple[int, int]]


def word_pairs(n: int, most: int | None = None, seed: int = 0) -> list[tuple[int, int]]:
    """All i < j, or as many of them at random as `most` says, in order."""
    every = list(combinations(range(n), 2))
    if most is None or len(every) <= most:
        return every
    return sorted(Random(seed).sample(every, most))  # noqa: S311 — not cryptography


def second_order(full: float, left_out: Array, both_out: Array, pairs: Pairs) -> Array:
    """Δ_ij = p(ŷ|x) − p(ŷ|x∖i) − p(ŷ|x∖j) + p(ŷ|x∖{i,j}) for each of the pairs.

    Args:
        full: p(ŷ|x).
        left_out: p(ŷ|x∖i) of each word.
        both_out: p(ŷ|x∖{i,j}) of each pair.
        pairs: (i, j).

    Returns:
        [pairs].
    """
    i, j = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return full - left_out[i] - left_out[j] + both_out


def faithfulness(J: Array, delta: Array, pairs: Pairs) -> float:
    """Spearman's ρ between J_ij and Δ_ij over the pairs; NaN where one of them is constant."""
    return spearman(_entries(J, pairs), delta)


def agreement(estimated: Array, exact: Array) -> float:
    """Spearman's ρ between two matrices J over all i < j."""
    if estimated.shape != exact.shape:
        raise ValueError(f"J of shape {list(estimated.shape)} against {list(exact.shape)}: not the same words")
    pairs = word_pairs(len(exact))
    return spearman(_entries(estimated, pairs), _entries(exact, pairs))


def _entries(J: Array, pairs: Pairs) -> Array:
    i, j = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    entries: Array = J[i, j]
    return entries
