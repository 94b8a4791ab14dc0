"""Pair interactions J_ij = E[Δ_ij(C)] of the norm game: exact on the draws, or as an operator that is never formed.

Both start from what the marginal contributions already cost. For a drawn coalition C_k write u for
its norm ‖S‖, w_i for the norm after toggling token i (in if it was out, out if it was in), s_i = ±1
for the sign of that toggle and δ_i for the marginal contribution of i. Then

    u_ij² = w_i² + w_j² − u² + 2 s_i s_j G_ij                       G = V Vᵀ
    Δ_ij  = 2 (G_ij − δ_i δ_j) / (u_ij + w_i + w_j − u)             (stable form, f = identity)

so a pair costs one square root. `pair_couplings` streams over the samples: no tensor
(batch, heads, samples, tokens, tokens) exists in the forward or the backward pass.
`linear_couplings` replaces the denominator by 2u, which makes J low-rank plus diagonal.

How this differs from the paper: the value is the same; the paper evaluates four norms from scratch
for each pair and sample, O(K·n³·dim) in all.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable

from neurogame import kernels
from neurogame._common.types import Bool, Float, Tensor
from neurogame._common.validation import exporting, mapped
from neurogame.couplings import LinearCoupling, off_diagonal
from neurogame.game import Nonlinearity, of_norm, safe_divide, safe_sqrt
from neurogame.marginals import Toggles

_BLOCK_ELEMENTS = 1 << 18  # pairs computed at once, 1 MB a temporary
_EXPORTED_SAMPLES = 8  # at once in an exported graph: fewer make it long, more take memory


def linear_couplings(
    V: Float[Tensor, "... tokens dim"], toggles: Toggles, f: Nonlinearity, tilt: Tensor | None
) -> LinearCoupling:
    """J = Σ_k ω_k/u_k (V Vᵀ − δ_k δ_kᵀ) off the diagonal: the pair formula with its denominator at 2u.

    Coalitions with u_k = 0 are left out. `square` is exact (J = 2G). For `tanh` the chain rule adds
    its bend, Σ_k ω_k [f′/u_k (V Vᵀ − δ_k δ_kᵀ) + f″ δ_k δ_kᵀ], which is less accurate.
    With a tilt one weight per coalition, softmax_k(v(C_k)/tilt), stands for the pair's own
    softmax_k(v(C_k∖ij)/tilt): a pair's own weight would not be low-rank.
    """
    u, batch = toggles.norm, V.shape[:-2]
    if f == "square":
        scale = V.new_full(batch, 2.0)
        delta, weight = V.new_zeros(*batch, 0, V.shape[-2]), V.new_zeros(*batch, 0)
    else:
        omega = torch.full_like(u, 1.0 / u.shape[-1])
        if tilt is not None:
            omega = torch.softmax(of_norm(u, f) / tilt.unsqueeze(-1), dim=-1)
        inverse = safe_divide(torch.ones_like(u), u)
        slope, bend = torch.ones_like(u), torch.zeros_like(u)  # f′, −f″
        if f == "tanh":
            slope = 1.0 - u.tanh().square()
            bend = 2.0 * u.tanh() * slope
        scale = (omega * slope * inverse).sum(-1)
        weight = omega * (slope * inverse + bend)
        delta = toggles.delta
    diag = scale.unsqueeze(-1) * V.square().sum(-1) - (weight.unsqueeze(-1) * delta.square()).sum(-2)
    return LinearCoupling(V, scale, delta, weight, diag)


def pair_couplings(
    V: Float[Tensor, "... tokens dim"], toggles: Toggles, f: Nonlinearity, tilt: Tensor | None, chunk: int | None = None
) -> Float[Tensor, "... tokens tokens"]:
    """J_ij = Σ_k ω_kij Δ_ij(C_k∖ij), exact on the draws; ω = 1/K, or softmax_k(v(C_k∖ij)/tilt)."""
    G = V @ V.mT
    if f == "square":
        return off_diagonal(2.0 * G)  # Δ_ij = 2 G_ij in every context, whatever the weights
    batch, n, samples = V.shape[:-2], V.shape[-2], toggles.norm.shape[-1]
    everything = _Block(  # all leading axes as one
        G.reshape(-1, n, n),
        toggles.norm.reshape(-1, samples),
        toggles.toggled.reshape(-1, samples, n),
        toggles.delta.reshape(-1, samples, n),
        toggles.origin.reshape(-1),
        toggles.sign.expand(*batch, samples, n).reshape(-1, samples, n),
        toggles.size.expand(*batch, samples).reshape(-1, samples),
    )
    gamma = None if tilt is None else tilt.reshape(-1)
    if f == "tanh" or tilt is not None or mapped():
        # A traced graph is differentiated by its compiler, which cannot look into the recomputation, nor can torch.func
        tracing = torch.compiler.is_compiling() or mapped()
        J = _stream(everything, gamma, f, chunk)[0] if tracing else _StreamedPairs.apply(*everything, gamma, f, chunk)
    else:
        J = _PairMean.apply(*everything, chunk)
    return off_diagonal(J.reshape(G.shape))


def _blocks(G: Float[Tensor, "rows tokens tokens"], samples: int, chunk: int | None) -> Iterator[tuple[slice, slice]]:
    """(rows, samples) of each block: together about `_BLOCK_ELEMENTS` pairs, so that temporaries stay in cache."""
    if torch.compiler.is_compiling():  # the loop is unrolled into the graph, which is for any number of rows
        step = chunk or (_EXPORTED_SAMPLES if exporting() else 1)
        yield from ((slice(None), slice(k, k + step)) for k in range(0, samples, step))
        return
    rows, n = G.shape[0], G.shape[-1]
    step = min(samples, chunk or max(1, _BLOCK_ELEMENTS // (n * n)))
    height = max(1, _BLOCK_ELEMENTS // (n * n * step))
    for row in range(0, rows, height):
        for k in range(0, samples, step):
            yield slice(row, row + height), slice(k, k + step)


class _Block(NamedTuple):
    """What the pairs of some rows and samples are computed from; the first five carry gradients."""

    G: Float[Tensor, "rows tokens tokens"]
    u: Float[Tensor, "rows samples"]
    w: Float[Tensor, "rows samples tokens"]
    delta: Float[Tensor, "rows samples tokens"]
    origin: Float[Tensor, "rows"]
    sign: Float[Tensor, "rows samples tokens"]
    size: Float[Tensor, "rows samples"]

    def cut(self, r: slice, s: slice) -> "_Block":
        """Views of one block."""
        G, u, w, delta, origin, sign, size = self
        return _Block(G[r], u[r, s], w[r, s], delta[r, s], origin[r], sign[r, s], size[r, s])

    def zeros(self) -> "_Block":
        """A place to collect gradients in; sign and size have none."""
        G, u, w, delta, origin = map(torch.zeros_like, self[:5])
        return _Block(G, u, w, delta, origin, self.sign, self.size)


def _pair_norm(block: _Block) -> tuple[Tensor, Tensor, Bool[Tensor, "..."]]:
    """u_ij, s_i s_j and where toggling both tokens leaves nobody: there u_ij = ‖a‖ by definition.

    That is known from the size of the coalition; in float32 the identity alone would leave √(3e-5).
    """
    G, u, w, _, origin, sign, size = block
    ss = sign.unsqueeze(-1) * sign.unsqueeze(-2)
    square = w.square() - 0.5 * u.square().unsqueeze(-1)
    r = square.unsqueeze(-1) + square.unsqueeze(-2) + 2.0 * ss * G.unsqueeze(-3)
    nobody = (size.unsqueeze(-1) + sign).unsqueeze(-1) + sign.unsqueeze(-2) == 0
    return torch.where(nobody, origin[:, None, None, None], safe_sqrt(r)), ss, nobody


def _denominator(u: Tensor, w: Tensor, u_ij: Tensor) -> tuple[Tensor, Bool[Tensor, "..."]]:
    """u_ij + w_i + w_j − u ≥ 0, and where it is large enough to divide by.

    It vanishes when the toggled vectors are parallel; the plain difference is the accurate form there.
    """
    total = u_ij + w.unsqueeze(-1) + w.unsqueeze(-2)
    denominator = total - u[..., None, None]
    stable = denominator > 0.25 * total
    return torch.where(stable, denominator, 1.0), stable


def _pair_block(block: _Block, f: Nonlinearity) -> tuple[Tensor, Tensor]:
    """Δ_ij(C_k∖ij) and v(C_k∖ij) up to a constant, both (rows, samples, tokens, tokens)."""
    G, u, w, delta, _, sign, _ = block
    u_ij, ss, _ = _pair_norm(block)
    u_, w_i, w_j = u[..., None, None], w.unsqueeze(-1), w.unsqueeze(-2)
    difference = ss * (of_norm(u_ij, f) - of_norm(w_i, f) - of_norm(w_j, f) + of_norm(u_, f))
    if f != "tanh":
        denominator, stable = _denominator(u, w, u_ij)
        product = G.unsqueeze(-3) - delta.unsqueeze(-1) * delta.unsqueeze(-2)
        difference = torch.where(stable, 2.0 * product / denominator, difference)
    i_in, j_in = sign.unsqueeze(-1) < 0, sign.unsqueeze(-2) < 0
    base = torch.where(i_in, torch.where(j_in, u_ij, w_i), torch.where(j_in, w_j, u_))
    return difference, of_norm(base, f)


class _PairMean(torch.autograd.Function):
    """J_ij = 1/K Σ_k Δ_ij(C_k∖ij) for f = identity, with the closed-form gradient of the stable form.

    With c = ∂Δ/∂u_ij = −Δ/D (stable) or s_i s_j (plain difference, σ = −1 instead of +1), D the
    denominator, e = 1/u_ij and H = Ḡ + Ḡᵀ for the incoming gradient Ḡ:

        Ḡ_G  = Ḡ (2/D + c s_i s_j e)        w̄_i = Σ_j H (σc + c w_i e)
        δ̄_i  = −Σ_j H 2δ_j/D                ū   = −½ Σ_ij H (σc + c u e)
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        everything, ctx.chunk = _Block(*(t.contiguous() for t in inputs[:-1])), inputs[-1]
        ctx.save_for_backward(*everything)
        samples = everything.u.shape[-1]
        if kernels.available(*everything):
            J = torch.empty_like(everything.G)
            kernels.call("neurogame_pairs_forward", *_extent(everything), *everything, J)
            return J
        J = torch.zeros_like(everything.G)
        for r, s in _blocks(J, samples, ctx.chunk):
            J[r] += _pair_block(everything.cut(r, s), "identity")[0].sum(-3)
        return J / samples

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        everything = _Block(*ctx.saved_tensors)
        grads, samples = everything.zeros(), everything.u.shape[-1]
        if kernels.available(*everything, grad):
            grad = (grad / samples).contiguous()
            kernels.call("neurogame_pairs_backward", *_extent(everything), *everything, grad, *grads[:5])
            return (*grads[:5], None, None, None)
        for r, s in _blocks(everything.G, samples, ctx.chunk):
            _pair_mean_backward(grad[r] / samples, everything.cut(r, s), grads.cut(r, s))
        return (*grads[:5], None, None, None)


