"""The couplings J_ij as an object: a matrix, an operator that is never formed, or None (J = 0), and products with them.

All other modules multiply by J, mask it and reorder its tokens through this one, whichever of the three J is.
`interactions` estimates couplings.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from neurogame._common.types import Bool, Float, Int, Tensor
from neurogame._common.validation import transformed


@dataclass(frozen=True)
class LinearCoupling:
    """J = scale·V Vᵀ − Σ_k weight_k δ_k δ_kᵀ off the diagonal, 0 on it; O(n·(dim + K)) per product.

    `coupling @ x` takes a vector [..., tokens] or, with one more axis, a matrix [..., tokens, m].
    """

    V: Float[Tensor, "... tokens dim"]
    scale: Float[Tensor, "..."]
    delta: Float[Tensor, "... samples tokens"]
    weight: Float[Tensor, "... samples"]
    diag: Float[Tensor, "... tokens"]  # what scale·VVᵀ − ΣδδT holds on its diagonal, to be taken off

    def __post_init__(self) -> None:
        if transformed():  # shapes may be symbols
            return
        for name, factor in zip(("V", "scale", "delta", "weight", "diag"), self.factors, strict=True):
            if not isinstance(factor, Tensor) or not factor.is_floating_point():
                kind = factor.dtype if isinstance(factor, Tensor) else type(factor).__name__
                raise TypeError(f"{name} of a LinearCoupling must be a floating tensor, got {kind}")
        V, scale, delta, weight, diag = (factor.shape for factor in self.factors)
        fits = len(V) > 1 and len(delta) > 1 and len(weight) > 0 and len(diag) > 0
        fits = fits and delta[-1] == diag[-1] == V[-2] and weight[-1] == delta[-2]
        if not fits or any(lead not in (V[:-2], ()) for lead in (scale, delta[:-2], weight[:-1], diag[:-1])):
            wanted = "[..., tokens, dim], [...], [..., samples, tokens], [..., samples], [..., tokens]"
            shapes = ", ".join(str(list(factor.shape)) for factor in self.factors)
            raise ValueError(f"the factors of a LinearCoupling must be {wanted}, got {shapes}")

    @property
    def shape(self) -> torch.Size:
        """[..., tokens, tokens], as if J were formed."""
        n = self.V.shape[-2]
        return torch.Size((*self.V.shape[:-2], n, n))

    @property
    def dtype(self) -> torch.dtype:
        """Of the entries."""
        return self.V.dtype

    @property
    def device(self) -> torch.device:
        """Where the factors are."""
        return self.V.device

    def dim(self) -> int:
        """Number of axes, two of them tokens."""
        return self.V.dim()

    @property
    def factors(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The five tensors it is made of."""
        return self.V, self.scale, self.delta, self.weight, self.diag

    def __matmul__(self, x: Tensor) -> Tensor:
        return matvec(self, x) if x.dim() < self.dim() else _product(self, x)

    def squared_matvec(self, x: Float[Tensor, "... tokens"]) -> Float[Tensor, "... tokens"]:
        """Σ_j J_ij² x_j in O(n·(dim + K)²): the diagonal of J diag(x) J, J = B Σ Bᵀ − diag with B = [V, δᵀ]."""
        V, scale, delta, weight, diag = self.factors
        B = torch.cat([V, delta.mT], dim=-1)  # (..., tokens, dim + K)
        signature = torch.cat([scale.unsqueeze(-1).expand(*V.shape[:-2], V.shape[-1]), -weight], dim=-1)
        core = signature.unsqueeze(-1) * (B.mT @ (x.unsqueeze(-1) * B)) * signature.unsqueeze(-2)
        return ((B @ core) * B).sum(-1) - diag.square() * x

    def scaled(self, factor: Float[Tensor, "..."]) -> "LinearCoupling":
        """factor·J with one factor per head: it multiplies the three coefficients, never the tokens."""
        column = factor.unsqueeze(-1)
        return LinearCoupling(self.V, self.scale * factor, self.delta, self.weight * column, self.diag * column)

    def diagonal(self) -> Float[Tensor, "... tokens"]:
        """The diagonal of J: zero, a spin does not couple to itself."""
        return torch.zeros_like(self.diag)

    def to_dense(self) -> Float[Tensor, "... tokens tokens"]:
        """J as a matrix, for small n, inspection and tests."""
        gram = self.scale[..., None, None] * (self.V @ self.V.mT)
        rank = self.delta.mT @ (self.weight.unsqueeze(-1) * self.delta)
        return off_diagonal(gram - rank)


Coupling = Tensor | LinearCoupling | None


