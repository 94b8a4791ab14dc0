"""From a checked run file to the objects it names: data sets, tokenizer, model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerBase

from neurogame._common.places import is_path
from neurogame.classifier import max_length
from neurogame.data import DataError, PairDataset, load
from neurogame.data.batching import EncodedDataset, encode
from neurogame.data.pairs import concatenate
from neurogame.labels import ID2LABEL, LABEL2ID, LABELS, spelled
from neurogame.modeling import (
    DamForSequenceClassification,
    EsimForSequenceClassification,
    NeuroGameConfig,
    NeuroGameForSequenceClassification,
)
from neurogame.modeling.baselines.word_tokenizer import build_tokenizer
from neurogame.modeling.baselines.word_vectors import read_vectors
from neurogame.modeling.checking import UNLOADABLE
from neurogame.modeling.configuration import special_token_ids
from neurogame.modeling.loading import load_classifier, load_tokenizer
from neurogame.training.config import DataSection, ModelSection, RunConfig
from neurogame.training.distillation import TaughtRows, targets
from neurogame.training.files import ConfigError
from neurogame.training.grounding import GroundedRows, PairRows
from neurogame.training.randomness import derive, generator


@dataclass(frozen=True)
class Splits:
    """The data of a run: training sets joined, dev sets joined, test sets each by itself."""

    train: PairDataset
    dev: PairDataset
    test: tuple[PairDataset, ...]


def read_splits(section: DataSection) -> Splits:
    """Load every data set of the run, before a model is loaded: missing files and unknown labels are reported early."""
    options: dict[str, Any] = section.model_dump(include={"root", "hub", "on_error", "columns", "label_names"})

    def join(names: list[str], limit: int | None) -> PairDataset:
        parts = [load(name, limit=limit, **options) for name in names]
        return parts[0] if len(parts) == 1 else concatenate("+".join(data.name for data in parts), parts)

    train, dev = join(section.train, section.limit), join(section.dev, section.dev_limit)
    test = tuple(load(name, **options) for name in section.test)
    names = [data.name for data in (dev, *test)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"data.dev and data.test name two sets {twice!r}; in a report each needs a name of its own")
    return Splits(train, dev, test)


def build(config: RunConfig, splits: Splits) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model and tokenizer, new parameters drawn from the run's seed."""
    section = config.model
    torch.manual_seed(derive(config.seed, "parameters"))
    try:
        model, tokenizer = (
            _build_word_model(config, splits) if section.kind in ("dam", "esim") else _load_pretrained(section)
        )
    except ConfigError:
        raise
    except UNLOADABLE as error:
        first = " ".join(str(error).split())
        raise ConfigError(f"model: {section.encoder or section.kind} cannot be built: {first:.400}") from error
    if section.attn_implementation is not None:
        model.set_attn_implementation(section.attn_implementation)
    length, most = config.data.max_length, max_length(model, tokenizer)
    if length > most:
        raise ConfigError(f"data.max_length = {length} is more than the {most} positions of {section.encoder}")
    tokenizer.model_max_length = length
    if getattr(model.config, "readout", None) == "game":  # how this run trains the game; its R² is not known yet
        grounding = config.training.grounding
        model.config.readout_grounded, model.config.readout_r2 = grounding is not None, None
        if grounding is not None:
            model.config.readout_removal = grounding.removal
    return model, tokenizer


