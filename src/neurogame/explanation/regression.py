"""Shapley, Banzhaf and pair interactions of a game that is expensive to evaluate: each evaluation serves every word.

`values.estimate_game` pays n + 1 evaluations for the marginal contributions of one coalition. Where each is a forward
pass of a model, regression gets more out of them. With s_i = ±1 for i in or out of C, a coalition and its complement
split the game into an odd and an even part,

    v(C) − v(N∖C)        ≈ Σ_i x_i s_i               x = φ or β
    (v(C) + v(N∖C)) / 2  ≈ c + Σ_{i<j} J_ij s_i s_j / 4

and least squares over all C gives exactly φ (weights 1/(binom(n,k)·k(n−k)), k = |C|, and Σφ = v(N) − v(∅); Charnes et
al., 1988, as in KernelSHAP), and exactly β and the Banzhaf interactions (equal weights; Hammer and Holzman, 1992). Here
it is over some of the pairs (C, N∖C): every ({i}, N∖i), and others drawn, half by the Shapley p-law of `sampling`, half
by the Banzhaf law. Each has its weight divided by the probability π that K draws find it,

    π(C) = 1 − (1 − 2m(C))^K,   m(C) = ½·1/((n+1)·binom(n,k)) + ½·2^−n

so all three are consistent, exact once every pair has been drawn, and exact for 2-additive games once the pairs
determine them. Where they do not (n(n−1)/2 interactions from hardly more pairs), coefficients are shrunk by the ridge
that predicts left-out pairs best. Standard errors have the spread of the estimate, from left-out residuals and the
chance 1 − π of each pair to be missing, and what shrinking may have taken away.
"""

from collections.abc import Callable
from math import log
from typing import NamedTuple

import torch

from neurogame import sampling
from neurogame._common.types import Bool, Float, Int, Tensor

ENOUGH = 2.0  # effective rows per unknown from which on nothing is shrunk
RIDGES = torch.logspace(-10, 1, 34, dtype=torch.float64)  # in units of the largest squared singular value
_ZERO = 1e-9  # a singular value of this share of the largest
_MOST = 64  # draws per pair, after which no new ones are looked for
LARGEST = 1 << 26  # entries of the pairs' design matrix; beyond, there are no interactions
Values = Callable[[Bool[Tensor, "coalitions players"]], Float[Tensor, "coalitions"]]


class Fitted(NamedTuple):
    """Coefficients, their standard errors, and how many rows of equal weight theirs are worth."""

    value: Float[Tensor, "features"]
    se: Float[Tensor, "features"]
    ess: float  # (Σw)²/Σw²


class Estimate(NamedTuple):
    """What the regressions found; no interactions where there would be too many."""

    shapley: Fitted
    banzhaf: Fitted
    interactions: Float[Tensor, "players players"] | None
    interactions_se: float | None  # of a typical pair
    coalitions: int  # distinct ones, complements included


def estimate(v: Values, n: int, *, pairs: int, seed: int) -> Estimate:
    """Values of v from ∅, N and at most `pairs` ≥ n pairs (C, N∖C), for n > 3: at most 2·pairs + 2 evaluations."""
    C, draws = draw_pairs(n, pairs, seed)
    s = torch.where(C, 1.0, -1.0).double()
    inside, outside = v(torch.cat([C, ~C])).double().chunk(2)
    to_shapley, to_banzhaf, chance = weights(C.sum(-1), n, draws)
    odd, even = inside - outside, (inside + outside) / 2.0
    phi = _efficient(s, odd, to_shapley, chance)
    beta = fit(s, odd, to_banzhaf, chance)
    J, error = None, None
    if len(C) * n * (n - 1) // 2 <= LARGEST:
        i, j = torch.triu_indices(n, n, offset=1)
        pairs_fit = fit(s[:, i] * s[:, j] / 4.0, even, to_banzhaf, chance, intercept=True)
        J = torch.zeros(n, n, dtype=torch.float64)
        J[i, j] = pairs_fit.value
        J, error = J + J.mT, float(pairs_fit.se.square().mean().sqrt())
    return Estimate(phi, beta, J, error, 2 * len(C))


def draw_pairs(n: int, pairs: int, seed: int) -> tuple[Bool[Tensor, "pairs players"], int]:
    """One member of each pair: N first, then every N∖i, then those that were drawn; and the number K of draws.

    K is as large as it may be for no more than `pairs` different ones, (∅, N) not counted.
    """
    C = torch.cat([torch.ones(1, n, dtype=torch.bool), ~torch.eye(n, dtype=torch.bool)])
    wanted = pairs - n
    few, many = 0, 1
    while len(_inner(n, many, seed)) <= wanted and many < _MOST * pairs:
        few, many = many, 2 * many
    while many - few > 1:
        half = (few + many) // 2
        few, many = (half, many) if len(_inner(n, half, seed)) <= wanted else (few, half)
    return (torch.cat([C, _inner(n, few, seed)]) if few else C), 2 * few


