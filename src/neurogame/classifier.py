"""`Classifier`: a model with its tokenizer and the names of its labels, and its predictions.

    pairs ──encode──▶ token ids ──batches──▶ tensors on the device ──forward──▶ logits ──prediction──▶ Prediction

Any sequence classifier of transformers will do; labels come out by name, as the model's configuration has them.
`opening` opens one from disk or the hub, `explanation` explains its predictions, `nli` offers both as `predict` and
`explain`.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from neurogame import labels
from neurogame._common.types import Float, Tensor
from neurogame._common.validation import check_count
from neurogame.data.batching import EncodedDataset, collate, encode, sorted_batches
from neurogame.data.pairs import Pair
from neurogame.modeling.checking import ModelError, check_labels, no_panic
from neurogame.outputs import Output, Outputs, output_of

MAX_LENGTH = 128  # tokens of a pair, where neither the tokenizer nor the model says how many it takes
Progress = Callable[[int], object]  # called with the number of pairs just done


@dataclass(frozen=True)
class Prediction:
    """The prediction for one text; probabilities and logits by label name, in the model's order.

    `neurogame.outputs` says what they mean for each kind of model. Of a softmax, `label` is the most probable label; of
    one logit the label or "not" the label; of a multi-label model all its labels, with commas, or "none"; of a
    regression the name of the (first) score, which has no probability: `probabilities` is empty.
    """

    label: str
    probabilities: dict[str, float]  # softmax or sigmoid of logits/temperature
    logits: dict[str, float]
    truncated: bool = False  # whether the text was longer than the model reads

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


class Classifier:
    """A classifier of sentence pairs, or of single texts: model, tokenizer, labels.

    Args:
        model: any sequence classifier of transformers, or an ONNX graph (`neurogame.export.runtime.OnnxModel`).
        tokenizer: its tokenizer.
        name: what reports and errors call it.
        label_names: names of the logits in order, where the model's configuration does not know them
            ("LABEL_0"); they become part of the configuration, and are saved with it.
        explainer: a grounded game that was fitted to this model (`neurogame.Explainer`); "decision" then plays it.
        output: what the logits mean, see `neurogame.outputs`; None: as the explainer or the configuration says.

    Attributes:
        labels: names of the logits in order; those of NLI as `neurogame.labels` spells them.
        outputs: the labels, and what the logits mean.
        max_length: tokens of a pair, special ones included; longer pairs are truncated.
        folder: where it was opened; None if it was not, or came from the hub.

    Raises:
        ModelError: labels that contradict each other, or do not fit the number of logits.
    """

    folder: Path | None = None

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str = "model",
        label_names: Sequence[str] | None = None,
        explainer: Any = None,
        output: Output | None = None,
    ) -> None:
        self.model, self.tokenizer, self.name = model.eval(), tokenizer, name
        self.labels = _names(model, label_names, name)
        self._output = output
        config = model.config
        if label_names is not None and isinstance(model, nn.Module):
            config.id2label = dict(enumerate(self.labels))
            config.label2id = {label: i for i, label in enumerate(self.labels)}
        self.max_length = max_length(model, tokenizer)
        if explainer is not None:
            self.explainer = explainer

    @property
    def explainer(self) -> Any:
        """The grounded game that was fitted to this model, see `neurogame.ground`; the model carries it."""
        return getattr(self.model, "explainer", None)

    @explainer.setter
    def explainer(self, value: Any) -> None:
        if value is not None:
            value.check(self.model, self.name)
        self.model.explainer = value

    @property
    def outputs(self) -> Outputs:
        """The labels, and what the logits mean."""
        fitted = None if self.explainer is None else self.explainer.output
        return Outputs(self.labels, self._output or fitted or output_of(self.model.config))

    @property
    def temperature(self) -> float:
        """Probabilities are softmax(logits/temperature); fitted on dev after training, 1 if it was not.

        It can be set, and is saved with the model's configuration.
        """
        value = getattr(self.model.config, _temperature_field(self.model), None)
        return 1.0 if value is None else _check_temperature(value, self.name)

    @temperature.setter
    def temperature(self, value: float) -> None:
        setattr(self.model.config, _temperature_field(self.model), _check_temperature(value, self.name))

    @property
    def parameters(self) -> int:
        """Total number of parameters, trained or frozen."""
        return int(self.model.num_parameters())

    def encode(self, pairs: Sequence[tuple[str, str]]) -> EncodedDataset:
        """Token ids of pairs, the longer sentence truncated first to `max_length` tokens in all.

        Args:
            pairs: (premise, hypothesis), at least one.

        Returns:
            One row per pair, in order; `batches` pads them.
        """
        with no_panic(self.name):
            return encode([Pair(p, h) for p, h in pairs], self.tokenizer, max_length=self.max_length)

    def batches(self, rows: EncodedDataset, batch_size: int) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
        """Padded batches of similar length on the model's device, the longest first: (row numbers, inputs).

        Args:
            rows: what `encode` returned.
            batch_size: rows per batch.

        Returns:
            An iterator; the row numbers say where each answer belongs.
        """
        pad = collate(self.tokenizer)
        for batch in sorted_batches(rows.lengths, batch_size):
            yield batch, self.on_device(pad([rows[i] for i in batch]))

    def on_device(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The inputs where the model is."""
        return {name: value.to(self.model.device) for name, value in inputs.items()}

    def forward(self, inputs: Mapping[str, Tensor], **options: Any) -> Any:
        """The model's own output for a batch of its inputs.

        Raises:
            ModelError: the tokenizer has tokens that the model has no embedding for.
        """
        with self.own_tokens():
            return self.model(**model_inputs(self.model, inputs), **options)

    @contextmanager
    def own_tokens(self) -> Iterator[None]:
        """Around a forward pass: a token without an embedding is an error that names the likely cause."""
        try:
            yield
        except IndexError as error:
            raise ModelError(
                f"{self.name} has no embedding for a token of its tokenizer; does that belong to another model?"
            ) from error

    def logits(
        self, pairs: Sequence[tuple[str, str]], *, batch_size: int = 32, progress: Progress | None = None
    ) -> Float[Tensor, "pairs labels"]:
        """Raw logits in the order of `labels`, one row per pair; `progress` is called after each batch.

        Args:
            pairs: (premise, hypothesis).
            batch_size: pairs per forward pass; the answers do not depend on it.
            progress: called with the number of pairs just done.

        Returns:
            [pairs, labels], float32 on the CPU.

        Raises:
            TypeError: an entry is not two strings.
            ModelError: logits that are NaN or infinite.
        """
        return self._run(check_pairs(pairs), batch_size, progress)[0]

    def predictions(
        self, pairs: Iterable[tuple[str, str]], *, batch_size: int = 32, progress: Progress | None = None
    ) -> list[Prediction]:
        """The labels of pairs, in order.

        Args:
            pairs: (premise, hypothesis).
            batch_size: pairs per forward pass; probabilities do not depend on it beyond rounding, 2.5e-6.
            progress: called with the number of pairs just done.

        Returns:
            One prediction per pair.

        Raises:
            TypeError: an entry is not two strings.
            ModelError: logits that are NaN or infinite.

        Example:
            >>> [p.label for p in nli.predictions([("It rains.", "It is dry.")])]  # doctest: +SKIP
            ['contradiction']
        """
        texts = check_pairs(pairs)
        logits, truncated = self._run(texts, batch_size, progress)
        return [self.prediction(row, truncated=i in truncated) for i, row in enumerate(logits)]

    def prediction(self, logits: Float[Tensor, "labels"], *, truncated: bool = False) -> Prediction:
        """The logits of one text as label, probabilities and logits by name.

        Args:
            logits: [labels].
            truncated: whether the text was longer than the model reads.

        Returns:
            With softmax(logits/temperature) as probabilities; see `Prediction` for other kinds of models.
        """
        outputs = self.outputs
        shares = outputs.probabilities(logits, self.temperature).tolist() if outputs.decides else ()
        return Prediction(
            outputs.label(logits),
            dict(zip(self.labels, shares, strict=outputs.decides)),
            dict(zip(self.labels, logits.tolist(), strict=True)),
            truncated,
        )

    def _run(
        self, pairs: list[tuple[str, str]], batch_size: int, progress: Progress | None
    ) -> tuple[Tensor, frozenset[int]]:
        """Logits, and which pairs were longer than the model reads."""
        check_count("batch_size", batch_size)
        logits = torch.empty(len(pairs), len(self.labels))
        if not pairs:
            return logits, frozenset()
        rows = self.encode(pairs)
        self.model.eval()
        for batch, inputs in self.batches(rows, batch_size):
            with torch.inference_mode():
                answers = self.forward(inputs).logits.float().cpu()
            logits[batch] = answers  # a plain tensor, which callers may change or differentiate through
            if progress is not None:
                progress(len(batch))
        bad = (~logits.isfinite()).any(-1).nonzero().flatten().tolist()
        if bad:
            raise ModelError(
                f"the logits of {self.name} are NaN or infinite for {len(bad)} of {len(pairs)} pairs (first: pair "
                f"{bad[0]}); its training has probably diverged, or its numbers overflow"
            )
        return logits, rows.cut


