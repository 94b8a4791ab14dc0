"""The toy language against a model checker of its own: sentences are parsed from their text and evaluated in worlds.

Nothing of the generator's semantics is used here, neither templates nor truth conditions: only English.
"""

import random
import re
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from neurogame.data import DataError, generate, load
from neurogame.data.grammar import PHENOMENA, Draw, balance, language, sentence

LABELS = ("entailment", "neutral", "contradiction")
HYPERNYM = dict.fromkeys(("dog", "cat", "horse", "cow"), "animal") | dict.fromkeys(
    ("doctor", "nurse", "artist", "farmer"), "person"
)
COLOURS = {"black", "white", "brown", "grey"}
STATES = {"wet": ("wet", True), "dry": ("wet", False), "awake": ("awake", True), "asleep": ("awake", False)}
STATES |= {"inside": ("inside", True), "outside": ("inside", False)}
PAST = {"moved": "move", "stopped": "stop", "arrived": "arrive", "turned": "turn", "fell": "fall", "vanished": "vanish"}
PAST |= {"waited": "wait", "returned": "return", "left": "leave", "slipped": "slip", "chased": "chase", "saw": "see"}
PAST |= {"heard": "hear", "found": "find", "followed": "follow", "watched": "watch", "touched": "touch", "bit": "bite"}
PAST |= {"helped": "help", "pushed": "push"}
PARTICIPLE = {past: base for past, base in PAST.items() if past not in ("saw", "bit")} | {
    "seen": "see",
    "bitten": "bite",
}


# --- parsing ------------------------------------------------------------------------------------------------------

PATTERNS = {
    "state": r"the (?P<s>.+) (?P<is>is|was) (?P<not>not )?(?P<state>wet|dry|awake|asleep|inside|outside)",
    "active": r"the (?P<a>\w+) (?:(?P<past>\w+)|did (?P<not>not )(?P<base>\w+)) the (?P<b>\w+)",
    "passive": r"the (?P<b>\w+) was (?P<not>not )?(?P<done>\w+)(?: by the (?P<a>\w+))?",
    "quantified": r"(?P<q>every|some|an?|no|not every) (?:(?P<m>black|white|brown|grey) )?(?P<n>\w+) "
    r"(?:(?P<past>\w+)|did (?P<not>not )(?P<base>\w+))(?: (?P<w>today|again|early|here))?",
}


def parse(text):
    assert text[0].isupper()
    assert text.endswith(".")
    body = text[0].lower() + text[1:-1]
    for kind, pattern in PATTERNS.items():
        match = re.fullmatch(pattern, body)
        if match:
            found = match.groupdict()
            base = found.get("base") or PAST.get(found.get("past")) or PARTICIPLE.get(found.get("done"))
            assert kind == "state" or base in PAST.values(), text
            return kind, found | {"verb": base}
    raise AssertionError(f"not in the language: {text}")


# --- worlds -------------------------------------------------------------------------------------------------------


def world(rng, parsed):
    """Individuals with states, who did what to whom, and a crowd that did or did not do things, today or not."""
    likely = {key: rng.choice((0.0, 0.2, 0.5, 0.8, 1.0)) for key in ("did", "adverb", "coloured")}
    nouns = {p["n"] for kind, p in parsed if kind == "quantified"}
    sorts = sorted({noun for noun in HYPERNYM if {noun, HYPERNYM[noun]} & nouns})
    colour = next((p["m"] for kind, p in parsed if kind == "quantified" and p["m"]), "black")
    crowd = [
        {
            "noun": rng.choice(sorts),
            "colour": colour if rng.random() < likely["coloured"] else "other",
            "did": (did := rng.random() < likely["did"]),
            "adverb": did and rng.random() < likely["adverb"],
        }
        for _ in range(rng.randint(1, 5) if sorts else 0)
    ]
    return {
        "state": {name: rng.random() < 0.5 for name in ("wet", "awake", "inside")},
        "did": defaultdict(lambda: rng.random() < 0.3),
        "crowd": crowd,
    }


def denoted(p, world):
    return [
        thing
        for thing in world["crowd"]
        if p["n"] in (thing["noun"], HYPERNYM[thing["noun"]]) and p["m"] in (None, thing["colour"])
    ]