def _inner(n: int, half: int, seed: int) -> Bool[Tensor, "pairs players"]:
    """The different pairs among `half` draws of each law, without those of N and N∖i; each by the one with player 0."""
    source = sampling.seed_of(seed, torch.device("cpu"))
    laws: tuple[sampling.Law, sampling.Law] = ("shapley", "banzhaf")
    C = torch.cat([sampling.paired(source, law, 1, 2 * half, n)[0, :half] for law in laws])
    k = C.sum(-1)
    distinct: Tensor = (C ^ ~C[:, :1])[(k > 1) & (k < n - 1)].unique(dim=0)
    return distinct


def weights(
    size: Int[Tensor, "rows"], n: int, draws: int
) -> tuple[Float[Tensor, "rows"], Float[Tensor, "rows"], Float[Tensor, "rows"]]:
    """Shapley's kernel and the Banzhaf law over π, the largest 1, and π, for coalitions of k players."""
    k = size.double()
    choices = torch.lgamma(torch.tensor(n + 1.0).double()) - torch.lgamma(k + 1.0) - torch.lgamma(n - k + 1.0)
    uniform = torch.full_like(k, -n * log(2.0))
    once = torch.logaddexp(-choices - log(n + 1), uniform)  # log 2m
    ever = (-torch.expm1(draws * torch.log1p(-once.exp().clamp(max=1.0 - 1e-12)))).log()
    ever = torch.where(once < -30.0, once + log(max(draws, 1)), ever)  # log π
    ever = ever.masked_fill((k <= 1) | (k >= n - 1), 0.0)
    kernel = (-choices - (k * (n - k)).log() - ever).masked_fill((k == 0) | (k == n), -torch.inf)
    banzhaf = uniform - ever
    return (kernel - kernel.max()).exp(), (banzhaf - banzhaf.max()).exp(), ever.exp()


def _efficient(s: Tensor, odd: Tensor, weight: Tensor, chance: Tensor) -> Fitted:
    """φ with Σφ = v(N) − v(∅), the first of `odd`: equal shares, and what differs from them, which sums to 0."""
    n, total = s.shape[1], float(odd[0])
    start = torch.cat([torch.ones(n, 1), torch.eye(n)[:, : n - 1]], 1).double()
    basis = torch.linalg.qr(start).Q[:, 1:]  # orthonormal, orthogonal to 1
    rest = fit(s, odd - s.sum(-1) * total / n, weight, chance, basis=basis)
    return Fitted(total / n + rest.value, rest.se, rest.ess)


def fit(
    X: Float[Tensor, "rows features"],
    y: Float[Tensor, "rows"],
    weight: Float[Tensor, "rows"],
    chance: Float[Tensor, "rows"],
    *,
    basis: Float[Tensor, "features directions"] | None = None,
    intercept: bool = False,
) -> Fitted:
    """x minimising Σ_r w_r (y_r − X_r x)² + λ‖x‖² within the span of `basis`.

    λ is 0 where the rows are ENOUGH for the unknowns, else the one that predicts left-out rows best. With
    √w X = U diag(d) Vᵀ everything follows from f = d²/(d² + λ): x = M √w y with M = V diag(f/d) Uᵀ, the leverages
    h = diag(U f Uᵀ), the residuals r/(1 − h) of rows left out. Squared error: Σ_r (1 − π_r) M_r² r_r²/(1 − h_r)², and
    for each direction (1 − f)² σ²/λ, which is what shrinking takes away under the prior that the ridge stands for.
    """
    root = (weight / weight.max()).sqrt()
    A, b = root.unsqueeze(-1) * (X if basis is None else X @ basis), root * y
    mean = root / root.norm() if intercept else torch.zeros_like(root)
    A, b = A - torch.outer(mean, mean @ A), b - mean * (mean @ b)
    U, d, Vt = torch.linalg.svd(A, full_matrices=False)
    real = d > _ZERO * d[0]  # the others say nothing, as that of `mean`
    U, d, Vt = U[:, real], d[real], Vt[real]
    effective = float(weight.sum().square() / weight.square().sum())
    ridges = (RIDGES if effective < ENOUGH * A.shape[1] else RIDGES[:1]) * d[0].square()
    shrunk = ridges.unsqueeze(-1) / (d.square() + ridges.unsqueeze(-1))  # 1 − f: a row per λ
    along = U.mT @ b
    residual = b - U @ along + (shrunk * along) @ U.mT  # (λ, rows)
    left = (1.0 - U.square().sum(-1) - mean.square()).clamp(min=0.0) + shrunk @ U.square().mT  # 1 − h
    left = left.clamp(min=torch.finfo(X.dtype).eps)
    best = int((residual / left).square().sum(-1).argmin())
    r, left, shrunk, ridge = residual[best], left[best], shrunk[best], ridges[best]
    V = Vt.mT if basis is None else basis @ Vt.mT  # (features, directions)
    whole = 1.0 if basis is None else basis.square().sum(-1)
    M = (V * (d / (d.square() + ridge))) @ U.mT
    spread = M.square() @ ((1.0 - chance) * (r / left).square())
    lost = (whole - V.square() @ (1.0 - shrunk.square())).clamp(min=0.0) * r.square().sum() / left.sum() / ridge
    return Fitted(M @ b, (spread + lost).sqrt(), effective)
