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

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

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
            return _Blocks.apply(V, self.q, self.G, self.strength, self.price, self.bias, self.iterations), None
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
    def forward(ctx: Any, V: Tensor, q: Tensor, G: Tensor, *rest: Any) -> Tensor:
        ctx.iterations = rest[-1]
        ctx.save_for_backward(V, q, G, *rest[:-1])
        # Laid out as the projection after it reads: the heads of a token side by side.
        out = V.new_empty(q.shape[0], q.shape[2], q.shape[1], V.shape[-1]).transpose(1, 2)
        for block in _blocks(QueryGame(q, G, *rest), V):
            alphas, _ = block.updates(keep=False)
            out[block.entries, :, block.rows] = torch.bmm(alphas[-1], block.V).unflatten(0, block.shape)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        V, q, G, strength, price, bias = inputs = ctx.saved_tensors
        game = QueryGame(q, G, strength, price, bias, ctx.iterations)
        with full_precision(grad.device):  # backward() may run inside a caller's autocast
            if torch.is_grad_enabled():  # create_graph=True: second derivatives, by the plain path
                needed = ctx.needs_input_grad
                wanted = [x for x, need in zip(inputs, needed, strict=False) if need]
                slopes = iter(torch.autograd.grad(game.weights() @ V, wanted, grad, create_graph=True))
                return tuple(next(slopes) if need else None for need in needed)
            d_strength = None if strength is None else torch.zeros_like(strength)
            d_price = price.new_zeros(q.shape[0], *price.shape[1:])
            slope = _Gradient(torch.zeros_like(V), torch.empty_like(q), torch.zeros_like(G), d_strength, d_price)
            for block in _blocks(game, V):
                block.add_gradient(grad, slope)
        return (*slope[:4], d_price.sum_to_size(price.shape), None, None)


class _Gradient(NamedTuple):
    """Of what a block is made of; that of the price has a batch axis even where one price serves all."""

    V: Tensor
    q: Tensor
    G: Tensor
    strength: Tensor | None
    price: Tensor


