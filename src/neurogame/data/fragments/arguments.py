"""Who did what to whom: `roles` and `relative` clauses."""

from collections.abc import Mapping

from neurogame.data.forms import Draw
from neurogame.data.fragments.english import section
from neurogame.data.fragments.form_tables import Fragment, fragment, worlds
from neurogame.data.fragments.inflection import Verb
from neurogame.data.fragments.lexicon import Lexicon
from neurogame.data.fragments.noun_phrases import adjunct, groups, persons, thing

ENGLISH = section("arguments")


def roles(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Active, passive, cleft and dative forms; exchanged roles; relations that hold in one direction only."""
    gifts = [Verb.of(base) for base in lexicon.of(ENGLISH["gifts"].split())]

    def event(draw: Draw) -> Mapping[str, object]:
        a, b, c = persons(draw, lexicon, 3)
        return {"a": a, "b": b, "c": c, "v": draw.one(lexicon.deeds), "t": adjunct(draw, lexicon)}

    def gift(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        return {"a": a, "b": b, "g": draw.one(gifts), "o": thing(draw, lexicon)}

    def trade(draw: Draw) -> Mapping[str, object]:
        given, received = draw.one(ENGLISH["converses"])
        return {**gift(draw), "g": Verb.of(given), "r": Verb.of(received)}

    def row(draw: Draw) -> Mapping[str, object]:
        a, b, c = persons(draw, lexicon, 3)
        first, second, where = draw.one(ENGLISH["rows"])
        if draw.chance(0.5):
            first, second = second, first
        return {"a": a, "b": b, "c": c, "r": first, "s": second, "w": where}

    return (
        fragment("voice", ENGLISH["voice"], worlds("ab ba xb xa ay by"), event, lexicon, end="{t}"),
        fragment("third", ENGLISH["third"], worlds("ab ac ba bc ca cb"), event, lexicon),
        fragment("giving", ENGLISH["giving"], worlds("ab ba other"), gift, lexicon),
        fragment("converse", ENGLISH["converse"], worlds("ab ba"), trade, lexicon),
        fragment("row", ENGLISH["row"], worlds("a b c", values=3), row, lexicon, end="{w}"),
    )


def relative(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Subject and object relatives: what the main clause says, what the embedded one says, and of whom."""
    handled = [Verb.of(base) for base in lexicon.of(ENGLISH["handled"].split())]

    def pair(draw: Draw) -> Mapping[str, object]:
        n, m = groups(draw, lexicon, 2)
        return {"n": n, "m": m, "v": draw.one(lexicon.deeds), "u": draw.one(lexicon.acts)}

    def chain(draw: Draw) -> Mapping[str, object]:
        n, m, k = groups(draw, lexicon, 3, several=0.2)
        v, w = draw.several(lexicon.deeds, 2)
        return {"n": n, "m": m, "k": k, "v": v, "w": w}

    def things(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        q = draw.one((*lexicon.looks, *lexicon.colours))
        return {"a": a, "b": b, "o": thing(draw, lexicon), "q": q, "g": draw.one(handled)}

    return (
        fragment("who", ENGLISH["who"], worlds("mn nm un um"), pair, lexicon),
        fragment("chain", ENGLISH["chain"], worlds("nvm mvn nwk mwk kwm"), chain, lexicon),
        fragment("things", ENGLISH["things"], worlds("a b q"), things, lexicon),
    )
