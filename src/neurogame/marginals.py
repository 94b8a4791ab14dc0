"""From coalitions to marginal contributions: of the norm game by identities, of any game by evaluation.

`toggle` gives the n neighbours of each drawn coalition, `walk` the contributions along an order of
arrival (Algorithm 1's Shapley sampling); `toggle_game`, `walk_game` and `pairs_game` are the same for
a game that can only be asked for its values. What is averaged over them, and how, is in `values`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from neurogame import exact, kernels
from neurogame._common.types import Bool, Float, Tensor
from neurogame.game import Nonlinearity, of_norm, safe_divide, safe_sqrt

Game = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Toggles:
    """A drawn coalition and its n neighbours that differ in one token; K = samples."""

    norm: Float[Tensor, "... samples"]  # u = ‖a + S‖
    toggled: Float[Tensor, "... samples tokens"]  # w_i; NaN when `lean=True`
    delta: Float[Tensor, "... samples tokens"]  # δ_i of the norm itself (f = identity)
    sign: Float[Tensor, "... samples tokens"]  # s_i: +1 adds i, −1 removes it, 0 at padding; NaN likewise
    size: Float[Tensor, "... samples"]  # |C|, real tokens only
    origin: Float[Tensor, "..."]  # ‖a‖: the norm of the empty coalition


def toggle(
    V: Float[Tensor, "... tokens dim"],
    members: Bool[Tensor, "... samples tokens"],
    real: Bool[Tensor, "... tokens"] | None,
    anchor: Float[Tensor, "... dim"] | None,
    *,
    lean: bool = False,
) -> Toggles:
    """All n neighbours of each coalition at once: ‖S ± V_i‖² = ‖S‖² ± 2 S·V_i + ‖V_i‖², O(K·n·dim).

    The marginal contribution of i is then δ_i = s_i (w_i − u) = (2 S·V_i + s_i ‖V_i‖²) / (w_i + u),
    the second form free of cancellation. An empty coalition is recognised by its size, not by its norm.
    `lean` says that w and s are not needed: for long sequences they are most of the memory.
    """
    if not kernels.needs_gradient(V, anchor) and kernels.available(V):
        return _compiled_toggle(V, members, real, anchor, lean=lean)
    inside = members.to(V.dtype)  # (..., samples, tokens)
    sign = 1.0 - 2.0 * inside
    if real is not None:
        sign = sign * real.unsqueeze(-2)
        inside = inside * real.unsqueeze(-2)
    size = inside.sum(-1)
    S = inside @ V  # (..., samples, dim)
    origin = V.new_zeros(V.shape[:-2])
    if anchor is not None:
        S = S + anchor.unsqueeze(-2)
        origin = safe_sqrt(anchor.square().sum(-1))
    q = S.square().sum(-1)  # (..., samples)
    A = S @ V.mT  # (..., samples, tokens): S·V_i
    step = 2.0 * A + sign * V.square().sum(-1).unsqueeze(-2)  # s_i (w_i² − u²)
    nobody = size.unsqueeze(-1) + sign == 0  # toggling i empties the coalition
    u = safe_sqrt(q)
    w = torch.where(nobody, origin[..., None, None], safe_sqrt(q.unsqueeze(-1) + sign * step))
    delta = safe_divide(step, w + u.unsqueeze(-1))
    if real is not None:
        delta = delta * real.unsqueeze(-2)
    return Toggles(u, w, delta, sign, size, origin)


def _compiled_toggle(V: Tensor, members: Tensor, real: Tensor | None, anchor: Tensor | None, *, lean: bool) -> Toggles:
    """`toggle` in compiled loops; the coalitions of one head serve its whole batch."""
    batch, (n, dim), samples = V.shape[:-2], V.shape[-2:], members.shape[-2]
    norm, size, origin = V.new_empty(*batch, samples), V.new_empty(*batch, samples), V.new_empty(batch)
    delta = V.new_empty(*batch, samples, n)
    toggled, sign = (delta, delta) if lean else (torch.empty_like(delta), torch.empty_like(delta))
    mask = V if real is None else real.to(V.dtype).expand(*batch, n).contiguous()
    a = V if anchor is None else anchor.contiguous()
    heads = members.shape[0] if members.dim() > 2 else 1
    counts = (batch.numel(), heads, samples, n, dim, int(real is not None), int(anchor is not None), int(lean))
    inputs = (V.contiguous(), members.contiguous(), mask, a)
    kernels.call(
        "neurogame_toggle", *counts, torch.get_num_threads(), *inputs, norm, delta, size, origin, toggled, sign
    )
    if lean:  # NaN shows up wherever they are read after all
        toggled = sign = V.new_full((), torch.nan).expand_as(delta)
    return Toggles(norm, toggled, delta, sign, size, origin)


def contributions(toggles: Toggles, f: Nonlinearity) -> Float[Tensor, "... samples tokens"]:
    """Δ_i(C_k∖i) of f(‖·‖)."""
    if f == "square":
        return toggles.delta * (toggles.toggled + toggles.norm.unsqueeze(-1))
    if f == "tanh":
        return toggles.sign * (toggles.toggled.tanh() - toggles.norm.unsqueeze(-1).tanh())
    return toggles.delta


def contexts(toggles: Toggles, f: Nonlinearity) -> Float[Tensor, "... samples tokens"]:
    """v(C_k∖i) up to the constant f(‖a‖), which cancels in every weight."""
    return of_norm(torch.where(toggles.sign < 0, toggles.toggled, toggles.norm.unsqueeze(-1)), f)


def walk(
    V: Tensor, order: Tensor, real: Tensor | None, f: Nonlinearity, anchor: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Δ_i and v of the predecessors of i in each order of arrival, and log p of that set as the paper has it."""
    batch, dim, (K, n) = V.shape[:-2], V.shape[-1], order.shape[-2:]
    order = order.expand(*batch, K, n)
    present = V.new_ones(*batch, n) if real is None else real.to(V.dtype).expand(*batch, n)
    arrivals = V.unsqueeze(-3).expand(*batch, K, n, dim).gather(-2, order.unsqueeze(-1).expand(*batch, K, n, dim))
    here = present.unsqueeze(-2).expand(*batch, K, n).gather(-1, order)
    S = arrivals.cumsum(-2)  # (..., samples, tokens, dim): the coalition after each arrival
    origin = V.new_zeros(batch)
    if anchor is not None:
        S = S + anchor[..., None, None, :]
        origin = safe_sqrt(anchor.square().sum(-1))
    after = of_norm(safe_sqrt(S.square().sum(-1)), f)
    start = of_norm(origin, f)[..., None, None].expand(*batch, K, 1)
    before = torch.cat([start, after[..., :-1]], dim=-1)
    s = here.cumsum(-1) - here  # |P|: real tokens that came before
    others = present.sum(-1)[..., None, None] - 1
    log_p = torch.lgamma(s + 1) + torch.lgamma((others - s).clamp(min=0) + 1) - torch.lgamma(others + 1)
    back = order.argsort(-1)  # from order of arrival to order of tokens
    delta = (after - before) * here
    return delta.gather(-1, back), before.gather(-1, back), log_p.gather(-1, back)


