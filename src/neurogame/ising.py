"""The Ising system of tokens: energy, mean-field and TAP equations, their fixed point and its gradient.

    H(s) = −Σ_i J_i s_i − Σ_{i<j} J_ij s_i s_j                          (energy)
    s_i  = tanh(h_i/γ),  h = J_field + J s                              (mean field)
    h    = J_field + J s − s ∘ (J² (1 − s²))/γ,  J² elementwise         (TAP: Onsager's correction)

`solve` iterates s ← (1−damping)·s + damping·tanh(h/γ) from s = 0 and returns the spins with the
record of how it went. Couplings are a matrix, a `LinearCoupling`, or None. How they are
estimated is in `couplings`.

How this differs from the paper: convergence is judged by the *undamped* residual
max_i |tanh(h_i/γ) − s_i|, per sequence (a damped step is small long before the equation holds); a
sequence that has converged is frozen; and the gradient is that of the fixed point itself, by the
implicit function theorem, instead of through the unrolled iterations. The equations are an
approximation of the Gibbs marginals, not a theorem about them: `exact.marginals` is the truth.
"""

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import torch

from neurogame import kernels
from neurogame._common.types import Bool, Float, Int, Tensor
from neurogame._common.validation import (
    as_mask,
    check_choice,
    check_count,
    check_positive,
    exporting,
    full_precision,
    mapped,
    reads_values,
)
from neurogame.couplings import Coupling as Coupling
from neurogame.couplings import LinearCoupling, factors, flat, from_factors, mask_tokens, matvec, squared_matvec
from neurogame.implicit_gradient import FixedPoint
from neurogame.implicit_gradient import Method as Method
from neurogame.spectrum import spectral_radius

Gradient = Literal["implicit", "unrolled"]