def _extent(block: _Block) -> tuple[int, int, int, int]:
    """Rows, samples, tokens and threads for the compiled loops."""
    return (*block.w.shape, torch.get_num_threads())


def _pair_mean_backward(grad: Tensor, block: _Block, into: _Block) -> None:
    """Add the gradients of one block of `_PairMean`, by the formulas of its docstring."""
    G, u, w, delta, *_ = block
    H = (grad + grad.mT).unsqueeze(-3)
    u_ij, ss, nobody = _pair_norm(block)
    denominator, stable = _denominator(u, w, u_ij)
    product = G.unsqueeze(-3) - delta.unsqueeze(-1) * delta.unsqueeze(-2)
    two_over_D = torch.where(stable, 2.0 / denominator, 0.0)
    c = torch.where(stable, -product * two_over_D / denominator, ss)
    ce = torch.where(nobody, 0.0, safe_divide(c, u_ij))
    direct = (H * torch.where(stable, c, -c)).sum(-1)
    through = (H * ce).sum(-1)
    into.G.add_((grad.unsqueeze(-3) * (two_over_D + ss * ce)).sum(-3))
    into.u.sub_(0.5 * (direct.sum(-1) + u * through.sum(-1)))
    into.w.add_(direct + w * through)
    into.delta.sub_(((H * two_over_D) @ delta.unsqueeze(-1)).squeeze(-1))
    into.origin.add_(0.5 * torch.where(nobody, H * c, 0.0).sum((-3, -2, -1)))


