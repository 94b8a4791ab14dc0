"""What the verbs share: their options, one line for a mistake, a bar on stderr, JSON and tables on stdout.

All user text that goes to a terminal goes through `printable` or JSON, which escape control characters.
"""

import gc
import json
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial, wraps
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import progress as bars
from rich.console import Console

from neurogame._common import extras
from neurogame._common.places import folder_of
from neurogame._common.printing import printable

_OPTIONS = tomllib.loads(resources.files("neurogame.cli").joinpath("options.toml").read_text(encoding="utf-8"))

# The library speaks of keywords, a terminal has options: `samples = 3: method = 'input' needs …`.
_RENAMED = {"batch_size": "batch-size", "columns": "column", "label_names": "model-labels"}
_KEYWORDS = (
    "backend|batch_size|coalitions|columns|contrast|device|error|explainer|kind|label_names|level|limit|method|quantize"
    "|removal|samples|seed|target"
)
_KEYWORD = re.compile(rf"\b({_KEYWORDS})(?: = |=)(?:(['\"])(.*?)\2|([\w.+-]+))")
_COLUMN = re.compile(r"columns=\{'(\w+)': '(.*?)'\}")

# control characters that JSON does not escape: DEL, the C1 controls, changes of direction
_CONTROL = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_USUAL = gc.get_threshold()
_POSTPONED = 1_000_000  # new objects before a collection: more than all imports make


def verb(function: Callable[..., None], group: str = "") -> Callable[..., None]:
    """A verb of the command line: its options as options.toml has them, a user's mistake as one line and exit 1."""
    annotations, known = function.__annotations__, _OPTIONS["shared"] | _OPTIONS.get(function.__name__, {})
    for name in annotations.keys() & known:
        option = dict(known[name])
        make = typer.Argument if option.pop("argument", False) else typer.Option
        flags, option["rich_help_panel"] = option.pop("flags", "").split(), option.pop("panel", None)
        annotations[name] = Annotated[annotations[name], make(*flags, **option)]

    @wraps(function)
    def run(**options: Any) -> None:
        name = f"neurogame {group}{function.__name__}"
        try:
            function(**options)
        except KeyboardInterrupt:
            typer.echo(f"{name}: interrupted", err=True)
            raise typer.Exit(130) from None
        except BrokenPipeError:  # `| head` has closed the pipe; typer handles it
            raise
        except (ImportError, ValueError, OSError) as error:
            typer.echo(f"{name}: {as_options(in_one_line(error))}", err=True)
            raise typer.Exit(1) from None

    return run


@contextmanager
def postponed_collections() -> Iterator[None]:
    """Postpone garbage collections until `begin`; the one at exit has nothing to look through.

    torch and transformers make about 700 000 objects that stay as long as the process. By default Python looks through
    them again and again while they are made, and once more before it exits. Only the entry point `cli.main` postpones
    collections: a program that imports this package, or calls `cli.app`, keeps its settings.
    """
    gc.set_threshold(_POSTPONED)
    try:
        yield
    finally:
        _resume_collections()
        gc.freeze()


def _resume_collections() -> None:
    """Collect as usual from now on, without the objects that are there; does nothing where nothing is postponed."""
    if gc.get_threshold()[0] == _POSTPONED:
        gc.freeze()
        gc.set_threshold(*_USUAL)


def begin() -> None:
    """After the imports of a verb: transformers' own bars and reports off, garbage collection on.

    transformers is imported here and not above, so that --help is quick.
    """
    from neurogame.modeling import loading

    loading.quiet()
    _resume_collections()


def console(width: int) -> Console:
    """A console as wide as the terminal, even a dumb one; of `width` columns where the output goes to a file."""
    return Console(width=shutil.get_terminal_size().columns if sys.stdout.isatty() else width)


def in_one_line(message: object) -> str:
    """A message without line breaks, control characters escaped."""
    return printable(" ".join(str(message).split()))


def as_options(message: str) -> str:
    """A message of the library in the words of the command line: `--method input` for `method = 'input'`."""

    def option(match: re.Match[str]) -> str:
        return f"--{_RENAMED.get(match[1], match[1])} {shlex.quote(match[3] or match[4] or '')}"

    message = _COLUMN.sub(lambda match: f"--column {match[1]}={shlex.quote(match[2])}", message)
    message = message.replace("hub=True (--hub)", "--hub").replace("(set root or", "(--root FOLDER or")
    return re.sub(r"(--[\w-]+ \w+) \(\1\)", r"\1", _KEYWORD.sub(option, message))  # where the library names it too


