"""All metrics of one ranking on one pair, as rows of summands (see `intervals`): by deletion, and by people's marks.

Deletion metrics come in families by what they cost, for n words (n = 20: forward passes of one ranking):

    aopc        comprehensiveness, sufficiency, their normalised forms                  ≈ 8
    left out    τ-LOO                                                                   n, the same for all rankings
    curve       decision flip, ferret's AOPC, ERASER's single k                         ≈ 25
    mask        AOPC with [MASK], AUC-TP                                                ≈ 16

`asked` says beforehand which inputs `by_deletion` will look at, so that those of all rankings of a pair can be
evaluated together. STATISTICS says what becomes of the sums; where a metric is not in it, a mean.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from neurogame.evaluation.alignment import Array, Booleans
from neurogame.faithfulness import deletion, plausibility
from neurogame.faithfulness.coalitions import Answers, left_out, only, without
from neurogame.faithfulness.intervals import Statistic, summands

Rows = dict[str, Array]  # metric → summands
Family = Literal["aopc", "left out", "curve", "mask"]
FAMILIES: tuple[Family, ...] = ("aopc", "left out", "curve", "mask")


@dataclass(frozen=True, eq=False)
class Subject:
    """A pair under deletion: what the model says of the whole, and of what is left of it, as two functions."""

    whole: Array  # p(· | x), [labels]
    delete: Answers
    mask: Answers | None = None  # None: there is no mask token
    gold: int | None = None  # for AUC-TP
    percent: float | None = None  # of the words that people mark: ERASER's single k

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


def asked(scores: Array, percent: float | None, families: Collection[Family]) -> tuple[Booleans, Booleans]:
    """Coalitions that `by_deletion` looks at: with deleted words, and with masked ones."""
    n, order = len(scores), deletion.ranking(scores)
    gone, stay = _deleted(scores, percent, families)
    deleted = [without(order, gone), only(order, stay)]
    if "left out" in families:
        deleted.append(left_out(n))
    masked = [without(order, _masked(scores)), only(order, deletion.sizes(scores))] if "mask" in families else []
    return np.concatenate(deleted), np.concatenate([np.empty((0, n), dtype=bool), *masked])


def by_deletion(scores: Array, subject: Subject, families: Collection[Family] = FAMILIES) -> Rows:
    """The metrics of `deletion` that the families name; the mask's only where there is one."""
    n, order, y, full = len(scores), deletion.ranking(scores), subject.predicted, subject.full
    removed, alone = _deleted(scores, subject.percent, families)
    answers, kept = subject.delete(without(order, removed)), subject.delete(only(order, alone))
    gone = _curve(n, [0, *removed], np.concatenate([[full], answers[:, y]]))
    stays = _curve(n, alone, kept[:, y])
    empty, ks = float(gone[n]), deletion.sizes(scores)
    found = {
        "comprehensiveness": deletion.comprehensiveness(gone, scores),
        "sufficiency": deletion.sufficiency(full, stays, scores),
        "normalised comprehensiveness": deletion.normalised_comprehensiveness(gone, empty, ks),
        "normalised sufficiency": deletion.normalised_sufficiency(full, stays, empty, ks),
    }
    if "left out" in families:
        found["tau_loo"] = deletion.tau_loo(scores, full, subject.delete(left_out(n))[:, y])
    if "curve" in families:
        flip = deletion.decision_flip(answers.argmax(1), y)
        found |= {
            "comprehensiveness, ferret": deletion.comprehensiveness(gone, scores, "ferret"),
            "sufficiency, ferret": deletion.sufficiency(full, stays, scores, "ferret"),
            "decision flip": 1.0 if flip is None else flip / n,
            "never flipped": float(flip is None),
        }
        if subject.percent is not None:
            k = _share(n, subject.percent)
            for name, p in (("comprehensiveness", answers[k - 1]), ("sufficiency", kept[alone.index(k)])):
                found[f"{name}, human share"] = full - float(p[y])
                found[f"{name}, entropy change"] = deletion.entropy(subject.whole) - deletion.entropy(p)
                found[f"{name}, kl"] = deletion.divergence(p, subject.whole)
    rows = {name: np.array(summands([value])) for name, value in found.items()}
    return rows if subject.mask is None or "mask" not in families else rows | _by_masking(scores, subject, subject.mask)


def _by_masking(scores: Array, subject: Subject, mask: Answers) -> Rows:
    """AOPC with [MASK] in the place of words, and the confusion counts of AUC-TP."""
    n, order, y, full = len(scores), deletion.ranking(scores), subject.predicted, subject.full
    ks, eraser = _masked(scores), deletion.sizes(scores)
    answers = mask(without(order, ks))
    gone = _curve(n, [0, *ks], np.concatenate([[full], answers[:, y]]))
    stays = _curve(n, eraser, mask(only(order, eraser))[:, y])
    rows = {
        "comprehensiveness, mask": np.array(summands([deletion.comprehensiveness(gone, scores)])),
        "sufficiency, mask": np.array(summands([deletion.sufficiency(full, stays, scores)])),
    }
    if subject.gold is not None:
        said = {0: y, **dict(zip(ks, answers.argmax(1).tolist(), strict=True))}
        counts = np.zeros((len(deletion.STEPS), len(subject.whole), len(subject.whole)))
        for step, k in enumerate(deletion.steps(n)):
            counts[step, subject.gold, said[k]] = 1.0
        rows["auc_tp"] = counts.ravel()
    return rows


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
    precisions, recalls = [found / p for found, p, _ in hits if p], [found / t for found, _, t in hits if t]
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


def _deleted(scores: Array, percent: float | None, families: Collection[Family]) -> tuple[list[int], list[int]]:
    """The k ≥ 1 at which without[k] is looked at, and those of only[k]."""
    n, eraser = len(scores), deletion.sizes(scores)
    if "curve" not in families:
        return sorted({*eraser, n}), sorted(set(eraser))
    alone = () if percent is None else (_share(n, percent),)
    return list(range(1, n + 1)), sorted({*eraser, *deletion.sizes(scores, "ferret"), *alone})


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
