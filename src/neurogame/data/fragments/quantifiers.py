"""`quantifier`: every, some, most, no, only, over nouns with and without a modifier."""

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any

from neurogame.data.forms import Condition, Draw, Form
from neurogame.data.fragments.english import section
from neurogame.data.fragments.form_tables import Fragment, fragment, worlds
from neurogame.data.fragments.inflection import Verb, plural
from neurogame.data.fragments.lexicon import GOODS, Lexicon
from neurogame.data.fragments.noun_phrases import persons

ENGLISH = section("quantifiers")

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


def quantifier(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Every, some, most, no and their negations, over nouns with and without modifier, verbs with and without adverb.

    Every noun phrase denotes something (existential import): "every baker sang" entails "at least one baker sang".
    """
    sizes = lexicon.of(ENGLISH["sizes"].split())
    handled = [Verb.of(base) for base in lexicon.of(ENGLISH["handled"].split())]

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
        fragment("adjective", quantified(ENGLISH["subjects"], before, ends), things_done, people, lexicon),
        fragment("origin", quantified(ENGLISH["subjects"], after, ends), things_done, people, lexicon),
        fragment(
            "object",
            quantified(ENGLISH["objects"], before, ends),
            things_done,
            things,
            lexicon,
            beside="{who} {v.past} a {x} | {who} did not {v.base} a {x}",
        ),
        fragment("only", ENGLISH["onlys"], worlds("c d", values=3), people, lexicon),
    )
