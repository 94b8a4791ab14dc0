"""What a model answered on one data set, with the gold labels; and the folder that a report is saved in with it.

The folder has `report.json` (`Report.to_dict()`, with the name of its predictions file added to each row), `report.md`,
and one file of JSON lines per row. A line has the gold label, the predicted label and the logits by label name. It has
no sentences unless they are asked for: many data sets may not be passed on.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neurogame._common.writing import atomic_folder
from neurogame.evaluation.alignment import Aligned, align

if TYPE_CHECKING:
    from neurogame.evaluation.report import Report

_RESULTS = ("report.json", "report.md", "predictions-*.jsonl")


@dataclass(frozen=True, eq=False)
class Predictions:
    """One model's logits on one data set."""

    model: str
    data: str
    fingerprint: str
    aligned: Aligned
    pairs: Sequence[tuple[str, str]] | None = None  # the sentences, where they are known

    def __len__(self) -> int:
        return len(self.aligned)

    @property
    def gold(self) -> tuple[str, ...]:
        """Gold label names."""
        return tuple(self.aligned.names[k] for k in self.aligned.gold)

    @property
    def predicted(self) -> tuple[str, ...]:
        """Predicted label names, among the labels of the data."""
        return tuple(self.aligned.names[k] for k in self.aligned.predicted)

    def lines(self, *, sentences: bool = False) -> Iterator[str]:
        """One JSON object per pair, in the order of the data."""
        if sentences and self.pairs is None:
            raise ValueError(f"the predictions on {self.data} were read from a file and have no sentences to write")
        rows = zip(self.gold, self.predicted, self.aligned.logits.tolist(), strict=True)
        for i, (gold, predicted, logits) in enumerate(rows):
            row: dict[str, Any] = {"gold": gold, "predicted": predicted}
            row["logits"] = dict(zip(self.aligned.labels, logits, strict=True))
            if sentences and self.pairs is not None:
                row["premise"], row["hypothesis"] = self.pairs[i]
            yield json.dumps(row, ensure_ascii=False)

    @classmethod
    def read(cls, path: Path, *, model: str, data: str, fingerprint: str) -> "Predictions":
        """The predictions that `lines` described.

        Args:
            path: a file of JSON lines.
            model: name of the model.
            data: name of the data set.
            fingerprint: of the data set.

        Returns:
            The record, without sentences.

        Raises:
            ValueError: a line is not a prediction, or there is none.
        """
        gold: list[str] = []
        logits: list[list[float]] = []
        labels: list[str] = []
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                try:
                    row = json.loads(line)
                    labels = labels or list(row["logits"].keys())
                    gold.append(row["gold"])
                    logits.append([float(row["logits"][name]) for name in labels])
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise ValueError(
                        f"{path}, line {number}: not a prediction with 'gold' and 'logits' ({error!r}); cut short?"
                    ) from None
        if not gold:
            raise ValueError(f"{path} holds no predictions")
        return cls(model, data, fingerprint, align(np.array(logits), gold, labels))


def existing(folder: Path) -> list[Path]:
    """The results that a folder holds."""
    return [path for pattern in _RESULTS for path in sorted(folder.glob(pattern))]


def write_report(report: "Report", folder: Path, *, overwrite: bool, sentences: bool) -> Path:
    """`Report.save`; results that the folder holds are replaced only with `overwrite`."""
    answers = [row.predictions for row in report.rows if row.predictions is not None]
    if len(answers) < len(report.rows):
        lacking = ", ".join(row.data for row in report.rows if row.predictions is None)
        raise ValueError(f"the report has no predictions on {lacking} to save; it was read from JSON")
    if sentences and any(own.pairs is None for own in answers):
        raise ValueError("the report was read from a folder and has no sentences to write")
    old = existing(folder)
    if old and not overwrite:
        names = ", ".join(path.name for path in old)
        raise FileExistsError(f"{folder} already holds results ({names}); choose another folder, or overwrite them")
    saved, files = report.to_dict(), _file_names(report)
    with atomic_folder(folder, last="report.json") as fresh:  # where it is, the rest is whole
        for own, entry, name in zip(answers, saved["rows"], files, strict=True):
            entry["predictions"] = name
            with (fresh / name).open("x", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in own.lines(sentences=sentences))
        (fresh / "report.md").write_text(report.to_markdown(), encoding="utf-8")
        text = json.dumps(saved, ensure_ascii=False, indent=1, allow_nan=False)
        (fresh / "report.json").write_text(f"{text}\n", encoding="utf-8")
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
        complete = all({"predictions", "model", "data", "fingerprint", "n"} <= row.keys() for row in report["rows"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
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
