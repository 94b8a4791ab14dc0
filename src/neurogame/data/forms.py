"""Sentence forms with truth conditions, and pairs of them weighted such that neither sentence alone tells the label.

A form is a template and a formula, which is true in some worlds. With P and H the worlds of premise and hypothesis,

    entailment  P ⊆ H        contradiction  P ∩ H = ∅        neutral  otherwise.

No shortcuts: pairs of forms are weighted such that each form occurs equally often with each label on either side
(`balance`), and the words are drawn independently of the label.

`grammar` (the toy language) and `fragments` are made of such forms, which `form_tables` reads; nothing here knows a
word of English but "a".
"""

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from random import Random
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from neurogame.data.pairs import DataError, Pair, check_seed
from neurogame.labels import LABELS

EXCHANGED = 0.15  # weight of a pair of forms that only the order of words decides, relative to the others
World = Mapping[str, int]  # atom → truth value or number
Option = TypeVar("Option")
_LOGIC = (ast.Expression, ast.BoolOp, ast.boolop, ast.Compare, ast.cmpop, ast.Not, ast.Name, ast.Load)


@dataclass(frozen=True)
class Form:
    """A template, and a formula that says in which worlds it is true; see `condition`.

    Attributes:
        template: the sentence with slots, without capital and full stop.
        holds: the formula.
        roles: 0: as in most forms; 1: exchanged.
        as_premise: other readings that careful people may have of it as a premise.
        as_hypothesis: other readings that careful people may have of it as a hypothesis.
        tied: a reader takes all tied forms of a pair in the same way, as both "may" and "might".
        sides: where it may stand: "p" premise, "h" hypothesis.
        held: not used in training pairs.
        weight: how often it is used as a premise and as a hypothesis, relative to others, as far as balance allows.
    """

    template: str
    holds: str
    roles: int = 0
    as_premise: tuple[str, ...] = ()
    as_hypothesis: tuple[str, ...] = ()
    tied: bool = False
    sides: Literal["ph", "p", "h"] = "ph"
    held: bool = False
    weight: tuple[float, float] = (1.0, 1.0)


@cache
def condition(formula: str) -> Callable[[World], bool]:
    """World → whether a formula is true in it.

    A formula has and, or, not, comparisons, atoms and whole numbers, as in "ab and not ba" or "a < b <= 3"; anything
    else is a ValueError.
    """
    tree = ast.parse(formula.strip(), mode="eval")
    for node in ast.walk(tree):
        number = isinstance(node, ast.Constant) and isinstance(node.value, int)
        negation = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        if not (number or negation or isinstance(node, _LOGIC)):
            raise ValueError(f"{formula!r} is no formula; allowed: and, or, not, comparisons, atoms, whole numbers")
    code = compile(tree, formula, "eval")
    return lambda world: bool(eval(code, {"__builtins__": {}}, world))  # noqa: S307 — logic alone, see above


def worlds(atoms: str, axiom: str = "True", values: int = 2) -> tuple[World, ...]:
    """All assignments of 0 … values − 1 to the atoms (separated by spaces) under which the axiom is true."""
    names = atoms.split()
    every = (dict(zip(names, chosen, strict=True)) for chosen in product(range(values), repeat=len(names)))
    return tuple(filter(condition(axiom), every))


@dataclass(frozen=True)
class Language:
    """The forms of a phenomenon, the worlds they are true or false in, and the words that fill them."""

    forms: tuple[Form, ...]
    worlds: tuple[World, ...]
    words: Callable[["Draw"], Mapping[str, object]]
    level: bool = True  # also balance how many words the sentences share
    spread: bool = False  # also bring every form near its weight


