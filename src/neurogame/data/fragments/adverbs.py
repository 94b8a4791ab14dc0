"""`adverb`: adverbs and connectives whose clause is asserted, and those whose clause is not."""

from collections.abc import Mapping

from neurogame.data.forms import Draw
from neurogame.data.fragments.english import section
from neurogame.data.fragments.form_tables import Fragment, fragment, worlds
from neurogame.data.fragments.inflection import Verb
from neurogame.data.fragments.lexicon import Lexicon
from neurogame.data.fragments.noun_phrases import persons

ENGLISH = section("adverbs")

_ADVERB_AXIOM = "(px or not x) and (nx or x) and (py or not y) and (ny or y)"


def adverb(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Adverbs and connectives whose clause is asserted (luckily, because), left open (perhaps, if, or) or denied."""
    veridical, reported = (lexicon.of(text.split(";")) for text in (ENGLISH["veridical"], ENGLISH["reported"]))
    feats = [Verb.of(phrase) for phrase in lexicon.of(ENGLISH["feats"].split(";"))]

    def words(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        u, w = draw.several((*lexicon.acts, *lexicon.tasks), 2)
        n, m = draw.several(ENGLISH["open"], 2)
        return {"a": a, "b": b, "u": u, "w": w, "c": draw.one(lexicon.tasks), "v": draw.one(veridical), "n": n, "m": m}

    def acts(draw: Draw) -> Mapping[str, object]:
        return {**words(draw), **dict(zip("uw", draw.several(lexicon.acts, 2), strict=True))}

    def almost(draw: Draw) -> Mapping[str, object]:
        adverbs = {"n": draw.one(ENGLISH["nearly"]), "v": draw.one(ENGLISH["finally"]), "w": draw.one(reported)}
        return {**words(draw), **adverbs, "c": draw.one(feats)}

    not_both = "not (e and al) and not (b and bl)"
    return (
        fragment("adverb", ENGLISH["adverb"], worlds("x px nx y py ny", _ADVERB_AXIOM), words, lexicon),
        fragment("clauses", ENGLISH["clauses"], worlds("x y c", "not c or not x or y"), words, lexicon),
        fragment("instead", ENGLISH["instead"], worlds("x y z"), acts, lexicon),
        fragment("almost", ENGLISH["almost"], worlds("e r b k al bl", not_both), almost, lexicon),
    )