def _load_pretrained(section: ModelSection) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A NeuroGame head on an encoder, or a plain classifier of transformers; float32, whatever the file has."""
    name = str(section.encoder)
    if not Path(name).is_dir() and is_path(name):
        raise ConfigError(f"model.encoder: no model folder at {name}")
    config = AutoConfig.from_pretrained(name, trust_remote_code=False)
    if section.kind == "transformers":
        for option in section.options:
            if not hasattr(config, option):
                known = ", ".join(key for key in config.to_diff_dict() if key in config.__dataclass_fields__)
                raise ConfigError(f"model.options: {option!r} is no option of {name}; it sets: {known}")
        options = dict(section.options)
        if {spelled(label) for label in (config.id2label or {}).values()} != set(LABELS):  # not trained for NLI yet
            options = {"id2label": dict(ID2LABEL), "label2id": dict(LABEL2ID), **options}
        model = load_classifier(name, dtype=torch.float32, **options)
    else:
        options = {"head": section.head, "preset": section.preset, **section.options}
        if section.attention or not isinstance(config, NeuroGameConfig):
            options["attention"] = section.attention
        if isinstance(config, NeuroGameConfig):
            if config.readout == "ffn" and options.get("readout") == "game":
                return _regrow(name, options), load_tokenizer(name)
            for option, value in options.items():  # only those without parameters may differ
                trained = getattr(config, option, None)
                if option not in ("dropout", "players", "special_token_ids", "temperature") and trained != value:
                    with_another = f"it cannot be trained further with {value!r}"
                    raise ConfigError(f"model.{option}: {name} was trained with {trained!r}; {with_another}")
        model = NeuroGameForSequenceClassification.from_pretrained(name, dtype=torch.float32, **options)
    return model, load_tokenizer(name)


def _regrow(name: str, options: dict[str, Any]) -> NeuroGameForSequenceClassification:
    """The encoder of a trained NeuroGame model under a new game readout; labels and special tokens stay."""
    old = NeuroGameForSequenceClassification.from_pretrained(name, dtype=torch.float32)
    fields = {key: value for key, value in options.items() if key not in ("head", "preset", "attention")}
    if not old.config.special_token_ids:
        fields = {"special_token_ids": special_token_ids(load_tokenizer(name)), **fields}
    config = NeuroGameConfig.from_dict({**old.config.to_dict(), "temperature": 1.0, **fields})
    return NeuroGameForSequenceClassification(config, old.encoder)


def _build_word_model(config: RunConfig, splits: Splits) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """DAM or ESIM on the words of the data; a word of dev or test counts only if it has a vector."""
    section = config.model
    options = {name: value for name, value in section.options.items() if name != "min_count"}
    common: dict[str, Any] = {
        "max_length": config.data.max_length,
        "null_token": section.kind == "dam",
        "min_count": section.options.get("min_count", 1),
    }
    train, source, known = _sentences(splits.train), None, set()
    if section.vectors is not None:
        unseen = set(build_tokenizer(_sentences(splits.dev, *splits.test)).get_vocab())
        source = read_vectors(section.vectors, unseen | set(build_tokenizer(train).get_vocab()))
        known = set(source[0])
        train += sorted(unseen & known)
    tokenizer = build_tokenizer(train, known=known, **common)
    kind = DamForSequenceClassification if section.kind == "dam" else EsimForSequenceClassification
    return kind.from_words(tokenizer, source, seed=derive(config.seed, "parameters"), **options), tokenizer


def _sentences(*sets: PairDataset) -> list[str]:
    return [text for data in sets for pair in data for text in (pair.premise, pair.hypothesis)]


class DroppedWords(PairRows):
    """Training pairs of which each word of the premise is left out with probability `rate`, anew each epoch.

    The regulariser of the authors' script. A premise keeps at least one word; what is dropped is a
    function of (seed, epoch, row). Rows are encoded when they are read, `lengths` are those of the whole pairs.
    """

    def __init__(
        self, pairs: PairDataset, encoded: EncodedDataset, tokenizer: PreTrainedTokenizerBase, rate: float, seed: int
    ) -> None:
        super().__init__(pairs, encoded, tokenizer)
        self.rate, self.seed, self.epoch = rate, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that the draws depend on."""
        self.epoch = epoch

    def __getitem__(self, index: int) -> dict[str, Any]:
        pair = self.pairs[index]
        words = pair.premise.split()
        draw = torch.rand(len(words), generator=generator(self.seed, "words", self.epoch, index))
        kept = [word for word, u in zip(words, draw.tolist(), strict=True) if u >= self.rate]
        premise = " ".join(kept or words[:1])
        length = self.encoded.max_length
        row = dict(self.tokenizer(premise, pair.hypothesis, truncation="longest_first", max_length=length))
        return {**row, "labels": self.encoded[index]["labels"]}


def training_rows(config: RunConfig, splits: Splits, tokenizer: Any, model: PreTrainedModel) -> Any:
    """The training rows of a run, encoded; with word dropout or words per token where the recipe asks for them.

    Labels are numbered as the model has them; data that lack one are a ConfigError.
    """
    rows: Any = encode(splits.train, tokenizer, max_length=config.data.max_length, label2id=model.config.label2id)
    if rows.labels is None:
        raise ConfigError(f"data.train: {splits.train.name} cannot be trained on: {rows.without_labels}")
    if share := config.training.distillation:
        rows = TaughtRows(rows, targets(splits.train, rows.labels, model.config.label2id, share))
    if config.training.grounding is not None:
        return GroundedRows(splits.train, rows, tokenizer)
    rate = config.training.premise_word_dropout
    return DroppedWords(splits.train, rows, tokenizer, rate, config.seed) if rate else rows
