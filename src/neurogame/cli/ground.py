"""`neurogame ground`: fit a one-pass explainer to a trained classifier, which stays as it is."""

import random
from pathlib import Path
from typing import Any

import typer

from neurogame.cli import common


def ground(
    model: str | None = None,
    data: list[str] | None = None,
    output: Path | None = None,
    texts: int = 12_000,
    coalitions: int = 2,
    steps: int = 3000,
    removal: str = "delete",
    level: str = "word",
    resume: bool = False,
    seed: int = 0,
    bf16: bool = False,
    model_labels: str | None = None,
    device: str | None = None,
    columns: list[str] | None = None,
    root: Path | None = None,
    as_json: bool = False,
) -> None:
    """Fit a grounded game to a model's own answers on incomplete texts: reasons in one pass from then on.

    Takes minutes on two cores, and an interrupted run can be resumed. The model itself is not changed.
    `neurogame explain --model FOLDER` uses the explainer in the model's folder, or the one that --explainer names.
    """
    if not data:
        raise typer.BadParameter("--data is needed: texts like those that are to be explained")
    if model is None and output is None:
        raise typer.BadParameter("--output is needed for the model that comes with the package")
    given = {"root": root, "columns": common.parse_columns(columns, single=True)}
    reading = {name: value for name, value in given.items() if value is not None}
    if coalitions % 2:
        raise ValueError(f"--coalitions must be even, every coalition comes with its complement; got {coalitions}")
    common.check_model(model)
    place = _place(model, output)
    keep = place.with_name(f"{place.name}.passes")
    _check_resume(keep, resume=resume)
    pairs = [text for name in data for text in _texts(name, reading)]
    from neurogame._common.validation import check_choice
    from neurogame.data.removal import Mode  # torch comes here, after everything that may be missing
    from neurogame.grounding.explainer import MOST_HELD_OUT
    from neurogame.grounding.explainer import ground as fit
    from neurogame.nli import load

    common.begin()
    check_choice("removal", removal, Mode)
    chosen = random.Random(seed).sample(pairs, min(texts, len(pairs)))  # noqa: S311
    nli = load(model, **common.load_options(model_labels, device, "torch"))
    nli.explainer = None
    held = max(1, min(MOST_HELD_OUT, len(chosen) // 20))
    passes = (len(chosen) - held) * (coalitions + 1) + held * 9
    options: dict[str, Any] = {"coalitions": coalitions, "steps": steps, "removal": removal, "level": level}
    options |= {"seed": seed, "bf16": bf16, "most": texts, "max_length": nli.max_length, "keep": keep}
    with common.progress("ground", passes + steps) as advance:
        explainer = fit(nli, None, chosen, progress=advance, **options)
    explainer.save_pretrained(place)
    typer.echo(f"explainer: {place}", err=True)
    record = explainer.record
    if as_json:
        common.print_json(dict(record))
    else:
        typer.echo(f"R² on held-out coalitions of held-out texts: {record['r2']:.3f} ({record['held_out']} texts)")


def _place(model: str | None, output: Path | None) -> Path:
    """The folder of the explainer, by default in that of the model."""
    place = output if output is not None else Path(str(model)).expanduser() / "explainer"  # `embedded.EXPLAINER`
    if output is None and not place.parent.is_dir():
        raise ValueError(f"{model} is no folder here: say with --output where the explainer goes")
    if place.is_file():
        raise FileExistsError(f"{place} is a file; an explainer is saved as a folder")
    return place


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
    if not (Path(name).is_file() and is_single(name, columns)):
        return list(load_data(name, require_label=False, **reading))
    texts = []
    for row in iterate_texts(name, column=columns.get("text"), on_error="skip"):
        if not isinstance(row, Malformed):
            texts.append(row.text)
        elif row.is_end:
            raise DataError(f"{row}; an unknown number of texts is missing")
    if not texts:
        raise DataError(f"{name}: no row is a text")
    return texts
