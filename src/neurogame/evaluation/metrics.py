"""Accuracy, F1 per class and macro, the confusion matrix, and accuracy by group: names in, records out.

Every statistic here is a function of the confusion counts, so its bootstrap needs no resampling of
pairs: drawing N pairs with replacement and counting them is one draw from a multinomial over the
cells of the confusion matrix. `bootstrap` does that for any such statistic, exactly and all
resamples at once. NumPy suffices; scikit-learn is what the tests compare with.

0/0 is 0 in precision, recall and F1. Macro-F1 is the mean over the labels that the gold labels have:
a label the data lack costs the others recall when it is predicted, and is not an F1 of 0 besides.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from neurogame._common.printing import printable
from neurogame._common.records import plain
from neurogame._common.validation import check_count
from neurogame.evaluation.alignment import Aligned, Array, Booleans, align, sort_labels
from neurogame.evaluation.calibration import Bin, confidence

LEVEL = 0.95  # of every interval
_Z = 1.959963984540054  # Φ⁻¹(.975)
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class ClassScores:
    """One label against the rest. Recall is the accuracy on the pairs that have this gold label."""

    precision: float
    recall: float
    f1: float
    support: int  # pairs with this gold label
    predicted: int  # pairs predicted to have it


@dataclass(frozen=True)
class Scores:
    """How well logits agree with gold labels. Intervals are 95 % percentile bootstrap; probabilities are at T = 1."""

    n: int
    accuracy: float
    interval: tuple[float, float]
    macro_f1: float
    macro_f1_interval: tuple[float, float]
    labels: tuple[str, ...]
    classes: dict[str, ClassScores]
    confusion: tuple[tuple[int, ...], ...]  # rows gold, columns predicted, both in the order of `labels`
    nll: float
    brier: float
    ece: float
    bins: int  # of equal width
    reliability: tuple[Bin, ...]
    resamples: int
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return plain(self)  # type: ignore[no-any-return]

    @property
    def majority(self) -> float:
        """Accuracy of always answering the most frequent gold label."""
        return max(c.support for c in self.classes.values()) / self.n


@dataclass(frozen=True)
class Group:
    """Accuracy on the pairs that share what `key` says; the interval is Wilson's."""

    key: dict[str, str]
    n: int
    accuracy: float
    interval: tuple[float, float]


def score(
    logits: ArrayLike | torch.Tensor,
    gold: Sequence[str],
    labels: Sequence[str],
    *,
    bins: int = 15,
    resamples: int = 1000,
    seed: int = 0,
) -> Scores:
    """Score logits against gold labels, by name.

        score(nli.logits(pairs), gold, nli.labels).accuracy

    Args:
        logits: [pairs, labels].
        gold: gold label of each pair.
        labels: names of the columns.
        bins: of the calibration error.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Returns:
        Accuracy and macro-F1 with intervals, scores by label, confusion counts, calibration at T = 1.

    Raises:
        ValueError: see `alignment.align`.
    """
    return score_aligned(align(logits, gold, labels), bins=bins, resamples=resamples, seed=seed)


def score_aligned(aligned: Aligned, *, bins: int = 15, resamples: int = 1000, seed: int = 0) -> Scores:
    """`score`, of what is already aligned."""
    counts = confusion(aligned)
    support, predicted, hits = counts.sum(1), counts.sum(0), np.diagonal(counts)
    present = support > 0
    figures = (ratio(hits, predicted), ratio(hits, support), f1(counts), support, predicted)
    rows = zip(*(column.tolist() for column in figures), strict=True)
    trust = confidence(aligned, bins=bins)
    draws = bootstrap(counts, lambda drawn: np.stack([accuracy(drawn), macro_f1(drawn, present)]), resamples, seed)
    return Scores(
        n=len(aligned),
        accuracy=float(accuracy(counts)),
        interval=percentiles(draws[0]),
        macro_f1=float(macro_f1(counts, present)),
        macro_f1_interval=percentiles(draws[1]),
        labels=aligned.names,
        classes={name: ClassScores(*row) for name, row in zip(aligned.names, rows, strict=True)},
        confusion=tuple(tuple(row) for row in counts.tolist()),
        **vars(trust),
        resamples=resamples,
        seed=seed,
    )


