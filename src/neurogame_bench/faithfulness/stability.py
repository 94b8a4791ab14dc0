"""How much of a ranking is chance: the same explanation with other random draws.

    stability = mean over pairs of runs of Kendall's τ-b between their scores

1: the draws do not matter (or there are none). NaN where every run gives all words the same score.
"""

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from neurogame.evaluation.alignment import Array
from neurogame_bench.faithfulness.correlation import kendall


def stability(runs: Sequence[Array]) -> float:
    """Mean Kendall τ-b over all pairs of runs, those left out in which it is undefined."""
    if len(runs) < 2:
        raise ValueError(f"stability compares runs with each other; {len(runs)} given, at least 2 needed")
    taus = [tau for a, b in combinations(runs, 2) if not math.isnan(tau := kendall(a, b))]
    return float(np.mean(taus)) if taus else math.nan
