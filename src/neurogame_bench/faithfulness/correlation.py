"""Rank correlation of two lists of scores: Kendall's τ-b and Spearman's ρ by SciPy, NaN where one of them is constant.

Undefined is not zero: averages leave it out and count it.
"""

import math
from typing import Literal

import numpy as np

from neurogame._common.extras import need
from neurogame.evaluation.alignment import Array


def kendall(a: Array, b: Array) -> float:
    """τ-b: ties count for neither side.

        kendall(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))  # 1/3

    Args:
        a: scores.
        b: scores of the same words.

    Returns:
        τ-b; NaN where one of the two is constant.

    Raises:
        ValueError: if the numbers of words differ.
        ImportError: without SciPy, which `neurogame[explain]` has.
    """
    return _correlation("kendalltau", a, b)


def spearman(a: Array, b: Array) -> float:
    """ρ: the correlation of ranks, tied values sharing the mean of theirs; arguments as of `kendall`."""
    return _correlation("spearmanr", a, b)


def _correlation(name: Literal["kendalltau", "spearmanr"], a: Array, b: Array) -> float:
    if len(a) != len(b):
        raise ValueError(f"{len(a)} scores against {len(b)}; two lists over the same words are compared")
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan
    return float(getattr(need("scipy.stats", "explain"), name)(a, b).statistic)
