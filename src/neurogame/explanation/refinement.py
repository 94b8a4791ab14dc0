"""Shapley values from real coalitions, with a grounded game as control variate: unbiased, with their errors.

    φ = φ_game + ρ/n + x + P E[s (y − s·x)]/(1 − κ)

r(C) = ℓ(x_C) − ℓ(C) is what the game misses, ρ = r(N) − r(∅). A pair (C, N∖C) has sizes ∝ 1/(k(n − k)) and C uniform
within a size; s_i = ±1 for i in or out of C, y = r(C) − r(N∖C), κ = E[s_i s_j] for i ≠ j, P = I − 11ᵀ/n. Under that law
least squares gives the Shapley values (Charnes et al., 1988), and its normal equations are known in closed form: the
expectation above is exact for every fixed x ⊥ 1 (Covert and Lee, 2021, have x = 0).

Two strata: all pairs ({i}, N∖i), a third of the law at twenty words, are evaluated and not drawn; the others are drawn.
x is the least-squares fit of y on s over the first stratum and the *other* folds of the draws. So every fold, and their
mean, is unbiased, and what a linear model explains of the residual costs no variance. Standard errors are those of the
mean over the draws; the error of φ_game, where that is sampled, is added.
"""

from typing import Any, NamedTuple

import torch

from neurogame import exact
from neurogame._common.types import Bool, Float, Tensor
from neurogame.explanation.reading import Question
from neurogame.explanation.removal import InputGame
from neurogame.grounding.game import WordGame

FOLDS = 5
_ROUND = 32  # passes between two checks of the error
_RIDGE = 1e-6
_LEAST = 5  # pairs that must be left to draw


class Refined(NamedTuple):
    """φ of the real game ℓ(x_C), their standard errors, and diagnostics.

    passes, exact, origin = ℓ(x_∅), total = ℓ(x) − ℓ(x_∅), and reached: whether the errors are as small as asked for;
    None where no error was asked for.
    """

    shapley: Float[Tensor, "words"]
    se: Float[Tensor, "words"]
    diagnostics: dict[str, Any]


def refine(
    v: InputGame,
    game: WordGame,
    direction: Float[Tensor, "labels"],
    phi: Float[Tensor, "words"],
    error: Float[Tensor, "words"],
    question: Question,
) -> Refined:
    """The real game v, from at most `question.samples` passes, or fewer where `question.error` is reached before.

    `game` predicts v along `direction`; `phi` are its Shapley values there, `error` their standard errors.
    """
    n, most, goal = v.players, question.samples, question.error
    assert most is not None

    def result(shapley: Tensor, se: Tensor, ends: Tensor, **facts: Any) -> Refined:
        origin, total = float(ends[0]), float(ends[1] - ends[0])
        reached = None if goal is None else bool(float(se.max()) <= goal)
        return Refined(shapley, se, {**facts, "origin": origin, "total": total, "reached": reached})

    def residual(C: Bool[Tensor, "pairs words"]) -> Float[Tensor, "pairs"]:
        """r(C) − r(N∖C)."""
        both = torch.cat([C, ~C])
        inside, outside = (v(both) - game.logits(both) @ direction).chunk(2)
        return inside - outside

    if 2**n <= most:
        table = v(exact.all_coalitions(n))
        zero = torch.zeros(n, dtype=torch.float64)
        return result(exact.shapley(table), zero, table[[0, -1]], passes=len(table), exact=True)
    pairs = (most - 2) // 2
    if pairs < 2:
        raise ValueError(
            f"samples = {most}: refining needs at least 6 forward passes, the whole and nothing among them"
        )
    ends = torch.tensor([[False], [True]]).expand(2, n)
    observed, predicted = v(ends), game.logits(ends) @ direction
    rest = float((observed[1] - observed[0]) - (predicted[1] - predicted[0]))
    single = torch.eye(n, dtype=torch.bool)[: n if pairs >= n + _LEAST and n > 3 else 0]
    first = residual(single) if len(single) else torch.zeros(0, dtype=torch.float64)
    C = draw_coalitions(n, pairs - len(single), inner=len(single) > 0, seed=question.seed)
    y = torch.zeros(0, dtype=torch.float64)
    step = len(C) if goal is None else _ROUND // 2
    estimate, se = phi, torch.full_like(phi, torch.inf)
    while len(y) < len(C):
        y = torch.cat([y, residual(C[len(y) : len(y) + step])])
        correction, se = residual_shapley(C[: len(y)], y, rest, single, first)
        estimate, se = phi + correction, (se.square() + error.square()).sqrt()
        if goal is not None and len(y) > 2 * FOLDS and float(se.max()) <= goal:
            break
    return result(estimate, se, observed, passes=2 * (len(y) + len(single)) + 2, exact=False)


