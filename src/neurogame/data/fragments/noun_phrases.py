"""Noun phrases and adjuncts drawn from a lexicon: "the young cook", "Anna", "the sailors", " in the park"."""

from neurogame.data.forms import Draw
from neurogame.data.fragments.inflection import Phrase, plural
from neurogame.data.fragments.lexicon import GOODS, Lexicon


def persons(draw: Draw, words: Lexicon, count: int) -> list[Phrase]:
    """Different people, by name or by what they do."""
    people, names = draw.several(words.people, count), draw.several(words.names, count)
    return [
        Phrase(names[i] if draw.chance(0.45) else f"the {_manner(draw, words)}{people[i]}", is_plural=False)
        for i in range(count)
    ]


def groups(draw: Draw, words: Lexicon, count: int, several: float = 0.3) -> list[Phrase]:
    """Nouns of different people without article, each in the plural with probability `several`."""
    nouns = draw.several(words.people, count)
    return [Phrase(plural(noun), is_plural=True) if draw.chance(several) else Phrase(noun) for noun in nouns]


def _manner(draw: Draw, words: Lexicon) -> str:
    return draw.one(words.manners) + " " if draw.chance(0.2) else ""


def adjunct(draw: Draw, words: Lexicon) -> str:
    """A time or a place with a space before it, or nothing."""
    return " " + draw.one(draw.one((words.when, words.where))) if draw.chance(0.4) else ""


def thing(draw: Draw, words: Lexicon, *others: str) -> str:
    """The noun of a thing that can be bought, given or carried."""
    return draw.one((*words.objects, *(noun for kind in GOODS[-2:] for noun in words.kinds[kind])), *others)