def true(kind, p, world):
    if kind == "state":
        dimension, value = STATES[p["state"]]
        return (world["state"][dimension] == value) != bool(p["not"])
    if kind in ("active", "passive"):
        agents = [p["a"]] if p["a"] else [*HYPERNYM, "someone else"]
        return any(world["did"][agent, p["verb"], p["b"]] for agent in agents) != bool(p["not"])
    truths = [thing["adverb" if p["w"] else "did"] for thing in denoted(p, world)]
    if p["not"]:
        truths = [not truth for truth in truths]
    return {
        "every": all(truths),
        "no": not any(truths),
        "not every": not all(truths),
    }.get(p["q"], any(truths))


def oracle(premise, hypothesis, worlds=300):
    parsed = [parse(premise), parse(hypothesis)]
    rng = random.Random(premise + hypothesis)
    found = set()
    for _ in range(worlds):
        one = world(rng, parsed)
        if all(denoted(p, one) for kind, p in parsed if kind == "quantified") and true(*parsed[0], one):
            found.add(true(*parsed[1], one))
    assert found, f"no world for {premise}"
    return "neutral" if len(found) == 2 else "entailment" if found == {True} else "contradiction"


@pytest.mark.parametrize(
    ("premise", "hypothesis", "label"),
    [
        ("Every dog fell.", "Some dog fell.", "entailment"),  # existential import
        ("No dog fell.", "Not every dog fell.", "entailment"),
        ("No dog fell.", "Every dog fell.", "contradiction"),
        ("Some dog fell.", "Every dog fell.", "neutral"),
        ("Every animal fell.", "Every dog fell.", "entailment"),
        ("Every dog fell.", "Every animal fell.", "neutral"),
        ("No animal fell.", "A dog fell.", "contradiction"),
        ("Every person fell.", "Some dog fell.", "neutral"),
        ("No dog fell.", "No black dog fell today.", "entailment"),
        ("No black dog fell.", "No dog fell.", "neutral"),
        ("Every dog fell today.", "Every dog fell.", "entailment"),
        ("Some dog did not fall.", "Some dog did not fall today.", "entailment"),
        ("The dog chased the cat.", "The cat was chased by the dog.", "entailment"),
        ("The dog chased the cat.", "The dog was chased by the cat.", "neutral"),
        ("The dog chased the cat.", "The cat was chased.", "entailment"),
        ("The cat was not chased.", "The dog chased the cat.", "contradiction"),
        ("The old cow is wet.", "The old cow is not dry.", "entailment"),
        ("The old cow is wet.", "The old cow is awake.", "neutral"),
        ("The old cow is not dry.", "The old cow is dry.", "contradiction"),
    ],
)
def test_the_model_checker_itself(premise, hypothesis, label):
    assert oracle(premise, hypothesis) == label


@pytest.mark.parametrize("phenomenon", PHENOMENA)
def test_every_pair_of_forms_has_the_label_of_the_model_checker(phenomenon):
    forms = balance(language(phenomenon))
    draw = Draw(5)
    wrong = []
    for (premise, hypothesis), label in zip(forms.cells, forms.labels, strict=True):
        words = language(phenomenon).words(draw)
        texts = sentence(premise, words), sentence(hypothesis, words)
        if oracle(*texts) != label:
            wrong.append((*texts, label))
    assert wrong == []
    assert len(forms.cells) > 50


def test_the_training_pairs_have_the_label_of_the_model_checker():
    pairs = load("toy/train", limit=120)
    assert [p for p in pairs if oracle(p.premise, p.hypothesis) != p.label] == []


# --- the data set -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def train():
    return load("toy/train")


@pytest.fixture(scope="module")
def dev():
    return load("toy/dev")


def test_sizes_and_balance(train, dev):
    assert len(train) == 4000
    assert 400 < len(dev) <= 600
    groups = Counter((p.extras["phenomenon"], p.label) for p in train)
    assert set(groups) == {(name, label) for name in PHENOMENA for label in LABELS}
    assert max(groups.values()) - min(groups.values()) <= 1
    assert min(Counter((p.extras["phenomenon"], p.label) for p in dev).values()) >= 15


def test_pairs_are_distinct_and_dev_is_new(train, dev):
    seen = {(p.premise, p.hypothesis) for p in train}
    assert len(seen) == len(train)
    assert not seen & {(p.premise, p.hypothesis) for p in dev}
    assert all(p.premise != p.hypothesis for p in train)


