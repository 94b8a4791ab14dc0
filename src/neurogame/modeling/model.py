"""NeuroGameForSequenceClassification: encoder → pooling → feed-forward classifier, by the conventions of transformers.

    input_ids ──encode──▶ x [batch, tokens, dim] ──pool──▶ z [batch, dim] ──classify──▶ logits [batch, labels]
    readout = "game":  states of several layers ──norm games──▶ v(N) [batch, heads] ──b + R v──▶ logits

`forward` is these three steps and the loss; explanations and export call them one by one. The model owns the
parameters; `heads` owns the ways of pooling, `attention` the game. Randomness enters as `generator` (a seed, or a
torch.Generator) and goes to the pooling; records come back only where `output_game=True` asks for them, so that a
trainer never gathers n × n matrices.
"""

import inspect
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.utils import ModelOutput, can_return_tuple

from neurogame._common.types import Bool, Float, Int, Tensor
from neurogame.attention import NeuroGameAttention, NeuroGameOutput
from neurogame.modeling.configuration import WHERE, NeuroGameConfig
from neurogame.modeling.heads import POOLINGS, GamePooling, Pooled, Pooling, SpinsOutput
from neurogame.modeling.loading import load_encoder, load_exactly, without_pooler
from neurogame.modeling.losses import Mixup, classification_loss, mix
from neurogame.modeling.padding import gather_rows, gather_tokens, real_first, restore_order
from neurogame.readout import GameTerms, LinearReadout, NormGames, ReadoutOutput
from neurogame.sampling import Randomness


@dataclass
class NeuroGameClassifierOutput(ModelOutput):
    """Loss and logits as every classifier of transformers has them; the game where it was asked for."""

    loss: Tensor | None = None
    logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    game: NeuroGameOutput | SpinsOutput | ReadoutOutput | None = None


@dataclass(frozen=True, eq=False)
class Encoded:
    """What the encoder makes of a batch."""

    states: Float[Tensor, "batch tokens dim"]  # what the pooling reads, in its precision
    hidden: tuple[Tensor, ...] | None = None  # of every layer, the embeddings first, where asked for
    attentions: tuple[Tensor, ...] | None = None


