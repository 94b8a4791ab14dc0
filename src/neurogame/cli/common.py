"""What the verbs share: options that several take, one line for a mistake, a bar on stderr, JSON and tables on stdout.

All user text that goes to a terminal goes through `printable` or JSON, which escape control characters.
"""

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from neurogame import extras
from neurogame.cli import garbage
from neurogame.places import folder_of
from neurogame.printing import printable

data, output = (partial(typer.Option, rich_help_panel=panel) for panel in ("Data", "Output"))
Json = Annotated[bool, output("--json", help="Print plain JSON instead of tables.")]
Figure = Annotated[Path | None, output("--figure", metavar="FILE", help="Also draw the result: .png or .svg.")]
Columns = Annotated[
    list[str] | None,
    data(
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
BY_DEFAULT = "by default the one that comes with the package"
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help=f"Folder of a model, or its name on the hub; {BY_DEFAULT}.",
        show_default=False,
    ),
]
Device = Annotated[
    str | None, typer.Option(metavar="NAME", help="cpu, cuda, cuda:1, mps …; by default cuda if there is one.")
]
Backend = Annotated[
    str,
    typer.Option(
        metavar="torch|onnx", help="What runs the model: torch, or onnxruntime for a folder of `neurogame export`."
    ),
]
Root = Annotated[
    Path | None,
    data(metavar="FOLDER", help="Where the files of named sets are; by default $NEUROGAME_DATA, or data/."),
]
Hub = Annotated[bool, data("--hub", help="Download a named set that is not there.")]

# The library speaks of keywords, a terminal has options: `samples = 3: method = 'input' needs …`.
_OPTIONS = {
    **{name: f"--{name}" for name in ("backend", "contrast", "device", "error", "explainer", "kind", "level", "limit")},
    **{name: f"--{name}" for name in ("method", "quantize", "removal", "samples", "seed", "target", "coalitions")},
    "batch_size": "--batch-size",
    "columns": "--column",
    "label_names": "--model-labels",
}
_KEYWORD = re.compile(rf"\b({'|'.join(_OPTIONS)})(?: = |=)(?:(['\"])(.*?)\2|([\w.+-]+))")
_COLUMN = re.compile(r"columns=\{'(\w+)': '(.*?)'\}")

# control characters that JSON does not escape: DEL, the C1 controls, changes of direction
_CONTROL = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def begin() -> None:
    """After the imports of a verb: transformers' own bars and reports off, garbage collection on.

    transformers is imported here and not above, so that --help is quick.
    """
    from neurogame.modeling import loading

    loading.quiet()
    garbage.resume()


def console(width: int) -> Console:
    """As wide as the terminal, a dumb one too; `width` where the output goes to a file."""
    return Console(width=shutil.get_terminal_size().columns if sys.stdout.isatty() else width)


def in_one_line(message: object) -> str:
    """A message without line breaks, its control characters shown."""
    return printable(" ".join(str(message).split()))


def as_options(message: str) -> str:
    """A message of the library in the words of the command line: `--method input` for `method = 'input'`."""
    message = _COLUMN.sub(lambda match: f"--column {match[1]}={shlex.quote(match[2])}", message)
    message = message.replace("hub=True (--hub)", "--hub").replace("(set root or", "(--root FOLDER or")
    message = _KEYWORD.sub(lambda match: f"{_OPTIONS[match[1]]} {shlex.quote(match[3] or match[4] or '')}", message)
    return re.sub(r"(--[\w-]+ \w+) \(\1\)", r"\1", message)  # where the library names the option too


