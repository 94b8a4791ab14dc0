"""Who did what to whom: `roles` and `relative` clauses."""

from collections.abc import Mapping

from neurogame.data.forms import Draw
from neurogame.data.fragments.inflection import Verb
from neurogame.data.fragments.lexicon import Lexicon
from neurogame.data.fragments.phrases import adjunct, groups, persons, thing
from neurogame.data.fragments.tables import Fragment, fragment, worlds

# Atoms: ab, a did it to b; xb, someone else did it to b; ay, a did it to someone else. Then the same exchanged.
_VOICE = """
{a} {v.past} {b} | ab
{b} was {v.done} by {a} | ab
it was {a} who {v.past} {b} | ab
it was {b} who {a} {v.past} | ab
it was {b} who was {v.done} by {a} | ab
*the one who {v.past} {b}{t} was {a} | ab
*what {a} did was {v.base} {b} | ab
*{b} was the one {a} {v.past} | ab
{a} did not {v.base} {b} | not ab
{b} was not {v.done} by {a} | not ab
it is not true that {a} {v.past} {b} | not ab
*it is false that {b} was {v.done} by {a} | not ab
{b} {v.past} {a} | ba
{a} was {v.done} by {b} | ba
it was {b} who {v.past} {a} | ba
it was {a} who {b} {v.past} | ba
it was {a} who was {v.done} by {b} | ba
*the one who {v.past} {a}{t} was {b} | ba
*what {b} did was {v.base} {a} | ba
*{a} was the one {b} {v.past} | ba
{b} did not {v.base} {a} | not ba
{a} was not {v.done} by {b} | not ba
it is not true that {b} {v.past} {a} | not ba
*it is false that {a} was {v.done} by {b} | not ba
someone {v.past} {b} | ab or xb
{b} was {v.done} | ab or xb
nobody {v.past} {b} | not ab and not xb
{b} was not {v.done} | not ab and not xb
{a} {v.past} someone | ab or ay
{a} {v.past} nobody | not ab and not ay
{a} did not {v.base} anyone | not ab and not ay
someone {v.past} {a} | ba or xa
nobody {v.past} {a} | not ba and not xa
{b} {v.past} someone | ba or by
{b} did not {v.base} anyone | not ba and not by
"""
# Atoms: ab, a did it to b; and so on for three people.
_THIRD = """
& {who} {v.past} {a} | {who} did not {v.base} {a}
{a} {v.past} {b} | ab
{a} {v.past} {c} | ac
{b} {v.past} {c} | bc
{c} {v.past} {b} | cb
{b} was {v.done} by {a} | ab
{c} was {v.done} by {a} | ac
{c} was {v.done} by {b} | bc
{a} and {b} {v.past} {c} | ac and bc
both {a} and {b} {v.past} {c} | ac and bc
*{c} was {v.done} by both {a} and {b} | ac and bc
{a} {v.past} {b} and {c} | ab and ac
{a} {v.past} both {b} and {c} | ab and ac
{b} and {c} were {v.done} by {a} | ab and ac
{b} and {c} {v.past} {a} | ba and ca
{a} was {v.done} by {b} and {c} | ba and ca
{a} {v.past} {b}, and {b} {v.past} {c} | ab and bc
{a} {v.past} {b}, and {c} {v.past} {a} | ab and ca
*{a} was {v.done} by {b}, and {c} was {v.done} by {a} | ba and ac
{a} {v.past} {b} but not {c} | ab and not ac
{a}, but not {b}, {v.past} {c} | ac and not bc
{a} {v.past} neither {b} nor {c} | not ab and not ac
neither {a} nor {b} {v.past} {c} | not ac and not bc
*{a} was {v.done} by neither {b} nor {c} | not ba and not ca
{a} did not {v.base} {b} | not ab
{a} did not {v.base} {c} | not ac
{b} did not {v.base} {c} | not bc
{c} was not {v.done} by {b} | not bc
{a} was not {v.done} by {c} | not ca
*it is false that {a} {v.past} {c} | not ac
"""
# Atoms: ab, a gave it to b; ba; other, something other than o went from a to b.
_GIVING = """
{a} {g.past} {b} the {o} | ab
{a} {g.past} the {o} to {b} | ab
the {o} was {g.done} to {b} by {a} | ab
it was {a} who {g.past} {b} the {o} | ab
*it was {b} who {a} {g.past} the {o} to | ab
{b} was {g.done} the {o} by {a} | ab
{a} {g.past} {b} something | ab or other
{a} {g.past} {b} nothing | not ab and not other
*{a} did not {g.base} anything to {b} | not ab and not other
{a} did not {g.base} {b} the {o} | not ab
{a} did not {g.base} the {o} to {b} | not ab
the {o} was not {g.done} to {b} by {a} | not ab
{b} {g.past} {a} the {o} | ba
{b} {g.past} the {o} to {a} | ba
the {o} was {g.done} to {a} by {b} | ba
it was {b} who {g.past} {a} the {o} | ba
*it was {a} who {b} {g.past} the {o} to | ba
{b} did not {g.base} {a} the {o} | not ba
{b} did not {g.base} the {o} to {a} | not ba
*it is not true that {b} {g.past} {a} the {o} | not ba
"""
_CONVERSE = """
{a} {g.past} {b} the {o} | ab
{a} {g.past} the {o} to {b} | ab
{b} {r.past} the {o} from {a} | ab
it was {b} who {r.past} the {o} from {a} | ab
*it was {a} that {b} {r.past} the {o} from | ab
{a} did not {g.base} {b} the {o} | not ab
{a} did not {g.base} the {o} to {b} | not ab
{b} did not {r.base} the {o} from {a} | not ab
*it is not true that {b} {r.past} the {o} from {a} | not ab
{b} {g.past} {a} the {o} | ba
{b} {g.past} the {o} to {a} | ba
{a} {r.past} the {o} from {b} | ba
it was {a} who {r.past} the {o} from {b} | ba
*it was {b} that {a} {r.past} the {o} from | ba
{b} did not {g.base} {a} the {o} | not ba
{a} did not {r.base} the {o} from {b} | not ba
*it is not true that {a} {r.past} the {o} from {b} | not ba
"""
# Numbers a, b, c: places in a row.
_ROW = """
& {who} was {r} {a}{w} | {who} was not {r} {a}{w}
{a} was {r} {b} | a < b
{b} was {s} {a} | a < b
{b} was {r} {a} | b < a
{a} was {s} {b} | b < a
{a} was not {r} {b} | a >= b | a > b
{b} was not {r} {a} | b >= a | b > a
{b} was {r} {c} | b < c
{c} was {s} {b} | b < c
{c} was {r} {b} | c < b
{b} was not {r} {c} | b >= c | b > c
{a} was {r} {c} | a < c
{c} was {s} {a} | a < c
{c} was {r} {a} | c < a
{a} was {r} {b}, and {b} was {r} {c} | a < b < c
*{c} was {s} {b}, who was {s} {a} | a < b < c
{c} was {r} {b}, and {b} was {r} {a} | c < b < a
*{a} was {r} {c}, who was {r} {b} | a < c < b
{a} was {r} both {b} and {c} | a < b and a < c
{a} was {s} both {b} and {c} | b < a and c < a
"""
_ROWS = (
    ("in front of", "behind", " in the queue"),
    ("to the left of", "to the right of", " in the photo"),
    ("ahead of", "behind", " in the race"),
    ("above", "below", " on the list"),
    ("ahead of", "behind", " in the rankings"),
)
_CONVERSES = (("sell", "buy"), ("lend", "borrow"), ("give", "receive"))
_GIFTS = "give hand send lend sell show pass bring throw"


