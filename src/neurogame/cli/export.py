"""`neurogame export`: a model as a folder that onnxruntime runs."""

from pathlib import Path
from typing import Any

import typer

from neurogame._common import extras as extras_of
from neurogame.cli import common


def export(
    model: str | None = None,
    kind: str = "onnx",
    quantize: str | None = None,
    extras: str | None = None,
    samples: int | None = None,
    seed: int | None = None,
    explainer: Path | None = None,
    model_labels: str | None = None,
    output: Path | None = None,
    as_json: bool = False,
) -> None:
    """Write a model as ONNX, with its coalitions inside: the same numbers as in torch, for onnxruntime.

    The folder appears when it is whole and has been compared with torch. `--backend onnx`, or
    neurogame.load(FOLDER, backend="onnx"), runs it.
    """
    if kind != "onnx":
        raise typer.BadParameter(f"--format {common.in_one_line(kind)}: allowed: onnx")
    if quantize not in (None, "int8"):
        raise typer.BadParameter(f"--quantize {common.in_one_line(quantize)}: allowed: int8")
    wanted: Any = common.split_names(extras) or []
    extras_of.check("export")
    model = None if model == "embedded" else model
    if output is not None and output.exists():
        raise FileExistsError(f"{output} exists already; an export never overwrites a folder")
    common.check_model(model, explainer=explainer)
    from neurogame.export import export as write
    from neurogame.nli import load

    common.begin()
    nli = load(model, label_names=common.split_names(model_labels), device="cpu", explainer=explainer)
    folder = output or Path(f"{Path(nli.name).name}-onnx{'-int8' if quantize else ''}")
    done = write(nli, folder, extras=wanted, quantize="int8" if quantize else None, samples=samples, seed=seed)
    if as_json:
        common.print_json(done.to_dict())
    else:
        typer.echo(done.summary())
