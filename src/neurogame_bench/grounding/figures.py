"""Figures over pairs: statistics of summed rows with their intervals, and how they are shown."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neurogame._common.types import Tensor
from neurogame.evaluation.alignment import Array
from neurogame_bench import intervals
from neurogame_bench.study import Record


def figure(rows: Any, statistic: intervals.Statistic = intervals.ratio) -> Record:
    """A statistic of the sums of rows [pairs, columns], with its interval."""
    made = intervals.estimate(np.array(rows, dtype=float), statistic)
    return {"value": made.value, "low": made.low, "high": made.high, "pairs": len(rows)}


def mean(values: Sequence[float | None]) -> Record:
    """The mean of what is defined, over the pairs where it is."""
    defined = [value for value in values if value is not None and not math.isnan(value)]
    return figure([intervals.summands([value]) for value in defined])


def moments(x: Tensor, y: Tensor) -> list[float]:
    """(n, Σx, Σy, Σx², Σy², Σxy): what a correlation over several texts is made of."""
    x, y = x.double(), y.double()
    return [float(len(x)), *(float(t) for t in (x.sum(), y.sum(), x @ x, y @ y, x @ y))]


def pearson(sums: Array) -> Array:
    """r from `moments` summed over texts; NaN where one of the two is constant."""
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    spread = np.clip(xx - x * x / n, 0.0, None) * np.clip(yy - y * y / n, 0.0, None)
    return ratio(xy - x * y / n, np.sqrt(spread))


def of_ratios(above: int, below: int, other: tuple[int, int] | None = None) -> intervals.Statistic:
    """The ratio of two columns, less that of two others."""

    def statistic(sums: Array) -> Array:
        first = ratio(sums[..., above], sums[..., below])
        return first if other is None else first - ratio(sums[..., other[0]], sums[..., other[1]])

    return statistic


def ratio(above: Array, below: Array) -> Array:
    """above/below, NaN where `below` is 0."""
    above, below = np.asarray(above, dtype=float), np.asarray(below, dtype=float)
    quotient: Array = np.divide(above, below, out=np.full(above.shape, math.nan), where=below > 0)
    return quotient


def span(figure: Mapping[str, Any], digits: int = 3) -> str:
    """A value with its interval, as text."""
    if figure["value"] is None or math.isnan(figure["value"]):
        return "–"
    return f"{figure['value']:.{digits}f} [{figure['low']:.{digits}f}, {figure['high']:.{digits}f}]"
