"""Align logits with gold labels: columns by label name, two-way gold labels, what counts as predicted.

All metrics start from an `Aligned`: the order in which a model lists its labels matters in this file only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from neurogame.labels import LABELS, NON_ENTAILMENT

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Booleans = NDArray[np.bool_]
_ORDER = (*LABELS, NON_ENTAILMENT)


@dataclass(frozen=True, eq=False)
class Aligned:
    """Logits and gold labels in one order, and the prediction argmax_k z_k.

    On two-way data (entailment / non-entailment) a three-way model predicts by its three-way argmax,
    and only then neutral and contradiction are merged: a pair with p = (.4, .35, .25) is predicted
    entailment, although p(non-entailment) = .6. This is how HANS is scored.
    """

    labels: tuple[str, ...]  # of the model, in the order of `neurogame.labels`
    logits: Array  # [pairs, labels]
    names: tuple[str, ...]  # of the data: the model's labels, or entailment and non-entailment
    columns: Indices  # [labels], the name each label counts as
    gold: Indices  # [pairs], into names
    predicted: Indices  # [pairs], into names

    def __len__(self) -> int:
        return len(self.gold)

    @property
    def collapsed(self) -> bool:
        """Whether several labels of the model count as one name of the data."""
        return len(self.names) < len(self.labels)

    @property
    def correct(self) -> Booleans:
        """[pairs], whether the prediction is the gold label."""
        return np.equal(self.predicted, self.gold)

    def log_probabilities(self, temperature: float | Array = 1.0) -> Array:
        """log p_k = log Σ_{j counts as k} softmax(z/T)_j: [pairs, names]; T is a number, or one per pair."""
        scale = np.asarray(temperature, dtype=np.float64).reshape(-1, 1)
        scaled = self.logits / scale
        scaled = scaled - scaled.max(1, keepdims=True)
        log_p: Array = scaled - np.log(np.exp(scaled).sum(1, keepdims=True))
        if not self.collapsed:
            return log_p
        merged = [np.logaddexp.reduce(log_p[:, self.columns == k], axis=1) for k in range(len(self.names))]
        capped: Array = np.minimum(np.stack(merged, 1), 0.0)  # the sum of rounded probabilities may exceed 1
        return capped


def align(logits: ArrayLike | torch.Tensor, gold: Sequence[str], labels: Sequence[str]) -> Aligned:
    """Bring logits [pairs, labels] and gold names together, by name.

        align(logits, ["neutral", "entailment"], nli.labels).correct.mean()

    Args:
        logits: raw logits; column j belongs to `labels[j]`.
        gold: the gold label of each pair. Fewer kinds than the model knows are fine; entailment and
            non-entailment make the data two-way (see `Aligned`).
        labels: the model's label names in the order of its logits.

    Returns:
        Logits, gold labels and predictions in one order.

    Raises:
        ValueError: if shapes do not match, a logit is not finite, a gold label is missing or unknown to the model, or
            two-way and three-way gold labels are mixed.
    """
    order = sort_labels(labels)
    if len(set(order)) != len(order):
        raise ValueError(f"labels of the model appear twice: {', '.join(labels)}; check id2label of its config")
    if isinstance(logits, torch.Tensor):  # half precision and other devices are brought over first
        logits = logits.detach().to("cpu", torch.float64).numpy()
    z = np.asarray(logits, dtype=np.float64)
    if z.ndim != 2 or z.shape[1] != len(order):
        raise ValueError(f"logits must have shape [pairs, {len(order)}] for {', '.join(labels)}, got {list(z.shape)}")
    if len(z) != len(gold):
        raise ValueError(f"there are {len(z)} rows of logits for {len(gold)} gold labels; rows must match one to one")
    if len(z) == 0:
        raise ValueError("there are no pairs to score; is the file empty, or did every row lack a gold label?")
    bad = int((~np.isfinite(z)).any(1).sum())
    if bad:
        raise ValueError(f"logits of {bad} of {len(z)} pairs are NaN or infinite; the model has probably diverged")
    z = z[:, [list(labels).index(name) for name in order]]
    stands_for = counts_as(order, gold)
    names = tuple(sort_labels(set(stands_for)))
    index = {name: k for k, name in enumerate(names)}
    columns = np.array([index[name] for name in stands_for], dtype=np.int64)
    right = np.array([index[name] for name in gold], dtype=np.int64)
    return Aligned(order, z, names, columns, gold=right, predicted=columns[z.argmax(1)])


def sort_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Label names in the order of `neurogame.labels`, names it does not know last and by alphabet."""
    return tuple(sorted(labels, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)))


def counts_as(labels: tuple[str, ...], gold: Sequence[str]) -> tuple[str, ...]:
    """The name of the data that each label of the model stands for."""
    kinds = set(gold)
    if None in kinds:
        lacking = sum(name is None for name in gold)
        raise ValueError(f"{lacking} of {len(gold)} pairs have no gold label; drop them before scoring")
    two_way = NON_ENTAILMENT in kinds and NON_ENTAILMENT not in labels
    merged = tuple(NON_ENTAILMENT if two_way and name in LABELS[1:] else name for name in labels)
    unknown = kinds - set(merged)
    if two_way and unknown & set(labels):
        raise ValueError(
            f"the data mix {NON_ENTAILMENT!r} with {', '.join(map(repr, sort_labels(unknown & set(labels))))}, "
            "which is part of it; score the two kinds separately"
        )
    if unknown:
        raise ValueError(
            f"the data have the label {', '.join(map(repr, sort_labels(unknown)))}, which the model does not know; "
            f"its labels are {', '.join(map(repr, labels))}. Labels are compared by name: check id2label of its config"
        )
    return merged
