"""`attachment`: prepositional phrases and possessives, and to whom they belong."""

from collections.abc import Mapping

from neurogame.data.forms import Draw
from neurogame.data.fragments.lexicon import Lexicon
from neurogame.data.fragments.phrases import groups, persons
from neurogame.data.fragments.tables import Fragment, fragment, worlds

# Atoms: un, n did u; um; near, n was {r} m (and m was {s} n).
_BESIDE = """
& {who} {u.past} | {who} did not {u.base}
>the {n} {r} the {m} {u.past} | un and near
>the {m} {s} the {n} {u.past} | um and near
>the {n} who {n.was} {r} the {m} {u.past} | un and near
>*the {n} standing {r} the {m} {u.past} | un and near
>*the {m} standing {s} the {n} did not {u.base} | near and not um
>the {n} {r} the {m} did not {u.base} | near and not un
>the {m} {s} the {n} did not {u.base} | near and not um
>the {n} {n.was} {r} the {m}, and the {n} {u.past} | un and near
>the {n} {n.was} {r} the {m} and did not {u.base} | near and not un
~the {n} {u.past} | un
~the {m} {u.past} | um
~the {n} did not {u.base} | not un
~the {m} did not {u.base} | not um
the {n} {n.was} {r} the {m} | near
the {m} {m.was} {s} the {n} | near
the {n} {n.was} not {r} the {m} | not near
*it is not true that the {m} {m.was} {s} the {n} | not near
*it was the {n} who {u.past} | un | un and not um
*it was the {m} who {u.past} | um | um and not un
both the {n} and the {m} {u.past} | un and um
neither the {n} nor the {m} {u.past} | not un and not um
*the {n} {u.past}, but the {m} did not | un and not um
"""
_OBJECT = """
& {who} {v.past} the {n} | {who} did not {v.base} the {n}
>the {m} {v.past} the {n} {r} the {k} | mn
>the {m} {r} the {k} {v.past} the {n} | mn
>the {m} did not {v.base} the {n} {r} the {k} | not mn
>the {n} {r} the {k} {n.was} {v.done} by the {m} | mn
>the {n} {r} the {k} {n.was} not {v.done} by the {m} | not mn
>the {m} {v.past} the {k} {r} the {n} | mk
>the {m} did not {v.base} the {k} {r} the {n} | not mk
>the {k} {r} the {m} {v.past} the {n} | kn
>the {k} {r} the {m} did not {v.base} the {n} | not kn
>*the {n} {n.was} {v.done} by the {m} {r} the {k} | mn
>the {m} {r} the {k} did not {v.base} the {n} | not mn
<the {m} {v.past} the {n} | mn
<the {m} {v.past} the {k} | mk
<the {k} {v.past} the {n} | kn
<the {n} {n.was} {v.done} by the {m} | mn
<the {k} {k.was} {v.done} by the {m} | mk
<the {n} {n.was} {v.done} by the {k} | kn
<the {m} did not {v.base} the {n} | not mn
<the {m} did not {v.base} the {k} | not mk
<the {k} did not {v.base} the {n} | not kn
<the {n} {n.was} not {v.done} by the {m} | not mn
<the {n} {n.was} not {v.done} by the {k} | not kn
<*it was the {m} who {v.past} the {n} | mn | mn and not kn
<*it was the {k} who {v.past} the {n} | kn | kn and not mn
<*it is not true that the {m} {v.past} the {n} | not mn
"""
# Atoms: a did u; kin, a's relative did u; had, owned: the same of "had a {o}".
_KIN = """
& {who} {u.past} | {who} did not {u.base}
{a}'s {k} {u.past} | kin
~{a} {u.past} | a
~{a} did not {u.base} | not a
the {k} of {a} {u.past} | kin
{a}'s {k} did not {u.base} | not kin
the {k} of {a} did not {u.base} | not kin
both {a} and {a}'s {k} {u.past} | a and kin
{a} {u.past}, but {a}'s {k} did not | a and not kin
{a}'s {k} {u.past}, but {a} did not | kin and not a
neither {a} nor {a}'s {k} {u.past} | not a and not kin
{a} {u.past}, and so did {a}'s {k} | a and kin
{a} did not {u.base}, and neither did {a}'s {k} | not a and not kin
*it was {a}'s {k} who {u.past} | kin | kin and not a
*it is not true that {a} {u.past} | not a
*it is not true that {a}'s {k} {u.past} | not kin
"""
# Atoms: un, um did u; hn, hm had the thing.
_WITH = """
& {who} {u.past} | {who} did not {u.base}
>the {n} with the {o} {u.past} | un and hn |p un and hn and not hm
>the {m} with the {o} {u.past} | um and hm |p um and hm and not hn
>the {n} with the {o} did not {u.base} | hn and not un |p hn and not un and not hm
>the {n} without the {o} {u.past} | un and not hn
>*the {n} carrying the {o} {u.past} | un and hn |p un and hn and not hm
>*the {m} carrying the {o} did not {u.base} | hm and not um |p hm and not um and not hn
~the {n} {u.past} | un
~the {m} {u.past} | um
~the {n} did not {u.base} | not un
~the {m} did not {u.base} | not um
~the {n} had the {o} | hn |p hn and not hm
~the {m} had the {o} | hm |p hm and not hn
~the {n} did not have the {o} | not hn
~the {m} did not have the {o} | not hm
*it was the {n} who had the {o} | hn
*it is not true that the {n} {u.past} | not un
"""
# Atoms: a, b did u there; la, lb were there; ea, eb did u (anywhere).
_PLACE = """
{a} {u.past} in the {l} | ua and a
{b} {u.past} in the {l} | ub and b
~{a} {u.past} | ua
~{b} {u.past} | ub
~{a} was in the {l} | a
~{b} was in the {l} | b
~{a} was not in the {l} | not a
~{b} was not in the {l} | not b
~{a} did not {u.base} | not ua
~{b} did not {u.base} | not ub
>{a} {u.past} in the {l} with {b} | ua and a and b | ua and a and b and ub
{a} and {b} were in the {l} | a and b
neither {a} nor {b} was in the {l} | not a and not b
*it was in the {l} that {a} {u.past} | ua and a
*nobody was in the {l} | not a and not b and not x
*nobody {u.past} in the {l} | not (ua and a) and not (ub and b) and not ux
"""
_SIDES = (
    ("beside", "beside"),
    ("near", "near"),
    ("next to", "next to"),
    ("opposite", "opposite"),
    ("behind", "in front of"),
    ("in front of", "behind"),
)
_KINSHIP = "brother sister boss cousin friend colleague uncle aunt grandmother nephew niece"


def attachment(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Phrases that belong to a noun: whose act it was, who stood where, who had what."""
    kin = lexicon.of(_KINSHIP.split())

    def beside(draw: Draw) -> Mapping[str, object]:
        n, m, k = groups(draw, lexicon, 3)
        r, s = draw.one(_SIDES)
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
        fragment("beside", _BESIDE, worlds("un um near"), beside, lexicon),
        fragment("object", _OBJECT, worlds("mn mk kn"), beside, lexicon),
        fragment("kin", _KIN, worlds("a kin"), relatives, lexicon),
        fragment("with", _WITH, worlds("un um hn hm"), carried, lexicon),
        fragment("place", _PLACE, worlds("a b ua ub x ux", "not ux or x"), places, lexicon),
    )
