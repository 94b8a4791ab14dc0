"""`number`: numerals with exactly, at least, at most; how many each of two has; comparatives and measures."""

from collections.abc import Mapping

from neurogame.data.forms import Draw
from neurogame.data.fragments.inflection import Phrase, Verb, plural
from neurogame.data.fragments.lexicon import GOODS, Lexicon
from neurogame.data.fragments.phrases import persons
from neurogame.data.fragments.tables import Fragment, fragment, worlds

# Number n: how many did it. i < j, at least two apart, and i at least three; in the worlds i is 3 and j is 6.
_COUNTS = """
exactly {i} {ns} {e} | n == 3
at least {i} {ns} {e} | n >= 3
at most {i} {ns} {e} | n <= 3 |p 1 <= n <= 3
more than {i} {ns} {e} | n > 3
fewer than {i} {ns} {e} | n < 3 |p 1 <= n < 3
{i} {ns} {e} | n == 3 | n >= 3
only {i} {ns} {e} | n == 3
no more than {i} {ns} {e} | n <= 3 |p 1 <= n <= 3
*no fewer than {i} {ns} {e} | n >= 3
exactly {j} {ns} {e} | n == 6
at least {j} {ns} {e} | n >= 6
at most {j} {ns} {e} | n <= 6 |p 1 <= n <= 6
more than {j} {ns} {e} | n > 6
fewer than {j} {ns} {e} | n < 6 |p 1 <= n < 6
{j} {ns} {e} | n == 6 | n >= 6
only {j} {ns} {e} | n == 6
no more than {j} {ns} {e} | n <= 6 |p 1 <= n <= 6
*{j} or more {ns} {e} | n >= 6
*{i} or fewer {ns} {e} | n <= 3 |p 1 <= n <= 3
between {i} and {j} {ns} {e} | 3 <= n <= 6 | 3 < n < 6
exactly {i_digits} {ns} {e} | n == 3
more than {i_digits} {ns} {e} | n > 3
fewer than {j_digits} {ns} {e} | n < 6 |p 1 <= n < 6
no {ns} {e} | n == 0
over {j} {ns} {e} | n > 6
under {i} {ns} {e} | n < 3 |p 1 <= n < 3
exactly {j_digits} {ns} {e} | n == 6
at least one {n} {e_one} | n > 0
"""
# The same of what someone bought.
_BOUGHT = """
& {who} {g.past} some {ns} | {who} {g.past} no {ns}
{a} {g.past} exactly {i} {ns} | n == 3
{a} {g.past} at least {i} {ns} | n >= 3
{a} {g.past} at most {i} {ns} | n <= 3 |p 1 <= n <= 3
{a} {g.past} more than {i} {ns} | n > 3
{a} {g.past} fewer than {i} {ns} | n < 3 |p 1 <= n < 3
{a} {g.past} {i} {ns} | n == 3 | n >= 3
{a} {g.past} only {i} {ns} | n == 3
{a} {g.past} exactly {j} {ns} | n == 6
{a} {g.past} at least {j} {ns} | n >= 6
{a} {g.past} at most {j} {ns} | n <= 6 |p 1 <= n <= 6
{a} {g.past} more than {j} {ns} | n > 6
{a} {g.past} fewer than {j} {ns} | n < 6 |p 1 <= n < 6
{a} {g.past} {j} {ns} | n == 6 | n >= 6
{a} did not {g.base} more than {i} {ns} | n <= 3 |p 1 <= n <= 3
{a} did not {g.base} any {ns} | n == 0
{a} {g.past} no {ns} | n == 0
{a} {g.past} over {j} {ns} | n > 6
{a} {g.past} exactly {j_digits} {ns} | n == 6
{a} {g.past} a {n} | n > 0 | n == 1
*{a} {g.past} no fewer than {j} {ns} | n >= 6
*{a} {g.past} {i} {ns} or fewer | n <= 3 |p 1 <= n <= 3
*{a} {g.past} {j_digits} {ns} or more | n >= 6
*the number of {ns} that {a} {g.past} was {j_digits} | n == 6
"""
# Numbers a, b, c: how many each of them has.
_MORE = """
& {who} {g.past} some {ns} | {who} {g.past} no {ns}
{a} {g.past} more {ns} than {b} | a > b
{b} {g.past} fewer {ns} than {a} | a > b
{b} {g.past} more {ns} than {a} | b > a
{a} {g.past} fewer {ns} than {b} | b > a
{a} {g.past} exactly as many {ns} as {b} | a == b
{a} and {b} {g.past} the same number of {ns} | a == b
*{a} and {b} {g.past} equally many {ns} | a == b
{a} did not {g.base} more {ns} than {b} | a <= b
{b} {g.past} at least as many {ns} as {a} | a <= b
{a} {g.past} at least as many {ns} as {b} | a >= b
>{a} {g.past} exactly {i} {ns}, and {b} {g.past} exactly {j} | a < b
>{b} {g.past} exactly {i_digits} {ns}, and {a} {g.past} exactly {j_digits} | b < a
>{a} {g.past} exactly {i} {ns}, and so did {b} | a == b
>*{a} {g.past} exactly {j} {ns}, but {b} {g.past} only {i} | b < a
>*{a} {g.past} no {ns}, but {b} {g.past} {i} | a < b
{a} {g.past} more {ns} than {c} | a > c
{c} {g.past} more {ns} than {a} | c > a
{b} {g.past} more {ns} than {c} | b > c
{c} {g.past} more {ns} than {b} | c > b
{a} {g.past} more {ns} than {b}, and {b} {g.past} more than {c} | a > b > c
{c} {g.past} more {ns} than both {a} and {b} | c > a and c > b
"""
_TALL = """
& {who} {be} {how} | {who} {be} not {how}
{a} {be} {r} than {b} | a > b
{b} {be} {s} than {a} | a > b
{b} {be} {r} than {a} | b > a
{a} {be} {s} than {b} | b > a
{a} {be} exactly as {x} as {b} | a == b
*{a} and {b} {are} equally {x} | a == b
{a} {be} not {r} than {b} | a <= b
{b} {be} not {r} than {a} | b <= a
{a} {be} at least as {x} as {b} | a >= b
{b} {be} at least as {x} as {a} | b >= a
{a} {be} {r} than {c} | a > c
{c} {be} {s} than {a} | a > c
{c} {be} {r} than {a} | c > a
{b} {be} {r} than {c} | b > c
{c} {be} {r} than {b} | c > b
{c} {be} not {r} than {a} | c <= a
>{a} {be} {r} than {b}, and {b} {be} {r} than {c} | a > b > c
>{c} {be} {s} than {b}, and {b} {be} {s} than {a} | a > b > c
>{a} {be} {r} than {b}, but {c} {be} {r} than {a} | c > a > b
>*{a} {be} {r} than {b} and {s} than {c} | c > a > b
>{a} {be} exactly as {x} as {b}, and {b} {be} {r} than {c} | a == b and b > c
{a} {be} {r} than both {b} and {c} | a > b and a > c
*of {a}, {b} and {c}, {c} {be} the {most} | c > a and c > b
*of {a}, {b} and {c}, {a} {be} the {most} | a > b and a > c
"""
_MEASURE = """
the {o} {m} exactly {i} {unit} | n == 3
the {o} {m} at least {i} {unit} | n >= 3
the {o} {m} at most {i} {unit} | n <= 3
the {o} {m} more than {i} {unit} | n > 3
the {o} {m} less than {i} {unit} | n < 3
the {o} {m} exactly {j} {unit} | n == 6
the {o} {m} at least {j} {unit} | n >= 6
the {o} {m} at most {j} {unit} | n <= 6
the {o} {m} more than {j} {unit} | n > 6
the {o} {m} less than {j} {unit} | n < 6
*the {o} {m} no more than {i} {unit} | n <= 3
*the {o} {m} no less than {j} {unit} | n >= 6
the {o} {m} between {i} and {j} {unit} | 3 <= n <= 6 | 3 < n < 6
the {o} {m} exactly {j_digits} {unit} | n == 6
the {o} {m} exactly {i_digits} {unit} | n == 3
the {o} {m} over {j} {unit} | n > 6
the {o} {m} under {i} {unit} | n < 3
the {o} {m} {i} {unit} or more | n >= 3
"""
_NUMERALS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"""
_MEASURES = {  # verb and unit → what is measured
    "weighs kilos": "parcel table crate dog statue tent anchor drum",
    "costs euros": "lamp ticket book coat vase meal kettle scarf",
    "lasts minutes": "film break flight lesson speech ride song show",
    "holds litres": "bucket barrel tank kettle jug pot bottle basin",
    "measures metres": "fence hedge net banner cable rope",
    "took days": "trip repair search journey harvest trial",
}
_DEGREES = """tall taller shorter tallest;old older younger oldest;heavy heavier lighter heaviest;fast faster slower
fastest;rich richer poorer richest;strong stronger weaker strongest"""
_SIZES = """big bigger smaller biggest;expensive more_expensive cheaper most_expensive;long longer shorter longest;wide
wider narrower widest;deep deeper shallower deepest;old older newer oldest;thick thicker thinner thickest"""
_MEASURED = {
    "big": "box tent basket kitchen parcel cupboard",
    "expensive": "lamp watch camera sofa ticket guitar vase",
    "long": "rope fence ladder bench table shelf scarf",
    "wide": "road carpet corridor bed desk door",
    "deep": "bowl well pond bath pool drawer",
    "old": "church clock car piano house statue",
    "thick": "book wall carpet blanket plank rope",
}
_WHICH = ("red", "blue", "green", "black", "white", "grey", "yellow")
_BULKY = ("vehicle", "piece of furniture")
_DID = "buy sell find count draw photograph carry order borrow"
_ENDS = """{was} sold yesterday;{was} on the table;{was} in the basket;{was} missing;{was} stolen;{was} left in the
yard;{was} delivered on time;fell on the floor;arrived late;{was} wet;{was} repaired;{was} for sale"""


def number(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """How many, how much, and who has more. A bare "three" is read as exactly three and as at least three."""
    numeral = _NUMERALS.split()
    did = [Verb.of(base) for base in lexicon.of(_DID.split())]
    nouns = [noun for kind in GOODS if kind not in _BULKY for noun in lexicon.kinds[kind]] + list(lexicon.objects)
    ends = lexicon.of(_ENDS.split(";"))
    measures = lexicon.of(f"{noun}:{verb}" for verb, text in _MEASURES.items() for noun in text.split())
    measured = lexicon.of(f"{noun}:{size}" for size, text in _MEASURED.items() for noun in text.split())
    degrees = [entry.split() for entry in lexicon.of(_DEGREES.split(";"))]
    sizes = {entry.split()[0]: entry.split() for entry in _SIZES.split(";")}

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
            three = [Phrase(f"the {colour} {noun}") for colour in draw.several(_WHICH, 3)]
        be, are = draw.one((("is", "are"), ("was", "were")))
        words = {"x": x, "r": r.replace("_", " "), "s": s, "most": most.replace("_", " "), "be": be, "are": are}
        return {**words, **dict(zip("abc", three, strict=True))}

    def measure(draw: Draw) -> Mapping[str, object]:
        noun, verb = draw.one(measures).split(":")
        return {**numerals(draw), "o": noun, **dict(zip(("m", "unit"), verb.split(), strict=True))}

    return (
        fragment("count", _COUNTS, worlds("n", values=9), counts, lexicon),
        fragment("bought", _BOUGHT, worlds("n", values=9), bought, lexicon),
        fragment("more", _MORE, worlds("a b c", values=3), bought, lexicon),
        fragment("taller", _TALL, worlds("a b c", values=3), tall, lexicon, ""),
        fragment("measure", _MEASURE, worlds("n", values=9), measure, lexicon),
    )
