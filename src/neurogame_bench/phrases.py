"""Words and sentences for benchmarks/claims.py, written for it: modified adjectives in frames, and classes of words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
