"""`attachment`: prepositional phrases and possessives, and to whom they belong."""

from collections.abc import Mapping

from neurogame.data.forms import Draw
from neurogame.data.fragments.english import section
from neurogame.data.fragments.form_tables import Fragment, fragment, worlds
from neurogame.data.fragments.lexicon import Lexicon
from neurogame.data.fragments.noun_phrases import groups, persons

ENGLISH = section("attachments")


def attachment(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Phrases that belong to a noun: whose act it was, who stood where, who had what."""
    kin = lexicon.of(ENGLISH["kinship"].split())

    def beside(draw: Draw) -> Mapping[str, object]:
        n, m, k = groups(draw, lexicon, 3)
        r, s = draw.one(ENGLISH["sides"])
        return {"n": n, "m": m, "k": k, "r": r, "s": s, "u": draw.one(lexicon.acts), "v": draw.one(lexicon.deeds)}

    def relatives(draw: Draw) -> Mapping[str, object]:
        (a,) = persons(draw, lexicon, 1)
        return {"a": a, "k": draw.one(kin), "u": draw.one(lexicon.acts)}

    def carried(draw: Draw) -> Mapping[str, object]:
        n, m = groups(draw, lexicon, 2, several=0)
        return {"n": n, "m": m, "o": draw.one(lexicon.objects), "u": draw.one(lexicon.acts)}

    def places(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        return {"a": a, "b": b, "l": draw.one(lexicon.places), "u": draw.one(lexicon.acts)}

    return (
        fragment("beside", ENGLISH["beside"], worlds("un um near"), beside, lexicon),
        fragment("object", ENGLISH["object"], worlds("mn mk kn"), beside, lexicon),
        fragment("kin", ENGLISH["kin"], worlds("a kin"), relatives, lexicon),
        fragment("with", ENGLISH["with"], worlds("un um hn hm"), carried, lexicon),
        fragment("place", ENGLISH["place"], worlds("a b ua ub x ux", "not ux or x"), places, lexicon),
    )
