"""`neurogame explain`: one pair or text in the terminal, as JSON, page or figure; or a file of them into a folder."""

import json
import sys
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from neurogame._common import extras, methods
from neurogame._common.places import check_page
from neurogame._common.printing import cut
from neurogame.cli import common

if TYPE_CHECKING:
    from neurogame.nli import NLI


def explain(
    text: str,
    hypothesis: str | None = None,
    model: str | None = None,
    method: str | None = None,
    target: str | None = None,
    contrast: str | None = None,
    level: str = "word",
    samples: int | None = None,
    seed: int = 0,
    check: bool = True,
    error: float | None = None,
    explainer: Path | None = None,
    model_labels: str | None = None,
    device: str | None = None,
    backend: str = "torch",
    columns: list[str] | None = None,
    limit: int | None = None,
    resume: bool = False,
    details: bool = False,
    html: Path | None = None,
    figure: Path | None = None,
    kind: str = "sentence",
    output: Path | None = None,
    as_json: bool = False,
) -> None:
    """Why a model labels a pair as it does: what each word adds, which words need or replace each other.

    The page replaces a file of that name. Of a file every row is explained, into JSON lines and pages with an index;
    a row that fails has a record that says why.
    """
    question: dict[str, Any] = {"method": method, "target": target, "contrast": contrast, "level": level}
    question |= {"samples": samples, "seed": seed, "check": check, "error": error}
    opening = {"model": model, "explainer": explainer, **common.load_options(model_labels, device, backend)}
    single = _is_single(opening)
    if hypothesis is None and not (single and not _is_file(text)):
        if html is not None or figure is not None:
            raise typer.BadParameter("--html and --figure are for one pair; a FILE has pages of its own")
        if not _is_file(text):  # probably a premise without its hypothesis
            raise typer.BadParameter(f"{cut(text, 60)!r} is no file; for one pair give PREMISE and HYPOTHESIS")
        reading: dict[str, Any] = {"columns": common.parse_columns(columns, single=True), "limit": limit}
        if not single:
            common.check_source(text, reading["columns"])
        _check(opening, method)
        _file(text, opening, question, reading, output, resume=resume, as_json=as_json, single=single)
        return
    if columns or limit or resume or output is not None:
        raise typer.BadParameter("--column, --limit, --resume and --output are for a FILE, not for one pair")
    common.check_figure(figure, "explain")
    if html is not None:
        check_page(html.expanduser())
    _check(opening, method)
    from neurogame._common.validation import check_choice
    from neurogame.explanation.views import figures

    common.begin()
    check_choice("kind", kind, figures.Kind)
    ex = _load(opening, method).explain(text, hypothesis, **question)  # type: ignore[arg-type]  # single texts
    if figure is not None:
        figures.figure(ex, kind, figure)
        typer.echo(f"figure: {figure}", err=True)
    if html is not None:
        typer.echo(f"page: {ex.to_html(html)}", err=True)
    if as_json:
        common.print_json(ex.to_dict())
    else:
        ex.show(common.console(100), details=details)


def _is_single(opening: dict[str, Any]) -> bool:
    """Whether the explainer that will be used was fitted on single texts; its file says so, without torch."""
    place, name = opening["explainer"], "explainer.json"
    if place is None and opening["model"] is not None:
        place = Path(opening["model"]) / "explainer"  # as `embedded.EXPLAINER`, which is behind torch
        if opening["backend"] == "onnx":
            place, name = Path(opening["model"]), "game.json"  # as `export.folder.GAME`
    try:
        metadata = json.loads((Path(place).expanduser() / name).read_text(encoding="utf-8"))
        return bool(metadata.get("parts") == 1)
    except (OSError, TypeError, ValueError, AttributeError):  # missing or damaged, which opening it reports
        return False


def _is_file(text: str) -> bool:
    from neurogame.data.formats import kind_of

    try:
        is_named = text == "-" or kind_of(text) is not None or Path(text).exists()
    except (OSError, ValueError):  # too long for a path, or with a null in it
        return False
    return is_named and len(text.splitlines()) <= 1


def _check(opening: dict[str, Any], method: str | None) -> None:
    """Check what needs no torch: folders of model and explainer, the name of the method, its packages."""
    common.check_model(opening["model"], opening["backend"], opening["explainer"])
    if method is not None:
        name = methods.normalise(method)
        if name not in methods.names():
            raise ValueError(f"method = {method!r} is unknown; allowed: {', '.join(map(repr, methods.names()))}")
        if name in methods.NEEDS:
            extras.check("explain", *methods.NEEDS[name])


def _load(opening: dict[str, Any], method: str | None) -> "NLI":
    """The model. An exported graph may give logits and no more: say which method that leaves, if none is named."""
    from neurogame.explanation import best
    from neurogame.nli import OnnxNLI, load

    nli = load(opening.pop("model"), **opening)
    if method is None and isinstance(nli, OnnxNLI) and nli.explainer is None:
        typer.echo(
            f"neurogame explain: an ONNX graph gives no game, so the method is {best(nli.model)}: words are taken out "
            "of the input, in many passes; --backend torch has reasons in one",
            err=True,
        )
    return nli


def _file(
    source: str,
    opening: dict[str, Any],
    question: dict[str, Any],
    reading: dict[str, Any],
    output: Path | None,
    *,
    resume: bool,
    as_json: bool,
    single: bool,
) -> None:
    from neurogame.explanation import collection

    common.begin()
    streamed = as_json and output is None
    folder = output or Path(f"{'stdin' if source == '-' else Path(source.removesuffix('.gz')).stem}-explained")
    if streamed:
        collection.rows_of(source, reading["columns"], single=single).close()
    else:
        collection.check(source, folder, reading["columns"], resume=resume, single=single)
    total = collection.count(source, **reading, single=single)
    nli = _load(opening, question["method"])
    # a bar and lines of results would write over each other in one terminal
    with common.progress("explain", total, shown=not (streamed and sys.stdout.isatty())) as advance:
        if streamed:
            with closing(collection.rows_of(source, reading["columns"], single=single)) as rows:
                limited, live = islice(rows, reading["limit"]), source == "-"
                collection.write(nli, limited, sys.stdout, progress=advance, live=live, **question)
            return
        done = collection.explain_file(nli, source, folder, **reading, resume=resume, progress=advance, **question)
    typer.echo(common.in_one_line(done.summary()), err=True)
    if folder.is_dir():
        typer.echo(f"pages: {folder / 'index.html'}", err=True)
    if as_json:
        common.print_json(done.to_dict())
