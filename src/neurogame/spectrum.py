"""ρ(J), the largest |eigenvalue| of the couplings: exactly, by power iterations, and as a smooth bound from probes."""

import torch

from neurogame import kernels, sampling
from neurogame._common.types import Float, Tensor
from neurogame._common.validation import differentiated, traced
from neurogame.couplings import Coupling, LinearCoupling, factors, flat
from neurogame.game import safe_divide, safe_sqrt

_DENSE_EIGENVALUES = 1024  # up to this n an operator is formed to read its spectral radius off exactly
_POWER_STEPS = 500


@torch.no_grad()
def power_iteration(
    coupling: Tensor | LinearCoupling, X: Float[Tensor, "... tokens probes"], steps: int, *, keep: bool = False
) -> tuple[Float[Tensor, "steps ..."], Float[Tensor, "steps ... tokens probes"] | None]:
    """Norms ‖J X‖/‖X‖ (Frobenius) along X ← J X/‖X‖, which tend to ρ(J); with `keep` also each normalised X."""
    if not kernels.available(*factors(coupling), X):
        norms, iterates = [], []
        for _ in range(steps):
            X = safe_divide(X, safe_sqrt(X.square().sum((-2, -1), keepdim=True)))
            iterates += [X] if keep else []
            X = coupling @ X
            norms.append(safe_sqrt(X.square().sum((-2, -1))))
        return torch.stack(norms), torch.stack(iterates) if keep else None
    n, probes = X.shape[-2:]
    batch = torch.broadcast_shapes(X.shape[:-2], coupling.shape[:-2])
    start = X.expand(*batch, n, probes).mT.contiguous()
    sizes, J = flat(coupling, batch)
    N = start.new_empty(*batch, steps)
    kept = start.new_empty(*batch, steps, probes, n) if keep else N
    counts = (batch.numel(), n, *sizes, probes, steps, int(keep), torch.get_num_threads())
    kernels.call("neurogame_power", *counts, *J, start, N, kept)
    return N.movedim(-1, 0), kept.mT.movedim(-3, 0) if keep else None


def schatten_radius(
    coupling: Tensor | LinearCoupling, probes: Float[Tensor, "... tokens probes"], tokens: int | Tensor, steps: int
) -> Float[Tensor, "..."]:
    """(Σ_i |λ_i|^2m)^(1/2m), m = `steps`, from ±1 probes: just above ρ(J) = max |λ_i|, and smooth in J.

    E‖J^m z‖² = Σ λ^2m for a probe z of independent signs (Hutchinson), so this errs upwards where
    many eigenvalues are near the largest, and downwards only if every probe misses its eigenvector.

    Its gradient needs no second pass: with Y_k = J^k Z and J symmetric,
    d log‖Y_m‖ = Σ_{k=1…m} ⟨Y_{2m−k}, dJ Y_{k−1}⟩ / ‖Y_m‖²,
    so the iteration continues to Y_{2m−1} and one product of J with all Y_{k−1} side by side carries it.
    """
    differentiable = kernels.needs_gradient(*factors(coupling)) or differentiated()
    differentiable = differentiable or (traced() and torch.is_grad_enabled())
    N, X = power_iteration(coupling, probes, 2 * steps if differentiable else steps, keep=differentiable)
    zero = (N <= 0).any(0)
    logs = torch.where(zero, 1.0, N).log()
    log_norm = logs[:steps].sum(0)  # log of ‖J^m Z‖/‖Z‖
    if X is not None:
        size = torch.cat([torch.zeros_like(logs[:1]), logs.cumsum(0)])  # log ‖Y_k‖/‖Z‖
        share = (size[steps : 2 * steps].flip(0) + size[:steps] - 2.0 * size[steps]).exp()
        left = X[steps:].flip(0) * torch.where(zero, 0.0, share)[..., None, None]  # Y_{2m−k}, scaled
        right = X[:steps].movedim(0, -1).flatten(-2)  # (..., tokens, probes·m)
        carried = ((coupling @ right) * left.movedim(0, -1).flatten(-2)).sum((-2, -1))
        log_norm = log_norm + (carried - carried.detach())
    n = torch.as_tensor(tokens, dtype=N.dtype, device=N.device)
    return torch.where(zero, 0.0, ((log_norm + 0.5 * n.log()) / steps).exp())


def spectral_radius(coupling: Coupling, like: Float[Tensor, "... tokens"]) -> Float[Tensor, "..."]:
    """ρ(J) = max |eigenvalue|, shaped as `like` [..., tokens] without tokens.

    Exact for matrices, and for operators up to n = 1024; power iterations above.
    """
    if coupling is None:
        return like.new_zeros(like.shape[:-1])
    if isinstance(coupling, LinearCoupling):
        n = coupling.shape[-1]
        if n > _DENSE_EIGENVALUES:
            start = sampling.probes(sampling.seed_of(None, like.device), 1, n, 1)[0].to(like.dtype)
            return power_iteration(coupling, start.expand(*like.shape, 1), _POWER_STEPS)[0][-1]
        coupling = coupling.to_dense()
    eigenvalues: Tensor = torch.linalg.eigvalsh(coupling)
    return eigenvalues.abs().amax(-1)
