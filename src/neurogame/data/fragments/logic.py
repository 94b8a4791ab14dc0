"""The words of logic between and around clauses: `conjunction`, `negation`, `conditional`."""

from collections.abc import Mapping

from neurogame.data.forms import Draw
from neurogame.data.fragments.english import section
from neurogame.data.fragments.form_tables import Fragment, fragment, worlds
from neurogame.data.fragments.inflection import Verb
from neurogame.data.fragments.lexicon import MOODS, Lexicon
from neurogame.data.fragments.noun_phrases import adjunct, persons

ENGLISH = section("logic")


def conjunction(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """And, or, both, either, neither: of subjects, verbs, objects and clauses."""
    got = [Verb.of(base) for base in lexicon.of(ENGLISH["got"].split())]

    def acts(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        u, w = draw.several(lexicon.acts, 2)
        return {"a": a, "b": b, "u": u, "w": w}

    def objects(draw: Draw) -> Mapping[str, object]:
        (a,) = persons(draw, lexicon, 1)
        x, y, z = draw.several(lexicon.objects, 3)
        return {"a": a, "x": x, "y": y, "k": z, "g": draw.one(got)}

    return (
        fragment("subjects", ENGLISH["subjects"], worlds("a b"), acts, lexicon),
        fragment("verbs", ENGLISH["verbs"], worlds("u w bu bw"), acts, lexicon),
        fragment("objects", ENGLISH["objects"], worlds("x y k"), objects, lexicon),
    )


def negation(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Not, un-, never, nobody, nothing, without, no longer; one negation and two."""
    moods, silent = lexicon.of(MOODS.split(";")), [Verb.of(base) for base in lexicon.of(ENGLISH["finished"].split())]
    uns = [entry.partition(":")[::2] for entry in lexicon.of(ENGLISH["uns"].split(";"))]
    got = [Verb.of(base) for base in lexicon.of(ENGLISH["got"].split())]

    def state(draw: Draw) -> Mapping[str, object]:
        x, y = draw.several(moods, 2)
        return {"s": persons(draw, lexicon, 1)[0], "x": x, "y": y}

    def un(draw: Draw) -> Mapping[str, object]:
        x, things = draw.one(uns)
        return {"o": draw.one(things.split(",")), "x": x, "y": draw.one(ENGLISH["plain"].split())}

    def event(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        u, w = draw.one(lexicon.acts), draw.one(silent)
        return {"a": a, "b": b, "u": u, "w": w, "v": draw.one(lexicon.deeds), "t": adjunct(draw, lexicon)}

    def nothing(draw: Draw) -> Mapping[str, object]:
        x, y = draw.several(lexicon.objects, 2)
        return {"a": persons(draw, lexicon, 1)[0], "x": x, "y": y, "g": draw.one(got)}

    return (
        fragment("state", ENGLISH["state"], worlds("now was other"), state, lexicon, "present"),
        fragment("un", ENGLISH["un"], worlds("x y"), un, lexicon, "present"),
        fragment("event", ENGLISH["event"], worlds("a b x"), event, lexicon),
        fragment("nothing", ENGLISH["nothing"], worlds("x y z"), nothing, lexicon),
        fragment("never", ENGLISH["never"], worlds("once often back", "once or not often"), event, lexicon, "present"),
        fragment("without", ENGLISH["without"], worlds("u w e"), event, lexicon),
    )


def conditional(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """If, whenever, unless, with and without their antecedents; because and although, whose clauses are both true."""
    causes, effects = (lexicon.of(text.split(";")) for text in (ENGLISH["causes"], ENGLISH["effects"]))

    def clauses(draw: Draw) -> Mapping[str, object]:
        a = persons(draw, lexicon, 1)[0]
        p, r = (cause.split("|") for cause in draw.several(causes, 2))
        q = draw.one(effects).format(a=a).split("|")
        return {"p": p[0], "p_not": p[1], "q": q[0], "q_not": q[1], "r": r[0], "r_not": r[1]}

    if_then, unless = "not c or not p or q", "not d or p or q"
    return (
        fragment("if", ENGLISH["if"], worlds("p q c", if_then), clauses, lexicon, "present"),
        fragment("unless", ENGLISH["unless"], worlds("p q d", unless), clauses, lexicon, "present"),
        fragment("because", ENGLISH["because"], worlds("p q c", if_then), clauses, lexicon, "present"),
    )
