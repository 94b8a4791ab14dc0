"""Exact values by enumerating all 2ⁿ coalitions or spin configurations: the oracles of this package.

A value table is a tensor [..., 2**n]; bit i of the index says whether player i is in C. Everything
is batched over the leading axes, differentiable, and as precise as the dtype of the table.
Nothing here samples; for n > 20 see `values.estimate`.
"""

from functools import lru_cache
from math import lgamma, log
from typing import Literal

import torch

from neurogame._common.types import Bool, Float, Shaped, Tensor
from neurogame._common.validation import as_anchor, check_choice, check_leading, check_positive, check_vectors
from neurogame.game import Nonlinearity, gibbs, value

__all__ = ["banzhaf", "gibbs", "interactions", "marginals", "shapley", "value_table"]

Index = Literal["banzhaf", "shapley"]
MAX_PLAYERS = 20
_BLOCK = 1 << 14  # coalitions evaluated at once: keeps (block, dim) in cache instead of (2ⁿ, dim) in memory


def _check_players(n: int) -> None:
    if n > MAX_PLAYERS:
        raise ValueError(
            f"n = {n} players need 2**{n} = {2**n:,} evaluations of v(C); exact enumeration stops at "
            f"n = {MAX_PLAYERS}. Use neurogame.values.estimate for longer sequences"
        )


def players_of(table: Shaped[Tensor, "... coalitions"]) -> int:
    """n for a table of 2ⁿ values; TypeError or ValueError for anything else, or for n > 20."""
    if not isinstance(table, Tensor):
        raise TypeError(f"a value table must be a torch.Tensor, got {type(table).__name__}")
    size = table.shape[-1] if table.dim() else 0
    n = size.bit_length() - 1
    if size < 2 or size != 1 << n:
        raise ValueError(f"a value table has 2**n entries on its last axis (n ≥ 1), got shape {list(table.shape)}")
    _check_players(n)
    return n


def real(table: Tensor) -> Tensor:
    """Integer and boolean games (votes, majorities) as numbers that can be averaged."""
    if table.is_complex():
        raise TypeError(f"the values of a game are real numbers, got {table.dtype}")
    return table if table.is_floating_point() else table.to(torch.get_default_dtype())


def all_coalitions(n: int, device: torch.device | None = None) -> Bool[Tensor, "coalitions tokens"]:
    """Row c holds the bits of c, lowest first: the coalition that entry c of a value table belongs to.

    Example:
        >>> exact.all_coalitions(2).tolist()
        [[False, False], [True, False], [False, True], [True, True]]
    """
    index = torch.arange(1 << n, device=device).unsqueeze(-1)
    return (index >> torch.arange(n, device=device)) & 1 == 1


def value_table(
    V: Float[Tensor, "... tokens dim"], f: Nonlinearity = "identity", anchor: Float[Tensor, "... dim"] | None = None
) -> Float[Tensor, "... coalitions"]:
    """v(C) = f(‖a + Σ_{i∈C} V_i‖) − f(‖a‖) for all 2ⁿ coalitions C of the n tokens; of half precision in float32.

    Args:
        V: [..., tokens, dim], at most 20 tokens.
        f: the nonlinearity on the norm: "identity", "relu", "square" or "tanh".
        anchor: [..., dim], the vector a; None: 0.

    Returns:
        [..., 2**tokens], as all functions here take it.

    Raises:
        ValueError: more than 20 tokens (the error names the number of evaluations), NaN, or shapes that do not fit.

    Example:
        >>> exact.value_table(torch.tensor([[3.0, 0.0], [0.0, 4.0]])).tolist()
        [0.0, 3.0, 4.0, 5.0]
    """
    check_vectors(V)
    V = V.float() if V.dtype.itemsize < 4 else V  # a norm above 255 has a square that float16 does not hold
    check_choice("f", f, Nonlinearity)
    _check_players(V.shape[-2])
    if anchor is not None:
        anchor = as_anchor(anchor, V)
        check_vectors(anchor.unsqueeze(-2), name="anchor")
    members = all_coalitions(V.shape[-2], V.device)
    return torch.cat([value(V, block, f, anchor) for block in members.split(_BLOCK)], dim=-1)


def _split(table: Tensor, *players: int) -> Tensor:
    """The table with one axis of size 2 per player (absent, present) in front of the 2^(n−m) others.

    `players` ascending; [..., 2**n] becomes [..., 2, (2,) 2**(n−m)], with the first player's axis first.
    """
    n, m = players_of(table), len(players)
    bits = table.reshape(*table.shape[:-1], *[2] * n)  # axis −1−i is bit i
    lead = table.dim() - 1
    bits = bits.movedim([-1 - i for i in players], list(range(lead, lead + m)))
    return bits.reshape(*table.shape[:-1], *[2] * m, 1 << (n - m))


