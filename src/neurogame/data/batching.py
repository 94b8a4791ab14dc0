"""From pairs to batches of token ids: encoding once, padding per batch, batches of similar length.

The order of training is `training.randomness`'s; here is the fixed order of batches for evaluation. transformers'
own samplers take an `EncodedDataset` as it is.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset
from transformers import DataCollatorWithPadding, PreTrainedTokenizerBase

from neurogame import labels
from neurogame.data.pairs import DataError, Pair

CHUNK = 4096  # pairs per call of the tokenizer: enough for its threads, little for memory
_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "labels")


@dataclass(frozen=True, eq=False)  # arrays have no truth value
class EncodedDataset(Dataset[dict[str, Any]]):
    """Pairs as token ids; a row is a dict of lists with `input_ids`, `attention_mask`, …, `labels`, `length`.

    Attributes:
        columns: each column of all rows end to end; row i is [offsets[i] : offsets[i + 1]].
        offsets: where rows begin, one more than there are rows.
        labels: the number of each row's label, or None.
        without_labels: why there are no labels; None where there are.
        truncated: how many rows were longer than max_length.
        max_length: the longest a row may be.
        cut: the indices of these rows.
    """

    columns: Mapping[str, NDArray[np.int32]]
    offsets: NDArray[np.int64]
    labels: NDArray[np.int64] | None
    without_labels: str | None
    truncated: int
    max_length: int
    cut: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        span = slice(self.offsets[row], self.offsets[row + 1])
        inputs: dict[str, Any] = {name: column[span].tolist() for name, column in self.columns.items()}
        if self.labels is not None:
            inputs["labels"] = int(self.labels[row])
        return {**inputs, "length": len(inputs["input_ids"])}

    @property
    def lengths(self) -> list[int]:
        """Tokens per row."""
        lengths: list[int] = np.diff(self.offsets).tolist()
        return lengths


def encode(
    dataset: Iterable[Pair],
    tokenizer: PreTrainedTokenizerBase,
    *,
    max_length: int = 128,
    label2id: Mapping[str, int] | None = None,
) -> EncodedDataset:
    """Pairs as token ids, the longer sentence truncated first.

        rows = encode(load("toy/train"), tokenizer, max_length=64)
        DataLoader(rows, batch_size=32, collate_fn=collate(tokenizer))

    Args:
        dataset: the pairs.
        tokenizer: of the model; with the special tokens of a pair.
        max_length: tokens per row, special ones included.
        label2id: name → number, the model's own; by default that of `neurogame.labels`. A data set in
            which some pairs have no label, or only "non-entailment" where the model has no such class,
            is encoded without labels, and `without_labels` says so.

    Returns:
        The rows, in order.

    Raises:
        DataError: if there is no pair, `max_length` does not fit the tokenizer, or a label is not the model's.
    """
    _check_length(max_length, tokenizer)
    rows: dict[str, list[NDArray[np.int32]]] = {}
    lengths: list[int] = []
    names: list[str | None] = []
    cut: set[int] = set()
    stream = iter(dataset)
    while chunk := list(islice(stream, CHUNK)):
        texts = [pair.premise for pair in chunk], [pair.hypothesis for pair in chunk]
        encoded = tokenizer(*texts, truncation="longest_first", max_length=max_length)
        sizes = [len(ids) for ids in encoded["input_ids"]]
        for name, column in encoded.items():
            flat = [number for row in column for number in row]
            rows.setdefault(name, []).append(np.array(flat, dtype=np.int32))
        cut |= {len(lengths) + i for i in _cut(texts, sizes, tokenizer, max_length)}
        lengths += sizes
        names += [pair.label for pair in chunk]
    if not lengths:
        raise DataError("there is no pair to encode")
    numbers, without = _numbers(names, labels.LABEL2ID if label2id is None else label2id)
    return EncodedDataset(
        columns={name: np.concatenate(parts) for name, parts in rows.items()},
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        labels=numbers,
        without_labels=without,
        truncated=len(cut),
        max_length=max_length,
        cut=frozenset(cut),
    )


def _check_length(max_length: int, tokenizer: PreTrainedTokenizerBase) -> None:
    special = tokenizer.num_special_tokens_to_add(pair=True)
    least, most = special + 2, tokenizer.model_max_length  # a token of each sentence; what the model has positions for
    if not least <= max_length <= most:
        raise DataError(f"max_length {max_length} is not possible with this tokenizer; allowed: {least} to {most}")


def _cut(
    texts: tuple[list[str], list[str]], sizes: Sequence[int], tokenizer: PreTrainedTokenizerBase, max_length: int
) -> set[int]:
    """The rows that were truncated: those of `max_length` tokens are encoded once more, in full."""
    full = [i for i, size in enumerate(sizes) if size >= max_length]
    if not full:
        return set()
    again = ([column[i] for i in full] for column in texts)
    whole = tokenizer(*again, verbose=False)["input_ids"]  # verbose would warn that they are long
    return {i for i, ids in zip(full, whole, strict=True) if len(ids) > max_length}


def _numbers(names: Sequence[str | None], label2id: Mapping[str, int]) -> tuple[NDArray[np.int64] | None, str | None]:
    """The numbers of the labels by name, or None and why."""
    known = {labels.spelled(name): number for name, number in label2id.items()}
    absent = sum(name is None for name in names)
    if absent:
        return None, f"{absent} of {len(names)} pairs have no label"
    if labels.NON_ENTAILMENT in names and labels.NON_ENTAILMENT not in known:
        return None, f"the pairs are labelled entailment or {labels.NON_ENTAILMENT}, the model {', '.join(known)}"
    unknown = sorted({str(name) for name in names} - set(known))
    if unknown:
        raise DataError(f"label {unknown[0]!r} is not among the model's; allowed: {', '.join(known)}")
    return np.array([known[str(name)] for name in names], dtype=np.int64), None


def _collate(tokenizer: PreTrainedTokenizerBase, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    lacking = [i for i, row in enumerate(rows) if "input_ids" not in row]
    if lacking or not rows:
        what = f"row {lacking[0]} has no input_ids" if lacking else "there is no row"
        raise DataError(f"{what}; a batch is made of rows of an EncodedDataset, see `encode`")
    inputs = [{name: row[name] for name in _INPUTS if name in row} for row in rows]
    return dict(DataCollatorWithPadding(tokenizer)(inputs))


def collate(tokenizer: PreTrainedTokenizerBase) -> Callable[[Sequence[Mapping[str, Any]]], dict[str, Tensor]]:
    """The `collate_fn` of a DataLoader, or the `data_collator` of a Trainer, for rows of an `EncodedDataset`.

    Args:
        tokenizer: pads.

    Returns:
        Rows → a batch of tensors padded to its longest row; columns that are no input of a model are dropped.
    """
    return partial(_collate, tokenizer)


def padding_right(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """The same tokenizer, padding on the right: BERT counts padding on the left as positions."""
    if tokenizer.padding_side == "right":
        return tokenizer
    other = copy.copy(tokenizer)
    other.padding_side = "right"
    return other


def sorted_batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Every index once, in batches of similar length, the longest first: little padding, and memory runs out at once.

        for places in sorted_batches(rows.lengths, 32): ...

    Args:
        lengths: tokens of each row; rows of the same length keep their order.
        batch_size: rows per batch.

    Returns:
        Batches of indices.

    Raises:
        DataError: if `batch_size` is not positive.
    """
    if batch_size < 1:
        raise DataError(f"batch_size {batch_size} is not positive")
    indices = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    return [indices[i : i + batch_size] for i in range(0, len(indices), batch_size)]
