"""The fragments against labels written by hand from what the sentences mean, and against shortcuts.

The table GOLD uses nothing of the generator's truth conditions: its labels are a reader's.
"""

import math
import re
from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise

import pytest

from neurogame.data import DataError, fragments, load
from neurogame.data.forms import relations
from neurogame.data.fragments.form_tables import condition, table, worlds
from neurogame.data.fragments.inflection import Phrase, Verb, plural
from neurogame.data.fragments.lexicon import KINDS, lexicon

LABELS = ("entailment", "neutral", "contradiction")
PHENOMENA = tuple(fragments.PHENOMENA)

# --- labels -------------------------------------------------------------------------------------------------------

# E, N, C: the label; "-": careful readers disagree, so the pair must not occur.
GOLD = {
    "roles": """
E | {a} {v.past} {b}{t} | {b} was {v.done} by {a}{t}
N | {a} {v.past} {b}{t} | {b} {v.past} {a}{t}
N | {a} {v.past} {b}{t} | {a} was {v.done} by {b}{t}
C | {a} {v.past} {b}{t} | {b} was not {v.done} by {a}{t}
E | it was {b} who {a} {v.past}{t} | {a} {v.past} {b}{t}
N | it was {b} who {a} {v.past}{t} | {b} {v.past} {a}{t}
E | the one who {v.past} {b}{t} was {a} | {b} was {v.done}{t}
C | nobody {v.past} {b}{t} | {a} {v.past} {b}{t}
N | nobody {v.past} {b}{t} | {b} did not {v.base} {a}{t}
N | {b} was {v.done}{t} | {a} {v.past} {b}{t}
E | {a} and {b} {v.past} {c} | {b} {v.past} {c}
N | {a} and {b} {v.past} {c} | {a} {v.past} {b}
C | {a} {v.past} {b} but not {c} | {c} was {v.done} by {a}
N | {a} {v.past} {b}, and {b} {v.past} {c} | {a} {v.past} {c}
E | {a} {g.past} {b} the {o} | the {o} was {g.done} to {b} by {a}
N | {a} {g.past} {b} the {o} | {b} {g.past} {a} the {o}
C | {a} {g.past} {b} nothing | {a} {g.past} the {o} to {b}
E | {a} {g.past} the {o} to {b} | {b} {r.past} the {o} from {a}
N | {b} {r.past} the {o} from {a} | {a} {r.past} the {o} from {b}
E | {a} was {r} {b}{w} | {b} was {s} {a}{w}
C | {a} was {r} {b}{w} | {b} was {r} {a}{w}
E | {a} was {r} {b}, and {b} was {r} {c}{w} | {a} was {r} {c}{w}
N | {a} was {r} {b}{w} | {b} was {r} {c}{w}
- | {a} was not {r} {b}{w} | {b} was {r} {a}{w}
""",
    "relative": """
E | the {n} who the {m} {v.past} {u.past} | the {m} {v.past} the {n}
E | the {n} who the {m} {v.past} {u.past} | the {n} {u.past}
N | the {n} who the {m} {v.past} {u.past} | the {m} {u.past}
N | the {n} who the {m} {v.past} {u.past} | the {n} {v.past} the {m}
C | the {n} who the {m} {v.past} {u.past} | the {n} did not {u.base}
C | the {n} who the {m} {v.past} {u.past} | the {n} {n.was} not {v.done} by the {m}
E | the {n} who {v.past} the {m} {u.past} | the {n} {v.past} the {m}
N | the {n} who {v.past} the {m} {u.past} | the {m} did not {u.base}
N | the {n} whom the {m} {v.past} {u.past} | the {m} {m.was} {v.done} by the {n}
E | the {m} {v.past} the {n} who {u.past} | the {n} {u.past}
N | the {m} {v.past} the {n} who {u.past} | the {m} {u.past}
C | the {m}, who {v.past} the {n}, did not {u.base} | the {m} {u.past}
E | the {n} who {v.past} the {m} {w.past} the {k} | the {k} {k.was} {w.done} by the {n}
N | the {n} who {v.past} the {m} {w.past} the {k} | the {m} {w.past} the {k}
E | the {n} {v.past} the {m} who {w.past} the {k} | the {m} {w.past} the {k}
N | the {n} {v.past} the {m} who {w.past} the {k} | the {n} {w.past} the {k}
E | the {o} that {a} {g.past} was {q} | {a} {g.past} the {o}
N | the {o} that {a} {g.past} was {q} | the {o} was {g.done} by {b}
C | the {o} that {a} {g.past} was {q} | the {o} was not {q}
""",
    "attachment": """
E | the {n} {r} the {m} {u.past} | the {n} {u.past}
N | the {n} {r} the {m} {u.past} | the {m} {u.past}
E | the {n} {r} the {m} {u.past} | the {m} {m.was} {s} the {n}
C | the {n} {r} the {m} {u.past} | the {n} did not {u.base}
N | the {n} {r} the {m} did not {u.base} | the {m} did not {u.base}
C | the {m} standing {s} the {n} did not {u.base} | the {m} {u.past}
E | the {m} {v.past} the {n} {r} the {k} | the {n} {n.was} {v.done} by the {m}
N | the {m} {v.past} the {n} {r} the {k} | the {m} {v.past} the {k}
N | the {m} {r} the {k} {v.past} the {n} | the {k} {v.past} the {n}
C | the {m} did not {v.base} the {n} {r} the {k} | the {m} {v.past} the {n}
N | {a}'s {k} {u.past} | {a} {u.past}
E | {a}'s {k} {u.past} | the {k} of {a} {u.past}
C | {a}'s {k} {u.past}, but {a} did not | {a} {u.past}
- | both {a} and {a}'s {k} {u.past} | it was {a}'s {k} who {u.past}
E | the {n} with the {o} {u.past} | the {n} had the {o}
- | the {n} with the {o} {u.past} | the {m} had the {o}
N | the {n} with the {o} {u.past} | the {m} {u.past}
E | {a} {u.past} in the {l} | {a} was in the {l}
N | {a} {u.past} in the {l} | {b} was in the {l}
C | {a} {u.past} in the {l} | {a} was not in the {l}
""",
    "conjunction": """
E | {a} and {b} {u.past} | {b} {u.past}
N | {a} or {b} {u.past} | {a} {u.past}
C | neither {a} nor {b} {u.past} | {a} {u.past}
E | {a} or {b} {u.past}, but it was not {a} | {b} {u.past}
C | {a} or {b} {u.past}, but it was not {a} | {a} {u.past}
- | {a} and {b} {u.past} | {a} or {b} {u.past}
- | {a} or {b} {u.past} | both {a} and {b} {u.past}
E | {a} or {b} {u.past} | either {a} or {b} {u.past}
E | {a} {u.past} but did not {w.base} | {a} did not {w.base}
N | {a} {u.past} and {b} {w.past} | {a} {w.past}
E | {a} {u.past} and {b} {w.past} | {b} {w.past}
C | {a} {g.past} a {x} but no {y} | {a} {g.past} a {y}
N | {a} {g.past} a {x} and a {y} | {a} {g.past} a {k}
""",
    "negation": """
E | {s} {s.be} no longer {x} | {s} {s.be} not {x}
C | {s} {s.be} no longer {x} | {s} {s.has} never been {x}
N | {s} {s.be} not {x} | {s} {s.be} no longer {x}
E | it is not true that {s} {s.be} not {x} | {s} {s.be} {x}
- | {s} used to be {x} | {s} {s.be} not {x}
E | the {o} is not un{x} | the {o} is {x}
C | the {o} is un{x} | the {o} is {x}
N | the {o} is un{x} | the {o} is {y}
C | nobody {u.past} | {a} {u.past}
N | {a} did not {u.base} | nobody {u.past}
E | nobody but {a} {u.past} | {b} did not {u.base}
E | {a} did not {g.base} anything | {a} did not {g.base} the {x}
C | {a} {g.past} nothing | {a} {g.past} something
E | {a} has {v.done} {b} many times | {a} has {v.done} {b} at least once
N | {a} has {v.done} {b} | {b} has {v.done} {a}
C | {b} has never been {v.done} by {a} | {a} has {v.done} {b}
E | {a} left without {w.ing} | {a} did not {w.base}
C | {a} left without {w.ing} | {a} did not leave
""",
    "quantifier": """
E | every {x} {u.past} | each {q} {x} {u.past}
N | every {q} {x} {u.past} | every {x} {u.past}
E | every {x} {u.past} | at least one {x} {u.past}
E | no {x} {u.past} | no {q} {x} {u.past} {w}
N | no {q} {x} {u.past} | no {x} {u.past}
N | no {x} {u.past} {w} | no {x} {u.past}
C | some {q} {xs} {u.past} | no {x} {u.past}
- | some {xs} {u.past} | not all {xs} {u.past}
- | at least one {x} {u.past} | some {xs} {u.past}
C | not every {x} {u.past} | all {xs} {u.past}
N | most {xs} {u.past} | most {q} {xs} {u.past}
N | none of the {q} {xs} {u.past} | most {xs} {u.past}
E | most {xs} {u.past} | at least one {x} {u.past}
C | most {xs} {u.past} | none of the {xs} {u.past}
E | some {q} {xs} did not {u.base} | not every {x} {u.past}
- | a few {xs} {u.past} | every {x} {u.past}
E | {a} {v.past} every {x} | {a} {v.past} all the {q} {xs}
N | {a} did not {v.base} every {x} | {a} did not {v.base} every {q} {x}
C | {a} did not {v.base} any of the {xs} | {a} {v.past} at least one {q} {x} {w}
E | only the {ns} from {m} {u.past} | no {n} from {k} {u.past}
C | only the {ns} from {m} {u.past} | at least one {n} from {k} {u.past}
""",
    "number": """
E | exactly {i} {ns} {e} | fewer than {j} {ns} {e}
C | exactly {i} {ns} {e} | at least {j} {ns} {e}
N | more than {i} {ns} {e} | more than {j} {ns} {e}
E | more than {j} {ns} {e} | at least {i} {ns} {e}
N | at most {j} {ns} {e} | at most {i} {ns} {e}
E | at most {i} {ns} {e} | at most {j} {ns} {e}
C | exactly {i_digits} {ns} {e} | more than {i} {ns} {e}
- | {i} {ns} {e} | exactly {i} {ns} {e}
- | {j} {ns} {e} | {i} {ns} {e}
- | at most {i} {ns} {e} | at least one {n} {e_one}
E | {i} {ns} {e} | at least {i} {ns} {e}
C | {a} {g.past} only {i} {ns} | {a} {g.past} more than {j} {ns}
E | {a} {g.past} more {ns} than {b} | {b} {g.past} fewer {ns} than {a}
C | {a} {g.past} more {ns} than {b} | {a} {g.past} exactly as many {ns} as {b}
E | {a} {g.past} exactly {i} {ns}, and {b} {g.past} exactly {j} | {b} {g.past} more {ns} than {a}
N | {a} {g.past} more {ns} than {b} | {a} {g.past} more {ns} than {c}
E | {a} {be} {r} than {b} | {b} {be} {s} than {a}
C | {a} {be} {r} than {b} | {a} {be} exactly as {x} as {b}
N | {a} {be} not {r} than {b} | {b} {be} {r} than {a}
E | {a} {be} {r} than {b}, and {b} {be} {r} than {c} | {a} {be} {r} than {c}
C | {a} {be} {r} than {b}, and {b} {be} {r} than {c} | {c} {be} {r} than {a}
N | the {o} {m} at least {i} {unit} | the {o} {m} more than {j} {unit}
""",
    "antonym": """
E | {s} {be} not {x} | {s} {be} {y}
C | {s} {be} {x} | {s} {be} {y}
N | {s} {be} {x} | {s} {be} {p}
N | {s} {be} neither {x} nor {y} | {s} {be} {p}
E | {s} {be} very {x} | {s} {be} not {y}
N | {s} {be} {x} | {s} {be} very {x}
C | {s} {x} | {s} {y}
N | {n} {x} | {s} {y}
E | {s} is a {x} | {s} is a {g}
C | {s} is a {x} | {s} is a {y}
N | {s} is not a {x} | {s} is a {y}
C | {a} {x.past} the {o} | {a} {y.past} the {o}
N | {a} did not {x.base} the {o} | {a} {y.past} the {o}
""",
    "kind": """
E | {a} {p.past} a {x} | {a} {p.past} a {k}
N | {a} {p.past} a {k}, but not a {x} | {a} {p.past} a {y}
E | {a} did not {p.base} a {k} | {a} did not {p.base} a {x}
N | {a} did not {p.base} a {x} | {a} did not {p.base} a {k}
C | there is no {k} in the {l} | there is a {x} in the {l}
E | every {k} in the {l} was {v.done} | every {x} in the {l} was {v.done}
N | every {x} in the {l} was {v.done} | every {k} in the {l} was {v.done}
E | at least one {x} in the {l} was {v.done} | at least one {k} in the {l} was {v.done}
C | no {k} in the {l} was {v.done} | some of the {ys} in the {l} were {v.done}
""",
    "time": """
E | {a} {u.past} before {b} {w.past} | {b} {w.past} after {a} {u.past}
C | {a} {u.past} before {b} {w.past} | {b} {w.past} before {a} {u.past}
E | when {b} {w.past}, {a} had already {u.done} | {a} {u.past} before {b} {w.past}
N | {a} {u.past} before {b} {w.past} | {a} {u.past} before {c} {x.past}
C | after {a} {u.past}, {b} {w.past} | {a} {u.past} at the very moment when {b} {w.past}
E | {a} {u.past} before {b}, and {b} {u.past} before {c} | {a} {u.past} before {c}
C | first {a} {u.past}, then {b}, and finally {c} | {c} {u.past} before {b}
N | {a} {u.past} before {b} | {b} {u.past} before {c}
E | after {a} {u.past}, {b} {w.past} | {b} {w.past}
C | as soon as {a} {u.past}, {b} {w.past} | {a} did not {u.base}
- | {b} {w.past} before {a} could {u.base} | {a} {u.past}
E | {b} {w.past} before {a} could {u.base} | {b} {w.past}
E | {a} {d.past} until {b} {w.past} | {a} was {d.ing}
N | {a} {d.past} until {b} {w.past} | {c} was {d.ing}
C | {a} has already {c.done} | {a} has not {c.done} yet
E | {a} {f} in {y}, and {b} {f} in {z} | {b} {f} after {a}
C | {a} {f} in {z}, and {b} {f} in {y} | {a} {f} before {b}
E | {a} has worked at the {l} since {y} | {a} started working at the {l} before {z}
C | {a} has worked at the {l} since {y} | {a} no longer works at the {l}
""",
    "implicative": """
E | {a} {m.past} to {c.base} | {a} {c.past}
C | {a} did not {m.base} to {c.base} | {a} {c.past}
C | {a} {f.past} to {c.base} | {a} {c.past}
E | {a} did not {f.base} to {c.base} | {a} {c.past}
- | {a} {c.past} | {a} {m.past} to {c.base}
C | {a} {r.past} to {c.base} | {a} {c.past}
N | {a} did not {r.base} to {c.base} | {a} {c.past}
- | {a} {c.past} | {a} {r.past} to {c.base}
E | {a} was {f} to {c.base} | {a} {c.past}
N | {a} was not {f} to {c.base} | {a} {c.past}
N | {a} {w.past} to {c.base} | {a} {c.past}
N | {a} was {w} to {c.base} | {a} did not {c.base}
""",
    "attitude": """
E | {a} {f.past} that {p} | {p}
E | {a} did not {f.base} that {p} | {p}
C | {a} did not {f.base} that {p_not} | {p}
N | {p} | {a} {f.past} that {p}
N | {a} {s.past} that {p} | {p}
N | {a} did not {s.base} that {p} | {p}
C | {a} {w} {s.past} that {p} | {p}
E | {a} {r} {s.past} that {p} | {p}
C | {a} pretended that {p} | {p}
E | {a} was not {g} that {p} | {p}
N | according to {a}, {p} | {p}
C | it was {n} that {p} | {p}
""",
    "conditional": """
N | if {p}, {q} | {q}
N | if {p}, {q} | {p}
E | if {p}, {q}. {p} | {q}
E | if {p}, {q}. {q_not} | {p_not}
N | if {p}, {q}. {q} | {p}
N | if {p}, {q}. {p_not} | {q}
C | if {p}, {q} | {p}, but {q_not}
- | {q} | if {p}, {q}
E | {q} because {p} | {p}
C | although {p}, {q} | {q_not}
E | unless {p}, {q}. {p_not} | {q}
N | {q} unless {p} | {q}
""",
    "modal": """
N | {a} may {c.base}{t} | {a} will {c.base}{t}
E | {a} may {c.base}{t} | perhaps {a} will {c.base}{t}
C | there is no chance that {a} will {c.base}{t} | {a} may {c.base}{t}
E | {a} will certainly {c.base}{t} | {a} will {c.base}{t}
- | {a} will {c.base}{t} | {a} may {c.base}{t}
C | {a} will probably {c.base}{t} | {a} will probably not {c.base}{t}
N | {a} must {c.base} | {a} will {c.base}
C | {a} must not {c.base} | {a} is allowed to {c.base}
- | {a} must {c.base} | {a} is allowed to {c.base}
E | {a} {s.third} every week | {a} can {s.base}
N | {a} can {s.base} | {a} {s.third} every week
C | {a} cannot {s.base} | {a} {s.third} every week
""",
    "adverb": """
E | {v}, {a} {c.past} | {a} {c.past}
N | {n} {a} {c.past} | {a} {c.past}
- | {a} {c.past} | {n} {a} {c.past}
C | {a} certainly did not {c.base} | {n} {a} {c.past}
E | because {a} {u.past}, {b} {w.past} | {a} {u.past}
N | if {a} {u.past}, {b} {w.past} | {b} {w.past}
N | {a} {u.past}, or {b} {w.past} | {a} {u.past}
C | neither did {a} {u.base} nor did {b} {w.base} | {a} {u.past}, or {b} {w.past}
C | {a} {w.past} instead of {u.ing} | {a} {u.past}
E | besides {u.ing}, {a} also {w.past} | {a} {u.past}
C | {a} {n} {c.past} | {a} {c.past}
N | {a} did not {c.base} | {a} {n} {c.past}
N | people say that {a} {c.past} | {a} {c.past}
""",
}
GOLD_ROWS = [
    (phenomenon, *(part.strip() for part in line.split(" | ")))
    for phenomenon, text in GOLD.items()
    for line in text.strip().splitlines()
]
SHORT = {"E": {"entailment"}, "N": {"neutral"}, "C": {"contradiction"}, "-": set()}
SEVERAL = {  # forms of several fragments whose words differ: what holds of one does not hold of the other
    ("antonym", "{s} {be} not {x}", "{s} {be} {y}"): {"entailment", "neutral", "contradiction"},
    ("antonym", "{s} {be} {x}", "{s} {be} {y}"): {"entailment", "contradiction"},
    ("antonym", "{a} {x.past} the {o}", "{a} {y.past} the {o}"): {"entailment", "contradiction"},
    ("antonym", "{a} did not {x.base} the {o}", "{a} {y.past} the {o}"): {"neutral", "contradiction"},
}