def is_single(nli: Classifier) -> bool:
    """Whether single texts are explained, not pairs: the classifier's explainer was fitted on such."""
    return nli.explainer is not None and nli.explainer.parts == 1


def model_inputs(model: Any, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inputs, without token_type_ids where the model does not take them."""
    if "token_type_ids" not in inputs or not isinstance(model, nn.Module):
        return dict(inputs)
    known = inspect.signature(model.forward).parameters
    if "token_type_ids" in known or "input_ids" not in known:  # a wrapper passes on all its inputs
        return dict(inputs)
    return {name: value for name, value in inputs.items() if name != "token_type_ids"}


def max_length(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """The longest pair, in tokens, that both can take: the tokenizer's limit, within the model's positions.

    Position embeddings with a row for padding start counting after it (RoBERTa, MPNet: 514 rows for 512 tokens). An
    exported model has its limit in its configuration.
    """
    config = model.config
    if not isinstance(model, nn.Module):
        return int(config.max_length)
    rows = [getattr(part, "max_position_embeddings", None) for part in (config, getattr(config, "encoder", None))]
    positions = next((row for row in rows if isinstance(row, int) and row > 0), None)
    if positions is not None:
        for name, module in model.named_modules():
            if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
                positions -= 0 if module.padding_idx is None else module.padding_idx + 1
                break
    limit = int(tokenizer.model_max_length)
    known = [most for most in (limit if limit < 10**9 else None, positions) if most is not None]  # 1e30: no limit
    return min(known, default=MAX_LENGTH)


def check_pairs(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs of strings as tuples; a TypeError where an entry is not two strings, a ValueError for invalid Unicode."""
    checked: list[tuple[str, str]] = []
    for i, pair in enumerate(pairs):
        ordered = isinstance(pair, Iterable) and not isinstance(pair, str | Mapping | Set)
        texts = tuple(pair) if ordered else ()
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"pair {i} must be (premise, hypothesis), two strings; got {pair!r:.80}")
        for text in texts:
            check_unicode(f"pair {i}", text)
        checked.append((texts[0], texts[1]))
    return checked


