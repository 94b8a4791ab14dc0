"""Shapley values from real coalitions, with a grounded game as control variate: unbiased, with their errors.

    φ = φ_game + ρ/n + x + P E[s (y − s·x)]/(1 − κ)

r(C) = ℓ(x_C) − ℓ(C) is what the game misses, ρ = r(N) − r(∅). A pair (C, N∖C) is drawn with sizes ∝ 1/(s(n − s)) and
C uniform within a size; s_i = ±1 for i in or out of C, y = r(C) − r(N∖C), κ = E[s_i s_j] for i ≠ j, P = I − 11ᵀ/n.
Under that law least squares gives the Shapley values (Charnes et al., 1988), and its normal equations are known in
closed form: the expectation above is exact for every fixed x ⊥ 1 (Covert and Lee, 2021, have x = 0). x is the
least-squares fit of y on s over the *other* folds of the draws, so every fold, and their mean, is unbiased, and what a
linear model explains of the residual costs no variance. Standard errors are those of the mean over pairs.
"""

from dataclasses import dataclass

import torch

from neurogame import exact
from neurogame._types import Bool, Float, Tensor
from neurogame.explanation.reading import Question
from neurogame.explanation.removal import InputGame
from neurogame.grounding.coalitions import draw
from neurogame.grounding.game import WordGame

FOLDS = 5
_ROUND = 32  # passes between two looks at the error
_RIDGE = 1e-6


@dataclass(frozen=True, eq=False)
class Refined:
    """φ of the real game ℓ(x_C)."""

    shapley: Float[Tensor, "words"]
    se: Float[Tensor, "words"]
    passes: int
    exact: bool
    origin: float  # ℓ(x_∅)
    total: float  # ℓ(x) − ℓ(x_∅)
    reached: bool | None  # whether the error that was asked for; None: none was


def refine(
    v: InputGame, game: WordGame, direction: Float[Tensor, "labels"], phi: Float[Tensor, "words"], question: Question
) -> Refined:
    """From at most `question.samples` passes, or fewer where `question.error` is reached before.

    Args:
        v: the real game.
        game: the game that predicts it.
        direction: of the logits.
        phi: the Shapley values of `game`.
        question: with how many passes at most, which error, which seed.
    """
    n, most = v.players, question.samples
    assert most is not None
    if 2**n <= most:
        table = v(exact.all_coalitions(n))
        values, zero = exact.shapley(table), torch.zeros(n, dtype=torch.float64)
        reached = None if question.error is None else True
        origin, total = float(table[0]), float(table[-1] - table[0])
        return Refined(values, zero, len(table), exact=True, origin=origin, total=total, reached=reached)
    ends = torch.tensor([[False], [True]]).expand(2, n)
    said, guessed = v(ends), game.logits(ends) @ direction
    rest = float((said[1] - said[0]) - (guessed[1] - guessed[0]))
    generator = torch.Generator().manual_seed(question.seed)
    pairs = max(2, (most - 2) // 2)
    C = draw([n], 2 * pairs, "shapley", generator=generator)[0, :pairs]
    residual = torch.empty(0, dtype=torch.float64)
    step = pairs if question.error is None else _ROUND // 2
    estimate = se = phi
    while len(residual) < pairs:
        some = C[len(residual) : len(residual) + step]
        both = torch.cat([some, ~some])
        inside, outside = (v(both) - game.logits(both) @ direction).chunk(2)
        residual = torch.cat([residual, inside - outside])
        correction, se = residual_shapley(C[: len(residual)], residual, rest)
        estimate = phi + correction
        if question.error is not None and len(residual) > 2 * FOLDS and float(se.max()) <= question.error:
            break
    reached = None if question.error is None else bool(float(se.max()) <= question.error)
    passes = 2 * len(residual) + 2
    origin, total = float(said[0]), float(said[1] - said[0])
    return Refined(estimate, se, passes, exact=False, origin=origin, total=total, reached=reached)


def residual_shapley(
    C: Bool[Tensor, "pairs words"], y: Float[Tensor, "pairs"], total: float
) -> tuple[Float[Tensor, "words"], Float[Tensor, "words"]]:
    """Shapley values of r from y = r(C) − r(N∖C), and their standard errors; total = r(N) − r(∅)."""
    pairs, n = C.shape
    s = torch.where(C, 1.0, -1.0).double()
    y = y.double() - s.sum(-1) * total / n  # equal shares taken off: what is left sums to 0
    centred = s - s.mean(-1, keepdim=True)  # P s
    folds = min(FOLDS, pairs)
    rows = torch.empty(pairs, n, dtype=torch.float64)
    for fold in range(folds):
        inside = torch.arange(pairs) % folds == fold
        x = _linear(centred[~inside], y[~inside])
        rows[inside] = x + centred[inside] * (y[inside] - centred[inside] @ x).unsqueeze(-1) / (1.0 - correlation(n))
    # of two words or fewer pairs than that there is no spread to tell
    spread = rows.std(0) / pairs**0.5 if pairs > 1 else torch.full((n,), torch.inf).double()
    return total / n + rows.mean(0), spread


def correlation(n: int) -> float:
    """κ = E[s_i s_j], i ≠ j: with d = n − 2s, E[(d² − n)]/(n(n − 1)) over the law of sizes."""
    sizes = torch.arange(1, n, dtype=torch.float64)
    law = 1.0 / (sizes * (n - sizes))
    return float(((law / law.sum()) * ((n - 2.0 * sizes).square() - n)).sum() / (n * (n - 1)))


def _linear(s: Float[Tensor, "rows words"], y: Float[Tensor, "rows"]) -> Float[Tensor, "words"]:
    """The x ⊥ 1 that predicts y best; shrunk where there are few rows, which is no bias: any x will do."""
    n = s.shape[1]
    shrink = _RIDGE + n / max(1, len(s))
    gram = s.mT @ s / max(1, len(s)) + shrink * torch.eye(n, dtype=s.dtype)
    x = torch.linalg.solve(gram, s.mT @ y / max(1, len(s)))
    found: Tensor = x - x.mean()
    return found