def confusion(aligned: Aligned) -> Counts:
    """[gold, predicted] counts, in the order of the names."""
    k = len(aligned.names)
    return np.bincount(aligned.gold * k + aligned.predicted, minlength=k * k).reshape(k, k)


def accuracy(counts: Counts) -> Array:
    """Σ_k n_kk / N of confusion counts [..., gold, predicted]."""
    hits: Array = np.trace(counts, axis1=-2, axis2=-1) / counts.sum((-2, -1))
    return hits


def f1(counts: Counts) -> Array:
    """2·n_kk / (gold_k + predicted_k) for each label: [..., labels]."""
    hits = np.diagonal(counts, axis1=-2, axis2=-1)
    return ratio(2 * hits, counts.sum(-1) + counts.sum(-2))


def macro_f1(counts: Counts, present: Booleans) -> Array:
    """Mean F1 over the labels that are `present` in the gold labels."""
    mean: Array = f1(counts)[..., present].mean(-1)
    return mean


def bootstrap(counts: Counts, statistic: Callable[[Counts], Array], resamples: int = 1000, seed: int = 0) -> Array:
    """`statistic` of `resamples` bootstrap draws of a table of counts.

    N pairs drawn with replacement have multinomial cell counts with probabilities counts/N. With a count of 1 for each
    of N pairs, the draws are the weights of the pairs.

    Args:
        counts: of any shape.
        statistic: of draws [resamples, *counts.shape].
        resamples: how many.
        seed: of the draws.

    Returns:
        What `statistic` returns.
    """
    check_count("resamples", resamples)
    total = int(counts.sum())
    drawn = np.random.default_rng(seed).multinomial(total, counts.ravel() / total, size=resamples)
    return statistic(drawn.reshape(resamples, *counts.shape))


def percentiles(draws: Array) -> tuple[float, float]:
    """The 95 % percentile interval of bootstrap draws."""
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval for a proportion.

    Groups are often all right or all wrong (HANS), where a bootstrap would report no width at all.
    """
    centre, spread = hits + _Z**2 / 2, _Z * math.sqrt(hits * (n - hits) / n + _Z**2 / 4)
    return max(0.0, (centre - spread) / (n + _Z**2)), min(1.0, (centre + spread) / (n + _Z**2))


def by(
    keys: Sequence[str], extras: Sequence[Mapping[str, Any]], gold: Sequence[str], correct: Sequence[bool] | Booleans
) -> tuple[Group, ...]:
    """Accuracy by group: `by(("heuristic", "label"), …)` is the table of HANS, `by(("round",), …)` that of ANLI.

        by(["label"], [{}] * len(gold), gold, aligned.correct)

    Args:
        keys: entries of a pair's extras, or "label", the gold label.
        extras: of each pair.
        gold: gold label of each pair.
        correct: whether each pair was predicted right.

    Returns:
        A group for each combination that occurs, in the order of labels and names.

    Raises:
        ValueError: if there is no key, or a pair lacks one.
    """
    if not keys:
        raise ValueError("keys must name at least one entry of the extras, or 'label'")
    counts: dict[tuple[str, ...], list[int]] = {}
    for extra, name, hit in zip(extras, gold, correct, strict=True):
        absent = [key for key in keys if key != "label" and key not in extra]
        if absent:
            names = printable(", ".join(map(str, extra))) or "empty"
            raise ValueError(f"a pair has no {absent[0]!r} to group by; its extras are {names}")
        cell = counts.setdefault(tuple(name if key == "label" else str(extra[key]) for key in keys), [0, 0])
        cell[0] += 1
        cell[1] += bool(hit)
    rank = {name: f"{k:03d}" for k, name in enumerate(sort_labels(set(gold)))}
    places = sorted(counts, key=lambda cell: [rank[v] if k == "label" else v for k, v in zip(keys, cell, strict=True)])
    groups = ((dict(zip(keys, cell, strict=True)), counts[cell]) for cell in places)
    return tuple(Group(key, n, hits / n, wilson(hits, n)) for key, (n, hits) in groups)


def ratio(part: NDArray[Any], whole: NDArray[Any]) -> Array:
    """part/whole, and 0 where whole is 0."""
    quotient: Array = np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0)
    return quotient