def test_seeds():
    assert generate(200, 3) == generate(200, 3)
    assert generate(200, 3).fingerprint != generate(200, 4).fingerprint
    order = [p.label for p in generate(200, 3)]
    assert order != sorted(order)


def test_sentences(train):
    sentences = {text for p in train for text in (p.premise, p.hypothesis)}
    words = Counter(word for text in sentences for word in text.lower().rstrip(".").split())
    assert len(words) <= 150
    assert {len(text.split()) for text in sentences} <= set(range(3, 10))
    assert not [text for text in sentences if re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", text)]
    assert any("an a" in text.lower() for text in sentences)
    for text in sentences:
        parse(text)
    for p in train:  # one tense per pair, or states could have changed
        assert len(set(re.findall(r"\b(is|was)\b", f"{p.premise} {p.hypothesis}"))) <= 1


def test_roles_are_exchanged_sometimes(train):
    passive = [p for p in train if p.extras["phenomenon"] == "passive"]
    same_words = [p for p in passive if roles(p.premise) and roles(p.hypothesis) == roles(p.premise)[::-1]]
    assert {p.label for p in same_words} == {"neutral"}
    assert 0.02 < len(same_words) / len(passive) < 0.12


def roles(text):
    kind, p = parse(text)
    return (p["a"], p["b"]) if kind in ("active", "passive") and p["a"] else None


@pytest.mark.parametrize("count", [0, -1])
def test_count_is_positive(count):
    with pytest.raises(DataError, match=str(count)):
        generate(count, 0)


def test_more_than_there_is():
    with pytest.raises(DataError, match="more than the toy language has"):
        generate(25_000, 0)


# --- shortcuts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phenomenon", PHENOMENA)
@pytest.mark.parametrize("side", [0, 1])
def test_no_form_prefers_a_label(phenomenon, side):
    found = balance(language(phenomenon))
    mass = defaultdict(Counter)
    for cell, label, weight in zip(found.cells, found.labels, found.weights, strict=True):
        mass[cell[side]][label] += weight
    assert len(mass) >= 8
    for form, by_label in mass.items():
        total = sum(by_label.values())
        assert all(abs(by_label[label] - total / 3) < 1e-3 for label in LABELS), form


def naive_bayes(train, dev, features):
    """Accuracy on dev of the product of P(feature | label), with add-one smoothing."""
    counts, totals = {label: Counter() for label in LABELS}, Counter()
    for pair in train:
        counts[pair.label].update(features(pair))
    vocabulary = len(set().union(*counts.values()))
    totals = {label: sum(counts[label].values()) + vocabulary for label in LABELS}

    def guess(pair):
        scores = dict.fromkeys(LABELS, 1.0)
        for feature in features(pair):
            for label in LABELS:
                scores[label] *= (counts[label][feature] + 1) / totals[label] * 50  # 50: away from underflow
        return max(scores, key=scores.get)

    return sum(guess(pair) == pair.label for pair in dev) / len(dev)


def grams(text):
    words = text.lower().split()
    return [*words, *pairwise(words), text]


def overlap(pair):
    first, second = set(pair.premise.lower().split()), set(pair.hypothesis.lower().split())
    return [("new", len(second - first)), ("gone", len(first - second))]


@pytest.mark.parametrize("phenomenon", [None, *PHENOMENA])
@pytest.mark.parametrize("side", ["premise", "hypothesis"])
def test_one_sentence_does_not_say_the_label(train, phenomenon, side):
    seen = {(p.premise, p.hypothesis) for p in train}
    new = generate(3000, seed=9).filter(lambda p: (p.premise, p.hypothesis) not in seen)
    ours = [d.filter(lambda p: phenomenon in (None, p.extras["phenomenon"])) for d in (train, new)]
    majority = max(ours[1].counts.values()) / len(ours[1])
    found = naive_bayes(*ours, lambda pair: grams(getattr(pair, side)))
    assert found < (0.45 if phenomenon is None else majority + 0.12)


def test_the_number_of_shared_words_says_little(train, dev):
    assert naive_bayes(train, dev, overlap) < 0.62


def test_both_sentences_do_say_the_label(train, dev):
    """The classifier above can learn: given the pair of forms, it does."""
    found = naive_bayes(train, dev, lambda p: [(p.extras["premise_form"], p.extras["hypothesis_form"])])
    assert found > 0.9