def _law(index: Index, others: int, like: Tensor) -> Float[Tensor, "coalitions"]:
    """log-probability of each context among `others` players.

    Banzhaf: 2^−others. Shapley: s!(others−s)!/(others+1)! for a context of s players, which is the
    Shapley value's law for others = n−1 and the Shapley interaction index's for others = n−2.
    """
    if index == "banzhaf":
        return like.new_full((1 << others,), -others * log(2.0))
    by_size = [lgamma(s + 1) + lgamma(others - s + 1) - lgamma(others + 2) for s in range(others + 1)]
    return like.new_tensor(by_size)[all_coalitions(others, like.device).sum(-1)]


def _expectation(delta: Tensor, context: Tensor, log_law: Tensor, tilt: float | Tensor | None) -> Tensor:
    """E[delta] under law(C), or under law(C)·exp(v(C)/tilt), normalised."""
    if tilt is None:
        return (delta * log_law.exp()).sum(-1)
    gamma = tilt.unsqueeze(-1) if isinstance(tilt, Tensor) else tilt
    return (delta * torch.softmax(log_law + context / gamma, dim=-1)).sum(-1)


def _check_table(table: Tensor, tilt: float | Tensor | None) -> tuple[int, Tensor]:
    """Number of players and their table in floating point, once tilt and table are known to fit."""
    n, table = players_of(table), real(table)
    if tilt is not None:
        check_positive("tilt", tilt)
        check_leading("tilt", tilt, table.shape[:-1])
    return n, table


def _value_index(table: Tensor, index: Index, tilt: float | Tensor | None) -> Tensor:
    n, table = _check_table(table, tilt)
    log_law = _law(index, n - 1, table)
    values = []
    for i in range(n):
        without, present = _split(table, i).unbind(-2)
        values.append(_expectation(present - without, without, log_law, tilt))
    return torch.stack(values, dim=-1)


def shapley(table: Shaped[Tensor, "... coalitions"], tilt: float | Tensor | None = None) -> Float[Tensor, "... tokens"]:
    """φ_i = Σ_{C∌i} s!(n−1−s)!/n! · [v(C∪i) − v(C)], s = |C|; with `tilt` = γ the law is tilted by exp(v(C)/γ).

    Args:
        table: [..., 2**n], entry c is v of the players whose bits are set in c; n ≤ 20.
        tilt: γ of the Gibbs tilt, a number or a tensor that broadcasts to the leading axes; None: the classical law.

    Returns:
        [..., n]; without a tilt they add up to v(N) − v(∅).

    Raises:
        TypeError, ValueError: not a value table, or γ ≤ 0.

    Example:
        >>> exact.shapley(torch.tensor([0.0, 1.0, 2.0, 4.0])).tolist()
        [1.5, 2.5]
    """
    return _value_index(table, "shapley", tilt)


def banzhaf(table: Shaped[Tensor, "... coalitions"], tilt: float | Tensor | None = None) -> Float[Tensor, "... tokens"]:
    """β_i = 2^−(n−1) Σ_{C∌i} [v(C∪i) − v(C)]; with `tilt` = γ the law is tilted by exp(v(C)/γ).

    Args:
        table: [..., 2**n], entry c is v of the players whose bits are set in c; n ≤ 20.
        tilt: γ of the Gibbs tilt, a number or a tensor that broadcasts to the leading axes; None: the classical law.

    Returns:
        [..., n].

    Raises:
        TypeError, ValueError: not a value table, or γ ≤ 0.

    Example:
        >>> exact.banzhaf(torch.tensor([0.0, 1.0, 2.0, 4.0])).tolist()
        [1.5, 2.5]
    """
    return _value_index(table, "banzhaf", tilt)


