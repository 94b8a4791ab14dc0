"""`neurogame explain`: one pair or text in the terminal, as JSON, page or figure; or a file of them into a folder."""

import json
import sys
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neurogame import extras
from neurogame.cli import common
from neurogame.places import check_page
from neurogame.printing import cut

if TYPE_CHECKING:
    from neurogame.nli import NLI

_NEEDS = {  # packages of the extra `explain`, by method: `explanation.methods.METHODS` has the same, behind torch
    "integrated_gradients": ("captum",),
    "lime": ("captum", "sklearn"),
    "kernelshap": ("captum", "sklearn"),
    "partition": ("shap",),
}


def explain(
    text: Annotated[
        str,
        typer.Argument(
            metavar="PREMISE|TEXT|FILE",
            help="What is given; or, alone, a file of pairs: CSV, TSV, JSONL (or .gz), Parquet, Arrow; - is stdin. "
            "With an explainer for single texts, a text or a file of texts.",
            show_default=False,
        ),
    ],
    hypothesis: Annotated[
        str | None, typer.Argument(metavar="HYPOTHESIS", help="What may follow.", show_default=False)
    ] = None,
    model: common.Model = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="By default the best that the model has. decision: what each word adds to a logit; game: the values "
            "in the layer; presence, input, occlusion, attention, gradient, integrated_gradients, lime, kernelshap, "
            "partition, random.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="LABEL", help="The label to explain; by default the predicted one.")
    ] = None,
    contrast: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Explain the target against this label.")
    ] = None,
    level: Annotated[
        str, typer.Option(metavar="word|token|sentence", help="Words, pieces the model reads, or sentences.")
    ] = "word",
    samples: Annotated[
        int | None, typer.Option(min=2, help="How much work a method may do; by default what suits it.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of what is drawn at random.")] = 0,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Try swing words and rationale of a grounded game on the model.")
    ] = True,
    error: Annotated[
        float | None, typer.Option(help="Standard error at which refining a grounded game by --samples may stop.")
    ] = None,
    explainer: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="What `neurogame ground` made for this model.")
    ] = None,
    model_labels: common.ModelNames = None,
    device: common.Device = None,
    backend: common.Backend = "torch",
    columns: common.Columns = None,
    limit: Annotated[int | None, common.data(min=1, help="Only the first so many rows of the file.")] = None,
    resume: Annotated[bool, common.data("--resume", help="Continue an interrupted run of the file.")] = False,
    details: Annotated[
        bool, common.output("--details", help="Also values of the games, their errors, and how they were computed.")
    ] = False,
    html: Annotated[
        Path | None, common.output("--html", metavar="FILE", help="Also write a page that needs no net.")
    ] = None,
    figure: common.Figure = None,
    kind: Annotated[
        str, common.output(metavar="KIND", help="Of the figure: sentence, matrix, network, trajectory or lambda.")
    ] = "sentence",
    output: Annotated[
        Path | None,
        common.output(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Where a file's explanations go, by default NAME-explained; a .parquet or .arrow file is a table.",
        ),
    ] = None,
    as_json: Annotated[
        bool,
        common.output("--json", help="Print plain JSON: the explanation; of a file without -o, a line per row."),
    ] = False,
) -> None:
    """Why a model labels a pair as it does: what each word adds, which words need or replace each other.

    The page replaces a file of that name. Of a file every row is explained, into JSON lines and pages with an index;
    a row that fails has a record that says why.
    """
    question: dict[str, Any] = {"method": method, "target": target, "contrast": contrast, "level": level}
    question |= {"samples": samples, "seed": seed, "check": check, "error": error}
    opening = {"model": model, "explainer": explainer, **common.opening(model_labels, device, backend)}
    single = _is_single(opening)
    if hypothesis is None and not (single and not _is_file(text)):
        if html is not None or figure is not None:
            raise typer.BadParameter("--html and --figure are for one pair; a FILE has pages of its own")
        _check_file(text)
        reading: dict[str, Any] = {"columns": common.mapping(columns, single=True), "limit": limit}
        with common.one_line("explain"):
            if not single:
                common.check_source(text, reading["columns"])
            _check(opening, method)
            _file(text, opening, question, reading, output, resume=resume, as_json=as_json, single=single)
        return
    if columns or limit or resume or output is not None:
        raise typer.BadParameter("--column, --limit, --resume and --output are for a FILE, not for one pair")
    with common.one_line("explain"):
        common.check_figure(figure, "explain")
        if html is not None:
            check_page(html.expanduser())
        _check(opening, method)
        _pair(text, hypothesis, opening, question, html, figure, kind, as_json=as_json, details=details)


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
        there = text == "-" or kind_of(text) is not None or Path(text).exists()
    except (OSError, ValueError):  # too long for a path, or with a null in it
        there = False
    return there and len(text.splitlines()) <= 1


