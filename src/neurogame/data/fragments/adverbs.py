"""`adverb`: adverbs and connectives whose clause is asserted, and those whose clause is not."""

from collections.abc import Mapping

from neurogame.data.forms import Draw
from neurogame.data.fragments.inflection import Verb
from neurogame.data.fragments.lexicon import Lexicon
from neurogame.data.fragments.phrases import persons
from neurogame.data.fragments.tables import Fragment, fragment, worlds

# Atoms: x, it happened; px, it may have happened; nx, it may not have happened; y, b did it.
_ADVERB = """
& {who} {c.past} | {who} did not {c.base}
>{v}, {a} {c.past} | x |p not nx
>{v}, {a} did not {c.base} | not x |p not px
{n} {a} {c.past} | px || px and nx
{m} {a} {c.past} | px || px and nx
{n} {a} did not {c.base} | nx || px and nx
it is possible that {a} {c.past} | px || px and nx
>*{a}, {v}, {c.past} | x |p not nx
>*{a}, {v}, did not {c.base} | not x |p not px
>*{n} {a} {c.past}, and {n} {a} did not | px and nx
it is impossible that {a} {c.past} | not px
{a} certainly did not {c.base} | not px
~{a} {c.past} | x |p not nx
~{a} did not {c.base} | not x |p not px
*it is not true that {a} {c.past} | not x |p not px
>{v}, {b} {c.past} | y
~{b} {c.past} | y
~{b} did not {c.base} | not y
>{v}, {b} did not {c.base} | not y
>{n} {b} {c.past} | py || py and ny
"""
_ADVERB_AXIOM = "(px or not x) and (nx or x) and (py or not y) and (ny or y)"
# Atoms: x, a did u; y, b did w; c, y depends on x; ay, a did w.
_CLAUSES = """
& {who} {u.past} | {who} did not {u.base}
>because {a} {u.past}, {b} {w.past} | x and y
>{b} {w.past} because {a} {u.past} | x and y
>*since {a} {u.past}, {b} {w.past} | x and y
>although {a} {u.past}, {b} {w.past} | x and y
>{a} {u.past}, so {b} {w.past} | x and y
>{a} {u.past}, which is why {b} {w.past} | x and y
>*even though {a} {u.past}, {b} {w.past} | x and y
>not only did {a} {u.base}, but {b} also {w.past} | x and y
>although {a} did not {u.base}, {b} {w.past} | not x and y
>because {b} did not {w.base}, {a} {u.past} | x and not y
if {a} {u.past}, {b} {w.past} | c |h not x or y
{b} {w.past} if {a} {u.past} | c |h not x or y
>*assuming that {a} {u.past}, {b} {w.past} | c
{a} {u.past}, or {b} {w.past} | x or y || x != y
either {a} {u.past} or {b} {w.past} | x or y || x != y
{b} {w.past}, or {a} {u.past} | x or y || x != y
either {b} {w.past} or {a} {u.past} | x or y || x != y
~{a} {u.past} | x
~{b} {w.past} | y
~{a} did not {u.base} | not x
~{b} did not {w.base} | not y
{a} {u.past}, but {b} did not {w.base} | x and not y
neither did {a} {u.base} nor did {b} {w.base} | not x and not y
{a} did not {u.base}, and {b} did not {w.base} | not x and not y
*it is not true that {b} {w.past} | not y
"""
_INSTEAD = """
& {who} {w.past} | {who} did not {w.base}
>instead of {u.ing}, {a} {w.past} | y and not x
>{a} {w.past} instead of {u.ing} | y and not x
>*rather than {u.base}, {a} {w.past} | y and not x
>{a} {w.past} without {u.ing} | y and not x
>besides {u.ing}, {a} also {w.past} | x and y
>apart from {u.ing}, {a} also {w.past} | x and y
>after {u.ing}, {a} {w.past} | x and y
>*before {u.ing}, {a} {w.past} | x and y | y
>while {u.ing}, {a} {w.past} | x and y
~{a} {u.past} | x
~{a} {w.past} | y
~{a} did not {u.base} | not x
~{a} did not {w.base} | not y
{a} {u.past} and {w.past} | x and y
{a} neither {u.past} nor {w.past} | not x and not y
>{a} {w.past} while {b} {u.past} | y and z
>{a} {u.past} because {b} {u.past} | x and z
~{b} {u.past} | z
~{b} did not {u.base} | not z
*it is not true that {a} {u.past} | not x
"""
# Atoms: e, a did it; r, people say so; b, b did it.
_ALMOST = """
& {who} {c.past} | {who} did not {c.base}
{a} {n} {c.past} | al
>{a} {v} {c.past} | e
~{a} {c.past} | e
~{a} did not {c.base} | not e
>{a} {n} {c.past}, but not quite | al
>*{a} came close to {c.ing} | al | k
>{w}, {a} {c.past} | r
>*{a} is said to have {c.done} | r
people say that {a} {c.past} | r
it is said that {a} {c.past} | r
nobody says that {a} {c.past} | not r
>{a} {n} {c.past}, and {b} {v} {c.past} | al and b
>*in the end, {a} {c.past} | e
>*in the end, {a} did not {c.base} | not e
~{b} {c.past} | b
~{b} did not {c.base} | not b
{b} {n} {c.past} | bl
~it is not true that {a} {c.past} | not e
"""
_VERIDICAL = """luckily;sadly;of course;in fact;surprisingly;fortunately;naturally;as expected;to everyone's
surprise;unfortunately;clearly;as usual;thankfully;as it turned out;strangely enough;needless to say"""
_OPEN = ("perhaps", "maybe", "possibly")
_REPORTED = "allegedly;reportedly;supposedly;according to the locals;according to the papers"
_FEATS = """win the race;catch the train;finish the marathon;reach the summit;pass the exam;break the record;find the
exit;lose the game;miss the bus;hit the target;drop the vase;burn the toast;spill the soup;sell the house;
fall into the pond;win the lottery;crash the car;solve the riddle;lose the election;drown the plant;wake the baby;
tear the curtain"""
_NEARLY = ("almost", "nearly", "very nearly")
_FINALLY = ("finally", "eventually", "actually", "only just")


