"""Texts as a model reads them, with the word of each token, and coalitions of these words.

A text is a tuple of its parts, (text,) or (premise, hypothesis), which `as_texts` makes of a user's texts. The steps
are here: tokenise (`word_rows`), pad (`CollateWords`), draw (`draw_words`), remove (`Coalitions.without`). Callers
run the model.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from neurogame._common.types import Bool, Int, Tensor
from neurogame.classifier import check_unicode
from neurogame.data.batching import collate, sorted_batches
from neurogame.data.removal import Removal
from neurogame.data.words import Level, read_words
from neurogame.grounding.coalitions import Law, draw, tokens_of

WORDS = "word_of"  # the column, −1 at tokens of no word


def word_rows(
    texts: Sequence[tuple[str, ...]],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    labels: Sequence[int] | None = None,
    level: Level = "word",
) -> list[dict[str, Any]]:
    """Texts as token ids, with the column `word_of`: the player of each token, a word unless `level` says otherwise."""
    rows: list[dict[str, Any]] = []
    for text, *rest in texts:
        inputs, word_of = read_words(tokenizer, text, rest[0] if rest else None, max_length, level)
        rows.append({**inputs, WORDS: word_of, "length": len(word_of)})
    for row, label in zip(rows, labels or (), strict=False):
        row["labels"] = int(label)
    return rows


@dataclass(frozen=True, eq=False)
class CollateWords:
    """Rows → a padded batch with `word_of`; padding belongs to no word."""

    tokenizer: PreTrainedTokenizerBase

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """The batch of some rows."""
        batch = collate(self.tokenizer)(rows)
        if all(WORDS in row for row in rows):
            columns, side = [torch.tensor(row[WORDS]) for row in rows], self.tokenizer.padding_side
            batch[WORDS] = pad_sequence(columns, batch_first=True, padding_value=-1, padding_side=side)
        return batch


def players_of(word_of: Int[Tensor, "rows tokens"]) -> list[int]:
    """How many words each row has."""
    players: list[int] = (word_of.amax(-1) + 1).tolist()
    return players


def draw_words(
    word_of: Int[Tensor, "rows tokens"],
    real: Bool[Tensor, "rows tokens"],
    count: int,
    law: Law,
    generator: torch.Generator,
) -> tuple[Bool[Tensor, "rows coalitions players"], Bool[Tensor, "rows coalitions tokens"]]:
    """`count` coalitions of the words of each row, and which of its tokens are in x_C, on the device of `word_of`.

    The generator is one of the CPU, so that draws do not depend on the device.
    """
    members = draw(players_of(word_of.cpu()), count, law, generator=generator).to(word_of.device)
    return members, tokens_of(members, word_of) & real.unsqueeze(1)


@dataclass(frozen=True, eq=False)
class Coalitions:
    """A padded batch of texts with coalitions of their words."""

    places: list[int]  # of the rows of the batch
    inputs: dict[str, Tensor]  # of the whole texts
    word_of: Int[Tensor, "rows tokens"]
    real: Bool[Tensor, "rows tokens"]
    members: Bool[Tensor, "rows coalitions players"]
    stays: Bool[Tensor, "rows coalitions tokens"]

    def without(self, removal: Removal) -> Iterator[dict[str, Tensor]]:
        """Of each coalition in turn the inputs x_C."""
        return (removal.remove(self.inputs, stays, self.real) for stays in self.stays.unbind(1))


def coalitions_of(
    rows: Sequence[Mapping[str, Any]],
    tokenizer: PreTrainedTokenizerBase,
    count: int,
    law: Law,
    *,
    batch_size: int,
    generator: torch.Generator,
    device: torch.device | str = "cpu",
) -> Iterator[Coalitions]:
    """`word_rows` in batches of similar length, the longest first, with `count` coalitions drawn for each row."""
    pad = CollateWords(tokenizer)
    for places in sorted_batches([row["length"] for row in rows], batch_size):
        inputs = {name: column.to(device) for name, column in pad([rows[i] for i in places]).items()}
        word_of, real = inputs.pop(WORDS), inputs["attention_mask"].bool()
        yield Coalitions(places, inputs, word_of, real, *draw_words(word_of, real, count, law, generator))


def as_pairs(texts: Iterable[Any]) -> list[tuple[str, str]]:
    """Pairs of strings, from tuples or from objects with premise and hypothesis."""
    return [(t.premise, t.hypothesis) if hasattr(t, "premise") else (t[0], t[1]) for t in texts]


def as_texts(texts: Iterable[Any]) -> list[tuple[str, ...]]:
    """Single texts as tuples of one string, pairs as tuples of two.

    Args:
        texts: strings; or pairs: tuples or lists of two strings, or objects with premise and hypothesis.

    Returns:
        One tuple per text, all of one length.

    Raises:
        TypeError: an entry that is neither, or strings and pairs in one list.
        ValueError: a text is not valid Unicode.

    Example:
        >>> as_texts(["a text", "another"]), as_texts([("a", "b")])
        ([('a text',), ('another',)], [('a', 'b')])
    """
    if isinstance(texts, str):
        raise TypeError(f"texts must be a list of texts, got one string: {texts!r:.60}")
    checked: list[tuple[str, ...]] = []
    for i, entry in enumerate(texts):
        if isinstance(entry, str):
            parts: tuple[Any, ...] = (entry,)
        elif hasattr(entry, "premise"):
            parts = entry.premise, entry.hypothesis
        else:
            parts = tuple(entry) if isinstance(entry, list | tuple) else ()
        if len(parts) not in (1, 2) or not all(isinstance(part, str) for part in parts):
            raise TypeError(f"text {i} must be a string, or a pair (premise, hypothesis) of strings; got {entry!r:.80}")
        if checked and len(parts) != len(checked[0]):
            kinds = ("a pair", "a single text") if len(checked[0]) == 2 else ("a single text", "a pair")
            raise TypeError(f"texts must be all strings or all pairs: text 0 is {kinds[0]}, text {i} is {kinds[1]}")
        for part in parts:
            check_unicode(f"text {i}", part)
        checked.append(parts)
    return checked
