"""The verbs of the command line. Results go to stdout, progress and errors to stderr; exit 0, 1 or 2.

A module per verb; what they share is in `common`. Nothing here imports torch at the top of a file: `--help`,
`--version` and messages about files come before it.
"""

import sys
from typing import Annotated

import typer

import neurogame
from neurogame.cli import benchmark, evaluate, explain, export, garbage, ground, info, predict, serve, train

app = typer.Typer(no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"neurogame {neurogame.__version__}")
        raise typer.Exit


@app.callback()
def verbs(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """NeuroGame: natural-language inference that explains itself: label, reasons and word pairs in one pass.

    Results go to stdout, progress and errors to stderr. Exit status: 0 done, 1 failed with a one-line reason,
    2 wrong usage.
    """


for _verb in (
    info.example,
    train.train,
    evaluate.evaluate,
    predict.predict,
    explain.explain,
    ground.ground,
    export.export,
    serve.serve,
):
    app.command()(_verb)
app.add_typer(benchmark.app, name="benchmark")
app.command()(info.info)


def main() -> None:
    """Entry point of the `neurogame` command."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that lacks a letter gets its number, not a traceback
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    with garbage.postponed():
        app()
