"""`neurogame evaluate`: models on data sets, as tables, Markdown, JSON, figures."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from neurogame.cli import common


def evaluate(
    data: list[str],
    models: list[str] | None = None,
    calibrate: str | None = None,
    against: Path | None = None,
    bins: int = 15,
    batch_size: int = 64,
    seed: int = 0,
    model_labels: str | None = None,
    device: str | None = None,
    backend: str = "torch",
    root: Path | None = None,
    hub: bool = False,
    columns: list[str] | None = None,
    label_names: str | None = None,
    limit: int | None = None,
    skip: bool = False,
    output: Path | None = None,
    figure: Path | None = None,
    markdown: bool = False,
    as_json: bool = False,
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
    mapping = common.parse_columns(columns)
    common.check_figure(figure)
    for model in given:
        common.check_model(model, backend)
    if output is not None and output.is_file():
        raise FileExistsError(f"{output} is a file; the report is saved as a folder")
    reading: dict[str, Any] = {"root": root, "columns": mapping, "hub": hub, "limit": limit}
    reading |= {"label_names": common.split_names(label_names), "on_error": "skip" if skip else "raise"}
    sets, calibration = _read(data, calibrate, reading)
    from neurogame import evaluation  # torch comes here, after everything that may be missing
    from neurogame.evaluation.predictions import existing
    from neurogame.nli import load

    common.begin()
    if output is not None and existing(output):
        raise FileExistsError(f"{output} already holds an evaluation, which is never overwritten; choose another")
    others = [] if against is None else list(evaluation.load_predictions(against))
    options: dict[str, Any] = {"batch_size": batch_size, "calibration": calibration, "bins": bins, "seed": seed}
    reports: list[evaluation.Report] = []
    for model in given:
        nli = load(model, **common.load_options(model_labels, device, backend))
        name = nli.name if nli.name not in {report.models[0] for report in reports} else str(model)
        with common.progress(f"evaluate {name}") as advance:
            reports.append(
                evaluation.evaluate(nli, sets, against=others or None, name=name, progress=advance, **options)
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
    if markdown:
        typer.echo(report.to_markdown())
    else:
        common.show(report.to_dict(), lambda _: report.table(), as_json=as_json)


def _read(names: list[str], calibrate: str | None, options: dict[str, Any]) -> tuple[list[Any], Any]:
    """The data sets, and the one for calibration; rows that were left out are reported on stderr.

    Files of the same name in two folders are called by their paths.
    """
    from neurogame.data import load

    sets = [load(name, **options) for name in names]
    for pairs in sets:
        if pairs.malformed or pairs.without_gold:
            typer.echo(pairs.summary(), err=True)
    own = [pairs.name for pairs in sets]
    distinct = [
        replace(pairs, name=path) if own.count(pairs.name) > 1 else pairs
        for pairs, path in zip(sets, names, strict=True)
    ]
    return distinct, None if calibrate is None else load(calibrate, **options)
