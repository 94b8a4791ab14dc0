"""A model as an ONNX file that onnxruntime runs, and that file as a model again.

    NLI ──graph──▶ a function of tensors ──torch.export, torch.onnx──▶ model.onnx ──quantising──▶ int8, if asked
        with the coalitions of `bank` inside it                            │
                                                                       `writing` holds it against torch, and only
    OnnxNLI ◀──runtime── folder: model.onnx, config.json, tokenizer ◀── then lets the folder appear

`folder` says what is in config.json and reads it back. Packages of the extra `export` are imported where they are
needed.
"""

from neurogame.export.folder import Extra, Manifest
from neurogame.export.graph import ExportError
from neurogame.export.runtime import OnnxNLI, TokenWeights
from neurogame.export.writing import Exported, export

__all__ = ["ExportError", "Exported", "Extra", "Manifest", "OnnxNLI", "TokenWeights", "export"]