def adverb(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Adverbs and connectives whose clause is asserted (luckily, because), left open (perhaps, if, or) or denied."""
    veridical, reported = (lexicon.of(text.split(";")) for text in (_VERIDICAL, _REPORTED))
    feats = [Verb.of(phrase) for phrase in lexicon.of(_FEATS.split(";"))]

    def words(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        u, w = draw.several((*lexicon.acts, *lexicon.tasks), 2)
        n, m = draw.several(_OPEN, 2)
        return {"a": a, "b": b, "u": u, "w": w, "c": draw.one(lexicon.tasks), "v": draw.one(veridical), "n": n, "m": m}

    def acts(draw: Draw) -> Mapping[str, object]:
        return {**words(draw), **dict(zip("uw", draw.several(lexicon.acts, 2), strict=True))}

    def almost(draw: Draw) -> Mapping[str, object]:
        adverbs = {"n": draw.one(_NEARLY), "v": draw.one(_FINALLY), "w": draw.one(reported)}
        return {**words(draw), **adverbs, "c": draw.one(feats)}

    not_both = "not (e and al) and not (b and bl)"
    return (
        fragment("adverb", _ADVERB, worlds("x px nx y py ny", _ADVERB_AXIOM), words, lexicon),
        fragment("clauses", _CLAUSES, worlds("x y c", "not c or not x or y"), words, lexicon),
        fragment("instead", _INSTEAD, worlds("x y z"), acts, lexicon),
        fragment("almost", _ALMOST, worlds("e r b k al bl", not_both), almost, lexicon),
    )