@contextmanager
def progress(name: str, total: int | None = None, *, shown: bool = True) -> Iterator[Callable[[int], object]]:
    """A progress bar on stderr, a counter where `total` is not known; called with how many more are done.

    Rich would redirect results on stdout to its own console on stderr; that is switched off.
    """
    columns: tuple[str | bars.ProgressColumn, ...]
    text, done = partial(bars.TextColumn, markup=False), bars.MofNCompleteColumn()
    if total is None:
        columns = bars.SpinnerColumn(), text("{task.description}, {task.completed} pairs"), bars.TimeElapsedColumn()
    else:
        columns = text("{task.description}"), bars.BarColumn(), done, "pairs", bars.TimeRemainingColumn()
    stderr = Console(stderr=True)
    bar = bars.Progress(*columns, console=stderr, transient=True, redirect_stdout=False, redirect_stderr=False)
    bar.disable = not (shown and stderr.is_terminal)
    with bar:
        task = bar.add_task(printable(name), total=total)
        yield lambda count: bar.update(task, advance=count)


def show(content: Any, view: Callable[[Any], Any], *, as_json: bool, width: int = 160) -> None:
    """Print a result: as JSON, or as the table that `view` makes of it."""
    if as_json:
        print_json(content)
    else:
        console(width).print(view(content))


def print_json(content: Any) -> None:
    """Print indented JSON, characters beyond ASCII as they are."""
    typer.echo(safe_json(content, indent=1))


def safe_json(content: Any, *, indent: int | None = None) -> str:
    """JSON with control characters escaped, so that a terminal can show it; NaN, which JSON does not have, raises."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=indent)
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def parse_columns(options: list[str] | None, *, single: bool = False) -> dict[str, str] | None:
    """["a=b", …] of --column as a mapping; anything else is wrong usage. With `single` also text=COLUMN."""
    columns: dict[str, str] = {}
    more = ", or text=COLUMN for single texts" if single else ""
    for option in options or ():
        ours, _, theirs = option.partition("=")
        if ours not in ("premise", "hypothesis", "label", *(["text"] if single else [])) or not theirs:
            expected = f"premise=COLUMN, hypothesis=COLUMN or label=COLUMN of the file{more}"
            raise typer.BadParameter(f"--column {printable(option)}: expected {expected}")
        if ours in columns:
            raise typer.BadParameter(f"--column {ours} is given twice")
        columns[ours] = theirs
    return columns or None


def split_names(names: str | None) -> list[str] | None:
    """Names between commas as a list."""
    return None if names is None else [name.strip() for name in names.split(",")]


def load_options(model_labels: str | None, device: str | None, backend: str) -> dict[str, Any]:
    """Options of `neurogame.load` beside the model, which checks them."""
    return {"label_names": split_names(model_labels), "device": device, "backend": backend}


# Checks that come before torch is imported


def check_model(model: str | None, backend: str = "torch", explainer: Path | None = None) -> None:
    """Refuse the folder of a model or of an explainer that is not there, and a backend that is not installed."""
    if backend == "onnx":
        extras.check("export", "onnxruntime")
        if model is not None and not Path(model).expanduser().is_dir():
            raise FileNotFoundError(f"no folder at {model}; --backend onnx opens folders that `neurogame export` wrote")
    elif model is not None:
        folder_of(model)
    if explainer is not None and not explainer.expanduser().is_dir():
        raise FileNotFoundError(f"--explainer {explainer}: no such folder; `neurogame ground` writes one")


def check_source(source: str, columns: dict[str, str] | None) -> None:
    """Refuse a file of pairs that cannot be read; stdin is read once, later."""
    from neurogame.data.reading import iterate

    if source == "-":
        return
    with closing(iterate(source, columns=columns, require_label=False, on_error="skip")) as rows:
        if Path(source).is_file():  # a pipe can be read only once
            next(rows, None)  # its columns are looked at with the first row


def check_figure(figure: Path | None, extra: str = "train") -> None:
    """Refuse a figure that could not be written when everything has been computed."""
    if figure is None:
        return
    extras.check(extra, "matplotlib")
    if figure.suffix.lower() not in (".png", ".svg"):
        raise ValueError(f"--figure {figure}: a figure is written as .png or .svg")
    if figure.exists():
        raise FileExistsError(f"{figure} exists already; a figure never overwrites a file")
