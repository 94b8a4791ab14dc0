"""The folder a report is saved in: `report.json`, `report.md`, and one file of predictions per row.

`report.json` is `Report.to_dict()` with the name of its predictions file added to each row. Results
that are in a folder are overwritten only with `overwrite=True`.
"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neurogame.evaluation.predictions import Predictions
from neurogame.writing import atomic_folder

if TYPE_CHECKING:
    from neurogame.evaluation.report import Report

_RESULTS = ("report.json", "report.md", "predictions-*.jsonl")


def existing(folder: Path) -> list[Path]:
    """The results that a folder holds."""
    return [path for pattern in _RESULTS for path in sorted(folder.glob(pattern))]


def write(report: "Report", folder: Path, *, overwrite: bool, sentences: bool) -> Path:
    """Write a report into a folder.

    Args:
        report: with its predictions.
        folder: made if it does not exist.
        overwrite: whether to replace the results that it holds.
        sentences: whether the predictions repeat premise and hypothesis.

    Raises:
        FileExistsError: the folder holds results, and `overwrite` is not set.
        ValueError: the report has no predictions, or no sentences, to write.
    """
    lacking = [row.data for row in report.rows if row.predictions is None]
    if lacking:
        raise ValueError(f"the report has no predictions on {', '.join(lacking)} to save; it was read from JSON")
    if sentences and any(row.predictions is not None and row.predictions.pairs is None for row in report.rows):
        raise ValueError("the report was read from a folder and has no sentences to write")
    old = existing(folder)
    if old and not overwrite:
        names = ", ".join(path.name for path in old)
        raise FileExistsError(f"{folder} already holds results ({names}); choose another folder, or overwrite them")
    saved, files = report.to_dict(), _file_names(report)
    with atomic_folder(folder, last="report.json") as fresh:  # where it is, the rest is whole
        for row, entry, name in zip(report.rows, saved["rows"], files, strict=True):
            assert row.predictions is not None
            entry["predictions"] = name
            with (fresh / name).open("x", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in row.predictions.lines(sentences=sentences))
        (fresh / "report.md").write_text(report.to_markdown(), encoding="utf-8")
        with (fresh / "report.json").open("x", encoding="utf-8") as file:
            json.dump(saved, file, ensure_ascii=False, indent=1, allow_nan=False)
            file.write("\n")
    for path in old:
        if path.name not in (*files, "report.md", "report.json"):
            path.unlink()
    return folder


def load_predictions(folder: str | Path) -> tuple[Predictions, ...]:
    """The predictions in a folder that `Report.save` wrote: enough to compare another run with, without its model.

        evaluate(nli, dev, against=load_predictions("runs/a/evaluation"))

    Args:
        folder: with report.json and the files it names.

    Returns:
        One for each row of the report.

    Raises:
        FileNotFoundError: if report.json or a file that it names is missing.
        ValueError: if a file is not what `Report.save` wrote, or was cut short.
    """
    folder = Path(folder)
    predictions = []
    for row in read_report(folder)["rows"]:
        path = folder / Path(row["predictions"]).name
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing; {folder / 'report.json'} names it. Was it moved or removed?")
        read = Predictions.read(path, model=row["model"], data=row["data"], fingerprint=row["fingerprint"])
        if len(read) != row["n"]:
            raise ValueError(f"{path} has {len(read)} predictions, its report says {row['n']}; cut short?")
        predictions.append(read)
    return tuple(predictions)


def read_report(folder: Path) -> dict[str, Any]:
    """What `report.json` of a folder says."""
    path = folder / "report.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no report.json; a folder that `Report.save` wrote is needed")
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        complete = all(
            key in row for row in report["rows"] for key in ("predictions", "model", "data", "fingerprint", "n")
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a saved report ({error!r})") from None
    if not complete:
        raise ValueError(f"{path} is not a saved report: a row does not say which predictions belong to it")
    return report


def _file_names(report: "Report") -> list[str]:
    """predictions-<data>.jsonl; with the model's name where there are several, numbered where two would meet."""
    names: list[str] = []
    for row in report.rows:
        stem = row.data if len(report.models) == 1 else f"{row.data}-{row.model}"
        stem = re.sub(r"[^\w.-]+", "-", stem).strip("-.") or "data"
        lowered = {name.lower() for name in names}  # some file systems do not tell A from a
        endings = ["", *(f"-{k}" for k in range(2, len(names) + 3))]
        free = (f"predictions-{stem}{ending}.jsonl" for ending in endings)
        names.append(next(name for name in free if name.lower() not in lowered))
    return names
