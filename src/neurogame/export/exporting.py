"""`export`: from a loaded model to a folder, by way of a comparison with torch."""

import copy
import importlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch

import neurogame
from neurogame import sampling
from neurogame._common.extras import need
from neurogame._common.printing import printable
from neurogame._common.types import Tensor
from neurogame._common.validation import check_choice, check_count
from neurogame._common.writing import atomic_folder
from neurogame.classifier import Classifier, is_single, model_inputs
from neurogame.data.batching import collate
from neurogame.data.words import tokenize
from neurogame.export import folder as folders
from neurogame.export.folder import BankRecord, Extra, GameRecord, Manifest
from neurogame.export.graph import Bank, ExportError, FittedGames, Graph, extras_of, has_readout, program, samples_of
from neurogame.export.runtime import OnnxModel

Quantize = Literal["int8"]
TOLERANCE = 1e-4  # how far the graph may be from torch, per unit of what it computes (at least 1)
_LARGEST_SEED = 2**62
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
# A graph is traced and compared on these; their lengths differ, so that there is padding.
_PAIRS = (
    ("Three children are feeding ducks at the edge of a frozen lake, and an old man watches them.", "Birds are fed."),
    ("A cook sleeps.", "Nobody is asleep."),
    ("The bus did not stop at the market.", "The bus stopped somewhere near the old market hall."),
)


@dataclass(frozen=True)
class Exported:
    """The folder of an exported model, its size and its manifest."""

    folder: str
    megabytes: float  # of model.onnx and its data
    manifest: Manifest

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"folder": self.folder, "megabytes": self.megabytes, **self.manifest.to_dict()}

    def summary(self) -> str:
        """One line."""
        texts = "texts" if set(folders.TERMS) <= set(self.manifest.outputs) else "pairs"  # a game may be of either
        kind = f" in {self.manifest.quantized}" if self.manifest.quantized else ""
        return (
            f"{self.folder}: {self.megabytes:.1f} MB{kind}, {' '.join(self.manifest.outputs)}; "
            f"logits within {self.manifest.logit_error:.1e} of torch on {len(_PAIRS)} {texts}"
        )


def export(
    nli: Classifier,
    folder: str | Path,
    *,
    extras: Sequence[Extra] = (),
    quantize: Quantize | None = None,
    samples: int | None = None,
    seed: int | None = None,
) -> Exported:
    """Write a model as ONNX; `neurogame.load(folder, backend="onnx")` opens it.

    The folder appears when it is whole and its numbers have been compared with torch's; one that exists is refused.
    Where an explainer was fitted to the model (`nli.explainer`), its game is part of the graph, and `explain` plays it.

    Args:
        nli: the model, loaded with torch.
        folder: to be made.
        extras: further outputs beside logits and α: "values" (φ and β), "couplings" (J_ij), "game" (V and the anchors
            of a game readout; those of an explainer are always there).
        quantize: "int8" for a quarter of the size, at a loss.
        samples: coalitions per law; None: as many as the model draws.
        seed: of the coalitions; None: that of evaluation in torch, so that both answer the same.

    Returns:
        The folder, its size, and the manifest with the largest difference of a logit from torch's.

    Raises:
        ExportError: the model cannot be traced, lacks an extra, or its graph computes other numbers than torch.
        FileExistsError, FileNotFoundError: the folder exists, or the one that it is to be made in does not.

    Example:
        >>> export(neurogame.load(), "model-onnx", extras=["values"]).summary()  # doctest: +SKIP
    """
    _check(nli, Path(folder), extras, quantize, samples, seed)
    bank = Bank(sampling.FIXED_SEED if seed is None else seed, nli.max_length)
    samples = samples_of(nli.model, samples)
    fitted = _explainer(nli)
    games = None if fitted is None else FittedGames(copy.deepcopy(fitted.game.games), fitted.layers)
    graph = Graph(nli.model.eval(), tuple(extras), bank, samples, None if games is None else games.to(nli.model.device))
    batches = _batches(nli)
    made, outputs = program(graph, batches[0])
    with torch.no_grad():
        expected = [graph(batch, bank.seed) for batch in batches]
    manifest = Manifest(
        name=nli.name,
        architecture=type(nli.model).__name__,
        head=getattr(nli.model.config, "head", None),
        labels=list(nli.labels),
        temperature=nli.temperature,
        max_length=nli.max_length,
        parameters=nli.parameters,
        inputs=list(batches[0]),
        outputs=outputs,
        bank=None if bank.empty or samples is None else BankRecord(bank.seed, samples, nli.max_length),
        quantized=quantize,
        logit_error=0.0,
        versions={"neurogame": neurogame.__version__, "torch": torch.__version__}
        | {name: str(importlib.import_module(name).__version__) for name in _PACKAGES},
        sha256={},
    )
    with atomic_folder(folder, last=folders.CONFIG) as fresh:
        made.save(fresh / folders.MODEL)
        if quantize is not None:
            int8(fresh / folders.MODEL)
        manifest.logit_error = _compare(OnnxModel(fresh, manifest), batches, expected)
        nli.tokenizer.save_pretrained(fresh)
        if fitted is not None or "game" in extras:
            (fresh / folders.GAME).write_text(json.dumps(asdict(_game_record(nli, fitted))) + "\n", encoding="utf-8")
        manifest.sha256 = folders.sums(fresh)
        size = sum(path.stat().st_size for path in fresh.glob(f"{folders.MODEL}*")) / 1e6
        folders.write(manifest, fresh)
    return Exported(str(folder), round(size, 2), manifest)


