"""Shapley values, Banzhaf indices and pair interactions, estimated from sampled coalitions, with their errors.

Data flow: `sampling` draws coalitions → `marginals` turns each into the n marginal contributions of
its tokens (one square root each) → a weighted mean over the samples gives the values → `couplings`
turns the same toggles into pair interactions. `estimate` does this for the norm game of V, and is
differentiable in V; `estimate_game` does it for any game, by evaluating it.

Two estimators stand side by side and are never mixed:

- `paired` — ours. p-law draws with complement pairing and stratified p; unbiased. With a tilt γ the
  target is law(C)·exp(v(C)/γ), normalised: weights softmax_k(v(C_k∖i)/γ), consistent.
- `algorithm1` — the paper's. Shapley by random permutations with weights exp(v/γ)/p(C), Banzhaf
  and pairs by Bernoulli(½) draws with weights exp(v/γ). Dividing by p cancels the permutation law,
  so both values estimate one and the same Gibbs mean, and the effective sample size collapses with
  n. It is here to reproduce and to show that. One thing differs: the tokens and pairs of a head
  share their draws, where Algorithm 1 draws anew for each at O(K·n³·dim). Each estimate has the
  paper's law; estimates of different tokens are dependent, which spreads α more.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal

import torch

from neurogame import sampling
from neurogame._common.types import Float, Tensor
from neurogame._common.validation import (
    as_anchor,
    as_mask,
    check_choice,
    check_count,
    check_norms,
    check_positive,
    check_vectors,
    full_precision,
)
from neurogame.couplings import LinearCoupling
from neurogame.game import Nonlinearity, value
from neurogame.interactions import linear_couplings, pair_couplings
from neurogame.marginals import (
    Game,
    Toggles,
    as_game,
    contexts,
    contributions,
    pairs_game,
    toggle,
    toggle_game,
    walk,
    walk_game,
)

Estimator = Literal["paired", "algorithm1"]
Couplings = Literal["pairs", "linear", "auto", "none"]


@dataclass(frozen=True)
class Mean:
    """Σ_k ω_k Δ_k over the samples; its error and effective sample size are computed when asked for."""

    value: Float[Tensor, "... tokens"]
    delta: Float[Tensor, "... samples tokens"]
    omega: Float[Tensor, "... samples tokens"] | None  # None: equal weights
    is_paired: bool

    @classmethod
    def of(cls, delta: Tensor, omega: Tensor | None, *, is_paired: bool) -> "Mean":
        """The mean of `delta` over its samples, with weights `omega`."""
        return cls(delta.mean(-2) if omega is None else (omega * delta).sum(-2), delta, omega, is_paired)

    @cached_property
    def se(self) -> Float[Tensor, "... tokens"]:
        """Standard error from independent groups: complement pairs, or single samples."""
        with torch.no_grad():
            weight = 1.0 / self.delta.shape[-2] if self.omega is None else self.omega
            spread = (self.delta - self.value.unsqueeze(-2)) * weight
            if self.is_paired:
                first, complement = spread.chunk(2, dim=-2)
                spread = first + complement
            groups = spread.shape[-2]
            if groups < 2:
                return torch.full_like(self.value, torch.inf)
            return (spread.square().sum(-2) * (groups / (groups - 1))).sqrt()

    @cached_property
    def ess(self) -> Float[Tensor, "... tokens"]:
        """1/Σω²."""
        if self.omega is None:
            return torch.full_like(self.value, float(self.delta.shape[-2]), requires_grad=False)
        return 1.0 / self.omega.detach().square().sum(-2)


@dataclass(frozen=True)
class GameValues:
    """Values of a game and how far to trust them; errors are computed when asked for.

    Standard errors come from the spread of complement-pair means (of single samples in
    `algorithm1`), are inf below two of them, and do not credit the stratification: they err on the
    safe side. The effective sample size is 1/Σω² of the weights; without a tilt it is `samples`.
    """

    coupling: Float[Tensor, "... tokens tokens"] | LinearCoupling | None
    samples: int  # coalitions used per law, complements included
    requested_samples: int  # what the caller asked for: an odd number is rounded up by `paired`
    estimator: Estimator
    couplings: Couplings  # the mode that was used; never "auto"
    phi: Mean = field(repr=False)
    beta: Mean = field(repr=False)
    grand: Callable[[], Tensor] = field(repr=False)  # v(N) − v(∅)

    @property
    def shapley(self) -> Float[Tensor, "... tokens"]:
        """φ_i."""
        return self.phi.value

    @property
    def banzhaf(self) -> Float[Tensor, "... tokens"]:
        """β_i."""
        return self.beta.value

    @property
    def shapley_se(self) -> Float[Tensor, "... tokens"]:
        """Standard error of φ_i."""
        return self.phi.se

    @property
    def banzhaf_se(self) -> Float[Tensor, "... tokens"]:
        """Standard error of β_i."""
        return self.beta.se

    @property
    def shapley_ess(self) -> Float[Tensor, "... tokens"]:
        """Effective sample size behind φ_i."""
        return self.phi.ess

    @property
    def banzhaf_ess(self) -> Float[Tensor, "... tokens"]:
        """Effective sample size behind β_i."""
        return self.beta.ess

    @cached_property
    def efficiency_gap(self) -> Float[Tensor, "..."]:
        """|Σ_i φ_i − v(N)|."""
        with torch.no_grad():
            return (self.shapley.sum(-1) - self.grand()).abs()


def l1_normalise(values: Float[Tensor, "... tokens"]) -> Float[Tensor, "... tokens"]:
    """x / ‖x‖₁ as Algorithm 1 has it (the text divides by Σx, which can be zero); all-zero values stay zero."""
    total = values.abs().sum(-1, keepdim=True)
    return values / torch.where(total > 0, total, 1.0)


def estimate(
    V: Float[Tensor, "... tokens dim"],
    *,
    mask: Tensor | None = None,
    samples: int = 24,
    f: Nonlinearity = "identity",
    anchor: Float[Tensor, "... dim"] | None = None,
    tilt: float | Tensor | None = None,
    estimator: Estimator = "paired",
    couplings: Couplings = "pairs",
    chunk: int | None = None,
    generator: sampling.Randomness = None,
    validate: bool | None = None,
) -> GameValues:
    """Shapley, Banzhaf and pair interactions of v(C) = f(‖a + Σ_{i∈C} V_i‖) − f(‖a‖); differentiable in V and a.

    Args:
        V: [..., tokens, dim]; with four or more axes, the one before `tokens` is the heads.
        mask: [..., tokens], bool or 0/1 integers, True = real token. A padded token is a null player.
        samples: coalitions per law (one law for Shapley, one for Banzhaf and couplings together).
        f: the nonlinearity on the norm.
        anchor: [..., dim], the vector a; None is a = 0, the paper's game.
        tilt: γ of the Gibbs tilt, a number or a tensor that broadcasts to V's leading axes.
        estimator: "paired", or "algorithm1", which needs `tilt`.
        couplings: "pairs" (exact on the draws), "linear" (an operator, never formed), "none", or
            "auto": linear where that form is accurate (paired, no tilt, f other than tanh), else pairs.
        chunk: samples per block of the pair computation; None fits a block to the cache.
        generator: a `torch.Generator` that supplies the seed of the draws, or the seed itself; without
            one the seed is fixed. Draws are a hash of (seed, head, sample, token): the same for all
            sequences of a batch, and for any padding.
        validate: whether to check values as well as shapes; None means in eager mode on the CPU.

    Half-precision inputs are computed, and returned, in float32.

    Returns:
        φ, β and J_ij with standard errors, effective sample sizes and the efficiency gap.

    Raises:
        TypeError, ValueError: an unknown name, a shape that does not fit, NaN, or "algorithm1" without a tilt.

    Example:
        >>> values = estimate(torch.eye(3), samples=64)
        >>> values.shapley.shape, values.coupling.shape
        (torch.Size([3]), torch.Size([3, 3]))
    """
    check_vectors(V, validate)
    check_choice("f", f, Nonlinearity)
    if chunk is not None:
        check_count("chunk", chunk)
    mode, used = _mode(couplings, estimator, tilt, f), _even(samples, estimator)
    gamma = _tilt_of(tilt, estimator, V, validate)
    real = as_mask(mask, V.shape[:-1], V.device, validate)
    with full_precision(V.device):
        V = V if V.dtype == torch.float64 else V.float()
        V = (V if real is None else V.masked_fill(~real.unsqueeze(-1), 0.0)).contiguous()
        if anchor is not None:
            anchor = as_anchor(anchor, V)
        check_norms(V, validate, anchor)
        source = sampling.source_of(generator, V.device)
        heads = V.shape[-3] if V.dim() > 3 else 1

        def draw(what: Callable[..., Tensor], *law: str) -> Tensor:
            draws = sampling.draw(what, source, V.device, *law, heads, used, V.shape[-2])
            return draws if V.dim() > 2 else draws[0]

        def toggles_of(members: Tensor, *, lean: bool) -> Toggles:
            return toggle(V, members, real, anchor, lean=lean and gamma is None and f in ("identity", "relu"))

        phi, members = _shapley(draw, toggles_of, partial(walk, V, real=real, f=f, anchor=anchor), estimator, f, gamma)
        toggles = toggles_of(members, lean=mode != "pairs")
        beta = _law_mean(toggles, f, gamma, is_paired=estimator == "paired")
        coupling: Tensor | LinearCoupling | None = None
        if mode == "pairs":
            coupling = pair_couplings(V, toggles, f, gamma, chunk)
        elif mode == "linear":
            coupling = linear_couplings(V, toggles, f, gamma)
    return GameValues(coupling, used, samples, estimator, mode, phi, beta, partial(_grand, V, f, anchor))


def _grand(V: Tensor, f: Nonlinearity, anchor: Tensor | None) -> Float[Tensor, "..."]:
    """v(N): padded tokens are zero, so they may be in N."""
    everyone = torch.ones(1, V.shape[-2], dtype=torch.bool, device=V.device)
    return value(V, everyone, f, anchor).squeeze(-1)


def _shapley(
    draw: Callable[..., Tensor],
    toggles_of: Callable[..., Toggles],
    walk: Callable[..., tuple[Tensor, Tensor, Tensor]],
    estimator: Estimator,
    f: Nonlinearity,
    gamma: Tensor | None,
) -> tuple[Mean, Tensor]:
    """φ, and the coalitions that Banzhaf indices and couplings are estimated from."""
    if estimator == "paired":
        toggles = toggles_of(draw(sampling.paired, "shapley"), lean=True)
        return _law_mean(toggles, f, gamma, is_paired=True), draw(sampling.paired, "banzhaf")
    assert gamma is not None
    delta, base, log_p = walk(order=draw(sampling.permutations))
    # Algorithm 1's weights exp(v(P)/γ)/p(P), normalised over the samples in log space
    omega = torch.softmax(base / gamma[..., None, None] - log_p, dim=-2)
    return Mean.of(delta, omega, is_paired=False), draw(sampling.independent)


def _law_mean(toggles: Toggles, f: Nonlinearity, gamma: Tensor | None, *, is_paired: bool) -> Mean:
    """Mean over draws from the law itself: equal weights, or softmax_k(v(C_k∖i)/γ)."""
    delta = contributions(toggles, f)
    omega = None if gamma is None else torch.softmax(contexts(toggles, f) / gamma[..., None, None], dim=-2)
    return Mean.of(delta, omega, is_paired=is_paired)


def estimate_game(
    v: Game | Tensor,
    n: int,
    *,
    samples: int = 24,
    tilt: float | Tensor | None = None,
    estimator: Estimator = "paired",
    couplings: Couplings = "pairs",
    generator: sampling.Randomness = None,
) -> GameValues:
    """The same estimators for any game with n players, by evaluating it.

    `v` maps a BoolTensor of coalitions [..., n] to values [...], or is a value table [*batch, 2**n].
    v(∅) need not be 0: the efficiency gap is taken against v(N) − v(∅). K·(n + 1) evaluations per
    law, and K·n(n − 1)/2 more for "pairs"; "linear" belongs to norm games.

    Args:
        v: the game.
        n: players.
        samples: coalitions per law, complements included.
        tilt: γ of the Gibbs tilt; None: none.
        estimator: "paired", or "algorithm1", which needs `tilt`.
        couplings: "pairs", "auto" (the same here) or "none".
        generator: a `torch.Generator` that supplies the seed of the draws, or the seed itself; None: a fixed seed.

    Returns:
        φ, β and J_ij with standard errors, effective sample sizes and the efficiency gap.

    Raises:
        TypeError, ValueError: an unknown name, a table of another size, or values of the wrong shape.

    Example:
        >>> estimate_game(lambda C: C.float() @ torch.tensor([1.0, 2.0, 3.0]), 3).shapley.tolist()
        [1.0, 2.0, 3.0]
    """
    check_count("n", n)
    mode, used = _mode(couplings, estimator, tilt, None), _even(samples, estimator)
    game, device = as_game(v, n)
    if isinstance(generator, sampling.Drawing):
        raise TypeError("estimate_game draws from a seed or a torch.Generator; got a source of other draws")
    source = sampling.source_of(generator, device)

    def draw(what: Callable[..., Tensor], *law: str) -> Tensor:
        return sampling.draw(what, source, device, *law, 1, used, n)[0]

    def toggles_of(members: Tensor, *, lean: bool) -> Toggles:  # noqa: ARG001 — all of it is evaluated anyway
        return toggle_game(game, members)

    both = game(torch.stack([torch.zeros(n, dtype=torch.bool), torch.ones(n, dtype=torch.bool)]).to(device))
    gamma = _tilt_of(tilt, estimator, both[..., None], None)
    phi, members = _shapley(draw, toggles_of, partial(walk_game, game), estimator, "identity", gamma)
    toggles = toggle_game(game, members)
    beta = _law_mean(toggles, "identity", gamma, is_paired=estimator == "paired")
    coupling = pairs_game(game, members, toggles, gamma) if mode == "pairs" else None
    gain = partial(torch.sub, both[..., 1], both[..., 0])  # v(N) − v(∅)
    return GameValues(coupling, used, samples, estimator, mode, phi, beta, gain)


def _mode(couplings: Couplings, estimator: Estimator, tilt: object, f: Nonlinearity | None) -> Couplings:
    """Check the names, and resolve "auto" by a rule that does not look at the (padded) length; f = None: no norm."""
    check_choice("couplings", couplings, Couplings)
    check_choice("estimator", estimator, Estimator)
    if couplings == "linear" and f is None:
        raise ValueError(
            "couplings = 'linear' is an identity of norm games; for any other game: 'pairs', 'auto', 'none'"
        )
    if couplings == "linear" and estimator == "algorithm1":
        raise ValueError("couplings = 'linear' is not part of algorithm1; allowed with it: 'pairs', 'auto', 'none'")
    if couplings != "auto":
        return couplings
    return "linear" if f not in (None, "tanh") and estimator == "paired" and tilt is None else "pairs"


def _even(samples: int, estimator: Estimator) -> int:
    """`paired` draws complements, so it needs an even number."""
    check_count("samples", samples)
    return samples + samples % 2 if estimator == "paired" else samples


def _tilt_of(tilt: float | Tensor | None, estimator: Estimator, like: Tensor, validate: bool | None) -> Tensor | None:
    """γ of the tilt on all leading axes of `like` [..., tokens, dim]."""
    if tilt is None:
        if estimator == "algorithm1":
            raise ValueError("estimator = 'algorithm1' needs a tilt: the γ of the paper's weights exp(v/γ)/p")
        return None
    check_positive("tilt", tilt, validate)
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    batch = like.shape[:-2]
    tilt = torch.as_tensor(tilt, dtype=dtype, device=like.device)
    try:
        return tilt.expand(batch)
    except RuntimeError:
        raise ValueError(
            f"tilt of shape {list(tilt.shape)} does not broadcast to the leading axes {list(batch)}"
        ) from None
