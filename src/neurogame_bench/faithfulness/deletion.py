"""How faithful a ranking of words is: what becomes of p(ŷ) when its first words go, and when they alone stay.

    r_k         the k words with the largest scores; of equal ones the earlier first
    without[k]  p(ŷ | x∖r_k), the first k words removed;   without[0] = p(ŷ | x),  without[n] = p(ŷ | ∅)
    only[k]     p(ŷ | x_{r_k}), all others removed;        only[0] = p(ŷ | ∅),     only[n] = p(ŷ | x)

    comprehensiveness(k) = without[0] − without[k]      higher is better: the words were needed
    sufficiency(k)       = without[0] − only[k]         lower is better: the words are enough

ŷ is the label of the whole pair and stays. AOPC is the mean over the k of a protocol (`sizes`): "eraser" has k = ⌈b·n⌉
for b = 1, 5, 10, 20, 50 %, of which, for the twenty words of an SNLI pair, the first two are the same word; "ferret"
has k = ⌊t·n⌋ for t = 10, 20, …, 100 %, counts words with a positive score only, and a set of words once.

Deletion and insertion AUC (Petsiuk et al., 2018) take every k instead: the areas under without[k] and under only[k]
over the share k/n of the words.

Curves are arrays over k; entries that no protocol reads may be NaN.
"""

import math
from collections.abc import Sequence
from typing import Literal, cast

import numpy as np

from neurogame._common.validation import check_choice
from neurogame.evaluation.alignment import Array, Indices
from neurogame.evaluation.metrics import Counts, macro_f1
from neurogame_bench.faithfulness.correlation import kendall

Protocol = Literal["eraser", "ferret"]
BINS = (1, 5, 10, 20, 50)  # % of the words, of ERASER
STEPS = tuple(range(0, 101, 10))  # % of the words, of AUC-TP


def ranking(scores: Array) -> Indices:
    """Words by falling score; of equal ones the earlier first."""
    if not np.isfinite(scores).all():
        raise ValueError(f"{int((~np.isfinite(scores)).sum())} of {len(scores)} scores are NaN or infinite: no ranking")
    return np.argsort(-np.asarray(scores, dtype=float), kind="stable")


def share(n: int, percent: float) -> int:
    """⌈percent·n⌉ words; what floating point adds to a whole number is no word more."""
    return math.ceil(round(percent * n / 100.0, 9))


