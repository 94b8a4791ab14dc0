"""Checks of a model folder before it is opened: no code in it runs, its sizes fit its weights, its labels are clear.

transformers trusts a folder. An index of shards may point to any file, pickles included. A number in `config.json` may
ask for more memory than there is, before weights and configuration are compared. Adapters and kernels are downloaded
from the hub. Such folders are refused here, with a `ModelError` of one line. Only local folders are checked.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig
from transformers.initialization import no_init_weights

from neurogame import attention
from neurogame._common.printing import printable
from neurogame._common.records import unique_keys
from neurogame.labels import spelled

CONFIG, WEIGHTS = "config.json", "model.safetensors"
# What transformers, tokenizers, safetensors and torch raise when a folder is damaged.
UNLOADABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SafetensorError,
    StrictDataclassError,
    TypeError,
    ValueError,
)
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_RANKS = "shard-*-model-*.safetensors"  # one per process of a distributed run
_COUNTED = re.compile("layers|group|mixing")  # how often something is built
_SIZED = re.compile("size|dim|width|heads|labels|spins|vocab")
_NEEDED = ("hidden_size", "vocab_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
_HARMLESS = {_COUNTED: 1_000, _SIZED: 100_000}  # values that cost little memory; transformers reports their faults
_SMALL = 50_000_000  # parameters of a model that fits into any memory
# Limits of fields that cost memory or time in every forward pass but are no size of a weight.
MOST = {**attention.MOST, "hopfield_steps": 1_000}


class ModelError(ValueError):
    """A model that cannot be used; one line that names it and the cause."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))  # the name of a folder or a label may hold a line break


def short(error: BaseException) -> str:
    """The first paragraph of an error, in one line."""
    return " ".join(str(error).partition("\n\n")[0].split())[:300] or type(error).__name__


@contextmanager
def no_panic(name: object) -> Iterator[None]:
    """Turn a panic of the tokenizer's native code, which `except Exception` does not catch, into a `ModelError`."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # each library that uses pyo3 has a class of its own
            raise
        raise ModelError(f"{name}: the tokenizer fails in native code ({short(error)})") from error


def check_folder(folder: Path, auto: Any) -> None:
    """Refuse a folder whose weights are no safetensors, or do not fit its configuration; `auto` is going to open it."""
    config = read_json(folder / CONFIG)
    _refuse_foreign(folder, config)
    shapes = [shape for file in _weights(folder) for shape in _shapes(file)]
    _check_sizes(folder, config, shapes)
    try:
        described = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        with torch.device("meta"), no_init_weights():
            model = auto.from_config(described, trust_remote_code=False)
    except UNLOADABLE as error:
        raise ModelError(f"{folder} cannot be loaded: {short(error)}") from error
    described_size, stored_size = sum(p.numel() for p in model.parameters()), sum(map(math.prod, shapes))
    if described_size > max(2 * stored_size, _SMALL):
        raise ModelError(
            f"{folder}: {CONFIG} describes a model of {described_size:,} numbers, its weights hold {stored_size:,}; "
            "is it the configuration of another model?"
        )


def refuse_unused(name: Any, unexpected: Iterable[str]) -> None:
    """Refuse weights of layers that the configuration does not have: transformers would drop them silently."""
    unused = sorted(key for key in unexpected if re.search(r"\.\d+\.", key))
    if unused:
        raise ModelError(
            f"{name}: {len(unused)} weights have no place in the model that {CONFIG} describes, the first is "
            f"{unused[0]}; is it the configuration of another model?"
        )


def refuse_pickles(folder: Path) -> None:
    """Refuse a folder that has its weights as a pickle only."""
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if pickles and not any(folder.glob("*.safetensors")):
        raise ModelError(
            f"{folder} has its weights as a pickle only ({pickles[0]}), which can run any code when it is read; "
            f"convert it to {WEIGHTS} where you trust it"
        )


def check_labels(id2label: Mapping[Any, Any] | None, label2id: Mapping[Any, Any] | None, name: str) -> None:
    """`id2label` must number its labels 0 … n−1, and `label2id`, where it has the same names, say the same."""
    names = {int(i): str(label) for i, label in (id2label or {}).items()}
    if sorted(names) != list(range(len(names))):
        raise ModelError(f"{name}: id2label must number its labels 0 to {len(names) - 1}, got {sorted(names)!r:.80}")
    ids = {spelled(label): i for label, i in (label2id or {}).items()}
    for i, label in sorted(names.items()):
        other = ids.get(spelled(label), i)
        if str(other) != str(i):
            raise ModelError(
                f"{name}: id2label says that {label!r} is logit {i}, label2id that it is {other!r:.40}; "
                "which is right only its author knows: give label_names (--model-labels)"
            )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique_keys)
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not a valid JSON file: {short(error)}") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} is not a valid JSON object, but {type(content).__name__}")
    return content


def _refuse_foreign(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse whatever would make transformers download or read anything but this folder's weights."""
    if (folder / "adapter_config.json").exists():
        raise ModelError(f"{folder} is an adapter to another model; merge the two and save the result")
    if next(folder.glob(_RANKS), None) is not None:
        raise ModelError(f"{folder} holds the parts of a distributed run; save them as one {WEIGHTS}")
    if "transformers_weights" in config:
        raise ModelError(f"{folder}: {CONFIG} names other weights, transformers_weights; save them as {WEIGHTS}")
    if "quantization_config" in config:
        raise ModelError(f"{folder} is quantised, which is not read here; save it in float16 or float32")
    for key, value in _fields(config):
        if key.endswith("attn_implementation") and "/" in str(value):
            raise ModelError(f"{folder}: {CONFIG} asks for code from the hub, {key} = {value!r:.80}")
    if isinstance(config.get("encoder"), str):
        raise ModelError(f"{folder}: {CONFIG} names its encoder, {config['encoder']!r:.80}, instead of describing it")