def roles(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Active, passive, cleft and dative forms; exchanged roles; relations that hold in one direction only."""
    gifts = [Verb.of(base) for base in lexicon.of(_GIFTS.split())]

    def event(draw: Draw) -> Mapping[str, object]:
        a, b, c = persons(draw, lexicon, 3)
        return {"a": a, "b": b, "c": c, "v": draw.one(lexicon.deeds), "t": adjunct(draw, lexicon)}

    def gift(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        return {"a": a, "b": b, "g": draw.one(gifts), "o": thing(draw, lexicon)}

    def trade(draw: Draw) -> Mapping[str, object]:
        given, received = draw.one(_CONVERSES)
        return {**gift(draw), "g": Verb.of(given), "r": Verb.of(received)}

    def row(draw: Draw) -> Mapping[str, object]:
        a, b, c = persons(draw, lexicon, 3)
        first, second, where = draw.one(_ROWS)
        if draw.chance(0.5):
            first, second = second, first
        return {"a": a, "b": b, "c": c, "r": first, "s": second, "w": where}

    return (
        fragment("voice", _VOICE, worlds("ab ba xb xa ay by"), event, lexicon, end="{t}"),
        fragment("third", _THIRD, worlds("ab ac ba bc ca cb"), event, lexicon),
        fragment("giving", _GIVING, worlds("ab ba other"), gift, lexicon),
        fragment("converse", _CONVERSE, worlds("ab ba"), trade, lexicon),
        fragment("row", _ROW, worlds("a b c", values=3), row, lexicon, end="{w}"),
    )


# Atoms: mn, m did v to n; nm; un, n did u; um. Complex forms are premises only: as hypotheses they presuppose.
_WHO = """
& {who} {u.past} | {who} did not {u.base}
>the {n} who the {m} {v.past} {u.past} | mn and un
>the {n} that the {m} {v.past} {u.past} | mn and un
>*the {n} whom the {m} {v.past} {u.past} | mn and un
>the {n} who {v.past} the {m} {u.past} | nm and un
>the {n} that {v.past} the {m} {u.past} | nm and un
>the {n} who {n.was} {v.done} by the {m} {u.past} | mn and un
>the {m} {v.past} the {n} who {u.past} | mn and un
>*the {m} {v.past} the {n} that {u.past} | mn and un
>the {m} who {v.past} the {n} {u.past} | mn and um
>the {m} who the {n} {v.past} {u.past} | nm and um
>the {n} who the {m} {v.past} did not {u.base} | mn and not un
>the {n} who {v.past} the {m} did not {u.base} | nm and not un
>the {n} who did not {v.base} the {m} {u.past} | not nm and un
>*the {n} who {n.was} not {v.done} by the {m} {u.past} | not mn and un
>the {n}, who the {m} {v.past}, {u.past} | mn and un
>the {m}, who {v.past} the {n}, did not {u.base} | mn and not um
>the {n} {u.past}, and the {m} {v.past} the {n} | mn and un
>the {m} {v.past} the {n}, who {u.past} | mn and un
~the {n} {u.past} | un
~the {m} {u.past} | um
~the {n} did not {u.base} | not un
~the {m} did not {u.base} | not um
~the {m} {v.past} the {n} | mn
~the {n} {v.past} the {m} | nm
the {n} {n.was} {v.done} by the {m} | mn
the {m} {m.was} {v.done} by the {n} | nm
~the {m} did not {v.base} the {n} | not mn
~the {n} did not {v.base} the {m} | not nm
the {n} {n.was} not {v.done} by the {m} | not mn
*it was the {m} who {v.past} the {n} | mn
*it was the {n} who {v.past} the {m} | nm
*it is not true that the {n} {u.past} | not un
*it is not true that the {m} {v.past} the {n} | not mn
both the {n} and the {m} {u.past} | un and um
neither the {n} nor the {m} {u.past} | not un and not um
"""
# Atoms: nvm, n did v to m; nwk, n did w to k; and so on.
_CHAIN = """
& {who} {w.past} the {k} | {who} did not {w.base} the {k}
>the {n} who {v.past} the {m} {w.past} the {k} | nvm and nwk
>the {n} who the {m} {v.past} {w.past} the {k} | mvn and nwk
>the {n} {v.past} the {m} who {w.past} the {k} | nvm and mwk
>the {n} {v.past} the {m} who the {k} {w.past} | nvm and kwm
>the {n}, who {v.past} the {m}, {w.past} the {k} | nvm and nwk
>*the {n} that the {m} {v.past} {w.past} the {k} | mvn and nwk
>*the {n} {v.past} the {m} that {w.past} the {k} | nvm and mwk
>the {m} who {v.past} the {n} did not {w.base} the {k} | mvn and not mwk
>the {n} who {v.past} the {m} did not {w.base} the {k} | nvm and not nwk
>the {m} who the {n} did not {v.base} {w.past} the {k} | not nvm and mwk
<the {n} {v.past} the {m} | nvm
<the {m} {m.was} {v.done} by the {n} | nvm
<the {m} {v.past} the {n} | mvn
<the {n} {w.past} the {k} | nwk
<the {k} {k.was} {w.done} by the {n} | nwk
<the {m} {w.past} the {k} | mwk
<the {k} {k.was} {w.done} by the {m} | mwk
<the {k} {w.past} the {m} | kwm
<the {m} {m.was} {w.done} by the {k} | kwm
<the {n} did not {v.base} the {m} | not nvm
<the {m} did not {v.base} the {n} | not mvn
<the {n} did not {w.base} the {k} | not nwk
<the {m} did not {w.base} the {k} | not mwk
<*the {k} {k.was} not {w.done} by the {n} | not nwk
<*the {k} {k.was} not {w.done} by the {m} | not mwk
<*it was the {n} who {w.past} the {k} | nwk | nwk and not mwk
<*it was the {m} who {w.past} the {k} | mwk | mwk and not nwk
<*it is not true that the {n} {w.past} the {k} | not nwk
"""
# Atoms: a, a did it to the thing; b; q, the thing is q; s, someone else did.
_THINGS = """
& {who} {g.past} the {o} | {who} did not {g.base} the {o}
>the {o} that {a} {g.past} was {q} | a and q
>the {o} which {a} {g.past} was {q} | a and q
>the {o} {a} {g.past} was not {q} | a and not q
>the {o} that {a} {g.past} was not {q} | a and not q
>the {o} that {b} {g.past} was {q} | b and q
>*the {o} {b} {g.past} was {q} | b and q
>{a} {g.past} the {o}, which was {q} | a and q
>{a} {g.past} the {o}, which was not {q} | a and not q
>*{b} {g.past} the {o}, which was {q}, but {a} did not | b and q and not a
>the {o} that {a} did not {g.base} was {q} | not a and q
>{a} {g.past} the {o}, but {b} did not | a and not b
~{a} {g.past} the {o} | a
~{b} {g.past} the {o} | b
the {o} was {g.done} by {a} | a
the {o} was {g.done} by {b} | b
~{a} did not {g.base} the {o} | not a
~{b} did not {g.base} the {o} | not b
~the {o} was {q} | q
~the {o} was not {q} | not q
*it was {a} who {g.past} the {o} | a | a and not b
*it was {b} who {g.past} the {o} | b | b and not a
*it is not true that the {o} was {q} | not q
"""
_HANDLED = "clean wrap borrow mention draw choose pack describe recommend inspect drop carry"


def relative(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Subject and object relatives: what the main clause says, what the embedded one says, and of whom."""
    handled = [Verb.of(base) for base in lexicon.of(_HANDLED.split())]

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
        fragment("who", _WHO, worlds("mn nm un um"), pair, lexicon),
        fragment("chain", _CHAIN, worlds("nvm mvn nwk mwk kwm"), chain, lexicon),
        fragment("things", _THINGS, worlds("a b q"), things, lexicon),
    )
