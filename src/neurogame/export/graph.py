"""A classifier as one function of tensors, and that function as an ONNX program.

    {input_ids, attention_mask, …} [batch, tokens]  ──▶  logits [batch, labels], alpha [batch, heads, tokens]
        on request also: shapley, banzhaf [batch, heads, tokens], coupling [batch, heads, tokens, tokens]

Batch and length stay free, and no number is looked at while the graph is made: the mean field becomes a loop of the
graph, real tokens are always sorted to the front, and the compiled loops are out of reach. `tracing` sees to that.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from neurogame._types import Tensor
from neurogame.attention import NeuroGameOutput
from neurogame.couplings import LinearCoupling
from neurogame.export.bank import Bank
from neurogame.export.folder import Extra
from neurogame.export.tracing import traceable
from neurogame.extras import need
from neurogame.modeling.checking import short
from neurogame.modeling.dam import WordPairModel
from neurogame.modeling.heads import NeuroGamePooling, SpinsOutput, SpinsPooling, pooling_of
from neurogame.modeling.loading import sharing
from neurogame.sampling import Randomness

OPSET = 20
_UNTRACEABLE = (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError, AssertionError)


class ExportError(ValueError):
    """A model that cannot be exported; one line that names it and the cause."""


class Graph(nn.Module):
    """The forward pass of `model` to a dictionary of what is asked for; its draws come from `bank`."""

    def __init__(self, model: PreTrainedModel, extras: Sequence[Extra], bank: Bank) -> None:
        super().__init__()
        self.model, self.extras, self.bank = model, extras, bank

    def forward(self, inputs: dict[str, Tensor], generator: Randomness = None) -> dict[str, Tensor]:
        """Outputs by name, logits first; a `generator` draws instead of the bank."""
        model = self.model
        if pooling_of(model) is None:
            return {"logits": model(**inputs).logits}
        real = inputs["attention_mask"].bool()
        players = model.players(inputs["input_ids"], real)
        draws = self.bank if generator is None else generator
        pooled = model.pool(model.encode(**inputs).states, real, players, generator=draws, record=bool(self.extras))
        found = {"logits": model.classify(pooled.output)}
        if pooled.weights is not None:
            found["alpha"] = pooled.weights
        game = pooled.game
        if "values" in self.extras and isinstance(game, NeuroGameOutput | SpinsOutput):
            found |= {"shapley": game.shapley, "banzhaf": game.banzhaf}
        if "couplings" in self.extras and isinstance(game, NeuroGameOutput) and game.coupling is not None:
            J = game.coupling
            found["coupling"] = J.to_dense() if isinstance(J, LinearCoupling) else J
        return found


def offered(model: PreTrainedModel) -> tuple[Extra, ...]:
    """What a model has beyond logits and weights."""
    if isinstance(model, WordPairModel):
        raise ExportError(f"{type(model).__name__} cannot be exported: it cuts its sentences where the data say")
    pooling = pooling_of(model)
    if isinstance(pooling, NeuroGamePooling):
        return ("values",) if pooling.layer.config.couplings == "none" else ("values", "couplings")
    return ("values",) if isinstance(pooling, SpinsPooling) else ()


def with_samples(model: PreTrainedModel, samples: int | None) -> tuple[PreTrainedModel, int | None]:
    """A model that draws `samples` coalitions per law and shares all weights with `model`; and how many it draws.

    Args:
        model: stays as it is.
        samples: None for the model's own number.

    Raises:
        ExportError: the model draws no coalitions.
    """
    if not isinstance(pooling_of(model), NeuroGamePooling | SpinsPooling):
        if samples is not None:
            raise ExportError(f"samples = {samples}: a {type(model).__name__} without a game draws no coalitions")
        return model, None
    model = sharing(model)
    pooling = pooling_of(model)
    owner, name = (pooling.layer, "config") if isinstance(pooling, NeuroGamePooling) else (pooling, "options")
    if samples is not None:
        setattr(owner, name, replace(getattr(owner, name), samples=samples))
    return model, getattr(owner, name).samples


def program(graph: Graph, sample: dict[str, Tensor]) -> tuple[Any, list[str]]:
    """The graph as a `torch.onnx.ONNXProgram`, and the names of its outputs; `sample` is any batch of two or more."""
    need("onnxscript", "export")
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    with torch.no_grad(), traceable(graph.bank):
        try:
            outputs = list(graph(sample))  # fills the bank
            traced = torch.export.export(graph, (sample,), dynamic_shapes=(dict.fromkeys(sample, free),))
            made = torch.onnx.export(
                traced,
                dynamo=True,
                input_names=list(sample),
                output_names=outputs,
                opset_version=OPSET,
                custom_translation_table={torch.ops.aten.sort.stable: _stable_sort},
                verbose=False,
            )
        except _UNTRACEABLE as error:
            raise ExportError(f"{type(graph.model).__name__} cannot be traced: {short(_root(error))}") from error
    return made, outputs


def _root(error: BaseException) -> BaseException:
    """What torch's exporter wraps in advice to its developers."""
    return error if error.__cause__ is None else _root(error.__cause__)


def _stable_sort(self, *, stable: bool = True, dim: int = -1, descending: bool = False):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    """torch.sort for ONNX, which torch.onnx lacks: of equal numbers TopK takes the first one first."""
    op, types = need("onnxscript", "export").opset20, need("onnx_ir", "export").DataType
    axis = dim % len(self.shape)
    numbers = op.Cast(self, to=types.INT32) if self.dtype in (types.BOOL, types.UINT8) else self
    values, order = op.TopK(
        numbers, op.Shape(self, start=axis, end=axis + 1), axis=axis, largest=int(descending), sorted=1
    )
    return op.CastLike(values, self), order
