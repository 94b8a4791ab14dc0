"""Captions read as logic reads them: labels by enumeration, no form that gives its label away, whole sentences."""

from collections import Counter, defaultdict
from itertools import product

import pytest

from neurogame.data import Pair
from neurogame.labels import LABELS
from neurogame_bench.captions import DENIALS, FORMS, UNSURE, generate

PEOPLE = ("a man in a green coat", "two girls", "an old woman", "several boys", "the clown", "a tall farmer")
DOINGS = ("painting a fence", "eating plums", "riding a white horse", "climbing a ladder", "asleep under a tree")
PLACES = ("near the river", "in a crowded hall", "behind the old barn", "at night")


def captions():
    """Premises with hypotheses that do not matter; some can stand in no form."""
    texts = [
        f"{who.capitalize()} {'are' if who in ('two girls', 'several boys') else 'is'} {what} {where}."
        for who, what, where in product(PEOPLE, DOINGS, PLACES)
    ]
    odd = ["Painting a fence is fun for people", "A man painting a fence near the river", "A man is here."]
    return [Pair(text, "x", "neutral") for text in (*texts, *odd)]


def follows(premise, hypothesis):
    """The label of two templates, over all worlds in which captions i, j and k are true or not."""

    def value(template, world):
        formula = template.replace("{not} ", "not ").replace(" but ", " and ")
        return eval(formula.format(i="i", j="j", k="k"), {}, world)

    worlds = [dict(zip("ijk", truth, strict=True)) for truth in product((False, True), repeat=3)]
    outcomes = {value(hypothesis, world) for world in worlds if value(premise, world)}
    return "neutral" if len(outcomes) == 2 else "entailment" if outcomes == {True} else "contradiction"


@pytest.mark.parametrize(("premise", "hypothesis", "label"), [form[:3] for form in FORMS])
def test_labels_follow_from_the_forms(premise, hypothesis, label):
    assert follows(premise, hypothesis) == label


def test_no_way_to_put_a_hypothesis_gives_its_label_away():
    labels = defaultdict(set)
    for _, hypothesis, label, _ in FORMS:
        labels[hypothesis].add(label)
    assert all(found == set(LABELS) for found in labels.values())


def test_pairs_are_sentences_about_different_photographs():
    pairs = generate(captions(), 600, seed=3)
    assert len(pairs) == 600
    assert generate(captions(), 600, seed=3) == pairs != generate(captions(), 600, seed=4)
    counts = Counter(pair.label for pair in pairs)
    assert min(counts.values()) > 100
    assert counts["neutral"] > 200  # what they are for
    for text in (text for pair in pairs for text in (pair.premise, pair.hypothesis)):
        assert text[0].isupper()
        assert text.endswith(".")
        assert ".." not in text
        assert "fun for people" not in text  # does not begin with a noun phrase
        assert "A man painting" not in text  # no sentence
        assert "{" not in text
    denied = [pair for pair in pairs if any(denial in pair.premise.lower() for denial in DENIALS)]
    assert {pair.label for pair in denied} == set(LABELS)


def test_the_other_photograph_does_not_say_the_same():
    """Of two captions on either side of a neutral pair neither has nearly all the words of the other."""
    for pair in generate(captions(), 400, seed=0):
        if pair.extras and " and " not in pair.premise + pair.hypothesis:  # a caption and another, as they are
            words = [set(text.lower().strip(".").split()) for text in (pair.premise, pair.hypothesis)]
            assert len(words[0] & words[1]) <= 0.7 * max(map(len, words)) + 1


def test_of_another_photograph_one_is_not_sure():
    """Only neutral pairs without denial say how sure one can be: a distribution in which their label leads."""
    pairs = generate(captions(), 600, seed=5)
    unsure = [pair for pair in pairs if pair.extras]
    assert unsure
    assert all(pair.extras == {"probabilities": UNSURE} and pair.label == "neutral" for pair in unsure)
    assert not any(denial in (pair.premise + pair.hypothesis).lower() for pair in unsure for denial in DENIALS)
    assert sum(UNSURE.values()) == pytest.approx(1)
    assert max(UNSURE, key=UNSURE.__getitem__) == "neutral"