def interactions(
    table: Shaped[Tensor, "... coalitions"], index: Index = "banzhaf", tilt: float | Tensor | None = None
) -> Float[Tensor, "... tokens tokens"]:
    """J_ij = E[v(C∪ij) − v(C∪i) − v(C∪j) + v(C)] over contexts C without i and j; zero diagonal.

    Args:
        table: [..., 2**n], entry c is v of the players whose bits are set in c; n ≤ 20.
        index: "banzhaf" or "shapley": the law of the contexts.
        tilt: γ of the Gibbs tilt, a number or a tensor that broadcasts to the leading axes; None: the classical law.

    Returns:
        [..., n, n], symmetric: positive where two players need each other, negative where one replaces the other.

    Raises:
        TypeError, ValueError: not a value table, an unknown index, or γ ≤ 0.

    Example:
        >>> exact.interactions(torch.tensor([0.0, 1.0, 2.0, 4.0])).tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    check_choice("index", index, Index)
    n, table = _check_table(table, tilt)
    lead = torch.broadcast_shapes(table.shape[:-1], tilt.shape if isinstance(tilt, Tensor) else ())
    J = table.new_zeros(*lead, n, n)
    if n == 1:
        return J
    log_law = _law(index, n - 2, table)
    rows, columns = torch.triu_indices(n, n, offset=1).tolist()
    pairs = []
    for i, j in zip(rows, columns, strict=True):
        (v, v_j), (v_i, v_ij) = (half.unbind(-2) for half in _split(table, i, j).unbind(-3))
        pairs.append(_expectation(v_ij - v_i - v_j + v, v, log_law, tilt))
    J[..., rows, columns] = torch.stack(pairs, dim=-1)
    return J + J.mT


def all_values(
    table: Shaped[Tensor, "... coalitions"],
) -> tuple[Float[Tensor, "... tokens"], Float[Tensor, "... tokens"], Float[Tensor, "... tokens tokens"]]:
    """φ, β and the Banzhaf interactions J of one table: `shapley`, `banzhaf` and `interactions` in a few products.

        D_i(C) = v(C∪i) − v(C)        φ_i = Σ_C law(C) D_i(C)    β_i = mean D_i    J_ij = 2 mean_C s_j(C) D_i(C)

    over the contexts C ∌ i, which are numbered the same way for every i; s_j = ±1 for j in or out of C.
    """
    n, table = players_of(table), real(table)
    absent, present, spins, law, at = _contexts(n, table.device)
    D = table[..., present] - table[..., absent]  # (..., n, 2^(n − 1))
    J = table.new_zeros(*table.shape[:-1], n * n)
    J[..., at] = (2.0 * (D @ spins.to(D)) / D.shape[-1]).flatten(-2)
    J = J.unflatten(-1, (n, n))
    return D @ law.to(D), D.mean(-1), (J + J.mT) / 2.0


@lru_cache(maxsize=MAX_PLAYERS)
def _contexts(n: int, device: torch.device) -> tuple[Tensor, ...]:
    """Coalitions without and with each player, in one order; spins of the others; Shapley's law; where J_ij stands."""
    with torch.inference_mode(mode=False):
        i, context = torch.arange(n, device=device).unsqueeze(-1), torch.arange(1 << (n - 1), device=device)
        absent = ((context >> i) << (i + 1)) | (context & ((1 << i) - 1))  # a gap at bit i
        spins = 2.0 * all_coalitions(n - 1, device).double() - 1.0
        at = (~torch.eye(n, dtype=torch.bool, device=device)).flatten().nonzero().squeeze(-1)
        return absent, absent | (1 << i), spins, _law("shapley", n - 1, spins).exp(), at


def marginals(
    field: Float[Tensor, "... tokens"], coupling: Float[Tensor, "... tokens tokens"], gamma: float | Tensor
) -> Float[Tensor, "... tokens"]:
    """P(s_i = +1) under P(s) ∝ exp(−H(s)/γ), H(s) = −Σ J_i s_i − Σ_{i<j} J_ij s_i s_j, over all 2ⁿ spins.

    Args:
        field: J_i, [..., tokens], at most 20 tokens.
        coupling: J_ij, [..., tokens, tokens]; what is above the diagonal counts.
        gamma: temperature > 0, a number or a tensor of the leading axes.

    Returns:
        [..., tokens], probabilities.

    Raises:
        TypeError, ValueError: not tensors, shapes that do not fit, too many tokens, or γ ≤ 0.

    Example:
        >>> exact.marginals(torch.zeros(2), torch.zeros(2, 2), gamma=1.0).tolist()
        [0.5, 0.5]
    """
    for name, given in (("field", field), ("coupling", coupling)):
        if not isinstance(given, Tensor) or given.dim() < 1:
            raise TypeError(f"{name} must be a torch.Tensor with an axis of tokens, got {type(given).__name__}")
    n = field.shape[-1]
    _check_players(n)
    check_positive("gamma", gamma)
    if coupling.shape[-2:] != (n, n):
        raise ValueError(f"coupling must be [..., {n}, {n}] to fit the field, got {list(coupling.shape)}")
    # Over the spins of two halves, A and B: H = H_A + H_B − Σ_{i∈A, j∈B} J_ij s_i s_j, so that all 2ⁿ energies are one
    # product of 2^(n/2) × n/2 matrices, and nothing of size 2ⁿ × n is formed.
    half, J = n // 2, coupling.triu(1)  # i < j
    up = [all_coalitions(size, field.device).to(field.dtype) for size in (half, n - half)]
    s, t = (2.0 * side - 1.0 for side in up)
    across = (s @ J[..., :half, half:]) @ t.mT  # (..., 2^half, 2^(n − half))
    first = _minus_energy(field[..., :half], J[..., :half, :half], s)
    second = _minus_energy(field[..., half:], J[..., half:, half:], t)
    minus_H = first.unsqueeze(-1) + across + second.unsqueeze(-2)
    P = gibbs(minus_H.flatten(-2), gamma).unflatten(-1, minus_H.shape[-2:])
    return torch.cat([P.sum(-1) @ up[0], P.sum(-2) @ up[1]], dim=-1)


def _minus_energy(field: Tensor, J: Tensor, spins: Tensor) -> Float[Tensor, "... configurations"]:
    """−H(s) for each row of `spins`; J has nothing below its diagonal."""
    return field @ spins.mT + ((spins @ J) * spins).sum(-1)
