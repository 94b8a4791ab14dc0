"""`neurogame ground`: fit a one-pass explainer to a trained classifier, which stays as it is."""

from pathlib import Path
from typing import Annotated, Any

import typer

from neurogame.cli import common

EXPLAINER = "explainer"  # as `embedded.EXPLAINER`, which is behind torch


def ground(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help=f"Folder of a model, or its name on the hub; {common.BY_DEFAULT}."),
    ] = None,
    data: Annotated[
        list[str] | None,
        common.data(
            "--data",
            metavar="NAME|FILE",
            help="Texts like those to be explained, single or pairs; labels are not needed. A .txt file has a text per "
            "line, a table a column `text`, or `premise` and `hypothesis`. Repeatable.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        common.output("--output", "-o", metavar="FOLDER", help="By default `explainer` in the model's folder."),
    ] = None,
    texts: Annotated[int, typer.Option(min=2, help="At most so many texts, drawn at random.")] = 12_000,
    coalitions: Annotated[int, typer.Option(min=2, help="Incomplete copies of each text; an even number.")] = 2,
    steps: Annotated[int, typer.Option(min=1, help="Of the optimiser.")] = 3000,
    removal: Annotated[str, typer.Option(metavar="delete|mask|pad", help="How words are taken out.")] = "delete",
    level: Annotated[
        str, typer.Option(metavar="word|token|sentence", help="What is taken out and gets a number.")
    ] = "word",
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run behind its last forward pass.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of what is drawn at random.")] = 0,
    bf16: Annotated[
        bool, typer.Option("--bf16", help="Read the texts in bfloat16: faster on newer processors.")
    ] = False,
    model_labels: common.ModelNames = None,
    device: common.Device = None,
    columns: common.Columns = None,
    root: common.Root = None,
    as_json: common.Json = False,
) -> None:
    """Fit a grounded game to a model's own answers on incomplete texts: reasons in one pass from then on.

    Takes minutes on two cores, and an interrupted run can be resumed. The model itself is not changed.
    `neurogame explain --model FOLDER` uses the explainer in the model's folder, or the one that --explainer names.
    """
    if not data:
        raise typer.BadParameter("--data is needed: texts like those that are to be explained")
    if model is None and output is None:
        raise typer.BadParameter("--output is needed for the model that comes with the package")
    with common.one_line("ground"):
        record = _ground(
            model,
            data,
            output,
            opening=common.opening(model_labels, device, "torch"),
            reading={"root": root, "columns": common.mapping(columns, single=True)},
            limit=texts,
            fitting={"coalitions": coalitions, "steps": steps, "removal": removal, "seed": seed, "bf16": bf16}
            | {"level": level},
            resume=resume,
        )
    if as_json:
        common.print_json(record)
    else:
        typer.echo(f"R² on held-out coalitions of held-out texts: {record['r2']:.3f} ({record['held_out']} texts)")


def _ground(
    model: str | None,
    names: list[str],
    output: Path | None,
    *,
    opening: dict[str, Any],
    reading: dict[str, Any],
    limit: int,
    fitting: dict[str, Any],
    resume: bool,
) -> dict[str, Any]:
    import random

    if fitting["coalitions"] % 2:
        raise ValueError(
            f"--coalitions must be even, every coalition comes with its complement; got {fitting['coalitions']}"
        )
    common.check_model(model)
    place = output if output is not None else Path(str(model)).expanduser() / EXPLAINER
    if output is None and not place.parent.is_dir():
        raise ValueError(f"{model} is no folder here: say with --output where the explainer goes")
    if place.is_file():
        raise FileExistsError(f"{place} is a file; an explainer is saved as a folder")
    keep = place.with_name(f"{place.name}.passes")
    _check_resume(keep, resume=resume)
    reading = {name: value for name, value in reading.items() if value is not None}
    pairs = [text for name in names for text in _texts(name, reading)]
    from neurogame.data.removal import Mode  # torch comes here, after everything that may be missing
    from neurogame.grounding.explainer import MOST_HELD_OUT, ground
    from neurogame.nli import load
    from neurogame.validation import check_choice

    common.begin()
    check_choice("removal", fitting["removal"], Mode)
    chosen = random.Random(fitting["seed"]).sample(pairs, min(limit, len(pairs)))  # noqa: S311
    nli = load(model, **opening)
    nli.explainer = None
    held = max(1, min(MOST_HELD_OUT, len(chosen) // 20))
    passes = (len(chosen) - held) * (fitting["coalitions"] + 1) + held * 9
    with common.progress("ground", passes + fitting["steps"]) as advance:
        explainer = ground(
            nli, None, chosen, most=limit, max_length=nli.max_length, keep=keep, progress=advance, **fitting
        )
    explainer.save_pretrained(place)
    typer.echo(f"explainer: {place}", err=True)
    return dict(explainer.record)


def _check_resume(keep: Path, *, resume: bool) -> None:
    """An interrupted run is resumed only if that is asked for, and the other way round."""
    begun = keep.with_name(f"{keep.name}.part.journal").exists()
    if begun and not resume:
        raise FileExistsError(f"{keep}.part holds an interrupted run; --resume continues it, or delete it")
    if resume and not begun:
        raise FileNotFoundError(f"there is no {keep}.part of an interrupted run: there is nothing to resume")


def _texts(name: str, reading: dict[str, Any]) -> list[Any]:
    """Single texts of a file that has such, pairs of any other; a name is that of a set of pairs."""
    from neurogame.data import load as load_data
    from neurogame.data.pairs import DataError, Malformed
    from neurogame.data.texts import is_single, iterate_texts

    columns = reading.get("columns") or {}
    if Path(name).is_file() and is_single(name, columns):
        texts = []
        for row in iterate_texts(name, column=columns.get("text"), on_error="skip"):
            if not isinstance(row, Malformed):
                texts.append(row.text)
            elif row.is_end:
                raise DataError(f"{row}; an unknown number of texts is missing")
        if not texts:
            raise DataError(f"{name}: no row is a text")
        return texts
    return list(load_data(name, require_label=False, **reading))
