"""Reading saved weights: a trained classifier, an encoder to go under a new head, the tokenizer beside them.

How a model of ours is built around an encoder is in `modeling.model`; `opening` finds the folder.
"""

import inspect
import logging
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import (
    MODEL_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.initialization import no_init_weights
from transformers.utils import logging as transformers_logging

from neurogame.modeling.checking import (
    CONFIG,
    SAFELY,
    UNLOADABLE,
    WEIGHTS,
    ModelError,
    check_folder,
    check_labels,
    no_panic,
    read_json,
    refuse_unused,
    short,
)

Model = TypeVar("Model", bound=PreTrainedModel)
_loading = threading.RLock()  # transformers' hook for bars is one for all threads


def copy_unaligned(model: nn.Module) -> None:
    """Copy tensors that do not start at a multiple of 64 bytes, so that logits are those of the saved model to the bit.

    Loaded tensors lie in the mapped file at whatever address, and matrix products round differently
    where memory is not aligned.
    """
    for parameter in model.parameters():
        if parameter.device.type == "cpu" and parameter.data_ptr() % 64:
            parameter.data = parameter.data.clone()


def sharing(model: Model, *, attention: str | None = None) -> Model:
    """A model that shares every tensor with another, and may compute them in another way.

    Costs milliseconds and no memory to speak of, so one model can be run in two ways at once, from many threads.

    Args:
        model: stays as it is.
        attention: how the encoder computes its attention: "eager", "sdpa" …; None: as `model` does.
    """
    tensors = (*model.parameters(), *model.buffers())
    carried = getattr(model, "explainer", None)  # a fitted game, which belongs to the model itself
    twin = deepcopy(model, {id(kept): kept for kept in (*tensors, carried)})
    if attention is not None:
        encoder = getattr(twin, "encoder", None)
        (encoder if isinstance(encoder, PreTrainedModel) else twin).set_attn_implementation(attention)
    return twin


def load_tokenizer(name: Any, **where: Any) -> PreTrainedTokenizerBase:
    """The tokenizer beside a model; a folder that holds none is an error.

    Where there is none, transformers makes one up from the model's type, with special tokens and no words:
    every text would be a row of [UNK].
    """
    try:
        with no_panic(name):
            tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False, **where)
        words = len(tokenizer) - len(set(tokenizer.all_special_ids))
    except ModelError:
        raise
    except Exception as error:  # tokenizers raises nothing more special
        raise ModelError(f"{name}: tokenizer.json is missing or damaged ({short(error)})") from error
    if words < 1:
        raise ModelError(f"{name} holds no tokenizer; save one beside the model (tokenizer.json): it has no words")
    inputs = tokenizer.model_input_names
    if "input_ids" not in (inputs or ()):
        raise ModelError(f"{name}: the tokenizer's model_input_names must have 'input_ids' in it, got {inputs!r:.80}")
    limit = tokenizer.model_max_length
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 1 <= limit < math.inf:
        raise ModelError(f"{name}: the tokenizer's model_max_length must be a number of tokens, got {limit!r:.40}")
    with no_panic(name):  # parts of it are used for the first time when a text comes
        tokenizer("a", "b", verbose=False)
    return tokenizer


def encoder_class(config: Any) -> type[PreTrainedModel]:
    """The class of transformers behind the configuration of an encoder; what is no encoder is refused."""
    kind = MODEL_MAPPING.get(type(config), None)
    if kind is None or config.is_encoder_decoder or "ForSequenceClassification" in kind.__name__:
        raise ValueError(
            f"model_type = {config.model_type!r} is not an encoder that a head can be put on; "
            "allowed: BERT and its relatives, one vector per token"
        )
    return kind


def without_pooler(config: Any) -> dict[str, bool]:
    """The encoder's own pooler would be parameters that nothing reads; left out where the class allows it."""
    parameters = inspect.signature(encoder_class(config).__init__).parameters
    return {"add_pooling_layer": False} if "add_pooling_layer" in parameters else {}


def load_encoder(name: Any, config: Any, **options: Any) -> tuple[PreTrainedModel, dict[str, Any]]:
    """A pretrained encoder, from a checkpoint of the encoder itself or of a task on it; and the loader's own record.

    What the task left in the file (its head, the pooler) is dropped silently. A checkpoint that
    lacks weights of the encoder, has them in other shapes, or as a pickle, is refused.

    Args:
        name: a folder, or a name on the hub.
        config: configuration of the encoder.
        options: what `from_pretrained` of transformers takes (dtype, device_map, attn_implementation …).
    """
    options |= without_pooler(config)
    with _no_report():
        encoder, record = _load(AutoModel, name, config=config, **options)
    refuse_incomplete(name, encoder, record)
    copy_unaligned(encoder)
    return encoder, record


def load_classifier(name: Any, **options: Any) -> PreTrainedModel:
    """transformers' own classifier of the family: its encoder as the checkpoint has it, its head loaded or new."""
    with _no_report():
        model, record = _load(AutoModelForSequenceClassification, name, **options)
    refuse_incomplete(name, model, record, part=f"{model.base_model_prefix}.")
    copy_unaligned(model)
    return model


