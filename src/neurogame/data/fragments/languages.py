"""The fragments of `forms.toml` as languages, each with a fact Z beside it on which none of its forms bears.

Each form S also stands as a premise "S. Z" and "S. Not Z", and Z and its negation stand alone on both sides. A premise
S that no hypothesis follows from, or none contradicts, has "it is true that S" or "it is not true that S". So every
form can occur with every label.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

from neurogame.data.form_tables import read_section, table
from neurogame.data.forms import Draw, Form, Language, World, relations
from neurogame.data.fragments.recipes import Vocabulary, fill
from neurogame.data.fragments.words import read_tables, words

TABLES = read_tables("forms.toml")
SHARES, RECIPES = TABLES.pop("shares"), TABLES.pop("recipes")
FILLER = (0.05, 0.05)  # weights of the forms that only make the others complete
FACT = (0.01, 0.05)
_ALONE = re.compile(r"it was (the )?\{|the one who|what \{")
_STATES = {
    "past": "{who} was {how} | {who} was not {how}",
    "present": "{who} is {how} | {who} is not {how}",
}


@dataclass(frozen=True)
class Fragment:
    """A language of a phenomenon, and the tense of unrelated sentences before its premises ("": there are none)."""

    name: str
    language: Language
    tense: str


@cache
def parts(phenomenon: str, held: bool = False) -> tuple[Fragment, ...]:
    """The fragments of a phenomenon (a section of `forms.toml`), with the words of training or with those held out."""
    sections = TABLES[phenomenon]
    return tuple(_fragment(name, sections[spec.get("like", name)] | spec, held) for name, spec in sections.items())


def _fragment(name: str, spec: Mapping[str, Any], held: bool) -> Fragment:
    tense = spec.get("tense", "past")
    lines, possible = read_section(spec, SHARES)
    forms, doubled = _add_fact(lines, possible, spec.get("beside") or _STATES.get(tense, ""), spec.get("end", ""))
    states = words("moods + where", held)

    def words_of(draw: Draw) -> Mapping[str, object]:
        vocabulary = Vocabulary(draw, held)
        chosen = fill(spec["words"], RECIPES, vocabulary)
        used = " ".join(str(value) for value in chosen.values())
        (person,) = vocabulary.persons(1)
        while person.split()[-1] in used:
            (person,) = vocabulary.persons(1)
        return {"who": person, "how": draw.one([state for state in states if state not in used]), **chosen}

    return Fragment(name, Language(forms, doubled, words_of, spread=True), tense)


def _add_fact(
    lines: str, possible: tuple[World, ...], beside: str, end: str
) -> tuple[tuple[Form, ...], tuple[World, ...]]:
    """The forms of a table and those with the fact beside them, and the worlds with and without it."""
    forms = table(lines, end)
    named = re.search(r"^& (.*)", lines, re.MULTILINE)
    yes, no = (named[1] if named else beside).split(" | ")
    facts = (Form(yes, "beside", weight=FACT), Form(no, "not beside", weight=FACT))
    if named:
        forms = tuple(_make_exhaustive(form) if _ALONE.match(form.template) else form for form in forms)
    joined = tuple(
        _join(form, fact)
        for form, fact in product(forms, facts)
        if "p" in form.sides and ". " not in form.template and not (named and _ALONE.match(form.template))
    )
    doubled = tuple({**world, "beside": truth} for world in possible for truth in (0, 1))
    return (*forms, *facts, *joined, *_restate(forms + facts, doubled)), doubled


def _make_exhaustive(form: Form) -> Form:
    """A cleft may say that nobody else did it; then it is about another person's doing it too."""
    readings = tuple(f"({reading}) and not beside" for reading in (form.holds, *form.as_premise))
    return replace(form, as_premise=form.as_premise + readings)


def _join(form: Form, fact: Form) -> Form:
    """A premise of two sentences."""
    holds, *readings = (f"({reading}) and {fact.holds}" for reading in (form.holds, *form.as_premise))
    text = f"{form.template}. {fact.template}"
    return Form(text, holds, as_premise=tuple(readings), tied=form.tied, sides="p", held=form.held, weight=FILLER)


def _restate(forms: tuple[Form, ...], possible: tuple[World, ...]) -> tuple[Form, ...]:
    """Hypotheses for the premises that have no entailed or no contradicted one among the forms of training."""
    labels = relations(Language(forms, possible, lambda _: {}), lambda p, h: p.held >= h.held)
    templates = {form.template for form in forms}
    restated = []
    for index, form in enumerate(forms):
        seen = {label for (premise, _), label in labels.items() if premise == index}
        if "p" not in form.sides or re.search(r",|\. |^it is|^if|^unless", form.template):
            continue
        filler = replace(form, as_premise=(), sides="h", weight=FILLER)
        same = replace(filler, template=f"it is true that {form.template}")
        opposite = replace(
            filler,
            template=f"it is not true that {form.template}",
            holds=f"not ({form.holds})",
            as_hypothesis=tuple(f"not ({reading})" for reading in form.as_hypothesis),
        )
        for label, new in (("entailment", same), ("contradiction", opposite)):
            if label not in seen and new.template not in templates:
                restated.append(new)
    return tuple(restated)