def check_unicode(name: str, text: str) -> None:
    """Raise for half of a surrogate pair, which no tokenizer can read."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is not valid Unicode (half of a surrogate pair): {text!r:.80}") from None


def _temperature_field(model: PreTrainedModel) -> str:
    """The field of the configuration that has the temperature.

    transformers takes "temperature" for an option of text generation: where the configuration does not declare it
    (BERT …), it is dropped in reading and refused in saving. Our configurations declare it.
    """
    declared = "temperature" in getattr(type(model.config), "__dataclass_fields__", {})
    return "temperature" if declared else "label_temperature"


def _check_temperature(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ModelError(f"the temperature of {name} must be a number > 0, got {value!r}")
    return float(value)


def _names(model: PreTrainedModel, given: Sequence[str] | None, owner: str) -> tuple[str, ...]:
    """Names of the logits: as given, or the configuration's, spelled as we do where they are NLI labels."""
    if isinstance(given, str):
        raise TypeError(f"label_names must be a list of names, got the string {given!r:.60}")
    if given is None:
        check_labels(model.config.id2label, model.config.label2id, owner)
    id2label = model.config.id2label or {}
    names = [str(name) for name in (given if given is not None else (id2label[i] for i in sorted(id2label)))]
    if len(names) != model.config.num_labels:
        raise ModelError(f"{owner}: {len(names)} label names for {model.config.num_labels} logits: {', '.join(names)}")
    spelled = [labels.spelled(name) for name in names]
    if len(set(spelled)) < len(spelled):
        raise ModelError(f"{owner}: label names must differ, got {', '.join(names)}")
    return tuple(spelled)
