"""`neurogame train`: a run file becomes a folder with a model."""

from pathlib import Path

import typer

from neurogame._common import extras
from neurogame.cli import common


def train(
    config: Path,
    override: list[str] | None = None,
    resume: bool = False,
    end: bool = False,
    check: bool = False,
    as_json: bool = False,
) -> None:
    """Train a model as a run file says: model, figures, metrics and a model card in one folder.

    A folder holds one run: another is refused there, --resume continues an interrupted one.
    """
    extras.check("train")
    from neurogame.training.files import read_mapping

    content = read_mapping(config, override or ())
    from neurogame import training
    from neurogame.evaluation import Report
    from neurogame.training import card
    from neurogame.training.build import read_splits
    from neurogame.training.config import parse_config

    common.begin()
    run = parse_config(content, str(config))
    if check:
        if run.data.hub:
            _name_hub()
        splits = read_splits(run.data)
        sets = (splits.train, splits.dev, *splits.test)
        if as_json:
            common.print_json({data.name: card.describe(data) for data in sets})
        else:
            typer.echo("\n".join(data.summary() for data in sets))
        return
    metrics = training.train(run, resume=resume, end=end)
    if metrics:  # else another process writes the results
        common.show(metrics, lambda all_: Report.from_dict(all_["evaluation"]).table(), as_json=as_json)
        typer.echo(f"model, report and curves: {run.folder}", err=True)


def _name_hub() -> None:
    """On stderr, that a run needs the extra `hub`, and the command that installs it where it is missing."""
    state = "installed" if extras.installed("hub") else f"not installed: {extras.install_line('hub')}"
    needs = f"needs the extras train (installed) and hub ({state})"
    typer.echo(f"neurogame train: {needs}: data.hub: true downloads sets that are not under data.root", err=True)