@cache
def labelled(phenomenon):
    """(Premise form, hypothesis form) → the labels it has in the fragments of the phenomenon."""
    found = defaultdict(set)
    for fragment in fragments.parts(phenomenon):
        forms = fragment.language.forms
        for (p, h), label in relations(fragment.language).items():
            found[forms[p].template, forms[h].template].add(label)
    return found


@cache
def templates(phenomenon):
    return {form.template for fragment in fragments.parts(phenomenon) for form in fragment.language.forms}


@pytest.mark.parametrize("phenomenon", GOLD)
def test_labels_are_those_of_a_reader(phenomenon):
    wrong = []
    for _, label, premise, hypothesis in (row for row in GOLD_ROWS if row[0] == phenomenon):
        assert {premise, hypothesis} <= templates(phenomenon), (premise, hypothesis)
        found = labelled(phenomenon)[premise, hypothesis]
        if found != SEVERAL.get((phenomenon, premise, hypothesis), SHORT[label]):
            wrong.append((label, premise, hypothesis, found))
    assert wrong == []


def test_there_is_gold_for_everything():
    assert set(GOLD) == set(PHENOMENA)
    assert len(GOLD_ROWS) >= 200
    assert min(Counter(row[0] for row in GOLD_ROWS).values()) >= 9


