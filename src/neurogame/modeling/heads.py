"""From token states to one vector: the NeuroGame pooling, the paper's spins, and the controls they are held against.

Each pooling takes hidden states [batch, tokens, dim] and the mask of the players, and returns a
`Pooled`: one vector per sequence, and the record of how it came about where there is one. All but
"cls" and "spins" have the same skeleton, so that a comparison is about the weights alone:

    V = W_v x per head,   z_h = Σ_i w_i V_i,   pooled = W_O [z_1 … z_H]

and only w differs. The weights of a query-based control come from q = W_q x_0, as the anchor of the
default NeuroGame game does. `modeling.model` adds the classifier; what makes the sizes equal is there.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from neurogame import ising
from neurogame._common.extras import need
from neurogame._common.types import Bool, Float, Tensor
from neurogame._common.validation import as_mask, transformed
from neurogame.attention import NeuroGameAttention, NeuroGameOutput
from neurogame.ising import SpinState
from neurogame.modeling.configuration import NeuroGameConfig
from neurogame.readout import GameTerms, NormGames
from neurogame.sampling import Randomness
from neurogame.values import GameValues, estimate

States = Float[Tensor, "batch tokens dim"]
Real = Bool[Tensor, "batch tokens"]
Weights = Float[Tensor, "batch heads tokens"]


@dataclass(frozen=True)
class SpinsOutput:
    """Record of the "spins" head: its spins are learned features, the game values belong to the tokens."""

    output: Float[Tensor, "batch spins"]  # ⟨s_k⟩: what the classifier reads
    field: Float[Tensor, "batch spins"]  # J_k + (W x)_k
    coupling: Float[Tensor, "spins spins"]
    spin_state: SpinState
    # Of v(C) = f(‖Σ_{i∈C} W x_i‖): attributions, not on the path to the logits.
    shapley: Float[Tensor, "batch 1 tokens"]
    banzhaf: Float[Tensor, "batch 1 tokens"]
    values: GameValues


@dataclass(frozen=True)
class Pooled:
    """One vector per sequence; the weights of the tokens, and the game, where the head has them."""

    output: Float[Tensor, "batch dim"]
    weights: Weights | None = None
    game: NeuroGameOutput | SpinsOutput | GameTerms | None = None


class Pooling(nn.Module):
    """Base class of the heads: `output_size`, `reset_parameters`, a forward pass to `Pooled`, and `terms`."""

    output_size: int
    additive = False  # whether the output is a sum over tokens, Σ_i c_i

    def reset_parameters(self) -> None:
        """Set every parameter that is not a plain linear layer; linear layers get Xavier weights."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x: States, real: Real, **_: Any) -> Pooled:
        """Pool the tokens that `real` marks."""
        raise NotImplementedError

    def terms(self, x: States, weights: Weights) -> States:
        """c_i = W_O [w_1i V_1i … w_Hi V_Hi]: what each token adds to the output, where the head is `additive`.

        W_O has no bias, so the terms sum to the output.
        """
        layer: Any = getattr(self, "layer", self)  # which has W_v and W_O
        V = layer.value(x).unflatten(-1, (weights.shape[1], -1))  # (batch, tokens, heads, head_dim)
        terms: Tensor = layer.out((weights.mT.unsqueeze(-1) * V).flatten(-2).to(layer.out.weight.dtype))
        return terms


class NeuroGamePooling(Pooling):
    """Algorithm 1 in either preset: `NeuroGameAttention` on the token states."""

    additive = True

    def __init__(self, config: NeuroGameConfig) -> None:
        super().__init__()
        self.output_size = config.hidden_size
        self.layer = NeuroGameAttention(
            config.hidden_size, config.pooling_heads, preset=config.preset, **(config.attention or {})
        )

    def reset_parameters(self) -> None:
        """As the layer does."""
        self.layer.reset_parameters()

    def forward(
        self, x: States, real: Real, *, generator: Randomness = None, samples: int | None = None, **_: Any
    ) -> Pooled:
        """The record of the layer is the game."""
        game = self.layer(x, real, generator=generator, samples=samples)
        return Pooled(game.output, game.alpha, game)


class GamePooling(Pooling):
    """v_h(N) of the norm games: what a game readout reads. `x` are the states of several layers side by side."""

    def __init__(self, config: NeuroGameConfig) -> None:
        super().__init__()
        self.output_size = config.readout_heads
        self.games = NormGames(
            config.hidden_size * len(config.read_layers),
            heads=config.readout_heads,
            head_dim=config.readout_dim,
            width=config.readout_width,
            mixing=config.readout_mixing,
            spins="gate" if config.readout_spins == "gate" else "none",
        )

    def reset_parameters(self) -> None:
        """As the games do."""
        self.games.reset_parameters()

    def forward(
        self, x: States, real: Real, *, seen: Real | None = None, generator: Randomness = None, **_: Any
    ) -> Pooled:
        """The games are the record; `real` are the players, `seen` all tokens that are no padding."""
        terms = self.games.terms(x, real, real=seen, generator=generator)
        return Pooled(terms.whole(), terms.alpha, terms)


