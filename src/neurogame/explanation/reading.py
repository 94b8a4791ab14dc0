"""One text through the model: what every method starts from, what it is asked, and what it returns.

    tokens ──encode──▶ x ──pool──▶ Σ_i c_i ──classify──▶ logits

A text is a pair, premise and hypothesis, or has one part. `Reading` holds it in that form: it is encoded and pooled
once per explanation. `Question` is what is asked of a method, `Attribution` what it answers.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import PreTrainedModel

from neurogame import outputs
from neurogame._common.types import Bool, Float, Tensor
from neurogame._common.validation import check_choice, check_count
from neurogame.attention import NeuroGameOutput
from neurogame.classifier import Classifier, Prediction
from neurogame.data.batching import collate, padding_right, sorted_batches
from neurogame.data.removal import Removal
from neurogame.data.words import Level, Spans, Tokens, Units, tokenize_all, units
from neurogame.grounding.game import WordGame
from neurogame.modeling.checking import ModelError
from neurogame.modeling.heads import GamePooling, NeuroGamePooling, Pooled, Pooling, pooling_of
from neurogame.readout import GameTerms

UPDATES = 64  # of the mean field, beyond which no trajectory is kept
between_passes: ContextVar[Callable[[], object]] = ContextVar("between_passes", default=lambda: None)
"""Hook at every forward pass of an explanation, of the head alone too; an exception that it raises aborts it."""
_ARRIVED = 1e-2  # largest difference between the end of a replayed path and the layer's spins


@dataclass(frozen=True)
class Question:
    """What is asked of `explain`: the only list of its options. ℓ = logit_target [− logit_contrast].

    Attributes:
        target: the label to explain; None: the predicted one, or none for methods that speak of no label.
        contrast: explain the logit of the target minus that of this label.
        samples: how much work a method may do, see `NLI.explain`; None: its own default.
        seed: of what is drawn; the same seed gives the same numbers.
        check: whether the claims of a grounded game are tried on the model.
        error: standard error at which refining a grounded game stops before `samples` are used up.
        method: a name in `METHODS`; None: the best that the model has.
        level: "word", "token" for word pieces, "sentence", or "span" for what `spans` names.
        spans: for each part of the text a list of (start, end) in characters; words in no span always stay.
        removed: indices of words that are deleted before the model reads; they stay in the list, as words not read.
        temperature_factor: γ of every head times this; of a grounded game, the temperature of its α in logits.

    Raises:
        ValueError, TypeError: a field that no model would take.
    """

    target: str | None = None
    contrast: str | None = None
    samples: int | None = None
    seed: int = 0
    check: bool = True
    error: float | None = None
    method: str | None = None
    level: str = "word"
    removed: Sequence[int] = ()
    temperature_factor: float = 1.0
    spans: Spans | None = None

    def __post_init__(self) -> None:
        check_choice("level", self.level, Level)
        if (self.spans is None) == (self.level == "span"):
            raise ValueError(
                f"spans = {self.spans!r:.40} and level = {self.level!r}: spans are what level = 'span' needs"
            )
        if self.samples is not None:
            check_count("samples", self.samples, least=2)
        check_count("seed", self.seed, least=0, most=2**32 - 1)  # what NumPy takes
        if not isinstance(self.check, bool):
            raise TypeError(f"check must be True or False, got {self.check!r:.20}")
        if self.error is not None and not _is_positive(self.error):
            raise ValueError(f"error must be a number > 0, a standard error in logits; got {self.error!r:.20}")
        if self.temperature_factor != 1:
            check_temperature(self.temperature_factor)

    @property
    def changes(self) -> bool:
        """Whether words are removed, or the temperature is not the model's own."""
        return bool(self.removed) or self.temperature_factor != 1

    def direction(self, labels: tuple[str, ...]) -> Float[Tensor, "labels"]:
        """ℓ = logits @ direction: 1 at the target, −1 at the contrast."""
        assert self.target is not None
        return outputs.direction(labels, self.target, self.contrast)


def check_temperature(factor: object) -> None:
    """Raise unless γ can be multiplied by it."""
    if not _is_positive(factor) or factor == inf:
        raise ValueError(f"temperature_factor must be a number > 0, got {factor!r:.20}; 1 is the model as it is")