def as_game(v: Game | Tensor, n: int) -> tuple[Game, torch.device]:
    """A function from coalitions to values, whatever the caller gave; their shape is checked where they come in."""
    if isinstance(v, Tensor):
        if exact.players_of(v) != n:
            raise ValueError(f"the value table has 2**{exact.players_of(v)} entries, n = {n} players need 2**{n}")
        table = exact.real(v)
        powers = 1 << torch.arange(n, device=v.device)
        return lambda C: table[..., (C * powers).sum(-1)], v.device
    if not callable(v):
        raise TypeError(f"v must map coalitions to values or be a value table, got {type(v).__name__}")

    def checked(C: Tensor) -> Tensor:
        out = v(C)
        if not isinstance(out, Tensor) or out.shape != C.shape[:-1]:
            got = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise ValueError(f"v returned {got} for coalitions {list(C.shape)}; it must return {list(C.shape[:-1])}")
        return exact.real(out)

    return checked, torch.device("cpu")


def toggle_game(game: Game, members: Bool[Tensor, "samples tokens"]) -> Toggles:
    """As `toggle`, with values in place of norms: each coalition and its n neighbours, by evaluating the game."""
    flip = torch.eye(members.shape[-1], dtype=torch.bool, device=members.device)
    u = game(members)  # (..., samples)
    w = game(members.unsqueeze(-2) ^ flip)  # (..., samples, tokens)
    delta = torch.where(members, u.unsqueeze(-1) - w, w - u.unsqueeze(-1))
    inside = members.to(u.dtype)
    return Toggles(
        u, w, delta, (1.0 - 2.0 * inside).expand_as(w), inside.sum(-1).expand_as(u), torch.zeros_like(u[..., 0])
    )


def walk_game(game: Game, order: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As `walk`: marginal contributions along each order of arrival, by evaluating the game."""
    n = order.shape[-1]
    rank = order.argsort(-1)  # (samples, tokens): when each token arrives
    position = torch.arange(n + 1, device=order.device).unsqueeze(-1)
    along = game(rank.unsqueeze(-2) < position)  # (..., samples, n + 1)
    at = rank.expand(*along.shape[:-2], *rank.shape)
    before, after = along[..., :-1].gather(-1, at), along[..., 1:].gather(-1, at)
    s = rank.to(along.dtype)
    log_p = torch.lgamma(s + 1) + torch.lgamma(n - s) - torch.lgamma(torch.full_like(s, n))
    return after - before, before, log_p


def pairs_game(game: Game, members: Tensor, toggles: Toggles, gamma: Tensor | None) -> Tensor:
    """J_ij over the samples, one sample at a time, with a running log-sum-exp for the tilt."""
    (K, n), u, w = members.shape, toggles.norm, toggles.toggled
    i, j = torch.triu_indices(n, n, offset=1, device=members.device)
    flip = torch.zeros(i.shape[0], n, dtype=torch.bool, device=members.device)
    flip.scatter_(1, torch.stack([i, j], dim=1), value=True)
    total = torch.zeros_like(w[..., 0, :1].expand(*w.shape[:-2], i.shape[0]))
    log_sum = torch.full_like(total, -torch.inf)
    for k in range(K):
        C = members[k]
        w_ij, w_i, w_j, u_k = game(C ^ flip), w[..., k, i], w[..., k, j], u[..., k, None]
        same = torch.where(C[i] == C[j], 1.0, -1.0).to(w.dtype)
        delta = same * (w_ij - w_i - w_j + u_k)
        if gamma is None:
            total = total + delta / K
            continue
        base = torch.where(C[i], torch.where(C[j], w_ij, w_i), torch.where(C[j], w_j, u_k)) / gamma[..., None]
        new = torch.logaddexp(log_sum, base)
        total = total * (log_sum - new).exp() + delta * (base - new).exp()
        log_sum = new
    J = total.new_zeros(*total.shape[:-1], n, n)
    J[..., i, j] = total
    return J + J.mT
