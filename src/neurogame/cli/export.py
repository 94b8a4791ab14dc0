"""`neurogame export`: a model as a folder that onnxruntime runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from neurogame import extras as extras_of
from neurogame.cli import common

EMBEDDED = "embedded"


def export(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help=f"Folder of a model, or its name on the hub; {common.BY_DEFAULT}, which is also called {EMBEDDED}.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[str, typer.Option("--format", metavar="onnx", help="Of the exported file.")] = "onnx",
    quantize: Annotated[
        str | None, typer.Option(metavar="int8", help="Round the encoder's weights: a quarter of the size, at a loss.")
    ] = None,
    extras: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="values,couplings,game",
            help="Outputs beside logits and weights: values (Shapley and Banzhaf), couplings (pairs of tokens), "
            "game (of a game readout: reasons in one pass).",
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Coalitions per law; by default as many as the model draws.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of the coalitions; by default that of evaluation in torch.")
    ] = None,
    explainer: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="What `neurogame ground` wrote for this model, for reasons from the same graph; by default "
            "`explainer` in the model's folder.",
        ),
    ] = None,
    model_labels: common.ModelNames = None,
    output: Annotated[
        Path | None,
        common.output(
            "--output", "-o", metavar="FOLDER", help="To be made; by default named after the model, MODEL-onnx."
        ),
    ] = None,
    as_json: common.Json = False,
) -> None:
    """Write a model as ONNX, with its coalitions inside: the same numbers as in torch, for onnxruntime.

    The folder appears when it is whole and has been compared with torch. `--backend onnx`, or
    neurogame.load(FOLDER, backend="onnx"), runs it.
    """
    if kind != "onnx":
        raise typer.BadParameter(f"--format {common.in_one_line(kind)}: allowed: onnx")
    if quantize not in (None, "int8"):
        raise typer.BadParameter(f"--quantize {common.in_one_line(quantize)}: allowed: int8")
    wanted: Any = common.listed(extras) or []
    with common.one_line("export"):
        extras_of.check("export")
        common.check_model(None if model == EMBEDDED else model)
        if output is not None and output.exists():
            raise FileExistsError(f"{output} exists already; an export never overwrites a folder")
        common.check_explainer(explainer)
        from neurogame.export import export as write
        from neurogame.nli import load

        common.begin()
        opened = None if model == EMBEDDED else model
        nli = load(opened, label_names=common.listed(model_labels), device="cpu", explainer=explainer)
        folder = output or Path(f"{Path(nli.name).name}-onnx{'-int8' if quantize else ''}")
        done = write(nli, folder, extras=wanted, quantize="int8" if quantize else None, samples=samples, seed=seed)
        if as_json:
            common.print_json(done.to_dict())
        else:
            typer.echo(done.summary())
