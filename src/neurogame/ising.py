"""The Ising system of tokens: energy, mean-field and TAP equations, their fixed point and its gradient.

    H(s) = −Σ_i J_i s_i − Σ_{i<j} J_ij s_i s_j                          (energy)
    s_i  = tanh(h_i/γ),  h = J_field + J s                              (mean field)
    h    = J_field + J s − s ∘ (J² (1 − s²))/γ,  J² elementwise         (TAP: Onsager's correction)

`solve` iterates s ← (1−damping)·s + damping·tanh(h/γ) from s = 0 and returns the spins with the
record of how it went. Couplings are a matrix, a `LinearCoupling`, or None. Where they come from is
not this file's business.

How this differs from the paper: convergence is judged by the *undamped* residual
max_i |tanh(h_i/γ) − s_i|, per sequence (a damped step is small long before the equation holds); a
sequence that has converged is frozen; and the gradient is that of the fixed point itself, by the
implicit function theorem, instead of through the unrolled iterations. The equations are an
approximation of the Gibbs marginals, not a theorem about them: `exact.marginals` is the truth.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import torch
from torch.autograd.function import once_differentiable

from neurogame import kernels, sampling
from neurogame._types import Bool, Float, Int, Tensor
from neurogame.couplings import LinearCoupling, linear_product, linear_squared
from neurogame.game import safe_divide, safe_sqrt
from neurogame.validation import (
    as_mask,
    check_choice,
    check_count,
    check_positive,
    differentiated,
    exporting,
    full_precision,
    mapped,
    reads_values,
    traced,
)

Method = Literal["mean_field", "tap"]
Gradient = Literal["implicit", "unrolled"]
Coupling = Tensor | LinearCoupling | None
Factors = tuple[Tensor, ...]  # those of a LinearCoupling: what a traced backward pass can carry

_DENSE_EIGENVALUES = 1024  # up to this n an operator is formed to read its spectral radius off exactly
_POWER_STEPS = 500
_CG_STEPS = 40


@dataclass(frozen=True)
class Problem:
    """One Ising system per leading index: what was solved, kept so that the record can answer questions."""

    field: Float[Tensor, "... tokens"]
    coupling: Coupling
    gamma: Float[Tensor, "..."]
    mask: Bool[Tensor, "... tokens"] | None
    method: Method

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
            J = masked(self.problem.coupling, self.problem.mask)
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


def stiffness(coupling: Coupling | Factors, gamma: Tensor, method: Method, s: Tensor, x: Tensor) -> Tensor:
    """(∂h/∂s) x: J x, and for TAP (J − diag(J²(1−s²))/γ + 2 diag(s) J² diag(s)/γ) x; symmetric."""
    Ax = matvec(coupling, x)
    if method == "tap":
        onsager = squared_matvec(coupling, 1.0 - s.square()) * x
        swing = 2.0 * s * squared_matvec(coupling, s * x)
        Ax = Ax + (swing - onsager) / gamma.unsqueeze(-1)
    return Ax


def masked(coupling: Coupling, mask: Bool[Tensor, "... tokens"] | None) -> Coupling:
    """J without the rows and columns of padding."""
    if coupling is None or mask is None:
        return coupling
    if isinstance(coupling, Tensor):
        return coupling.masked_fill(~(mask.unsqueeze(-1) & mask.unsqueeze(-2)), 0.0)
    V, scale, delta, weight, diag = coupling.factors
    V, delta = V.masked_fill(~mask.unsqueeze(-1), 0.0), delta.masked_fill(~mask.unsqueeze(-2), 0.0)
    return LinearCoupling(V, scale, delta, weight, diag.masked_fill(~mask, 0.0))


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
        TypeError: spins or field are no tensors.

    Example:
        >>> ising.energy(torch.tensor([1.0, -1.0]), torch.tensor([1.0, 2.0]), None)
        tensor(1.)
    """
    for name, given in (("spins", spins), ("field", field)):
        if not isinstance(given, Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, got {type(given).__name__}")
    return -(spins * field).sum(-1) - 0.5 * (spins * matvec(coupling, spins)).sum(-1)


def power_norms(
    coupling: Tensor | LinearCoupling, X: Float[Tensor, "... tokens probes"], steps: int
) -> Float[Tensor, "steps ..."]:
    """N_1 … N_steps of the power iteration X ← J X/‖X‖, N = ‖J X‖/‖X‖ in the Frobenius norm; the last tends to ρ(J)."""
    return _power(coupling, X, steps, keep=False)[0]


@torch.no_grad()
def _power(
    coupling: Tensor | LinearCoupling, X: Float[Tensor, "... tokens probes"], steps: int, *, keep: bool
) -> tuple[Float[Tensor, "steps ..."], Float[Tensor, "steps ... tokens probes"] | None]:
    """The norms, and with `keep` the normalised X that each product was made of."""
    if kernels.available(*factors(coupling), X):
        return _compiled_power(coupling, X, steps, keep=keep)
    norms, iterates = [], []
    for _ in range(steps):
        X = safe_divide(X, safe_sqrt(X.square().sum((-2, -1), keepdim=True)))
        iterates += [X] if keep else []
        X = coupling @ X
        norms.append(safe_sqrt(X.square().sum((-2, -1))))
    return torch.stack(norms), torch.stack(iterates) if keep else None


def schatten_radius(
    coupling: Tensor | LinearCoupling, probes: Float[Tensor, "... tokens probes"], tokens: int | Tensor, steps: int
) -> Float[Tensor, "..."]:
    """(Σ_i |λ_i|^2m)^(1/2m), m = `steps`, from ±1 probes: just above ρ(J) = max |λ_i|, and smooth in J.

    E‖J^m z‖² = Σ λ^2m for a probe z of independent signs (Hutchinson), so this errs upwards where
    many eigenvalues are near the largest, and downwards only if every probe misses its eigenvector.

    Its gradient needs no second pass: with Y_k = J^k Z and J symmetric,
    d log‖Y_m‖ = Σ_{k=1…m} ⟨Y_{2m−k}, dJ Y_{k−1}⟩ / ‖Y_m‖²,
    so the iteration goes on to Y_{2m−1} and one product of J with all Y_{k−1} side by side carries it.
    """
    parts = factors(coupling)
    differentiable = kernels.needs_gradient(*parts) or differentiated() or (traced() and torch.is_grad_enabled())
    fixed = [part.detach() for part in parts]
    held = LinearCoupling(*fixed) if isinstance(coupling, LinearCoupling) else fixed[0]
    N, X = _power(held, probes, 2 * steps if differentiable else steps, keep=differentiable)
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
    """ρ(J) = max |eigenvalue|: exact for matrices and for operators up to n = 1024, power iterations above.

    Args:
        coupling: J_ij, symmetric; None: 0.
        like: [..., tokens], whose leading axes, dtype and device the result has.

    Returns:
        [...].
    """
    if coupling is None:
        return like.new_zeros(like.shape[:-1])
    if isinstance(coupling, LinearCoupling):
        n = coupling.shape[-1]
        if n > _DENSE_EIGENVALUES:
            start = sampling.probes(sampling.seed_of(None, like.device), 1, n, 1)[0].to(like.dtype)
            return power_norms(coupling, start.expand(*like.shape, 1), _POWER_STEPS)[-1]
        coupling = coupling.to_dense()
    eigenvalues: Tensor = torch.linalg.eigvalsh(coupling)
    return eigenvalues.abs().amax(-1)


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
        inputs = (problem.field, problem.gamma, *factors(problem.coupling))
        if gradient == "unrolled" or mapped() or not kernels.needs_gradient(*inputs):
            spins, residual, iterations = _iterate(problem, damping, max_iter, tol)
        else:
            with torch.no_grad():
                spins, residual, iterations = _iterate(problem, damping, max_iter, tol)
            constants = (problem.gamma, problem.mask, problem.method, *factors(problem.coupling))
            spins = _ImplicitGradient.apply(problem.update(spins), spins, *constants)
    residual = residual.detach()
    return SpinState(spins, residual, iterations, residual < tol, problem)


def unsolved(
    field: Float[Tensor, "... tokens"], gamma: float | Tensor, *, mask: Tensor | None = None, tol: float = 1e-4
) -> SpinState:
    """s_i = J_i cut to [−1, 1]: what is left with mean field off; the residual says how far it is from a solution."""
    problem = _problem(field, None, gamma, "mean_field", mask, validate=False)
    spins = problem.field.clamp(-1.0, 1.0)
    spins = spins if problem.mask is None else spins * problem.mask
    residual = (problem.update(spins) - spins).detach().abs().amax(-1)
    return SpinState(spins, residual, torch.zeros_like(residual, dtype=torch.int64), residual < tol, problem)


def _iterate(problem: Problem, damping: float, max_iter: int, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """Spins, their undamped residual, and the number of updates each sequence took."""
    tensors = (problem.field, problem.gamma, *factors(problem.coupling))
    fixed = not kernels.needs_gradient(*tensors)
    if fixed and exporting():
        return _exported_iterate(problem, damping, max_iter, tol)
    compiled = fixed and problem.method == "mean_field" and problem.coupling is not None
    if compiled and kernels.available(*tensors):
        return _compiled_iterate(problem, damping, max_iter, tol)
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
    is_masked = problem.mask is not None
    constants = (problem.field, problem.gamma, *factors(problem.coupling))
    constants = (problem.mask, *constants) if problem.mask is not None else constants

    def goes_on(t: Tensor, _: Tensor, __: Tensor, residual: Tensor, *___: Tensor) -> Tensor:
        return (t < max_iter) & (residual >= tol).any()

    def step(t: Tensor, s: Tensor, new: Tensor, residual: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        mask, rest = (given[0], given[1:]) if is_masked else (None, given)
        field, gamma, *parts = rest
        J = None if not parts else parts[0] if len(parts) == 1 else LinearCoupling(*parts)
        active = residual >= tol
        s = torch.where(active.unsqueeze(-1), s + damping * (new - s), s)
        new = Problem(field, J, gamma, mask, problem.method).update(s)
        return t + 1, s, new, torch.where(active, (new - s).abs().amax(-1), residual)

    s = torch.zeros(problem.field.shape, dtype=problem.field.dtype, device=problem.field.device)
    new = problem.update(s)
    start = (torch.zeros((), dtype=torch.int64, device=s.device), s, new, (new - s).abs().amax(-1))
    t, s, _, residual = torch.ops.higher_order.while_loop(goes_on, step, start, constants)
    return s, residual, t.expand(residual.shape)


def factors(coupling: Coupling) -> tuple[Tensor, ...]:
    """The tensors a coupling is made of: none, a matrix, or the five factors of an operator."""
    if coupling is None:
        return ()
    return coupling.factors if isinstance(coupling, LinearCoupling) else (coupling,)


def _flat(coupling: Tensor | LinearCoupling, batch: torch.Size) -> tuple[tuple[int, int], list[Tensor]]:
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


def _compiled_iterate(problem: Problem, damping: float, max_iter: int, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """`_iterate` for mean field in compiled loops: a row stops when it has converged."""
    batch, n = problem.field.shape[:-1], problem.field.shape[-1]
    field, gamma = problem.field.contiguous(), problem.gamma.contiguous()
    assert problem.coupling is not None
    sizes, J = _flat(problem.coupling, batch)
    mask = problem.mask
    real = field if mask is None else mask.to(field.dtype).expand_as(field).contiguous()
    spins, residual, iterations = torch.empty_like(field), torch.empty_like(gamma), torch.empty_like(gamma)
    counts = (batch.numel(), n, *sizes, max_iter, int(mask is not None), torch.get_num_threads())
    options = torch.tensor([damping, tol], dtype=field.dtype)
    kernels.call("neurogame_solve", *counts, *J, field, gamma, real, options, spins, residual, iterations)
    return spins, residual, iterations.long()


def _compiled_power(
    coupling: Tensor | LinearCoupling, X: Tensor, steps: int, *, keep: bool
) -> tuple[Float[Tensor, "steps ..."], Float[Tensor, "steps ... tokens probes"] | None]:
    """`_power` in compiled loops."""
    n, probes = X.shape[-2:]
    batch = torch.broadcast_shapes(X.shape[:-2], coupling.shape[:-2])
    start = X.expand(*batch, n, probes).mT.contiguous()
    sizes, J = _flat(coupling, batch)
    norms = start.new_empty(*batch, steps)
    iterates = start.new_empty(*batch, steps, probes, n) if keep else norms
    counts = (batch.numel(), n, *sizes, probes, steps, int(keep), torch.get_num_threads())
    kernels.call("neurogame_power", *counts, *J, start, norms, iterates)
    return norms.movedim(-1, 0), iterates.mT.movedim(-3, 0) if keep else None


class _ImplicitGradient(torch.autograd.Function):
    """Passes `spins` on; sends the gradient of the fixed point into the graph of y = tanh(h(spins)/γ).

    s = y(s, θ) ⇒ ds = (I − ∂y/∂s)⁻¹ ∂y/∂θ dθ, ∂y/∂s = D A/γ with D = diag(1 − s²), A = ∂h/∂s symmetric.
    Backward: w = (I − A D/γ)⁻¹ ḡ, then w flows into y. With x = D^½ w the system is symmetric,
    (I − D^½ A D^½/γ) x = D^½ ḡ, and positive definite exactly where the fixed point is a minimum of
    the free energy.
    """

    @staticmethod
    def forward(ctx: Any, _y: Tensor, spins: Tensor, gamma: Tensor, mask: Any, method: Any, *parts: Tensor) -> Tensor:
        ctx.method = method
        ctx.save_for_backward(spins, gamma, mask, *parts)
        return spins.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        s, gamma, mask, *parts = ctx.saved_tensors
        if mask is not None:
            grad = grad * mask
        w = grad if not parts else _adjoint(tuple(parts), gamma, mask, ctx.method, s, grad)
        return (w, *[None] * (4 + len(parts)))


def _adjoint(parts: Factors, gamma: Tensor, mask: Tensor | None, method: Method, s: Tensor, grad: Tensor) -> Tensor:
    """w = (I − A D/γ)⁻¹ ḡ at the fixed point s; `parts` is a matrix alone, or the factors of an operator."""
    root = (1.0 - s.square()).clamp(min=0.0).sqrt() / gamma.sqrt().unsqueeze(-1)
    if mask is not None:
        root = root * mask
    coupling = parts if len(parts) > 1 else parts[0]
    if isinstance(coupling, tuple):
        x = _conjugate_gradients(coupling, gamma, method, s, root, root * grad)
    else:
        A = coupling
        if method == "tap":
            J2, g = A.square(), gamma[..., None, None]
            onsager = (J2 @ (1.0 - s.square()).unsqueeze(-1)).squeeze(-1)
            A = A + (2.0 * s.unsqueeze(-1) * J2 * s.unsqueeze(-2) - torch.diag_embed(onsager)) / g
        M = torch.eye(s.shape[-1], dtype=s.dtype, device=s.device) - root.unsqueeze(-1) * A * root.unsqueeze(-2)
        x = torch.linalg.solve(M, root * grad)
    # w = ḡ + A D w/γ; with root = √(D/γ) and x = root·w, A D w/γ = A (root x)
    return grad + stiffness(coupling, gamma, method, s, root * x)


def _conjugate_gradients(
    parts: Factors, gamma: Tensor, method: Method, s: Tensor, root: Tensor, b: Float[Tensor, "... tokens"]
) -> Float[Tensor, "... tokens"]:
    """x with (I − diag(root) A diag(root)) x = b, row by row; A = ∂h/∂s is never formed.

    Rows stop at a relative residual of a few ulp, or where the operator turns out not to be definite
    (an unstable fixed point: nothing to differentiate); those keep the last finite iterate.
    """
    x, r = torch.zeros_like(b), b
    p, rr = r, r.square().sum(-1, keepdim=True)
    goal = rr * (8.0 * torch.finfo(b.dtype).eps) ** 2
    for _ in range(_CG_STEPS):
        Ap = p - root * stiffness(parts, gamma, method, s, root * p)
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


def _problem(
    field: Tensor, coupling: Coupling, gamma: float | Tensor, method: Method, mask: Tensor | None, validate: bool | None
) -> Problem:
    """Check and bring everything to one dtype (float32, or float64 where the field is) and one shape."""
    check_choice("method", method, Method)
    check_positive("gamma", gamma, validate)
    if not isinstance(field, Tensor) or field.dim() < 1 or not field.is_floating_point():
        raise TypeError(f"field must be a floating [..., tokens] tensor, got {' '.join(repr(field).split()):.80}")
    if not isinstance(coupling, Tensor | LinearCoupling | None):
        raise TypeError(f"coupling must be a tensor, a LinearCoupling or None, got {type(coupling).__name__}")
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
        said = ", ".join(f"{name} {list(axes)}" for name, axes in leading.items())
        raise ValueError(f"leading axes must broadcast to each other, got {said}") from None
    gamma = torch.as_tensor(gamma, dtype=dtype, device=field.device).expand(batch)
    field = field.to(dtype).expand(*batch, n)
    if isinstance(coupling, Tensor):
        coupling = coupling.to(dtype)
    elif coupling is not None and coupling.dtype != dtype:
        coupling = LinearCoupling(*(t.to(dtype) for t in coupling.factors))
    real = as_mask(mask, field.shape, field.device, validate)
    if method == "tap":  # spins that are 0 exert no force, but their variance 1 − s² would
        coupling = masked(coupling, real)
    return Problem(field, coupling, gamma, real, method)
