"""Which events took place, and in which order: `time` and `implicative` verbs."""

from collections.abc import Mapping

from neurogame.data.forms import Draw
from neurogame.data.fragments.english import section
from neurogame.data.fragments.form_tables import Fragment, fragment, worlds
from neurogame.data.fragments.inflection import Phrase, Verb
from neurogame.data.fragments.lexicon import Lexicon
from neurogame.data.fragments.noun_phrases import persons

ENGLISH = section("events")


def time(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Before, after, when, then, until, since, already: which events took place, and which of them first."""
    lasting = [Verb.of(phrase) for phrase in lexicon.of(ENGLISH["lasting"].split(";"))]
    employers = lexicon.of(ENGLISH["employers"].split())
    arriving = [Verb.of(phrase) for phrase in lexicon.of(ENGLISH["arriving"].split(";"))]

    def events(draw: Draw) -> Mapping[str, object]:
        a, b, c = persons(draw, lexicon, 3)
        u, w, x = draw.several(lexicon.tasks if draw.chance(0.5) else lexicon.acts, 3)
        return {"a": a, "b": b, "c": c, "u": u, "w": w, "x": x, "d": draw.one(lasting)}

    def first(draw: Draw) -> Mapping[str, object]:
        a, b, c = persons(draw, lexicon, 3)
        return {"a": a, "b": b, "c": c, "u": draw.one(arriving)}

    def task(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        return {"a": a, "b": b, "c": draw.one(lexicon.tasks)}

    def years(draw: Draw) -> Mapping[str, object]:
        y = draw.one(range(1940, 2004))
        z = draw.one(range(y + 2, min(y + 30, 2019)))
        a, b, c = persons(draw, lexicon, 3)
        born = "was born"
        if draw.chance(0.4):
            a, b, c = (Phrase(f"the {noun}") for noun in draw.several(employers, 3))
            born = draw.one(("opened", "was built", "was renovated"))
        return {"a": a, "b": b, "c": c, "y": y, "z": z, "f": born}

    def jobs(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        y = draw.one(range(1985, 2010))
        return {"a": a, "b": b, "y": y, "z": draw.one(range(y + 2, 2020)), "l": draw.one(employers)}

    return (
        fragment("order", ENGLISH["order"], worlds("a b c", values=3), events, lexicon),
        fragment("first", ENGLISH["first"], worlds("a b c", values=3), first, lexicon),
        fragment("occurred", ENGLISH["occurred"], worlds("p q"), events, lexicon),
        fragment("until", ENGLISH["until"], worlds("p q r"), events, lexicon),
        fragment("already", ENGLISH["already"], worlds("a b"), task, lexicon, "present"),
        fragment("years", ENGLISH["years"], worlds("a b c", values=5), years, lexicon),
        fragment(
            "since",
            ENGLISH["since"],
            worlds("s w n b", "w < 2 and n < 2 and b < 2", values=5),
            jobs,
            lexicon,
            "present",
        ),
    )


def implicative(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Verbs that say whether their complement came true: always (manage), in one polarity (refuse), never (want)."""
    singles = [Verb.of(phrase.replace("_", " ")) for phrase in lexicon.of(ENGLISH["singles"].split())]
    wants, wishes = (
        [Verb.of(base) for base in lexicon.of(ENGLISH["wants"].split())],
        lexicon.of(ENGLISH["wishes"].split()),
    )

    def words(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        m, f = map(Verb.of, draw.one(ENGLISH["pairs"]))
        force = draw.one(ENGLISH["forces"].split())
        return {"a": a, "b": b, "c": draw.one(lexicon.tasks), "m": m, "f": f, "f_past": force}

    def single(draw: Draw) -> Mapping[str, object]:
        return {**words(draw), "m": draw.one(singles)}

    def one_way(draw: Draw) -> Mapping[str, object]:
        chosen = dict(words(draw))
        return {**chosen, "r": Verb.of(draw.one(ENGLISH["refusals"].split())), "f": chosen["f_past"]}

    def wanted(draw: Draw) -> Mapping[str, object]:
        return {**words(draw), "w": draw.one(wants)}

    def asked(draw: Draw) -> Mapping[str, object]:
        return {**words(draw), "w": draw.one(wishes)}

    return (
        fragment("two-way", ENGLISH["two_way"], worlds("e k b"), words, lexicon),
        fragment("single", ENGLISH["single"], worlds("e k b"), single, lexicon),
        fragment("refused", ENGLISH["refused"], worlds("e k b"), one_way, lexicon),
        fragment("forced", ENGLISH["forced"], worlds("e k b"), one_way, lexicon),
        fragment("wanted", ENGLISH["wanted"], worlds("e w"), wanted, lexicon),
        fragment("asked", ENGLISH["asked"], worlds("e w"), asked, lexicon),
    )
