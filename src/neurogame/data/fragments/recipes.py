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


class Vocabulary:
    """Random choices among the words of training, or among those held out for dev and test."""

    def __init__(self, draw: Draw, held: bool) -> None:
        self.draw, self.held = draw, held

    def one(self, classes: str) -> str:
        """A word of these classes; see `words`."""
        return self.draw.one(words(classes, self.held))

    def several(self, classes: str, count: int) -> list[str]:
        """`count` different words of these classes."""
        return self.draw.several(words(classes, self.held), count)

    def verb(self, classes: str) -> Verb:
        """A verb of these classes with its forms."""
        return Verb.of(self.one(classes))

    def persons(self, count: int) -> list[Phrase]:
        """Different people, by name or by what they do."""
        people, names = self.several("people", count), self.several("names", count)

        def person(i: int) -> str:
            if self.draw.chance(0.45):
                return names[i]
            return f"the {self.one('manners') + ' ' if self.draw.chance(0.2) else ''}{people[i]}"

        return [Phrase(person(i)) for i in range(count)]


def fill(recipe: str, recipes: Mapping[str, str], vocabulary: Vocabulary) -> Words:
    """Slot → word, phrase or verb, by a recipe (see the module), which may name some of `recipes`."""
    filling = _Filling(recipes, vocabulary)
    filling.follow(recipe)
    return {name: value for name, value in filling.slots.items() if not name.startswith("(")}


class _Filling:
    """The slots that a recipe has filled so far."""

    def __init__(self, recipes: Mapping[str, str], vocabulary: Vocabulary) -> None:
        self.recipes, self.vocabulary, self.draw = recipes, vocabulary, vocabulary.draw
        self.slots: Words = {}

    def follow(self, recipe: str) -> None:
        """Take the steps of a recipe."""
        for step in recipe.split("; "):
            targets, is_draw, source = step.partition(" = ")
            if is_draw:
                names = targets.split()
                for name, value in zip(names, self._values(source, len(names)), strict=True):
                    self._bind(name, value, source.partition(" ")[0] in VERBS)
            elif step in self.recipes:
                self.follow(self.recipes[step])
            else:
                self.slots |= STEPS[step](self.vocabulary)

    def _values(self, source: str, count: int) -> list[Any]:
        slots, held = self.slots, self.vocabulary.held
        match source.split():
            case ["persons"]:
                return self.vocabulary.persons(count)
            case ["groups", share]:
                nouns = self.vocabulary.several("people", count)
                return [
                    Phrase(plural(x), is_plural=True) if self.draw.chance(float(share)) else Phrase(x) for x in nouns
                ]
            case ["adjunct"]:
                return [" " + self.vocabulary.one(self.draw.one(("when", "where"))) if self.draw.chance(0.4) else ""]
            case ["plural", name]:
                return [plural(slots[name])]
            case ["the", name]:
                return [f"the {self.draw.one(known_nouns(slots[name], held))}"]
            case [name] if name in slots:
                return [slots[name].format(**{name.strip("()"): value for name, value in slots.items()})]
            case [name, number] if number in slots:
                return [words(name, held)[slots[number]]]
        return self._choose(source, count)

    def _choose(self, source: str, count: int) -> list[Any]:
        if limits := re.fullmatch(r"(?:(\w+)\+)?(\d+)\.\.(\d+)", source):
            return [self.draw.one(range(self.slots.get(limits[1], 0) + int(limits[2]), int(limits[3]) + 1))]
        if source.startswith("@"):
            source = self.slots[source[1:]]
        if " | " in source:
            source = source.split(" | ")[0 if self.draw.chance(0.5) else 1]
        if "," in source:
            return [self.draw.one(source.split(","))]
        options = words(source, self.vocabulary.held)
        if len(options) < count:  # held-out colours, and cities, for which the published sets have colours too
            options = words("colours", None)
        return self.draw.several(options, count)

    def _bind(self, target: str, value: Any, is_verb: bool) -> None:
        separator = next((mark for mark in ":|/" if mark in target), None)
        if separator is None:
            self.slots[target] = Verb.of(value.replace("_", " ")) if is_verb and not target.startswith("(") else value
            return
        parts = value.split(separator)
        if separator == "/" and not self.draw.chance(0.5):
            parts.reverse()
        for name, part in zip(target.split(separator), parts, strict=True):
            self._bind(name, part, is_verb)


