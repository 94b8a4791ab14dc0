"""A model as an ONNX file that onnxruntime runs, and that file as a model again.

    Classifier ──graph──▶ a function of tensors ──torch.export, torch.onnx──▶ model.onnx ──int8, if asked──▶
        with the coalitions of a `Bank` inside it                          │
                                                                       `exporting` holds it against torch, and only
    OnnxModel ◀──runtime── folder: model.onnx, config.json, tokenizer ◀── then publishes the folder

`folder` says what is in config.json and reads it back. Packages of the extra `export` are imported where they are
needed.
"""

import importlib
from typing import TYPE_CHECKING, Any

from neurogame.export.exporting import Exported, export
from neurogame.export.folder import Extra, Manifest
from neurogame.export.graph import ExportError
from neurogame.export.runtime import TokenWeights

if TYPE_CHECKING:
    from neurogame.nli import OnnxNLI

__all__ = ["ExportError", "Exported", "Extra", "Manifest", "OnnxNLI", "TokenWeights", "export"]


def __getattr__(name: str) -> Any:
    if name != "OnnxNLI":  # which lives above, beside `NLI`
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("neurogame.nli").OnnxNLI
