"""Reading saved weights: a trained classifier, an encoder to go under a new head, the tokenizer beside them.

How a model of ours is built around an encoder is in `modeling.model`; `opening` finds the folder.
"""

import inspect
import logging
import math
import threading
from collections.abc import Callable, Iterator
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
    UNLOADABLE,
    WEIGHTS,
    ModelError,
    check_folder,
    check_labels,
    no_panic,
    read_json,
    refuse_pickles,
    refuse_unused,
    short,
)

Model = TypeVar("Model", bound=PreTrainedModel)
_loading = threading.RLock()  # the hook for progress bars is global


def load_exactly(from_pretrained: Callable[..., Any], name: Any, *args: Any, **options: Any) -> Any:
    """`from_pretrained(name, …)` of a class of ours, safetensors only; the logits equal those of the saved model."""
    if name is not None:
        refuse_pickles(Path(str(name), options.get("subfolder") or ""))
    loaded = from_pretrained(name, *args, **{**options, "use_safetensors": True})
    copy_unaligned(loaded[0] if isinstance(loaded, tuple) else loaded)
    return loaded


def copy_unaligned(model: nn.Module) -> None:
    """Copy tensors that do not start at a multiple of 64 bytes, so that logits equal those of the saved model exactly.

    Loaded tensors lie in the mapped file at any address, and matrix products round differently on unaligned memory.
    """
    for parameter in model.parameters():
        if parameter.device.type == "cpu" and parameter.data_ptr() % 64:
            parameter.data = parameter.data.clone()


def sharing(model: Model, *, attention: str | None = None) -> Model:
    """A copy of a model that shares its tensors, with another implementation of attention ("eager", "sdpa" …) if given.

    Costs milliseconds and little memory, so that one model can run both ways at once, from many threads.
    """
    tensors = (*model.parameters(), *model.buffers())
    explainer = getattr(model, "explainer", None)
    twin = deepcopy(model, {id(shared): shared for shared in (*tensors, explainer)})
    if attention is not None:
        encoder = getattr(twin, "encoder", None)
        (encoder if isinstance(encoder, PreTrainedModel) else twin).set_attn_implementation(attention)
    return twin


def load_tokenizer(name: Any, **where: Any) -> PreTrainedTokenizerBase:
    """The tokenizer beside a model; a folder without one is an error.

    transformers would make one up from the model's type, with special tokens and no words: every text would be [UNK].
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
    with no_panic(name):  # parts of it are built when the first text is encoded
        tokenizer("a", "b", verbose=False)
    return tokenizer


def without_pooler(config: Any) -> dict[str, bool]:
    """Options that leave out the encoder's own pooler, whose parameters nothing reads; a ValueError if no encoder."""
    kind = MODEL_MAPPING.get(type(config), None)
    if kind is None or config.is_encoder_decoder or "ForSequenceClassification" in kind.__name__:
        raise ValueError(
            f"model_type = {config.model_type!r} is not an encoder that a head can be put on; "
            "allowed: BERT and its relatives, one vector per token"
        )
    parameters = inspect.signature(kind.__init__).parameters
    return {"add_pooling_layer": False} if "add_pooling_layer" in parameters else {}


def load_encoder(name: Any, config: Any, **options: Any) -> tuple[PreTrainedModel, dict[str, Any]]:
    """A pretrained encoder, from its own checkpoint or from that of a task on it; and transformers' loading record.

    What the task left in the file (its head, the pooler) is dropped silently. A checkpoint that lacks weights of the
    encoder, has them in other shapes, or as a pickle, is refused. `options` are those of `from_pretrained`.
    """
    return _load_base(AutoModel, name, config=config, **options, **without_pooler(config))


def load_classifier(name: Any, **options: Any) -> PreTrainedModel:
    """transformers' own classifier of the family: its encoder as the checkpoint has it, its head loaded or new."""
    return _load_base(AutoModelForSequenceClassification, name, **options)[0]


def _load_base(auto: Any, name: Any, **options: Any) -> tuple[PreTrainedModel, dict[str, Any]]:
    """A model whose encoder must be complete in the checkpoint."""
    with _no_report():
        model, record = _load(auto, name, **options)
    refuse_incomplete(name, model, record, part="" if auto is AutoModel else f"{model.base_model_prefix}.")
    copy_unaligned(model)
    return model, record


def load_trained(name: str, *, fault: str = "cannot be loaded", named: bool = False) -> PreTrainedModel:
    """A trained classifier, in float32: every weight is there, in its shape, and finite; a ModelError otherwise.

    Args:
        name: a folder, or a name on the hub.
        fault: what an error says of a name that transformers cannot open.
        named: whether the caller names the labels; if not, those in config.json must not contradict each other.
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
    """The classifier of `embedded.folder`, whose checksums have been verified; equal to `load_trained`'s, but faster.

    Names, shapes and numbers are known to fit, so the weights are copied by name. `from_pretrained` would first work
    out how the weights of every family of models were named in the past, which takes longer than the copy.
    """
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    with no_init_weights():
        model = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32, trust_remote_code=False)
    model.load_state_dict(load_file(folder / WEIGHTS))  # float16 in the file, widened as it is copied
    return model.eval()


def _load(auto: Any, name: Any, **options: Any) -> tuple[PreTrainedModel, dict[str, Any]]:
    """A model by an Auto class, safetensors only, every weight finite; and transformers' loading record."""
    folder = Path(str(name), options.get("subfolder") or "")
    if folder.is_dir():
        check_folder(folder, auto)
    options |= {"use_safetensors": True, "trust_remote_code": False}
    options |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
    model, record = auto.from_pretrained(name, **options)
    for key, weight in model.named_parameters():
        if not weight.is_meta and not _is_finite(weight):
            raise ModelError(f"{name}: {key} holds NaN or infinite numbers; its training has probably diverged")
    return model, record


def _is_finite(weight: torch.Tensor) -> bool:
    """Whether all numbers are finite; a finite sum proves it in a fifth of the time."""
    weight = weight.detach()
    return bool(weight.sum().isfinite()) or bool(weight.isfinite().all())


def refuse_incomplete(name: Any, model: PreTrainedModel, record: dict[str, Any], part: str = "") -> None:
    """Refuse a checkpoint that lacks weights of the encoder (named `part`…, poolers aside) or has other shapes."""

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
    """Switch off transformers' progress bars and load reports, for programs that show their own."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


@contextmanager
def _no_report() -> Iterator[None]:
    """Without transformers' table of unused weights; `refuse_incomplete` reports what matters of it."""
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
    """Without transformers' progress bars over a single file; other bars and its settings stay."""

    def bar(make: Any, arguments: Any, options: Any) -> Any:
        if options.get("desc") in ("Loading weights", "Writing model shards"):
            options = {**options, "disable": True}
        return make(*arguments, **options) if before is None else before(make, arguments, options)

    hook = getattr(transformers_logging, "set_tqdm_hook", None)
    if hook is None:  # older versions of transformers
        yield
        return
    with _loading:
        before = hook(bar)
        try:
            yield
        finally:
            hook(before)