@pytest.mark.parametrize(
    ("name", "same", "label"),
    [
        ("complementary", "{s} {be} not {x}", "entailment"),
        ("contrary", "{s} {be} not {x}", "neutral"),
        ("synonym", "{s} {be} not {x}", "contradiction"),
    ],
)
def test_the_words_decide_between_opposites(name, same, label):
    (fragment,) = (f for f in fragments.parts("antonym") if f.name == name)
    forms = [form.template for form in fragment.language.forms]
    assert relations(fragment.language)[forms.index(same), forms.index("{s} {be} {y}")] == label


# --- the tables ---------------------------------------------------------------------------------------------------


def test_conditions():
    assert [w for w in worlds("a b", "not (a and b)") if condition("a or b")(w)] == [{"a": 0, "b": 1}, {"a": 1, "b": 0}]
    assert condition("a < b <= 2")({"a": 1, "b": 2})
    assert not condition("a == b or a != 1")({"a": 1, "b": 2})
    with pytest.raises(ValueError, match="no formula"):
        condition("a + b")({"a": 1, "b": 2})


def test_marks_and_readings():
    held, premise, both = table("*{a} left | a\n>{a} or {b} left | a or b || a != b |p a\n~left | b |h a")
    assert (held.template, held.held, held.sides) == ("{a} left", True, "ph")
    assert (premise.sides, premise.tied, len(premise.as_premise), len(premise.as_hypothesis)) == ("p", True, 2, 1)
    assert (both.weight[0] < 1, len(both.as_premise), len(both.as_hypothesis)) == (True, 0, 1)