def _stream(everything: _Block, tilt: Tensor | None, f: Nonlinearity, chunk: int | None) -> tuple[Tensor, Tensor]:
    """J and log Σ_k exp(b_k/γ), block after block of samples, rows by rows."""
    samples = everything.u.shape[-1]
    if not everything.G.shape[0]:
        return torch.zeros_like(everything.G), torch.zeros_like(everything.G)
    sums: dict[int | None, tuple[Tensor, Tensor]] = {}
    for r, s in _blocks(everything.G, samples, chunk):
        delta, base = _pair_block(everything.cut(r, s), f)
        G = everything.G[r]
        J, log_sum = sums.get(r.start, (torch.zeros_like(G), torch.full_like(G, -torch.inf)))
        if tilt is None:
            sums[r.start] = J + delta.sum(-3) / samples, log_sum
            continue
        b = base / tilt[r, None, None, None]
        total = torch.logaddexp(log_sum, b.logsumexp(-3))
        J = J * (log_sum - total).exp() + ((b - total.unsqueeze(-3)).exp() * delta).sum(-3)
        sums[r.start] = J, total
    return torch.cat([J for J, _ in sums.values()]), torch.cat([log_sum for _, log_sum in sums.values()])


class _StreamedPairs(torch.autograd.Function):
    """The general case: any f, any tilt. The backward pass recomputes block by block what it needs.

    With weights p_k = softmax_k(b_k/γ): ∂J = Σ_k p_k ∂Δ_k + Σ_k p_k (Δ_k − J) ∂(b_k/γ), and the
    saved log-sum-exp gives every p_k back from its own block.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        everything, (tilt, ctx.f, ctx.chunk) = _Block(*inputs[:-3]), inputs[-3:]
        J, log_sum = _stream(everything, tilt, ctx.f, ctx.chunk)
        ctx.save_for_backward(*everything, tilt, J, log_sum)
        return J

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, tilt, J, log_sum = ctx.saved_tensors
        everything = _Block(*inputs)
        grads, samples = everything.zeros(), everything.u.shape[-1]
        g_tilt = None if tilt is None else torch.zeros_like(tilt)
        for r, s in _blocks(J, samples, ctx.chunk):
            block = everything.cut(r, s)
            with torch.enable_grad():
                leaves = [t.detach().requires_grad_() for t in block[:5]]
                delta, base = _pair_block(_Block._make([*leaves, block.sign, block.size]), ctx.f)
                outputs, upstream = [delta], [(grad[r] / samples).unsqueeze(-3).expand_as(delta)]
                if tilt is not None:
                    leaves.append(tilt[r].detach().requires_grad_())
                    outputs.append(base / leaves[-1][:, None, None, None])
                    p = (outputs[1].detach() - log_sum[r].unsqueeze(-3)).exp() * grad[r].unsqueeze(-3)
                    upstream = [p, p * (delta.detach() - J[r].unsqueeze(-3))]
            slopes = torch.autograd.grad(outputs, leaves, upstream, allow_unused=True)
            into = grads.cut(r, s)[:5] if g_tilt is None else (*grads.cut(r, s)[:5], g_tilt[r])
            for total, g in zip(into, slopes, strict=True):
                if g is not None:
                    total += g
        return (*grads[:5], None, None, g_tilt, None, None)
