"""From tokens to words: hand-made tokenisations, and what real tokenizers do with strange text."""

import pytest
import tiny
import torch

from neurogame.data.words import Tokens, Units, cut_words, tokenize, units

STRANGE = [
    ("a girl reads, 👨‍👩‍👧 this", "שלום עולם a\u202ebc"),
    ("", "a\n\n\tdog  sees"),
    ("a", "   "),
    ("the \u200b\u200d cat \x07 \x1b[31m", "\ufeff dog zzzz"),
    ("[SEP] [CLS] a man", "[UNK] <s> </s>"),
]


def by_hand(premise, hypothesis, places, uncut=None):
    """Tokens from (start, end, side) triples."""
    offsets, sides = [(a, b) for a, b, _ in places], [side for *_, side in places]
    pieces = ["" if side is None else (premise, hypothesis)[side][a:b] for a, b, side in places]
    whole = [((a, b), side) for a, b, side in uncut or places]
    return Tokens((premise, hypothesis), {}, offsets, sides, pieces, whole)


#            [CLS]         Nobody    '          s           awake         .            [SEP]         Go         [SEP]
PLACES = [(0, 0, None), (0, 6, 0), (6, 7, 0), (7, 8, 0), (9, 14, 0), (14, 15, 0), (0, 0, None), (0, 2, 1), (0, 0, None)]


def test_words_keep_their_punctuation():
    found = units(by_hand("Nobody's awake.", "Go", PLACES), "word")
    assert found.names == ("Nobody's", "awake.", "Go")
    assert found.sides == ("premise", "premise", "hypothesis")
    assert found.unit_of.tolist() == [-1, 0, 0, 0, 1, 1, -1, 2, -1]
    assert found.read == (0, 1, 2)
    assert (found.truncated, found.shortened, found.silent) == ((), (), ())


def test_pieces_are_units_of_their_own():
    found = units(by_hand("Nobody's awake.", "Go", PLACES), "token")
    assert found.names == ("Nobody", "'", "s", "awake", ".", "Go")
    assert found.unit_of.tolist() == [-1, 0, 1, 2, 3, 4, -1, 5, -1]


def test_numbers_of_words():
    found = units(by_hand("Nobody's awake.", "Go", PLACES), "word")
    x = torch.arange(9.0)
    J = torch.arange(81.0).reshape(9, 9)
    assert found.sum(x).tolist() == [1 + 2 + 3, 4 + 5, 7]
    assert found.mean(x).tolist() == [2.0, 4.5, 7.0]
    assert found.outside(x) == 0 + 6 + 8
    groups = ([1, 2, 3], [4, 5], [7])
    expected = [[0 if a is b else sum(float(J[i, j]) for i in a for j in b) for b in groups] for a in groups]
    assert found.pair_sums(J).tolist() == expected


def test_what_was_cut_has_zero():
    uncut = [*PLACES[:-1], (3, 6, 1), (6, 8, 1), (0, 0, None)]
    found = units(by_hand("Nobody's awake.", "Go fas er \u200b", [*PLACES[:4], *PLACES[6:]], uncut), "word")
    assert [found.names[i] for i in found.truncated] == ["awake.", "fas", "er"]
    assert [found.names[i] for i in found.silent] == ["\u200b"]
    assert found.vector(torch.tensor([2.0, 3.0])) == (2.0, 0.0, 3.0, 0.0, 0.0, 0.0)
    matrix = found.matrix(torch.tensor([[0.0, 5.0], [5.0, 0.0]]))
    assert matrix[0] == (0.0, 0.0, 5.0, 0.0, 0.0, 0.0)
    assert sum(map(sum, matrix)) == 10.0


def test_a_word_cut_in_the_middle_is_named():
    tokens = by_hand("Nobody's awake.", "Go", [*PLACES[:5], *PLACES[6:]], PLACES)
    found = units(tokens, "word")
    assert found.shortened == (1,)
    assert cut_words(tokens) == ["awake."]


def test_tokens_across_words_and_between_them():
    # a token over two words goes to the larger part; one of nothing to the word it stands in; whitespace to none
    places = [(0, 4, 0), (2, 2, 0), (1, 2, 0), (1, 1, 0)]
    found = units(by_hand("a bcd", "", places), "word")
    assert found.unit_of.tolist() == [1, 1, -1, -1]


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "mpnet"])
@pytest.mark.parametrize("pair", STRANGE)
def test_strange_text(family, pair):
    tokens = tokenize(tiny.tokenizer(family), *pair, 40)
    words = [*pair[0].split(), *pair[1].split()]
    found = units(tokens, "word")
    assert list(found.names) == words
    assert sorted((*found.read, *found.truncated, *found.silent)) == list(range(len(words)))
    pieces = units(tokens, "token")
    assert len(pieces.names) == sum(side is not None for side in tokens.sides)
    assert "\ufffd" not in "".join(pieces.names)
    special = [i for i, side in enumerate(tokens.sides) if side is None]
    assert all(u.unit_of[i] == -1 for u in (found, pieces) for i in special)


def test_the_ids_are_those_of_predict():
    tok = tiny.tokenizer()
    pair = ("the old man sees a dog " * 6, "a cat " * 10)
    tokens = tokenize(tok, *pair, 40)
    assert tokens.inputs["input_ids"].tolist() == [tok(*pair, truncation="longest_first", max_length=40)["input_ids"]]
    found = units(tokens, "word")
    assert len(found.names) == 56
    assert len(found.read) == 40 - 3
    assert len(found.truncated) == 56 - 37


def test_a_slow_tokenizer_is_refused(as_user):
    class Slow:
        is_fast = False

    with pytest.raises(ValueError, match="Slow"):
        tokenize(Slow(), "a", "b", 40)


def test_long_texts_share_their_zeros():
    n = 3000
    found = Units(("w",) * n, ("premise",) * n, torch.tensor([-1, 0, 1, -1]))
    rows = found.matrix(torch.ones(2, 2))
    assert len({id(row) for row in rows}) == 3
