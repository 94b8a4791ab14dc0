"""Warnings from the two texts alone: said where they help, silent elsewhere."""

import pytest
import tiny

from neurogame.explanation.cautions import cautions, reordered

ENGLISH = [
    ("A man sleeps on the bench.", "Nobody is awake."),
    ("Die Hard is on in the cinema.", "A film is on."),  # "die" and "in" are German as well
    ("She ordered a pain au chocolat and a café au lait.", "She ordered breakfast."),
    ("dogs", "dogs"),
    ("OK", "no"),
    ("3 + 4 = 7 !", "3 + 4 = 8 ?"),
    *tiny.PAIRS,
]
FOREIGN = [
    "Ein Mann schläft auf der Bank und wir sind nicht da.",
    "Un homme dort sur le banc et les enfants jouent dans la rue.",
    "El hombre duerme en el banco y los niños juegan por la calle.",
    "Un uomo dorme sulla panchina e i bambini giocano nella strada con gli altri.",
    "O homem dorme no banco e as crianças não estão na rua.",
    "Een man slaapt op het bankje en de kinderen zijn niet thuis.",
    "Мужчина спит на скамейке.",
    "男が眠る",
    "الرجل نائم",
]


@pytest.mark.parametrize("pair", ENGLISH)
def test_plain_pairs_are_left_alone(pair):
    assert cautions(*pair) == []


@pytest.mark.parametrize("text", FOREIGN)
def test_another_language_is_seen(text):
    assert cautions(text, "A man sleeps on a bench.") == [
        "the premise does not look like English: a model that was trained on English guesses here"
    ]
    assert cautions(text, text)[0].startswith("premise and hypothesis do not look like English")


def test_an_empty_side_is_named():
    assert cautions(" ", "Dogs sleep.") == ["the premise is empty: the answer rests on the hypothesis alone"]
    assert cautions("Dogs sleep.", "\n") == ["the hypothesis is empty: the answer rests on the premise alone"]


@pytest.mark.parametrize(
    ("premise", "hypothesis", "expected"),
    [
        ("the nurse thanked the pilot", "the pilot thanked the nurse", True),
        ("the old nurse thanked the pilot today", "the pilot thanked the nurse", True),
        ("the nurse thanked the pilot", "the nurse thanked the pilot", False),
        ("the old nurse thanked the pilot", "the nurse thanked the pilot", False),  # fewer words, in their order
        ("the nurse thanked the pilot", "the pilot was thanked by the nurse", False),  # words of its own
        ("the nurse thanked a pilot", "the pilot thanked the nurse", False),  # "the" twice, there once
        ("dogs run", "run dogs", False),  # too short to say
    ],
)
def test_the_same_words_in_another_order(premise, hypothesis, expected):
    assert reordered(premise.split(), hypothesis.split()) is expected
    said = cautions(f"{premise.capitalize()}.", f"{hypothesis.capitalize()}!")
    assert [line.startswith("the hypothesis repeats") for line in said] == [True] * expected