@pytest.mark.parametrize(
    ("phrase", "forms"),
    [
        ("carry", "carry carried carried carries carrying"),
        ("shrug", "shrug shrugged shrugged shrugs shrugging"),
        (
            "take the medicine",
            "take the medicine/took the medicine/taken the medicine/takes the medicine/taking the medicine",
        ),
        ("knit", "knit knitted knitted knits knitting"),
        ("obey", "obey obeyed obeyed obeys obeying"),
        ("watch", "watch watched watched watches watching"),
        ("agree", "agree agreed agreed agrees agreeing"),
    ],
)
def test_verbs(phrase, forms):
    verb = Verb.of(phrase)
    assert [verb.base, verb.past, verb.done, verb.third, verb.ing] == forms.split("/" if "/" in forms else " ")


def test_nouns():
    pairs = {"lorry": "lorries", "goose": "geese", "piece of furniture": "pieces of furniture", "box": "boxes"}
    assert {noun: plural(noun) for noun in pairs} == pairs
    assert (Phrase("cooks", is_plural=True).was, Phrase("cook").be, Phrase("cook").has) == ("were", "is", "has")


# --- the data sets ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def train():
    return load("fragments/train")


@pytest.fixture(scope="module")
def dev():
    return load("fragments/dev")


@pytest.fixture(scope="module")
def test():
    return load("fragments/test")


