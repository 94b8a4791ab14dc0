"""`neurogame evaluate`: models on data sets, as tables, Markdown, JSON, figures."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from neurogame.cli import common


def evaluate(
    data: Annotated[
        list[str],
        typer.Option(
            "--data",
            "-d",
            metavar="NAME|FILE",
            help="A file, or a data set by name: snli/dev, mnli/matched, hans …; may be repeated.",
        ),
    ],
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help=f"Folders of models, or names on the hub; {common.BY_DEFAULT}.",
            show_default=False,
        ),
    ] = None,
    calibrate: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Fit the temperature of the probabilities on this set.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also compare with the evaluation saved there (-o).")
    ] = None,
    bins: Annotated[int, typer.Option(min=1, help="Bins of the calibration error.")] = 15,
    batch_size: Annotated[int, typer.Option(min=1, help="Pairs per forward pass.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap intervals.")] = 0,
    model_labels: common.ModelNames = None,
    device: common.Device = None,
    backend: common.Backend = "torch",
    root: common.Root = None,
    hub: common.Hub = False,
    columns: common.Columns = None,
    label_names: Annotated[
        str | None, common.data(metavar="A,B,C", help="What 0, 1, 2 in a label column stand for.")
    ] = None,
    limit: Annotated[int | None, common.data(min=1, help="Only the first so many pairs of each set.")] = None,
    skip: Annotated[
        bool, common.data("--skip-malformed", help="Leave out rows that cannot be read, and count.")
    ] = False,
    output: Annotated[
        Path | None, common.output("--output", "-o", metavar="FOLDER", help="Save report and predictions there.")
    ] = None,
    figure: common.Figure = None,
    markdown: Annotated[bool, common.output("--markdown", help="Print Markdown instead of tables.")] = False,
    as_json: common.Json = False,
) -> None:
    """Score models on data sets: accuracy with intervals, F1, confusion, calibration, groups.

    Of several models, each is compared with the first by McNemar's test.
    """
    if as_json and markdown:
        raise typer.BadParameter("--json and --markdown exclude each other")
    given: list[str | None] = [*models] if models else [None]
    if len(set(given)) < len(given):
        raise typer.BadParameter("a MODEL is given twice")
    if model_labels is not None and len(given) > 1:
        raise typer.BadParameter(
            "--model-labels names the logits of one MODEL; evaluate each by itself, with --against"
        )
    mapping = common.mapping(columns)
    with common.one_line("evaluate"):
        _check(given, backend, figure, output)
        reading: dict[str, Any] = {"root": root, "columns": mapping, "hub": hub, "limit": limit}
        reading |= {"label_names": common.listed(label_names), "on_error": "skip" if skip else "raise"}
        loaded = _distinct(_read(data, reading), data)
        calibration = None if calibrate is None else _read([calibrate], reading, report=False)[0]
        from neurogame import evaluation  # torch comes here, after everything that may be missing
        from neurogame.nli import load

        common.begin()
        _check_output(output)
        others = [] if against is None else list(evaluation.load_predictions(against))
        options: dict[str, Any] = {"batch_size": batch_size, "calibration": calibration, "bins": bins, "seed": seed}
        nlis = (load(model, **common.opening(model_labels, device, backend)) for model in given)
        reports: list[evaluation.Report] = []
        for model, nli in zip(given, nlis, strict=True):
            name = nli.name if nli.name not in {report.models[0] for report in reports} else str(model)
            with common.progress(f"evaluate {name}") as advance:
                reports.append(
                    evaluation.evaluate(nli, loaded, against=others or None, name=name, progress=advance, **options)
                )
            if len(reports) == 1:
                others += [row.predictions for row in reports[0].rows if row.predictions is not None]
        report = evaluation.combine(reports)
        if output is not None:
            report.save(output)
            typer.echo(f"report and predictions: {output}", err=True)
        if figure is not None:
            from neurogame.evaluation import figures

            figures.draw(report, figure)
        if as_json:
            common.print_json(report.to_dict())
        elif markdown:
            typer.echo(report.to_markdown())
        else:
            common.console(160).print(report.table())


def _check(models: list[str | None], backend: str, figure: Path | None, output: Path | None) -> None:
    """What can be refused without torch."""
    common.check_figure(figure)
    for model in models:
        common.check_model(model, backend)
    if output is not None and output.is_file():
        raise FileExistsError(f"{output} is a file; the report is saved as a folder")


def _read(names: list[str], reading: dict[str, Any], *, report: bool = True) -> list[Any]:
    """The data sets; rows that were left out are reported on stderr."""
    from neurogame.data import load

    sets = [load(name, **reading) for name in names]
    for pairs in sets:
        if report and (pairs.malformed or pairs.without_gold):
            typer.echo(pairs.summary(), err=True)
    return sets


def _check_output(output: Path | None) -> None:
    """What would fail when everything has been computed, fails before."""
    from neurogame.evaluation.predictions import existing

    if output is not None and existing(output):
        raise FileExistsError(f"{output} already holds an evaluation, which is never overwritten; choose another")


def _distinct(sets: list[Any], given: list[str]) -> list[Any]:
    """Files of the same name in two folders are called by their paths."""
    names = [data.name for data in sets]
    named = zip(sets, given, strict=True)
    return [replace(data, name=path) if names.count(data.name) > 1 else data for data, path in named]
