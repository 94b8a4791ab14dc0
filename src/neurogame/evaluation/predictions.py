"""What a model answered on one data set, with the gold labels: the record, and its file of JSON lines.

A line has the gold label, the predicted label and the logits by label name. It has no sentences
unless they are asked for: many data sets may not be passed on. Names of files and the rest of the
folder are in `storage`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neurogame.evaluation.alignment import Aligned, align


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
