"""From tokens to words: which whitespace-delimited word each token belongs to, by the tokenizer's offsets.

    Nobody's awake.   →   [CLS] nobody ' s awake . [SEP]
                            −1     0   0 0   1   1   −1

A unit is what an explanation gives a number: a word, a single piece of one, a sentence, or a span that a user names.
Tokens of no unit (special tokens, whitespace that a tokenizer keeps) are "outside". A word without tokens, because the
tokenizer drops it or the text was cut before it, stays in the list and gets 0.

A text has one part or two: `Tokens.texts` is (text,) or (premise, hypothesis), and every unit names the side it stands
on: "text", or "premise" and "hypothesis".
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal

import torch
from transformers import PreTrainedTokenizerBase

from neurogame._common.types import Float, Int, Tensor
from neurogame.modeling.checking import no_panic

Level = Literal["word", "token", "sentence", "span"]
SIDES = ("premise", "hypothesis")
ONE_SIDE = ("text",)
Span = tuple[int, int]
Spans = Sequence[Sequence[Span]] | Sequence[Span]  # for each part of a text, or of a single text the list alone
_ENDS, _CLOSING = (".", "!", "?", "…", "。", "！", "？"), "\"'”’)]»"  # of a sentence, and what may follow its end


def sides_of(texts: Sequence[str]) -> tuple[str, ...]:
    """What the parts of a text are called: one is the text, two are premise and hypothesis."""
    return ONE_SIDE if len(texts) == 1 else SIDES


@dataclass(frozen=True, eq=False)
class Tokens:
    """A text of one part or two as the model reads it: a batch of one, and where each token comes from."""

    texts: tuple[str, ...]
    inputs: Mapping[str, Int[Tensor, "1 tokens"]]
    offsets: Sequence[Span]  # characters of its own text
    sides: Sequence[int | None]  # which part: 0 the text or the premise, 1 the hypothesis, None special
    pieces: Sequence[str]  # decoded, one by one
    uncut: Sequence[tuple[Span, int | None]]  # offsets and sides of the whole pair, where it was cut; else the same

    @property
    def is_cut(self) -> bool:
        """Whether the text is longer than the model reads."""
        return len(self.uncut) > len(self.offsets)


@dataclass(frozen=True, eq=False)
class Units:
    """The words (or pieces, sentences, spans) of a text, and the tokens of each; `read` are those that have tokens.

    Numbers go from tokens to read units (`sum`, `mean`, `pair_sums`) and from those to all units (`vector`,
    `rows`, `matrix`), where a unit that was not read has 0.
    """

    names: tuple[str, ...]
    sides: tuple[str, ...]
    unit_of: Int[Tensor, "tokens"]  # −1: outside
    truncated: tuple[int, ...] = ()  # cut off: the text is longer than the model reads
    shortened: tuple[int, ...] = ()  # some of its tokens were
    silent: tuple[int, ...] = ()  # the tokenizer makes no token of it
    spans: bool = False  # named by a user: tokens outside may be words

    @cached_property
    def read(self) -> tuple[int, ...]:
        """Units with at least one token, in order."""
        return tuple(sorted({i for i in self.unit_of.tolist() if i >= 0}))

    @cached_property
    def members(self) -> Float[Tensor, "read tokens"]:
        """1 where a token belongs to a unit."""
        return (self.unit_of == torch.tensor(self.read).unsqueeze(-1)).float()

    def sum(self, x: Float[Tensor, "... tokens"]) -> Float[Tensor, "... read"]:
        """Σ_{i∈word} x_i."""
        return x @ self.members.to(x).mT

    def mean(self, x: Float[Tensor, "... tokens"]) -> Float[Tensor, "... read"]:
        """Mean of x_i over the tokens of each unit."""
        return self.sum(x) / self.members.to(x).sum(-1)

    def pair_sums(self, J: Float[Tensor, "... tokens tokens"]) -> Float[Tensor, "... read read"]:
        """Σ_{i∈A} Σ_{j∈B} J_ij for words A ≠ B; zero diagonal."""
        members = self.members.to(J)
        crossed = members @ J @ members.mT
        return crossed - torch.diag_embed(crossed.diagonal(dim1=-2, dim2=-1))

    def outside(self, x: Float[Tensor, "... tokens"]) -> Float[Tensor, "..."]:
        """Σ x_i over the tokens of no unit."""
        return (x * (self.unit_of < 0).to(x)).sum(-1)

    def vector(self, values: Float[Tensor, "read"]) -> tuple[float, ...]:
        """One number per unit, 0 for those not read."""
        by_unit = dict(zip(self.read, values.tolist(), strict=True))
        return tuple(by_unit.get(i, 0.0) for i in range(len(self.names)))

    def rows(self, values: Float[Tensor, "heads read"]) -> tuple[tuple[float, ...], ...]:
        """The same, row by row."""
        return tuple(map(self.vector, values))

    def matrix(self, J: Float[Tensor, "read read"]) -> tuple[tuple[float, ...], ...]:
        """Units × units; all units not read share one row of zeros, so that a long text costs little."""
        zeros = (0.0,) * len(self.names)
        rows = dict(zip(self.read, self.rows(J), strict=True))
        return tuple(rows.get(i, zeros) for i in range(len(self.names)))


class _Pieces(Sequence[str]):
    """The pieces of a text, decoded on access: only level "token" needs them."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> None:
        self._tokenizer, self._ids = tokenizer, ids

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, place: Any) -> Any:  # one at a time: nobody slices them
        return str(self._tokenizer.decode([self._ids[place]], clean_up_tokenization_spaces=False)).strip()


