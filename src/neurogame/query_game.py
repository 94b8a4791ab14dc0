"""The game that a query plays with the tokens, and attention by it: closed forms, nothing is sampled.

Query i, tokens j with keys G_j, a coupling strength ω (any sign) and a price μ_i per token:

    v_i(C) = (‖q_i + ω Σ_{j∈C} G_j‖² − ‖q_i‖²)/ω = 2 q_i·Σ_{j∈C} G_j + ω ‖Σ_{j∈C} G_j‖²         (game)
    φ_ij   = 2 q_i·G_j + ω G_j·Σ_k G_k            = β_ij: v_i is 2-additive                          (values)
    J_jk   = 2 ω G_j·G_k  for j ≠ k, the same for every query                                      (couplings)
    P_i(C) ∝ exp(v_i(C)/(2√d) − μ_i |C|)                                                           (Gibbs)
    α_ij   ← σ((q_i + ω Σ_{k≠j} α_ik G_k)·G_j/√d + ω‖G_j‖²/(2√d) − μ_i),  α = 0 at first          (attention)

The last line is the mean field of the Gibbs distribution. In spins m = 2α − 1 it is the paper's equation
m_ij = tanh((φ_ij − μ'_i + ½ Σ_k J_jk m_ik)/γ) with γ = 4√d and μ' = 2√d μ: the sum over all keys inside φ and the −1
of the spins cancel, so that no number grows with the length of the text. ω > 0: tokens that agree help each other into
the coalition. ω < 0: they replace each other, and v_i asks for the tokens whose sum is nearest to q_i/|ω|. ω = 0 is
sigmoid self-attention. The couplings have rank d: an update is two products, as QKᵀ and αV are.

The functions here know neither masks by name nor parameters: `self_attention` has those.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import Function
from torch.nn import functional

from neurogame._common.types import Bool, Float, Tensor
from neurogame._common.validation import full_precision, transformed

_BLOCK = 1 << 20  # attention weights held at once on the path that keeps none: 4 MB, which caches hold


def shapley(
    q: Float[Tensor, "... queries dim"],
    G: Float[Tensor, "... tokens dim"],
    strength: float | Float[Tensor, "..."],
    players: Tensor | None = None,
) -> Float[Tensor, "... queries tokens"]:
    """φ_ij = 2 q_i·G_j + ω G_j·Σ_k G_k: Shapley value and Banzhaf index of token j in the game of query i.

    Args:
        q: queries.
        G: keys of the tokens.
        strength: ω, a number or a tensor that broadcasts to the leading axes.
        players: True where token k plays for query i, [..., queries, tokens]; None: all tokens. Others have value 0.
    """
    omega = _leading(strength)
    if players is None:
        return 2.0 * q @ G.mT + omega * (G.sum(-2, keepdim=True) @ G.mT)
    everyone = players.to(G.dtype) @ G  # Σ_k G_k over the players of each query
    return (2.0 * q @ G.mT + omega * (everyone @ G.mT)) * players


def couplings(
    G: Float[Tensor, "... tokens dim"], strength: float | Float[Tensor, "..."]
) -> Float[Tensor, "... tokens tokens"]:
    """J_jk = 2 ω G_j·G_k, zero diagonal: the pair interactions of every query's game."""
    J = 2.0 * _leading(strength) * (G @ G.mT)
    return J - torch.diag_embed(J.diagonal(dim1=-2, dim2=-1))


def _leading(strength: float | Tensor) -> float | Tensor:
    return strength[..., None, None] if isinstance(strength, Tensor) else strength


def mean_key(
    G: Float[Tensor, "batch heads tokens dim"], players: Bool[Tensor, "#batch #heads #queries tokens"] | None = None
) -> Float[Tensor, "batch heads #queries dim"]:
    """Ḡ_i = Σ_k G_k/n_i over the players of query i."""
    if players is None:
        return G.mean(-2, keepdim=True)
    count = players.sum(-1).clamp(min=1).to(G.dtype)
    # einsum expands no axis on which one mask serves all
    return torch.einsum("bhqn,bhnd->bhqd", players.to(G.dtype), G) / count.unsqueeze(-1)


