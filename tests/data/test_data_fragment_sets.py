"""The data sets of fragments: balanced, disjoint, plain English, without shortcuts."""

import math
import re
from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from test_data_fragments import LABELS, PHENOMENA

from neurogame.data import DataError, fragments, load
from neurogame.data.fragments.inflection import Verb, plural
from neurogame.data.fragments.words import KINDS, words

# --- the data sets ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def train():
    return load("fragments/train")


@pytest.fixture(scope="module")
def dev():
    return load("fragments/dev")


@pytest.fixture(scope="module")
def test():
    return load("fragments/test")


@pytest.fixture(scope="module")
def everything(train, dev, test):
    return (*train, *dev, *test)


def key(pair):
    return pair.premise, pair.hypothesis


def test_sizes_and_balance(train, dev, test):
    assert (len(train), len(dev), len(test)) == (12_000, 1500, 1500)
    for data in (train, dev, test):
        groups = Counter((p.extras["phenomenon"], p.label) for p in data)
        assert set(groups) == {(name, label) for name in PHENOMENA for label in LABELS}
        assert max(groups.values()) - min(groups.values()) <= 3
    assert Counter(p.extras["held"] for p in train) == {"": 12_000}
    assert Counter(p.extras["held"] for p in dev) == {"words": 510, "forms": 510, "both": 480}


def test_pairs_are_distinct_and_parts_are_disjoint(train, dev, test):
    seen = [{key(pair) for pair in data} for data in (train, dev, test)]
    assert [len(pairs) for pairs in seen] == [12_000, 1500, 1500]
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]
    assert not seen[1] & seen[2]
    assert not {pair for pairs in seen for pair in pairs if pair[0] == pair[1]}


def test_there_are_many_pairs():
    pairs = fragments.generate(60_000, seed=4)
    assert len({key(pair) for pair in pairs}) == 60_000


def test_held_out_words(train, dev, test):
    for name in ("people", "names", "manners", "deeds", "acts", "tasks", "objects", "cities"):
        assert not set(words(name, held=True)) & set(words(name, held=False)), name
        assert len(words(name, held=True)) >= 2, name
    for kind in KINDS:
        assert len(words(kind, held=True)) >= 2
        assert not set(words(kind, held=True)) & set(words(kind, held=False))
    assert len(words("people", held=False)) + len(words("people", held=True)) >= 80
    assert len(words("names", held=False)) + len(words("names", held=True)) >= 60
    assert sum(len(text.split()) for text in KINDS.values()) >= 120
    new, old = (
        {*words("names + people", held), *(plural(noun) for noun in words("people", held))} for held in (True, False)
    )
    for pair in train:
        assert not new & words_of(pair)
    for pair in (*dev, *test):
        if pair.extras["phenomenon"] != "antonym":  # its opposites are held out together with what they are said of
            assert not (old if pair.extras["held"] in ("words", "both") else new) & words_of(pair), pair
    seen = {word for pair in train for word in words_of(pair)}
    assert not {Verb.of(verb).past for verb in words("acts + deeds", held=True)} & seen
    assert {Verb.of(verb).past for verb in words("acts + deeds", held=False)} <= seen


def words_of(pair):
    return set(re.findall(r"[\w-]+", f"{pair.premise} {pair.hypothesis}"))


def test_held_out_forms_look_new():
    """No held-out form is one of training with other names of slots; conditionals differ in which clause follows."""

    def surface(form):
        return re.sub(r"{\w+", "{", form.template)

    for name in PHENOMENA:
        for fragment in fragments.parts(name) if name != "conditional" else ():
            known = {surface(form) for form in fragment.language.forms if not form.held}
            assert not [form for form in fragment.language.forms if form.held and surface(form) in known]


def test_held_out_forms(train, dev):
    held = {
        form.template
        for name in PHENOMENA
        for fragment in fragments.parts(name)
        for form in fragment.language.forms
        if form.held
    }
    assert len(held) >= 150

    def forms(pair):
        return {pair.extras["premise_form"], pair.extras["hypothesis_form"]}

    own = defaultdict(set)
    for name in PHENOMENA:
        for fragment in fragments.parts(name):
            own[name, fragment.name] = {form.template for form in fragment.language.forms if form.held}
    for pair in train:
        assert not own[pair.extras["phenomenon"], pair.extras["fragment"]] & forms(pair)
    for pair in dev:
        met = bool(own[pair.extras["phenomenon"], pair.extras["fragment"]] & forms(pair))
        assert met == (pair.extras["held"] in ("forms", "both"))


