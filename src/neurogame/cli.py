"""The verbs of the command line. Results go to stdout, progress and errors to stderr; exit 0, 1 or 2."""

import json
import sys
from typing import Annotated

import typer
from rich.console import Console

import neurogame

app = typer.Typer(
    help="NeuroGame: attention by contribution.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
Json = Annotated[bool, typer.Option("--json", help="Print plain JSON instead of tables.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"neurogame {neurogame.__version__}")
        raise typer.Exit


@app.callback()
def verbs(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """NeuroGame: attention by contribution."""


@app.command()
def example(as_json: Json = False) -> None:
    """The paper's "not good movie", recomputed: exact values, both estimators, spins, and what the paper prints."""
    from neurogame.example import recompute, render

    found = recompute()
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False, indent=2))
    else:
        Console(width=None if sys.stdout.isatty() else 120).print(render(found))


def main() -> None:
    """Entry point of the `neurogame` command."""
    app()
