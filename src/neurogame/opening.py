"""`open`: the only way a saved model is opened, from the package, a folder or the hub, by torch or by onnxruntime.

Nothing is downloaded if the name is a folder or looks like one. A folder that would load but could only answer at
random (no classifier, no vocabulary, weights that are NaN) is refused. Weights are read from safetensors only, never
from a pickle. `modeling.checking` checks a folder before `modeling.loading` reads it.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError
from transformers import PreTrainedConfig, PreTrainedModel

import neurogame.modeling  # noqa: F401  registers the models with the Auto classes
from neurogame import embedded
from neurogame._common.places import folder_of
from neurogame._common.validation import check_choice
from neurogame.classifier import Classifier
from neurogame.export import folder as exports
from neurogame.export.runtime import OnnxModel
from neurogame.modeling.checking import ModelError, short
from neurogame.modeling.loading import load_shipped, load_tokenizer, load_trained

Backend = Literal["torch", "onnx"]
C = TypeVar("C", bound=Classifier)
_NOWHERE = "is no folder here and could not be loaded from the hub"


def open(  # noqa: A001  as `gzip.open` and `tarfile.open`: always called with its module
    name: str | Path | None = None,
    *,
    label_names: Sequence[str] | None = None,
    device: str | torch.device | None = None,
    backend: Backend = "torch",
    kind: type[C] = Classifier,  # type: ignore[assignment]  # a default of a type variable
) -> C:
    """Open a saved classifier as an instance of `kind`: the embedded model, a folder, or a name on the hub.

    Arguments and errors are those of `neurogame.load`, which users call.
    """
    check_choice("backend", backend, Backend)
    if backend == "onnx":
        model, tokenizer, title = _onnx(name, device)
        return kind(model, tokenizer, name=title, label_names=label_names)
    place = embedded.folder() if name is None else folder_of(name)
    where = str(name) if place is None else str(place)
    if place is None:
        _check_hub(where)
    elif (place / exports.MODEL).is_file() and not any(place.glob("*.safetensors")):
        raise ModelError(f"{where} is an ONNX export: load it with backend='onnx' (--backend onnx)")
    if name is None:
        model = load_shipped(Path(where))
    else:
        fault = _NOWHERE if place is None else "cannot be loaded"
        model = load_trained(where, fault=fault, named=label_names is not None)
    tokenizer, title = load_tokenizer(where), where
    if place is not None:  # reports show the folder, or the one above where it is called "model"
        resolved = place.resolve()
        title = resolved.parent.name if resolved.name == "model" else resolved.name
    opened = kind(_move(model, device), tokenizer, name=title, label_names=label_names)
    opened.folder = place
    return opened


def _onnx(name: str | Path | None, device: str | torch.device | None) -> tuple[Any, Any, str]:
    """Graph, tokenizer and name of a folder that `neurogame export` wrote."""
    if name is None:
        raise ModelError("the embedded model is no ONNX file: `neurogame export -o FOLDER` writes one; model = FOLDER")
    if device is not None and str(device).partition(":")[0] != "cpu":
        raise ModelError(f"device {str(device)!r} cannot be used with backend='onnx', which runs on the CPU")
    place = Path(name).expanduser()
    if not place.is_dir():
        raise ModelError(f"no folder at {name}; backend='onnx' opens folders that `neurogame export` wrote")
    manifest = exports.read(place)
    tokenizer = load_tokenizer(str(place), config=PreTrainedConfig())  # config.json is not transformers' own
    return OnnxModel(place, manifest), tokenizer, place.resolve().name


def _check_hub(name: str) -> None:
    """Fail fast on a name that is not cached where the hub cannot be reached: transformers retries for minutes."""
    try:
        if not isinstance(try_to_load_from_cache(name, "config.json"), str):
            HfApi().model_info(name, timeout=10)
    except HfHubHTTPError:  # the hub answers: transformers reports what is wrong
        return
    except Exception as error:  # errors of httpx have no common class
        near = get_close_matches(name, [path.parent.name for path in Path().glob("*/config.json")], n=1)
        hint = f"; there is a folder {near[0]}" if near else ""
        raise ModelError(f"{name} {_NOWHERE}: {short(error)}{hint}") from error


def _move(model: PreTrainedModel, device: str | torch.device | None) -> PreTrainedModel:
    """Move the model to a device; None: CUDA if available, else the CPU."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return model.to(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ModelError(f"device {str(device)!r} cannot be used here: {short(error)}") from error