def _fields(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names and values, those of nested objects too."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _fields(value)
        else:
            yield str(key), value


def _weights(folder: Path) -> list[Path]:
    """The files that hold the weights, all of them in the folder."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    index = folder / f"{WEIGHTS}.index.json"
    if not index.is_file():
        refuse_pickles(folder)
        raise ModelError(f"{folder} holds no weights: {WEIGHTS} is missing")
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ModelError(f"{index}: weight_map must say which file holds which weight")
    for place in places.values():
        if not isinstance(place, str) or Path(place).name != place or not place.endswith(".safetensors"):
            raise ModelError(f"{index} points to {place!r:.80}; allowed: .safetensors files of the same folder")
        if not (folder / place).is_file():
            raise ModelError(f"{folder}: {place} is missing, which {index.name} names")
    return [folder / place for place in sorted(set(places.values()))]


def _shapes(file: Path) -> list[tuple[int, ...]]:
    """Shapes of all tensors in a file but empty ones, whose other axes may be of any size."""
    try:
        with safe_open(file, framework="pt") as weights:
            shapes = [tuple(weights.get_slice(name).get_shape()) for name in weights.keys()]  # noqa: SIM118 — no mapping
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{file.parent}: {file.name} is damaged or cut short ({short(error)})") from error
    return [shape for shape in shapes if math.prod(shape)]


def _check_sizes(folder: Path, config: Mapping[str, Any], shapes: list[tuple[int, ...]]) -> None:
    """Refuse sizes beyond the largest axis of a weight, and counts beyond the number of weights."""
    most = {_COUNTED: len(shapes), _SIZED: max((max(shape, default=1) for shape in shapes), default=1)}
    for key, value in _fields(config):
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        if value > MOST.get(key, value):
            raise ModelError(f"{folder}: {CONFIG} says {key} = {value}; allowed: up to {MOST[key]}")
        if key in _NEEDED and value < 1:
            raise ModelError(f"{folder}: {CONFIG} says {key} = {value}; allowed: 1 or more")
        for pattern, limit in most.items():
            if pattern.search(key) and value > max(limit, _HARMLESS[pattern]):
                raise ModelError(
                    f"{folder}: {CONFIG} says {key} = {value}, but the weights have room for {limit} at most; "
                    "is it the configuration of another model?"
                )
