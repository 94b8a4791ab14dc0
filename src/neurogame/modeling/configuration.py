"""NeuroGameConfig: encoder, head and classifier of an NLI model, as transformers stores and checks them.

Every choice a user makes is a field here; `attention` holds the options of the layer itself
(any field of `AttentionConfig`), on top of `preset`.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from math import inf
from typing import Any, Literal

from transformers import AutoConfig
from transformers.configuration_utils import PreTrainedConfig

from neurogame._common.validation import check_choice, check_count, check_positive
from neurogame.attention import PRESETS, AttentionConfig
from neurogame.labels import ID2LABEL, LABEL2ID
from neurogame.modeling.checking import MOST, UNLOADABLE, ModelError, short
from neurogame.readout import Spins

Head = Literal["neurogame", "spins", "cls", "mean", "softmax", "hopfield", "budget"]
Removal = Literal["delete", "mask", "pad"]  # those of `neurogame.data.removal`
# Configuration fields by the kind of value that they allow; `_check` has those with a rule of their own.
_CHOICES = {
    "head": Head,
    "preset": Literal["default", "paper"],
    "players": Literal["all", "words"],
    "activation": Literal["gelu", "relu"],
    "spins_source": Literal["cls", "tokens"],
    "readout": Literal["ffn", "game"],
    "readout_spins": Spins,
    "readout_removal": Removal,
}
_COUNTS = ("classifier_layers", "spins", "hopfield_steps", "readout_heads", "readout_dim", "readout_width")
_OPTIONAL_COUNTS = ("heads", "classifier_width")
_OF_ENCODER = ("hidden_size", "vocab_size", "num_hidden_layers", "max_position_embeddings")
# Options of `from_pretrained` that say where a model is.
WHERE = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder")
# Fields that a task on top of an encoder leaves in its configuration.
_OF_TASK = ("id2label", "label2id", "num_labels", "problem_type", "architectures", "_name_or_path", "_commit_hash")
MOST_LABELS = 100_000


class NeuroGameConfig(PreTrainedConfig):
    """Configuration of `NeuroGameForSequenceClassification`.

    Args:
        encoder: configuration of a BERT-like encoder, as an object or a dictionary with its `model_type`.
        head: how tokens become one vector. "neurogame" (Algorithm 1), "spins" (the paper's experiment
            head) and the controls "cls", "mean", "softmax", "hopfield", "budget".
        preset: "default" or "paper", of the NeuroGame attention layer.
        heads: heads of the pooling; None: as many as the encoder's attention has.
        attention: options of the layer that override the preset, e.g. {"couplings": "none"}.
        players: "all" real tokens, or "words": special tokens ([CLS], [SEP]) are left out of the pooling.
        special_token_ids: which ids those are; filled in from the tokenizer by `from_pretrained` of an encoder.
        classifier_layers: m, the hidden layers of the feed-forward classifier.
        classifier_width: their width; None: the encoder's, or, with `equal_size`, what makes the parameters
            of every head as many as those of the default NeuroGame head.
        activation: "gelu" or "relu", between the layers.
        classifier_norm: whether the pooled vector is normalised (LayerNorm) before the classifier; None: yes,
            except in the paper's preset and for its "spins", where the classifier is the paper's.
        dropout: before each layer of the classifier.
        equal_size: see `classifier_width`.
        spins, spins_source: of the "spins" head: how many, and whether they read [CLS] or all tokens.
        hopfield_steps, budget: of the controls of that name: updates of the state, and the share of tokens
            whose weights sum to one each.
        readout: "ffn": the head pools the last states, a feed-forward network classifies the pooled vector. "game":
            logits = b + R·v(N), the norm games of `neurogame.readout` read linearly; their values decompose the
            logits. `head`, `heads`, `attention` and the classifier's fields then have no effect.
        readout_layers: whose states the games read, 0 the embeddings; None: four of them, from first to last.
        readout_heads, readout_dim, readout_width: games per text, numbers per token and game, width of the map before.
        readout_mixing: layers in which tokens look at each other before they become players; 0: none.
        readout_std: of R before training. Games that learn on a frozen encoder first (`training.grounding.warm_steps`)
            learn faster from .3; without such a warm start .02 keeps the first logits small enough to train.
        readout_spins: "none", or "gate": V is weighted by the paper's α.
        readout_removal: how words were removed from the texts that a game readout learned to predict: "delete", "mask"
            or "pad"; explanations check and refine in the same way.
        readout_grounded: whether the game was trained to predict the model's logits of incomplete texts; False for a
            new readout; None: not known.
        readout_r2: its R² on held-out coalitions of dev at the end of training; None: not measured.
        temperature: logits are divided by it where probabilities are reported (never in the loss).
    """

    model_type = "neurogame"
    sub_configs = {"encoder": AutoConfig}  # noqa: RUF012

    encoder: dict[str, Any] | PreTrainedConfig | None = None
    head: str = "neurogame"
    preset: str = "default"
    heads: int | None = None
    attention: dict[str, Any] | None = None
    players: str = "all"
    special_token_ids: list[int] | None = None
    classifier_layers: int = 1
    classifier_width: int | None = None
    activation: str = "gelu"
    classifier_norm: bool | None = None
    dropout: float | int = 0.1
    equal_size: bool = True
    spins: int = 128
    spins_source: str = "cls"
    hopfield_steps: int = 3
    budget: float | int = 0.5
    readout: str = "ffn"
    readout_layers: list[int] | None = None
    readout_heads: int = 64
    readout_dim: int = 4
    readout_width: int = 256
    readout_mixing: int = 1
    readout_std: float = 0.3
    readout_spins: str = "none"
    readout_removal: str = "delete"
    readout_grounded: bool | None = None
    readout_r2: float | int | None = None
    temperature: float | int = 1.0
    id2label: dict[int, str] | dict[str, str] | None = field(default_factory=lambda: dict(ID2LABEL))
    label2id: dict[str, int] | dict[str, str] | None = field(default_factory=lambda: dict(LABEL2ID))

    def __post_init__(self, **kwargs: Any) -> None:
        for name in _OF_ENCODER:
            if name in kwargs:
                raise TypeError(f"{name} belongs to the encoder: encoder = {{{name!r}: {kwargs[name]!r}, …}}")
        if not isinstance(self.attention, Mapping | None):
            raise TypeError(f"attention must be a mapping of options of the layer, got {self.attention!r}")
        self.attention = dict(self.attention or {})
        if isinstance(self.encoder, str):  # a folder, or a name on the hub
            try:
                self.encoder = AutoConfig.from_pretrained(self.encoder, trust_remote_code=False)
            except UNLOADABLE as error:
                raise ModelError(
                    f"encoder = {self.encoder!r:.80} is neither a folder here nor on the hub: {short(error)}"
                ) from error
        if isinstance(self.encoder, Mapping | None):
            self.encoder = AutoConfig.for_model(**{"model_type": "bert", **(self.encoder or {})})
        check_labels_number(kwargs)
        if kwargs.get("num_labels") not in (None, len(ID2LABEL)) and self.id2label == ID2LABEL:
            self.id2label = self.label2id = None  # a number of labels without names: transformers makes them up
        super().__post_init__(**kwargs)
        self.id2label, self.label2id = paired_labels(self.id2label, self.label2id)
        self._check()
        if self.classifier_norm is None:
            self.classifier_norm = self.preset != "paper" and self.head != "spins"

    def _check(self) -> None:
        """Raise unless every field has an allowed value."""
        for name, literal in _CHOICES.items():
            check_choice(name, getattr(self, name), literal)
        for name in _COUNTS:
            check_count(name, getattr(self, name), most=MOST.get(name))
        for name in _OPTIONAL_COUNTS:
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        check_count("readout_mixing", self.readout_mixing, least=0)
        for token in self.special_token_ids or ():
            check_count("special_token_ids", token, least=0)
        for name in ("dropout", "budget", "temperature"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise TypeError(f"{name} must be a number, got {number!r}")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout must be in [0, 1), got {self.dropout!r}")
        check_positive("temperature", self.temperature)
        if not 0.0 < self.budget < 1.0:
            raise ValueError(f"budget must be between 0 and 1, the share of tokens that is on, got {self.budget!r}")
        check_positive("readout_std", self.readout_std)
        self._check_readout()
        self.attention_config()

    def _check_readout(self) -> None:
        if self.readout_r2 is not None and not -inf < self.readout_r2 <= 1:
            raise ValueError(
                f"readout_r2 must be a number up to 1, or null where it was not measured; got {self.readout_r2!r}"
            )
        for layer in self.readout_layers or ():
            check_count("readout_layers", layer, least=0)
            if self.readout == "game" and layer > self.num_hidden_layers:
                raise ValueError(f"readout_layers names layer {layer}; the encoder has 0 to {self.num_hidden_layers}")

    def attention_config(self) -> AttentionConfig:
        """The options of the layer: the preset with `attention` on top; unknown or wrong ones are refused here."""
        known = AttentionConfig.__dataclass_fields__
        for name in self.attention or {}:
            if name not in known:
                raise ValueError(f"attention option {name!r} is unknown; allowed: {', '.join(known)}")
        return replace(PRESETS[self.preset], **(self.attention or {}))

    @property
    def hidden_size(self) -> int:
        """Width of the encoder's output."""
        return int(self.encoder.hidden_size)  # type: ignore[union-attr]

    @property
    def vocab_size(self) -> int:
        """Of the encoder."""
        return int(self.encoder.vocab_size)  # type: ignore[union-attr]

    @property
    def num_hidden_layers(self) -> int:
        """Of the encoder."""
        return int(self.encoder.num_hidden_layers)  # type: ignore[union-attr]

    @property
    def max_position_embeddings(self) -> int | None:
        """Of the encoder; None where positions are not counted."""
        return getattr(self.encoder, "max_position_embeddings", None)

    @property
    def pooling_heads(self) -> int:
        """Heads of the pooling layer."""
        return self.heads or int(getattr(self.encoder, "num_attention_heads", 1))

    @property
    def read_layers(self) -> tuple[int, ...]:
        """Whose states a game readout reads: as configured, or the embeddings, two in between, and the last."""
        return read_layers(self.num_hidden_layers, self.readout_layers)

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> Any:
        """The encoder's configuration, where transformers reads text fields and sets the size of the vocabulary."""
        return self.encoder if isinstance(self.encoder, PreTrainedConfig) else self

    def to_dict(self) -> dict[str, Any]:
        """The saved dictionary, without the path that the encoder was loaded from."""
        saved: dict[str, Any] = super().to_dict()
        if isinstance(saved.get("encoder"), dict):
            saved["encoder"].pop("_name_or_path", None)
        return saved

    @classmethod
    def get_config_dict(
        cls, pretrained_model_name_or_path: Any, **kwargs: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The saved dictionary; that of a plain encoder becomes the `encoder` of a new one."""
        where = {key: kwargs[key] for key in WHERE if key in kwargs}
        saved, kwargs = super().get_config_dict(pretrained_model_name_or_path, **kwargs)
        if saved and saved.get("model_type", cls.model_type) != cls.model_type:
            encoder = {key: value for key, value in saved.items() if key not in _OF_TASK}
            saved = {"model_type": cls.model_type, "encoder": encoder}
        given = {**saved, **kwargs}
        if given.get("players", cls.players) == "words" and not given.get("special_token_ids"):
            saved = {**saved, "special_token_ids": _ids_of(pretrained_model_name_or_path, where)}
            kwargs.pop("special_token_ids", None)
        return saved, kwargs

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """From a saved dictionary, with overrides; those are checked like the rest."""
        ours = [key for key in kwargs if key in cls.__dataclass_fields__ and key not in ("encoder", "dtype")]
        overrides = {key: kwargs.pop(key) for key in ours}
        config_dict = {**config_dict, **overrides}
        for one, other in (("id2label", "label2id"), ("label2id", "id2label")):
            if one in overrides and other not in overrides:
                config_dict.pop(other, None)
        return super().from_dict(config_dict, **kwargs)


def read_layers(last: int, chosen: list[int] | None = None) -> tuple[int, ...]:
    """The layers that a game reads: those chosen, or 0, ⅓, ⅔ and all of the way up; for 12 layers 0, 4, 8, 12."""
    return tuple(sorted(set(chosen or (0, round(last / 3), round(2 * last / 3), last))))


def paired_labels(
    id2label: Mapping[Any, Any] | None, label2id: Mapping[Any, Any] | None
) -> tuple[dict[int, str], dict[str, int]]:
    """id2label and label2id, of which one may be missing, or left at the default while the other was given."""
    names = {int(i): str(name) for i, name in (id2label or {}).items()}
    ids = {str(name): int(i) for name, i in (label2id or {}).items()}
    inverse = {name: i for i, name in names.items()}
    if ids == inverse or ids in ({}, LABEL2ID):
        return names, inverse
    if names in ({}, ID2LABEL):
        return {i: name for name, i in ids.items()}, ids
    raise ValueError(f"id2label = {names} and label2id = {ids} contradict each other")


def check_labels_number(options: Mapping[str, Any]) -> None:
    """Refuse a `num_labels` for which transformers would fill the memory with made-up names."""
    number = options.get("num_labels")
    if isinstance(number, int) and number > MOST_LABELS:
        raise ValueError(f"num_labels = {number} is too large; allowed: up to {MOST_LABELS}")


def special_token_ids(tokenizer: Any) -> list[int]:
    """The ids that stand for no word of the text: [CLS], [SEP], [PAD]; an unknown word and [MASK] are words."""
    words = {tokenizer.unk_token_id, tokenizer.mask_token_id}
    return sorted(set(tokenizer.all_special_ids) - words)


def _ids_of(name: Any, where: dict[str, Any]) -> list[int]:
    """`special_token_ids` of the tokenizer beside a model."""
    from neurogame.modeling.loading import load_tokenizer  # it imports torch models, which takes seconds

    try:
        ids = special_token_ids(load_tokenizer(name, **where))
    except ValueError as error:
        raise ValueError(f"players = 'words' needs the special tokens, or special_token_ids: {error}") from error
    if not ids:
        raise ValueError(f"players = 'words': the tokenizer of {name} has no special tokens; use players = 'all'")
    return ids
