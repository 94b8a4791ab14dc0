"""All metrics of one ranking on one pair, as rows of summands (see `intervals`): by deletion, and by people's marks.

Deletion metrics come in families by what they cost, for n words (n = 20: forward passes of one ranking):

    aopc        comprehensiveness, sufficiency, their normalised forms                  ≈ 8
    left out    τ-LOO                                                                   n, the same for all rankings
    curve       decision flip, ferret's AOPC, ERASER's single k                         ≈ 25
    mask        AOPC with [MASK], AUC-TP                                                ≈ 16
    auc         deletion AUC, insertion AUC                                             39, of which 9 are aopc's
    pad         AOPC with words that stay in their places, unattended                   ≈ 8

`asked` says beforehand which inputs `by_deletion` will look at, so that those of all rankings of a pair can be
evaluated together. STATISTICS says what becomes of the sums; where a metric is not in it, a mean. BETTER says which
deletion metrics have a better end, and which it is.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from neurogame.evaluation.alignment import Array, Booleans
from neurogame_bench.faithfulness import deletion, plausibility
from neurogame_bench.faithfulness.coalitions import Answers, left_out, only, without
from neurogame_bench.intervals import Statistic, summands

Rows = dict[str, Array]  # metric → summands
Family = Literal["aopc", "left out", "curve", "mask", "auc", "pad"]
FAMILIES: tuple[Family, ...] = ("aopc", "left out", "curve", "mask", "auc", "pad")
_WAYS = ("", ", mask", ", pad", ", ferret", ", human share")  # of removing words, or of counting them


@dataclass(frozen=True, eq=False)
class Subject:
    """A pair under deletion: what the model says of the whole, and of what is left of it, by way of removal."""

    whole: Array  # p(· | x), [labels]
    delete: Answers
    mask: Answers | None = None  # None: there is no mask token
    gold: int | None = None  # for AUC-TP
    percent: float | None = None  # of the words that people mark: ERASER's single k
    pad: Answers | None = None  # None: words are not padded

    @property
    def predicted(self) -> int:
        """ŷ, which stays."""
        return int(self.whole.argmax())

    @property
    def full(self) -> float:
        """p(ŷ | x)."""
        return float(self.whole[self.predicted])


@dataclass(frozen=True, eq=False)
class Marked:
    """What people marked of a pair, and how many words a selection may have."""

    gold: Booleans
    sides: Sequence[str]
    percent: float  # of the words, mean over the data set
    size: int  # words, mean over the label


def asked(scores: Array, percent: float | None, families: Collection[Family]) -> tuple[Booleans, Booleans, Booleans]:
    """Coalitions that `by_deletion` looks at: with deleted words, with masked ones, and with padded ones."""
    n, order, eraser = len(scores), deletion.ranking(scores), deletion.sizes(scores)
    gone, stay = _deleted(scores, percent, families)
    deleted = [without(order, gone), only(order, stay)]
    if "left out" in families:
        deleted.append(left_out(n))
    nothing = np.empty((0, n), dtype=bool)
    masked = [without(order, _masked(scores)), only(order, eraser)] if "mask" in families else [nothing]
    padded = [without(order, eraser), only(order, eraser)] if "pad" in families else [nothing]
    return np.concatenate(deleted), np.concatenate(masked), np.concatenate(padded)


def by_deletion(scores: Array, subject: Subject, families: Collection[Family] = FAMILIES) -> Rows:
    """The metrics of `deletion` that the families name.

    Args:
        scores: of the words.
        subject: the prediction, and what answers for inputs without some words; those of mask and pad only where it has
            them.
        families: of metrics, see `FAMILIES`.

    Returns:
        Metric → summands, see `intervals`.
    """
    n, order, y, full = len(scores), deletion.ranking(scores), subject.predicted, subject.full
    removed, alone = _deleted(scores, subject.percent, families)
    answers, kept = subject.delete(without(order, removed)), subject.delete(only(order, alone))
    gone = _curve(n, [0, *removed], np.concatenate([[full], answers[:, y]]))
    stays = _curve(n, alone, kept[:, y])
    empty, ks = float(gone[n]), deletion.sizes(scores)
    metrics = {
        "comprehensiveness": deletion.comprehensiveness(gone, scores),
        "sufficiency": deletion.sufficiency(full, stays, scores),
        "normalised comprehensiveness": deletion.normalised_comprehensiveness(gone, empty, ks),
        "normalised sufficiency": deletion.normalised_sufficiency(full, stays, empty, ks),
    }
    if "left out" in families:
        metrics["tau_loo"] = deletion.tau_loo(scores, full, subject.delete(left_out(n))[:, y])
    if "curve" in families:
        flip = deletion.decision_flip(answers.argmax(1), y)
        metrics |= {
            "comprehensiveness, ferret": deletion.comprehensiveness(gone, scores, "ferret"),
            "sufficiency, ferret": deletion.sufficiency(full, stays, scores, "ferret"),
            "decision flip": 1.0 if flip is None else flip / n,
            "never flipped": float(flip is None),
        }
        if subject.percent is not None:
            k = _share(n, subject.percent)
            for name, p in (("comprehensiveness", answers[k - 1]), ("sufficiency", kept[alone.index(k)])):
                metrics[f"{name}, human share"] = full - float(p[y])
                metrics[f"{name}, entropy change"] = deletion.entropy(subject.whole) - deletion.entropy(p)
                metrics[f"{name}, kl"] = deletion.divergence(p, subject.whole)
    if "auc" in families:
        inserted = stays.copy()
        inserted[0], inserted[n] = empty, full  # known without another pass
        metrics |= {"deletion auc": deletion.deletion_auc(gone), "insertion auc": deletion.insertion_auc(inserted)}
    rows = {name: np.array(summands([value])) for name, value in metrics.items()}
    if subject.mask is not None and "mask" in families:
        rows |= _aopc(scores, subject, subject.mask, "mask") | _confusions(scores, subject, subject.mask)
    if subject.pad is not None and "pad" in families:
        rows |= _aopc(scores, subject, subject.pad, "pad")
    return rows


def _aopc(scores: Array, subject: Subject, answers: Answers, way: str) -> Rows:
    """Comprehensiveness and sufficiency where words are removed in another way than by deletion."""
    n, order, y, full = len(scores), deletion.ranking(scores), subject.predicted, subject.full
    ks = deletion.sizes(scores)
    gone = _curve(n, [0, *ks], np.concatenate([[full], answers(without(order, ks))[:, y]]))
    stays = _curve(n, ks, answers(only(order, ks))[:, y])
    return {
        f"comprehensiveness, {way}": np.array(summands([deletion.comprehensiveness(gone, scores)])),
        f"sufficiency, {way}": np.array(summands([deletion.sufficiency(full, stays, scores)])),
    }


def _confusions(scores: Array, subject: Subject, mask: Answers) -> Rows:
    """The confusion counts of AUC-TP, where there is a gold label."""
    if subject.gold is None:
        return {}
    n, ks = len(scores), _masked(scores)
    answers = mask(without(deletion.ranking(scores), ks))
    predicted = {0: subject.predicted, **dict(zip(ks, answers.argmax(1).tolist(), strict=True))}
    counts = np.zeros((len(deletion.STEPS), len(subject.whole), len(subject.whole)))
    for step, k in enumerate(deletion.steps(n)):
        counts[step, subject.gold, predicted[k]] = 1.0
    return {"auc_tp": counts.ravel()}


def by_people(scores: Array, marked: Marked, *, of_gold: Array | None = None, selected: Booleans | None = None) -> Rows:
    """Every metric of `plausibility`.

    Args:
        scores: for the predicted label.
        marked: what people marked.
        of_gold: scores for the gold label, on which AP is computed; None: there is no AP.
        selected: the words themselves, where scores are no more than a selection; None: by the three rules.
    """
    gold, cut = marked.gold, plausibility.documents(marked.sides, "document")
    words = plausibility.select(scores, "share", percent=marked.percent) if selected is None else selected
    others = {
        "size": plausibility.select(scores, "size", size=marked.size),
        "positive": plausibility.select(scores, "positive"),
        "ferret": plausibility.top(scores, plausibility.FERRET_SIZE, positive=True),
    }
    if selected is not None:
        others = dict.fromkeys(others, selected)
    means = {
        "auprc": plausibility.auprcs(gold, scores, marked.sides, "document"),
        "auprc, pair": plausibility.auprcs(gold, scores, marked.sides, "pair"),
        "token f1": [plausibility.token_f1(words[d], gold[d]) for d in cut],
        "token f1, size": [plausibility.token_f1(others["size"][d], gold[d]) for d in cut],
        "token f1, positive": [plausibility.token_f1(others["positive"][d], gold[d]) for d in cut],
        "token f1, ferret": [plausibility.token_f1(others["ferret"], gold)],
        "token iou": [plausibility.token_iou(words, gold)],
    }
    if of_gold is not None:
        means["average precision"] = [plausibility.average_precision(gold, of_gold)]
    hits = [plausibility.span_hits(words[d], gold[d]) for d in cut]
    precisions, recalls = [hit / p for hit, p, _ in hits if p], [hit / t for hit, _, t in hits if t]
    return {
        **{name: np.array(summands(values)) for name, values in means.items()},
        "token f1, micro": np.array(plausibility.overlap(words, gold), dtype=float),
        "iou f1": np.array([*summands(precisions)[:2], *summands(recalls)[:2]]),
        "iou f1, micro": np.sum(hits, axis=0, dtype=float),
    }


def average(draws: Sequence[Rows]) -> Rows:
    """The mean of several rankings of a pair, as one row: random orders, annotators."""
    return {name: np.mean([rows[name] for rows in draws], axis=0) for name in draws[0]}


def _auc_tp(sums: Array) -> Array:
    labels = math.isqrt(sums.shape[-1] // len(deletion.STEPS))
    return deletion.auc_tp(sums.reshape(*sums.shape[:-1], len(deletion.STEPS), labels, labels))


STATISTICS: Mapping[str, Statistic] = {
    "iou f1": plausibility.iou_f1,
    "token f1, micro": plausibility.micro_f1,
    "iou f1, micro": plausibility.micro_f1,
    "auc_tp": _auc_tp,
}
BETTER: Mapping[str, Literal["higher", "lower"]] = {
    **dict.fromkeys((f"comprehensiveness{way}" for way in _WAYS), "higher"),
    **dict.fromkeys((f"sufficiency{way}" for way in _WAYS), "lower"),
    "normalised comprehensiveness": "higher",
    "normalised sufficiency": "higher",
    "tau_loo": "higher",
    "decision flip": "lower",
    "deletion auc": "lower",
    "insertion auc": "higher",
    "auc_tp": "lower",
}


def _deleted(scores: Array, percent: float | None, families: Collection[Family]) -> tuple[list[int], list[int]]:
    """The k ≥ 1 at which without[k] is looked at, and those of only[k]."""
    n = len(scores)
    gone = alone = set(deletion.sizes(scores))
    if "curve" in families:
        alone = {*alone, *deletion.sizes(scores, "ferret"), *(() if percent is None else (_share(n, percent),))}
    if "auc" in families:
        alone = {*alone, *range(1, n)}
    every = "curve" in families or "auc" in families
    return sorted({*gone, n, *(range(1, n + 1) if every else ())}), sorted(alone)


def _share(n: int, percent: float) -> int:
    """As many words as people mark, one at least."""
    return max(1, deletion.share(n, percent))


def _masked(scores: Array) -> list[int]:
    """The k ≥ 1 at which words are masked."""
    return sorted({*deletion.sizes(scores), *deletion.steps(len(scores))} - {0})


def _curve(n: int, ks: Sequence[int], values: Array) -> Array:
    """[n + 1], NaN where nothing was evaluated."""
    curve = np.full(n + 1, math.nan)
    curve[list(ks)] = values
    return curve
