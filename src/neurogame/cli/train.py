"""`neurogame train`: a run file becomes a folder with a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neurogame import extras
from neurogame.cli import common

if TYPE_CHECKING:
    from neurogame.training import RunConfig

_FOR = {"hub": "data.hub: true downloads sets that are not under data.root"}


def train(
    config: Annotated[Path, typer.Option("--config", "-c", help="The run as a YAML file; configs/ has examples.")],
    override: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Over the file, as in training.epochs=1; may be repeated."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint of this run.")] = False,
    end: Annotated[
        bool, typer.Option("--end", help="With --resume: no further step; finish with the best model so far.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Only check the run file, and read its data.")] = False,
    as_json: common.Json = False,
) -> None:
    """Train a model as a run file says: model, figures, metrics and a model card in one folder.

    A folder holds one run: another is refused there, --resume continues an interrupted one.
    """
    with common.one_line("train"):
        extras.check("train")
        from neurogame.training.files import read_mapping

        content = read_mapping(config, override or ())
        from neurogame import training
        from neurogame.training import card
        from neurogame.training.build import read_splits
        from neurogame.training.config import parse_config

        common.begin()
        run = parse_config(content, str(config))
        if check:
            _say_extras(run)
            splits = read_splits(run.data)
            sets = (splits.train, splits.dev, *splits.test)
            if as_json:
                common.print_json({data.name: card.describe(data) for data in sets})
            else:
                typer.echo("\n".join(data.summary() for data in sets))
            return
        metrics = training.train(run, resume=resume, end=end)
        if not metrics:  # another process writes the results
            return
        if as_json:
            common.print_json(metrics)
        else:
            from neurogame.evaluation import Report

            common.console(160).print(Report.from_dict(metrics["evaluation"]).table())
        typer.echo(f"model, report and curves: {run.folder}", err=True)


def _say_extras(run: "RunConfig") -> None:
    """On stderr which extras a run needs beyond `train`, which is there, and the command for those that are missing."""
    for extra in ["hub"] if run.data.hub else []:
        state = "installed" if extras.installed(extra) else f"not installed: {extras.install_line(extra)}"
        typer.echo(
            f"neurogame train: needs the extras train (installed) and {extra} ({state}): {_FOR[extra]}", err=True
        )
