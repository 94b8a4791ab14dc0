"""Two models on the same pairs: McNemar's test, and a paired bootstrap interval of the accuracy difference.

Both see only the four counts of (first right, second right). The test asks whether the discordant
pairs split evenly: b pairs only the first gets right, c only the second. NumPy and math suffice.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from neurogame._common.records import plain
from neurogame._common.validation import check_count
from neurogame.evaluation.metrics import bootstrap, percentiles
from neurogame.evaluation.predictions import Predictions

EXACT_BELOW = 25  # discordant pairs: below, the χ² approximation is too coarse


@dataclass(frozen=True)
class McNemar:
    """H₀: a discordant pair is as likely to favour either model."""

    p_value: float
    statistic: float | None  # χ² with one degree of freedom; None in the exact test
    test: str  # "exact binomial" or "chi-square, continuity-corrected"


@dataclass(frozen=True)
class Comparison:
    """`model` against another on the same data. Positive differences favour `model`."""

    model: str
    against: str
    data: str
    fingerprint: str
    both_right: int
    only_model: int
    only_against: int
    both_wrong: int
    difference: float  # accuracy of model − accuracy of against
    interval: tuple[float, float]  # 95 %, paired percentile bootstrap
    mcnemar: McNemar
    resamples: int
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return plain(self)  # type: ignore[no-any-return]


def mcnemar(b: int, c: int) -> McNemar:
    """McNemar's test of b against c discordant pairs.

        mcnemar(12, 30).p_value

    b + c < 25: exact, two-sided, p = min(1, 2·P(X ≤ min(b, c))) with X ~ Binomial(b + c, ½).
    Otherwise χ² = max(|b − c| − 1, 0)² / (b + c), and p = P(χ²₁ > χ²) = erfc(√(χ²/2)).

    Args:
        b: pairs that only the first model gets right.
        c: pairs that only the second gets right.

    Returns:
        p value, statistic, and which of the two tests it was.

    Raises:
        ValueError: if a count is negative.
    """
    check_count("b", b, least=0)
    check_count("c", c, least=0)
    n = b + c
    if n < EXACT_BELOW:
        tail = sum(math.comb(n, k) for k in range(min(b, c) + 1)) / 2**n
        return McNemar(min(1.0, 2 * tail), None, "exact binomial")
    statistic = max(abs(b - c) - 1, 0) ** 2 / n
    return McNemar(math.erfc(math.sqrt(statistic / 2)), statistic, "chi-square, continuity-corrected")


def check_same_data(first: tuple[str, str], second: tuple[str, str]) -> None:
    """Refuse to compare answers on different data; each argument is the name and the fingerprint of a set."""
    if first[1] != second[1]:
        raise ValueError(
            f"the models were not run on the same pairs: {first[0]} has fingerprint {first[1][:12]}, "
            f"{second[0]} has {second[1][:12]}; another version of the file, another split, or rows dropped in one run?"
        )


def compare(first: Predictions, second: Predictions, *, resamples: int = 1000, seed: int = 0) -> Comparison:
    """McNemar's test and the accuracy difference of two models on the same pairs.

        compare(*load_predictions("runs/a/evaluation")[:1], *load_predictions("runs/b/evaluation")[:1])

    Args:
        first: predictions of one model.
        second: predictions of another on the same data.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Returns:
        The four counts, difference, interval and test; positive differences favour `first`.

    Raises:
        ValueError: if the two were not run on the same pairs with the same gold labels.
    """
    check_same_data((first.data, first.fingerprint), (second.data, second.fingerprint))
    if first.gold != second.gold:
        raise ValueError(f"the gold labels of {first.data} differ between the two runs; was a file edited by hand?")
    right, other = first.aligned.correct, second.aligned.correct
    both, b, c = int((right & other).sum()), int((right & ~other).sum()), int((~right & other).sum())
    counts = np.array([both, b, c, len(first) - both - b - c])
    draws = bootstrap(counts, lambda drawn: (drawn[:, 1] - drawn[:, 2]) / len(first), resamples, seed)
    return Comparison(
        model=first.model,
        against=second.model,
        data=first.data,
        fingerprint=first.fingerprint,
        both_right=both,
        only_model=b,
        only_against=c,
        both_wrong=int(counts[3]),
        difference=(b - c) / len(first),
        interval=percentiles(draws),
        mcnemar=mcnemar(b, c),
        resamples=resamples,
        seed=seed,
    )
