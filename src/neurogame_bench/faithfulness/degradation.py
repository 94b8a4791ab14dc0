"""What a metric must be able to tell: an explanation from a copy of it that was made worse on purpose.

    copy = scores of which half of the words, drawn at random, have each other's

Among n words with different scores, Kendall's τ between an explanation and its copy is 5/12 on average for large n: two
words that both kept their scores (1/4 of the pairs) agree, two that both did not (1/4) are in any order, and of one of
each (1/2) the order is right in two cases of three. A random order has 0, so the copy lies in between. If the
explanation says anything, the copy says less; a metric that ranks the copy as high does not see it.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from neurogame.evaluation.alignment import Array
from neurogame_bench.intervals import Figure

MOVED = 0.5  # share of the words whose scores are exchanged


def degraded(scores: Array, seed: Sequence[int]) -> Array:
    """A copy in which ⌈n/2⌉ of the words, two at least, have been given each other's scores.

    The words are drawn in random order, and each takes the score of the next, the last that of the first: none of them
    keeps its own, unless another has the same score.

    Args:
        scores: [n]; they are only moved, never changed. A single word keeps its score.
        seed: the same words move for the same seed and n.
    """
    n = len(scores)
    count = min(n, max(2, math.ceil(MOVED * n)))
    moved = np.random.default_rng(list(seed)).permutation(n)[:count]
    copy = np.array(scores, dtype=float)
    copy[moved] = copy[np.roll(moved, -1)]
    return copy


def ranks_lower(difference: Figure, better: Literal["higher", "lower"]) -> bool | None:
    """Whether the interval of explanation minus copy lies on the side of the explanation; None: it is undefined."""
    if math.isnan(difference.low):
        return None
    return bool(difference.low > 0 if better == "higher" else difference.high < 0)
