"""The game readout: the norm games of many small heads, read linearly into logits, and what that makes of each word.

    u_i      = gelu(W_t x_i + W_c x_0)                       x_i: states of token i in several layers, standardised
    u        ← u + attention(u),  u ← u + mlp(u)             `Mixing`: each token looks at the others, `mixing` times
    V_hi     = W_h u_i,   a_h = a⁰_h + A_h u_0               W_h, A_h: small; token 0 is [CLS] in BERT-like encoders
    v_h(C)   = ‖a_h + Σ_{i∈C} V_hi‖ − ‖a_h‖                  the paper's characteristic function, anchored
    logits(C) = b + R v(C)                                   R: labels × heads;  b: the logits of the empty text

The readout is linear, so every value adds up over heads: φ^c = Σ_h R_ch φ_h, and likewise β and J. With a_h long beside
Σ V_hi a head is linear in ΣV; that is where it starts. Special tokens are in every text, so they are no players: what
they say is in the anchor. V is made token by token and summed over the pieces of a word, so that logits do not depend
on what counts as a word.

Mixing is there for the interactions. Whether two words answer each other is a question about both; a map of one token's
states can only hint at it. It takes texts to learn: with few of them it gains nothing (docs/grounding.md).

`NormGames` owns the parameters of the games, `GameTerms` is one forward pass of them, `label_values` decomposes logits.
Nothing here knows of encoders, tokenizers or training: states come in, games come out.

How this differs from the paper: there α weighs V and a feed-forward network classifies the sum. Here the games
themselves are classified, so their values are about the decision. `spins = "gate"` puts α back: V_hi is weighted by the
α_hi that the layer of the paper finds for V.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch import nn

from neurogame import exact, ising, kernels, sampling
from neurogame._common.types import Bool, Float, Int, Shaped, Tensor
from neurogame._common.validation import check_choice, check_count, full_precision
from neurogame.game import safe_sqrt
from neurogame.interactions import pair_couplings
from neurogame.marginals import toggle
from neurogame.values import Mean, estimate, l1_normalise

Spins = Literal["none", "gate"]
LAWS: tuple[sampling.Law, ...] = ("shapley", "banzhaf")
EXACT = 12  # players up to which all 2ⁿ coalitions are evaluated
SAMPLES = 128  # coalitions per law beyond that
_ANCHOR = 2.0  # ‖a⁰_h‖ at the start, about
_BLOCK = 1 << 18  # numbers at once where all coalitions are evaluated
_PARTS = 4  # partial sums over heads in the compiled loops, see labels.c
_STEP = 0.2  # standardised states times this: a step of Adam moves u by as much as it moves the other maps


@dataclass(frozen=True, eq=False)
class GameTerms:
    """The games of one forward pass: v_h(C) = ‖a_h + Σ_{i∈C} V_hi‖ − ‖a_h‖ for every row and head."""

    V: Float[Tensor, "batch heads players dim"]  # 0 at padding and special tokens
    anchor: Float[Tensor, "batch heads dim"]
    alpha: Float[Tensor, "batch heads players"] | None = None  # what V was weighted by, where spins gate it

    def whole(self) -> Float[Tensor, "batch heads"]:
        """v_h(N)."""
        a = self.anchor
        return _norm(a + self.V.sum(-2)) - _norm(a)

    def of(self, members: Shaped[Tensor, "batch coalitions players"]) -> Float[Tensor, "batch coalitions heads"]:
        """v_h(C) for each row of `members`: bool or 0/1, 1 where a player is in C."""
        S = torch.einsum("bcp,bhpd->bchd", members.to(self.V.dtype), self.V)
        a = self.anchor.unsqueeze(1)
        return _norm(a + S) - _norm(a)

    def rows(self, rows: Int[Tensor, "rows"]) -> "GameTerms":
        """The games of some texts of the batch."""
        return GameTerms(self.V[rows], self.anchor[rows], None if self.alpha is None else self.alpha[rows])


def _norm(S: Float[Tensor, "... dim"]) -> Float[Tensor, "..."]:
    """‖S‖ with a gradient of 0 at 0."""
    return safe_sqrt(S.square().sum(-1))


@dataclass(frozen=True, eq=False)
class LabelValues:
    """What each player adds to each logit: Σ_i shapley_ci = logit_c − base_c to rounding."""

    shapley: Float[Tensor, "labels players"]
    banzhaf: Float[Tensor, "labels players"]
    coupling: Float[Tensor, "labels players players"]  # Banzhaf interactions, zero diagonal
    shapley_se: Float[Tensor, "labels players"]  # 0 where all coalitions were evaluated
    banzhaf_se: Float[Tensor, "labels players"]
    exact: bool
    samples: int  # coalitions evaluated; per law where they were sampled


def label_values(
    V: Float[Tensor, "heads players dim"],
    anchor: Float[Tensor, "heads dim"],
    R: Float[Tensor, "labels heads"],
    *,
    samples: int = SAMPLES,
    most: int = EXACT,
    generator: sampling.Randomness = None,
) -> LabelValues:
    """φ^c = Σ_h R_ch φ_h, β^c and J^c of one text, from one estimate of all heads.

    Up to `most` players every coalition is evaluated. Beyond that coalitions are sampled, the same ones for all heads,
    so that what heads cancel in a logit is cancelled in its error too; the shares are then balanced to add up.

    Args:
        V: what each player brings to each head; float64 is kept, anything else is computed in float32.
        anchor: a_h.
        R: the readout.
        samples: coalitions per law where they are sampled.
        most: players up to which nothing is sampled.
        generator: where the draws come from; None: a fixed seed.

    Returns:
        Values in float64; exact where nothing was sampled.

    Raises:
        ValueError: fewer than 4 samples.

    Example:
        >>> values = label_values(torch.randn(4, 5, 3), torch.randn(4, 3), torch.randn(2, 4))
        >>> values.shapley.shape, values.exact
        (torch.Size([2, 5]), True)
    """
    check_count("samples", samples, least=4)
    V = V if V.dtype == torch.float64 else V.float()
    anchor, R = anchor.to(V), R.to(V)
    n = V.shape[1]
    if n <= most:
        nothing = torch.zeros(len(R), n, dtype=torch.float64, device=V.device)
        none = (nothing, nothing, nothing.new_zeros(len(R), n, n))
        numbers = exact.all_values(_value_table(V, anchor, R)) if n else none
        return LabelValues(*numbers, nothing, nothing, exact=True, samples=1 << n)
    return _sample_values(V.contiguous(), anchor, R, samples + samples % 2, generator)


def _sample_values(
    V: Float[Tensor, "heads players dim"],
    anchor: Float[Tensor, "heads dim"],
    R: Float[Tensor, "labels heads"],
    samples: int,
    generator: sampling.Randomness,
) -> LabelValues:
    """`values.estimate` with couplings "pairs", of which only the sums over heads are kept."""
    source, n = sampling.source_of(generator, V.device), V.shape[1]
    laws = [sampling.draw(sampling.paired, source, V.device, law, 1, samples, n)[0] for law in LAWS]
    with full_precision(V.device):
        *deltas, J = _sums_over_heads(V, anchor, R, laws)
        phi, beta = (Mean.of(delta, None, is_paired=True) for delta in deltas)
        total = R @ (_norm(anchor + V.sum(1)) - _norm(anchor))
        size = (R.abs().unsqueeze(-1) * V.norm(dim=-1)).sum(1)  # (labels, players)
        phi = balance(phi, total, size)
    phi_value, beta_value, J, phi_se, beta_se = (x.double() for x in (phi.value, beta.value, J, phi.se, beta.se))
    return LabelValues(phi_value, beta_value, J, phi_se, beta_se, exact=False, samples=samples)


def _sums_over_heads(
    V: Tensor, anchor: Tensor, R: Tensor, laws: list[Bool[Tensor, "samples players"]]
) -> tuple[Tensor, Tensor, Tensor]:
    """R times the contributions in draws of Shapley's and of Banzhaf's law, and R times the couplings of the latter.

    [labels, samples, players] twice, and [labels, players, players]. The compiled loops keep nothing of single heads.
    """
    if kernels.needs_gradient(V, anchor, R) or not kernels.available(V, anchor, R):
        alone, both = toggle(V, laws[0], None, anchor, lean=True), toggle(V, laws[1], None, anchor)
        of_heads = (alone.delta, both.delta, pair_couplings(V, both, "identity", None))
        phi, beta, J = ((R @ x.flatten(1)).unflatten(-1, x.shape[1:]) for x in of_heads)
        return phi, beta, J
    (heads, n, dim), labels, samples = V.shape, len(R), len(laws[0])
    phi, beta = (V.new_zeros(_PARTS, labels, n, samples) for _ in LAWS)
    J, members = V.new_zeros(_PARTS, labels, n, n), torch.stack(laws)
    counts = (_PARTS, heads, labels, samples, n, dim, torch.get_num_threads())
    kernels.call("neurogame_labels", *counts, V, anchor.contiguous(), R.contiguous(), members, phi, beta, J)
    return phi.sum(0).mT, beta.sum(0).mT, J.sum(0)


def _value_table(
    V: Float[Tensor, "heads players dim"], anchor: Float[Tensor, "heads dim"], R: Float[Tensor, "labels heads"]
) -> Float[Tensor, "labels coalitions"]:
    """R v(C) for all 2ⁿ coalitions, float64: sums over the first and over the other half of the players, added up."""
    half, n = V.shape[1] // 2, V.shape[1]
    low, high = (exact.all_coalitions(size, V.device).to(V) for size in (half, n - half))
    first = (low @ V[:, :half] + anchor.unsqueeze(1)).mT  # (heads, dim, 2^half)
    second = (high @ V[:, half:]).mT  # (heads, dim, 2^(n − half)), whose players are the high bits
    table = R.new_zeros(len(R), 1 << n)
    step = max(1, _BLOCK // (V.shape[2] << n))  # heads that fit the cache
    for heads in (slice(h, h + step) for h in range(0, len(V), step)):
        S = second[heads].unsqueeze(-1) + first[heads].unsqueeze(-2)  # (heads, dim, 2^(n − half), 2^half)
        table += R[:, heads] @ _norm(S.movedim(1, -1)).flatten(1)
    return (table - (R @ _norm(anchor)).unsqueeze(-1)).double()


def balance(phi: Mean, total: Float[Tensor, "..."], size: Float[Tensor, "... players"]) -> Mean:
    """φ_i − b_i (Σφ − total), b_i = size_i/Σ size: the sum of all shares is known, so their common error can go.

    It stays unbiased and linear in the game, and 0 for a player of size 0; the shares become efficient. `size` ≥ 0 says
    how much of the common error each player takes.
    """
    excess = phi.delta.sum(-1, keepdim=True) - total[..., None, None]  # (..., samples, 1): of mean zero
    b = size / size.sum(-1, keepdim=True).clamp(min=torch.finfo(size.dtype).tiny)
    return Mean.of(phi.delta - b.unsqueeze(-2) * excess, None, is_paired=phi.is_paired)


@dataclass(frozen=True, eq=False)
class ReadoutOutput:
    """The record of a game readout: the games of the heads, and what their values make of the labels."""

    output: Float[Tensor, "batch heads"]  # v_h(N): what R reads
    terms: GameTerms
    weight: Float[Tensor, "labels heads"]  # R
    base: Float[Tensor, "labels"]  # b
    real: Bool[Tensor, "batch tokens"]  # the players

    @property
    def alpha(self) -> Float[Tensor, "batch heads tokens"] | None:
        """What V was weighted by, where spins gate it."""
        return self.terms.alpha

    @cached_property
    def labels(self) -> tuple[LabelValues, ...]:
        """`label_values` of each row over its players; computed when asked for."""
        rows = zip(self.terms.V, self.terms.anchor, self.real, strict=True)
        with torch.no_grad():
            return tuple(label_values(V[:, at], a, self.weight) for V, a, at in rows)

    @cached_property
    def label_shapley(self) -> Float[Tensor, "batch labels tokens"]:
        """φ^c_i, 0 where a token is no player; Σ_i φ^c_i = logit_c − base_c."""
        return self._over_tokens("shapley")

    @cached_property
    def label_banzhaf(self) -> Float[Tensor, "batch labels tokens"]:
        """β^c_i."""
        return self._over_tokens("banzhaf")

    @cached_property
    def label_coupling(self) -> Float[Tensor, "batch labels tokens tokens"]:
        """J^c_ij."""
        return self._over_tokens("coupling")

    def _over_tokens(self, name: str) -> Tensor:
        """A field of all `labels`, with an entry for every token (or pair of tokens) instead of every player."""
        rows = []
        for values, at in zip(self.labels, self.real, strict=True):
            x = getattr(values, name)
            where = at if x.dim() == 2 else at.unsqueeze(-1) & at
            rows.append(x.new_zeros(len(x), *where.shape).masked_scatter(where, x))
        return torch.stack(rows)


class Mixing(nn.Module):
    """u ← u + W_o attention(norm u), then u ← u + W_2 gelu(W_1 norm u): a transformer layer; at first it adds little.

    Args:
        width: of u; a multiple of 64 gives heads of 64 numbers, any other width one head.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // 64 if width % 64 == 0 else 1
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Both branches add little at first."""
        self.first.reset_parameters()
        self.second.reset_parameters()
        for linear, std in ((self.query_key_value, 1.0), (self.up, 1.0), (self.out, 0.1), (self.down, 0.1)):
            nn.init.normal_(linear.weight, std=std * linear.in_features**-0.5)
            nn.init.zeros_(linear.bias)

    def forward(
        self, u: Float[Tensor, "batch tokens width"], real: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens width"]:
        """`real`: the tokens that are looked at; all of them in a row that has none."""
        real = real | ~real.any(-1, keepdim=True)
        q, k, v = self.query_key_value(self.first(u)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        looked = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=real[:, None, None, :])
        u = u + self.out(looked.transpose(1, 2).flatten(2))
        mapped: Tensor = u + self.down(nn.functional.gelu(self.up(self.second(u))))
        return mapped


class NormGames(nn.Module):
    """States of several layers → the anchored norm games of `heads` heads.

    Args:
        dim: width of the states, of all layers side by side.
        heads: norm games per text.
        head_dim: numbers per token and head.
        width: of the map u.
        mixing: layers in which tokens look at each other before they become players; 0: each token by itself.
        spins: "gate": V_hi is weighted by α_hi = (1 + tanh((n φ^norm_hi − μ_h)/γ_h))/2, the paper's attention without
            couplings; "none": the games are of V itself.
    """

    mean: Tensor
    scale: Tensor
    log_gamma: nn.Parameter | None
    background: nn.Parameter | None

    def __init__(
        self, dim: int, *, heads: int = 64, head_dim: int = 4, width: int = 256, mixing: int = 1, spins: Spins = "none"
    ) -> None:
        super().__init__()
        for name, number in (("dim", dim), ("heads", heads), ("head_dim", head_dim), ("width", width)):
            check_count(name, number)
        check_count("mixing", mixing, least=0)
        check_choice("spins", spins, Spins)
        self.dim, self.heads, self.head_dim, self.spins = dim, heads, head_dim, spins
        # of each number of the states; without them a few large ones drown the rest, see `standardise`
        self.register_buffer("mean", torch.empty(dim))
        self.register_buffer("scale", torch.empty(dim))
        self.token = nn.Linear(dim, width)
        self.context = nn.Linear(dim, width, bias=False)
        self.mixing = nn.ModuleList(Mixing(width) for _ in range(mixing))
        self.value = nn.Linear(width, heads * head_dim, bias=False)
        self.lean = nn.Linear(width, heads * head_dim, bias=False)  # A: how the anchor leans with token 0
        self.anchor = nn.Parameter(torch.empty(heads, head_dim))
        gated = spins == "gate"
        self.register_parameter("log_gamma", nn.Parameter(torch.empty(heads)) if gated else None)
        self.register_parameter("background", nn.Parameter(torch.empty(heads)) if gated else None)
        self.reset_parameters()

    @property
    def options(self) -> dict[str, Any]:
        """What makes games of the same shape: `NormGames(dim, **options)`."""
        width, mixing = self.value.in_features, len(self.mixing)
        return {"heads": self.heads, "head_dim": self.head_dim, "width": width, "mixing": mixing, "spins": self.spins}

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Small V beside anchors of length 2: every head starts nearly linear in ΣV."""
        nn.init.zeros_(self.mean)
        nn.init.ones_(self.scale)
        for linear in (self.token, self.context):
            nn.init.normal_(linear.weight, std=1.0 / (_STEP * (3.0 * self.dim) ** 0.5))
        nn.init.zeros_(self.token.bias)
        for layer in self.mixing:
            assert isinstance(layer, Mixing)
            layer.reset_parameters()
        nn.init.normal_(self.value.weight, std=0.02)
        nn.init.normal_(self.lean.weight, std=0.01)
        nn.init.normal_(self.anchor, std=_ANCHOR * self.head_dim**-0.5)
        if self.log_gamma is not None and self.background is not None:
            nn.init.constant_(self.log_gamma, math.log(0.25))
            nn.init.ones_(self.background)

    @torch.no_grad()
    def standardise(self, states: Float[Tensor, "rows dim"]) -> None:
        """Take mean and spread of each number of the states from a sample of tokens; the map u starts from there."""
        self.mean.copy_(states.mean(0))
        self.scale.copy_(states.std(0).clamp(min=1e-6))

    def terms(
        self,
        states: Float[Tensor, "batch tokens dim"],
        players: Bool[Tensor, "batch tokens"],
        *,
        real: Bool[Tensor, "batch tokens"] | None = None,
        generator: sampling.Randomness = None,
    ) -> GameTerms:
        """The games of each text; tokens that are no players have V = 0.

        Args:
            states: of all layers side by side; token 0 is what the anchor leans with.
            players: True at the tokens of words.
            real: True at the tokens that are no padding, special ones included; None: all are.
            generator: where the draws of the spins' values come from, where spins gate V.

        Returns:
            V and the anchors of every row and head.

        Raises:
            ValueError: states of another width.
        """
        if states.dim() != 3 or states.shape[-1] != self.dim:
            raise ValueError(f"states must be [batch, tokens, {self.dim}], got {list(states.shape)}")
        with full_precision(states.device):
            x = (states.to(self.value.weight.dtype) - self.mean) / self.scale * _STEP
            u = nn.functional.gelu(self.token(x) + self.context(x[:, :1]))
            for layer in self.mixing:
                u = layer(u, torch.ones_like(players) if real is None else real)
            V = self.value(u).unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2)
            V = V.masked_fill(~players[:, None, :, None], 0.0)  # (batch, heads, tokens, head_dim)
            anchor = self.anchor + self.lean(u[:, 0]).unflatten(-1, (self.heads, self.head_dim))
            if self.spins == "none":
                return GameTerms(V, anchor)
            alpha = self._alpha(V, anchor, players, generator)
            return GameTerms(alpha.unsqueeze(-1) * V, anchor, alpha)

    def _alpha(
        self, V: Tensor, anchor: Tensor, players: Tensor, generator: sampling.Randomness
    ) -> Float[Tensor, "batch heads tokens"]:
        """α of the Ising model whose fields are the values of the game of V, as `NeuroGameAttention` has it."""
        assert self.log_gamma is not None
        assert self.background is not None
        real = players.unsqueeze(1)
        if generator is None and self.training:
            generator = torch.randint(1 << 62, (), device=V.device)
        values = estimate(V, mask=real, anchor=anchor, couplings="none", generator=generator, validate=False)
        field = (l1_normalise(values.shapley) + l1_normalise(values.banzhaf)) / 2.0 * real.sum(-1, keepdim=True)
        field = (field - self.background.unsqueeze(-1)).masked_fill(~real, 0.0)
        return ising.solve(field, None, self.log_gamma.exp(), mask=real, validate=False).alpha

    def forward(
        self,
        states: Float[Tensor, "batch tokens dim"],
        players: Bool[Tensor, "batch tokens"],
        real: Bool[Tensor, "batch tokens"] | None = None,
    ) -> Float[Tensor, "batch heads"]:
        """v_h(N)."""
        return self.terms(states, players, real=real).whole()


class LinearReadout(nn.Module):
    """logits = b + R v: R [labels, heads] over the values of the norm games, b the logits of a text without words.

    Args:
        heads: norm games per text.
        labels: logits.
        std: of R at the start.
    """

    def __init__(self, heads: int, labels: int, *, std: float = 0.3) -> None:
        super().__init__()
        self.std = std
        self.out = nn.Linear(heads, labels)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """R ~ N(0, std²), b = 0."""
        nn.init.normal_(self.out.weight, std=self.std)
        nn.init.zeros_(self.out.bias)

    @property
    def weight(self) -> Float[Tensor, "labels heads"]:
        """R."""
        return self.out.weight

    @property
    def base(self) -> Float[Tensor, "labels"]:
        """b."""
        return self.out.bias

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights; games and readout share it."""
        return self.out.weight.dtype

    def forward(self, v: Float[Tensor, "... heads"]) -> Float[Tensor, "... labels"]:
        """The logits."""
        with full_precision(v.device):
            logits: Tensor = self.out(v.to(self.dtype))
        return logits
