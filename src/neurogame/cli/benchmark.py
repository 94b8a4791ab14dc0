"""`neurogame benchmark …`: measurements, as tables, JSON, figures."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from neurogame.cli import common

app = typer.Typer(help="Measure, and compare with what else there is.", no_args_is_help=True)


def _measure(name: str, figure: Path | None, *, as_json: bool, **options: Any) -> None:
    """Run `neurogame_bench.NAME`: progress to stderr, the table or JSON to stdout, the figure to its file."""
    from neurogame.writing import figure_format

    module = import_module(f"neurogame_bench.{name}")
    with common.one_line(f"benchmark {name}"):
        if figure is not None:
            figure_format(figure)  # refused now, not when all is measured
        with _progress(f"benchmark {name}") as progress:
            results = module.run(progress=progress, **options)
        if figure is not None:
            module.figure(results, figure)
    if as_json:
        common.print_json(results)
    else:
        common.console(160).print(module.table(results))


@contextmanager
def _progress(verb: str) -> Iterator[Callable[[str], None]]:
    """What is being done, on stderr: beside a spinner in a terminal, as lines in a file."""
    stderr = Console(stderr=True)
    if not stderr.is_terminal:
        yield lambda message: typer.echo(message, err=True)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, transient=True) as bar:
        task = bar.add_task(verb, total=None)
        yield lambda message: bar.update(task, description=message)


@app.command("attention")
def benchmark_attention(
    as_json: common.Json = False,
    figure: common.Figure = None,
    repetitions: Annotated[int, typer.Option(min=1, help="Interleaved repetitions of each case.")] = 15,
    longest: Annotated[int, typer.Option(min=1024, help="Longest sequence to try.")] = 16384,
) -> None:
    """Time and memory of NeuroGame attention as ratios to torch.nn.MultiheadAttention, in one run."""
    from neurogame_bench.attention import LENGTHS

    lengths = tuple(n for n in LENGTHS if n <= longest)
    _measure("attention", figure, as_json=as_json, repetitions=repetitions, lengths=lengths)


@app.command("values")
def benchmark_values(as_json: common.Json = False, figure: common.Figure = None, seed: int = 0) -> None:
    """Estimators of the Shapley value at equal evaluations and equal time: ours, shapiq's, captum's."""
    _measure("values", figure, as_json=as_json, seed=seed)


@app.command("couplings")
def benchmark_couplings(as_json: common.Json = False, figure: common.Figure = None, seed: int = 0) -> None:
    """Error of the linear-time couplings against exact pairs, beside the sampling error."""
    _measure("couplings", figure, as_json=as_json, seed=seed)


@app.command("throughput")
def benchmark_throughput(
    as_json: common.Json = False,
    figure: common.Figure = None,
    repetitions: Annotated[int, typer.Option(min=1, help="Interleaved repetitions of each head.")] = 5,
) -> None:
    """Pairs per second of every head on an encoder of the size of MiniLM-L6, as ratios to mean pooling."""
    _measure("throughput", figure, as_json=as_json, repetitions=repetitions)


@app.command("explanations")
def benchmark_explanations(
    model: common.Model = None,
    data: Annotated[
        str,
        common.data("--data", "-d", metavar="NAME|FILE", help="A file, or a data set by name; toy/dev needs no files."),
    ] = "snli/dev",
    pairs: Annotated[int, typer.Option(min=1, help="Pairs drawn from it, and from the rationales.")] = 20,
    limits: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="NAME=N", help="Fewer pairs for a slow method or metric; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw, and of everything that samples.")] = 0,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B", help="Methods to compare; by default all that work for the model.")
    ] = None,
    rationales: Annotated[
        str | None, common.data(metavar="NAME|FILE", help="Pairs with human highlights, in the columns of e-SNLI.")
    ] = None,
    root: common.Root = None,
    hub: common.Hub = False,
    device: common.Device = None,
    runs: Annotated[
        Path | None,
        common.output(metavar="FOLDER", help="Keep finished steps there: the same command resumes where it stopped."),
    ] = None,
    as_json: common.Json = False,
    figure: common.Figure = None,
) -> None:
    """How faithful and how plausible explanations are, method by method, beside random orders and people."""
    with common.one_line("benchmark explanations"):
        common.check_figure(figure)
    common.begin()
    chosen: dict[str, Any] = {"model": model, "data": data, "rationales": rationales, "root": root, "hub": hub}
    chosen |= {
        "limits": _limits(limits),
        "pairs": pairs,
        "seed": seed,
        "methods": common.listed(methods),
        "device": device,
        "runs": runs,
    }
    _measure("explanations", figure, as_json=as_json, **chosen)


def _limits(given: list[str] | None) -> dict[str, int]:
    """["lime=5", …] as a mapping; anything else is wrong usage."""
    limits: dict[str, int] = {}
    for option in given or ():
        name, _, count = option.partition("=")
        if not name or not count.isdecimal():
            raise typer.BadParameter(f"--limit {option}: expected NAME=N, a method or a metric and a number of pairs")
        limits[name] = int(count)
    return limits
