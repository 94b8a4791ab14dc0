"""Marks of e-SNLI: which words they cover, whatever punctuation and stray asterisks do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neurogame.data import Pair, Rationale, rationales
from neurogame.data.rationales import parse

CASES = {
    "A *red* kite.": "0 1 0",
    "A red *kite.*": "0 0 1",
    "*A* *red* *kite.*": "1 1 1",
    "*A red* kite.": "1 1 0",
    "A *red kite.*": "0 1 1",
    "A red kite.": "0 0 0",
    " A  *red*\tkite. ": "0 1 0",
    "A *red*, kite.": "0 1 0",
    "A (*red*) kite.": "0 1 0",
    "A r*ed* kite.": "0 1 0",
    "*A red *kite.*": "0 0 1",  # the first is stray: a mark does not close after a space
    "A* red *kite.*": "0 0 1",
    "A * red *kite.*": "0 0 1",
    "A **red** kite.": "0 1 0",
    "A red kite.*": "0 0 0",
    "*A red kite.": "0 0 0",
}


@pytest.mark.parametrize("marked", CASES)
def test_marks(marked):
    expected = tuple(flag == "1" for flag in CASES[marked].split())
    words = tuple(marked.replace("*", "").split())
    assert parse(marked) == Rationale(words, expected)
    assert parse(marked, " ".join(words)).marked == expected


def test_asterisks_of_the_sentence_are_kept():
    sentence = "A 5*3 * grid"
    assert parse("A *5*3* * grid", sentence) == Rationale(("A", "5*3", "*", "grid"), (False, True, False, False))
    assert parse("A 5*3 * *grid*", sentence).marked == (False, False, False, True)


def test_words_of_another_text_are_not_taken():
    found = parse("A *red* kite.", "A green kite.")
    assert found == Rationale(("A", "red", "kite."), (False, True, False))


words = st.lists(st.text("abc.,'-", min_size=1, max_size=5), min_size=1, max_size=8)


@given(words, st.data())
def test_marking_word_by_word_is_undone(words, data):
    flags = data.draw(st.lists(st.booleans(), min_size=len(words), max_size=len(words)))
    marked = " ".join(f"*{word}*" if flag else word for word, flag in zip(words, flags, strict=True))
    assert parse(marked, " ".join(words)) == Rationale(tuple(words), tuple(flags))


@given(st.text("ab* \n", max_size=30))
def test_any_text_can_be_parsed(text):
    found = parse(text)
    assert found.words == tuple(text.replace("*", "").split())


def test_columns_of_both_kinds():
    official = {
        "Sentence1_marked_1": "A *kite*",
        "Sentence2_marked_1": "It *flies*",
        "Sentence1_Highlighted_1": "0",
        "Sentence2_Highlighted_1": "{}",
        "Sentence1_marked_2": "*A* kite",
        "Sentence2_marked_2": "It flies",
        "Sentence1_marked_3": "",
        "Sentence2_marked_3": "",
    }
    found = rationales(Pair("A kite", "It flies", "entailment", official))
    assert [(p.marked, h.marked) for p, h in found] == [((False, True), (False, True)), ((True, False), (False, False))]
    plain = {"p_marked_10": "*A* kite", "h_marked_10": "It flies", "p_marked_2": "A *kite*", "h_marked_2": "It flies"}
    assert [p.marked for p, _ in rationales(Pair("A kite", "It flies", None, plain))] == [(False, True), (True, False)]
    assert rationales(Pair("A kite", "It flies", None, {"p_marked_1": "A kite"})) == []
    assert rationales(Pair("A kite", "It flies")) == []


def test_one_mark_per_word():
    with pytest.raises(ValueError, match="2 words but 1 marks"):
        Rationale(("a", "b"), (True,))
