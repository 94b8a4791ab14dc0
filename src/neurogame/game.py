"""The coalitional game: v(C) = f(‖a + Σ_{i∈C} V_i‖) − f(‖a‖), and the Gibbs distribution over coalitions.

Here live the characteristic function and its nonlinearities. How coalitions are drawn is in
`sampling`, what players get out of them in `values` and `exact`.

How this differs from the paper: its game is a = 0 with f "e.g. ReLU or tanh". `identity` equals its
ReLU (a norm is never negative), `square` is ours: the one game whose values have a closed form. The
anchor a moves the origin from which contribution is measured; v(∅) = 0 holds for every a.
"""

from typing import Literal

import torch

from neurogame._common.types import Bool, Float, Tensor
from neurogame._common.validation import check_choice, check_leading, check_positive, check_vectors, transformed

Nonlinearity = Literal["identity", "relu", "tanh", "square"]


def safe_sqrt(q: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """√q with value and gradient 0 wherever q ≤ 0, where autograd's own gradient is infinite; NaN stays NaN."""
    zero = q <= 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, q).sqrt())


def safe_divide(x: Float[Tensor, "..."], y: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """x/y with value and gradient 0 wherever y ≤ 0; NaN stays NaN."""
    zero = y <= 0
    return torch.where(zero, 0.0, x / torch.where(zero, 1.0, y))


def of_norm(r: Float[Tensor, "..."], f: Nonlinearity) -> Float[Tensor, "..."]:
    """f(r) for a norm r ≥ 0."""
    if f == "tanh":
        return r.tanh()
    if f == "square":
        return r.square()
    return r  # identity; relu(r) = r because r ≥ 0


def value(
    V: Float[Tensor, "... tokens dim"],
    members: Bool[Tensor, "... coalitions tokens"],
    f: Nonlinearity = "identity",
    anchor: Float[Tensor, "... dim"] | None = None,
) -> Float[Tensor, "... coalitions"]:
    """v(C) = f(‖a + Σ_{i∈C} V_i‖) − f(‖a‖), by the definition, for each row C of `members`.

    Args:
        V: [..., tokens, dim].
        members: [..., coalitions, tokens], True where a token is in C.
        f: the nonlinearity on the norm: "identity", "relu", "square" or "tanh".
        anchor: [..., dim], the vector a; None: 0.

    Returns:
        [..., coalitions].

    Raises:
        TypeError, ValueError: no tensors, an unknown f, or shapes that do not fit.

    Example:
        >>> value(torch.tensor([[3.0, 0.0], [0.0, 4.0]]), torch.tensor([[True, False], [True, True]])).tolist()
        [3.0, 5.0]
    """
    if not transformed():
        _check_value(V, members, f, anchor)
    S = members.to(V.dtype) @ V  # (..., coalitions, dim)
    if anchor is None:
        q = S.square().sum(-1)
        return q if f == "square" else of_norm(safe_sqrt(q), f)
    q = (S + anchor.unsqueeze(-2)).square().sum(-1)
    q0 = anchor.square().sum(-1, keepdim=True)
    if f == "square":
        return q - q0
    return of_norm(safe_sqrt(q), f) - of_norm(safe_sqrt(q0), f)


def _check_value(V: Tensor, members: Tensor, f: Nonlinearity, anchor: Tensor | None) -> None:
    """Types and shapes; values are checked where coalitions are drawn."""
    check_choice("f", f, Nonlinearity)
    check_vectors(V, validate=False)
    for name, tensor in {"members": members, "anchor": members if anchor is None else anchor}.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}")
    if members.dim() < 2 or members.shape[-1] != V.shape[-2]:
        raise ValueError(f"members must be [..., coalitions, {V.shape[-2]}] to fit V, got {list(members.shape)}")
    if anchor is not None and anchor.shape[-1:] != V.shape[-1:]:
        raise ValueError(f"anchor must be [..., {V.shape[-1]}] to fit V, got {list(anchor.shape)}")
    axes = [V.shape[:-2], members.shape[:-2], () if anchor is None else anchor.shape[:-1]]
    try:
        torch.broadcast_shapes(*axes)
    except RuntimeError:
        shapes = ", ".join(str(list(lead)) for lead in axes)
        raise ValueError(f"leading axes of V, members and anchor must broadcast to each other, got {shapes}") from None


def gibbs(values: Float[Tensor, "... coalitions"], gamma: float | Tensor) -> Float[Tensor, "... coalitions"]:
    """D_γ(C) = exp(v(C)/γ) / Σ_C' exp(v(C')/γ) over the coalitions of the last axis.

    Args:
        values: v(C), [..., coalitions].
        gamma: temperature > 0, a number or a tensor of the leading axes.

    Returns:
        [..., coalitions], probabilities.

    Raises:
        TypeError, ValueError: not a tensor, or γ ≤ 0.

    Example:
        >>> exact.gibbs(torch.zeros(4), gamma=1.0).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    if not isinstance(values, Tensor):
        raise TypeError(f"values must be a torch.Tensor, got {type(values).__name__}")
    check_positive("gamma", gamma)
    check_leading("gamma", gamma, values.shape[:-1])
    if isinstance(gamma, Tensor):
        gamma = gamma.unsqueeze(-1)
    return torch.softmax(values / gamma, dim=-1)
