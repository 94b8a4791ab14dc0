"""A toy language for inference: sentences whose labels follow from what they mean, drawn without shortcuts.

Four phenomena: negation, quantifiers, hypernyms and passives. Each has sentence forms over a handful of worlds, as
`forms` describes them. Conventions:
- existential import: every noun phrase under a quantifier denotes something, so "every dog fell"
  entails "some dog fell", and "no dog fell" entails "not every dog fell";
- "the dog" is the same one dog in premise and hypothesis;
- animals are no persons; opposites such as wet and dry are complementary: exactly one of the two holds;
- an event that took place "today" took place; a black dog is a dog.

How many words the two sentences share says as little about the label as the forms allow. Pairs of passives with
exchanged roles ("The dog chased the cat." / "The dog was chased by the cat.") are decided by word order
alone. They are few, so that a model that ignores order can still get nearly everything else right.
"""

import tomllib
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from itertools import product

from neurogame.data.form_tables import read_section, table
from neurogame.data.forms import Balance, Draw, Language, balance, draw_pairs, sentence
from neurogame.data.pairs import Pair, PairDataset
from neurogame.labels import LABELS

TABLES = tomllib.loads((files(__package__) / "toy.toml").read_text(encoding="utf-8"))
WORDS = TABLES.pop("words")
KINDS, OPPOSITES, DID, DONE = (WORDS[name] for name in ("kinds", "opposites", "did", "done"))
NOUNS = KINDS["animal"] + KINDS["person"]


def _negation(draw: Draw) -> dict[str, str]:
    a = draw.one(OPPOSITES)
    b = draw.one(OPPOSITES, a, OPPOSITES[a])
    subject = draw.one(WORDS["looks"]) + draw.one(NOUNS)
    return {"s": subject, "is": draw.one(("is", "was")), "a": a, "o": OPPOSITES[a], "b": b, "q": OPPOSITES[b]}


def _verb(draw: Draw) -> dict[str, str]:
    past = draw.one(DID)
    return {"past": past, "base": DID[past], "w": draw.one(WORDS["adverbs"])}


def _quantifier(draw: Draw) -> dict[str, str]:
    return {"x": draw.one(KINDS["animal"]), "m": draw.one(WORDS["colours"]), **_verb(draw)}


def _hypernym(draw: Draw) -> dict[str, str]:
    k = draw.one(KINDS)
    return {"x": draw.one(KINDS[k]), "k": k, "j": draw.one(KINDS, k), **_verb(draw)}


def _passive(draw: Draw) -> dict[str, str]:
    a, past, q = draw.one(NOUNS), draw.one(DONE), draw.one(OPPOSITES)
    base, done = DONE[past]
    return {"a": a, "b": draw.one(NOUNS, a), "past": past, "base": base, "done": done, "q": q, "o": OPPOSITES[q]}


_WORDS: dict[str, Callable[[Draw], dict[str, str]]] = {
    "negation": _negation,
    "quantifier": _quantifier,
    "hypernym": _hypernym,
    "passive": _passive,
}
PHENOMENA = tuple(_WORDS)


@cache
def language(phenomenon: str) -> Language:
    """The forms of a phenomenon with their worlds and words."""
    spec = TABLES[phenomenon]
    lines, possible = read_section(spec)
    return Language(table(lines), possible, _WORDS[phenomenon], level=spec.get("level", True))


@cache
def _balanced(phenomenon: str) -> Balance:
    return balance(language(phenomenon))


def generate(count: int, seed: int) -> PairDataset:
    """`count` different pairs in random order, as many of each phenomenon and label as can be.

        generate(1200, seed=0).summary()

    Args:
        count: number of pairs; there are some ten thousand.
        seed: the same seed gives the same pairs.

    Returns:
        The pairs. `extras` has the phenomenon ("negation", "quantifier", "hypernym", "passive") and the two templates.

    Raises:
        DataError: if the count is not positive, or there are too few pairs.
    """
    too_many = "{count} pairs are more than the toy language has; allowed: up to some ten thousand"
    pairs = draw_pairs(count, seed, list(product(LABELS, PHENOMENA)), _pair, too_many)
    return PairDataset(pairs, "toy", "generated").shuffled(seed)


def _pair(draw: Draw, label: str, phenomenon: str) -> Pair:
    premise, hypothesis = _balanced(phenomenon).draw(label, draw)
    words = language(phenomenon).words(draw)
    extras = {"phenomenon": phenomenon, "premise_form": premise, "hypothesis_form": hypothesis}
    return Pair(sentence(premise, words), sentence(hypothesis, words), label, extras)