class SpinsPooling(Pooling):
    """⟨s_k⟩ = tanh((J_k + (W x)_k + Σ_l J_kl ⟨s_l⟩)/γ) for k = 1 … 128 learned spins; the spins are the pooled vector.

    The section "NGT Implementation Details" of the paper: a projection to spins, mean field at γ = .25 with
    damping .7, 25 iterations, tolerance 1e-4. x is [CLS] (as the authors' script has it) or the mean of the
    token states (as the text has it: "the set of token embeddings"). Shapley and Banzhaf values of
    v(C) = ‖Σ_{i∈C} W x_i‖ are attributions beside it.

    How this differs from the authors' script: there the classifier reads tanh(W x_0), and neither J nor
    the game has a path to the logits. Here the equilibrium spins are what it reads. J_kl starts at zero,
    so training starts from the script's model. Nothing bounds it; `spin_state` shows whether the solver converged.
    """

    def __init__(self, config: NeuroGameConfig) -> None:
        super().__init__()
        self.output_size, self.source = config.spins, config.spins_source
        self.options = config.attention_config()
        self.project = nn.Linear(config.hidden_size, config.spins)
        self.field = nn.Parameter(torch.empty(config.spins))
        self.pairs = nn.Parameter(torch.empty(config.spins, config.spins))

    def reset_parameters(self) -> None:
        """J_k = 0, J_kl = 0."""
        super().reset_parameters()
        nn.init.zeros_(self.field)
        nn.init.zeros_(self.pairs)

    @property
    def coupling(self) -> Float[Tensor, "spins spins"]:
        """Symmetric, zero diagonal."""
        J = (self.pairs + self.pairs.mT) / 2.0
        return J - torch.diag_embed(J.diagonal())

    def forward(
        self,
        x: States,
        real: Real,
        *,
        generator: Randomness = None,
        record: bool = False,
        samples: int | None = None,
        **_: Any,
    ) -> Pooled:
        """The values of the tokens' game are estimated only where a record is asked for."""
        source = x[:, 0] if self.source == "cls" else (x * real.unsqueeze(-1)).sum(1) / real.sum(1, keepdim=True)
        field = self.field.float() + self.project(source).float()
        coupling = self.coupling.float()
        state = ising.solve(field, coupling, 0.25, damping=0.7, max_iter=25, tol=1e-4, validate=False)
        if not record:
            return Pooled(state.spins)
        options = self.options
        V = self.project(x).float().unsqueeze(1).masked_fill(~real[:, None, :, None], 0.0)  # (batch, 1, tokens, spins)
        values = estimate(
            V,
            mask=real.unsqueeze(1),
            samples=options.samples if samples is None else samples,
            f=options.f,
            tilt=0.25 if options.tilt == "gamma" else options.tilt,
            estimator=options.estimator,
            couplings="none",
            generator=generator,
        )
        game = SpinsOutput(state.spins, field, coupling, state, values.shapley, values.banzhaf, values)
        return Pooled(state.spins, game=game)


class ClsPooling(Pooling):
    """tanh(W x_0): BERT's own pooler."""

    def __init__(self, config: NeuroGameConfig) -> None:
        super().__init__()
        self.output_size = config.hidden_size
        self.project = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: States, real: Real, **_: Any) -> Pooled:
        """Token 0 alone."""
        return Pooled(torch.tanh(self.project(x[:, 0])))


