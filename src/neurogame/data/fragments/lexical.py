"""What words mean: `antonym` (opposites, co-hyponyms, synonyms) and `kind` (hypernyms)."""

from collections.abc import Callable, Mapping

from neurogame.data.forms import Draw
from neurogame.data.fragments.english import section
from neurogame.data.fragments.form_tables import Fragment, fragment, worlds
from neurogame.data.fragments.inflection import Verb, plural
from neurogame.data.fragments.lexicon import COLOURS, GOODS, WIDER, Lexicon
from neurogame.data.fragments.noun_phrases import persons
from neurogame.data.fragments.quantifiers import crowds, quantified

ENGLISH = section("lexical")


def antonym(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Opposites with and without a middle, members of one set, and words that mean the same."""

    def opposites(text: str) -> Callable[[Draw], Mapping[str, object]]:
        entries = lexicon.of(text.split(";"))

        def words(draw: Draw) -> Mapping[str, object]:
            pair, subjects, others = draw.one(entries).split(":")
            x, y = pair.split("/") if draw.chance(0.5) else pair.split("/")[::-1]
            subject, be = f"the {draw.one(lexicon.known(subjects))}", draw.one(("is", "was"))
            return {"s": subject, "be": be, "x": x, "y": y, "p": draw.one(others.split(","))}

        return words

    def members(draw: Draw) -> Mapping[str, object]:
        frame, members = draw.one(ENGLISH["sets"].replace("\n", "").split(";")).split(":")
        options = {"colours": lexicon.colours, "cities": lexicon.cities, "days": lexicon.days, "months": lexicon.months}
        (a,), o, e = persons(draw, lexicon, 1), draw.one(lexicon.objects), draw.one(ENGLISH["occasions"].split())
        s, n = frame.format(a=a, o=o, e=e).split("/")
        x, y, w = draw.several(options[members], 3) if len(options[members]) > 2 else draw.several(COLOURS.split(), 3)
        return {"s": s, "n": n, "x": x, "y": y, "w": w}

    def thing(draw: Draw) -> Mapping[str, object]:
        kind = draw.one(GOODS)
        x, y = draw.several(lexicon.kinds[kind], 2)
        subject = draw.one(ENGLISH["subjects"].split(";")).format(a=persons(draw, lexicon, 1)[0])
        return {"s": subject, "x": x, "y": y, "g": kind, "q": draw.one(ENGLISH["large"].split())}

    def verbs(text: str) -> Callable[[Draw], Mapping[str, object]]:
        entries = lexicon.of(text.split(";"))

        def words(draw: Draw) -> Mapping[str, object]:
            pair, objects = draw.one(entries).split(":")
            x, y = pair.split("/") if draw.chance(0.5) else pair.split("/")[::-1]
            a, b = persons(draw, lexicon, 2)
            both = {"x": Verb.of(x.replace("_", " ")), "y": Verb.of(y.replace("_", " "))}
            return {"a": a, "b": b, "o": draw.one(objects.split(",")), **both}

        return words

    return (
        fragment(
            "complementary", ENGLISH["complementary"], worlds("x p"), opposites(ENGLISH["complements"]), lexicon, ""
        ),
        fragment(
            "contrary",
            ENGLISH["contrary"],
            worlds("x y p vx vy", _OPPOSITES),
            opposites(ENGLISH["contraries"]),
            lexicon,
            "",
        ),
        fragment("synonym", ENGLISH["synonyms"], worlds("x p"), opposites(ENGLISH["alike"]), lexicon, ""),
        fragment("member", ENGLISH["one_of"], worlds("k", values=5), members, lexicon, "present"),
        fragment("thing", ENGLISH["thing"], worlds("k q", "q < 2", values=4), thing, lexicon, "present"),
        fragment(
            "opposed",
            ENGLISH["verbs"],
            worlds("x y bx by", "not (x and y) and not (bx and by)"),
            verbs(ENGLISH["opposed"]),
            lexicon,
        ),
        fragment("equal", ENGLISH["same"], worlds("x b"), verbs(ENGLISH["equal"]), lexicon),
    )


_OPPOSITES = "not (x and y) and (x or not vx) and (y or not vy)"


def kind(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """A rose is a flower and a flower is a plant: in upward and downward contexts, and under quantifiers."""
    seen, bought, done = (
        [Verb.of(base) for base in lexicon.of(text.split())]
        for text in (ENGLISH["seen"], ENGLISH["bought"], ENGLISH["done"])
    )

    def words(draw: Draw) -> Mapping[str, object]:
        k = draw.one(lexicon.kinds)
        x, y = draw.several(lexicon.kinds[k], 2)
        g = WIDER.get(k, k) if draw.chance(0.4) else k
        place = draw.one(ENGLISH["habitats"][WIDER[k]].split() if k in WIDER else ENGLISH["stores"].split())
        nouns = {"x": x, "y": y, "k": g, "xs": plural(x), "ys": plural(y), "ks": plural(g)}
        (a,), p, v = persons(draw, lexicon, 1), draw.one(seen if k in WIDER else bought), draw.one(done)
        return {**nouns, "a": a, "l": place, "q": draw.one(ENGLISH["large"].split()), "p": p, "v": v}

    sorts = {"{x}|{xs}": "x", "{k}|{ks}": "xyr", "{y}|{ys}": "y"}
    quantified_forms = quantified(ENGLISH["all"], sorts, {"": 1})
    return (
        fragment("found", ENGLISH["found"], worlds("x y r q n", "x or not q"), words, lexicon),
        fragment("where", ENGLISH["where"], worlds("x y r q", "x or not q"), words, lexicon, "present"),
        fragment("all", quantified_forms, crowds("xyr", "xy", ("x", "xyr", "y"), (1,), most=2), words, lexicon),
    )
