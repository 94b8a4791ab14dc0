"""Words and sentences for benchmarks/claims.py, written for it: modified adjectives in frames, and classes of words."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from neurogame.evaluation.alignment import Array
from neurogame_bench.study import Record

NEGATORS = ("not", "never", "hardly")
INTENSIFIERS = ("very", "really", "extremely")

# Adjectives with the frames they make sense in. A frame is (premise, hypothesis); {x} is "not good", "very good", …
TOPICS: tuple[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], ...] = (
    (
        ("good", "bad", "funny", "boring", "sad", "long", "short", "famous", "clever", "scary", "strange", "loud"),
        (
            ("We talked about the movie on the way home.", "The movie was {x}."),
            ("Everyone agreed that the show was {x} last night.", "They had watched a show."),
            ("The critic wrote about a film.", "It is a film that is {x}."),
        ),
    ),
    (
        ("hot", "cold", "fresh", "salty", "sweet", "tasty", "spicy", "cheap", "bitter", "healthy", "heavy"),
        (
            ("The cook put the soup on the table.", "The soup is {x} today."),
            ("The food in that place was {x} again.", "Somebody ate in a restaurant."),
            ("They ordered the same dish twice.", "The dish they ordered is {x}."),
        ),
    ),
    (
        ("happy", "tall", "young", "old", "tired", "angry", "strong", "brave", "polite", "rich", "kind", "busy"),
        (
            ("A woman is waiting at the station.", "The woman is {x}."),
            ("The man who opened the door looked {x}.", "A man opened a door."),
            ("Our neighbour came by this morning.", "Our neighbour was {x} this morning."),
        ),
    ),
    (
        ("clean", "quiet", "large", "small", "safe", "bright", "dark", "warm", "modern", "narrow", "crowded"),
        (
            ("She walked through the town in the evening.", "The town is {x}."),
            ("The room they slept in was {x} at night.", "They slept in a room."),
            ("The children play in the yard behind the house.", "The yard is {x} in summer."),
        ),
    ),
)


@dataclass(frozen=True)
class Phrase:
    """A pair of sentences with a modified adjective in one of them."""

    premise: str
    hypothesis: str
    modifier: str
    adjective: str


def phrases() -> Iterator[Phrase]:
    """Every adjective in every frame of its topic with every modifier."""
    for adjectives, frames in TOPICS:
        for adjective in adjectives:
            for premise, hypothesis in frames:
                for modifier in (*NEGATORS, *INTENSIFIERS):
                    x = f"{modifier} {adjective}"
                    yield Phrase(premise.format(x=x), hypothesis.format(x=x), modifier, adjective)


def coupled(modifier: str, adjective: str, words: Sequence[str], sides: Sequence[str | None], J: Array) -> Record:
    """J of a modifier with its adjective, the mean J of the other neighbours and of all pairs, over the mean |J|.

    Args:
        modifier: stands before the adjective.
        adjective: one of the words.
        words: as they were read.
        sides: "premise" or "hypothesis" for each of them.
        J: [words, words].
    """
    plain = [bare(word) for word in words]
    apart = ~np.eye(len(plain), dtype=bool)
    unit = float(np.abs(J[apart]).mean()) or 1.0
    a = next(k for k in range(len(plain) - 1) if (plain[k], plain[k + 1]) == (modifier, adjective))
    near = [J[k, k + 1] for k in range(len(plain) - 1) if k != a and sides[k] == sides[k + 1]]
    return {
        "modifier": modifier,
        "adjective": adjective,
        "J": float(J[a, a + 1]) / unit,
        "neighbours": float(np.mean(near)) / unit,
        "all": float(J[apart].mean()) / unit,
    }


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEGATIONS = _words("not no never nobody nothing none nowhere neither nor without cannot hardly barely")
_QUANTIFIERS = _words(
    "all every each everyone everybody everything some someone somebody something any anyone anybody anything many "
    "much most few several both either more less"
)
_CLAUSES = _words(
    "that which who whom whose where when while because although though since after before until unless if as and "
    "but or so"
)


def bare(word: str) -> str:
    """In lower case and without punctuation around it: "Nobody," is nobody."""
    return re.sub(r"^\W+|\W+$", "", word.lower().replace("’", "'"))


def is_negation(word: str) -> bool:
    """A word that negates, contracted forms included."""
    plain_word = bare(word)
    return plain_word in _NEGATIONS or plain_word.endswith("n't")


def is_quantifier(word: str) -> bool:
    """A word that says how many, numerals and negations left out."""
    return bare(word) in _QUANTIFIERS


def clause_markers(text: str) -> int:
    """Words that join or open a clause: a crude count of what a parser would find."""
    return sum(bare(word) in _CLAUSES for word in text.split())