def running_mean_key(
    G: Float[Tensor, "batch heads tokens dim"],
    queries: int,
    players: Bool[Tensor, "#batch #heads 1 tokens"] | None = None,
) -> Float[Tensor, "batch heads queries dim"]:
    """Ḡ_i over the players among tokens 0 … i, by running sums."""
    n = G.shape[-2]
    if players is None:
        count = torch.arange(1, n + 1, device=G.device, dtype=G.dtype).unsqueeze(-1)
    else:
        real = players.mT.to(G.dtype)
        G, count = G * real, real.cumsum(-2).clamp(min=1.0)
    mean = G.cumsum(-2) / count
    return mean if queries == n else mean[..., torch.arange(queries, device=G.device).clamp(max=n - 1), :]


@dataclass(frozen=True, eq=False)
class QueryGame:
    """The games of all queries of a call, and attention by them.

    Attributes:
        q: queries.
        G: keys.
        strength: ω per head; None: ω = 0.
        price: μ_i, in units of logits.
        bias: added to the logits; −inf: token j does not play for query i.
        iterations: updates of (attention), the first of which feels no couplings; one is exact where ω = 0.
    """

    q: Float[Tensor, "batch heads queries dim"]
    G: Float[Tensor, "batch heads tokens dim"]
    strength: Float[Tensor, "heads"] | None
    price: Float[Tensor, "#batch heads #queries"]
    bias: Float[Tensor, "#batch #heads #queries tokens"] | None = None
    iterations: int = 2

    def weights(self) -> Float[Tensor, "batch heads queries tokens"]:
        """α after `iterations` updates of (attention) from α = 0."""
        q, G, scale, price = self.q, self.G, self.q.shape[-1] ** -0.5, self.price.unsqueeze(-1)
        closed = -price if self.bias is None else self.bias - price
        if self.strength is None:
            return torch.sigmoid(scale * q @ G.mT + closed)
        omega = self.strength[:, None, None]
        own = 0.5 * scale * omega * G.square().sum(-1).unsqueeze(-2)  # ω‖G_j‖²/(2√d), one row for all queries
        alpha = torch.sigmoid(scale * q @ G.mT + own + closed)
        for _ in range(self.iterations - 1):
            moved = q + omega * (alpha @ G)  # the query, moved by what it attends to
            alpha = torch.sigmoid(scale * moved @ G.mT + (1.0 - 2.0 * alpha) * own + closed)
        return alpha

    def attend(
        self, V: Float[Tensor, "batch heads tokens width"], *, dropout: float = 0.0, need_weights: bool = False
    ) -> tuple[Float[Tensor, "batch heads queries width"], Float[Tensor, "batch heads queries tokens"] | None]:
        """o_i = Σ_j α_ij V_j, and α where it is needed; else, without dropout, nothing of the size of α is kept.

        The backward pass then computes α once more, block by block. Compiled graphs, `torch.func`, forward-mode and
        second derivatives go through `weights`, with the same numbers within rounding.

        Args:
            V: values.
            dropout: of α, before it weighs the values.
            need_weights: whether to return α, without dropout.
        """
        learned = self.bias is not None and self.bias.requires_grad
        if not (dropout or need_weights or learned or transformed()):
            return _Blocks.apply(self.q, self.G, V, self.strength, self.price, self.bias, self.iterations), None
        alpha = self.weights()
        out = (functional.dropout(alpha, dropout) if dropout else alpha) @ V
        return out, alpha if need_weights else None


