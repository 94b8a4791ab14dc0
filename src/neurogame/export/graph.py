"""A classifier as one function of tensors, and that function as an ONNX program.

    {input_ids, attention_mask, …} [batch, tokens]  ──▶  logits [batch, labels], alpha [batch, heads, tokens]
        on request also: shapley, banzhaf [batch, heads, tokens], coupling [batch, heads, tokens, tokens]
        of a grounded game: V [batch, heads, tokens, width], anchor [batch, heads, width]

Batch and length are dynamic, and tracing reads no values: the mean field becomes a loop of the graph (`ising`), real
tokens are always sorted to the front, and compiled loops are not used. Coalitions come from a `Bank`. `_translations`
has the operators that torch.onnx lacks, or translates so that they overflow.
"""

import logging
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from neurogame import sampling
from neurogame._common.extras import need
from neurogame._common.types import Tensor
from neurogame.attention import NeuroGameOutput
from neurogame.couplings import LinearCoupling
from neurogame.export.folder import TERMS, Extra
from neurogame.modeling.baselines.dam import WordPairModel
from neurogame.modeling.checking import short
from neurogame.modeling.heads import GamePooling, NeuroGamePooling, SpinsOutput, SpinsPooling, pooling_of
from neurogame.readout import GameTerms, NormGames

OPSET = 20
_UNTRACEABLE = (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError, AssertionError)


class ExportError(ValueError):
    """A model that cannot be exported; one line that names it and the cause."""


class Bank(nn.Module, sampling.Drawing):
    """The coalitions inside a graph: drawn once, for the longest pair, and cut to the length of a batch.

    A draw is a hash of (seed, head, sample, token), see `sampling`: a draw for 128 tokens begins with the draw for 40.
    So a constant of the graph gives, for every batch and any padding, the coalitions that torch would draw. The first
    eager pass creates the buffers. With `sampling.FIXED_SEED` they are those of evaluation in torch.
    """

    def __init__(self, seed: int, tokens: int) -> None:
        super().__init__()
        self.seed = seed
        self.length = tokens + 1  # so that a slice is always shorter, as torch.export requires
        self._places: dict[tuple[Any, ...], str] = {}

    def draw(self, what: Callable[..., Tensor], device: torch.device, *arguments: Any) -> Tensor:
        """`what(seed, *arguments)`, cut from the stored draw to the number of tokens among the arguments."""
        at = 1 if what is sampling.probes else len(arguments) - 1  # where the number of tokens stands
        key = (what.__name__, *arguments[:at], *arguments[at + 1 :])
        if key not in self._places:
            longest = (*arguments[:at], self.length, *arguments[at + 1 :])
            seed = sampling.seed_of(self.seed, device)
            if what is sampling.permutations:  # the numbers that they sort: an order of 128 holds no order of 40
                draw = sampling.words(seed, "permutations", *longest)
            else:
                draw = what(seed, *longest)
            self._places[key] = f"draw{len(self._places)}"
            self.register_buffer(self._places[key], draw)
        stored = getattr(self, self._places[key])
        cut: Tensor = stored[:, : arguments[at]] if what is sampling.probes else stored[..., : arguments[at]]
        return cut.argsort(dim=-1, stable=True) if what is sampling.permutations else cut

    @property
    def empty(self) -> bool:
        """Whether the model draws nothing."""
        return not self._places


class FittedGames(nn.Module):
    """The games of an explainer, over all tokens that are no padding; the reader of V chooses which of them play.

    They must have no spins, so that V of a token does not depend on the other players.
    """

    def __init__(self, games: NormGames, layers: Sequence[int]) -> None:
        super().__init__()
        self.games, self.layers = games, tuple(layers)

    def forward(self, hidden: Sequence[Tensor], real: Tensor) -> GameTerms:
        """From the hidden states of every layer."""
        states = torch.cat([hidden[layer] for layer in self.layers], -1).float()
        return self.games.terms(states, real, real=real)