def _check_file(text: str) -> None:
    """One argument that is no file is probably a premise without its hypothesis: wrong usage."""
    if not _is_file(text):
        raise typer.BadParameter(f"{cut(text, 60)!r} is no file; for one pair give PREMISE and HYPOTHESIS")


def _check(opening: dict[str, Any], method: str | None) -> None:
    """What can be refused without torch: a model or an explainer that is not there, an extra that is missing."""
    common.check_model(opening["model"], opening["backend"])
    common.check_explainer(opening["explainer"])
    spelled = "_".join((method or "").casefold().replace("-", " ").replace("_", " ").split())
    if spelled in _NEEDS:
        extras.check("explain", *_NEEDS[spelled])


def _say_method(nli: "NLI", method: str | None) -> None:
    """An exported graph may give logits and no more; where no method is named, say which one that leaves."""
    from neurogame.explanation import best
    from neurogame.nli import OnnxNLI

    if method is None and isinstance(nli, OnnxNLI) and nli.explainer is None:
        typer.echo(
            f"neurogame explain: an ONNX graph gives no game, so the method is {best(nli.model)}: words are taken out "
            "of the input, in many passes; --backend torch has reasons in one",
            err=True,
        )


def _pair(
    premise: str,
    hypothesis: str | None,
    opening: dict[str, Any],
    question: dict[str, Any],
    html: Path | None,
    figure: Path | None,
    kind: str,
    *,
    as_json: bool,
    details: bool,
) -> None:
    from neurogame.explanation.views import figures
    from neurogame.nli import load
    from neurogame.validation import check_choice

    common.begin()
    check_choice("kind", kind, figures.Kind)
    nli = load(opening.pop("model"), **opening)
    _say_method(nli, question["method"])
    ex = nli.explain(premise, hypothesis, **question)  # type: ignore[arg-type]  # None: it knows single texts
    if figure is not None:
        figures.figure(ex, kind, figure)
        typer.echo(f"figure: {figure}", err=True)
    if html is not None:
        typer.echo(f"page: {ex.to_html(html)}", err=True)
    if as_json:
        common.print_json(ex.to_dict())
    else:
        ex.show(common.console(100), details=details)


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
    from neurogame.nli import load

    common.begin()
    streamed = as_json and output is None
    folder = output or Path(f"{'stdin' if source == '-' else Path(source.removesuffix('.gz')).stem}-explained")
    if streamed:
        collection.rows_of(source, reading["columns"], single=single).close()
    else:
        collection.check(source, folder, reading["columns"], resume=resume, single=single)
    total = collection.count(source, **reading, single=single)
    nli = load(opening.pop("model"), **opening)
    _say_method(nli, question["method"])
    # a bar and lines of results would write over each other in one terminal
    with common.progress("explain", total, shown=not (streamed and sys.stdout.isatty())) as advance:
        if streamed:
            rows = collection.rows_of(source, reading["columns"], single=single)
            with closing(rows):
                some, live = islice(rows, reading["limit"]), source == "-"
                collection.write(nli, some, sys.stdout, progress=advance, live=live, **question)
            return
        done = collection.explain_file(nli, source, folder, **reading, resume=resume, progress=advance, **question)
    typer.echo(common.in_one_line(done.summary()), err=True)
    if folder.is_dir():
        typer.echo(f"pages: {folder / 'index.html'}", err=True)
    if as_json:
        common.print_json(done.to_dict())