def _blocks(game: QueryGame, V: Tensor) -> Iterator["_Block"]:
    """Blocks of batch entries and queries, each with about _BLOCK weights, or one query."""
    batch, heads, queries = game.q.shape[:3]
    if not queries:
        return
    row = heads * game.G.shape[-2]  # weights of one query
    entries = max(1, _BLOCK // max(1, row * queries))
    rows = queries if entries > 1 else max(1, _BLOCK // max(1, row))
    rows = -(-queries // -(-queries // rows))  # as many blocks, of one size
    for b in range(0, batch, entries):
        for i in range(0, queries, rows):
            yield _Block(game, V, slice(b, min(b + entries, batch)), slice(i, min(i + rows, queries)))


class _Block:
    """The tensors of one block, with batch entries and heads on one axis: [batch·heads, queries or tokens, …]."""

    def __init__(self, game: QueryGame, V: Tensor, entries: slice, rows: slice) -> None:
        self.entries, self.rows, self.iterations = entries, rows, game.iterations
        self.shape = (entries.stop - entries.start, game.q.shape[1])
        self.scale = game.q.shape[-1] ** -0.5
        self.q, self.G = game.q[entries, :, rows].flatten(0, 1), game.G[entries].flatten(0, 1)
        self.V = V[entries].flatten(0, 1)
        closed = self._cut(-game.price.unsqueeze(-1))  # −μ + bias, on those axes on which they differ
        closed = closed if game.bias is None else closed + self._cut(game.bias)
        self.closed = closed.expand(*self.shape, *closed.shape[2:]).flatten(0, 1)
        self.coupled: tuple[Tensor, Tensor] | None = None  # ω, and ω‖G_j‖²/(2√d)
        if game.strength is not None:
            omega = game.strength.repeat(self.shape[0])[:, None, None]
            self.coupled = omega, 0.5 * self.scale * omega * self.G.square().sum(-1).unsqueeze(-2)

    def _cut(self, x: Tensor) -> Tensor:
        """[batch or 1, heads or 1, queries or 1, …] of this block."""
        x = x[self.entries] if x.shape[0] > 1 else x
        return x[:, :, self.rows] if x.shape[2] > 1 else x

    def updates(self, *, keep: bool = True) -> tuple[list[Tensor], list[Tensor]]:
        """A_1 … A_T (or A_T alone), and A_1 G … A_{T−1} G."""
        alphas: list[Tensor] = [self._sigmoid(self.q, None)]
        products: list[Tensor] = []
        if self.coupled is not None:
            for _ in range(self.iterations - 1):
                AG = torch.bmm(alphas[-1], self.G)
                new = self._sigmoid(torch.addcmul(self.q, self.coupled[0], AG), alphas[-1])
                alphas, products = ([*alphas, new], [*products, AG]) if keep else ([new], [])
        return alphas, products

    def _sigmoid(self, x: Tensor, A: Tensor | None) -> Tensor:
        """σ(x Gᵀ/√d + own ∘ (1 − 2A) + closed), in place on the product."""
        constant = self.closed if self.coupled is None else self.closed + self.coupled[1]
        if constant.shape[1] > 1 and constant.shape[2] > 1:
            S = torch.bmm(x * self.scale, self.G.mT).add_(constant)
        else:
            S = torch.baddbmm(constant, x, self.G.mT, alpha=self.scale)
        if A is not None and self.coupled is not None:
            S.addcmul_(A, self.coupled[1], value=-2.0)
        return S.sigmoid_()

    def add_gradient(self, grad: Tensor, into: _Gradient) -> None:
        """Add what this block contributes to the gradients; the formulas are in `_Blocks`."""
        alphas, products = self.updates()
        dO = grad[self.entries, :, self.rows].flatten(0, 1)
        dA = torch.bmm(dO, self.V.mT)
        into.V[self.entries] += torch.bmm(alphas[-1].mT, dO).unflatten(0, self.shape)
        dq, dG = torch.zeros_like(self.q), torch.zeros_like(self.G)
        if self.coupled is None:
            self._add_update(torch.ops.aten.sigmoid_backward(dA, alphas.pop()), self.q, dq, dG, into)
        else:
            (omega, own), d_omega = self.coupled, into.strength
            assert d_omega is not None
            d_own = torch.zeros_like(own)  # Σ_i dS (1 − 2A)
            while alphas:
                dS = torch.ops.aten.sigmoid_backward(dA, alphas.pop())
                d_own += dS.sum(1, keepdim=True)
                AG = products.pop() if products else None  # the first update: x = q
                x = self.q if AG is None else torch.addcmul(self.q, omega, AG)
                dx = self._add_update(dS, x, dq, dG, into)
                if AG is not None:
                    A = alphas[-1]
                    d_own -= 2.0 * (dS * A).sum(1, keepdim=True)
                    d_omega += (dx * AG).sum((1, 2)).unflatten(0, self.shape).sum(0)
                    dR = dx.mul_(omega)
                    dG.baddbmm_(A.mT, dR)
                    dA = torch.bmm(dR, self.G.mT).addcmul_(dS, own, value=-2.0)
            norms = 0.5 * self.scale * self.G.square().sum(-1)
            d_omega += (d_own.squeeze(1) * norms).sum(-1).unflatten(0, self.shape).sum(0)
            dG += self.scale * omega * d_own.mT * self.G
        into.q[self.entries, :, self.rows] = dq.unflatten(0, self.shape)
        into.G[self.entries] += dG.unflatten(0, self.shape)

    def _add_update(self, dS: Tensor, x: Tensor, dq: Tensor, dG: Tensor, into: _Gradient) -> Tensor:
        """Add to dq, dG and the price's gradient what S = x Gᵀ/√d − μ passes on; returns dx."""
        d_price = -dS.sum(-1).unflatten(0, self.shape)
        if into.price.shape[2] > 1:
            into.price[self.entries, :, self.rows] += d_price
        else:  # one price serves all queries
            into.price[self.entries] += d_price.sum(-1, keepdim=True)
        dx = torch.bmm(dS, self.G).mul_(self.scale)
        dq += dx
        dG.baddbmm_(dS.mT, x, alpha=self.scale)
        return dx