class Draw:
    """Choices from a seed, by `Random.random` alone: its sequence does not change between versions of Python."""

    def __init__(self, seed: int) -> None:
        self._uniform = Random(seed).random  # noqa: S311 — not cryptography

    def one(self, options: Iterable[Option], *others: Option) -> Option:
        """One of the options that is none of `others`."""
        allowed = [option for option in options if option not in others]
        return allowed[int(self._uniform() * len(allowed))]

    def several(self, options: Iterable[Option], count: int) -> list[Option]:
        """`count` different options in random order."""
        left = list(options)
        return [left.pop(int(self._uniform() * len(left))) for _ in range(count)]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._uniform() < probability

    def place(self, cumulative: np.ndarray[Any, Any]) -> int:
        """An index with the probability that its step of a cumulative sum has."""
        return int(np.searchsorted(cumulative, self._uniform() * cumulative[-1], side="right"))


@dataclass(frozen=True)
class Balance:
    """Pairs of forms with their labels, and weights under which neither side alone predicts the label."""

    cells: tuple[tuple[str, str], ...]
    labels: tuple[str, ...]
    weights: tuple[float, ...]

    @cached_property
    def by_label(self) -> Mapping[str, tuple[tuple[tuple[str, str], ...], NDArray[np.float64]]]:
        """Label → the pairs that have it, and their cumulative weights."""
        rows = list(zip(self.labels, self.cells, self.weights, strict=True))
        by_label = {}
        for name in set(self.labels):
            _, cells, weights = zip(*(row for row in rows if row[0] == name), strict=True)
            by_label[name] = cells, np.cumsum(weights)
        return by_label

    def draw(self, label: str, draw: Draw) -> tuple[str, str]:
        """A pair of forms with this label, by weight."""
        cells, cumulative = self.by_label[label]
        return cells[draw.place(cumulative)]


def balance(
    language: Language,
    rounds: int = 300,
    keep: Callable[[Form, Form], bool] | None = None,
    complete: bool = True,
) -> Balance:
    """Weights of pairs of forms by iterative scaling, which sum to 1.

    In turn for premises, hypotheses and classes of word overlap, the masses of the labels are set to
    their geometric mean. The overlap takes part in the first half of the rounds only: where it cannot
    be balanced together with the sides, the sides go first and come out exact.

    Args:
        language: forms and worlds. A pair whose label depends on the reading of a form is left out.
        rounds: steps of the scaling.
        keep: which pairs of forms are used; None: all.
        complete: leave a form out on the side on which it does not occur with all three labels.
    """
    cells = relations(language, keep)
    if complete:
        cells = _complete(cells)
    if not cells:
        return Balance((), (), ())
    forms = [(language.forms[p], language.forms[h]) for p, h in cells]
    number = np.array([LABELS.index(label) for label in cells.values()])
    weights = np.array([(EXCHANGED if p.roles != h.roles else 1.0) * p.weight[0] * h.weight[1] for p, h in forms])
    overlaps = [_overlap(p.template, h.template) for p, h in forms]
    groups = [np.unique(key, return_inverse=True, axis=0)[1].ravel() for key in (*zip(*cells, strict=True), overlaps)]
    goals = [np.array([form.weight[side] for form in column]) for side, column in enumerate(zip(*forms, strict=True))]
    for step in range(rounds):
        for group in groups if language.level and step < rounds // 2 else groups[:2]:
            mass = np.bincount(3 * group + number, weights, minlength=3 * (group.max() + 1)).reshape(-1, 3)
            log = np.log(np.where(mass > 0, mass, 1))
            mean = log.sum(axis=1) / np.maximum((mass > 0).sum(axis=1), 1)
            weights = weights * np.exp(mean[group] - log[group, number])
        if language.spread and step < rounds // 2:
            for group, goal in zip(groups[:2], goals, strict=True):
                weights = weights * goal / np.bincount(group, weights)[group]
        weights = weights / weights.sum()
    templates = tuple((p.template, h.template) for p, h in forms)
    return Balance(templates, tuple(cells.values()), tuple(weights.tolist()))


def relation(P: int, H: int) -> str:
    """The label of a pair whose sentences are true in the worlds P and H, given as sets of bits."""
    return "entailment" if not P & ~H else "neutral" if P & H else "contradiction"


