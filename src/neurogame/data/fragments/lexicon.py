"""The words of the fragments, each class in two parts: words of training pairs, and words held out for dev and test.

A word is held out if the CRC of its text is a multiple of five, so it is held out of every class it is in. A class
too small for that is shared by both parts, as function words are.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any
from zlib import crc32

from neurogame.data.fragments.english import section
from neurogame.data.fragments.inflection import Verb

FEWEST = 2  # words that a class must have held out; otherwise it is shared
ENGLISH = section("words")
COLOURS, MOODS, KINDS, WIDER, GOODS = (ENGLISH[name] for name in ("colours", "moods", "kinds", "wider", "goods"))


@dataclass(frozen=True)
class Lexicon:
    """The words of one part, by class."""

    people: tuple[str, ...]
    names: tuple[str, ...]
    manners: tuple[str, ...]
    colours: tuple[str, ...]
    looks: tuple[str, ...]
    deeds: tuple[Verb, ...]
    acts: tuple[Verb, ...]
    tasks: tuple[Verb, ...]
    kinds: dict[str, tuple[str, ...]]
    objects: tuple[str, ...]
    places: tuple[str, ...]
    cities: tuple[str, ...]
    days: tuple[str, ...]
    months: tuple[str, ...]
    when: tuple[str, ...]
    where: tuple[str, ...]
    is_held: bool

    def of(self, entries: Iterable[str]) -> tuple[str, ...]:
        """The entries of this part; see `part`."""
        return part(entries, self.is_held)

    def known(self, words: str) -> tuple[str, ...]:
        """Words separated by commas without the people of the other part; all, if the held-out part has none."""
        every = tuple(words.split(","))
        chosen = tuple(word for word in every if word not in ENGLISH["people"].split() or is_held(word) == self.is_held)
        return chosen if chosen or not self.is_held else every


def is_held(word: str) -> bool:
    """Whether a word is kept for dev and test."""
    return crc32(word.encode()) % 5 == 0


def part(entries: Iterable[str], held: bool) -> tuple[str, ...]:
    """The entries of a class that are held out, or those that are not.

    Args:
        entries: the words or phrases of a class; of an entry with a colon, what stands before it decides.
        held: which part.

    Returns:
        The part in order; all entries, in both parts, if fewer than `FEWEST` would be held out.
    """
    every = tuple(" ".join(entry.split()) for entry in entries)
    chosen = tuple(entry for entry in every if is_held(entry.partition(":")[0]))
    if len(chosen) < FEWEST:
        return every
    return chosen if held else tuple(entry for entry in every if entry not in chosen)


def _shared(text: str) -> tuple[str, ...]:
    return tuple(" ".join(entry.split()) for entry in text.split(";"))


@cache
def lexicon(held: bool) -> Lexicon:
    """All words of one part.

    Args:
        held: the words kept for dev and test, or those of training.

    Returns:
        The words by class.
    """

    def words(text: str) -> tuple[str, ...]:
        return part(text.split(";") if ";" in text else text.split(), held)

    nouns = ("people", "names", "manners", "colours", "looks", "objects", "places", "cities")
    classes: dict[str, Any] = {name: words(ENGLISH[name]) for name in nouns}
    classes |= {name: tuple(map(Verb.of, words(ENGLISH[name]))) for name in ("deeds", "acts", "tasks")}
    classes |= {name: tuple(ENGLISH[name].split()) for name in ("days", "months")}
    classes |= {name: _shared(ENGLISH[name]) for name in ("when", "where")}
    return Lexicon(**classes, kinds={kind: words(text) for kind, text in KINDS.items()}, is_held=held)