def _deeds(vocabulary: Vocabulary) -> Words:
    """What people did, or what became of things."""
    if vocabulary.draw.chance(0.5):
        noun = vocabulary.one("people")
        many = one = vocabulary.verb("acts").past
    else:
        noun, end = vocabulary.one("*countable + objects"), vocabulary.one("ends")
        many, one = end.format(was="were"), end.format(was="was")
    return {"n": noun, "ns": plural(noun), "e": many, "e_one": one}


def _comparison(vocabulary: Vocabulary) -> Words:
    """Three people, or three things of a kind, and an adjective with its comparatives and superlative."""
    if vocabulary.draw.chance(0.6):
        three = vocabulary.persons(3)
        forms = vocabulary.one("degrees").split()
    else:
        noun, size = vocabulary.one("measured").split(":")
        entries = map(str.split, words("comparatives", vocabulary.held))
        forms = next(entry for entry in entries if entry[0] == size)
        three = [Phrase(f"the {colour} {noun}") for colour in vocabulary.several("which", 3)]
    be, are = vocabulary.draw.one((("is", "are"), ("was", "were")))
    adjective = {name: form.replace("_", " ") for name, form in zip(("x", "r", "s", "most"), forms, strict=True)}
    return {**adjective, "be": be, "are": are, **dict(zip("abc", three, strict=True))}


def _kinds(vocabulary: Vocabulary) -> Words:
    """Two nouns of a kind, the kind or what is above it, and what is done where with such things."""
    draw = vocabulary.draw
    kind = draw.one(KINDS)
    x, y = vocabulary.several(kind, 2)
    k = WIDER.get(kind, kind) if draw.chance(0.4) else kind
    place = draw.one(split(ENGLISH["habitats"][WIDER[kind]])) if kind in WIDER else vocabulary.one("stores")
    (a,) = vocabulary.persons(1)
    p, v = vocabulary.verb("seen" if kind in WIDER else "bought"), vocabulary.verb("done")
    nouns = {"x": x, "y": y, "k": k, "xs": plural(x), "ys": plural(y), "ks": plural(k)}
    return {**nouns, "a": a, "l": place, "q": vocabulary.one("large"), "p": p, "v": v}


def _years(vocabulary: Vocabulary) -> Words:
    """Years in which three people were born, or three places opened."""
    draw = vocabulary.draw
    y = draw.one(range(1940, 2004))
    z = draw.one(range(y + 2, min(y + 30, 2019)))
    a, b, c = vocabulary.persons(3)
    born = "was born"
    if draw.chance(0.4):
        a, b, c = (Phrase(f"the {noun}") for noun in vocabulary.several("employers", 3))
        born = draw.one(("opened", "was built", "was renovated"))
    return {"a": a, "b": b, "c": c, "y": y, "z": z, "f": born}


def _clauses(vocabulary: Vocabulary) -> Words:
    """Two people, and two clauses about others with their negations."""
    a, b, c, d = vocabulary.persons(4)
    chosen: Words = {"a": a, "b": b}
    for name, subject in (("p", c), ("r", d)):
        if vocabulary.draw.chance(0.5):
            verb, rest = "was", vocabulary.one("states")
        else:
            verb, rest = "had", vocabulary.verb("acts + tasks").done
        chosen |= {name: f"{subject} {verb} {rest}", f"{name}_not": f"{subject} {verb} not {rest}"}
    return chosen


STEPS: dict[str, Callable[[Vocabulary], Words]] = {
    "counted": _deeds,
    "compared": _comparison,
    "kinds": _kinds,
    "years": _years,
    "clauses": _clauses,
}
