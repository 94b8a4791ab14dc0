"""The verbs of the command line. Results go to stdout, progress and errors to stderr; exit 0, 1 or 2."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

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


def _console(width: int) -> Console:
    """As wide as the terminal; `width` where the output goes to a file."""
    return Console(width=None if sys.stdout.isatty() else width)


@app.command()
def example(as_json: Json = False) -> None:
    """The paper's "not good movie", recomputed: exact values, both estimators, spins, and what the paper prints."""
    from neurogame.example import recompute, render

    found = recompute()
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False, indent=2))
    else:
        _console(120).print(render(found))


benchmark = typer.Typer(help="Measure, and compare with what else there is.", no_args_is_help=True)
app.add_typer(benchmark, name="benchmark")
Figure = Annotated[Path | None, typer.Option("--figure", help="Also draw the result into this file (PNG or SVG).")]


def _measure(name: str, figure: Path | None, *, as_json: bool, **options: Any) -> None:
    """Run `neurogame.benchmark.NAME`: progress to stderr, the table or JSON to stdout, the figure to its file."""
    module = import_module(f"neurogame.benchmark.{name}")
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(f"benchmark {name}", total=None)
            found = module.run(progress=lambda message: bar.update(task, description=message), **options)
        if figure is not None:
            module.figure(found, figure)
    except (ImportError, ValueError, OSError) as error:
        typer.echo(f"neurogame benchmark {name}: {error}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False, indent=1))
    else:
        _console(160).print(module.table(found))


@benchmark.command("attention")
def benchmark_attention(
    as_json: Json = False,
    figure: Figure = None,
    repetitions: Annotated[int, typer.Option(min=1, help="Interleaved repetitions of each case.")] = 15,
    longest: Annotated[int, typer.Option(min=1024, help="Longest sequence to try.")] = 16384,
) -> None:
    """Time and memory of NeuroGame attention as ratios to torch.nn.MultiheadAttention, in one run."""
    from neurogame.benchmark.attention import LENGTHS

    lengths = tuple(n for n in LENGTHS if n <= longest)
    _measure("attention", figure, as_json=as_json, repetitions=repetitions, lengths=lengths)


@benchmark.command("values")
def benchmark_values(as_json: Json = False, figure: Figure = None, seed: int = 0) -> None:
    """Estimators of the Shapley value at equal evaluations and equal time: ours, shapiq's, captum's."""
    _measure("values", figure, as_json=as_json, seed=seed)


@benchmark.command("couplings")
def benchmark_couplings(as_json: Json = False, figure: Figure = None, seed: int = 0) -> None:
    """Error of the linear-time couplings against exact pairs, beside the sampling error."""
    _measure("couplings", figure, as_json=as_json, seed=seed)


def main() -> None:
    """Entry point of the `neurogame` command."""
    app()
