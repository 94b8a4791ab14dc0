"""`quantifier`: every, some, most, no, only, over nouns with and without a modifier."""

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any

from neurogame.data.forms import Condition, Draw, Form
from neurogame.data.fragments.inflection import Verb, plural
from neurogame.data.fragments.lexicon import GOODS, Lexicon
from neurogame.data.fragments.phrases import persons
from neurogame.data.fragments.tables import Fragment, fragment, worlds

Counts = tuple[int, int]  # of the noun's things: (for how many the predicate is true, for how many it is false)
Share = Callable[[Counts], bool]

# Quantifier → literal meaning, further readings of a premise, further readings of a hypothesis.
_SHARES: dict[str, tuple[Share, tuple[Share, ...], tuple[Share, ...]]] = {
    "every": (lambda n: n[1] == 0, (), ()),
    "some": (lambda n: n[0] > 0, (lambda n: n[0] > 1, lambda n: n[0] > 0 and n[1] > 0), (lambda n: n[0] > 1,)),
    "few": (
        lambda n: n[0] > 1,
        (_some := lambda n: n[0] > 0, _part := lambda n: n[0] > 1 and n[1] > 0),
        (_some, _part),
    ),
    "most": (lambda n: n[0] > n[1], (lambda n: n[0] > n[1] > 0,), ()),
    "one": (lambda n: n[0] > 0, (), ()),
    "one not": (lambda n: n[1] > 0, (), ()),
    "no": (lambda n: n[0] == 0, (), ()),
    "not every": (lambda n: n[1] > 0, (lambda n: n[1] > 0 and n[0] > 0,), ()),
    "some not": (lambda n: n[1] > 0, (lambda n: n[1] > 1, lambda n: n[1] > 0 and n[0] > 0), (lambda n: n[1] > 1,)),
}
# Of people who did something. {n} is replaced by the singular, {ns} by the plural, {e} by the end of the sentence.
_SUBJECTS = {
    "every {n} {u.past}{e}": "every",
    "all {ns} {u.past}{e}": "every",
    "each {n} {u.past}{e}": "every",
    "some {ns} {u.past}{e}": "some",
    "a few {ns} {u.past}{e}": "few",
    "most {ns} {u.past}{e}": "most",
    "at least one {n} {u.past}{e}": "one",
    "no {n} {u.past}{e}": "no",
    "none of the {ns} {u.past}{e}": "no",
    "not every {n} {u.past}{e}": "not every",
    "not all {ns} {u.past}{e}": "not every",
    "some {ns} did not {u.base}{e}": "some not",
    "*there was no {n} who {u.past}{e}": "no",
    "*there was at least one {n} who {u.past}{e}": "one",
    "*there was no {n} who did not {u.base}{e}": "every",
    "*at least one {n} did not {u.base}{e}": "some not",
    "*most of the {ns} {u.past}{e}": "most",
}
# Of things that someone did something with.
_OBJECTS = {
    "{a} {v.past} every {n}{e}": "every",
    "{a} {v.past} all the {ns}{e}": "every",
    "{a} {v.past} some of the {ns}{e}": "some",
    "{a} {v.past} at least one {n}{e}": "one",
    "{a} {v.past} most of the {ns}{e}": "most",
    "{a} {v.past} none of the {ns}{e}": "no",
    "{a} did not {v.base} any of the {ns}{e}": "no",
    "{a} did not {v.base} all the {ns}{e}": "not every",
    "{a} did not {v.base} every {n}{e}": "not every",
    "*there was no {n} that {a} did not {v.base}{e}": "every",
    "*there was no {n} that {a} {v.past}{e}": "no",
    "*at least one {n} was {v.done} by {a}{e}": "one",
    "*there was at least one {n} that {a} did not {v.base}{e}": "some not",
}


def quantified(templates: Mapping[str, str], nouns: Mapping[str, str], ends: Mapping[str, int]) -> tuple[Form, ...]:
    """Each template with each noun phrase and each end of the sentence.

    Args:
        templates: template → key of `_SHARES`; "*" marks the held-out ones.
        nouns: noun phrase in the singular and the plural, as "singular|plural" → the sorts of things it is true of.
        ends: end of the sentence → the least degree to which a thing must have done it. Degrees: 0 did not, 1 did,
            2 did and the end is true of it.

    Returns:
        The forms. See `crowds` for the worlds.
    """

    def form(template: str, noun: str, end: str) -> Form:
        singular, many = noun.split("|")
        literal, as_premise, as_hypothesis = _SHARES[templates[template]]

        def readings(shares: Iterable[Share]) -> tuple[Condition, ...]:
            return tuple(_share(share, nouns[noun], ends[end]) for share in shares)

        text = template.lstrip("*").replace("{ns}", many).replace("{n}", singular).replace("{e}", end)
        return Form(
            template=text,
            holds=_share(literal, nouns[noun], ends[end]),
            as_premise=readings(as_premise),
            as_hypothesis=readings(as_hypothesis),
            held=template.startswith("*"),
        )

    return tuple(form(*parts) for parts in product(templates, nouns, ends))


