"""How well scores agree with the words people marked. Gold is one truth value per word.

Scores are judged as they are (AUPRC, AP), or as the words they select (token F1, span IOU-F1, token IOU). For the
latter a rule makes a selection of them: the words with the largest scores, as many as people mark on average, counted
in words per label ("size") or as a share of the pair ("share", the rule of ERASER), or those with a positive score
("positive").

A *document* is what a metric is computed on before the mean is taken: in ERASER premise and hypothesis are two
documents, in ferret a pair is one. Selections are made of the whole pair, and then cut into documents.

The trapezoids of AUPRC reward ties: equal scores for all words reach (1 + share of marked words)/2, where a random
order reaches little more than the share itself. AP does not; the two are not equal.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from neurogame._common.extras import need
from neurogame._common.validation import check_choice
from neurogame.evaluation.alignment import Array, Booleans
from neurogame.evaluation.metrics import ratio
from neurogame_bench.faithfulness.deletion import ranking, share

Unit = Literal["document", "pair"]
Rule = Literal["share", "size", "positive"]
MATCH = 0.5  # IOU from which on a predicted span counts as found
FERRET_SIZE = 5  # words that ferret selects


# --- scores ---------------------------------------------------------------------------------------------------------


def auprc(gold: Booleans, scores: Array) -> float:
    """Area under precision over recall, by trapezoids; NaN where nothing is marked, as recall is undefined."""
    if not gold.any():
        return math.nan
    metrics = need("sklearn.metrics", "explain")
    precision, recall, _ = metrics.precision_recall_curve(gold, scores)
    return float(metrics.auc(recall, precision))


def average_precision(gold: Booleans, scores: Array) -> float:
    """AP = Σ_k (R_k − R_{k−1}) P_k; NaN where nothing is marked."""
    return float(need("sklearn.metrics", "explain").average_precision_score(gold, scores)) if gold.any() else math.nan


def documents(sides: Sequence[str], unit: Unit) -> list[Booleans]:
    """The words of each document: premise and hypothesis, or all; a side without words is no document."""
    check_choice("unit", unit, Unit)
    if unit == "pair":
        return [np.ones(len(sides), dtype=bool)]
    return [np.array([side == name for side in sides]) for name in dict.fromkeys(sides)]


def auprcs(gold: Booleans, scores: Array, sides: Sequence[str], unit: Unit = "document") -> list[float]:
    """AUPRC of each document of a pair; for unit "pair", as in ferret, negative scores count as 0."""
    judged = np.clip(scores, 0.0, None) if unit == "pair" else scores
    return [auprc(gold[words], judged[words]) for words in documents(sides, unit)]


# --- selections -----------------------------------------------------------------------------------------------------


def top(scores: Array, k: int, *, positive: bool = False) -> Booleans:
    """The k words with the largest scores, of equal ones the earlier; with `positive` only those above 0."""
    chosen = np.zeros(len(scores), dtype=bool)
    chosen[ranking(scores)[: max(k, 0)]] = True
    return chosen & (scores > 0) if positive else chosen


def mean_share(golds: Sequence[Booleans]) -> float:
    """Mean over pairs of the marked share of the words, in %."""
    return 100.0 * float(np.mean([gold.mean() for gold in golds]))


def mean_sizes(golds: Sequence[Booleans], labels: Sequence[str | None]) -> dict[str | None, int]:
    """Label → mean number of marked words over its pairs, rounded, at least one."""
    sizes: dict[str | None, list[int]] = {}
    for gold, label in zip(golds, labels, strict=True):
        sizes.setdefault(label, []).append(int(gold.sum()))
    return {label: max(1, round(float(np.mean(counts)))) for label, counts in sizes.items()}


def select(scores: Array, rule: Rule, *, percent: float = 0.0, size: int = 0) -> Booleans:
    """The words that scores select: the largest ⌈percent·n⌉, the largest `size`, or all positive ones."""
    check_choice("rule", rule, Rule)
    if rule == "positive":
        return scores > 0
    return top(scores, share(len(scores), percent) if rule == "share" else size)


def overlap(selected: Booleans, gold: Booleans) -> tuple[int, int, int]:
    """(|selected ∩ gold|, |selected|, |gold|)."""
    return int((selected & gold).sum()), int(selected.sum()), int(gold.sum())


def token_f1(selected: Booleans, gold: Booleans) -> float:
    """F1 of the words of a document: 2|∩|/(|selected| + |gold|).

    0 if one of the two is empty; NaN, a document that is not there, if both are.
    """
    hits, chosen, marked = overlap(selected, gold)
    return 2 * hits / (chosen + marked) if chosen + marked else math.nan


def token_iou(selected: Booleans, gold: Booleans) -> float:
    """|∩|/|∪|, without threshold (ferret); NaN if both are empty."""
    union = int((selected | gold).sum())
    return int((selected & gold).sum()) / union if union else math.nan


def spans(marked: Booleans) -> list[tuple[int, int]]:
    """Runs of marked words as [start, end)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def span_hits(selected: Booleans, gold: Booleans, threshold: float = MATCH) -> tuple[int, int, int]:
    """(found, spans selected, spans marked); found is a selected span if its IOU with a marked one is large enough."""
    predicted, truth = spans(selected), spans(gold)
    best = [max((_iou(a, b) for b in truth), default=0.0) for a in predicted]
    return sum(iou >= threshold for iou in best), len(predicted), len(truth)


def iou_f1(sums: Array) -> Array:
    """ERASER's macro F1(mean P, mean R), of (ΣP, documents with selections, ΣR, documents with marks) [..., 4].

    P and R of a document are the spans found over those selected, and over those marked.
    """
    P, R = (ratio(sums[..., i], sums[..., i + 1]) for i in (0, 2))
    return ratio(2 * P * R, P + R)


def micro_f1(sums: Array) -> Array:
    """2Σ found / (Σ selected + Σ marked), of summed overlaps of words, or hits of spans [..., 3]."""
    return ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2])


def _iou(a: tuple[int, int], b: tuple[int, int]) -> float:
    shared = max(0, min(a[1], b[1]) - max(a[0], b[0]))
    return shared / (a[1] - a[0] + b[1] - b[0] - shared)
