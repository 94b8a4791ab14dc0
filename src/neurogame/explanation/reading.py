"""One pair through the model: what every method starts from, what it is asked, and what it hands back.

    tokens ──encoder──▶ x ──pooling──▶ Σ_i c_i ──classifier──▶ logits

`Reading` holds the pair in that form; the pooling's own record is computed when a method asks for it.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from transformers import PreTrainedModel

from neurogame._types import Float, Tensor
from neurogame.attention import NeuroGameOutput
from neurogame.data.words import Level, Tokens, Units, tokenize, units
from neurogame.grounding.game import WordGame
from neurogame.modeling.heads import NeuroGamePooling, Pooled
from neurogame.modeling.model import NeuroGameForSequenceClassification
from neurogame.nli import NLI, ModelError, Prediction
from neurogame.readout import GameTerms

UPDATES = 64  # of the mean field, beyond which its path is no longer told
between_passes: ContextVar[Callable[[], object]] = ContextVar("between_passes", default=lambda: None)
"""Called before or after every forward pass of an explanation; what it raises ends the explanation."""
_ARRIVED = 1e-2  # how near to the layer's spins a path must end to be theirs


@dataclass(frozen=True)
class Question:
    """What is asked: ℓ = logit_target [− logit_contrast], with how much work, and which random numbers."""

    target: str | None = None  # None for the methods that speak of no label
    contrast: str | None = None
    samples: int | None = None  # None: the method's own default
    seed: int = 0
    check: bool = True  # whether claims are tried on the model, where a method makes any
    error: float | None = None  # standard error at which refining may stop
    temperature: float = 1.0  # of α^c of a grounded game, in logits

    def direction(self, labels: tuple[str, ...]) -> Float[Tensor, "labels"]:
        """ℓ = logits @ direction: 1 at the target, −1 at the contrast."""
        assert self.target is not None
        direction = torch.zeros(len(labels), dtype=torch.float64)
        direction[labels.index(self.target)] = 1.0
        if self.contrast is not None:
            direction[labels.index(self.contrast)] = -1.0
        return direction


@dataclass(frozen=True, eq=False)
class Attribution:
    """What a method found, per unit that was read; None is what it does not have."""

    scores: Float[Tensor, "read"]
    shapley: Float[Tensor, "read"] | None = None
    banzhaf: Float[Tensor, "read"] | None = None
    interactions: Float[Tensor, "read read"] | None = None
    swing: tuple[int, ...] = ()  # places among the read units
    rationale: tuple[int, ...] | None = None  # likewise
    alpha: Float[Tensor, "read"] | None = None  # of the method's own game, instead of the pooling's
    per_head: Mapping[str, Float[Tensor, "heads read"]] = field(default_factory=dict)
    errors: Mapping[str, Float[Tensor, "read"]] = field(default_factory=dict)  # shapley_se, banzhaf_se
    diagnostics: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Passes:
    """What an explanation cost: sequences through the encoder, vectors through the classifier on top of it."""

    encoder: int = 0
    head: int = 0

    def add(self, sequences: int) -> None:
        """Through the whole model."""
        between_passes.get()()
        self.encoder += sequences
        self.head += sequences


@dataclass(frozen=True, eq=False)
class Reading:
    """A pair, its tokens, its words, and what the model says of it."""

    nli: NLI
    tokens: Tokens
    units: Units
    prediction: Prediction
    passes: Passes = field(default_factory=Passes)

    @property
    def model(self) -> PreTrainedModel:
        """The classifier."""
        return self.nli.model

    @cached_property
    def inputs(self) -> dict[str, Tensor]:
        """The pair as a batch of one, on the model's device."""
        return {name: value.to(self.model.device) for name, value in self.tokens.inputs.items()}

    @cached_property
    def hidden(self) -> tuple[Float[Tensor, "1 tokens dim"], ...]:
        """The states of every layer of the encoder, the embeddings first."""
        found: tuple[Tensor, ...] = _answer(self.nli, self.tokens, self.passes).hidden_states
        return found

    @cached_property
    def states(self) -> Float[Tensor, "1 tokens dim"]:
        """x: what the pooling reads, in its precision."""
        model = self.model
        x = model.side_by_side(self.hidden) if has_readout(model) else self.hidden[-1]
        return x.to(model.classifier.dtype)

    @cached_property
    def game(self) -> WordGame | None:
        """The grounded game of the pair, of the model's own readout or of an explainer; None where there is neither."""
        model, members = self.model, self.units.members
        if has_readout(model):
            terms = self.pooled.game
            assert isinstance(terms, GameTerms)
            return WordGame.of(terms, members, model.classifier.weight, model.classifier.base)
        explainer = self.nli.explainer
        return None if explainer is None else explainer.play(self.hidden, members)

    @cached_property
    def pooled(self) -> Pooled:
        """The pooled vector with weights and game, as the model's own forward pass has them."""
        model = self.model
        assert isinstance(model, NeuroGameForSequenceClassification)
        ids = self.inputs["input_ids"]
        with torch.inference_mode():
            players = model.players(ids, torch.ones_like(ids, dtype=torch.bool))
            pooled: Pooled = model.pooling(self.states, players, record=True)
            return pooled

    @cached_property
    def trajectory(self) -> Float[Tensor, "updates read"] | None:
        """α after 0, 1, 2 … updates of the mean field from s = 0, mean over heads and over the pieces of a word.

        None where no spins of tokens were solved, or by more than UPDATES, or other than the layer solves them.
        """
        model = self.model
        if not isinstance(model, NeuroGameForSequenceClassification) or not isinstance(model.pooling, NeuroGamePooling):
            return None
        game, config = self.pooled.game, model.pooling.layer.config
        assert isinstance(game, NeuroGameOutput)
        state = game.spin_state
        most = int(state.iterations.max())
        if config.spins != "solved" or most > UPDATES:
            return None
        with torch.inference_mode():
            path = [torch.zeros_like(state.spins)]
            for t in range(most):  # a head that has converged rests
                step = config.damping * (state.problem.update(path[-1]) - path[-1])
                path.append(path[-1] + step * (t < state.iterations).unsqueeze(-1))
            if float((path[-1] - state.spins).abs().max()) > _ARRIVED:
                return None
            alpha = replace(state, spins=torch.stack(path)).alpha[:, 0].cpu()  # (1 + updates, heads, tokens)
            return self.units.averaged(alpha).mean(1)


