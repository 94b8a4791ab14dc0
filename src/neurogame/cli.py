"""The verbs of the command line. Results go to stdout, progress and errors to stderr; exit 0, 1 or 2."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import neurogame
from neurogame.extras import need
from neurogame.modeling.loading import quiet

app = typer.Typer(no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)
_data, _output = (partial(typer.Option, rich_help_panel=panel) for panel in ("Data", "Output"))
Json = Annotated[bool, _output("--json", help="Print plain JSON instead of tables.")]
Figure = Annotated[Path | None, _output("--figure", metavar="FILE", help="Also draw the result: .png or .svg.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"neurogame {neurogame.__version__}")
        raise typer.Exit


@app.callback()
def verbs(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """NeuroGame: natural-language inference by contribution: tokens play a cooperative game, and spins vote.

    Results go to stdout, progress and errors to stderr. Exit status: 0 done, 1 failed with a one-line reason,
    2 wrong usage.
    """


def _console(width: int) -> Console:
    """As wide as the terminal; `width` where the output goes to a file."""
    return Console(width=None if sys.stdout.isatty() else width)


@contextmanager
def _one_line(verb: str) -> Iterator[None]:
    """A user's mistake ends in one line on stderr and exit 1, never in a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"neurogame {verb}: interrupted", err=True)
        raise typer.Exit(130) from None
    except BrokenPipeError:  # `| head` has seen enough; typer knows what to do
        raise
    except (ImportError, ValueError, OSError) as error:
        typer.echo(f"neurogame {verb}: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(1) from None


@contextmanager
def _progress(verb: str, *, shown: bool = True) -> Iterator[Callable[[int], object]]:
    """A count on stderr; called with how many more are done.

    Rich would send what is printed meanwhile to its own console, results on stdout to stderr: it is told not to.
    """
    columns = (SpinnerColumn(), TextColumn("{task.description}, {task.completed} pairs"), TimeElapsedColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    bar.disable = not (shown and console.is_terminal)
    with bar:
        task = bar.add_task(verb, total=None)
        yield lambda done: bar.update(task, advance=done)


def _print_json(found: Any) -> None:
    typer.echo(json.dumps(found, ensure_ascii=False, indent=1))


@app.command()
def example(as_json: Json = False) -> None:
    """The paper's "not good movie", recomputed: exact values, both estimators, spins, and what the paper prints."""
    from neurogame.example import recompute, render

    found = recompute()
    if as_json:
        _print_json(found)
    else:
        _console(120).print(render(found))


Columns = Annotated[
    list[str] | None,
    _data(
        "--column",
        metavar="OURS=THEIRS",
        help="Which column is the premise, hypothesis or label, as in premise=text_a; may be repeated.",
    ),
]
ModelNames = Annotated[
    str | None,
    typer.Option(
        "--model-labels",
        metavar="A,B,C",
        help="Names of the model's logits in order, where its configuration has only LABEL_0, LABEL_1 …",
    ),
]
_NONE = "by default the one that comes with the package"
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help=f"Folder of a model, or its name on the hub; {_NONE}.",
        show_default=False,
    ),
]
Device = Annotated[
    str | None, typer.Option(metavar="NAME", help="cpu, cuda, cuda:1, mps …; by default cuda if there is one.")
]


def _mapping(options: list[str] | None) -> dict[str, str] | None:
    """["a=b", …] of --column as a mapping; anything else is wrong usage."""
    found: dict[str, str] = {}
    for option in options or ():
        ours, _, theirs = option.partition("=")
        if ours not in ("premise", "hypothesis", "label") or not theirs:
            raise typer.BadParameter(
                f"--column {option}: expected premise=COLUMN, hypothesis=COLUMN or label=COLUMN of the file"
            )
        if ours in found:
            raise typer.BadParameter(f"--column {ours} is given twice")
        found[ours] = theirs
    return found or None


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]


