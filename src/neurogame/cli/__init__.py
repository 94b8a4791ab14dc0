"""The verbs of the command line. Results go to stdout, progress and errors to stderr; exit 0, 1 or 2.

A module per verb; what they share is in `common`, what --help says of their options in options.toml. Nothing here
imports torch at the top of a file: `--help`, `--version` and messages about files come before it.
"""

import sys
from typing import Annotated

import typer

import neurogame
from neurogame.cli import common, evaluate, explain, export, ground, predict, serve, train
from neurogame_bench import cli as benchmark

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


def example(as_json: bool = False) -> None:
    """The paper's "not good movie", recomputed: exact values, both estimators, spins, and what the paper prints."""
    from neurogame.example import recompute, render

    common.show(recompute(), render, as_json=as_json, width=120)


def info(as_json: bool = False) -> None:
    """Versions, threads, compiled loops, and the model that comes with the package: what a bug report needs."""
    from neurogame import about

    common.show(about.describe(), about.render, as_json=as_json, width=120)


_MAIN = (evaluate.evaluate, predict.predict, explain.explain, ground.ground, export.export, serve.serve)
for _verb in (example, train.train, *_MAIN):
    app.command()(common.verb(_verb))
app.add_typer(benchmark.app, name="benchmark")
app.command()(common.verb(info))


def main() -> None:
    """Entry point of the `neurogame` command."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that lacks a letter gets its number, not a traceback
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    with common.postponed_collections():
        app()