@dataclass(frozen=True)
class Problem:
    """One Ising system per leading index: what was solved, kept so that the record can answer questions."""

    field: Float[Tensor, "... tokens"]
    coupling: Coupling
    gamma: Float[Tensor, "..."]
    mask: Bool[Tensor, "... tokens"] | None
    method: Method

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Field, γ and the factors of the coupling: what a gradient may be asked for."""
        return self.field, self.gamma, *factors(self.coupling)

    def local_field(self, s: Float[Tensor, "... tokens"]) -> Float[Tensor, "... tokens"]:
        """h(s)."""
        h = self.field + matvec(self.coupling, s)
        if self.method == "tap":
            h = h - s * squared_matvec(self.coupling, 1.0 - s.square()) / self.gamma.unsqueeze(-1)
        return h

    def update(self, s: Float[Tensor, "... tokens"]) -> Float[Tensor, "... tokens"]:
        """tanh(h(s)/γ), 0 at padding."""
        new = torch.tanh(self.local_field(s) / self.gamma.unsqueeze(-1))
        return new if self.mask is None else new * self.mask


@dataclass(frozen=True)
class SpinState:
    """Spins, and how far to trust them; everything is per sequence (and head)."""

    spins: Float[Tensor, "... tokens"]  # ⟨s_i⟩, 0 at padding
    residual: Float[Tensor, "..."]  # max_i |tanh(h_i/γ) − s_i| at `spins`
    iterations: Int[Tensor, "..."]  # updates made before the residual fell below tol
    converged: Bool[Tensor, "..."]
    problem: Problem = field(repr=False)

    @property
    def alpha(self) -> Float[Tensor, "... tokens"]:
        """α_i = (1 + ⟨s_i⟩)/2, 0 at padding."""
        alpha = (1.0 + self.spins) / 2.0
        return alpha if self.problem.mask is None else alpha * self.problem.mask

    @cached_property
    def spectral_radius(self) -> Float[Tensor, "..."]:
        """ρ(J)/γ: below 1 the mean-field solution is unique and every start converges to it."""
        with torch.no_grad():
            J = mask_tokens(self.problem.coupling, self.problem.mask)
            return spectral_radius(J, self.spins) / self.problem.gamma

    @cached_property
    def free_energy(self) -> Float[Tensor, "..."]:
        """F = ⟨H⟩ − γ·entropy of independent spins with means ⟨s⟩: what mean field makes stationary."""
        p = self.problem
        up = (1.0 + self.spins) / 2.0
        entropy: Tensor = -(torch.special.xlogy(up, up) + torch.special.xlogy(1.0 - up, 1.0 - up))
        if p.mask is not None:
            entropy = entropy * p.mask
        return energy(self.spins, p.field, p.coupling) - p.gamma * entropy.sum(-1)


def energy(
    spins: Float[Tensor, "... tokens"], field: Float[Tensor, "... tokens"], coupling: Coupling
) -> Float[Tensor, "..."]:
    """H(s) = −Σ_i J_i s_i − Σ_{i<j} J_ij s_i s_j for a symmetric J with zero diagonal.

    Args:
        spins: [..., tokens].
        field: J_i, [..., tokens].
        coupling: J_ij, [..., tokens, tokens]; a `LinearCoupling`; or None.

    Returns:
        [...].

    Raises:
        TypeError: spins or field are no tensors, or coupling is none of its three kinds.

    Example:
        >>> ising.energy(torch.tensor([1.0, -1.0]), torch.tensor([1.0, 2.0]), None)
        tensor(1.)
    """
    for name, given in (("spins", spins), ("field", field)):
        if not isinstance(given, Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, got {type(given).__name__}")
    _check_kind(coupling)
    return -(spins * field).sum(-1) - 0.5 * (spins * matvec(coupling, spins)).sum(-1)


def solve(
    field: Float[Tensor, "... tokens"],
    coupling: Coupling,
    gamma: float | Tensor,
    *,
    method: Method = "mean_field",
    damping: float = 0.7,
    max_iter: int = 25,
    tol: float = 1e-4,
    mask: Tensor | None = None,
    gradient: Gradient = "implicit",
    validate: bool | None = None,
) -> SpinState:
    """The fixed point of s = tanh(h(s)/γ), iterated s ← (1−damping)·s + damping·tanh(h/γ) from s = 0.

    Args:
        field: J_i, [..., tokens].
        coupling: symmetric with zero diagonal, [..., tokens, tokens]; a `LinearCoupling`; or None.
        gamma: temperature > 0, a number or a tensor that broadcasts to the leading axes.
        method: "mean_field", or "tap", which adds Onsager's correction.
        damping: in (0, 1]; 1 is undamped.
        max_iter: updates at most; a sequence that has converged is not updated any more.
        tol: convergence is an undamped residual below it.
        mask: bool or 0/1 integers, True = real token; padding keeps spin 0 and exerts no force.
        gradient: "implicit" differentiates the fixed point (memory independent of `max_iter`; where
            the solver has not converged it is the gradient of the linearised equation at the last
            spins); "unrolled" differentiates the iterations, and so do the transforms of `torch.func` in any case.
        validate: whether to check values as well as shapes; None means in eager mode on the CPU.

    Where ρ(J)/γ ≥ 1 the equations may have several solutions; this returns the one reached from s = 0.

    Returns:
        The spins, their residual, the updates they took, and whether they converged.

    Raises:
        TypeError, ValueError: an unknown name, shapes that do not broadcast, NaN, γ ≤ 0, or a damping outside (0, 1].

    Example:
        >>> ising.solve(torch.zeros(2), None, gamma=1.0).alpha.tolist()
        [0.5, 0.5]
    """
    problem = _problem(field, coupling, gamma, method, mask, validate)
    check_choice("gradient", gradient, Gradient)
    check_count("max_iter", max_iter)
    if not 0.0 < damping <= 1.0:
        raise ValueError(f"damping must be in (0, 1], where 1 is undamped, got {damping!r}")
    if not tol > 0.0:
        raise ValueError(f"tol must be > 0, got {tol!r}")
    with full_precision(problem.field.device):
        unrolled = gradient == "unrolled" or mapped() or not kernels.needs_gradient(*problem.tensors)
        with nullcontext() if unrolled else torch.no_grad():
            spins, residual, iterations = _iterate(problem, damping, max_iter, tol)
        if not unrolled:
            parts, y = factors(problem.coupling), problem.update(spins)
            spins = FixedPoint.apply(y, spins, problem.gamma, problem.mask, method, *parts)
    residual = residual.detach()
    return SpinState(spins, residual, iterations, residual < tol, problem)


def spins_from_field(
    field: Float[Tensor, "... tokens"], gamma: float | Tensor, *, mask: Tensor | None = None, tol: float = 1e-4
) -> SpinState:
    """s_i = J_i cut to [−1, 1]: mean field switched off; the residual says how far that is from a solution."""
    problem = _problem(field, None, gamma, "mean_field", mask, validate=False)
    spins = problem.field.clamp(-1.0, 1.0)
    spins = spins if problem.mask is None else spins * problem.mask
    residual = (problem.update(spins) - spins).detach().abs().amax(-1)
    return SpinState(spins, residual, torch.zeros_like(residual, dtype=torch.int64), residual < tol, problem)


def _iterate(problem: Problem, damping: float, max_iter: int, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """Spins, their undamped residual, and the number of updates each sequence took."""
    if not kernels.needs_gradient(*problem.tensors):
        if exporting():
            return _exported_iterate(problem, damping, max_iter, tol)
        if problem.method == "mean_field" and problem.coupling is not None and kernels.available(*problem.tensors):
            return _compiled_iterate(problem, problem.coupling, damping, max_iter, tol)
    s = torch.zeros_like(problem.field)
    new = problem.update(s)
    residual = (new - s).detach().abs().amax(-1)
    iterations = torch.zeros_like(residual, dtype=torch.int64)
    for _ in range(max_iter):
        active = residual >= tol
        # Leaving early changes nothing (all rows are frozen); it reads a value, so only where that is free.
        if reads_values(residual) and not bool(active.any()):
            break
        s = torch.where(active.unsqueeze(-1), s + damping * (new - s), s)
        iterations = iterations + active
        new = problem.update(s)
        residual = torch.where(active, (new - s).detach().abs().amax(-1), residual)
    return s, residual, iterations


def _exported_iterate(problem: Problem, damping: float, max_iter: int, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """The same as a loop of an exported graph; what a step reads of the problem goes in as arguments, no closure."""
    constants = problem.tensors if problem.mask is None else (problem.mask, *problem.tensors)

    def goes_on(t: Tensor, _: Tensor, __: Tensor, residual: Tensor, *___: Tensor) -> Tensor:
        return (t < max_iter) & (residual >= tol).any()

    def step(t: Tensor, s: Tensor, new: Tensor, residual: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        mask, (field, gamma, *parts) = (None, given) if problem.mask is None else (given[0], given[1:])
        active = residual >= tol
        s = torch.where(active.unsqueeze(-1), s + damping * (new - s), s)
        new = Problem(field, from_factors(parts), gamma, mask, problem.method).update(s)
        return t + 1, s, new, torch.where(active, (new - s).abs().amax(-1), residual)

    s = torch.zeros(problem.field.shape, dtype=problem.field.dtype, device=problem.field.device)
    new = problem.update(s)
    start = (torch.zeros((), dtype=torch.int64, device=s.device), s, new, (new - s).abs().amax(-1))
    t, s, _, residual = torch.ops.higher_order.while_loop(goes_on, step, start, constants)
    return s, residual, t.expand(residual.shape)


def _compiled_iterate(
    problem: Problem, coupling: Tensor | LinearCoupling, damping: float, max_iter: int, tol: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`_iterate` for mean field in compiled loops: a row stops when it has converged."""
    field, gamma, mask = problem.field.contiguous(), problem.gamma.contiguous(), problem.mask
    batch, n = field.shape[:-1], field.shape[-1]
    sizes, J = flat(coupling, batch)
    real = field if mask is None else mask.to(field.dtype).expand_as(field).contiguous()
    spins, residual, iterations = torch.empty_like(field), torch.empty_like(gamma), torch.empty_like(gamma)
    counts = (batch.numel(), n, *sizes, max_iter, int(mask is not None), torch.get_num_threads())
    options = torch.tensor([damping, tol], dtype=field.dtype)
    kernels.call("neurogame_solve", *counts, *J, field, gamma, real, options, spins, residual, iterations)
    return spins, residual, iterations.long()


