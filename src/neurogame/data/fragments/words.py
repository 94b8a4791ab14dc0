"""The words of the fragments (`words.toml`) by class, each class in two parts: for training, and held out of it.

A word is held out if the CRC of its text is a multiple of five, so it is held out of every class it is in. A class
too small for that is shared by both parts, as function words are.
"""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any
from zlib import crc32

FEWEST = 2  # words that a class must have held out; otherwise it is shared


def read_tables(file: str) -> dict[str, Any]:
    """A TOML file beside this module."""
    return tomllib.loads((files(__package__) / file).read_text(encoding="utf-8"))


ENGLISH = read_tables("words.toml")
KINDS, WIDER = ENGLISH["kinds"], ENGLISH["wider"]
_SHARED = ENGLISH["shared"]["words"] | ENGLISH["shared"]["verbs"]
VERBS = ENGLISH["verbs"] | ENGLISH["shared"]["verbs"]
_CLASSES = ENGLISH["words"] | KINDS | VERBS | _SHARED


def is_held(word: str) -> bool:
    """Whether a word is kept for dev and test."""
    return crc32(word.encode()) % 5 == 0


def split(text: str) -> tuple[str, ...]:
    """The entries of a text, separated by semicolons or, if there are none, by spaces."""
    return tuple(" ".join(entry.split()) for entry in text.split(";")) if ";" in text else tuple(text.split())


@cache
def words(classes: str, held: bool | None) -> tuple[str, ...]:
    """The words of training, those held out for dev and test, or both (None), of one class or several, in order.

    Classes of `words.toml` have " + " between them; "*goods" stands for all that "goods" names. A class of which fewer
    than `FEWEST` words would be held out is whole in both parts.
    """
    names = [
        name for part in classes.split(" + ") for name in (words(part[1:], None) if part.startswith("*") else (part,))
    ]
    return tuple(word for name in names for word in _part(name, held))


def _part(name: str, held: bool | None) -> tuple[str, ...]:
    content = _CLASSES[name]
    if isinstance(content, dict):  # what is said of words → the words
        every = tuple(f"{word}:{entry}" for entry, text in content.items() for word in split(text))
    else:
        every = tuple(content) if isinstance(content, list) else split(content)
    chosen = tuple(entry for entry in every if is_held(entry.partition(":")[0]))
    if held is None or name in _SHARED or len(chosen) < FEWEST:
        return every
    return chosen if held else tuple(entry for entry in every if entry not in chosen)


def known_nouns(nouns: str, held: bool) -> tuple[str, ...]:
    """Words separated by commas without the people of the other part; all, if the held-out part has none."""
    every = tuple(nouns.split(","))
    chosen = tuple(noun for noun in every if noun not in words("people", None) or is_held(noun) == held)
    return chosen if chosen or not held else every