def _is_positive(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and value > 0


@dataclass(frozen=True, eq=False)
class Attribution:
    """The result of a method, per unit that was read; None is what it does not have."""

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
    """Cost of an explanation: sequences through the encoder, vectors through the classifier on top of it."""

    encoder: int = 0
    head: int = 0

    def add(self, sequences: int) -> None:
        """Count sequences through the whole model."""
        self.add_head(sequences)
        self.encoder += sequences

    def add_head(self, vectors: int) -> None:
        """Count vectors through the classifier alone."""
        between_passes.get()()
        self.head += vectors


@dataclass(frozen=True, eq=False)
class Reading:
    """A text, its tokens, its words, and one forward pass of the model over it.

    Attributes:
        nli: the classifier.
        tokens, units: the text as token ids, and the words that they belong to.
        prediction: what the model says.
        states: x, what the pooling of a NeuroGame model reads; None for other models.
        pooled: the pooled vector with weights and game; None for other models.
        hidden: states of every layer of the encoder, where a pooling or an explainer may read them; of an exported
            graph, and of texts read in batches, the games that were made of them.
        passes: what the explanation has cost so far.
    """

    nli: Classifier
    tokens: Tokens
    units: Units
    prediction: Prediction
    states: Float[Tensor, "1 tokens dim"] | None = None
    pooled: Pooled | None = None
    hidden: tuple[Float[Tensor, "1 tokens dim"], ...] | GameTerms | None = None
    passes: Passes = field(default_factory=Passes)

    @property
    def model(self) -> PreTrainedModel:
        """The model itself."""
        return self.nli.model

    @property
    def pooling(self) -> Pooling | None:
        """The pooling of a NeuroGame model."""
        return pooling_of(self.model)

    @cached_property
    def inputs(self) -> dict[str, Tensor]:
        """The text as a batch of one, on the model's device."""
        return self.nli.on_device(self.tokens.inputs)

    @cached_property
    def game(self) -> WordGame | None:
        """The grounded game of the text, of the model's own readout or of an explainer; None where there is neither."""
        model, members = self.model, self.units.members
        if self.pooled is not None and isinstance(self.pooled.game, GameTerms):
            config, readout = model.config, model.classifier
            about = {"removal": config.readout_removal, "r2": config.readout_r2, "grounded": config.readout_grounded}
            return WordGame.of(self.pooled.game, members, readout.weight, readout.base, **about)
        explainer = self.nli.explainer
        if explainer is None:
            return None
        game: WordGame = explainer.play(self.hidden, members, player_tokens(self.tokens, self.units))
        return game

    @cached_property
    def outputs(self) -> outputs.Outputs:
        """The labels of the classifier, and what its logits mean."""
        return self.nli.outputs

    @cached_property
    def logits(self) -> Float[Tensor, "labels"]:
        """What the model says, in the order of its labels."""
        return torch.tensor(list(self.prediction.logits.values()), dtype=torch.float64)

    def terms(self, weights: Float[Tensor, "1 heads tokens"] | None = None) -> Float[Tensor, "1 tokens dim"]:
        """c_i: what each token adds to the pooled vector, by its own weights or by others; for additive poolings."""
        assert self.pooling is not None
        assert self.pooled is not None
        assert self.states is not None
        weights = self.pooled.weights if weights is None else weights
        assert weights is not None
        return self.pooling.terms(self.states, weights)

    @cached_property
    def trajectory(self) -> Float[Tensor, "updates read"] | None:
        """α after 0, 1, 2 … updates of the mean field from s = 0, mean over heads and over the pieces of a word.

        None where no spins of tokens were solved, or by more than UPDATES, or other than the layer solves them.
        """
        if self.pooled is None or not isinstance(self.pooling, NeuroGamePooling):
            return None
        game, config = self.pooled.game, self.pooling.layer.config
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
            return self.units.mean(alpha).mean(1)


def player_tokens(tokens: Tokens, players: Units) -> Bool[Tensor, "tokens"]:
    """Tokens that bring something to a game: those of the players.

    Words outside of all spans are in every coalition: their V belongs to the anchor.
    """
    return (units(tokens, "word") if players.spans else players).unit_of >= 0


class Draft(NamedTuple):
    """A text before the model has read it: its tokens, its words, and whether it is longer than the model reads."""

    tokens: Tokens
    units: Units
    truncated: bool


def drafts(
    nli: Classifier,
    texts: Sequence[tuple[str, ...]],
    level: Level = "word",
    removed: Sequence[int] = (),
    spans: Spans | None = None,
) -> list[Draft]:
    """Texts of as many parts each as `predict` encodes them, tokenized together; the options are those of `read`."""
    encoded = tokenize_all(nli.tokenizer, texts, nli.max_length)
    return [
        Draft(*_delete_units(nli, tokens, units(tokens, level, spans), removed), tokens.is_cut) for tokens in encoded
    ]


def read(
    nli: Classifier,
    premise: str,
    hypothesis: str | None,
    level: Level = "word",
    removed: Sequence[int] = (),
    spans: Spans | None = None,
) -> Reading:
    """Encode the text as `predict` does, and predict.

    Args:
        nli: the classifier.
        premise: a sentence; or the whole text.
        hypothesis: a sentence; None: the text has one part.
        level: whether a unit is a word, a token, a sentence or a span.
        removed: indices of units whose tokens are deleted first; segments stay, and so do the units, as not read.
        spans: (start, end) in characters for each part of the text, for level "span".

    Raises:
        ValueError: `removed` has what is no index, or every word.
        ModelError: the logits are NaN or infinite.
    """
    texts = (premise,) if hypothesis is None else (premise, hypothesis)
    return forward(nli, *drafts(nli, [texts], level, removed, spans))


def forward(nli: Classifier, draft: Draft) -> Reading:
    """One forward pass over a text; states, pooling and hidden states are kept."""
    inputs = nli.on_device(draft.tokens.inputs)
    logits, computed = _forward(nli, inputs, torch.ones_like(inputs["input_ids"], dtype=torch.bool))
    return _reading(nli, draft, logits[0], **computed)


def read_games(nli: Classifier, drafts: Sequence[Draft], batch_size: int = 32) -> list[Reading]:
    """`forward` of several texts for a model with a grounded game: padded batches of similar length, one pass each.

    Of what the model computes, only the games are kept, without the padding. The readings are in order, and equal to
    those of `forward` up to rounding.
    """
    readings: dict[int, Reading] = {}
    pad = collate(padding_right(nli.tokenizer))  # where padding moves no position
    for batch in sorted_batches([len(draft.units.unit_of) for draft in drafts], batch_size):
        columns = [{name: column[0].tolist() for name, column in drafts[i].tokens.inputs.items()} for i in batch]
        inputs = nli.on_device(pad(columns))
        real = inputs["attention_mask"].bool()
        logits, computed = _forward(nli, inputs, real)
        of_readout = isinstance(pooling_of(nli.model), GamePooling)
        games = computed["pooled"].game if of_readout else computed["hidden"]
        if not isinstance(games, GameTerms):
            players = nn.utils.rnn.pad_sequence([player_tokens(*drafts[i][:2]) for i in batch], batch_first=True)
            games = nli.explainer.terms(games, players, real)
        for row, i in enumerate(batch):
            own, length = slice(row, row + 1), len(drafts[i].units.unit_of)
            alpha = None if games.alpha is None else games.alpha[own, :, :length]
            game = GameTerms(games.V[own, :, :length], games.anchor[own], alpha)
            kept: dict[str, Any] = {"pooled": Pooled(logits[own], game=game)} if of_readout else {"hidden": game}
            readings[i] = _reading(nli, drafts[i], logits[row], **kept)
    return [readings[i] for i in range(len(drafts))]


@torch.inference_mode()
def _forward(
    nli: Classifier, inputs: Mapping[str, Tensor], real: Bool[Tensor, "batch tokens"]
) -> tuple[Float[Tensor, "batch labels"], dict[str, Any]]:
    """Logits, and as fields of a `Reading` what the steps of the model gave on the way."""
    model = nli.model
    with nli.own_tokens():
        if pooling_of(model) is None:
            answer = nli.forward(inputs, **({} if nli.explainer is None else {"output_hidden_states": True}))
            return answer.logits, {"hidden": getattr(answer, "hidden_states", None)}
        encoded = model.encode(**inputs, output_hidden_states=True)
        pooled = model.pool(encoded.states, real, model.players(inputs["input_ids"], real), record=True)
        return model.classify(pooled.output), {"states": encoded.states, "pooled": pooled, "hidden": encoded.hidden}


def _delete_units(nli: Classifier, tokens: Tokens, units: Units, removed: Sequence[int]) -> tuple[Tokens, Units]:
    """The text with the tokens of some units deleted."""
    for i in removed:
        if isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < len(units.names):
            raise ValueError(
                f"removed has {i!r:.20}; the words of this {_noun(tokens)} are numbered 0 to {len(units.names) - 1}"
            )
    if not removed or not units.read:  # nothing is read: `explain` reports it
        return tokens, units
    if set(removed).issuperset(units.read):
        raise ValueError("every word is struck out: there is none left to explain")
    stays = [i not in removed for i in units.unit_of.tolist()]
    places = [i for i, stay in enumerate(stays) if stay]
    cut = {(tokens.offsets[i], tokens.sides[i]) for i, stay in enumerate(stays) if not stay}
    inputs = Removal.of(nli.tokenizer).remove(tokens.inputs, torch.tensor([stays]))
    inputs = {name: inputs[name] for name in tokens.inputs}
    uncut = [entry for entry in tokens.uncut if entry not in cut]
    left: dict[str, Any] = {name: [getattr(tokens, name)[i] for i in places] for name in ("offsets", "sides", "pieces")}
    return replace(tokens, inputs=inputs, uncut=uncut, **left), replace(units, unit_of=units.unit_of[places])


def _reading(nli: Classifier, draft: Draft, logits: Float[Tensor, "labels"], **computed: Any) -> Reading:
    """The reading of a pair, if its logits are numbers."""
    logits = logits.float().cpu()
    if not bool(logits.isfinite().all()):
        raise ModelError(
            f"the logits of {nli.name} are NaN or infinite for this {_noun(draft.tokens)}; its training has probably "
            "diverged, or its numbers overflow"
        )
    prediction = nli.prediction(logits, truncated=draft.truncated)
    reading = Reading(nli, draft.tokens, draft.units, prediction, **computed)
    reading.passes.add(1)
    return reading


def _noun(tokens: Tokens) -> str:
    return "text" if len(tokens.texts) == 1 else "pair"


def has_readout(model: object) -> bool:
    """Whether the logits are read from games."""
    exported = getattr(getattr(model, "explainer", None), "source", None) == "readout"
    return exported or isinstance(pooling_of(model), GamePooling)


def is_grounded(model: object) -> bool:
    """Whether the logits are read from games, or an explainer has been fitted to them."""
    return has_readout(model) or getattr(model, "explainer", None) is not None
