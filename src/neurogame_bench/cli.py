"""`neurogame benchmark …`: measurements, as tables, JSON, figures. Imported by `neurogame.cli`, without torch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from neurogame.cli import common

app = typer.Typer(help="Measure, and compare with what else there is.", no_args_is_help=True)
_verb = partial(common.verb, group="benchmark ")


def _measure(name: str, figure: Path | None, *, as_json: bool, **options: Any) -> None:
    """Run `neurogame_bench.NAME`: progress to stderr, the table or JSON to stdout, the figure to its file."""
    from neurogame._common.writing import figure_format

    module = import_module(f"neurogame_bench.{name}")
    if figure is not None:
        figure_format(figure)  # refused now, not when all is measured
    with _progress(f"benchmark {name}") as progress:
        results = module.run(progress=progress, **options)
    if figure is not None:
        module.figure(results, figure)
    common.show(results, module.table, as_json=as_json)


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


@app.command()
@_verb
def attention(as_json: bool = False, figure: Path | None = None, repetitions: int = 15, longest: int = 16384) -> None:
    """Time and memory of NeuroGame attention as ratios to torch.nn.MultiheadAttention, in one run."""
    from neurogame_bench.attention import LENGTHS

    lengths = tuple(n for n in LENGTHS if n <= longest)
    _measure("attention", figure, as_json=as_json, repetitions=repetitions, lengths=lengths)


@app.command()
@_verb
def values(as_json: bool = False, figure: Path | None = None, seed: int = 0) -> None:
    """Estimators of the Shapley value at equal evaluations and equal time: ours, shapiq's, captum's."""
    _measure("values", figure, as_json=as_json, seed=seed)


@app.command()
@_verb
def couplings(as_json: bool = False, figure: Path | None = None, seed: int = 0) -> None:
    """Error of the linear-time couplings against exact pairs, beside the sampling error."""
    _measure("couplings", figure, as_json=as_json, seed=seed)


@app.command()
@_verb
def throughput(as_json: bool = False, figure: Path | None = None, repetitions: int = 5) -> None:
    """Pairs per second of every head on an encoder of the size of MiniLM-L6, as ratios to mean pooling."""
    _measure("throughput", figure, as_json=as_json, repetitions=repetitions)


@app.command()
@_verb
def explanations(
    model: str | None = None,
    data: str = "snli/dev",
    pairs: int = 20,
    limits: list[str] | None = None,
    seed: int = 0,
    methods: str | None = None,
    rationales: str | None = None,
    root: Path | None = None,
    hub: bool = False,
    device: str | None = None,
    runs: Path | None = None,
    as_json: bool = False,
    figure: Path | None = None,
) -> None:
    """How faithful and how plausible explanations are, method by method, beside random orders and people."""
    common.check_figure(figure)
    common.begin()
    options: dict[str, Any] = {"model": model, "data": data, "rationales": rationales, "root": root, "hub": hub}
    options |= {"limits": _limits(limits), "pairs": pairs, "seed": seed, "methods": common.split_names(methods)}
    _measure("explanations", figure, as_json=as_json, device=device, runs=runs, **options)


def _limits(given: list[str] | None) -> dict[str, int]:
    """["lime=5", …] as a mapping; anything else is wrong usage."""
    limits: dict[str, int] = {}
    for option in given or ():
        name, _, count = option.partition("=")
        if not name or not count.isdecimal():
            raise typer.BadParameter(f"--limit {option}: expected NAME=N, a method or a metric and a number of pairs")
        limits[name] = int(count)
    return limits