def _explainer(nli: Classifier) -> Any:
    """The explainer whose game goes into the graph; None where there is none, or the logits are those of a game."""
    return None if has_readout(nli.model) else nli.explainer


def _game_record(nli: Classifier, fitted: Any) -> GameRecord:
    """game.json: of the explainer, or of the model's own readout."""
    readout = nli.model.classifier if fitted is None else fitted.game.readout
    R, base = (x.detach().float().cpu().tolist() for x in (readout.weight, readout.base))
    if fitted is None:
        about = {name: getattr(nli.model.config, f"readout_{name}") for name in ("removal", "r2", "grounded")}
        return GameRecord("readout", R, base, **about)
    about = {name: getattr(fitted, name) for name in ("removal", "output", "parts", "level", "r2", "limit")}
    return GameRecord("explainer", R, base, **about)


def _check(
    nli: Classifier,
    goal: Path,
    extras: Sequence[Extra],
    quantize: Quantize | None,
    samples: int | None,
    seed: int | None,
) -> None:
    """Raise now what would fail after a minute of tracing."""
    for name in _PACKAGES:
        need(name, "export")
    if isinstance(nli.model, OnnxModel):
        raise ExportError(f"{nli.name} is an ONNX export already")
    named = printable(str(goal))
    if goal.exists():
        raise FileExistsError(f"{named} exists already; an export never overwrites a folder")
    if not goal.parent.is_dir():
        raise FileNotFoundError(f"{named}: its folder does not exist")
    if (fitted := _explainer(nli)) is not None:
        fitted.check(nli.model, nli.name)
        if fitted.game.games.spins != "none":
            raise ExportError(f"the explainer of {nli.name} cannot be exported: its spins depend on who plays")
    possible = extras_of(nli.model, explained=nli.explainer is not None)
    for extra in extras:
        if extra not in possible:
            has = ", ".join(possible) or "none"
            raise ExportError(f"{nli.name} cannot give {extra!r:.40}; of {', '.join(get_args(Extra))} it has: {has}")
    if quantize is not None:
        check_choice("quantize", quantize, Quantize)
    if samples is not None:
        check_count("samples", samples)
    if seed is not None:
        check_count("seed", seed, least=0, most=_LARGEST_SEED)


def _batches(nli: Classifier) -> list[dict[str, Tensor]]:
    """The pairs together, in their order, and one of them alone, without padding; or their premises, as texts."""
    pad = collate(nli.tokenizer)
    texts = (tokenize(nli.tokenizer, text, None, nli.max_length).inputs for text, _ in _PAIRS)  # as `explain` does
    single = is_single(nli)
    rows: Any = [{k: x[0].tolist() for k, x in text.items()} for text in texts] if single else nli.encode(_PAIRS)
    batches = (pad([rows[i] for i in batch]) for batch in (range(len(rows)), [1]))
    return [nli.on_device(model_inputs(nli.model, batch)) for batch in batches]


def _compare(model: OnnxModel, batches: Sequence[dict[str, Tensor]], expected: Sequence[dict[str, Tensor]]) -> float:
    """The largest difference of a logit; without quantisation, any difference beyond the tolerance is an error."""
    worst = 0.0
    for batch, reference in zip(batches, expected, strict=True):
        outputs = model.run({name: x.cpu() for name, x in batch.items()})
        for name, value in reference.items():
            difference = float((torch.from_numpy(outputs[name]) - value.cpu()).abs().max())
            scale = max(1.0, float(value.abs().max()))
            if model.config.quantized is None and not difference <= TOLERANCE * scale:
                raise ExportError(f"the graph does not compute what torch does: {name} is off by {difference:.2g}")
            worst = max(worst, difference) if name == "logits" else worst
    return worst


def int8(path: Path) -> None:
    """Quantise a graph in place, by dynamic quantisation: the encoder's weights take a quarter of the space.

    A weight matrix becomes int8 with a scale per column, the embeddings int8 with one scale. Activations are rounded to
    uint8 with one scale *per batch*, so that an answer depends slightly on the other rows of its batch. Pooling,
    classifier and explainer stay in float32: they are small, and a solver does not survive rounding.
    """
    onnx, quantization = need("onnx", "export"), need("onnxruntime.quantization", "export")
    model = onnx.load(path)
    # torch's exporter has inferred shapes and folded constants, as onnxruntime's warning asks for
    model.metadata_props.add(key="onnx.quant.pre_process", value="onnxruntime.quant")
    del model.graph.value_info[:]  # shapes of weights that quantisation transposes, and infers again
    kept = [node.name for node in model.graph.node if _stays_exact(node)]
    quantization.quantize_dynamic(
        model,
        path,
        op_types_to_quantize=["MatMul", "Gather"],
        per_channel=True,
        weight_type=quantization.QuantType.QInt8,
        nodes_to_exclude=[*kept, *(f"{name}_MatMul" for name in kept)],  # its name for a former Gemm
    )


def _stays_exact(node: Any) -> bool:
    """Whether a node comes from pooling, classifier or explainer, by the path of modules that torch notes down."""
    path = next((entry.value for entry in node.metadata_props if entry.key == "namespace"), "")
    return any(part in path for part in ("pooling", "classifier", "explainer"))