def _product(J: LinearCoupling, X: Float[Tensor, "... tokens m"]) -> Float[Tensor, "... tokens m"]:
    """J X = scale·V (Vᵀ X) − δᵀ (weight (δ X)) − diag ∘ X, in O(n·(dim + K)) per column."""
    gram = J.scale[..., None, None] * (J.V @ (J.V.mT @ X))
    rank = J.delta.mT @ (J.weight.unsqueeze(-1) * (J.delta @ X))
    return gram - rank - J.diag.unsqueeze(-1) * X


def matvec(coupling: Coupling, x: Float[Tensor, "... tokens"]) -> Float[Tensor, "... tokens"]:
    """Σ_j J_ij x_j."""
    if coupling is None:
        return torch.zeros_like(x)
    X = x.unsqueeze(-1)
    return (coupling @ X if isinstance(coupling, Tensor) else _product(coupling, X)).squeeze(-1)


def squared_matvec(coupling: Coupling, x: Float[Tensor, "... tokens"]) -> Float[Tensor, "... tokens"]:
    """Σ_j J_ij² x_j."""
    if coupling is None:
        return torch.zeros_like(x)
    if isinstance(coupling, LinearCoupling):
        return coupling.squared_matvec(x)
    return (coupling.square() @ x.unsqueeze(-1)).squeeze(-1)


def factors(coupling: Coupling) -> tuple[Tensor, ...]:
    """The tensors a coupling is made of: none, a matrix, or the five factors of an operator."""
    if coupling is None:
        return ()
    return coupling.factors if isinstance(coupling, LinearCoupling) else (coupling,)


def from_factors(parts: Iterable[Tensor]) -> Coupling:
    """The coupling whose `factors` these are: autograd functions and exported loops carry tensors only."""
    tensors = tuple(parts)
    if len(tensors) > 1:
        return LinearCoupling(*tensors)
    return tensors[0] if tensors else None


def mask_tokens(coupling: Coupling, mask: Bool[Tensor, "... tokens"] | None) -> Coupling:
    """J without the rows and columns of padding."""
    if coupling is None or mask is None:
        return coupling
    if isinstance(coupling, Tensor):
        return coupling.masked_fill(~(mask.unsqueeze(-1) & mask.unsqueeze(-2)), 0.0)
    V, scale, delta, weight, diag = coupling.factors
    V, delta = V.masked_fill(~mask.unsqueeze(-1), 0.0), delta.masked_fill(~mask.unsqueeze(-2), 0.0)
    return LinearCoupling(V, scale, delta, weight, diag.masked_fill(~mask, 0.0))


def permute_tokens(
    coupling: Tensor | LinearCoupling, order: Int[Tensor, "... tokens"]
) -> Float[Tensor, "... tokens tokens"] | LinearCoupling:
    """J_{π(i) π(j)}: the couplings of other tokens, with the spectrum of J. `order` is π, [..., tokens]."""
    batch, n = coupling.shape[:-2], coupling.shape[-1]
    order = order.expand(*batch, n)
    if isinstance(coupling, Tensor):
        rows = coupling.gather(-2, order.unsqueeze(-1).expand(*batch, n, n))
        return rows.gather(-1, order.unsqueeze(-2).expand(*batch, n, n))
    V, scale, delta, weight, diag = coupling.factors
    V, delta = V.gather(-2, order.unsqueeze(-1).expand(V.shape)), delta.gather(-1, order.unsqueeze(-2).expand_as(delta))
    return LinearCoupling(V, scale, delta, weight, diag.gather(-1, order))


def off_diagonal(J: Float[Tensor, "... tokens tokens"]) -> Float[Tensor, "... tokens tokens"]:
    """J with zeros on its diagonal."""
    return J.masked_fill(torch.eye(J.shape[-1], dtype=torch.bool, device=J.device), 0.0)


def flat(coupling: Tensor | LinearCoupling, batch: torch.Size) -> tuple[tuple[int, int], list[Tensor]]:
    """(dim, samples) and five factors [rows, …] for the compiled loops; samples < 0 says the first is a matrix."""
    is_linear = isinstance(coupling, LinearCoupling)
    rows = []
    for part, axes in zip(factors(coupling), (2, 0, 2, 1, 1) if is_linear else (2,), strict=True):
        tail = part.shape[part.dim() - axes :]  # the axes behind the batch
        rows.append(part.expand((*batch, *tail)).reshape(batch.numel(), *tail).contiguous())
    if isinstance(coupling, LinearCoupling):
        return (coupling.V.shape[-1], coupling.delta.shape[-2]), rows
    return (0, -1), rows * 5
