"""Fragments of English: pairs of plain sentences whose labels follow from what they mean, by phenomenon.

Made of forms with truth conditions, as the toy language is; see `neurogame.data.forms`. Conventions:
- "the cook" is the same one cook in premise and hypothesis, and names name one person each;
- every noun phrase under a quantifier denotes something: "every cook sang" entails "at least one cook sang";
- a sentence that careful people read in several ways (bare numerals, "or", "some", presuppositions of a hypothesis)
  has all these readings, and a pair is used only if its label is the same under each;
- in scenes "a man" is any man: one who sings may also dance, and that a woman dances says nothing of him (SNLI's
  annotators took both sentences to be about one photograph and often called such pairs contradictions);
- otherwise meaning is literal: what a sentence suggests but does not say is neutral.

Held out for dev and test: a fifth of the words of every class that is large enough (`words`), and the forms marked
in the tables; training pairs have neither.

Of the constructions that HANS tests, with other words and other sentences: exchanged subject and object, passives,
prepositional phrases on subject and object, relative clauses on subject and object, conjunctions, clauses under if,
unless, or, verbs of saying and adverbs are covered. Not covered, on purpose: a noun phrase read as the object of a verb
that takes a clause (NP/S), reduced relatives in the past participle, and objects that turn out to be subjects (NP/Z).
"""

from collections.abc import Iterable
from functools import cache, partial
from itertools import product
from typing import Literal
from zlib import crc32

from neurogame.data.forms import Balance, Draw, Form, balance, draw_pairs, sentence
from neurogame.data.fragments.languages import TABLES, Fragment, parts
from neurogame.data.fragments.words import ENGLISH
from neurogame.data.pairs import DataError, Pair, PairDataset
from neurogame.labels import LABELS

Part = Literal["train", "dev", "test"]
PHENOMENA = tuple(TABLES)
PROBES = {  # name → phenomenon, and which of its fragments
    "order": ("roles", ("voice", "third", "giving", "converse", "row")),
    "negation": ("negation", ("state", "event", "nothing", "never", "un", "without")),
    "quantifier": ("quantifier", ("adjective", "origin", "object", "only")),
    "time": ("time", ("order", "first", "occurred", "until", "years", "since", "already")),
}
PROBE_SIZE = 50
HELD = {"train": ("",), "dev": ("words", "forms", "both"), "test": ("words", "forms", "both")}  # what is new in a part
ASIDE = 0.2  # of the premises have an unrelated sentence beside them
ASIDES = ENGLISH["asides"]  # tense → sentences on which no form bears
_ROUNDS = 150


@cache
def _weights(phenomenon: str, index: int, held_forms: bool) -> Balance:
    """The weights of a fragment's pairs of forms: of those in training, or of those with a form that is held out."""
    language = parts(phenomenon)[index].language

    def keep(premise: Form, hypothesis: Form) -> bool:
        return (premise.held or hypothesis.held) == held_forms

    return balance(language, _ROUNDS, keep, complete=not held_forms)


def generate(count: int, seed: int, part: Part = "train", phenomena: Iterable[str] | None = None) -> PairDataset:
    """`count` different pairs in random order, as many of each phenomenon and label as can be.

        generate(12_000, seed=0)
        generate(600, seed=1, part="test", phenomena=["roles", "time"])

    Args:
        count: number of pairs; there are several hundred thousand of "train".
        seed: the same seed gives the same pairs.
        part: "train", or "dev" and "test", which have no pair in common and of whose pairs a third has only held-out
            words, a third a held-out form, and a third both.
        phenomena: names of `PHENOMENA`; None: all.

    Returns:
        The pairs. `extras` has "phenomenon", "fragment" (a part of the phenomenon), "premise_form" and
        "hypothesis_form" (templates), and "held": "" (train), "words", "forms" or "both".

    Raises:
        DataError: if the count is not positive, a part or phenomenon is not known, or there are too few pairs.
    """
    names = tuple(PHENOMENA) if phenomena is None else tuple(phenomena)
    unknown = [name for name in names if name not in PHENOMENA]
    if unknown or not names:
        raise DataError(f"phenomena {', '.join(unknown) or 'missing'}; allowed: {', '.join(PHENOMENA)}")
    if part not in HELD:
        raise DataError(f"part {part!r} is unknown; allowed: {', '.join(HELD)}")
    pairs = draw_pairs(
        count,
        seed,
        list(product(HELD[part], LABELS, names)),
        _pair,
        "{count} pairs are more than the fragments have of {name}; allowed: fewer, or more phenomena",
        partial(_fits, part),
    )
    return PairDataset(pairs, f"fragments/{part}", "generated").shuffled(seed)


def probe(name: str) -> PairDataset:
    """50 pairs about one question, with words that no training pair has; labels as balanced as 50 allows.

    Args:
        name: "order" (of words: who did what to whom), "negation", "quantifier" or "time".

    Returns:
        The pairs, with `extras` as those of `generate`; their forms occur in training.

    Raises:
        DataError: if there is no such probe.
    """
    if name not in PROBES:
        raise DataError(f"probe {name!r} is unknown; allowed: {', '.join(PROBES)}")
    phenomenon, names = PROBES[name]
    groups = [("words", label, phenomenon, fragment) for fragment in names for label in LABELS]
    pairs = draw_pairs(PROBE_SIZE, crc32(name.encode()), groups, _pair, "no pair of {name}", partial(_fits, "test"))
    return PairDataset(pairs, f"fragments/probe_{name}", "generated").shuffled(0)


def _fits(part: str, pair: Pair) -> bool:
    """Whether the sentences differ, and the pair is of this part: a hash of its text decides between dev and test."""
    side = ("dev", "test")[crc32(f"{pair.premise} {pair.hypothesis}".encode()) % 2]
    return pair.premise != pair.hypothesis and part in ("train", side)


def _pair(draw: Draw, held: str, label: str, phenomenon: str, only: str | None = None) -> Pair:
    """A pair of a phenomenon, or of one of its fragments."""
    options = _options(phenomenon, label, held in ("words", "both"), held in ("forms", "both"))
    fragment, weighted = draw.one([option for option in options if only in (None, option[0].name)])
    premise, hypothesis = weighted.draw(label, draw)
    words = fragment.language.words(draw)
    text = sentence(premise, words)
    if fragment.tense and draw.chance(ASIDE):
        text = f"{sentence(draw.one(ASIDES[fragment.tense]), {})} {text}"
    extras = {
        "phenomenon": phenomenon,
        "fragment": fragment.name,
        "premise_form": premise,
        "hypothesis_form": hypothesis,
        "held": held,
    }
    return Pair(text, sentence(hypothesis, words), label, extras)


@cache
def _options(phenomenon: str, label: str, held_words: bool, held_forms: bool) -> list[tuple[Fragment, Balance]]:
    """The fragments of a phenomenon that have pairs with this label, and their weights."""
    fragments = parts(phenomenon, held_words)
    weights = (_weights(phenomenon, index, held_forms) for index in range(len(fragments)))
    return [option for option in zip(fragments, weights, strict=True) if label in option[1].by_label]
