"""Labels that are partly a teacher's: what another model says of a pair, beside what people say.

    target = (1 − w) onehot(label) + w p        p: the column `probabilities` of the pair, w: `training.distillation`

The loss is the cross-entropy with that target. `neurogame predict --json` writes the column (label → probability);
pairs without it keep their label alone. Here are the rows; the loss takes targets as it takes labels.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from neurogame._common.printing import printable
from neurogame.data import Pair
from neurogame.data.batching import EncodedDataset
from neurogame.labels import spelled
from neurogame.training.files import ConfigError

COLUMN = "probabilities"
_SLACK = 1e-3  # how far from 1 probabilities may add up: files round them


class TaughtRows(Dataset[dict[str, Any]]):
    """Encoded rows whose `labels` are distributions over the model's labels: `targets`, [rows, labels]."""

    def __init__(self, encoded: EncodedDataset, targets: NDArray[np.float32]) -> None:
        self.encoded, self.targets = encoded, targets
        self.lengths, self.max_length = encoded.lengths, encoded.max_length

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {**self.encoded[index], "labels": self.targets[index].tolist()}


def targets(
    pairs: Sequence[Pair], labels: NDArray[np.int64], label2id: Mapping[str, int], share: float
) -> NDArray[np.float32]:
    """(1 − share)·onehot(label) + share·probabilities, row by row; onehot alone where a pair has no probabilities.

    Args:
        pairs: `probabilities` among their extras, label → probability, or nothing.
        labels: the number of each pair's label.
        label2id: the model's names and numbers.
        share: of the teacher, 0 to 1.

    Returns:
        [pairs, labels], rows that add up to 1.

    Raises:
        ConfigError: no pair has probabilities, or those of a pair are not a distribution over the model's labels.
    """
    known = {spelled(name): number for name, number in label2id.items()}
    mixed = np.eye(len(known), dtype=np.float32)[labels]
    taught = [i for i, pair in enumerate(pairs) if pair.extras.get(COLUMN) is not None]
    if not taught:
        raise ConfigError(
            f"training.distillation = {share:g}: no training pair has the column {COLUMN!r}; "
            "`neurogame predict FILE --json` with the teacher writes it"
        )
    for i in taught:
        mixed[i] = (1.0 - share) * mixed[i] + share * _distribution(pairs[i], known)
    return mixed


def _distribution(pair: Pair, known: Mapping[str, int]) -> NDArray[np.float32]:
    """The probabilities of a pair in the order of the model's labels."""
    given = pair.extras[COLUMN]
    row = np.full(len(known), np.nan)
    if isinstance(given, Mapping) and {spelled(str(name)) for name in given} == set(known):
        for name, value in given.items():
            row[known[spelled(str(name))]] = value if isinstance(value, int | float) else np.nan
    if not (row.min() >= 0 and abs(row.sum() - 1) <= _SLACK):
        text = printable(f"{given!r:.80}")
        raise ConfigError(f"{COLUMN} of {pair.premise!r:.40} is {text}; allowed: {', '.join(known)}, which add up to 1")
    return (row / row.sum()).astype(np.float32)