def sizes(scores: Array, protocol: Protocol = "eraser") -> list[int]:
    """The k of a protocol, in whole numbers; "eraser" repeats some, "ferret" may have none."""
    check_choice("protocol", protocol, Protocol)
    n = len(scores)
    if protocol == "eraser":
        return [share(n, b) for b in BINS]
    positive = int((scores > 0).sum())
    counts = (min(t * n // 10, positive) for t in range(1, 11))
    return list(dict.fromkeys(k for k in counts if k))


def comprehensiveness(without: Array, scores: Array, protocol: Protocol = "eraser") -> float:
    """AOPC: mean over k of without[0] − without[k]; higher is better.

    Args:
        without: p(ŷ | x∖r_k) for k = 0 … n.
        scores: of the words, which say at which k.
        protocol: of the k, see above.

    Returns:
        The mean; 0 where ferret finds no word to remove.
    """
    ks = sizes(scores, protocol)
    return float(np.mean(without[0] - without[ks])) if ks else 0.0


def sufficiency(full: float, only: Array, scores: Array, protocol: Protocol = "eraser") -> float:
    """AOPC: mean over k of p(ŷ|x) − only[k]; lower is better.

    Args:
        full: p(ŷ|x).
        only: p(ŷ | x_{r_k}) for k = 0 … n.
        scores: of the words, which say at which k.
        protocol: of the k, see above.

    Returns:
        The mean; 1 where ferret finds no word to keep.
    """
    ks = sizes(scores, protocol)
    return float(np.mean(full - only[ks])) if ks else 1.0


def normalised_comprehensiveness(without: Array, empty: float, ks: Sequence[int]) -> float:
    """Mean over k of max(0, without[0] − without[k]) / (1 − S), clipped to [0, 1]; S as below (Carton et al., 2020)."""
    room = _room(float(without[0]), empty)
    return float(np.mean(np.clip((without[0] - without[list(ks)]) / room, 0.0, 1.0)))


def normalised_sufficiency(full: float, only: Array, empty: float, ks: Sequence[int]) -> float:
    """Mean over k of (S_k − S)/(1 − S), clipped to [0, 1]: higher is better, unlike sufficiency itself.

    S_k = 1 − max(0, p(ŷ|x) − only[k]) and S the same of the empty input, with p(ŷ|∅). NaN where p(ŷ|∅) ≥ p(ŷ|x):
    the empty input gives ŷ all its probability, and there is nothing to normalise by.
    """
    room = _room(full, empty)
    return float(np.mean(np.clip((room - np.clip(full - only[list(ks)], 0.0, None)) / room, 0.0, 1.0)))


def deletion_auc(without: Array) -> float:
    """∫₀¹ p(ŷ) dt while the words are deleted, top first; t = k/n is the share that is gone. Lower is better.

    Σ_{k=1}^{n} (without[k−1] + without[k]) / 2n, by trapezoids: in [0, 1], NaN where there are no words.

    Args:
        without: p(ŷ | x∖r_k) for k = 0 … n, from the whole pair to the empty text; every entry counts.
    """
    return _area(without)


def insertion_auc(only: Array) -> float:
    """∫₀¹ p(ŷ) dt while the words are inserted into the empty text, top first; t = k/n is the share that is there.

    Σ_{k=1}^{n} (only[k−1] + only[k]) / 2n, by trapezoids: in [0, 1], higher is better, NaN where there are no words.

    Args:
        only: p(ŷ | x_{r_k}) for k = 0 … n, from the empty text to the whole pair; every entry counts.
    """
    return _area(only)


def _area(curve: Array) -> float:
    """Under n + 1 values that are 1/n apart."""
    n = len(curve) - 1
    return float(np.trapezoid(curve, dx=1.0 / n)) if n else math.nan


def _room(full: float, empty: float) -> float:
    """1 − S = p(ŷ|x) − p(ŷ|∅) where it is positive, else NaN."""
    return full - empty if full > empty else math.nan


def entropy(p: Array) -> float:
    """H(p) = −Σ p log p."""
    seen = p[p > 0]
    return float(-(seen * np.log(seen)).sum())


def divergence(p: Array, q: Array) -> float:
    """KL(p‖q) = Σ p log p/q, how far the perturbed input's labels are from those of the whole; NaN where infinite."""
    seen = p > 0
    return float((p[seen] * np.log(p[seen] / q[seen])).sum()) if q[seen].all() else math.nan


def tau_loo(scores: Array, full: float, left_out: Array) -> float:
    """Kendall's τ-b between scores and p(ŷ|x) − p(ŷ|x∖{i}); NaN where either is constant."""
    return kendall(scores, full - left_out)


def decision_flip(labels: Sequence[int] | Indices, predicted: int) -> int | None:
    """The smallest k ≥ 1 at which the label of x∖r_k, `labels[k − 1]`, is another than ŷ; None if it never is."""
    other = np.flatnonzero(np.asarray(labels) != predicted)
    return int(other[0]) + 1 if len(other) else None


def steps(n: int) -> list[int]:
    """⌊t·n⌋ words for t = 0, 10, …, 100 %: where AUC-TP looks."""
    return [t * n // 100 for t in STEPS]


def auc_tp(counts: Array) -> Array:
    """∫ macro-F1 dt over t = 0 … 100 % of the words masked, by trapezoids: 0 to 100, lower is better.

    `counts` are confusion counts [..., steps, gold, predicted] of all pairs; labels that no gold has do not count.
    """
    present = counts.reshape(-1, *counts.shape[-2:]).sum((0, 2)) > 0
    curve = macro_f1(cast("Counts", counts), present)  # counts may be means over draws
    return np.asarray(np.trapezoid(curve, STEPS, axis=-1))