def _check_kind(coupling: object) -> None:
    if not isinstance(coupling, Tensor | LinearCoupling | None):
        raise TypeError(f"coupling must be a tensor, a LinearCoupling or None, got {type(coupling).__name__}")


def _problem(
    field: Tensor, coupling: Coupling, gamma: float | Tensor, method: Method, mask: Tensor | None, validate: bool | None
) -> Problem:
    """Check and bring everything to one dtype (float32, or float64 where the field is) and one shape."""
    check_choice("method", method, Method)
    check_positive("gamma", gamma, validate)
    if not isinstance(field, Tensor) or field.dim() < 1 or not field.is_floating_point():
        raise TypeError(f"field must be a floating [..., tokens] tensor, got {' '.join(repr(field).split()):.80}")
    _check_kind(coupling)
    if isinstance(coupling, Tensor) and coupling.is_complex():
        raise TypeError(f"coupling must hold real numbers, got {coupling.dtype}")
    n = field.shape[-1]
    if coupling is not None and tuple(coupling.shape[-2:]) != (n, n):
        raise ValueError(f"coupling must be [..., {n}, {n}] to fit the field, got {list(coupling.shape)}")
    if reads_values(field, validate):
        if not bool(torch.isfinite(field).all()):
            raise ValueError("field holds NaN or infinite entries")
        if isinstance(coupling, Tensor) and not bool(torch.isfinite(coupling).all()):
            raise ValueError("coupling holds NaN or infinite entries")
    dtype = torch.float64 if field.dtype == torch.float64 else torch.float32
    leading = {"field": field.shape[:-1], "coupling": () if coupling is None else coupling.shape[:-2]}
    leading |= {"gamma": gamma.shape} if isinstance(gamma, Tensor) else {}
    try:
        batch = torch.broadcast_shapes(*leading.values())
    except RuntimeError:
        shapes = ", ".join(f"{name} {list(axes)}" for name, axes in leading.items())
        raise ValueError(f"leading axes must broadcast to each other, got {shapes}") from None
    gamma = torch.as_tensor(gamma, dtype=dtype, device=field.device).expand(batch)
    field = field.to(dtype).expand(*batch, n)
    coupling = from_factors(t.to(dtype) for t in factors(coupling))
    real = as_mask(mask, field.shape, field.device, validate)
    if method == "tap":  # spins that are 0 exert no force, but their variance 1 − s² would
        coupling = mask_tokens(coupling, real)
    return Problem(field, coupling, gamma, real, method)
