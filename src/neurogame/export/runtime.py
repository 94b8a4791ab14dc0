"""An exported graph as a model: logits by onnxruntime, torch only as a container of numbers.

A `Classifier` takes an `OnnxModel` for its model; `nli.OnnxNLI` adds the other outputs of the graph.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from neurogame._common.extras import need
from neurogame._common.types import Tensor
from neurogame.export import folder as folders
from neurogame.export.folder import Manifest
from neurogame.modeling.checking import ModelError, short
from neurogame.readout import GameTerms

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class TokenWeights:
    """Outputs of the graph for each token of a pair, special tokens included; None where it has no such output."""

    tokens: tuple[str, ...]
    alpha: Floats | None  # [heads, tokens]
    shapley: Floats | None  # [heads, tokens]
    banzhaf: Floats | None
    coupling: Floats | None  # [heads, tokens, tokens]: J_ij as the spins feel it

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        arrays = {name: getattr(self, name) for name in folders.WEIGHTS}
        return {"tokens": list(self.tokens), **{k: None if x is None else x.tolist() for k, x in arrays.items()}}


class Answer(NamedTuple):
    """The part of a forward pass's output that a classifier reads."""

    logits: Tensor
    hidden_states: GameTerms | None = None  # instead of hidden states: the games that the graph makes of them


class OnnxModel:
    """A graph in onnxruntime, on the CPU, with as many threads as torch has."""

    device = torch.device("cpu")
    closed = ": it looks into the model, which an ONNX graph does not allow (load the torch one, backend='torch')"

    def __init__(self, folder: Path, config: Manifest) -> None:
        ort = need("onnxruntime", "export")
        self.config, self.folder = config, folder
        options = ort.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # errors, which are raised as well
        try:
            self.session = ort.InferenceSession(
                str(folder / folders.MODEL), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its errors have no class in common
            raise ModelError(f"{folder}: onnxruntime {ort.__version__} cannot open it: {short(error)}") from error
        inputs, outputs = ([x.name for x in xs] for xs in (self.session.get_inputs(), self.session.get_outputs()))
        if set(inputs) != set(config.inputs) or outputs != config.outputs:
            raise ModelError(
                f"{folder}: the graph has {', '.join([*inputs, *outputs])}, config.json says "
                f"{', '.join([*config.inputs, *config.outputs])}; export the model again"
            )
        width = self.session.get_outputs()[0].shape[-1]
        if isinstance(width, int) and width != len(config.labels):
            raise ModelError(
                f"{folder / folders.CONFIG}: labels = {config.labels!r:.60}, but the graph has {width} logits; export "
                "the model again"
            )

    @property
    def has_game(self) -> bool:
        """Whether the graph gives a grounded game."""
        return set(folders.TERMS) <= set(self.config.outputs)

    def num_parameters(self) -> int:
        """Of the model that was exported."""
        return self.config.parameters

    def eval(self) -> "OnnxModel":
        """A graph is always in evaluation mode."""
        return self

    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, Floats]:
        """All outputs by name, of a padded batch."""
        missing = [name for name in self.config.inputs if name not in inputs]
        if missing:
            raise ModelError(f"{self.config.name} needs {missing[0]}, which its tokenizer does not give")
        feed = {name: inputs[name].numpy() for name in self.config.inputs}
        try:
            return dict(zip(self.config.outputs, self.session.run(self.config.outputs, feed), strict=True))
        except Exception as error:  # as above
            raise ModelError(f"onnxruntime cannot run {self.config.name}: {short(error)}") from error

    def forward(self, *, output_hidden_states: bool = False, **inputs: Tensor) -> Answer:
        """The logits of a padded batch; with the games of the graph where a model would give its hidden states."""
        outputs = {name: torch.from_numpy(x) for name, x in self.run(inputs).items()}
        if not (output_hidden_states and self.has_game):
            return Answer(outputs["logits"])
        return Answer(outputs["logits"], GameTerms(*(outputs[name] for name in folders.TERMS)))

    __call__ = forward