@pytest.fixture(scope="module")
def everything(train, dev, test):
    return (*train, *dev, *test)


def key(pair):
    return pair.premise, pair.hypothesis


def test_sizes_and_balance(train, dev, test):
    assert (len(train), len(dev), len(test)) == (12_000, 1500, 1500)
    for data in (train, dev, test):
        groups = Counter((p.extras["phenomenon"], p.label) for p in data)
        assert set(groups) == {(name, label) for name in PHENOMENA for label in LABELS}
        assert max(groups.values()) - min(groups.values()) <= 3
    assert Counter(p.extras["held"] for p in train) == {"": 12_000}
    assert Counter(p.extras["held"] for p in dev) == {"words": 510, "forms": 495, "both": 495}


def test_pairs_are_distinct_and_parts_are_disjoint(train, dev, test):
    seen = [{key(pair) for pair in data} for data in (train, dev, test)]
    assert [len(pairs) for pairs in seen] == [12_000, 1500, 1500]
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]
    assert not seen[1] & seen[2]
    assert not {pair for pairs in seen for pair in pairs if pair[0] == pair[1]}


def test_there_are_many_pairs():
    pairs = fragments.generate(60_000, seed=4)
    assert len({key(pair) for pair in pairs}) == 60_000


def test_held_out_words(train, dev, test):
    held, known = lexicon(held=True), lexicon(held=False)
    for name in ("people", "names", "manners", "deeds", "acts", "tasks", "objects", "cities"):
        assert not set(getattr(held, name)) & set(getattr(known, name)), name
        assert len(getattr(held, name)) >= 2, name
    for kind, nouns in held.kinds.items():
        assert len(nouns) >= 2
        assert not set(nouns) & set(known.kinds[kind])
    assert len(known.people) + len(held.people) >= 80
    assert len(known.names) + len(held.names) >= 60
    assert sum(len(text.split()) for text in KINDS.values()) >= 120
    new = {*held.names, *held.people, *(plural(noun) for noun in held.people)}
    old = {*known.names, *known.people, *(plural(noun) for noun in known.people)}
    for pair in train:
        assert not new & words_of(pair)
    for pair in (*dev, *test):
        if pair.extras["phenomenon"] != "antonym":  # its opposites are held out together with what they are said of
            assert not (old if pair.extras["held"] in ("words", "both") else new) & words_of(pair), pair
    seen = {word for pair in train for word in words_of(pair)}
    assert not {verb.past for verb in (*held.acts, *held.deeds)} & seen
    assert {verb.past for verb in (*known.acts, *known.deeds)} <= seen