@app.command()
def train(
    config: Annotated[Path, typer.Option("--config", "-c", help="The run as a YAML file; configs/ has examples.")],
    override: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Over the file, as in training.epochs=1; may be repeated."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint of this run.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Only check the run file, and read its data.")] = False,
    as_json: Json = False,
) -> None:
    """Train a model as a run file says: model, figures, metrics and a model card in one folder.

    A folder holds one run: another is refused there, an interrupted one goes on with --resume.
    """
    with _one_line("train"):
        need("pydantic", "train")
        from neurogame import training
        from neurogame.training import card
        from neurogame.training.build import read_splits

        quiet()
        run = training.read_config(config, override or ())
        if check:
            splits = read_splits(run.data)
            sets = (splits.train, splits.dev, *splits.test)
            if as_json:
                _print_json({data.name: card.described(data) for data in sets})
            else:
                typer.echo("\n".join(data.summary() for data in sets))
            return
        metrics = training.train(run, resume=resume)
        if not metrics:  # another process writes the results
            return
        if as_json:
            _print_json(metrics)
        else:
            from neurogame.evaluation import Report

            _console(160).print(Report.from_dict(metrics["evaluation"]).table())
        typer.echo(f"model, report and curves: {run.folder}", err=True)


@app.command()
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
            metavar="[MODEL]...", help=f"Folders of models, or names on the hub; {_NONE}.", show_default=False
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
    model_labels: ModelNames = None,
    device: Device = None,
    root: Annotated[
        Path | None,
        _data(metavar="FOLDER", help="Where the files of named sets are; by default $NEUROGAME_DATA, or data/."),
    ] = None,
    hub: Annotated[bool, _data("--hub", help="Download a named set that is not there.")] = False,
    columns: Columns = None,
    label_names: Annotated[str | None, _data(metavar="A,B,C", help="What 0, 1, 2 in a label column stand for.")] = None,
    limit: Annotated[int | None, _data(min=1, help="Only the first so many pairs of each set.")] = None,
    skip: Annotated[bool, _data("--skip-malformed", help="Leave out rows that cannot be read, and count.")] = False,
    output: Annotated[
        Path | None, _output("--output", "-o", metavar="FOLDER", help="Save report and predictions there.")
    ] = None,
    figure: Figure = None,
    markdown: Annotated[bool, _output("--markdown", help="Print Markdown instead of tables.")] = False,
    as_json: Json = False,
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
    mapping = _mapping(columns)
    with _one_line("evaluate"):
        from neurogame import data as sets
        from neurogame import evaluation
        from neurogame.nli import load

        quiet()
        _check_report(output, figure)
        reading: dict[str, Any] = {"root": root, "columns": mapping, "hub": hub, "limit": limit}
        reading |= {"label_names": _listed(label_names), "on_error": "skip" if skip else "raise"}
        loaded = _distinct([sets.load(name, **reading) for name in data], data)
        for read in loaded:
            if read.malformed or read.without_gold:
                typer.echo(read.summary(), err=True)
        calibration = None if calibrate is None else sets.load(calibrate, **reading)
        others = [] if against is None else list(evaluation.load_predictions(against))
        options: dict[str, Any] = {"batch_size": batch_size, "calibration": calibration, "bins": bins, "seed": seed}
        nlis = (load(model, label_names=_listed(model_labels), device=device) for model in given)
        reports: list[evaluation.Report] = []
        for model, nli in zip(given, nlis, strict=True):
            name = nli.name if nli.name not in {report.models[0] for report in reports} else str(model)
            with _progress(f"evaluate {name}") as advance:
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
            _print_json(report.to_dict())
        elif markdown:
            typer.echo(report.to_markdown())
        else:
            _console(160).print(report.table())


def _check_report(output: Path | None, figure: Path | None) -> None:
    """What would fail when everything has been computed, fails before."""
    if output is not None:
        from neurogame.evaluation.storage import existing

        if output.is_file():
            raise FileExistsError(f"{output} is a file; the report is saved as a folder")
        if existing(output):
            raise FileExistsError(f"{output} already holds an evaluation, which is never overwritten; choose another")
    if figure is not None:
        need("matplotlib", "train")
        if figure.exists():
            raise FileExistsError(f"{figure} exists already; a figure never overwrites a file")
        if figure.suffix.lower() not in (".png", ".svg"):
            raise ValueError(f"--figure {figure}: a figure is written as .png or .svg")


def _distinct(found: list[Any], given: list[str]) -> list[Any]:
    """Files of the same name in two folders are told apart by their paths."""
    names = [data.name for data in found]
    named = zip(found, given, strict=True)
    return [replace(data, name=path) if names.count(data.name) > 1 else data for data, path in named]