def draw_coalitions(n: int, count: int, *, inner: bool, seed: int) -> Bool[Tensor, "pairs words"]:
    """Coalitions of k words with probability ∝ 1/(k(n − k)), k = 1 … n − 1, or with `inner` 2 … n − 2."""
    generator = torch.Generator().manual_seed(seed)
    k = torch.arange(2, n - 1) if inner else torch.arange(1, n)
    size = k[torch.multinomial(1.0 / (k * (n - k)), count, replacement=True, generator=generator)]
    rank = torch.rand(count, n, generator=generator).argsort(-1).argsort(-1)
    return rank < size.unsqueeze(-1)


def residual_shapley(
    C: Bool[Tensor, "pairs words"],
    y: Float[Tensor, "pairs"],
    total: float,
    single: Bool[Tensor, "words words"] | None = None,
    first: Float[Tensor, "words"] | None = None,
) -> tuple[Float[Tensor, "words"], Float[Tensor, "words"]]:
    """Shapley values of r, and their standard errors.

    From pairs that were drawn, by one of their coalitions C, with y = r(C) − r(N∖C); from the `total` r(N) − r(∅); and,
    where all ({i}, N∖i) were evaluated and C has none of them, from the `single` {i} with `first` = r({i}) − r(N∖i).
    """
    pairs, n = C.shape
    s, y = _centre(C, y, total)
    exact_s, exact_y = _centre(C[:0] if single is None else single, y[:0] if first is None else first, total)
    share = singles(n) if len(exact_y) else 0.0  # of the law, that the first stratum has
    folds = min(FOLDS, pairs)
    rows = torch.empty(pairs, n, dtype=torch.float64)
    for fold in range(folds):
        inside = torch.arange(pairs) % folds == fold
        x = _linear(torch.cat([exact_s, s[~inside]]), torch.cat([exact_y, y[~inside]]))
        evaluated = (exact_s * (exact_y - exact_s @ x).unsqueeze(-1)).mean(0) if share else torch.zeros(n).double()
        drawn = s[inside] * (y[inside] - s[inside] @ x).unsqueeze(-1)
        rows[inside] = x + (share * evaluated + (1.0 - share) * drawn) / (1.0 - correlation(n))
    spread = rows.std(0) / pairs**0.5 if pairs > 1 else torch.full((n,), torch.inf).double()
    return total / n + rows.mean(0), spread


def _centre(C: Tensor, y: Tensor, total: float) -> tuple[Float[Tensor, "pairs words"], Float[Tensor, "pairs"]]:
    """P s of each pair, and y less what equal shares of the total explain."""
    s = torch.where(C, 1.0, -1.0).double()
    return s - s.mean(-1, keepdim=True), y.double() - s.sum(-1) * total / C.shape[1]


def _sizes(n: int) -> tuple[Float[Tensor, "sizes"], Float[Tensor, "sizes"]]:
    """k = 1 … n − 1, and their probabilities ∝ 1/(k(n − k))."""
    k = torch.arange(1, n, dtype=torch.float64)
    law = 1.0 / (k * (n - k))
    return k, law / law.sum()


def singles(n: int) -> float:
    """The probability of sizes 1 and n − 1."""
    _, law = _sizes(n)
    return float(law[0] + law[-1]) if n > 2 else 1.0


def correlation(n: int) -> float:
    """κ = E[s_i s_j], i ≠ j: with d = n − 2k, E[(d² − n)]/(n(n − 1)) over the law of sizes."""
    k, law = _sizes(n)
    return float((law * ((n - 2.0 * k).square() - n)).sum() / (n * (n - 1)))


def _linear(s: Float[Tensor, "rows words"], y: Float[Tensor, "rows"]) -> Float[Tensor, "words"]:
    """The x ⊥ 1 that predicts y best; shrunk where there are few rows, which is no bias: any x will do."""
    n = s.shape[1]
    shrink = _RIDGE + n / max(1, len(s))
    gram = s.mT @ s / max(1, len(s)) + shrink * torch.eye(n, dtype=s.dtype)
    x = torch.linalg.solve(gram, s.mT @ y / max(1, len(s)))
    centred: Tensor = x - x.mean()
    return centred