def tokenize(tokenizer: PreTrainedTokenizerBase, premise: str, hypothesis: str | None, max_length: int) -> Tokens:
    """A pair, the longer sentence truncated first, or one text (`hypothesis` None), as the model reads it.

    Raises:
        ValueError: the tokenizer is not a fast one; of its kind `ModelError`: it panics over this text.
    """
    return tokenize_all(tokenizer, [(premise,) if hypothesis is None else (premise, hypothesis)], max_length)[0]


def tokenize_all(tokenizer: PreTrainedTokenizerBase, texts: Sequence[tuple[str, ...]], max_length: int) -> list[Tokens]:
    """`tokenize` of several texts, each (text,) or each (premise, hypothesis), in one call of the tokenizer."""
    if len(texts) > 1 and not all(map(all, texts)):  # an empty part is none to a tokenizer, but not within a list
        return [tokens for text in texts for tokens in tokenize_all(tokenizer, [text], max_length)]
    if len(texts) == 1:
        encoded = _encode(tokenizer, texts[0], max_length)
        for name in list(encoded):
            encoded[name] = [encoded[name]]
    else:
        encoded = _encode(tokenizer, [list(part) for part in zip(*texts, strict=True)], max_length)
    offsets = encoded.pop("offset_mapping")
    read = []
    for row, parts in enumerate(texts):
        sides, ids = encoded.sequence_ids(row), encoded["input_ids"][row]
        uncut = list(zip(offsets[row], sides, strict=True))
        if len(ids) >= max_length:
            whole = tokenizer(*parts, return_offsets_mapping=True, verbose=False)
            uncut = list(zip(whole["offset_mapping"], whole.sequence_ids(), strict=True))
        inputs = {name: torch.tensor([column[row]]) for name, column in encoded.items()}
        read.append(Tokens(parts, inputs, offsets[row], sides, _Pieces(tokenizer, ids), uncut))
    return read


def _encode(tokenizer: PreTrainedTokenizerBase, texts: Sequence[Any], max_length: int) -> Any:
    """Ids with offsets, cut to `max_length`, of one text or of several."""
    if not tokenizer.is_fast:
        raise ValueError(f"{type(tokenizer).__name__} does not say where its tokens come from; a fast tokenizer does")
    with no_panic(getattr(tokenizer, "name_or_path", None) or type(tokenizer).__name__):
        return tokenizer(*texts, truncation="longest_first", max_length=max_length, return_offsets_mapping=True)


def units(tokens: Tokens, level: Level, given: Spans | None = None) -> Units:
    """The players of a text: its words, the pieces that were read, its sentences, or spans.

    Spans are `given` as (start, end) in characters, for each part of the text; what no span covers always stays. A
    span that is empty, overlaps another or lies outside of the text is a ValueError.
    """
    if level == "token":
        return _pieces(tokens)
    spans = _split(tokens.texts, level, given)
    owners = _owners(spans, zip(tokens.offsets, tokens.sides, strict=True))
    read = Counter(owners)
    whole = Counter(_owners(spans, tokens.uncut)) if tokens.is_cut else read
    names = tuple(text[a:b] for text, words_of in zip(tokens.texts, spans, strict=True) for a, b in words_of)
    sides = tuple(side for side, words_of in zip(sides_of(tokens.texts), spans, strict=True) for _ in words_of)
    return Units(
        names,
        sides,
        torch.tensor(owners),
        truncated=tuple(i for i in range(len(names)) if whole[i] and not read[i]),
        shortened=tuple(i for i in range(len(names)) if 0 < read[i] < whole[i]),
        silent=tuple(i for i in range(len(names)) if not whole[i]),
        spans=level == "span",
    )


