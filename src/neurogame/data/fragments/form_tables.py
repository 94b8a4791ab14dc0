"""Tables of forms: one line per form, "template | condition", where the condition is a formula over named atoms.

    *it was {b} who {a} {v.past} | ab
    {a} or {b} {u.past} | a or b | a != b

Marks before a template: "*" held out of training, ">" premise only, "<" hypothesis only, "~" rarely a premise. A
second "|" adds a reading; "|p" adds one for the premise alone, "|h" one for the hypothesis alone. "||" adds a reading
that a reader has of all such forms at once, as of both "may" and "might". A pair whose label depends on the reading is
left out of the data. A line "& Z | not Z" names the fact beside the forms; see `fragment`.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, Literal

from neurogame.data.forms import Condition, Draw, Form, Language, relations
from neurogame.data.fragments.lexicon import MOODS, Lexicon
from neurogame.data.fragments.noun_phrases import persons

World = Mapping[str, int]
BESIDE = ("beside", 0)  # the atom of a fact that has nothing to do with the forms
FILLER = (0.05, 0.05)  # weights of the forms that only make the others complete
FACT = (0.01, 0.05)
RARE = 0.15  # weight as a premise of forms that are rarely one
_ALONE = re.compile(r"it was (the )?\{|the one who|what \{")
_STATES = {
    "past": "{who} was {how} | {who} was not {how}",
    "present": "{who} is {how} | {who} is not {how}",
}
_COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


@dataclass(frozen=True)
class Fragment:
    """A language of a phenomenon, and the tense of unrelated sentences before its premises ("": there are none)."""

    name: str
    language: Language
    tense: Literal["past", "present", ""] = "past"


def condition(formula: str) -> Condition:
    """A formula of and, or, not, comparisons, atoms and whole numbers, as a function of a world.

    Args:
        formula: such as "ab and not ba" or "a < b <= 3".

    Returns:
        World (atom → truth value or number) → whether the formula is true in it.
    """
    tree = ast.parse(formula.strip(), mode="eval").body
    return lambda world: bool(_value(tree, world))


def _value(node: ast.expr, world: World) -> int:
    match node:
        case ast.Name(name):
            return world[name]
        case ast.Constant(int(number)):
            return number
        case ast.UnaryOp(ast.Not(), operand):
            return not _value(operand, world)
        case ast.BoolOp(ast.And(), values):
            return all(_value(value, world) for value in values)
        case ast.BoolOp(ast.Or(), values):
            return any(_value(value, world) for value in values)
        case ast.Compare(left, operators, comparators):
            numbers = [_value(part, world) for part in (left, *comparators)]
            return all(_COMPARE[type(op)](*ends) for op, ends in zip(operators, pairwise(numbers), strict=True))
    raise ValueError(f"{ast.unparse(node)!r} is no formula; allowed: and, or, not, comparisons, atoms, whole numbers")


def worlds(atoms: str, axiom: str = "True", values: int = 2) -> tuple[World, ...]:
    """All assignments of 0 … values − 1 to the atoms (separated by spaces) under which the axiom is true."""
    names = atoms.split()
    holds = condition(axiom)
    every = (dict(zip(names, chosen, strict=True)) for chosen in product(range(values), repeat=len(names)))
    return tuple(world for world in every if holds(world))


def table(text: str, end: str = "") -> tuple[Form, ...]:
    """The forms of a table (see the module), with `end` after each template that does not have it elsewhere."""
    return tuple(_form(line, end) for line in text.strip().splitlines() if not line.startswith("&"))


def _form(line: str, end: str) -> Form:
    template, _, first, *others = re.split(r"\s\|([|ph]?)\s", line)
    readings = list(zip(others[::2], others[1::2], strict=True))
    marks = re.match(r"[*<>~]*", template)
    assert marks is not None
    return Form(
        template=template[marks.end() :] + end * (end not in template),
        holds=condition(first),
        as_premise=tuple(condition(reading) for mark, reading in readings if mark != "h"),
        as_hypothesis=tuple(condition(reading) for mark, reading in readings if mark != "p"),
        tied=any(mark == "|" for mark, _ in readings),
        sides="p" if ">" in marks[0] else "h" if "<" in marks[0] else "ph",
        held="*" in marks[0],
        weight=(RARE if "~" in marks[0] else 1.0, 1.0),
    )


def fragment(
    name: str,
    forms: str | tuple[Form, ...],
    possible: tuple[Mapping[Any, int], ...],
    words: Callable[[Draw], Mapping[str, object]],
    lexicon: Lexicon,
    tense: Literal["past", "present", ""] = "past",
    beside: str = "",
    end: str = "",
) -> Fragment:
    """A fragment, with a fact Z beside it on which none of its forms bears.

    Each form S also stands as a premise "S. Z" and "S. Not Z", and Z and its negation stand alone on both sides. A
    premise S that no hypothesis follows from, or none contradicts, has "it is true that S" or "it is not true that S".
    So every form can occur with every label.

    Args:
        name: of the fragment.
        forms: a table (see the module), or forms.
        possible: the worlds.
        words: draws the words of a pair.
        lexicon: where the words of Z come from: slots {who}, a person not among the words, and {how}, a state.
        tense: of Z and of unrelated sentences before premises; "": of none.
        beside: "Z | not Z", if it is neither in the table nor about the state of a person.
        end: see `table`.

    Returns:
        The fragment.
    """
    made = table(forms, end) if isinstance(forms, str) else forms
    named = re.search(r"^& (.*)", forms, re.MULTILINE) if isinstance(forms, str) else None
    yes, no = (named[1] if named else beside or _STATES[tense]).split(" | ")
    facts = (Form(yes, _fact(1), weight=FACT), Form(no, _fact(0), weight=FACT))
    if named:
        made = tuple(_exhaustive(form) if _ALONE.match(form.template) else form for form in made)
    joined = tuple(
        _joined(form, fact)
        for form, fact in product(made, facts)
        if "p" in form.sides and ". " not in form.template and not (named and _ALONE.match(form.template))
    )
    doubled = tuple({**world, BESIDE: truth} for world in possible for truth in (0, 1))
    restated = _restated(made + facts, doubled)
    states = (*lexicon.of(MOODS.split(";")), *lexicon.where)

    def with_fact(draw: Draw) -> Mapping[str, object]:
        chosen = words(draw)
        taken = " ".join(str(value) for value in chosen.values())
        person = persons(draw, lexicon, 1)[0]
        while person.split()[-1] in taken:
            person = persons(draw, lexicon, 1)[0]
        return {"who": person, "how": draw.one([state for state in states if state not in taken]), **chosen}

    return Fragment(name, Language(made + facts + joined + restated, doubled, with_fact, spread=True), tense)


def _fact(truth: int) -> Condition:
    return lambda world: bool(world[BESIDE] == truth)


def _exhaustive(form: Form) -> Form:
    """A cleft may say that nobody else did it; then it is about another person's doing it too."""

    def alone(holds: Condition) -> Condition:
        return lambda world: holds(world) and not world[BESIDE]

    readings = tuple(map(alone, (form.holds, *form.as_premise)))
    return replace(form, as_premise=form.as_premise + readings)