def read(nli: NLI, premise: str, hypothesis: str, level: Level) -> Reading:
    """Encode the pair as `predict` does, and predict; the states of that forward pass are kept."""
    tokens, passes = tokenize(nli.tokenizer, premise, hypothesis, nli.max_length), Passes()
    answer = _answer(nli, tokens, passes)
    logits = answer.logits[0].float().cpu()
    if not bool(logits.isfinite().all()):
        raise ModelError(
            f"the logits of {nli.name} are NaN or infinite for this pair; its training has probably diverged, "
            "or its numbers overflow"
        )
    said = nli.prediction(logits, truncated=len(tokens.uncut) > len(tokens.offsets))
    reading = Reading(nli, tokens, units(tokens, level), said, passes)
    if _has_states(nli):
        vars(reading)["hidden"] = answer.hidden_states  # where the cached property would put them
    return reading


def has_readout(model: object) -> bool:
    """Whether the logits are read from games."""
    return isinstance(model, NeuroGameForSequenceClassification) and model.config.readout == "game"


def _has_states(nli: NLI) -> bool:
    """Whether anything here reads the states of the encoder."""
    return isinstance(nli.model, NeuroGameForSequenceClassification) or nli.explainer is not None


def _answer(nli: NLI, tokens: Tokens, passes: Passes) -> Any:
    """The model's output for the pair, with hidden states where they are read."""
    passes.add(1)
    inputs = {name: value.to(nli.model.device) for name, value in tokens.inputs.items()}
    with torch.inference_mode():
        return nli.forward(inputs, **({"output_hidden_states": True} if _has_states(nli) else {}))
