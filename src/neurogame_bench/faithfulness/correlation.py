"""Rank correlation of two lists of scores: Kendall's τ-b and Spearman's ρ by SciPy, NaN where one of them is constant.

Undefined is not zero: averages leave it out and count it.
"""

import math
from typing import Literal

import numpy as np

from neurogame.evaluation.alignment import Array
from neurogame.extras import need


def kendall(a: Array, b: Array) -> float:
    """τ-b: ties count for neither side."""
    return _correlation("kendalltau", a, b)


def spearman(a: Array, b: Array) -> float:
    """ρ: the correlation of ranks, tied values sharing the mean of theirs."""
    return _correlation("spearmanr", a, b)


def _correlation(name: Literal["kendalltau", "spearmanr"], a: Array, b: Array) -> float:
    if len(a) != len(b):
        raise ValueError(f"{len(a)} scores against {len(b)}; two lists over the same words are compared")
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan
    return float(getattr(need("scipy.stats", "explain"), name)(a, b).statistic)