def words_of(pair):
    return set(re.findall(r"[\w-]+", f"{pair.premise} {pair.hypothesis}"))


def test_held_out_forms_look_new():
    """No held-out form is one of training with other names of slots; conditionals differ in which clause follows."""

    def surface(form):
        return re.sub(r"{\w+", "{", form.template)

    for name in PHENOMENA:
        for fragment in fragments.parts(name) if name != "conditional" else ():
            known = {surface(form) for form in fragment.language.forms if not form.held}
            assert not [form for form in fragment.language.forms if form.held and surface(form) in known]


def test_held_out_forms(train, dev):
    held = {
        form.template
        for name in PHENOMENA
        for fragment in fragments.parts(name)
        for form in fragment.language.forms
        if form.held
    }
    assert len(held) >= 150

    def forms(pair):
        return {pair.extras["premise_form"], pair.extras["hypothesis_form"]}

    own = defaultdict(set)
    for name in PHENOMENA:
        for fragment in fragments.parts(name):
            own[name, fragment.name] = {form.template for form in fragment.language.forms if form.held}
    for pair in train:
        assert not own[pair.extras["phenomenon"], pair.extras["fragment"]] & forms(pair)
    for pair in dev:
        met = bool(own[pair.extras["phenomenon"], pair.extras["fragment"]] & forms(pair))
        assert met == (pair.extras["held"] in ("forms", "both"))