def _share(share: Share, sorts: str, least: int) -> Condition:
    def holds(world: Mapping[tuple[str, int], Counts]) -> bool:
        return share(world[sorts, least])

    return holds


def crowds(
    sorts: str, needed: str, nouns: Iterable[str], ends: Iterable[int], most: int = 3
) -> tuple[Mapping[Any, Any], ...]:
    """Worlds with up to `most` things of each sort and degree.

    Args:
        sorts: one letter for each sort of thing.
        needed: the sorts of which there are at least two things (existential import, and "some dogs" in the plural).
        nouns: the sorts that a noun phrase is true of, for each noun phrase.
        ends: the least degrees of the ends of the sentences.
        most: how many things of each sort and degree there may be.

    Returns:
        Mappings of (sorts of a noun phrase, least degree) to `Counts`.
    """
    cells = list(product(sorts, range(max(ends) + 1)))
    different: dict[tuple[object, ...], Mapping[Any, Any]] = {}
    for numbers in product(range(most + 1), repeat=len(cells)):
        crowd = dict(zip(cells, numbers, strict=True))

        def count(noun: str, least: int, crowd: Mapping[tuple[str, int], int] = crowd) -> int:
            return sum(number for (sort, degree), number in crowd.items() if sort in noun and degree >= least)

        if all(count(sort, 0) > 1 for sort in needed):
            did = {(noun, end): count(noun, end) for noun, end in product(nouns, ends)}
            shares = {(noun, end): (number, count(noun, 0) - number) for (noun, end), number in did.items()}
            seen = tuple(
                (min(yes, 2), min(no, 2), yes > no) for yes, no in shares.values()
            )  # what quantifiers tell apart
            different.setdefault(seen, shares)
    return tuple(different.values())


_ONLYS = """
>only the {ns} from {m} {u.past} | c > 0 and d == 0 | c == 2 and d == 0
>*the {ns} from {m} were the only ones who {u.past} | c > 0 and d == 0 | c == 2 and d == 0
>no {n} except the ones from {m} {u.past} | c > 0 and d == 0 | c == 2 and d == 0
every {n} from {m} {u.past} | c == 2
every {n} from {k} {u.past} | d == 2
at least one {n} from {m} {u.past} | c > 0
at least one {n} from {k} {u.past} | d > 0
no {n} from {m} {u.past} | c == 0
no {n} from {k} {u.past} | d == 0
not every {n} from {m} {u.past} | c < 2 |p c == 1
not every {n} from {k} {u.past} | d < 2 |p d == 1
some {ns} from {k} {u.past} | d > 0 |p d == 1
all {ns}, whether from {m} or from {k}, {u.past} | c == 2 and d == 2
*none of the {ns} from {k} {u.past} | d == 0
*all the {ns} from {m} {u.past} | c == 2
*there was a {n} from {k} who {u.past} | d > 0
"""
_SIZES = "old new small big heavy cheap dirty expensive clean wet damaged large"
_HANDLED = "wash paint sell inspect move photograph clean count sketch label"


def quantifier(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Every, some, most, no and their negations, over nouns with and without modifier, verbs with and without adverb.

    Every noun phrase denotes something (existential import): "every baker sang" entails "at least one baker sang".
    """
    sizes = lexicon.of(_SIZES.split())
    handled = [Verb.of(base) for base in lexicon.of(_HANDLED.split())]

    def people(draw: Draw) -> Mapping[str, object]:
        noun = draw.one(lexicon.people)
        m, k = draw.several(lexicon.cities, 2)
        words = {"x": noun, "xs": plural(noun), "n": noun, "ns": plural(noun), "m": m, "k": k}
        return {**words, "q": draw.one(lexicon.manners), "u": draw.one(lexicon.acts), "w": draw.one(lexicon.when)}

    def things(draw: Draw) -> Mapping[str, object]:
        noun = draw.one([noun for kind in GOODS for noun in lexicon.kinds[kind]])
        (a,) = persons(draw, lexicon, 1)
        q = draw.one(sizes)
        words = {"x": noun, "xs": plural(noun), "q": q, "v": draw.one(handled), "w": draw.one(lexicon.when)}
        return {**words, "a": a}

    ends = {"": 1, " {w}": 2}
    things_done = crowds("co", "c", ("c", "co"), (1, 2))
    before = {"{x}|{xs}": "co", "{q} {x}|{q} {xs}": "c"}
    after = {"{x}|{xs}": "co", "{x} from {m}|{xs} from {m}": "c"}
    return (
        fragment("adjective", quantified(_SUBJECTS, before, ends), things_done, people, lexicon),
        fragment("origin", quantified(_SUBJECTS, after, ends), things_done, people, lexicon),
        fragment(
            "object",
            quantified(_OBJECTS, before, ends),
            things_done,
            things,
            lexicon,
            beside="{who} {v.past} a {x} | {who} did not {v.base} a {x}",
        ),
        fragment("only", _ONLYS, worlds("c d", values=3), people, lexicon),
    )
