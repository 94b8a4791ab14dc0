"""Calibration: negative log likelihood, Brier score, expected calibration error, and temperature scaling.

    NLL = −mean log p_gold      Brier = mean Σ_k (p_k − [k = gold])², between 0 and 2
    ECE = Σ_b n_b/N · |accuracy_b − confidence_b|, over `bins` bins of equal width on (0, 1], (low, high]

The confidence of a pair is the probability of the label it is predicted to have. On two-way data that
is the merged probability of the predicted side, which may be below ½ (see `alignment.Aligned`).
A temperature T divides the logits and never changes a three-way prediction. The temperature reported
for a set is never fitted on the very pairs it is tested on. NumPy suffices.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from neurogame._common.records import plain
from neurogame._common.validation import check_count, check_positive
from neurogame.evaluation.alignment import Aligned, Array, Booleans, Indices

COLDEST, HOTTEST = 0.05, 20.0  # where a fit stops: separable data want T = 0, useless logits T = ∞


@dataclass(frozen=True)
class Bin:
    """One bin (low, high] of a reliability table; an empty one has neither confidence nor accuracy."""

    low: float
    high: float
    count: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Confidence:
    """How far the probabilities can be trusted."""

    nll: float
    brier: float
    ece: float
    bins: int
    reliability: tuple[Bin, ...]


@dataclass(frozen=True)
class Calibration:
    """Confidence before (T = 1) and after temperature scaling, and where the temperature comes from."""

    source: str  # "fitted on NAME", "stored in the model", "cross-fitted, two halves"; or why there is none
    temperatures: tuple[float, ...]  # one; or the one each half got from the other; or none
    before: Confidence
    after: Confidence | None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return plain(self)  # type: ignore[no-any-return]


def nll(log_p: Array, gold: Indices) -> float:
    """−mean log p_gold of [pairs, names]."""
    return float(-log_p[np.arange(len(gold)), gold].mean())


def brier(log_p: Array, gold: Indices) -> float:
    """mean Σ_k (p_k − [k = gold])²: the sum over all names, so 0 is perfect and 2 is certain and wrong."""
    return float(np.square(np.exp(log_p) - np.eye(log_p.shape[1])[gold]).sum(1).mean())


def reliability(confidence: Array, correct: Booleans, bins: int = 15) -> tuple[Bin, ...]:
    """Count, mean confidence [pairs] and accuracy in `bins` bins of equal width, empty ones included."""
    check_count("bins", bins)
    edges = np.linspace(0.0, 1.0, bins + 1)
    index = np.searchsorted(edges[1:-1], confidence, side="left")  # an edge belongs to the bin below it
    count = np.bincount(index, minlength=bins)
    sums = [np.bincount(index, weights=of, minlength=bins) for of in (confidence, correct.astype(np.float64))]
    table = []
    for b, n in enumerate(count.tolist()):
        mean, accuracy = (float(of[b] / n) if n else None for of in sums)
        table.append(Bin(float(edges[b]), float(edges[b + 1]), n, mean, accuracy))
    return tuple(table)


def ece(table: tuple[Bin, ...]) -> float:
    """Σ_b n_b/N · |accuracy_b − confidence_b| of a reliability table."""
    gaps = (b.count * abs((b.accuracy or 0.0) - (b.confidence or 0.0)) for b in table)
    return math.fsum(gaps) / sum(b.count for b in table)


def confidence(aligned: Aligned, temperature: float | Array = 1.0, bins: int = 15) -> Confidence:
    """NLL, Brier score and ECE of logits divided by a temperature, one or one per pair."""
    log_p = aligned.log_probabilities(temperature)
    chosen = np.exp(log_p[np.arange(len(aligned)), aligned.predicted])
    table = reliability(chosen, aligned.correct, bins)
    return Confidence(nll(log_p, aligned.gold), brier(log_p, aligned.gold), ece(table), bins, table)


def fit_temperature(logits: Array, gold: Indices) -> float:
    """argmin_T −mean log softmax(z/T)_gold, for T in [0.05, 20].

        nli.temperature = fit_temperature(aligned.logits, aligned.gold)

    With β = 1/T and d_k = z_k − z_gold this is mean log Σ_k exp(β·d_k): convex in β, with slope
    mean E_p[d] and curvature mean Var_p[d]. Newton's method, kept inside a bracket. Where T = 1 is
    as good as any other the answer is 1.

    Args:
        logits: [pairs, labels].
        gold: [pairs], the column of the gold label; `alignment.align` finds it by name.

    Returns:
        T, by which logits are divided.

    Raises:
        ValueError: if shapes do not match, `gold` is no column, or a logit is not finite.
    """
    z, gold = np.asarray(logits, dtype=np.float64), np.asarray(gold)
    if z.ndim != 2 or z.size == 0 or gold.shape != z.shape[:1]:
        given = f"{list(z.shape)} and {list(gold.shape)}"
        raise ValueError(f"logits must be [pairs, labels] with a gold column for each pair, got {given}")
    if not np.issubdtype(gold.dtype, np.integer) or not ((gold >= 0) & (gold < z.shape[1])).all():
        raise ValueError(
            f"gold must hold columns from 0 to {z.shape[1] - 1}; names of labels? `align` finds their columns"
        )
    if not np.isfinite(z).all():
        raise ValueError("logits are NaN or infinite; the model has probably diverged")
    d = z - z[np.arange(len(z)), gold][:, None]
    if _slope(d, 1.0)[0] == 0:  # as it is where all logits of a pair are equal, or where all are right and huge
        return 1.0
    low, high = 1.0 / HOTTEST, 1.0 / COLDEST
    if _slope(d, low)[0] >= 0:
        return HOTTEST
    if _slope(d, high)[0] <= 0:
        return COLDEST
    beta = 1.0
    for _ in range(100):
        slope, curvature = _slope(d, beta)
        low, high = (low, beta) if slope > 0 else (beta, high)
        step = beta - slope / curvature if curvature > 0 else math.nan
        moved = step if low <= step <= high else math.sqrt(low * high)
        if abs(moved - beta) <= 1e-12 * beta:
            break
        beta = moved
    return 1.0 / beta


def _slope(d: Array, beta: float) -> tuple[float, float]:
    """First and second derivative of mean log Σ_k exp(β·d_k)."""
    p = np.exp(beta * d - (beta * d).max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    mean = (p * d).sum(1)
    return float(mean.mean()), float((p * np.square(d - mean[:, None])).sum(1).mean())


def halves(n: int, seed: int = 0) -> Booleans:
    """[n], True for a random half (the smaller, if n is odd)."""
    chosen = np.zeros(n, dtype=np.bool_)
    chosen[np.random.default_rng(seed).permutation(n)[: n // 2]] = True
    return chosen


def cross_fit(logits: Array, gold: Indices, seed: int = 0) -> tuple[Array, tuple[float, float]]:
    """The temperature of each pair, fitted on the half it is not in; and the two temperatures.

    The first of them was fitted on the rest and belongs to `halves(n, seed)`. Fewer than two pairs are a ValueError.
    """
    if len(gold) < 2:
        raise ValueError(f"cross-fitting needs at least two pairs, got {len(gold)}")
    chosen = halves(len(gold), seed)
    first, second = (fit_temperature(logits[fit_on], gold[fit_on]) for fit_on in (~chosen, chosen))
    return np.where(chosen, first, second), (first, second)


def calibrate(
    aligned: Aligned, *, fitted: tuple[float, str] | None = None, stored: float = 1.0, bins: int = 15, seed: int = 0
) -> Calibration:
    """Confidence before and after temperature scaling.

        calibrate(align(logits, gold, labels)).after.ece

    The temperature is, in this order: the one fitted on a separate set; the one stored in the model
    (other than 1: it is what its predictions use); the one cross-fitted on two halves of this set.
    Two-way gold labels cannot fit the temperature of three logits, so there the last is left out.

    Args:
        aligned: logits and gold labels.
        fitted: a temperature and the name of the separate set it was fitted on.
        stored: the temperature stored in the model; 1 means none.
        bins: of equal width.
        seed: of the split into halves.

    Returns:
        Both, with the temperature and where it comes from; `after` is None where there is no temperature.

    Raises:
        ValueError: if a temperature or the number of bins is not positive.
    """
    check_positive("temperature", stored)
    if fitted is not None:
        check_positive("the fitted temperature", fitted[0])
    before = confidence(aligned, bins=bins)
    if fitted is not None or stored != 1.0:
        T, source = (stored, "stored in the model") if fitted is None else (fitted[0], f"fitted on {fitted[1]}")
        return Calibration(source, (T,), before, confidence(aligned, T, bins))
    if aligned.collapsed or len(aligned) < 2:
        two_way = "none, two-way gold labels cannot fit one; give a calibration set"
        return Calibration(two_way if aligned.collapsed else "none, one pair is too few to fit one", (), before, None)
    per_pair, both = cross_fit(aligned.logits, aligned.gold, seed)
    return Calibration("cross-fitted, two halves", both, before, confidence(aligned, per_pair, bins))