@contextmanager
def one_line(verb: str) -> Iterator[None]:
    """A user's mistake ends in one line on stderr and exit 1, never in a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"neurogame {verb}: interrupted", err=True)
        raise typer.Exit(130) from None
    except BrokenPipeError:  # `| head` has closed the pipe; typer handles it
        raise
    except (ImportError, ValueError, OSError) as error:
        typer.echo(f"neurogame {verb}: {as_options(in_one_line(error))}", err=True)
        raise typer.Exit(1) from None


@contextmanager
def progress(verb: str, total: int | None = None, *, shown: bool = True) -> Iterator[Callable[[int], object]]:
    """A count on stderr, with an end in sight where `total` is known; called with how many more are done.

    Rich would redirect results on stdout to its own console on stderr; that is switched off.
    """
    stderr = Console(stderr=True)
    bar = Progress(*_columns(total), console=stderr, transient=True, redirect_stdout=False, redirect_stderr=False)
    bar.disable = not (shown and stderr.is_terminal)
    with bar:
        task = bar.add_task(printable(verb), total=total)
        yield lambda done: bar.update(task, advance=done)


def _columns(total: int | None) -> tuple[ProgressColumn, ...]:
    if total is None:
        count = TextColumn("{task.description}, {task.completed} pairs", markup=False)
        return SpinnerColumn(), count, TimeElapsedColumn()
    name = TextColumn("{task.description}", markup=False)
    return name, BarColumn(), MofNCompleteColumn(), TextColumn("pairs"), TimeRemainingColumn()


def print_json(content: Any) -> None:
    """Indented, in the letters of the text."""
    typer.echo(safe_json(content, indent=1))


def safe_json(content: Any, *, indent: int | None = None) -> str:
    """JSON with control characters escaped, so that a terminal can show it; NaN, which JSON does not have, raises."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=indent)
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def mapping(options: list[str] | None, *, single: bool = False) -> dict[str, str] | None:
    """["a=b", …] of --column as a mapping; anything else is wrong usage. With `single` also text=COLUMN."""
    columns: dict[str, str] = {}
    allowed = ("premise", "hypothesis", "label", *(["text"] if single else []))
    for option in options or ():
        ours, _, theirs = option.partition("=")
        if ours not in allowed or not theirs:
            more = ", or text=COLUMN for single texts" if single else ""
            raise typer.BadParameter(
                f"--column {printable(option)}: expected premise=COLUMN, hypothesis=COLUMN or label=COLUMN of the "
                f"file{more}"
            )
        if ours in columns:
            raise typer.BadParameter(f"--column {ours} is given twice")
        columns[ours] = theirs
    return columns or None


def listed(names: str | None) -> list[str] | None:
    """Names between commas as a list."""
    return None if names is None else [name.strip() for name in names.split(",")]


def opening(model_labels: str | None, device: str | None, backend: str) -> dict[str, Any]:
    """Options of `neurogame.load` beside the model, which checks them."""
    return {"label_names": listed(model_labels), "device": device, "backend": backend}


def check_model(model: str | None, backend: str = "torch") -> None:
    """A folder that is not there, or an extra that is missing, is reported before torch is imported."""
    if backend == "onnx":
        extras.check("export", "onnxruntime")
        if model is not None and not Path(model).expanduser().is_dir():
            raise FileNotFoundError(f"no folder at {model}; --backend onnx opens folders that `neurogame export` wrote")
    elif model is not None:
        folder_of(model)


def check_explainer(explainer: Path | None) -> None:
    """A missing folder is reported before torch is imported."""
    if explainer is not None and not explainer.expanduser().is_dir():
        raise FileNotFoundError(f"--explainer {explainer}: no such folder; `neurogame ground` writes one")


def check_source(source: str, columns: dict[str, str] | None) -> None:
    """A file of pairs that cannot be read is reported before torch is imported; stdin is read once, later."""
    from neurogame.data.reading import iterate

    if source == "-":
        return
    rows = iterate(source, columns=columns, require_label=False, on_error="skip")
    with closing(rows):
        if Path(source).is_file():  # a pipe can be read only once
            next(rows, None)  # its columns are looked at with the first row


def check_figure(figure: Path | None, extra: str = "train") -> None:
    """What would fail when everything has been computed, fails before."""
    if figure is None:
        return
    extras.check(extra, "matplotlib")
    if figure.suffix.lower() not in (".png", ".svg"):
        raise ValueError(f"--figure {figure}: a figure is written as .png or .svg")
    if figure.exists():
        raise FileExistsError(f"{figure} exists already; a figure never overwrites a file")
