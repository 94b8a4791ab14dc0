"""Texts as a model reads them, with the word that each token belongs to: what coalitions of words are made of."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from neurogame._types import Bool, Int, Tensor
from neurogame.data.batching import collate
from neurogame.data.words import read_words

WORDS = "word_of"  # the column, −1 at tokens of no word


@dataclass(frozen=True, eq=False)
class WordRows(Dataset[dict[str, Any]]):
    """Rows of pairs as token ids, with the column `word_of`; encoded when they are read."""

    pairs: Sequence[tuple[str, str]]
    tokenizer: PreTrainedTokenizerBase
    max_length: int
    labels: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> dict[str, Any]:
        inputs, word_of = read_words(self.tokenizer, *self.pairs[index], self.max_length)
        row: dict[str, Any] = {**inputs, WORDS: word_of, "length": len(word_of)}
        if self.labels is not None:
            row["labels"] = int(self.labels[index])
        return row


@dataclass(frozen=True, eq=False)
class CollateWords:
    """Rows → a padded batch with `word_of`; padding belongs to no word."""

    tokenizer: PreTrainedTokenizerBase

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """The batch of some rows."""
        batch = collate(self.tokenizer)(rows)
        if all(WORDS in row for row in rows):
            left = self.tokenizer.padding_side == "left"
            columns = [torch.tensor(row[WORDS]) for row in rows]
            batch[WORDS] = pad_sequence(
                columns, batch_first=True, padding_value=-1, padding_side="left" if left else "right"
            )
        return batch


def players_of(word_of: Int[Tensor, "rows tokens"]) -> list[int]:
    """How many words each row has."""
    found: list[int] = (word_of.amax(-1) + 1).tolist()
    return found


def first_real(x: Tensor, real: Bool[Tensor, "rows tokens"]) -> Iterator[Tensor]:
    """Of each row its real tokens, [tokens, …]."""
    return (row[there] for row, there in zip(x, real, strict=True))


def as_pairs(texts: Iterable[Any]) -> list[tuple[str, str]]:
    """Pairs of strings, from tuples or from objects with premise and hypothesis."""
    return [(t.premise, t.hypothesis) if hasattr(t, "premise") else (t[0], t[1]) for t in texts]
