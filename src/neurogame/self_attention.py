"""NeuroGameSelfAttention: every query plays a game with the tokens; it stands where `nn.MultiheadAttention` does.

    q, G, V = W_q x, W_k y, W_v z per head        v_i(C) = 2 q_i·Σ_{j∈C} G_j + ω ‖Σ_{j∈C} G_j‖²
    α_ij = P_i(j ∈ C), P_i(C) ∝ exp(v_i(C)/(2√d) − (log n_i + μ)|C|), by mean field       o_i = Σ_j α_ij V_j

`query_game` has the mathematics, `players` the masks. This file has the parameters (projections, ω and μ of each head)
and the record of a head's games. The layer returns one vector per token; `attention` has the one that pools.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear

from neurogame import ising, query_game
from neurogame._common.types import Bool, Float, Tensor
from neurogame._common.validation import check_count, full_precision
from neurogame.ising import SpinState
from neurogame.players import CLOSED, attention_bias, count_players, nested_like, pad_nested, player_mask
from neurogame.query_game import QueryGame

CONVERGED = 0.1  # residual in spins, 0.05 in α


@dataclass(frozen=True)
class QueryGames:
    """The games of all queries in one forward pass, and the Ising systems they are; padded tokens have 0 everywhere.

    m_ij = tanh((field_ij + Σ_k coupling_jk m_ik)/γ) with field = φ + 2√d·(bias − price), coupling = J/2 and γ = 4√d,
    over the players of query i. J is the same for every query: tokens that are closed to some queries only are in it.
    """

    alpha: Float[Tensor, "batch heads queries tokens"]  # what the layer used
    shapley: Float[Tensor, "batch heads queries tokens"]  # φ_ij, the Banzhaf index too
    interactions: Float[Tensor, "batch heads #queries tokens tokens"] | None  # J_jk; None where couplings are off
    price: Float[Tensor, "#batch heads #queries"]  # log n_i + μ
    gamma: float
    players: Bool[Tensor, "#batch #heads #queries tokens"] | None  # None: all tokens
    residual: Float[Tensor, "batch heads queries"]  # max_j |tanh(h_ij/γ) − m_ij| at `alpha`
    bias: Float[Tensor, "#batch #heads #queries tokens"] | None = None  # from the masks; 0 where a token is closed

    @cached_property
    def field(self) -> Float[Tensor, "batch heads queries tokens"]:
        """φ_ij + 2√d·(bias_ij − price_i), 0 for those who do not play."""
        added = -self.price.unsqueeze(-1) if self.bias is None else self.bias - self.price.unsqueeze(-1)
        field = self.shapley + 0.5 * self.gamma * added
        return field if self.players is None else field * self.players

    @property
    def converged(self) -> Bool[Tensor, "batch heads queries"]:
        """Whether the updates of the layer came within 0.1 of solving a query's equations; else see `solve`."""
        return self.residual < CONVERGED

    @property
    def coupling(self) -> Float[Tensor, "batch heads #queries tokens tokens"] | None:
        """J/2, as the spins of `field` feel it."""
        return None if self.interactions is None else 0.5 * self.interactions

    def solve(self, max_iter: int = 200, tol: float = 1e-5, damping: float = 1.0, **options: Any) -> SpinState:
        """The mean-field solution of every query's system by `ising.solve`, with its residual and ρ(J)/γ.

        Where ω is well below 0 and the inputs are large, undamped updates go back and forth (the layer's, too: its
        `residual` is then near 2); a small damping (0.02, with `max_iter=4000`) finds the solution.

        Args:
            max_iter: updates at most.
            tol: residual below which a query has converged.
            damping: in (0, 1]; 1 is undamped.
            options: further options of `ising.solve`.

        Returns:
            Spins of every query and token.
        """
        shape = self.field.shape
        J = None if self.coupling is None else self.coupling.expand(*shape, shape[-1])
        mask = None if self.players is None else self.players.expand(shape)
        return ising.solve(
            self.field, J, self.gamma, max_iter=max_iter, tol=tol, damping=damping, mask=mask, validate=False, **options
        )


