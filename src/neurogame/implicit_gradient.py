"""The gradient of the spins at their fixed point, by the implicit function theorem: no iteration is kept for it.

    s = y(s, θ) = tanh(h(s, θ)/γ)   ⇒   ds = (I − D A/γ)⁻¹ ∂y/∂θ dθ,   D = diag(1 − s²),  A = ∂h/∂s

`ising` has the equations and finds the fixed point.
"""

from typing import Any, Literal

import torch
from torch.autograd.function import once_differentiable

from neurogame._common.types import Float, Tensor
from neurogame._common.validation import reads_values
from neurogame.couplings import Coupling, LinearCoupling, from_factors, matvec, squared_matvec

Method = Literal["mean_field", "tap"]
_CG_STEPS = 40


def stiffness(coupling: Coupling, gamma: Tensor, method: Method, s: Tensor, x: Tensor) -> Tensor:
    """(∂h/∂s) x: J x, and for TAP (J − diag(J²(1−s²))/γ + 2 diag(s) J² diag(s)/γ) x; symmetric."""
    Ax = matvec(coupling, x)
    if method == "tap":
        onsager = squared_matvec(coupling, 1.0 - s.square()) * x
        swing = 2.0 * s * squared_matvec(coupling, s * x)
        Ax = Ax + (swing - onsager) / gamma.unsqueeze(-1)
    return Ax


class FixedPoint(torch.autograd.Function):
    """Passes `spins` on; sends the gradient of the fixed point into the graph of y = tanh(h(spins)/γ).

    s = y(s, θ) ⇒ ds = (I − ∂y/∂s)⁻¹ ∂y/∂θ dθ, ∂y/∂s = D A/γ with D = diag(1 − s²), A = ∂h/∂s symmetric.
    Backward: w = (I − A D/γ)⁻¹ ḡ, then w flows into y. With x = D^½ w the system is symmetric,
    (I − D^½ A D^½/γ) x = D^½ ḡ, and positive definite exactly where the fixed point is a minimum of
    the free energy.
    """

    @staticmethod
    def forward(ctx: Any, _y: Tensor, spins: Tensor, gamma: Tensor, mask: Any, method: Any, *parts: Tensor) -> Tensor:
        """`_y`: one more update, whose graph reaches the parameters; `parts`: the `couplings.factors` of J."""
        ctx.method = method
        ctx.save_for_backward(spins, gamma, mask, *parts)
        return spins.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """w, which flows into y."""
        s, gamma, mask, *parts = ctx.saved_tensors
        if mask is not None:
            grad = grad * mask
        w = _adjoint(from_factors(parts), gamma, mask, ctx.method, s, grad)
        return (w, *[None] * (4 + len(parts)))


def _adjoint(J: Coupling, gamma: Tensor, mask: Tensor | None, method: Method, s: Tensor, grad: Tensor) -> Tensor:
    """w = (I − A D/γ)⁻¹ ḡ at the fixed point s: by elimination for a matrix, by conjugate gradients for an operator."""
    if J is None:
        return grad
    root = (1.0 - s.square()).clamp(min=0.0).sqrt() / gamma.sqrt().unsqueeze(-1)
    if mask is not None:
        root = root * mask
    if isinstance(J, LinearCoupling):
        x = _conjugate_gradients(J, gamma, method, s, root, root * grad)
    else:
        A = J
        if method == "tap":
            J2, g = A.square(), gamma[..., None, None]
            onsager = (J2 @ (1.0 - s.square()).unsqueeze(-1)).squeeze(-1)
            A = A + (2.0 * s.unsqueeze(-1) * J2 * s.unsqueeze(-2) - torch.diag_embed(onsager)) / g
        M = torch.eye(s.shape[-1], dtype=s.dtype, device=s.device) - root.unsqueeze(-1) * A * root.unsqueeze(-2)
        x = torch.linalg.solve(M, root * grad)
    # w = ḡ + A D w/γ; with root = √(D/γ) and x = root·w, A D w/γ = A (root x)
    return grad + stiffness(J, gamma, method, s, root * x)


def _conjugate_gradients(
    J: Coupling, gamma: Tensor, method: Method, s: Tensor, root: Tensor, b: Float[Tensor, "... tokens"]
) -> Float[Tensor, "... tokens"]:
    """x with (I − diag(root) A diag(root)) x = b, row by row; A = ∂h/∂s is never formed.

    Rows stop at a relative residual of a few ulp, or where the operator turns out not to be definite
    (an unstable fixed point: nothing to differentiate); those keep the last finite iterate.
    """
    x, r = torch.zeros_like(b), b
    p, rr = r, r.square().sum(-1, keepdim=True)
    goal = rr * (8.0 * torch.finfo(b.dtype).eps) ** 2
    for _ in range(_CG_STEPS):
        Ap = p - root * stiffness(J, gamma, method, s, root * p)
        pAp = (p * Ap).sum(-1, keepdim=True)
        active = (rr > goal) & (pAp > 0)
        if reads_values(b) and not bool(active.any()):
            break
        step = torch.where(active, rr / torch.where(active, pAp, 1.0), 0.0)
        x, r = x + step * p, r - step * Ap
        new = r.square().sum(-1, keepdim=True)
        p = torch.where(active, r + new / torch.where(rr > 0, rr, 1.0) * p, p)
        rr = torch.where(active, new, rr)
    return x
