"""Effects with their uncertainty, and the words for them: intervals, paired comparisons, rank statistics, verdicts.

Intervals are 95 %. Two things vary when trained rows are compared: seeds (other weights, another order) and pairs
(other sentences); `compared` gives an interval for each, and calls a difference measurable only if both exclude 0. A
claim about a sign holds if its interval lies on the claimed side, does not hold if it lies on the other one.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neurogame._common.extras import need
from neurogame.evaluation.alignment import Array, Booleans
from neurogame.evaluation.metrics import percentiles
from neurogame_bench.intervals import Interval, resampled, rows_drawn
from neurogame_bench.study import Record

RESAMPLES = 2000
HOLDS, FAILS, NOTHING = "holds", "does not hold", "no measurable effect"
WORDS = {HOLDS: "found", FAILS: "the opposite found", NOTHING: "not found"}  # where a claim is about what is to be seen
FEW = "too few seeds"  # for a word on an effect; the least is SEEDS
SEEDS = 3


def packed(correct: Booleans) -> str:
    """Right or wrong for each pair, as text: eight pairs a byte, base64."""
    return base64.b64encode(np.packbits(correct).tobytes()).decode()


def unpacked(text: str, count: int) -> Booleans:
    """What `packed` made text of."""
    bits = np.unpackbits(np.frombuffer(base64.b64decode(text), dtype=np.uint8), count=count)
    return bits.astype(np.bool_)


def spread(values: Sequence[float]) -> Record:
    """Mean and standard deviation over seeds; one seed has no deviation."""
    return {"mean": mean(values), "sd": stdev(values) if len(values) > 1 else None, "runs": len(values)}


def t_interval(values: Sequence[float]) -> Interval | None:
    """mean ± t_{.975, n−1} · sd/√n; None for a single value."""
    if len(values) < 2:
        return None
    half = float(need("scipy.stats", "bench").t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return mean(values) - half, mean(values) + half


def bootstrap(values: Array, clusters: Sequence[Any] | None = None, *, seed: int = 0) -> Interval:
    """Percentile interval of the mean of `values`; with clusters, whole clusters are drawn (Σ values / Σ counts).

    Sentences made from one adjective, or words of one pair, are not independent: what they share is the cluster.
    """
    index = np.arange(len(values)) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1]
    sums, counts = (np.bincount(index, weights=of).astype(np.float64) for of in (values, np.ones(len(values))))
    return resampled(lambda sums, counts: sums.sum() / counts.sum(), sums, counts, resamples=RESAMPLES, seed=seed)


def clustered(values: Sequence[float], clusters: Sequence[Any]) -> Record:
    """The mean with its interval over clusters, and the signs of the means of the clusters."""
    array: Array = np.array(values, dtype=float)
    means = [float(np.mean(array[[c == name for c in clusters]])) for name in dict.fromkeys(clusters)]
    return {"mean": float(array.mean()), "interval": bootstrap(array, clusters), **sign_test(means), "n": len(array)}


def compared(one: Mapping[int, Booleans], other: Mapping[int, Booleans]) -> Record | None:
    """Accuracy of one row minus that of another, over the seeds and the pairs that both have.

    `seeds`: t-interval of the paired differences by seed. `pairs`: bootstrap over the pairs, each with its mean
    difference over seeds.
    """
    seeds = sorted(set(one) & set(other))
    if not seeds:
        return None
    gaps = np.stack([one[seed].astype(float) - other[seed].astype(float) for seed in seeds])  # (seeds, pairs)
    by_seed = gaps.mean(1).tolist()
    over_seeds, over_pairs = t_interval(by_seed), bootstrap(gaps.mean(0))
    return {
        "difference": mean(by_seed),
        "by_seed": by_seed,
        "seeds": over_seeds,
        "pairs": over_pairs,
        "effect": effect(over_seeds, over_pairs) if len(seeds) >= SEEDS else FEW,
    }


def effect(*intervals: Interval | None) -> str:
    """Whether accuracy rises or falls; nothing measurable unless every interval excludes 0, on the same side."""
    if any(interval is None for interval in intervals):
        return NOTHING
    if all(interval[0] > 0 for interval in intervals if interval):
        return "raises accuracy"
    return "lowers accuracy" if all(interval[1] < 0 for interval in intervals if interval) else NOTHING


def verdict(interval: Interval | None, claimed: int) -> str:
    """What an interval says of a claim about the sign of a number: the claimed side, the other one, or neither."""
    if interval is None or interval[0] <= 0 <= interval[1]:
        return NOTHING
    return HOLDS if (interval[0] > 0) == (claimed > 0) else FAILS


def together(verdicts: Iterable[str]) -> str:
    """A claim of several parts holds if all do, and does not if one does not."""
    words = set(verdicts)
    return FAILS if FAILS in words else NOTHING if NOTHING in words else HOLDS


def sign_test(values: Sequence[float] | Array) -> Record:
    """How many are positive and negative, and the two-sided p of that split if both signs were alike."""
    positive, negative = int(sum(v > 0 for v in values)), int(sum(v < 0 for v in values))
    n = positive + negative
    p = float(need("scipy.stats", "bench").binomtest(positive, n).pvalue) if n else 1.0
    return {"positive": positive, "negative": negative, "p": p}


def percentile_ranks(values: Array) -> Array:
    """0 for the largest |value|, 1 for the smallest; ties share their mean rank."""
    size = np.abs(values)
    larger = (size[None, :] > size[:, None]).sum(1)
    equal = (size[None, :] == size[:, None]).sum(1) - 1
    ranks: Array = (larger + equal / 2.0) / max(1, len(size) - 1)
    return ranks


def relative(values: Array, by: NDArray[np.int64], least: int = 30) -> Array:
    """values/mean over those with like `by`: groups of neighbouring `by` with at least `least` members."""
    order = np.argsort(by, kind="stable")
    shares, start = np.empty(len(values)), 0
    while start < len(order):
        end = min(len(order), start + least)
        while end < len(order) and by[order[end]] == by[order[end - 1]]:
            end += 1
        if len(order) - end < least:
            end = len(order)
        rows = order[start:end]
        shares[rows] = values[rows] / max(float(values[rows].mean()), 1e-300)
        start = end
    return shares


def gap(first: Array, second: Array, seed: int = 0) -> Record:
    """mean(first) − mean(second) with a bootstrap interval, and Cohen's d: the difference in units of the spread."""
    generator = np.random.default_rng(seed)

    def means(of: Array) -> Array:
        return np.array([of[rows].mean() for rows in rows_drawn(len(of), RESAMPLES, generator)])

    low, high = percentiles(means(first) - means(second))
    inside = np.concatenate([first - first.mean(), second - second.mean()])
    deviation = float(np.sqrt(np.square(inside).sum() / max(1, len(inside) - 2)))
    difference = float(first.mean() - second.mean())
    return {"difference": difference, "interval": (low, high), "d": difference / (deviation or 1.0)}


def spearman(*columns: Array) -> Array:
    """Rank correlations of some columns with one another; 0 where a column is constant."""
    ranks = np.stack([need("scipy.stats", "bench").rankdata(column) for column in columns])
    ranks = ranks - ranks.mean(1, keepdims=True)
    size = np.sqrt(np.square(ranks).sum(1))
    scaled = np.divide(ranks, size[:, None], out=np.zeros_like(ranks), where=size[:, None] > 0)
    correlations: Array = scaled @ scaled.T
    return correlations


def partial_spearman(x: Array, y: Array, given: Array) -> float:
    """Spearman's ρ of x and y with the ranks of a third taken out: (ρ_xy − ρ_xz ρ_yz)/√((1 − ρ_xz²)(1 − ρ_yz²))."""
    r = spearman(x, y, given)
    left = (1 - r[0, 2] ** 2) * (1 - r[1, 2] ** 2)
    return float((r[0, 1] - r[0, 2] * r[1, 2]) / left**0.5) if left > 1e-12 else 0.0
