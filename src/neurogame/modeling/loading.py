"""Loading what others saved: an encoder to go under a new head, its tokenizer, and weights that compute as they did.

How a model of ours is built around them is in `modeling.model`.
"""

import inspect
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from transformers import (
    MODEL_MAPPING,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging


def copy_unaligned(model: nn.Module) -> None:
    """Copy tensors that do not start at a multiple of 64 bytes, so that logits are those of the saved model to the bit.

    Loaded tensors lie in the mapped file at whatever address, and matrix products round differently
    where memory is not aligned.
    """
    for parameter in model.parameters():
        if parameter.device.type == "cpu" and parameter.data_ptr() % 64:
            parameter.data = parameter.data.clone()


def load_tokenizer(name: Any, **where: Any) -> PreTrainedTokenizerBase:
    """The tokenizer beside a model; a folder that holds none is an error.

    Where there is none, transformers makes one up from the model's type, with special tokens and no words:
    every text would be a row of [UNK].
    """
    try:
        found = AutoTokenizer.from_pretrained(name, **where)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{name} has no tokenizer that can be loaded: {' '.join(str(error).split()):.200}") from error
    if len(found) <= len(set(found.all_special_ids)):
        raise ValueError(f"{name} holds no tokenizer; save one beside the model")
    return found


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

    What the task left in the file (its head, the pooler) is dropped without a word. A checkpoint that
    lacks weights of the encoder, or has them in other shapes, is refused.

    Args:
        name: a folder, or a name on the hub.
        config: configuration of the encoder.
        options: what `from_pretrained` of transformers takes (dtype, device_map, attn_implementation …).
    """
    options |= {"output_loading_info": True, "ignore_mismatched_sizes": True, **without_pooler(config)}
    with _no_report():
        encoder, record = AutoModel.from_pretrained(name, config=config, **options)
    refuse_incomplete(name, encoder, record)
    copy_unaligned(encoder)
    return encoder, record


def load_classifier(name: Any, **options: Any) -> PreTrainedModel:
    """transformers' own classifier of the family: its encoder as the checkpoint has it, its head loaded or new."""
    options |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
    with _no_report():
        model, record = AutoModelForSequenceClassification.from_pretrained(name, **options)
    refuse_incomplete(name, model, record, part=f"{model.base_model_prefix}.")
    copy_unaligned(model)
    return model


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
    for key, found, needed in record["mismatched_keys"]:
        if inside(key):
            raise ValueError(f"{name}: {key} has shape {list(found)}, but config.json asks for {list(needed)}")


def quiet() -> None:
    """transformers' own bars and load reports off, for programs that show their own."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


@contextmanager
def _no_report() -> Iterator[None]:
    """Without transformers' table of unused weights: `load_encoder` reads the same record and says what matters."""
    logger = logging.getLogger("transformers.modeling_utils")

    def other(entry: logging.LogRecord) -> bool:
        return "LOAD REPORT" not in entry.getMessage()

    logger.addFilter(other)
    try:
        yield
    finally:
        logger.removeFilter(other)