class NeuroGameSelfAttention(nn.Module):
    """o_i = Σ_j α_ij V_j, α_ij ← σ((q_i + ω Σ_{k≠j} α_ik G_k)·G_j/√d + ω‖G_j‖²/(2√d) − log n_i − μ), per head.

    Called as `nn.MultiheadAttention` is, with the same masks, shapes and names of parameters; returns
    (output, weights). Three attentions in one:

    - `couplings=True`: the game of each query and its couplings. Starts at ω = 0, learned per head, with either sign.
    - `couplings=False`: the Shapley values of the game alone, over coalitions counted by their mean (ω/n_i in place of
      ω): α_ij = σ((q_i + ½ω Ḡ)·G_j/√d − log n_i − μ), Ḡ the mean key of the players.
    - `couplings=False, contribution=False`: sigmoid self-attention (Ramapuram et al., 2024).

    Args:
        embed_dim: width of queries and outputs; divisible by `num_heads`.
        num_heads: heads, each with its own part of the projections, ω and μ.
        dropout: of weights, in training.
        bias: whether the projections have biases.
        add_bias_kv: False; there for torch's order of arguments.
        add_zero_attn: likewise.
        kdim: width of keys, if it is not `embed_dim`.
        vdim: width of values, if it is not `embed_dim`.
        batch_first: [batch, tokens, dim] instead of [tokens, batch, dim].
        device: of the parameters.
        dtype: of the parameters; half precision plays in float32.
        couplings: whether the tokens act on each other.
        iterations: updates of the mean field from the empty coalition; the first feels no couplings.
        contribution: whether ω is there at all; False needs `couplings=False`.
        normalise: divide o_i by Σ_j α_ij.
        strength: ω of every head at the start.
        background: μ of every head at the start; the price of a token is log n_i + μ, n_i the players of query i.

    >>> layer = NeuroGameSelfAttention(64, 4, batch_first=True)
    >>> output, alpha = layer(x, x, x, key_padding_mask=ids == 0)

    How this differs from softmax attention: α_ij is the probability that token j is in the coalition of query i, so the
    weights of a query do not sum to one, and a query whose mask closes every token gets 0, not NaN.
    """

    in_proj_weight: nn.Parameter | None
    q_proj_weight: nn.Parameter | None
    k_proj_weight: nn.Parameter | None
    v_proj_weight: nn.Parameter | None
    in_proj_bias: nn.Parameter | None
    strength: nn.Parameter | None

    _qkv_same_embed_dim = False  # keeps the fused softmax of nn.TransformerEncoderLayer away: it would not call us

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        couplings: bool = True,
        iterations: int = 2,
        contribution: bool = True,
        normalise: bool = False,
        strength: float = 0.0,
        background: float = 0.0,
    ) -> None:
        super().__init__()
        if add_bias_kv or add_zero_attn:
            raise ValueError("add_bias_kv and add_zero_attn have no counterpart in a game of the tokens")
        for name, value in (("embed_dim", embed_dim), ("num_heads", num_heads), ("iterations", iterations)):
            check_count(name, value)
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim = {embed_dim} must be divisible by num_heads = {num_heads}")
        if couplings and not contribution:
            raise ValueError("contribution=False takes ω out of the game, and the couplings with it: couplings=False")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be in [0, 1), got {dropout!r}")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.couplings, self.iterations, self.contribution = couplings, iterations, contribution
        self.normalise, self.dropout, self.batch_first = normalise, dropout, batch_first
        self.initial = (float(strength), float(background))
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        widths = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        packed = self.kdim == self.vdim == embed_dim
        for name, width in widths.items():  # as nn.MultiheadAttention names them
            self.register_parameter(name, None if packed else nn.Parameter(torch.empty(embed_dim, width, **like)))
        whole = nn.Parameter(torch.empty(3 * embed_dim, embed_dim, **like)) if packed else None
        self.register_parameter("in_proj_weight", whole)
        self.register_parameter("in_proj_bias", nn.Parameter(torch.empty(3 * embed_dim, **like)) if bias else None)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias, **like)
        self.register_parameter("strength", nn.Parameter(torch.empty(num_heads, **like)) if contribution else None)
        self.background = nn.Parameter(torch.empty(num_heads, **like))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Projections as in nn.MultiheadAttention; ω and μ as the constructor says."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                nn.init.xavier_uniform_(getattr(self, name))
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                nn.init.zeros_(bias)
        if self.strength is not None:
            nn.init.constant_(self.strength, self.initial[0])
        nn.init.constant_(self.background, self.initial[1])

    @classmethod
    def from_multihead(cls, attention: nn.MultiheadAttention, **options: Any) -> "NeuroGameSelfAttention":
        """The same projections (copied), another attention between them; to be trained further."""
        weight = attention.out_proj.weight
        layer = cls(
            attention.embed_dim,
            attention.num_heads,
            dropout=attention.dropout,
            bias=attention.in_proj_bias is not None,
            add_bias_kv=attention.bias_k is not None,
            add_zero_attn=attention.add_zero_attn,
            kdim=attention.kdim,
            vdim=attention.vdim,
            batch_first=attention.batch_first,
            device=weight.device,
            dtype=weight.dtype,
            **options,
        )
        layer.load_state_dict(attention.state_dict(), strict=False)
        return layer.train(attention.training)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """One output per query, and α.

        Args:
            query: [batch, queries, embed_dim] with `batch_first`, else [queries, batch, embed_dim]; or without batch.
                A nested tensor gives a nested output, and weights that are 0 at padding.
            key: [batch, tokens, kdim], laid out as the query is.
            value: [batch, tokens, vdim].
            key_padding_mask: [batch, tokens], True where a token is padding; or numbers added to the logits.
            need_weights: return α; without them nothing of the size queries × tokens is kept.
            attn_mask: [queries, tokens] or [batch·heads, queries, tokens], True where token j is closed to query i; or
                numbers added to the logits.
            average_attn_weights: α as the mean over heads.
            is_causal: query i plays with tokens 0 … i. Needs no mask, and goes together with one.

        Returns:
            The output, laid out as the query is, and α: [batch, queries, tokens], or [batch, heads, queries, tokens] if
            it is not averaged, or None.
        """
        if query.is_nested or key.is_nested or value.is_nested:
            options = (key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
            return self._ragged(query, key, value, *options)
        game, V, dtype = self._play(query, key, value, key_padding_mask, attn_mask, is_causal)
        with full_precision(query.device):
            V = torch.cat([V, torch.ones_like(V[..., :1])], dim=-1) if self.normalise else V
            out, alpha = game.attend(V, dropout=self.dropout if self.training else 0.0, need_weights=need_weights)
            if self.normalise:  # Σ_j α_ij came along as one more column
                out = out[..., :-1] / out[..., -1:].clamp(min=torch.finfo(out.dtype).eps)
        output = self.out_proj(out.transpose(1, 2).flatten(2).to(dtype))
        if query.dim() == 2:
            output = output.squeeze(0)
        elif not self.batch_first:
            output = output.transpose(0, 1)
        if alpha is None:
            return output, None
        alpha = (alpha.mean(1) if average_attn_weights else alpha).to(output.dtype)
        return output, alpha.squeeze(0) if query.dim() == 2 else alpha

    def _ragged(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, *options: Any
    ) -> tuple[Tensor, Tensor | None]:
        """The call with nested tensors, as nn.TransformerEncoder makes it in evaluation: padded, played, cut again."""
        if not self.batch_first:
            raise ValueError("nested tensors are [batch, tokens, dim]: they need batch_first=True")
        if key_padding_mask is not None and key.is_nested:
            raise ValueError("nested keys have no padding: key_padding_mask must be None")
        whole, padding = pad_nested(query)
        tokens, padding = (whole, padding) if key is query else pad_nested(key)
        values = tokens if value is key else pad_nested(value)[0]
        padding = key_padding_mask if padding is None else padding
        output, alpha = self.forward(whole, tokens, values, padding, *options)  # hooks have run
        return (nested_like(output, query) if query.is_nested else output), alpha

    @torch.no_grad()
    def games(
        self,
        query: Tensor,
        key: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> QueryGames:
        """φ, J, α and the residual of every query of a batch, as `forward` plays them; without gradients.

        Args:
            query: as of `forward`, like all that follow.
            key: None: the query.
            key_padding_mask: True where a token is padding.
            attn_mask: True where a token is closed to a query.
            is_causal: query i plays with tokens 0 … i.

        Returns:
            The games, and the Ising systems they are.

        Example:
            >>> layer.games(x).solve().converged.all()  # doctest: +SKIP
        """
        key = query if key is None else key
        value = key if self.vdim == self.kdim else key.new_zeros(*key.shape[:-1], self.vdim)  # values do not play
        game, *_ = self._play(query, key, value, key_padding_mask, attn_mask, is_causal)
        G, strength, players = game.G, game.strength, player_mask(game.bias)
        alpha, one_more = game.weights(), replace(game, iterations=self.iterations + 1).weights()
        J = None if strength is None else query_game.couplings(G, strength)
        if J is not None and players is not None:  # 0 at tokens that play for no query
            real = players.any(2).to(J.dtype)
            J = J * real.unsqueeze(-1) * real.unsqueeze(-2)
        return QueryGames(
            alpha,
            query_game.shapley(game.q, G, 0.0 if strength is None else strength, players),
            None if J is None else J.unsqueeze(2),
            game.price,
            4.0 * self.head_dim**0.5,
            players,
            2.0 * (one_more - alpha).abs().amax(-1),
            None if game.bias is None else game.bias.masked_fill(game.bias <= CLOSED, 0.0),
        )

    def _play(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
        is_causal: bool,
    ) -> tuple[QueryGame, Tensor, torch.dtype]:
        """The games of a call, the values they weigh, and the dtype of the projections.

        Where couplings are off, ½ω Ḡ is in the queries already.
        """
        self._check(query, key, value)
        together = key is query and value is key
        if query.dim() == 2:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        q, G, V = self._project(query, key, value, together)
        dtype = q.dtype
        shape = (q.shape[0], self.num_heads, query.shape[1], key.shape[1])
        with full_precision(query.device):
            if dtype.itemsize < 4:
                q, G, V = q.float(), G.float(), V.float()
            bias = attention_bias(shape, key_padding_mask, attn_mask, is_causal, q)
            price = count_players(bias, shape[-1], q).log() + self.background.to(q.dtype)[:, None]
            strength = None if self.strength is None else self.strength.to(q.dtype)
            if strength is not None and not self.couplings:
                if is_causal and attn_mask is None:  # running means: no matrix of queries × tokens
                    padding = attention_bias(shape, key_padding_mask, None, is_causal=False, like=q)
                    mean = query_game.running_mean_key(G, shape[2], player_mask(padding))
                else:
                    mean = query_game.mean_key(G, player_mask(bias))
                q, strength = q + 0.5 * strength[:, None, None] * mean, None
        return QueryGame(q, G, strength, price, bias, self.iterations), V, dtype

    def _project(self, query: Tensor, key: Tensor, value: Tensor, together: bool) -> list[Tensor]:
        """q, G, V with heads: [batch, heads, tokens, head_dim]."""
        if together and self.in_proj_weight is not None:
            projected: Sequence[Tensor] = linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        else:
            own = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            parts: Sequence[Any] = own if self.in_proj_weight is None else self.in_proj_weight.chunk(3)
            biases: Sequence[Any] = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
            projected = [linear(*of) for of in zip((query, key, value), parts, biases, strict=True)]
        return [x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2) for x in projected]

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        """Ranks, widths and lengths fit."""
        batch = 0 if self.batch_first else 1
        layout = "[batch, tokens, dim]" if self.batch_first else "[tokens, batch, dim]; batch_first=True is the other"
        widths = (("query", query, self.embed_dim), ("key", key, self.kdim), ("value", value, self.vdim))
        for name, x, width in widths:
            if x.dim() != query.dim() or x.dim() not in (2, 3) or x.shape[-1] != width:
                raise ValueError(f"{name} must be {layout} with dim = {width}, or without batch; got {list(x.shape)}")
        if key.shape[:-1] != value.shape[:-1]:
            raise ValueError(f"key {list(key.shape)} and value {list(value.shape)} must have the same tokens")
        if query.dim() == 3 and query.shape[batch] != key.shape[batch]:
            raise ValueError(
                f"query has {query.shape[batch]} and key {key.shape[batch]} batch entries; tensors are {layout}"
            )

    def extra_repr(self) -> str:
        """What `print(module)` shows."""
        kind = f"iterations={self.iterations}" if self.couplings else f"contribution={self.contribution}"
        return f"{self.embed_dim}, {self.num_heads}, couplings={self.couplings}, {kind}, batch_first={self.batch_first}"
