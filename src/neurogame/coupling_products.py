"""Products with a coupling J_ij, made of a matrix, the factors of a `LinearCoupling`, or None (J = 0)."""

import torch

from neurogame._common.types import Bool, Float, Tensor
from neurogame.couplings import LinearCoupling, linear_product, linear_squared

Coupling = Tensor | LinearCoupling | None
Factors = tuple[Tensor, ...]  # those of a LinearCoupling: what a traced backward pass can carry


def matvec(coupling: Coupling | Factors, x: Float[Tensor, "... tokens"]) -> Float[Tensor, "... tokens"]:
    """Σ_j J_ij x_j."""
    if coupling is None:
        return torch.zeros_like(x)
    if isinstance(coupling, LinearCoupling):
        coupling = coupling.factors
    if isinstance(coupling, tuple):
        return linear_product(coupling, x.unsqueeze(-1)).squeeze(-1)
    product: Tensor = coupling @ x.unsqueeze(-1)
    return product.squeeze(-1)


def squared_matvec(coupling: Coupling | Factors, x: Float[Tensor, "... tokens"]) -> Float[Tensor, "... tokens"]:
    """Σ_j J_ij² x_j."""
    if coupling is None:
        return torch.zeros_like(x)
    if isinstance(coupling, LinearCoupling):
        coupling = coupling.factors
    if isinstance(coupling, tuple):
        return linear_squared(coupling, x)
    return (coupling.square() @ x.unsqueeze(-1)).squeeze(-1)


def masked(coupling: Coupling, mask: Bool[Tensor, "... tokens"] | None) -> Coupling:
    """J without the rows and columns of padding."""
    if coupling is None or mask is None:
        return coupling
    if isinstance(coupling, Tensor):
        return coupling.masked_fill(~(mask.unsqueeze(-1) & mask.unsqueeze(-2)), 0.0)
    V, scale, delta, weight, diag = coupling.factors
    V, delta = V.masked_fill(~mask.unsqueeze(-1), 0.0), delta.masked_fill(~mask.unsqueeze(-2), 0.0)
    return LinearCoupling(V, scale, delta, weight, diag.masked_fill(~mask, 0.0))


def factors(coupling: Coupling) -> tuple[Tensor, ...]:
    """The tensors a coupling is made of: none, a matrix, or the five factors of an operator."""
    if coupling is None:
        return ()
    return coupling.factors if isinstance(coupling, LinearCoupling) else (coupling,)


def flat(coupling: Tensor | LinearCoupling, batch: torch.Size) -> tuple[tuple[int, int], list[Tensor]]:
    """(dim, samples) and five factors [rows, …] for the compiled loops; samples < 0 says the first is a matrix."""
    axes = (2, 0, 2, 1, 1) if isinstance(coupling, LinearCoupling) else (2,)  # of a factor, behind the batch
    tails = [t.shape[t.dim() - k :] for t, k in zip(factors(coupling), axes, strict=True)]
    flat = [
        t.expand(*batch, *tail).reshape(batch.numel(), *tail).contiguous()
        for t, tail in zip(factors(coupling), tails, strict=True)
    ]
    if isinstance(coupling, LinearCoupling):
        return (coupling.V.shape[-1], coupling.delta.shape[-2]), flat
    return (0, -1), flat * 5
