"""`number`: numerals with exactly, at least, at most; how many each of two has; comparatives and measures."""

from collections.abc import Mapping

from neurogame.data.forms import Draw
from neurogame.data.fragments.english import section
from neurogame.data.fragments.form_tables import Fragment, fragment, worlds
from neurogame.data.fragments.inflection import Phrase, Verb, plural
from neurogame.data.fragments.lexicon import GOODS, Lexicon
from neurogame.data.fragments.noun_phrases import persons

ENGLISH = section("numbers")


def number(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """How many, how much, and who has more. A bare "three" is read as exactly three and as at least three."""
    numeral = ENGLISH["numerals"].split()
    did = [Verb.of(base) for base in lexicon.of(ENGLISH["did"].split())]
    nouns = [noun for kind in GOODS if kind not in ENGLISH["bulky"] for noun in lexicon.kinds[kind]] + list(
        lexicon.objects
    )
    ends = lexicon.of(ENGLISH["ends"].split(";"))
    measures = lexicon.of(f"{noun}:{verb}" for verb, text in ENGLISH["measures"].items() for noun in text.split())
    measured = lexicon.of(f"{noun}:{size}" for size, text in ENGLISH["measured"].items() for noun in text.split())
    degrees = [entry.split() for entry in lexicon.of(ENGLISH["degrees"].split(";"))]
    sizes = {entry.split()[0]: entry.split() for entry in ENGLISH["sizes"].split(";")}

    def numerals(draw: Draw) -> dict[str, object]:
        i = draw.one(range(3, 10))
        j = draw.one(range(i + 2, len(numeral)))
        return {"i": numeral[i], "j": numeral[j], "i_digits": i, "j_digits": j}

    def counts(draw: Draw) -> Mapping[str, object]:
        if draw.chance(0.5):
            noun, act = draw.one(lexicon.people), draw.one(lexicon.acts)
            many = one = act.past
        else:
            noun, end = draw.one(nouns), draw.one(ends)
            many, one = end.format(was="were"), end.format(was="was")
        return {**numerals(draw), "n": noun, "ns": plural(noun), "e": many, "e_one": one}

    def bought(draw: Draw) -> Mapping[str, object]:
        a, b, c = persons(draw, lexicon, 3)
        noun = draw.one(nouns)
        return {**numerals(draw), "a": a, "b": b, "c": c, "n": noun, "ns": plural(noun), "g": draw.one(did)}

    def tall(draw: Draw) -> Mapping[str, object]:
        if draw.chance(0.6):
            three: list[Phrase] = persons(draw, lexicon, 3)
            x, r, s, most = draw.one(degrees)
        else:
            noun, size = draw.one(measured).split(":")
            x, r, s, most = sizes[size]
            three = [Phrase(f"the {colour} {noun}") for colour in draw.several(ENGLISH["which"], 3)]
        be, are = draw.one((("is", "are"), ("was", "were")))
        words = {"x": x, "r": r.replace("_", " "), "s": s, "most": most.replace("_", " "), "be": be, "are": are}
        return {**words, **dict(zip("abc", three, strict=True))}

    def measure(draw: Draw) -> Mapping[str, object]:
        noun, verb = draw.one(measures).split(":")
        return {**numerals(draw), "o": noun, **dict(zip(("m", "unit"), verb.split(), strict=True))}

    return (
        fragment("count", ENGLISH["counts"], worlds("n", values=9), counts, lexicon),
        fragment("bought", ENGLISH["bought"], worlds("n", values=9), bought, lexicon),
        fragment("more", ENGLISH["more"], worlds("a b c", values=3), bought, lexicon),
        fragment("taller", ENGLISH["tall"], worlds("a b c", values=3), tall, lexicon, ""),
        fragment("measure", ENGLISH["measure"], worlds("n", values=9), measure, lexicon),
    )