class WeightedPooling(Pooling):
    """z_h = Σ_i w_i V_i with V = W_v x, then W_O: the controls, which differ in w alone.

        mean       w_i = 1/n over the real tokens
        softmax    w = softmax(scores), scores_i = ⟨W_q x_0, V_i⟩/√d: attention pooling
        budget     argmax_w ⟨scores, w⟩ − ½‖w‖² with 0 ≤ w ≤ 1, Σ w = budget·n, divided by budget·n
        hopfield   w = softmax(β Kᵀ ξ), after ξ ← K softmax(β Kᵀ ξ) iterated from a learned state

    The scores are contributions in the direction of a query: what φ_i tends to as its anchor grows. Under a budget each
    token is on, off or in between, like a spin, but how many are on is fixed; entmax solves it by bisection. Hopfield
    pooling (Ramsauer et al., 2021) has stored patterns K = W_k LayerNorm(x) and β = 1/√d; with one step it is attention
    pooling with a learned query.
    """

    additive = True

    def __init__(self, config: NeuroGameConfig) -> None:
        super().__init__()
        dim = self.output_size = config.hidden_size
        self.heads, self.head_dim = config.pooling_heads, dim // config.pooling_heads
        self.kind, self.steps, self.budget = config.head, config.hopfield_steps, float(config.budget)
        self.value = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        if self.kind in ("softmax", "budget"):
            self.query = nn.Linear(dim, dim, bias=False)
        if self.kind == "budget":
            need("entmax", "train")
        if self.kind == "hopfield":
            self.norm = nn.LayerNorm(dim)
            self.key = nn.Linear(dim, dim, bias=False)
            self.state = nn.Parameter(torch.empty(self.heads, self.head_dim))

    def reset_parameters(self) -> None:
        """The state of "hopfield" starts as a random direction."""
        super().reset_parameters()
        if self.kind == "hopfield":
            nn.init.ones_(self.norm.weight)
            nn.init.zeros_(self.norm.bias)
            nn.init.normal_(self.state, std=1.0)

    def forward(self, x: States, real: Real, **_: Any) -> Pooled:
        """Σ_i w_i V_i."""
        if not transformed():  # a check would make the sizes constants of an exported graph
            as_mask(real, x.shape[:2], x.device)  # an empty row has no mean
        V = self._split(self.value(x))
        w = self._weights(x, V, real.unsqueeze(1))
        z = (w.unsqueeze(-2) @ V).squeeze(-2)
        return Pooled(self.out(z.flatten(-2)), w)

    def scores(self, x: Tensor, V: Tensor) -> Weights:
        """⟨W_q x_0, V_i⟩/√d."""
        return self._products(V, self.query(x[:, 0]).unflatten(-1, (self.heads, self.head_dim)))

    def _weights(self, x: Tensor, V: Tensor, real: Bool[Tensor, "batch 1 tokens"]) -> Weights:
        """w, 0 at padding."""
        if self.kind == "mean":
            uniform = real.to(V.dtype) / real.sum(-1, keepdim=True)
            return uniform.expand(V.shape[:-1])
        if self.kind == "softmax":
            return _softmax(self.scores(x, V), real)
        if self.kind == "budget":
            return self._budget(self.scores(x, V), real).to(V.dtype)
        K = self._split(self.key(self.norm(x)))
        state = self.state.expand(x.shape[0], -1, -1)  # not len(x), which export would take for a constant
        for step in range(self.steps):
            w = _softmax(self._products(K, state), real)
            if step + 1 < self.steps:
                state = (w.unsqueeze(-2) @ K).squeeze(-2)
        return w

    def _budget(self, scores: Weights, real: Bool[Tensor, "batch 1 tokens"]) -> Weights:
        from entmax import budget_bisect  # of the extra `train`

        total = self.budget * real.sum(-1, keepdim=True).float()
        lowest = scores.detach().masked_fill(~real, torch.inf).amin(-1, keepdim=True)
        scores = torch.where(real, scores, lowest - 2.0)  # more than 1 below any other: bisection leaves them at 0
        w: Tensor = budget_bisect(scores.float(), budget=total, dim=-1, n_iter=30)
        return w.masked_fill(~real, 0.0) / total

    def _split(self, projected: Float[Tensor, "batch tokens dim"]) -> Float[Tensor, "batch heads tokens head_dim"]:
        """One axis per head."""
        heads: Tensor = projected.unflatten(-1, (self.heads, self.head_dim))
        return heads.transpose(1, 2)

    def _products(self, keys: Tensor, query: Float[Tensor, "batch heads head_dim"]) -> Weights:
        """⟨query, key_i⟩/√d."""
        return (keys @ query.unsqueeze(-1)).squeeze(-1) * self.head_dim**-0.5


def _softmax(scores: Weights, real: Bool[Tensor, "batch 1 tokens"]) -> Weights:
    """Over the real tokens."""
    return scores.masked_fill(~real, -torch.inf).softmax(-1)


def pooling_of(model: object) -> Pooling | None:
    """The pooling of a NeuroGame model; None for other models."""
    pooling = getattr(model, "pooling", None)
    return pooling if isinstance(pooling, Pooling) else None


POOLINGS: dict[str, type[Pooling]] = {
    "neurogame": NeuroGamePooling,
    "spins": SpinsPooling,
    "cls": ClsPooling,
    **dict.fromkeys(("mean", "softmax", "hopfield", "budget"), WeightedPooling),
}