class NeuroGameForSequenceClassification(PreTrainedModel):
    """Natural-language inference (or any classification of texts and pairs) with NeuroGame attention on an encoder.

    `from_pretrained` takes a saved NeuroGame model, or a plain encoder (a folder or a hub name): then
    the encoder is loaded and the rest is new, with the options of `NeuroGameConfig` as keywords.
    """

    config_class = NeuroGameConfig
    base_model_prefix = "encoder"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False  # the loss is a mean over the micro-batch; the trainer divides by the accumulation
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _keep_in_fp32_modules_strict = ("pooling", "classifier")  # the game and its solver do not survive bf16
    config: NeuroGameConfig

    def __init__(self, config: NeuroGameConfig, encoder: PreTrainedModel | None = None) -> None:
        super().__init__(config)
        pooler = without_pooler(config.encoder)  # raises for a configuration of another kind than an encoder
        if config.readout == "ffn" and config.hidden_size % config.pooling_heads:
            raise ValueError(f"heads = {config.pooling_heads} must divide the encoder's width {config.hidden_size}")
        if config.players == "words" and not config.special_token_ids:
            raise ValueError("players = 'words' needs special_token_ids: the ids that stand for no word of the text")
        self.encoder = AutoModel.from_config(config.encoder, **pooler) if encoder is None else encoder
        self.supports_gradient_checkpointing = self.encoder.supports_gradient_checkpointing  # ALBERT's does not
        self._encoder_inputs = set(inspect.signature(self.encoder.forward).parameters)
        self.pooling: Pooling
        self.classifier: FeedForward | LinearReadout
        if config.readout == "game":
            self.pooling = GamePooling(config)
            self.classifier = LinearReadout(config.readout_heads, config.num_labels, std=config.readout_std)
        else:
            self.pooling = POOLINGS[config.head](config)
            self.classifier = FeedForward(config, self.pooling.output_size, width(config))
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Linear layers N(0, .02) as in BERT; a pooling knows its own start (γ, gate, couplings, anchor)."""
        if isinstance(module, Pooling | LinearReadout):
            module.reset_parameters()
        elif not isinstance(module, NeuroGameAttention | NormGames):
            super()._init_weights(module)

    def _initialize_weights(self, module: nn.Module, *_: Any) -> None:
        """Initialise a pooling even if all its parameters are in modules below it.

        transformers skips such modules of other packages, since they might overwrite loaded weights. Ours do not: they
        draw through torch.nn.init, which skips loaded tensors during initialisation.
        """
        super()._initialize_weights(module)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """A saved model, with exactly the logits that it had when saved, or a plain encoder under a new head.

        Args:
            pretrained_model_name_or_path: a folder, or a name on the hub.
            args: as `PreTrainedModel.from_pretrained` has them.
            kwargs: likewise (dtype, revision, …), and the fields of `NeuroGameConfig`.
        """
        name, where = pretrained_model_name_or_path, {key: kwargs[key] for key in WHERE if key in kwargs}
        own = cls.config_class.model_type  # a name of None: the weights are given as a state_dict
        saved = {"model_type": own} if name is None else PreTrainedConfig.get_config_dict(name, **where)[0]
        if "model_type" not in saved:
            raise ValueError(f"{name}: config.json has no model_type; is it the folder of a model?")
        if saved["model_type"] == own:
            return load_exactly(super().from_pretrained, name, *args, **kwargs)
        config = kwargs.pop("config", None)
        if config is None:
            known = (NeuroGameConfig.__dataclass_fields__.keys() | {"num_labels"}) - {"dtype"}
            options = {key: kwargs.pop(key) for key in list(kwargs) if key in known}
            config = NeuroGameConfig.from_pretrained(name, **where, **options)
        elif not isinstance(config, NeuroGameConfig):
            raise ValueError(f"config must be a NeuroGameConfig, got {type(config).__name__}")
        wants_record = kwargs.pop("output_loading_info", False)
        encoder, record = load_encoder(name, config.encoder, **kwargs)
        config = deepcopy(config)
        config.encoder, config._attn_implementation = encoder.config, encoder.config._attn_implementation
        if config.readout == "game":  # a new one
            config.readout_grounded = False
        model = cls(config, encoder).eval()
        model.pooling.to(encoder.device)
        model.classifier.to(encoder.device)
        return (model, record) if wants_record else model

    def get_input_embeddings(self) -> nn.Module:
        """The encoder's word embeddings."""
        return self.encoder.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the encoder's word embeddings."""
        self.encoder.set_input_embeddings(value)

    def players(
        self,
        tokens: Int[Tensor, "batch tokens"] | None,
        real: Bool[Tensor, "batch tokens"],
        special: Tensor | None = None,
    ) -> Bool[Tensor, "batch tokens"]:
        """Which tokens are pooled: the real ones, without [CLS] and [SEP] if only words play.

        A text of special tokens alone keeps them: an attention needs a token. A game readout does not: without
        players the logits are b.

        Args:
            tokens: ids; may be None where all tokens play, or `special` is given.
            real: True at tokens that are no padding.
            special: True at tokens that are no words; None: found by their ids.

        Returns:
            [batch, tokens], True at tokens that are pooled.
        """
        if self.config.players == "all":
            return real
        if special is None:
            if tokens is None:
                raise ValueError("players = 'words' needs input_ids, or special_tokens_mask beside inputs_embeds")
            special = torch.zeros_like(real)
            for token in self.config.special_token_ids or ():
                special = special | (tokens == token)
        words = real & ~special.bool()
        if self.config.readout == "game":
            return words
        return words | (real & ~words.any(-1, keepdim=True))

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "batch tokens"] | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Float[Tensor, "batch tokens dim"] | None = None,
        special_tokens_mask: Tensor | None = None,
        labels: Int[Tensor, "batch"] | None = None,
        output_game: bool = False,
        generator: Randomness = None,
        mixup: Mixup | None = None,
        **kwargs: Any,
    ) -> NeuroGameClassifierOutput:
        """Logits [batch, labels] in the order of `config.id2label`.

        Args:
            input_ids: token ids, as the encoder takes them.
            attention_mask: 1 at real tokens; padding may be on either side. None: all are real.
            token_type_ids: segments, where the encoder has them.
            position_ids: where the encoder takes them. Padding on the left shifts the positions of encoders
                that count from the first column, as BERT does, unless these say otherwise.
            inputs_embeds: word embeddings instead of `input_ids`.
            special_tokens_mask: 1 at tokens that are no words; only where `players` is "words" and ids are not given.
            labels: gold labels by id; gives `loss`.
            output_game: whether to return the record of the game (α, fields, values, couplings, spins).
            generator: where the draws of coalitions come from; None: fixed in evaluation, torch's own in training.
            mixup: mixes the pooled vectors of a batch, and the loss with them.
            kwargs: passed on to the encoder (output_hidden_states, output_attentions).
        """
        inputs = {"token_type_ids": token_type_ids, "position_ids": position_ids, **kwargs}
        returns_states = inputs.get("output_hidden_states", self.config.output_hidden_states)
        encoded = self.encode(input_ids, attention_mask, inputs_embeds=inputs_embeds, **inputs)
        x = encoded.states
        if x.dim() != 3:
            raise ValueError(f"input_ids must be [batch, tokens]; the states of the encoder are {list(x.shape)}")
        if attention_mask is not None and attention_mask.shape != x.shape[:2]:
            shape, given = list(x.shape[:2]), list(attention_mask.shape)
            raise ValueError(f"attention_mask must be [batch, tokens] = {shape}, 1 at real tokens; got {given}")
        real = x.new_ones(x.shape[:2], dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        players = self.players(input_ids, real, special_tokens_mask)
        pooled = self.pool(x, real, players, generator=generator, record=output_game)
        logits = self.classify(mix(pooled.output, mixup))
        loss = None if labels is None else classification_loss(logits, labels, mixup)
        game: Any = pooled.game if output_game else None
        if isinstance(game, GameTerms):
            assert isinstance(self.classifier, LinearReadout)
            game = ReadoutOutput(pooled.output, game, self.classifier.weight, self.classifier.base, players)
        return NeuroGameClassifierOutput(
            loss=loss,
            logits=logits,
            hidden_states=encoded.hidden if returns_states else None,
            attentions=encoded.attentions,
            game=game,
        )

    def encode(
        self,
        input_ids: Int[Tensor, "batch tokens"] | None = None,
        attention_mask: Tensor | None = None,
        *,
        inputs_embeds: Float[Tensor, "batch tokens dim"] | None = None,
        **inputs: Any,
    ) -> Encoded:
        """The first step of `forward`: token ids through the encoder.

        Args:
            input_ids: token ids, as the encoder takes them.
            attention_mask: any mask that the encoder takes.
            inputs_embeds: word embeddings instead of `input_ids`.
            inputs: passed on where the encoder takes them (token_type_ids, output_hidden_states …).

        Returns:
            What `pool` reads, and the hidden states and attentions that were asked for.
        """
        if self.config.readout == "game":
            inputs["output_hidden_states"] = True
        taken = self._encoder_inputs
        known = {
            key: value
            for key, value in inputs.items()
            if value is not None and (key in taken or ("kwargs" in taken and key.startswith("output_")))
        }
        answer = self.encoder(input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **known)
        x = answer[0] if self.config.readout == "ffn" else self.side_by_side(answer.hidden_states)
        hidden, attentions = getattr(answer, "hidden_states", None), getattr(answer, "attentions", None)
        return Encoded(x.to(self.classifier.dtype), hidden, attentions)

    def pool(
        self,
        x: Float[Tensor, "batch tokens dim"],
        real: Bool[Tensor, "batch tokens"],
        players: Bool[Tensor, "batch tokens"],
        *,
        generator: Randomness = None,
        record: bool = False,
        samples: int | None = None,
    ) -> Pooled:
        """The second step of `forward`: states of tokens to one vector.

        The pooling sees the real tokens first, wherever the padding is; weights and record come back in the order of
        the input.

        Args:
            x: `Encoded.states`.
            real: True at tokens that are no padding.
            players: True at tokens that are pooled, see `players`.
            generator: where the draws of coalitions come from; None: fixed in evaluation, torch's own in training.
            record: whether to keep the game.
            samples: coalitions per law; None: those of the configuration. For heads that draw coalitions.

        Returns:
            One vector per sequence, with the weights of the tokens and, where recorded, the game.
        """
        order = real_first(real)
        if order is not None:
            x, players, real = gather_rows(x, order), gather_tokens(players, order), gather_tokens(real, order)
        pooled: Pooled = self.pooling(x, players, seen=real, generator=generator, record=record, samples=samples)
        if order is None:
            return pooled
        back = order.argsort(dim=1)  # where each token went
        weights = None if pooled.weights is None else gather_tokens(pooled.weights, back)
        game = restore_order(pooled.game, back) if pooled.game is not None and record else None
        return Pooled(pooled.output, weights, game)

    def classify(self, z: Float[Tensor, "batch size"]) -> Float[Tensor, "batch labels"]:
        """The last step of `forward`: `Pooled.output` to logits, in the order of `config.id2label`."""
        logits: Tensor = self.classifier(z)
        return logits

    @torch.no_grad()
    def fold_temperature(self) -> None:
        """W ← W/T, b ← b/T in the last layer and T ← 1: softmax(logits) is then the reported probability everywhere.

        Only this package reads `config.temperature`. After folding, `pipeline`, `CrossEncoder`, an exported graph and
        `NLI.predict` give one probability. Predictions do not change; values of a game are in the new logits.
        """
        for parameter in self.classifier.out.parameters():
            parameter.div_(self.config.temperature)
        self.config.temperature = 1.0

    def side_by_side(self, hidden: Sequence[Float[Tensor, "batch tokens dim"]]) -> Float[Tensor, "batch tokens wide"]:
        """The states that a game readout reads, of all hidden states of the encoder."""
        return torch.cat([hidden[layer] for layer in self.config.read_layers], dim=-1)


class FeedForward(nn.Module):
    """h^(ℓ) = act(W^(ℓ) h^(ℓ−1) + b^(ℓ)), ℓ = 1 … m, then o = W^(m+1) h^(m) + b^(m+1); dropout before each W.

    A pooled vector is first normalised (LayerNorm) unless the preset is the paper's: Σ_i α_i V_i grows
    with the number of tokens, a mean does not.
    """

    def __init__(self, config: NeuroGameConfig, size: int, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size) if config.classifier_norm else nn.Identity()
        self.dropout = nn.Dropout(float(config.dropout))
        sizes = [size] + [width] * config.classifier_layers
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.activation = nn.GELU() if config.activation == "gelu" else nn.ReLU()
        self.out = nn.Linear(sizes[-1], config.num_labels)

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights; pooling and classifier share it."""
        return self.out.weight.dtype

    def forward(self, z: Float[Tensor, "batch size"]) -> Float[Tensor, "batch labels"]:
        """The logits."""
        h = self.norm(z.to(self.dtype))
        for layer in self.hidden:
            h = self.activation(layer(self.dropout(h)))
        logits: Tensor = self.out(self.dropout(h))
        return logits

    def of_sums(
        self, members: Float[Tensor, "sums terms"], terms: Float[Tensor, "terms size"]
    ) -> Float[Tensor, "sums labels"]:
        """Logits of z = Σ_{i∈C} c_i for many C: `forward(members @ terms)` without dropout, several times faster.

        Centring and the first W are linear, W g(z − mean z)/σ(z) = Σ_{i∈C} W g(c_i − mean c_i)/σ(z): they are
        applied to the terms, once, instead of to every sum. σ² = Σ_{i,j∈C} ⟨c_i, c_j⟩/size needs no sum at all.
        """
        first, scale = self.hidden[0], torch.ones((), dtype=self.dtype, device=terms.device)
        assert isinstance(first, nn.Linear)
        shift: Tensor = first.bias
        weight: Tensor = first.weight
        if isinstance(self.norm, nn.LayerNorm):
            terms = terms - terms.mean(-1, keepdim=True)
            shift, weight = shift + weight @ self.norm.bias, weight * self.norm.weight
            gram = (terms.double() @ terms.double().mT).to(terms.dtype) / terms.shape[-1]
            variance = ((members @ gram) * members).sum(-1, keepdim=True).clamp(min=0)
            scale = (variance + self.norm.eps).rsqrt()
        h = self.activation(torch.addcmul(shift, members @ (terms @ weight.mT), scale))
        for layer in self.hidden[1:]:
            h = self.activation(layer(h))
        logits: Tensor = self.out(h)
        return logits


def classifier_size(size: int, width: int, layers: int, labels: int) -> int:
    """Parameters of m hidden layers and the logits."""
    return (size + 1) * width + (layers - 1) * (width + 1) * width + (width + 1) * labels


def width(config: NeuroGameConfig) -> int:
    """Width of the classifier: as configured, or what makes the head as large as the default NeuroGame head.

    A control that needs no anchor, no gate or no query would otherwise be smaller by a third. "spins" is
    the paper's experiment and keeps the encoder's width.
    """
    if config.classifier_width is not None:
        return config.classifier_width
    dim = config.hidden_size
    if not config.equal_size or config.head == "spins":
        return dim
    layers, labels = config.classifier_layers, config.num_labels
    with torch.device("meta"):
        default = NeuroGameAttention(dim, config.pooling_heads)
        pooling = POOLINGS[config.head](config)
    normalised = 2 * pooling.output_size if config.classifier_norm else 0
    goal = _count(default) + 2 * dim + classifier_size(dim, dim, layers, labels) - _count(pooling) - normalised

    def missed(width: int) -> int:
        return abs(classifier_size(pooling.output_size, width, layers, labels) - goal)

    best = 1
    while missed(best + 1) < missed(best):
        best += 1
    return best


def overhead(model: NeuroGameForSequenceClassification) -> int:
    """Number of parameters on top of the encoder: `overhead(model) / model.num_parameters()` is its share."""
    return _count(model.pooling) + _count(model.classifier)


def _count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
