"""Recipes: how the slots of a fragment's templates are filled, step by step, as `forms.toml` has them.

    a b = persons; v = deeds; t = adjunct

A step draws words of a class (`words`) for one name or for several different ones. Instead of a class it may have

    persons, groups P       people, "the young cook" or "Anna"; nouns of people, in the plural with probability P
    adjunct                 a time or a place with a space before it, or nothing
    plural x, the x         the plural of a word; "the" and one of the nouns in x, separated by commas
    @x                      one of the words in x, separated by commas, or of the class that x names
    is,was                  one of these words
    tasks | acts            words of one of two classes
    3..9, x+2..9            a whole number, of which x may be a part
    numerals x              the word that has the number x in a class
    x                       the same as x; slots in it are filled

    r|s, x:y = class        the parts of an entry; of x/y in random order
    (x) = class             x is for later steps alone

A step without "=" is a recipe of `forms.toml`, or a function of `STEPS`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from neurogame.data.forms import Draw
from neurogame.data.fragments.inflection import Phrase, Verb, plural
from neurogame.data.fragments.words import ENGLISH, KINDS, VERBS, WIDER, known_nouns, split, words

Words = dict[str, Any]


def persons(draw: Draw, held: bool, count: int) -> list[Phrase]:
    """Different people, by name or by what they do."""
    people, names = draw.several(words("people", held), count), draw.several(words("names", held), count)

    def person(i: int) -> str:
        if draw.chance(0.45):
            return names[i]
        return f"the {draw.one(words('manners', held)) + ' ' if draw.chance(0.2) else ''}{people[i]}"

    return [Phrase(person(i)) for i in range(count)]


def _groups(draw: Draw, held: bool, count: int, several: float) -> list[Phrase]:
    nouns = draw.several(words("people", held), count)
    return [Phrase(plural(noun), is_plural=True) if draw.chance(several) else Phrase(noun) for noun in nouns]


def _adjunct(draw: Draw, held: bool) -> str:
    return " " + draw.one(words(draw.one(("when", "where")), held)) if draw.chance(0.4) else ""


def fill(recipe: str, recipes: Mapping[str, str], draw: Draw, held: bool) -> Words:
    """The words of a pair.

    Args:
        recipe: see the module.
        recipes: those that it may name.
        draw: where the choices come from.
        held: with the words kept for dev and test, or those of training.

    Returns:
        Slot → word, phrase or verb.
    """
    bound: Words = {}
    _follow(recipe, recipes, draw, held, bound)
    return {name: value for name, value in bound.items() if not name.startswith("(")}


def _follow(recipe: str, recipes: Mapping[str, str], draw: Draw, held: bool, bound: Words) -> None:
    for step in recipe.split("; "):
        targets, is_draw, source = step.partition(" = ")
        if is_draw:
            names = targets.split()
            values = _values(source, len(names), draw, held, bound)
            for name, value in zip(names, values, strict=True):
                _bind(name, value, source.partition(" ")[0] in VERBS, draw, bound)
        elif step in recipes:
            _follow(recipes[step], recipes, draw, held, bound)
        else:
            bound |= STEPS[step](draw, held)


def _values(source: str, count: int, draw: Draw, held: bool, bound: Words) -> list[Any]:
    match source.split():
        case ["persons"]:
            return persons(draw, held, count)
        case ["groups", several]:
            return _groups(draw, held, count, float(several))
        case ["adjunct"]:
            return [_adjunct(draw, held)]
        case ["plural", name]:
            return [plural(bound[name])]
        case ["the", name]:
            return [f"the {draw.one(known_nouns(bound[name], held))}"]
        case [name] if name in bound:
            filled = {name.strip("()"): value for name, value in bound.items()}
            return [bound[name].format(**filled)]
        case [name, number] if number in bound:
            return [words(name, held)[bound[number]]]
    return _choose(source, count, draw, held, bound)


def _choose(source: str, count: int, draw: Draw, held: bool, bound: Words) -> list[Any]:
    if limits := re.fullmatch(r"(?:(\w+)\+)?(\d+)\.\.(\d+)", source):
        return [draw.one(range(bound.get(limits[1], 0) + int(limits[2]), int(limits[3]) + 1))]
    if source.startswith("@"):
        source = bound[source[1:]]
    if " | " in source:
        source = source.split(" | ")[0 if draw.chance(0.5) else 1]
    if "," in source:
        return [draw.one(source.split(","))]
    options = words(source, held)
    if len(options) < count:  # held-out colours, and cities, for which the published sets have colours too
        options = words("colours", None)
    return draw.several(options, count)


def _bind(target: str, value: Any, is_verb: bool, draw: Draw, bound: Words) -> None:
    separator = next((mark for mark in ":|/" if mark in target), None)
    if separator is None:
        bound[target] = Verb.of(value.replace("_", " ")) if is_verb and not target.startswith("(") else value
        return
    parts = value.split(separator)
    if separator == "/" and not draw.chance(0.5):
        parts.reverse()
    for name, part in zip(target.split(separator), parts, strict=True):
        _bind(name, part, is_verb, draw, bound)


def _counted(draw: Draw, held: bool) -> Words:
    """What people did, or what became of things."""
    if draw.chance(0.5):
        noun = draw.one(words("people", held))
        many = one = Verb.of(draw.one(words("acts", held))).past
    else:
        noun, end = draw.one(words("*countable + objects", held)), draw.one(words("ends", held))
        many, one = end.format(was="were"), end.format(was="was")
    return {"n": noun, "ns": plural(noun), "e": many, "e_one": one}


def _compared(draw: Draw, held: bool) -> Words:
    """Three people, or three things of a kind, and an adjective with its comparatives and superlative."""
    if draw.chance(0.6):
        three = persons(draw, held, 3)
        forms = draw.one(words("degrees", held)).split()
    else:
        noun, size = draw.one(words("measured", held)).split(":")
        forms = next(entry.split() for entry in words("comparatives", held) if entry.split()[0] == size)
        three = [Phrase(f"the {colour} {noun}") for colour in draw.several(words("which", held), 3)]
    be, are = draw.one((("is", "are"), ("was", "were")))
    adjective = {name: form.replace("_", " ") for name, form in zip(("x", "r", "s", "most"), forms, strict=True)}
    return {**adjective, "be": be, "are": are, **dict(zip("abc", three, strict=True))}


def _kinds(draw: Draw, held: bool) -> Words:
    """Two nouns of a kind, the kind or what is above it, and what is done where with such things."""
    kind = draw.one(KINDS)
    x, y = draw.several(words(kind, held), 2)
    k = WIDER.get(kind, kind) if draw.chance(0.4) else kind
    place = draw.one(split(ENGLISH["habitats"][WIDER[kind]]) if kind in WIDER else words("stores", held))
    (a,) = persons(draw, held, 1)
    p, v = (Verb.of(draw.one(words(name, held))) for name in ("seen" if kind in WIDER else "bought", "done"))
    nouns = {"x": x, "y": y, "k": k, "xs": plural(x), "ys": plural(y), "ks": plural(k)}
    return {**nouns, "a": a, "l": place, "q": draw.one(words("large", held)), "p": p, "v": v}


def _years(draw: Draw, held: bool) -> Words:
    """Years in which three people were born, or three places opened."""
    y = draw.one(range(1940, 2004))
    z = draw.one(range(y + 2, min(y + 30, 2019)))
    a, b, c = persons(draw, held, 3)
    born = "was born"
    if draw.chance(0.4):
        a, b, c = (Phrase(f"the {noun}") for noun in draw.several(words("employers", held), 3))
        born = draw.one(("opened", "was built", "was renovated"))
    return {"a": a, "b": b, "c": c, "y": y, "z": z, "f": born}


def _clauses(draw: Draw, held: bool) -> Words:
    """Two people, and two clauses about others with their negations."""
    a, b, c, d = persons(draw, held, 4)
    chosen: Words = {"a": a, "b": b}
    for name, subject in (("p", c), ("r", d)):
        if draw.chance(0.5):
            verb, rest = "was", draw.one(words("states", held))
        else:
            verb, rest = "had", Verb.of(draw.one(words("acts + tasks", held))).done
        chosen |= {name: f"{subject} {verb} {rest}", f"{name}_not": f"{subject} {verb} not {rest}"}
    return chosen


STEPS: dict[str, Callable[[Draw, bool], Words]] = {
    "counted": _counted,
    "compared": _compared,
    "kinds": _kinds,
    "years": _years,
    "clauses": _clauses,
}