def relations(language: Language, keep: Callable[[Form, Form], bool] | None = None) -> dict[tuple[int, int], str]:
    """Pairs of different forms, by index, → label, where every reading of both gives the same."""

    @cache
    def true_in(formula: str) -> int:
        return sum(1 << i for i, world in enumerate(language.worlds) if condition(formula)(world))

    premises = [[*map(true_in, (form.holds, *form.as_premise))] for form in language.forms]
    hypotheses = [[*map(true_in, (form.holds, *form.as_hypothesis))] for form in language.forms]
    cells = {}
    for p, h in product(range(len(language.forms)), repeat=2):
        first, second = language.forms[p], language.forms[h]
        if p == h or "p" not in first.sides or "h" not in second.sides or (keep and not keep(first, second)):
            continue
        together = first.tied and second.tied
        labels = {relation(P, H) for P, H in _readings(premises[p], hypotheses[h], together)}
        if len(labels) == 1:
            cells[p, h] = labels.pop()
    return cells


def _readings(premises: list[int], hypotheses: list[int], together: bool) -> Iterable[tuple[int, int]]:
    """Combinations of readings: each with each, or if tied first with first, second with second, …"""
    if not together:
        return product(premises, hypotheses)
    common = min(len(premises), len(hypotheses))
    rest = product(premises, hypotheses[common:])
    return (*zip(premises, hypotheses, strict=False), *rest, *product(premises[common:], hypotheses))


def _complete(cells: dict[tuple[int, int], str]) -> dict[tuple[int, int], str]:
    """Drop, until none is left, the forms that do not occur with every label on their side."""
    while True:
        seen = {(side, cell[side], label) for cell, label in cells.items() for side in (0, 1)}
        lacking = {(side, form) for side, form, _ in seen if not all((side, form, label) in seen for label in LABELS)}
        if not lacking:
            return cells
        cells = {cell: label for cell, label in cells.items() if not lacking & {(0, cell[0]), (1, cell[1])}}


def _overlap(premise: str, hypothesis: str) -> tuple[int, int]:
    """How many words of the hypothesis are new, and how many of the premise are gone."""
    first, second = set(premise.split()), set(hypothesis.split())
    return len(second - first), len(first - second)


def sentence(template: str, words: Mapping[str, object]) -> str:
    """A template with its words, "a" before a vowel as "an", capitals and a full stop."""
    text = re.sub(r"\ba (?=(?!uni|use|eu|one\b)[aeiou])", "an ", template.format(**words))
    return ". ".join(part[0].upper() + part[1:] for part in text.split(". ")) + "."


def draw_pairs(
    count: int,
    seed: int,
    groups: Sequence[tuple[str, ...]],
    make: Callable[..., Pair],
    too_many: str,
    fits: Callable[[Pair], bool] = lambda _: True,
) -> tuple[Pair, ...]:
    """`count` different pairs, in turn of each group, in the order in which they are drawn.

    Args:
        count: number of pairs.
        seed: the same seed gives the same pairs.
        groups: the arguments of `make` after its `Draw`.
        make: draws a pair of a group.
        too_many: the error if a thousand attempts give no new pair, with slots {count} and {name}, the end of a group.
        fits: what else is asked of a pair.

    Raises:
        DataError: the count is not positive, or there are too few pairs.
    """
    if count < 1:
        raise DataError(f"count {count} is not positive; allowed: a number of pairs to generate")
    check_seed(seed)
    draw = Draw(seed)
    pairs: dict[tuple[str, str], Pair] = {}
    for index in range(count):
        group = groups[index % len(groups)]
        attempts = (make(draw, *group) for _ in range(1000))
        pair = next((pair for pair in attempts if (pair.premise, pair.hypothesis) not in pairs and fits(pair)), None)
        if pair is None:
            raise DataError(too_many.format(count=count, name=group[-1]))
        pairs[pair.premise, pair.hypothesis] = pair
    return tuple(pairs.values())