def load_trained(name: str, *, fault: str = "cannot be loaded", named: bool = False) -> PreTrainedModel:
    """A classifier as it was trained, in float32: every weight is there, in its shape, and finite.

    Args:
        name: a folder, or a name on the hub.
        fault: what an error says of a name that transformers cannot open.
        named: whether the caller names the labels; if not, those in config.json must not contradict each other.

    Raises:
        ModelError: what is there is no trained classifier.
    """
    try:
        with no_bar():
            model, record = _load(AutoModelForSequenceClassification, name, dtype=torch.float32)
    except ModelError:
        raise
    except UNLOADABLE as error:
        raise ModelError(f"{name} {fault}: {short(error)}") from error
    folder = Path(name)
    if folder.is_dir() and not named:  # as the file has them: a configuration of ours corrects them where it can
        config = read_json(folder / CONFIG)
        check_labels(config.get("id2label"), config.get("label2id"), name)
    wrong = sorted(str(entry[0] if isinstance(entry, tuple | list) else entry) for entry in record["mismatched_keys"])
    if wrong:
        raise ModelError(
            f"{name}: config.json and model.safetensors do not fit: {len(wrong)} weights have another shape, "
            f"the first is {wrong[0]}"
        )
    missing = sorted(record["missing_keys"])
    if missing:
        raise ModelError(
            f"{name}: {len(missing)} weights of {type(model).__name__} are missing, the first is {missing[0]}; "
            "an encoder that was never trained to classify? `neurogame train` can start from it"
        )
    refuse_unused(name, record["unexpected_keys"])
    return model


def load_shipped(folder: Path) -> PreTrainedModel:
    """The classifier of a folder whose every byte has been checked, in float32; as `load_trained` gives it, sooner.

    Names, shapes and numbers are known to fit, so the weights are copied by their names. `from_pretrained` would first
    work out how the weights of every family of models have been named in the past, which takes longer than the copy.

    Args:
        folder: what `embedded.folder` returns.
    """
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    with no_init_weights():
        model = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32, trust_remote_code=False)
    model.load_state_dict(load_file(folder / WEIGHTS))  # float16 in the file, widened as it is copied
    return model.eval()


def _load(auto: Any, name: Any, **options: Any) -> tuple[PreTrainedModel, dict[str, Any]]:
    """What an Auto class makes of a folder or a name, safetensors only, with the record of what was not found there."""
    folder = Path(str(name), options.get("subfolder") or "")
    if folder.is_dir():
        check_folder(folder, auto)
    options |= {"output_loading_info": True, "ignore_mismatched_sizes": True, **SAFELY}
    model, record = auto.from_pretrained(name, **options)
    for key, weight in model.named_parameters():
        if not weight.is_meta and not _is_finite(weight):
            raise ModelError(f"{name}: {key} holds NaN or infinite numbers; its training has probably diverged")
    return model, record


def _is_finite(weight: torch.Tensor) -> bool:
    """Whether all numbers are; a finite sum says so at a fifth of the price of looking at each."""
    weight = weight.detach()
    return bool(weight.sum().isfinite()) or bool(weight.isfinite().all())


def refuse_incomplete(name: Any, model: PreTrainedModel, record: dict[str, Any], part: str = "") -> None:
    """A checkpoint must hold all weights of the encoder (named `part`…, poolers aside), in the shapes it has."""

    def inside(key: str) -> bool:
        return key.startswith(part) and not key.removeprefix(part).startswith("pooler.")

    missing = sorted(filter(inside, record["missing_keys"]))
    if missing:
        total = sum(map(inside, model.state_dict()))
        raise ValueError(
            f"{name} lacks {len(missing)} of the {total} weights of a {model.config.model_type} encoder, "
            f"{missing[0]} among them; is it a checkpoint of another model?"
        )
    for key, shape, needed in record["mismatched_keys"]:
        if inside(key):
            raise ValueError(f"{name}: {key} has shape {list(shape)}, but config.json asks for {list(needed)}")


def quiet() -> None:
    """transformers' own bars and load reports off, for programs that show their own."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


@contextmanager
def _no_report() -> Iterator[None]:
    """Without transformers' table of unused weights: `refuse_incomplete` says what of it matters."""
    logger = logging.getLogger("transformers.modeling_utils")

    def other(entry: logging.LogRecord) -> bool:
        return "LOAD REPORT" not in entry.getMessage()

    logger.addFilter(other)
    try:
        yield
    finally:
        logger.removeFilter(other)


@contextmanager
def no_bar() -> Iterator[None]:
    """Without transformers' bars over a single file, which are over in a moment; others, and its settings, stay."""

    def bar(make: Any, arguments: Any, options: Any) -> Any:
        if options.get("desc") in ("Loading weights", "Writing model shards"):
            options = {**options, "disable": True}
        return make(*arguments, **options) if before is None else before(make, arguments, options)

    hook = getattr(transformers_logging, "set_tqdm_hook", None)
    if hook is None:  # transformers before it had the bar's hook
        yield
        return
    with _loading:
        before = hook(bar)
        try:
            yield
        finally:
            hook(before)