def test_seeds():
    first = fragments.generate(300, 3)
    assert first == fragments.generate(300, 3)
    assert first.fingerprint != fragments.generate(300, 4).fingerprint
    assert fragments.generate(300, 3, "dev").fingerprint != fragments.generate(300, 3, "test").fingerprint


def test_some_phenomena():
    pairs = fragments.generate(60, 1, phenomena=["time", "roles"])
    assert Counter(p.extras["phenomenon"] for p in pairs) == {"time": 30, "roles": 30}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 0}, "count 0 is not positive"),
        ({"part": "validation"}, "part 'validation' is unknown; allowed: train, dev, test"),
        ({"phenomena": ["irony"]}, "phenomena irony; allowed: roles"),
        ({"phenomena": []}, "allowed: roles"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(DataError, match=message):
        fragments.generate(**{"count": 10, "seed": 0} | arguments)


@pytest.mark.parametrize("name", fragments.PROBES)
def test_probes(name, train):
    pairs = load(f"fragments/probe-{name}")
    assert pairs == fragments.probe(name)
    assert len({key(pair) for pair in pairs}) == 50
    assert max(pairs.counts.values()) - min(pairs.counts.values()) <= 1
    assert {pair.extras["held"] for pair in pairs} == {"words"}
    assert not {key(pair) for pair in train} & {key(pair) for pair in pairs}


def test_no_such_probe():
    with pytest.raises(DataError, match="probe 'irony' is unknown; allowed: order"):
        fragments.probe("irony")


# --- English ------------------------------------------------------------------------------------------------------

HANS = """professor student president judge senator secretary doctor lawyer scientist banker tourist manager artist
author actor athlete"""
ODD = {
    "doubled words": r"\b(\w+) \1\b(?<!had had)",
    "a before a vowel": r"\b[Aa] [aeiou]",
    "an before a consonant": r"\b[Aa]n [^aeiou]",
    "slots": r"[{}|_]",
    "spaces": r"  | [,.]|^ | $",
    "no capital": r"^[^A-Z]|\. [^A-Z]",
    "no full stop": r"[^.]$|\.\.",
    "agreement": r"\b(They|[Tt]he (?!bus )\w+s) was (not )?(?:in|at)\b",
    "agreement with quantifiers": r"\b(every|each|no) \w+ were\b|\b(these|all) \w+ was\b",
    "irregular": r"\b(\w*eaved|goed|runned|drawed|taked|thinked|sended|buyed|selled|finded|throwed|forgived|knowed)\b",
    "auxiliaries": r"\b(did not|will|can|must|may|might|to) (?!feed)\w+ed\b",
}


@pytest.mark.parametrize("fault", ODD)
def test_english(everything, fault):
    texts = {text for pair in everything for text in key(pair)}
    assert [text for text in texts if re.search(ODD[fault], text)][:5] == []


def test_names_and_plurals_agree(everything):
    names = "|".join(words("names", held=None))
    texts = {text for pair in everything for text in key(pair)}
    assert not [t for t in texts if re.search(rf"(?:^|\. )(?:{names}) (?:were|are|have|do)\b", t)]
    people = words("people", held=None)
    many = "|".join(plural(noun) for noun in people)
    assert not [t for t in texts if re.search(rf"(?:^|\. )The (?:{many}) (?:was|is|has|does)\b", t)]
    assert not [t for t in texts if re.search(rf"(?:^|\. )The (?:{'|'.join(people)}) (?:were|are|have|do)\b", t)]


def test_no_word_of_the_evaluation_set(everything):
    words = {word for pair in everything for word in re.findall(r"\w+", " ".join(key(pair)).lower())}
    assert not words & {form for noun in HANS.split() for form in (noun, plural(noun))}
    shown = "museum spaniel spaniels fountain apprentice lighthouse cyclist cyclists suitcase orchestra violinists"
    assert not words & set(shown.split())
    assert not {p for p in everything if re.search(r"bridge.*closed|lake.*warm|letter arrived", p.premise)}


def test_variety(train):
    words = {word for pair in train for text in key(pair) for word in re.findall(r"[a-z]+", text.lower())}
    assert len(words) > 1000
    lengths = Counter(len(pair.premise.split()) for pair in train)
    assert min(lengths) <= 4
    assert max(lengths) >= 18
    for name in PHENOMENA:
        assert len({p.extras["premise_form"] for p in train if p.extras["phenomenon"] == name}) >= 40


# --- shortcuts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phenomenon", PHENOMENA)
def test_no_form_prefers_a_label(phenomenon):
    for index in range(len(fragments.parts(phenomenon))):
        found = fragments._weights(phenomenon, index, held_forms=False)
        for side in (0, 1):
            mass = defaultdict(Counter)
            for cell, label, weight in zip(found.cells, found.labels, found.weights, strict=True):
                mass[cell[side]][label] += weight
            assert len(mass) >= 8
            leaning = {
                form: by_label
                for form, by_label in mass.items()
                if max(by_label.values()) / sum(by_label.values()) > 0.4 and sum(by_label.values()) > 1e-4
            }
            assert leaning == {}


def naive_bayes(train, dev, features):
    """Accuracy on dev of the product of P(feature | label), with add-one smoothing."""
    counts = {label: Counter() for label in LABELS}
    for pair in train:
        counts[pair.label].update(features(pair))
    vocabulary = len(set().union(*counts.values()))
    totals = {label: math.log(sum(counts[label].values()) + vocabulary) for label in LABELS}

    def guess(pair):
        found = features(pair)
        return max(LABELS, key=lambda label: sum(math.log(counts[label][f] + 1) - totals[label] for f in found))

    return sum(guess(pair) == pair.label for pair in dev) / len(dev)


def grams(text):
    words = text.lower().split()
    return [*words, *pairwise(words), text]


def overlap(pair):
    first, second = (set(re.findall(r"\w+", text.lower())) for text in key(pair))
    return [("new", len(second - first)), ("gone", len(first - second))]


@pytest.fixture(scope="module")
def more(train):
    seen = {key(pair) for pair in train}
    return fragments.generate(6000, seed=9).filter(lambda pair: key(pair) not in seen)


@pytest.mark.parametrize("phenomenon", [None, *PHENOMENA])
@pytest.mark.parametrize("side", ["premise", "hypothesis"])
def test_one_sentence_does_not_say_the_label(train, more, phenomenon, side):
    ours = [data.filter(lambda p: phenomenon in (None, p.extras["phenomenon"])) for data in (train, more)]
    found = naive_bayes(*ours, lambda pair: grams(getattr(pair, side)))
    error = math.sqrt(2 / 9 / len(ours[1]))
    assert found < 1 / 3 + 5 * error


@pytest.mark.parametrize("part", ["dev", "test"])
@pytest.mark.parametrize("side", ["premise", "hypothesis"])
def test_one_sentence_does_not_say_the_label_of_held_out_pairs(request, train, part, side):
    data = request.getfixturevalue(part)
    assert naive_bayes(train, data, lambda pair: grams(getattr(pair, side))) < 1 / 3 + 5 * math.sqrt(2 / 9 / len(data))


def test_the_number_of_shared_words_says_little(train, more):
    assert naive_bayes(train, more, overlap) < 0.52


def test_both_sentences_do_say_the_label(train, more):
    """The classifier above can learn: given the pair of forms, it does."""
    found = naive_bayes(train, more, lambda p: [(p.extras["premise_form"], p.extras["hypothesis_form"])])
    assert found > 0.8


@pytest.mark.parametrize(
    ("name", "fingerprint"),
    [
        ("fragments/train", "c8da83271048fade"),
        ("fragments/dev", "a870d97c9b68e7a2"),
        ("fragments/test", "4e65a618cd8ce360"),
        ("fragments/probe_order", "844f8c93c050b44c"),
        ("fragments/probe_negation", "7d4a8854ae155154"),
        ("fragments/probe_quantifier", "dea7d4ba6ccf2985"),
        ("fragments/probe_time", "5ea07b0a89116e60"),
    ],
)
def test_named_sets_are_those_that_models_were_trained_and_measured_on(name, fingerprint):
    """An edit of a word or a form changes what the figures of the docs are about."""
    assert load(name).fingerprint.startswith(fingerprint)