def _joined(form: Form, fact: Form) -> Form:
    """A premise of two sentences."""

    def both(first: Condition) -> Condition:
        return lambda world: first(world) and fact.holds(world)

    readings = tuple(map(both, form.as_premise))
    text = f"{form.template}. {fact.template}"
    return Form(text, both(form.holds), as_premise=readings, tied=form.tied, sides="p", held=form.held, weight=FILLER)


def _restated(forms: tuple[Form, ...], possible: tuple[Any, ...]) -> tuple[Form, ...]:
    """Hypotheses for the premises that have no entailed or no contradicted one among the forms of training."""

    def negated(holds: Condition) -> Condition:
        return lambda world: not holds(world)

    labels = relations(Language(forms, possible, lambda _: {}), lambda p, h: p.held >= h.held)
    known = {form.template for form in forms}
    restated = []
    for index, form in enumerate(forms):
        seen = {label for (premise, _), label in labels.items() if premise == index}
        if "p" not in form.sides or re.search(r",|\. |^it is|^if|^unless", form.template):
            continue
        same = Form(f"it is true that {form.template}", form.holds, as_hypothesis=form.as_hypothesis)
        others = tuple(map(negated, form.as_hypothesis))
        opposite = Form(f"it is not true that {form.template}", negated(form.holds), as_hypothesis=others)
        for label, new in (("entailment", same), ("contradiction", opposite)):
            if label not in seen and new.template not in known:
                restated.append(replace(new, tied=form.tied, sides="h", held=form.held, weight=FILLER))
    return tuple(restated)