def test_seeds():
    first = fragments.generate(300, 3)
    assert first == fragments.generate(300, 3)
    assert first.fingerprint != fragments.generate(300, 4).fingerprint
    assert fragments.generate(300, 3, "dev").fingerprint != fragments.generate(300, 3, "test").fingerprint


def test_some_phenomena():
    pairs = fragments.generate(60, 1, phenomena=["time", "roles"])
    assert Counter(p.extras["phenomenon"] for p in pairs) == {"time": 30, "roles": 30}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 0}, "count 0 is not positive"),
        ({"part": "validation"}, "part 'validation' is unknown; allowed: train, dev, test"),
        ({"phenomena": ["irony"]}, "phenomena irony; allowed: roles"),
        ({"phenomena": []}, "allowed: roles"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(DataError, match=message):
        fragments.generate(**{"count": 10, "seed": 0} | arguments)


@pytest.mark.parametrize("name", fragments.PROBES)
def test_probes(name, train):
    pairs = load(f"fragments/probe-{name}")
    assert pairs == fragments.probe(name)
    assert len({key(pair) for pair in pairs}) == 50
    assert max(pairs.counts.values()) - min(pairs.counts.values()) <= 1
    assert {pair.extras["held"] for pair in pairs} == {"words"}
    assert not {key(pair) for pair in train} & {key(pair) for pair in pairs}


def test_no_such_probe():
    with pytest.raises(DataError, match="probe 'irony' is unknown; allowed: order"):
        fragments.probe("irony")


# --- English ------------------------------------------------------------------------------------------------------

HANS = """professor student president judge senator secretary doctor lawyer scientist banker tourist manager artist
author actor athlete"""
ODD = {
    "doubled words": r"\b(\w+) \1\b(?<!had had)",
    "a before a vowel": r"\b[Aa] [aeiou]",
    "an before a consonant": r"\b[Aa]n [^aeiou]",
    "slots": r"[{}|_]",
    "spaces": r"  | [,.]|^ | $",
    "no capital": r"^[^A-Z]|\. [^A-Z]",
    "no full stop": r"[^.]$|\.\.",
    "agreement": r"\b(They|[Tt]he \w+s) was (not )?(?:in|at)\b|\b(every|each|no) \w+ were\b|\b(these|all) \w+ was\b",
    "irregular": r"\b(\w*eaved|goed|runned|drawed|taked|thinked|sended|buyed|selled|finded|throwed|forgived|knowed)\b",
    "auxiliaries": r"\b(did not|will|can|must|may|might|to) (?!feed)\w+ed\b",
}


@pytest.mark.parametrize("fault", ODD)
def test_english(everything, fault):
    texts = {text for pair in everything for text in key(pair)}
    assert [text for text in texts if re.search(ODD[fault], text)][:5] == []


def test_names_and_plurals_agree(everything):
    names = "|".join((*lexicon(held=True).names, *lexicon(held=False).names))
    texts = {text for pair in everything for text in key(pair)}
    assert not [t for t in texts if re.search(rf"(?:^|\. )(?:{names}) (?:were|are|have|do)\b", t)]
    people = (*lexicon(held=True).people, *lexicon(held=False).people)
    many = "|".join(plural(noun) for noun in people)
    assert not [t for t in texts if re.search(rf"(?:^|\. )The (?:{many}) (?:was|is|has|does)\b", t)]
    assert not [t for t in texts if re.search(rf"(?:^|\. )The (?:{'|'.join(people)}) (?:were|are|have|do)\b", t)]


def test_no_word_of_the_evaluation_set(everything):
    words = {word for pair in everything for word in re.findall(r"\w+", " ".join(key(pair)).lower())}
    assert not words & {form for noun in HANS.split() for form in (noun, plural(noun))}
    shown = "museum spaniel spaniels fountain apprentice lighthouse cyclist cyclists suitcase orchestra violinists"
    assert not words & set(shown.split())
    assert not {p for p in everything if re.search(r"bridge.*closed|lake.*warm|letter arrived", p.premise)}


def test_variety(train):
    words = {word for pair in train for text in key(pair) for word in re.findall(r"[a-z]+", text.lower())}
    assert len(words) > 1000
    lengths = Counter(len(pair.premise.split()) for pair in train)
    assert min(lengths) <= 4
    assert max(lengths) >= 18
    for name in PHENOMENA:
        assert len({p.extras["premise_form"] for p in train if p.extras["phenomenon"] == name}) >= 40


# --- shortcuts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phenomenon", PHENOMENA)
def test_no_form_prefers_a_label(phenomenon):
    for index in range(len(fragments.parts(phenomenon))):
        found = fragments._balanced(phenomenon, index, held_forms=False)
        for side in (0, 1):
            mass = defaultdict(Counter)
            for cell, label, weight in zip(found.cells, found.labels, found.weights, strict=True):
                mass[cell[side]][label] += weight
            assert len(mass) >= 8
            leaning = {
                form: by_label
                for form, by_label in mass.items()
                if max(by_label.values()) / sum(by_label.values()) > 0.4 and sum(by_label.values()) > 1e-4
            }
            assert leaning == {}


def naive_bayes(train, dev, features):
    """Accuracy on dev of the product of P(feature | label), with add-one smoothing."""
    counts = {label: Counter() for label in LABELS}
    for pair in train:
        counts[pair.label].update(features(pair))
    vocabulary = len(set().union(*counts.values()))
    totals = {label: math.log(sum(counts[label].values()) + vocabulary) for label in LABELS}

    def guess(pair):
        found = features(pair)
        return max(LABELS, key=lambda label: sum(math.log(counts[label][f] + 1) - totals[label] for f in found))

    return sum(guess(pair) == pair.label for pair in dev) / len(dev)


def grams(text):
    words = text.lower().split()
    return [*words, *pairwise(words), text]


def overlap(pair):
    first, second = (set(re.findall(r"\w+", text.lower())) for text in key(pair))
    return [("new", len(second - first)), ("gone", len(first - second))]


@pytest.fixture(scope="module")
def more(train):
    seen = {key(pair) for pair in train}
    return fragments.generate(6000, seed=9).filter(lambda pair: key(pair) not in seen)


@pytest.mark.parametrize("phenomenon", [None, *PHENOMENA])
@pytest.mark.parametrize("side", ["premise", "hypothesis"])
def test_one_sentence_does_not_say_the_label(train, more, phenomenon, side):
    ours = [data.filter(lambda p: phenomenon in (None, p.extras["phenomenon"])) for data in (train, more)]
    found = naive_bayes(*ours, lambda pair: grams(getattr(pair, side)))
    error = math.sqrt(2 / 9 / len(ours[1]))
    assert found < 1 / 3 + 5 * error


@pytest.mark.parametrize("part", ["dev", "test"])
@pytest.mark.parametrize("side", ["premise", "hypothesis"])
def test_one_sentence_does_not_say_the_label_of_held_out_pairs(request, train, part, side):
    data = request.getfixturevalue(part)
    assert naive_bayes(train, data, lambda pair: grams(getattr(pair, side))) < 1 / 3 + 5 * math.sqrt(2 / 9 / len(data))


def test_the_number_of_shared_words_says_little(train, more):
    assert naive_bayes(train, more, overlap) < 0.52


def test_both_sentences_do_say_the_label(train, more):
    """The classifier above can learn: given the pair of forms, it does."""
    found = naive_bayes(train, more, lambda p: [(p.extras["premise_form"], p.extras["hypothesis_form"])])
    assert found > 0.8


@pytest.mark.parametrize(
    ("name", "fingerprint"),
    [
        ("fragments/train", "8b0f98c88cea34f7"),
        ("fragments/dev", "39f0e6f8d9b3ba5c"),
        ("fragments/test", "0535e45ae28de00d"),
        ("fragments/probe_order", "844f8c93c050b44c"),
        ("fragments/probe_negation", "7d4a8854ae155154"),
        ("fragments/probe_quantifier", "dea7d4ba6ccf2985"),
        ("fragments/probe_time", "5ea07b0a89116e60"),
    ],
)
def test_named_sets_are_those_that_models_were_trained_and_measured_on(name, fingerprint):
    """An edit of a word or a form changes what the figures of the docs are about."""
    assert load(name).fingerprint.startswith(fingerprint)
