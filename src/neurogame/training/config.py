"""A run as a YAML file: what is trained, on what, how. Everything is checked before anything runs.

The sections are pydantic models; an unknown key, a wrong type or an impossible combination is refused
with one line that names the file, the key, what was found and what is allowed.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from transformers import BertConfig

from neurogame._common.printing import printable
from neurogame.attention import AttentionConfig
from neurogame.data.removal import Mode
from neurogame.grounding.coalitions import Law
from neurogame.modeling import DamConfig, EsimConfig, NeuroGameConfig
from neurogame.modeling.baselines import WordPairConfig
from neurogame.modeling.configuration import Head
from neurogame.training.files import ConfigError, read_mapping

Kind = Literal["neurogame", "transformers", "dam", "esim"]
_PRETRAINED = ("neurogame", "transformers")
Schedule = Literal["multistep", "linear", "cosine", "constant", "plateau"]

# Fields of a model's configuration that a run file does not set under `options`: they have a place of their
# own, or are known only when the data have been read, or belong to the result.
_ELSEWHERE = {"encoder", "head", "preset", "attention", "id2label", "label2id", "temperature"}
_ELSEWHERE |= {"vocab_size", "missing_words", "pad_token_id", "readout_removal", "readout_grounded", "readout_r2"}
_OPTIONS: dict[str, dict[str, Any]] = {
    "neurogame": dict(NeuroGameConfig.__annotations__),
    "dam": {**WordPairConfig.__annotations__, **DamConfig.__annotations__, "min_count": int},
    "esim": {**WordPairConfig.__annotations__, **EsimConfig.__annotations__, "min_count": int},
}


class TrainingError(ValueError):
    """A run that had to stop; the message is one line."""


class Section(BaseModel):
    """Frozen; a key that is not a field is an error, not a comment."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class ModelSection(Section):
    """What is trained."""

    kind: Kind = "neurogame"  # "transformers" is AutoModelForSequenceClassification: BERT, RoBERTa, ALBERT …
    encoder: str | None = None  # name or path of a pretrained model: an encoder, or a model to train further
    head: Head = "neurogame"
    preset: Literal["default", "paper"] = "default"
    vectors: str | None = None  # DAM, ESIM: a file of word vectors, or package:NAME
    options: dict[str, Any] = Field(default_factory=dict)  # further fields of the model's configuration
    attention: dict[str, Any] = Field(default_factory=dict)  # options of the NeuroGame layer, over the preset
    # Of the encoder's attention while it is trained; None: as transformers chooses. On a CPU short texts train faster
    # with "eager": the fused kernel's backward pass is slow for them.
    attn_implementation: Literal["eager", "sdpa"] | None = None

    @field_validator("options")
    @classmethod
    def _options(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Those of transformers' models are checked against the model's own configuration, in `build`."""
        kind = info.data.get("kind")
        if kind not in _OPTIONS:
            return value
        return _convert(value, {name: kept for name, kept in _OPTIONS[kind].items() if name not in _ELSEWHERE})

    @field_validator("attention")
    @classmethod
    def _attention(cls, value: dict[str, Any]) -> dict[str, Any]:
        return _convert(value, AttentionConfig.__annotations__)

    @model_validator(mode="after")
    def _complete(self) -> "ModelSection":
        if self.kind in _PRETRAINED and not self.encoder:
            raise ValueError(f"encoder is missing: kind = {self.kind!r} needs the name or path of a pretrained model")
        for name, default, kinds in (
            ("attn_implementation", None, _PRETRAINED),
            ("vectors", None, ("dam", "esim")),
            ("encoder", None, _PRETRAINED),
            ("attention", {}, ("neurogame",)),
            ("head", "neurogame", ("neurogame",)),
            ("preset", "default", ("neurogame",)),
        ):
            if self.kind not in kinds and getattr(self, name) not in (default, ""):
                belong = "belong" if name == "vectors" else "belongs"
                raise ValueError(f"{name} {belong} to kind = {' or '.join(map(repr, kinds))}, not {self.kind!r}")
        self._check_model()
        read = {"neurogame": set(self.attention), "spins": {"samples", "f", "tilt", "estimator"}}.get(self.head, set())
        unread = sorted(set(self.attention) - read)
        if unread:
            raise ValueError(f"attention.{unread[0]} has no effect on head = {self.head!r}")
        return self

    def _check_model(self) -> None:
        """The model's own configuration knows what it accepts; the encoder's sizes do not matter for that."""
        options = {name: value for name, value in self.options.items() if name != "min_count"}
        try:
            if self.kind == "neurogame":
                NeuroGameConfig(
                    encoder=BertConfig(), head=self.head, preset=self.preset, attention=self.attention, **options
                )
            elif self.kind in ("dam", "esim"):
                (DamConfig if self.kind == "dam" else EsimConfig)(**options)
        except TypeError as error:
            raise ValueError(str(error)) from None
        if self.options.get("min_count", 1) < 1:
            raise ValueError(f"options.min_count must be at least 1, got {self.options['min_count']}")


class DataSection(Section):
    """What it is trained and chosen on: names ("snli/train") or files, under `root` if they are names."""

    train: list[str]
    dev: list[str]
    test: list[str] = Field(default_factory=list)  # evaluated once, when training has ended
    root: str | None = None
    hub: bool = False  # whether a name that is not found locally may be downloaded
    columns: dict[str, str] | None = None
    label_names: list[str] | dict[str, str] | None = None
    on_error: Literal["raise", "skip"] = "raise"
    limit: int | None = Field(None, ge=1)  # rows of each training set
    dev_limit: int | None = Field(None, ge=1)
    max_length: int = Field(128, ge=4)

    @field_validator("train", "dev", "test", mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("train", "dev")
    @classmethod
    def _named(cls, value: list[str]) -> list[str]:
        if not value:
            raise ValueError("at least one data set is needed")
        return value


class GammaSection(Section):
    """The temperature γ over the run: "learned" per head, "constant" at `start`, "annealed" from `start` to `end`."""

    schedule: Literal["learned", "constant", "annealed"] = "learned"
    start: float | None = Field(None, gt=0)  # None: where the preset starts
    end: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _complete(self) -> "GammaSection":
        if self.schedule == "annealed" and (self.start is None or self.end is None):
            raise ValueError("annealed needs start and end")
        if self.schedule != "annealed" and self.end is not None:
            raise ValueError(f"end belongs to schedule = 'annealed', not {self.schedule!r}")
        return self


class GroundingSection(Section):
    """The grounded game, for a model with a game readout: what `training.grounding` adds to the cross-entropy."""

    weight: float = Field(0.15, ge=0)  # λ_g: the game predicts what the model says of x_C
    masked: float = Field(0.4, ge=0)  # λ_m: the model learns to read incomplete texts
    coalitions: int = Field(2, ge=2, multiple_of=2)  # per text and step; each comes with its complement
    share: float = Field(1.0, gt=0, le=1)  # of the rows of a batch that are read incomplete too
    law: Law = "mixed"
    removal: Mode = "delete"
    two_sided: bool = False  # whether the answers on x_C are also moved towards the game
    warm_steps: int = Field(1000, ge=0)  # of fitting the games to the frozen model that the run starts from; 0: none
    warm_texts: int = Field(4000, ge=32)  # training texts that takes
    polish_steps: int = Field(0, ge=0)  # of fitting the game to the trained model, whose encoder is frozen then
    polish_texts: int = Field(4000, ge=32)  # training texts that takes
    dev_pairs: int = Field(400, ge=1)  # of dev, for coalition_r2


class TrainingSection(Section):
    """How it is trained. The defaults fine-tune a small encoder; configs/paper-*.yaml hold the paper's recipe."""

    optimizer: Literal["adamw", "adagrad"] = "adamw"
    epochs: float = Field(3.0, gt=0)
    max_steps: int | None = Field(None, ge=1)  # optimiser steps; overrides epochs
    batch_size: int = Field(32, ge=1)  # per process
    accumulation: int = Field(1, ge=1)
    eval_batch_size: int = Field(64, ge=1)
    learning_rate: float = Field(1e-4, gt=0)
    head_multiplier: float = Field(1.0, gt=0)  # learning rate of everything that is not the encoder
    weight_decay: float = Field(0.01, ge=0)
    schedule: Schedule = "linear"  # "plateau": × decay at every evaluation that is not the best so far
    warmup: float = Field(0.1, ge=0, lt=1)  # share of the steps
    milestones: list[float] = Field(default_factory=list)  # epochs after which multistep multiplies the rate by `decay`
    decay: float = Field(0.1, gt=0, lt=1)  # of multistep and plateau
    clip: float = Field(1.0, ge=0)  # 0: no clipping
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    distillation: float = Field(0.0, ge=0, le=1)  # share of a teacher, the pairs' column "probabilities", in the labels
    mixup: float = Field(0.0, ge=0)  # α of Beta(α, α); 0: off
    mixup_on: Literal["pooled", "embeddings"] = "pooled"
    ema: float = Field(0.0, ge=0, lt=1)  # decay of the averaged weights that are evaluated and saved; 0: off
    ema_warmup: bool = True  # decay min(ema, (1 + t)/(10 + t)): a short run does not average its random start
    premise_word_dropout: float = Field(0.0, ge=0, lt=1)
    encoder_dropout: float | None = Field(None, ge=0, lt=1)  # within the encoder; None: as it was pretrained with
    freeze: Literal["nothing", "embeddings", "encoder"] = "nothing"
    freeze_layers: int = Field(0, ge=0)  # lowest layers of the encoder that stay as they are; embeddings too
    gamma: GammaSection = GammaSection()
    grounding: GroundingSection | None = None  # off
    patience: int | None = Field(None, ge=1)  # evaluations without a better one before it stops
    evaluate_every: int | None = Field(None, ge=1)  # steps; None: after each epoch
    checkpoint_every: int | None = Field(None, ge=1)  # steps; None: after each epoch
    keep: int = Field(2, ge=1)  # checkpoints
    bf16: bool = False
    gradient_checkpointing: bool = False
    tensorboard: bool = True
    calibrate: bool = True  # fit the temperature of the probabilities on dev

    @model_validator(mode="after")
    def _consistent(self) -> "TrainingSection":
        if self.schedule == "multistep" and not self.milestones:
            raise ValueError("schedule = 'multistep' needs milestones, the epochs after which the rate falls")
        if self.schedule != "multistep" and self.milestones:
            raise ValueError(f"milestones belong to schedule = 'multistep', not {self.schedule!r}")
        if any(not 0 < m < self.epochs for m in self.milestones):
            raise ValueError(f"milestones {self.milestones} must lie within the {self.epochs:g} epochs")
        if self.schedule == "plateau" and self.warmup > 0:
            raise ValueError("schedule = 'plateau' has no warm-up; set warmup = 0")
        return self


class RunConfig(Section):
    """One run."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    output: str | None = None  # folder of the run; None: runs/NAME
    seed: int = Field(0, ge=0, lt=2**31)
    model: ModelSection
    data: DataSection
    training: TrainingSection = TrainingSection()

    @field_validator("model", "data", "training", mode="before")
    @classmethod
    def _empty(cls, value: Any) -> Any:
        """A section all of whose lines are comments."""
        return {} if value is None else value

    @property
    def folder(self) -> Path:
        """Where everything of this run is written."""
        return Path(self.output) if self.output else Path("runs") / self.name

    @model_validator(mode="after")
    def _consistent(self) -> "RunConfig":
        model, training, kind = self.model, self.training, f"kind = {self.model.kind!r}"
        mixup_on = training.mixup_on if training.mixup > 0 else None
        if model.kind == "transformers" and mixup_on == "pooled":
            raise ValueError(f"training.mixup_on = 'pooled' needs a model of ours; use 'embeddings' for {kind}")
        if model.kind not in _PRETRAINED:
            if mixup_on == "embeddings":
                raise ValueError(f"training.mixup_on = 'embeddings' needs an encoder; use 'pooled' for {kind}")
            for name, default in (("gradient_checkpointing", False), ("encoder_dropout", None)):
                if getattr(training, name) != default:
                    raise ValueError(f"training.{name} needs an encoder, not {kind}")
        if training.grounding is not None:
            self._check_grounding()
        spins = (model.kind, model.head, model.options.get("readout", "ffn")) == ("neurogame", "neurogame", "ffn")
        if training.gamma != GammaSection() and not spins:
            raise ValueError(f"training.gamma needs the neurogame head, not {kind}, head = {model.head!r}")
        return self

    def _check_grounding(self) -> None:
        """A game to ground, and nothing that changes the words under it."""
        model, training = self.model, self.training
        if model.kind != "neurogame" or model.options.get("readout") != "game":
            raise ValueError("training.grounding needs a game to ground: model.options.readout = 'game'")
        if model.options.get("players") != "words":
            raise ValueError("training.grounding needs words as players: model.options.players = 'words'")
        if training.mixup > 0 or training.premise_word_dropout > 0:
            other = "mixup" if training.mixup > 0 else "premise_word_dropout"
            raise ValueError(f"training.grounding and training.{other} exclude each other: both change the text")


def read_config(path: str | Path, overrides: Iterable[str] = ()) -> RunConfig:
    """Read and check a run file.

        config = read_config("configs/toy.yaml", ["training.epochs=1", "seed=3"])

    Args:
        path: YAML.
        overrides: "key.of.section=value", values as YAML, on top of the file.

    Returns:
        The checked configuration, defaults filled in.

    Raises:
        ConfigError: if the file cannot be read, or a setting is unknown or not allowed.
    """
    return parse_config(read_mapping(path, overrides), str(path))


def parse_config(content: dict[str, Any], source: str = "config") -> RunConfig:
    """Check the content of a run file; a ConfigError names `source`, the first mistake, and how many more there are."""
    try:
        return RunConfig.model_validate(content)
    except ValidationError as error:
        mistakes = error.errors()
        first = mistakes[0]
        where = printable(".".join(str(part) for part in first["loc"])) or "run"
        given = first.get("input")
        shown = f", got {given!r:.60}" if isinstance(given, str | int | float | bool) else ""
        more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            message = f"unknown key; allowed: {', '.join(_allowed(first['loc'][:-1]))}"
            shown = ""
        raise ConfigError(f"{source}: {where}: {message}{shown}{more}") from None


def _allowed(location: tuple[Any, ...]) -> list[str]:
    """The fields of the section at `location`."""
    section: Any = RunConfig
    for part in location:
        section = section.model_fields[part].annotation
        section = next(
            (kind for kind in get_args(section) if kind is not type(None)), section
        )  # of one that may be off
    return list(section.model_fields)


def _convert(options: dict[str, Any], kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Each option as its annotation has it ("1e-5" is a string in YAML, a number here)."""
    typed = {}
    for name, value in options.items():
        if name not in kinds:
            raise ValueError(f"{name!r} is unknown; allowed: {', '.join(kinds)}")
        try:
            typed[name] = TypeAdapter(kinds[name]).validate_python(value)
        except ValidationError as error:
            raise ValueError(f"{name}: {error.errors()[0]['msg']}, got {value!r:.60}") from None
    return typed


def dump_config(config: RunConfig) -> str:
    """The run file that reproduces this run, every default written out."""
    return yaml.safe_dump(config.model_dump(), sort_keys=False, allow_unicode=True)