def _split(texts: Sequence[str], level: Level, given: Spans | None) -> list[list[Span]]:
    """Where the units of each part are."""
    if level == "span":
        return _check_spans(texts, given)
    return [_sentence_spans(text) if level == "sentence" else _word_spans(text) for text in texts]


def read_words(
    tokenizer: PreTrainedTokenizerBase, premise: str, hypothesis: str | None, max_length: int, level: Level = "word"
) -> tuple[dict[str, list[int]], list[int]]:
    """Ids and masks of a text, and the player of each token: those read are numbered from 0; −1 for none.

    Arguments as of `tokenize`; `level` says whether a player is a word, a token or a sentence.
    """
    texts = (premise,) if hypothesis is None else (premise, hypothesis)
    encoded = _encode(tokenizer, texts, max_length)
    offsets, sides = encoded.pop("offset_mapping"), encoded.sequence_ids()
    if level == "token":
        owners = [-1 if side is None else place for place, side in enumerate(sides)]
    else:
        owners = _owners(_split(texts, level, None), zip(offsets, sides, strict=True))
    place = {word: i for i, word in enumerate(sorted({word for word in owners if word >= 0}))}
    return dict(encoded), [place.get(word, -1) for word in owners]


def cut_words(tokens: Tokens) -> list[str]:
    """The words that the model did not read, or not to their end, at whatever level the units are."""
    if not tokens.is_cut:
        return []
    words = units(tokens, "word")
    return [words.names[i] for i in sorted((*words.truncated, *words.shortened))]


def _pieces(tokens: Tokens) -> Units:
    """One unit per token that is not special; named as decoded, or by its text where it is part of a character."""
    names: list[str] = []
    sides: list[str] = []
    unit_of: list[int] = []
    for piece, side, (a, b) in zip(tokens.pieces, tokens.sides, tokens.offsets, strict=True):
        unit_of.append(-1 if side is None else len(names))
        if side is not None:
            text = tokens.texts[side][a:b]
            names.append(piece if piece and "\ufffd" not in piece else text.strip() or piece or text)
            sides.append(sides_of(tokens.texts)[side])
    return Units(tuple(names), tuple(sides), torch.tensor(unit_of))


def _word_spans(text: str) -> list[Span]:
    """Where the words are: what `str.split` finds."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def _sentence_spans(text: str) -> list[Span]:
    """Where the sentences are: up to a word that ends in a full stop, question or exclamation mark."""
    sentences: list[Span] = []
    start: int | None = None
    words = _word_spans(text)
    for place, (a, b) in enumerate(words):
        start = a if start is None else start
        if place == len(words) - 1 or text[a:b].rstrip(_CLOSING).endswith(_ENDS):
            sentences.append((start, b))
            start = None
    return sentences


def _check_spans(texts: Sequence[str], given: Spans | None) -> list[list[Span]]:
    """The spans of each part in their order."""
    flat = bool(given) and all(isinstance(x, int) for x in given[0])  # type: ignore[index]  # of one text
    by_text: Any = [given] if flat and len(texts) == 1 else given
    if by_text is None or len(by_text) != len(texts):
        raise ValueError(
            f"level = 'span' needs spans: a list of (start, end) in characters for each of {len(texts)} texts"
        )
    checked = []
    for text, spans in zip(texts, by_text, strict=True):
        ordered = sorted((int(a), int(b)) for a, b in spans)
        for k, (a, b) in enumerate(ordered):
            if not 0 <= a < b <= len(text):
                raise ValueError(
                    f"spans has ({a}, {b}); allowed: 0 <= start < end <= {len(text)}, the text's characters"
                )
            if k and a < ordered[k - 1][1]:
                raise ValueError(f"spans must not overlap; got {ordered[k - 1]} and {(a, b)}")
        checked.append(ordered)
    return checked


def _owners(spans: Sequence[Sequence[Span]], places: Any) -> list[int]:
    """The word of each token, counted through all parts; −1 for none."""
    starts = [0, *accumulate(map(len, spans))]
    owners = []
    for (a, b), side in places:
        word = -1 if side is None else _owner(spans[side], a, b)
        owners.append(word if word < 0 else starts[side] + word)
    return owners


def _owner(spans: Sequence[Span], start: int, end: int) -> int:
    """The word that has most of the characters [start, end); a token of none belongs to the word it stands in."""
    end = max(end, start + 1)
    best, most = -1, 0
    for word in range(bisect_right(spans, start, key=lambda span: span[1]), len(spans)):
        left, right = spans[word]
        if left >= end:
            break
        shared = min(right, end) - max(left, start)
        if shared > most:
            best, most = word, shared
    return best