@app.command()
def predict(
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV, TSV or JSONL, gzipped or not; - is stdin.")],
    model: Model = None,
    output: Annotated[
        Path | None,
        _output("--output", "-o", metavar="FILE", help="A new .jsonl or .csv file, written whole or not at all."),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Pairs per forward pass.")] = 32,
    model_labels: ModelNames = None,
    device: Device = None,
    columns: Columns = None,
    strict: Annotated[bool, _data("--strict", help="Fail at a malformed row instead of skipping it.")] = False,
    as_json: Annotated[
        bool, _output("--json", help="Print a line of JSON per pair instead of text; with -o, JSON that says how many.")
    ] = False,
) -> None:
    """Label every pair of a file, in order and in constant memory; malformed rows are skipped and counted.

    To stdout go label, probability, premise and hypothesis, tab-separated. JSON lines and CSV also have all
    probabilities and the file's other columns (an id …); its own label becomes `gold`.
    """
    mapping = _mapping(columns)
    with _one_line("predict"):
        from neurogame import prediction
        from neurogame.nli import load

        quiet()
        prediction.check(file, output, mapping)
        nli = load(model, label_names=_listed(model_labels), device=device)
        # a bar and lines of results would write over each other in one terminal
        with _progress("predict", shown=output is not None or not sys.stdout.isatty()) as advance:
            done = prediction.predict_file(
                nli,
                file,
                output,
                columns=mapping,
                on_error="raise" if strict else "skip",
                batch_size=batch_size,
                as_json=as_json,
                progress=advance,
            )
        typer.echo(done.summary(), err=True)
        if as_json and output is not None:
            _print_json(done.to_dict())


@app.command()
def explain(
    premise: Annotated[str, typer.Argument(metavar="PREMISE", help="What is given.", show_default=False)],
    hypothesis: Annotated[str, typer.Argument(metavar="HYPOTHESIS", help="What may follow.", show_default=False)],
    model: Model = None,
    method: Annotated[
        str,
        typer.Option(metavar="NAME", help="decision: what each word adds to a logit; game: the values in the layer."),
    ] = "decision",
    target: Annotated[
        str | None, typer.Option(metavar="LABEL", help="The label to explain; by default the predicted one.")
    ] = None,
    contrast: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Explain the target against this label.")
    ] = None,
    level: Annotated[str, typer.Option(metavar="word|token", help="Words, or the pieces the model reads.")] = "word",
    model_labels: ModelNames = None,
    device: Device = None,
    html: Annotated[Path | None, _output("--html", metavar="FILE", help="Also write a page that needs no net.")] = None,
    as_json: Json = False,
) -> None:
    """Why a model labels a pair as it does: what each word adds, which words need or replace each other.

    The page replaces a file of that name.
    """
    with _one_line("explain"):
        from neurogame.nli import load

        quiet()
        nli = load(model, label_names=_listed(model_labels), device=device)
        found = nli.explain(premise, hypothesis, method=method, target=target, contrast=contrast, level=level)
        if html is not None:
            typer.echo(f"page: {found.to_html(html)}", err=True)
        if as_json:
            _print_json(found.to_dict())
        else:
            found.show(_console(100))


benchmark = typer.Typer(help="Measure, and compare with what else there is.", no_args_is_help=True)
app.add_typer(benchmark, name="benchmark")


def _measure(name: str, figure: Path | None, *, as_json: bool, **options: Any) -> None:
    """Run `neurogame.benchmark.NAME`: progress to stderr, the table or JSON to stdout, the figure to its file."""
    module = import_module(f"neurogame.benchmark.{name}")
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with _one_line(f"benchmark {name}"):
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(f"benchmark {name}", total=None)
            found = module.run(progress=lambda message: bar.update(task, description=message), **options)
        if figure is not None:
            module.figure(found, figure)
    if as_json:
        _print_json(found)
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


@benchmark.command("throughput")
def benchmark_throughput(
    as_json: Json = False,
    figure: Figure = None,
    repetitions: Annotated[int, typer.Option(min=1, help="Interleaved repetitions of each head.")] = 5,
) -> None:
    """Pairs per second of every head on an encoder of the size of MiniLM-L6, as ratios to mean pooling."""
    _measure("throughput", figure, as_json=as_json, repetitions=repetitions)


@app.command()
def info(as_json: Json = False) -> None:
    """Versions, threads, compiled loops, and the model that comes with the package: what a bug report needs."""
    from neurogame import about

    with _one_line("info"):
        found = about.describe()
    if as_json:
        _print_json(found)
    else:
        _console(120).print(about.render(found))


def main() -> None:
    """Entry point of the `neurogame` command."""
    app()
