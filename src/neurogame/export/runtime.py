"""An exported folder as a model: `predict` and `logits` by onnxruntime, torch only as a container of numbers.

`OnnxModel` is what `NLI` needs of a model; `OnnxNLI` adds what the graph has beside the logits, and says what only
torch can do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedConfig

from neurogame._types import Tensor
from neurogame.export import folder as folders
from neurogame.export.folder import Manifest
from neurogame.extras import need
from neurogame.modeling.checking import ModelError, short
from neurogame.modeling.loading import load_tokenizer
from neurogame.nli import NLI, _checked, _names

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class TokenWeights:
    """What the graph says of each token of a pair, special tokens included; None is what it does not have."""

    tokens: tuple[str, ...]
    alpha: Floats | None  # [heads, tokens]
    shapley: Floats | None  # [heads, tokens]
    banzhaf: Floats | None
    coupling: Floats | None  # [heads, tokens, tokens]: J_ij as the spins feel it

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        arrays = {name: getattr(self, name) for name in ("alpha", "shapley", "banzhaf", "coupling")}
        return {"tokens": list(self.tokens), **{k: None if x is None else x.tolist() for k, x in arrays.items()}}


class Answer(NamedTuple):
    """What `NLI` reads off a forward pass."""

    logits: Tensor


class OnnxModel:
    """A graph in onnxruntime, on the CPU, with as many threads as torch has."""

    device = torch.device("cpu")
    closed = ": it looks into the model, which an ONNX graph does not allow (load the torch one, backend='torch')"

    def __init__(self, folder: Path, config: Manifest) -> None:
        ort = need("onnxruntime", "export")
        self.config = config
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

    def eval(self) -> "OnnxModel":
        """It knows nothing else."""
        return self

    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, Floats]:
        """All outputs by name, of a padded batch."""
        missing = [name for name in self.config.inputs if name not in inputs]
        if missing:
            raise ModelError(f"{self.config.name} needs {missing[0]}, which its tokenizer does not give")
        feed = {name: inputs[name].numpy() for name in self.config.inputs}
        try:
            return dict(zip(self.config.outputs, self.session.run(self.config.outputs, feed), strict=True))
        except Exception as error:  # likewise
            raise ModelError(f"onnxruntime cannot run {self.config.name}: {short(error)}") from error

    def forward(self, **inputs: Tensor) -> Answer:
        """The logits of a padded batch."""
        return Answer(torch.from_numpy(self.run(inputs)["logits"]))

    __call__ = forward


class OnnxNLI(NLI):
    """An exported model: `predict` and `logits` as `NLI` has them, `attention`, and `explain` by taking words away.

    Attributes:
        manifest: what config.json says.
    """

    model: OnnxModel

    def __init__(self, model: OnnxModel, tokenizer: Any, *, name: str, label_names: Sequence[str] | None) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.labels = _names(model, label_names, name)
        self.max_length = model.config.max_length

    @property
    def manifest(self) -> Manifest:
        """What config.json says."""
        return self.model.config

    @property
    def parameters(self) -> int:
        """Of the model that was exported."""
        return self.manifest.parameters

    def attention(self, premise: str, hypothesis: str) -> TokenWeights:
        """α of each token and head, and φ, β, J_ij where the graph was exported with them."""
        if self.manifest.outputs == ["logits"]:
            kind = self.manifest.head or self.manifest.architecture
            raise ValueError(f"{self.name} was exported with logits alone: {kind!r} has no weights of tokens")
        ((first, second),) = _checked([(premise, hypothesis)])
        found = self.tokenizer(first, second, truncation="longest_first", max_length=self.max_length)
        inputs = {name: torch.tensor([found[name]]) for name in self.manifest.inputs if name in found}
        answer = self.model.run(inputs)
        rest = {name: answer[name][0] if name in answer else None for name in folders.OUTPUTS if name != "logits"}
        return TokenWeights(tuple(self.tokenizer.convert_ids_to_tokens(found["input_ids"])), **rest)

    def save_pretrained(self, folder: str | Path) -> None:
        """An exported model is copied, not saved."""
        raise ModelError(f"{self.name} is an ONNX export, which cannot be saved to {folder}; copy its folder")


def load(
    model: str | Path | None, *, label_names: Sequence[str] | None = None, device: str | torch.device | None = None
) -> OnnxNLI:
    """See `neurogame.load`, with backend="onnx"."""
    if model is None:
        raise ModelError(
            "the embedded model is no ONNX file: `neurogame export -o FOLDER` writes one, then load FOLDER"
        )
    if device is not None and str(device).partition(":")[0] != "cpu":
        raise ModelError(f"device {str(device)!r} cannot be used with backend='onnx', which runs on the CPU")
    place = Path(model).expanduser()
    if not place.is_dir():
        raise ModelError(f"no folder at {model}; backend='onnx' opens folders that `neurogame export` wrote")
    manifest = folders.read(place)
    tokenizer = load_tokenizer(str(place), config=PreTrainedConfig())  # config.json is not transformers' own
    return OnnxNLI(OnnxModel(place, manifest), tokenizer, name=place.resolve().name, label_names=label_names)