class _Blocks(Function):
    """`QueryGame.attend` by blocks of a few batch entries and queries, and its gradient.

    With x_t = q + ω A_{t−1} G, A_t = σ(S_t) and o = A_T V, from the last update to the first:

        dA_T = dO Vᵀ          dV = A_Tᵀ dO
        dS_t = dA_t ∘ A_t ∘ (1 − A_t)
        dx_t = dS_t G/√d      dG += dS_tᵀ x_t/√d
        dA_{t−1} = ω dx_t Gᵀ − 2 dS_t ∘ own      dG += ω A_{t−1}ᵀ dx_t      dω += Σ dx_t ∘ A_{t−1}G + …
    """

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        G: Tensor,
        V: Tensor,
        strength: Tensor | None,
        price: Tensor,
        bias: Tensor | None,
        iterations: int,
    ) -> Tensor:
        ctx.save_for_backward(q, G, V, strength, price, bias)
        ctx.iterations = iterations
        # Laid out as the projection after it reads: the heads of a token side by side.
        out = V.new_empty(q.shape[0], q.shape[2], q.shape[1], V.shape[-1]).transpose(1, 2)
        for block in _blocks(q, G):
            part = _Block(block, q, G, V, strength, price, bias)
            part.store(out, torch.bmm(part.last(iterations), part.V))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        with full_precision(grad.device):  # backward() may run inside a caller's autocast
            if torch.is_grad_enabled():  # create_graph=True: second derivatives, by the plain path
                return _plain_gradient(ctx.saved_tensors, ctx.iterations, grad, ctx.needs_input_grad)
            return _Blocks._gradient(ctx.saved_tensors, ctx.iterations, grad)

    @staticmethod
    def _gradient(inputs: Any, iterations: int, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient, block by block, each of which computes its α once more."""
        q, G, V, strength, price, bias = inputs
        dq, dG, dV = torch.empty_like(q), torch.zeros_like(G), torch.zeros_like(V)
        dstrength = None if strength is None else torch.zeros_like(strength)
        dprice = price.new_zeros(q.shape[0], *price.shape[1:])  # summed over the batch where one price serves all
        for block in _blocks(q, G):
            _Block(block, q, G, V, strength, price, bias).gradient(iterations, grad, dq, dG, dV, dstrength, dprice)
        return dq, dG, dV, dstrength, dprice.sum_to_size(price.shape), None, None


def _plain_gradient(inputs: Any, iterations: int, grad: Tensor, needed: Any) -> tuple[Tensor | None, ...]:
    """The gradient as a differentiable function of inputs and `grad`."""
    q, G, V, strength, price, bias = inputs
    out = QueryGame(q, G, strength, price, bias, iterations).weights() @ V
    wanted = [i for i, one in enumerate(inputs) if needed[i] and one is not None]
    gradients: list[Tensor | None] = [None] * 7
    for i, one in zip(
        wanted, torch.autograd.grad(out, [inputs[i] for i in wanted], grad, create_graph=True), strict=True
    ):
        gradients[i] = one
    return tuple(gradients)


def _blocks(q: Tensor, G: Tensor) -> list[tuple[slice, slice]]:
    """(batch entries, queries) such that a block has about _BLOCK weights, or one query."""
    batch, heads, queries = q.shape[:3]
    if not queries:
        return []
    row = heads * G.shape[-2]  # weights of one query
    entries = max(1, _BLOCK // max(1, row * queries))
    rows = queries if entries > 1 else max(1, _BLOCK // max(1, row))
    rows = -(-queries // -(-queries // rows))  # as many blocks, of one size
    return [
        (slice(b, min(b + entries, batch)), slice(i, min(i + rows, queries)))
        for b in range(0, batch, entries)
        for i in range(0, queries, rows)
    ]


class _Block:
    """The tensors of one block, with batch entries and heads on one axis: [batch·heads, queries or tokens, …]."""

    def __init__(
        self,
        block: tuple[slice, slice],
        q: Tensor,
        G: Tensor,
        V: Tensor,
        strength: Tensor | None,
        price: Tensor,
        bias: Tensor | None,
    ) -> None:
        entries, rows = self.block = block
        self.shape = (entries.stop - entries.start, q.shape[1])
        self.scale = q.shape[-1] ** -0.5
        self.q, self.G, self.V = q[entries, :, rows].flatten(0, 1), G[entries].flatten(0, 1), V[entries].flatten(0, 1)
        self.omega = None if strength is None else strength.repeat(self.shape[0])[:, None, None]
        self.closed = self._cut(-price.unsqueeze(-1), bias)
        self.own: Tensor | None = None
        if self.omega is not None:
            self.own = 0.5 * self.scale * self.omega * self.G.square().sum(-1).unsqueeze(-2)

    def _cut(self, price: Tensor, bias: Tensor | None) -> Tensor:
        """−μ + bias of this block, as far as they differ: [batch·heads or 1, queries or 1, tokens or 1]."""
        entries, rows = self.block
        parts = []
        for part in (price, bias):
            if part is not None:
                part = part[entries] if part.shape[0] > 1 else part
                parts.append(part[:, :, rows] if part.shape[2] > 1 else part)
        total = sum(parts[1:], start=parts[0])
        return total.expand(*self.shape, *total.shape[2:]).flatten(0, 1)

    def last(self, iterations: int) -> Tensor:
        """A_T."""
        A, _ = self.updates(iterations, keep=False)
        return A[0]

    def updates(self, iterations: int, *, keep: bool = True) -> tuple[list[Tensor], list[Tensor]]:
        """A_1 … A_T (or A_T alone), and A_1 G … A_{T−1} G."""
        alphas: list[Tensor] = [self._sigmoid(self.q, None)]
        products: list[Tensor] = []
        for _ in range(iterations - 1 if self.omega is not None else 0):
            AG = torch.bmm(alphas[-1], self.G)
            new = self._sigmoid(torch.addcmul(self.q, self.omega, AG), alphas[-1])  # type: ignore[arg-type]
            alphas, products = ([*alphas, new], [*products, AG]) if keep else ([new], [])
        return alphas, products

    def _sigmoid(self, x: Tensor, A: Tensor | None) -> Tensor:
        """σ(x Gᵀ/√d + own ∘ (1 − 2A) + closed), in place on the product."""
        constant = self.closed if self.own is None else self.closed + self.own
        if constant.shape[1] > 1 and constant.shape[2] > 1:
            S = torch.bmm(x * self.scale, self.G.mT).add_(constant)
        else:
            S = torch.baddbmm(constant, x, self.G.mT, alpha=self.scale)
        if A is not None:
            S.addcmul_(A, self.own, value=-2.0)  # type: ignore[arg-type]
        return S.sigmoid_()

    def store(self, out: Tensor, values: Tensor) -> None:
        """Put [batch·heads, queries, width] where it belongs in [batch, heads, queries, width]."""
        entries, rows = self.block
        out[entries, :, rows] = values.unflatten(0, self.shape)

    def gradient(
        self,
        iterations: int,
        grad: Tensor,
        dq: Tensor,
        dG: Tensor,
        dV: Tensor,
        dstrength: Tensor | None,
        dprice: Tensor,
    ) -> None:
        """Add what this block contributes to the gradients; the formulas are in `_Blocks`."""
        entries, rows = self.block
        updates, products = self.updates(iterations)
        dO = grad[entries, :, rows].flatten(0, 1)
        dA = torch.bmm(dO, self.V.mT)
        dV[entries] += torch.bmm(updates[-1].mT, dO).unflatten(0, self.shape)
        total_q, total_G = torch.zeros_like(self.q), torch.zeros_like(self.G)
        own_sum = None if self.own is None else torch.zeros_like(self.own)  # Σ_i dS (1 − 2A): the gradient of `own`
        while updates:
            dS = torch.ops.aten.sigmoid_backward(dA, updates.pop())
            self._add_price(dprice, dS)
            dx = torch.bmm(dS, self.G).mul_(self.scale)
            total_q += dx
            if own_sum is not None:
                own_sum += dS.sum(1, keepdim=True)
            if not updates:  # the first update: x = q
                total_G.baddbmm_(dS.mT, self.q, alpha=self.scale)
                break
            assert self.omega is not None
            assert own_sum is not None
            assert dstrength is not None
            A, AG = updates[-1], products.pop()
            total_G.baddbmm_(dS.mT, torch.addcmul(self.q, self.omega, AG), alpha=self.scale)
            own_sum -= 2.0 * (dS * A).sum(1, keepdim=True)
            dstrength += (dx * AG).sum((1, 2)).unflatten(0, self.shape).sum(0)
            dR = dx.mul_(self.omega)
            total_G.baddbmm_(A.mT, dR)
            dA = torch.bmm(dR, self.G.mT).addcmul_(dS, self.own, value=-2.0)  # type: ignore[arg-type]
        if own_sum is not None:
            assert self.omega is not None
            assert dstrength is not None
            norms = 0.5 * self.scale * self.G.square().sum(-1)
            dstrength += (own_sum.squeeze(1) * norms).sum(-1).unflatten(0, self.shape).sum(0)
            total_G += self.scale * self.omega * own_sum.mT * self.G
        dq[entries, :, rows] = total_q.unflatten(0, self.shape)
        dG[entries] += total_G.unflatten(0, self.shape)

    def _add_price(self, dprice: Tensor, dS: Tensor) -> None:
        """−Σ_j dS_ij, summed over the queries where one price serves all of them."""
        entries, rows = self.block
        total = -dS.sum(-1).unflatten(0, self.shape)
        if dprice.shape[2] > 1:
            dprice[entries, :, rows] += total
        else:
            dprice[entries] += total.sum(-1, keepdim=True)
