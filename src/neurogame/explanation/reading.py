"""One pair through the model: what every method starts from, and what it hands back.

    tokens ──encoder──▶ x ──pooling──▶ Σ_i c_i ──classifier──▶ logits

`Reading` holds the pair in that form; the pooling's own record is computed when a method asks for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from transformers import PreTrainedModel

from neurogame._types import Float, Tensor
from neurogame.explanation.words import Level, Tokens, Units, tokenize, units
from neurogame.modeling.heads import Pooled
from neurogame.modeling.model import NeuroGameForSequenceClassification
from neurogame.nli import NLI, Prediction


@dataclass(frozen=True, eq=False)
class Attribution:
    """What a method found, per unit that was read; None is what it does not have."""

    scores: Float[Tensor, "read"]
    shapley: Float[Tensor, "read"] | None = None
    banzhaf: Float[Tensor, "read"] | None = None
    interactions: Float[Tensor, "read read"] | None = None
    swing: tuple[int, ...] = ()  # places among the read units
    per_head: Mapping[str, Float[Tensor, "heads read"]] = field(default_factory=dict)
    errors: Mapping[str, Float[Tensor, "read"]] = field(default_factory=dict)  # shapley_se, banzhaf_se
    diagnostics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Reading:
    """A pair, its tokens, its words, and what the model says of it."""

    nli: NLI
    tokens: Tokens
    units: Units
    prediction: Prediction

    @property
    def model(self) -> PreTrainedModel:
        """The classifier."""
        return self.nli.model

    @cached_property
    def states(self) -> Float[Tensor, "1 tokens dim"]:
        """x: the encoder's last states, in the precision of the pooling."""
        inputs = {name: value.to(self.model.device) for name, value in self.tokens.inputs.items()}
        with torch.inference_mode():
            x: Tensor = self.model(**inputs, output_hidden_states=True).hidden_states[-1]
            return x.to(self.model.classifier.dtype)

    @cached_property
    def pooled(self) -> Pooled:
        """The pooled vector with weights and game, as the model's own forward pass has them."""
        model = self.model
        assert isinstance(model, NeuroGameForSequenceClassification)
        ids = self.tokens.inputs["input_ids"].to(model.device)
        with torch.inference_mode():
            players = model.players(ids, torch.ones_like(ids, dtype=torch.bool))
            pooled: Pooled = model.pooling(self.states, players, record=True)
            return pooled


def read(nli: NLI, premise: str, hypothesis: str, level: Level) -> Reading:
    """Encode the pair as `predict` does, and predict."""
    tokens = tokenize(nli.tokenizer, premise, hypothesis, nli.max_length)
    return Reading(nli, tokens, units(tokens, level), nli.predict(premise, hypothesis))
