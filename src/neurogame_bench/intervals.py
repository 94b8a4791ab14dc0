"""A figure over pairs: its value, its 95 % bootstrap interval, and how many cases it leaves out.

Every figure here is a function of *sums over pairs*: a mean is Σ values / Σ cases, ERASER's IOU-F1 is made of four
sums, AUC-TP of confusion counts. So a pair is a row of summands, a bootstrap resample is a vector of multinomial
weights, and all resamples are one matrix product. An undefined case (NaN) adds nothing to either sum of a mean and is
counted.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from neurogame.evaluation.alignment import Array, Indices
from neurogame.evaluation.metrics import bootstrap, percentiles

RESAMPLES = 1000
Statistic = Callable[[Array], Array]  # sums [..., columns] → values [...]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Figure:
    """A value with its interval, NaN if there is no case: the `cases` it rests on, and those that are `undefined`."""

    value: float
    low: float
    high: float
    cases: int
    undefined: int = 0


def summands(values: Iterable[float]) -> tuple[float, float, float]:
    """(Σ of what is defined, how many are, how many are not): the row of a pair in a mean."""
    every = list(values)
    defined = [value for value in every if not math.isnan(value)]
    return float(sum(defined)), float(len(defined)), float(len(every) - len(defined))


def ratio(sums: Array) -> Array:
    """Σ values / Σ cases, NaN without cases; further columns are not looked at."""
    cases = sums[..., 1]
    means: Array = np.divide(sums[..., 0], cases, out=np.full(cases.shape, math.nan), where=cases > 0)
    return means


def estimate(rows: Array, statistic: Statistic = ratio, *, resamples: int = RESAMPLES, seed: int = 0) -> Figure:
    """A statistic of sums over pairs, and its 95 % percentile interval over resampled pairs.

        estimate(np.array([summands([value]) for value in values])).low

    Args:
        rows: summands [pairs, columns].
        statistic: of the sums; by default the mean, see `summands`.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Returns:
        The figure; NaN without pairs.
    """
    if not len(rows):
        return Figure(math.nan, math.nan, math.nan, 0)
    value = float(statistic(rows.sum(0)))
    draws = statistic(_weights(len(rows), resamples, seed) @ rows)
    mean = statistic is ratio
    cases, undefined = (rows[:, 1].sum(), rows[:, 2:3].sum()) if mean else (len(rows), 0)
    return Figure(value, *_interval(draws), round(float(cases)), round(float(undefined)))


def difference(
    ours: Array, theirs: Array, statistic: Statistic = ratio, *, resamples: int = RESAMPLES, seed: int = 0
) -> Figure:
    """`statistic` of ours minus that of theirs on the same pairs, resampled together.

    Args:
        ours: summands [pairs, columns].
        theirs: the same of the others, pair by pair.
        statistic: of the sums.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Returns:
        The difference with its interval.

    Raises:
        ValueError: if the numbers of pairs differ.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} pairs against {len(theirs)}: a paired difference needs the same pairs")
    if not len(ours):
        return Figure(math.nan, math.nan, math.nan, 0)
    weights = _weights(len(ours), resamples, seed)
    value = float(statistic(ours.sum(0)) - statistic(theirs.sum(0)))
    return Figure(value, *_interval(statistic(weights @ ours) - statistic(weights @ theirs)), len(ours))


def _weights(n: int, resamples: int, seed: int) -> Array:
    """[resamples, n]: how often each of n pairs is in each resample."""
    return bootstrap(np.ones(n, dtype=np.int64), lambda drawn: drawn.astype(float), resamples, seed)


def _interval(draws: Array) -> tuple[float, float]:
    """Percentiles of the draws in which the statistic is defined."""
    defined = draws[~np.isnan(draws)]
    return percentiles(defined) if len(defined) else (math.nan, math.nan)


def resampled(statistic: Callable[..., float], *columns: Array, resamples: int = 500, seed: int = 0) -> Interval:
    """Percentile interval of any statistic of rows, where it is not one of sums.

        resampled(lambda values: float(np.median(values)), ratios)

    Args:
        statistic: of as many columns as are given.
        columns: [rows] each; their rows are drawn together, with replacement.
        resamples: how often.
        seed: of the draws.

    Returns:
        2.5 % and 97.5 % of the values.
    """
    draws = rows_drawn(len(columns[0]), resamples, np.random.default_rng(seed))
    return percentiles(np.array([statistic(*(column[rows] for column in columns)) for rows in draws]))


def rows_drawn(n: int, resamples: int, generator: np.random.Generator) -> Iterator[Indices]:
    """`resamples` times the numbers of n rows drawn with replacement."""
    return (generator.integers(n, size=n) for _ in range(resamples))