class Graph(nn.Module):
    """The forward pass of `model`, with a dictionary as output.

    Args:
        model: any classifier that `extras_of` does not refuse.
        extras: outputs beside logits and α.
        bank: where the draws come from.
        samples: coalitions per law; None: as many as the model draws.
        explainer: the games that were fitted to the model; None: there are none.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        extras: Sequence[Extra],
        bank: Bank,
        samples: int | None = None,
        explainer: FittedGames | None = None,
    ) -> None:
        super().__init__()
        self.model, self.extras, self.bank, self.samples, self.explainer = model, extras, bank, samples, explainer

    def forward(self, inputs: dict[str, Tensor], generator: sampling.Randomness = None) -> dict[str, Tensor]:
        """Outputs by name, logits first; a `generator` draws instead of the bank."""
        model, real = self.model, inputs["attention_mask"].bool()
        options: dict[str, Any] = {} if self.explainer is None else {"output_hidden_states": True}
        if pooling_of(model) is None:
            answer = model(**inputs, **options)
            return {"logits": answer.logits, **self._explainer_terms(answer.hidden_states, real)}
        encoded, players = model.encode(**inputs, **options), model.players(inputs["input_ids"], real)
        options = {"generator": self.bank if generator is None else generator, "samples": self.samples}
        pooled = model.pool(encoded.states, real, players, record=bool(self.extras), **options)
        outputs = {"logits": model.classify(pooled.output)}
        if pooled.weights is not None:
            outputs["alpha"] = pooled.weights
        game = pooled.game
        if "values" in self.extras and isinstance(game, NeuroGameOutput | SpinsOutput):
            outputs |= {"shapley": game.shapley, "banzhaf": game.banzhaf}
        if "couplings" in self.extras and isinstance(game, NeuroGameOutput) and game.coupling is not None:
            J = game.coupling
            outputs["coupling"] = J.to_dense() if isinstance(J, LinearCoupling) else J
        if "game" in self.extras and isinstance(game, GameTerms):
            return outputs | _as_outputs(game)
        return outputs | self._explainer_terms(encoded.hidden, real)

    def _explainer_terms(self, hidden: Sequence[Tensor] | None, real: Tensor) -> dict[str, Tensor]:
        """The games of the explainer, if there is one."""
        return {} if self.explainer is None else _as_outputs(self.explainer(hidden, real))


def _as_outputs(terms: GameTerms) -> dict[str, Tensor]:
    return dict(zip(TERMS, (terms.V, terms.anchor), strict=True))


def has_readout(model: PreTrainedModel) -> bool:
    """Whether the logits are read from games, so that an explainer has nothing to add."""
    return isinstance(pooling_of(model), GamePooling)


def extras_of(model: PreTrainedModel, *, explained: bool = False) -> tuple[Extra, ...]:
    """The outputs that a model has beyond logits and α, with an explainer or without."""
    if isinstance(model, WordPairModel):
        raise ExportError(f"{type(model).__name__} cannot be exported: it cuts its sentences where the data say")
    pooling = pooling_of(model)
    game: tuple[Extra, ...] = ("game",) if explained or has_readout(model) else ()
    if isinstance(pooling, NeuroGamePooling):
        return ("values", *game) if pooling.layer.config.couplings == "none" else ("values", "couplings", *game)
    return ("values", *game) if isinstance(pooling, SpinsPooling) else game


def samples_of(model: PreTrainedModel, samples: int | None) -> int | None:
    """Coalitions per law that a graph draws: `samples`, or the model's own number; None: it draws none."""
    pooling = pooling_of(model)
    if isinstance(pooling, NeuroGamePooling | SpinsPooling):
        own = pooling.layer.config if isinstance(pooling, NeuroGamePooling) else pooling.options
        return own.samples if samples is None else samples
    if samples is not None:
        raise ExportError(f"samples = {samples}: a {type(model).__name__} without a game draws no coalitions")
    return None


def program(graph: Graph, sample: dict[str, Tensor]) -> tuple[Any, list[str]]:
    """The graph as a `torch.onnx.ONNXProgram`, and the names of its outputs; `sample` is any batch of two or more."""
    need("onnxscript", "export")
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    with torch.no_grad(), _quiet():
        try:
            outputs = list(graph(sample))  # fills the bank
            traced = torch.export.export(graph, (sample,), dynamic_shapes=(dict.fromkeys(sample, free),))
            made = torch.onnx.export(
                traced,
                dynamo=True,
                input_names=list(sample),
                output_names=outputs,
                opset_version=OPSET,
                custom_translation_table=_translations(graph.bank.length),
                verbose=False,
            )
        except _UNTRACEABLE as error:
            raise ExportError(f"{type(graph.model).__name__} cannot be traced: {short(_root(error))}") from error
    return made, outputs


def _root(error: BaseException) -> BaseException:
    """The original error, which torch's exporter wraps."""
    return error if error.__cause__ is None else _root(error.__cause__)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's own deprecation warnings and hints."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _translations(length: int) -> dict[Any, Callable[..., Any]]:
    """Operators of torch as ONNX, where torch.onnx has none or a worse one; `length` is that of the longest text."""
    op, types = need("onnxscript", "export").opset20, need("onnx_ir", "export").DataType
    table = [math.inf, *(math.lgamma(x) for x in range(1, length + 1))]

    def lgamma(self):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        """log (x − 1)! of whole numbers up to the number of tokens: ONNX has no such function."""
        return op.Gather(op.Constant(value_floats=table), op.Cast(self, to=types.INT64))

    def logaddexp(self, other):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        """Without overflow: torch.onnx writes log(eᵃ + eᵇ)."""
        top = op.Max(self, other)
        return op.Add(top, op.Log(op.Add(op.Exp(op.Sub(self, top)), op.Exp(op.Sub(other, top)))))

    def sort(self, *, stable: bool = True, dim: int = -1, descending: bool = False):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
        """torch.sort, which torch.onnx lacks: of equal numbers TopK takes the first one first."""
        axis = dim % len(self.shape)
        numbers = op.Cast(self, to=types.INT32) if self.dtype in (types.BOOL, types.UINT8) else self
        values, order = op.TopK(
            numbers, op.Shape(self, start=axis, end=axis + 1), axis=axis, largest=int(descending), sorted=1
        )
        return op.CastLike(values, self), order

    aten = torch.ops.aten
    return {aten.lgamma.default: lgamma, aten.logaddexp.default: logaddexp, aten.sort.stable: sort}
