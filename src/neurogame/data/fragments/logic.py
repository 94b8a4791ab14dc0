"""The words of logic between and around clauses: `conjunction`, `negation`, `conditional`."""

from collections.abc import Mapping

from neurogame.data.forms import Draw
from neurogame.data.fragments.inflection import Verb
from neurogame.data.fragments.lexicon import MOODS, Lexicon
from neurogame.data.fragments.phrases import adjunct, persons
from neurogame.data.fragments.tables import Fragment, fragment, worlds

# Atoms: a and b did u; aw and bw did w. "Or" is read inclusively and exclusively.
_SUBJECTS = """
& {who} {u.past} | {who} did not {u.base}
{a} and {b} {u.past} | a and b
both {a} and {b} {u.past} | a and b
{a} {u.past}, and so did {b} | a and b
*not only {a} but also {b} {u.past} | a and b
*{a} {u.past}, and {b} did too | a and b
{a} or {b} {u.past} | a or b || a != b
either {a} or {b} {u.past} | a or b || a != b
*at least one of the two, {a} or {b}, {u.past} | a or b
neither {a} nor {b} {u.past} | not a and not b
{a} did not {u.base}, and neither did {b} | not a and not b
*{a} did not {u.base}, nor did {b} | not a and not b
{a} {u.past}, but {b} did not | a and not b
{b} {u.past}, but {a} did not | b and not a
>{a} or {b} {u.past}, but it was not {a} | b and not a
>either {a} or {b} {u.past}, and it was not {b} | a and not b
*{a} {u.past}, unlike {b} | a and not b
{a} and {b} did not both {u.base} | not (a and b) | a != b
~{a} {u.past} | a
~{b} {u.past} | b
~{a} did not {u.base} | not a
~{b} did not {u.base} | not b
*it is not true that {b} {u.past} | not b
"""
_VERBS = """
& {who} {u.past} | {who} did not {u.base}
{a} {u.past} and {w.past} | u and w
{a} both {u.past} and {w.past} | u and w
{a} {u.past}, and then {a} {w.past} | u and w
*{a} not only {u.past} but also {w.past} | u and w
{a} {u.past} or {w.past} | u or w || u != w
{a} either {u.past} or {w.past} | u or w || u != w
{a} neither {u.past} nor {w.past} | not u and not w
{a} did not {u.base} and did not {w.base} | not u and not w
{a} {u.past} but did not {w.base} | u and not w
{a} did not {u.base} but {w.past} | w and not u
*{a} {w.past} instead of {u.ing} | w and not u
>{a} {u.past} or {w.past}, and {a} did not {u.base} | w and not u
~{a} {u.past} | u
~{a} {w.past} | w
~{a} did not {u.base} | not u
~{a} did not {w.base} | not w
*it is not true that {a} {w.past} | not w
>{a} {u.past} and {b} {w.past} | u and bw
>{a} {u.past} while {b} {w.past} | u and bw
>{b} {u.past} and {a} {w.past} | bu and w
>{a} {u.past}, but {b} did not | u and not bu
>{a} {w.past}, but {b} did not | w and not bw
>neither {a} nor {b} {w.past} | not w and not bw
<{b} {w.past} | bw
<{b} {u.past} | bu
<{b} did not {w.base} | not bw
<{b} did not {u.base} | not bu
"""
_OBJECTS = """
& {who} {g.past} a {x} | {who} did not {g.base} a {x}
{a} {g.past} a {x} and a {y} | x and y
{a} {g.past} both a {x} and a {y} | x and y
{a} {g.past} a {y} as well as a {x} | x and y
*{a} {g.past} not only a {x} but also a {y} | x and y
{a} {g.past} a {x}, a {y} and a {k} | x and y and k
{a} {g.past} a {x} or a {y} | x or y || x != y
{a} {g.past} either a {x} or a {y} | x or y || x != y
{a} {g.past} neither a {x} nor a {y} | not x and not y
*{a} did not {g.base} a {x}, nor did {a} {g.base} a {y} | not x and not y
{a} {g.past} a {x} but no {y} | x and not y
{a} {g.past} a {y} but no {x} | y and not x
>{a} {g.past} a {x} or a {y}, but not a {x} | y and not x
~{a} {g.past} a {x} | x
~{a} {g.past} a {y} | y
{a} {g.past} no {x} | not x
~{a} did not {g.base} a {y} | not y
~{a} {g.past} a {k} | k
~{a} did not {g.base} a {k} | not k
*it is not true that {a} {g.past} a {y} | not y
"""
_GOT = "buy sell borrow find pack draw steal order lose carry"


def conjunction(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """And, or, both, either, neither: of subjects, verbs, objects and clauses."""
    got = [Verb.of(base) for base in lexicon.of(_GOT.split())]

    def acts(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        u, w = draw.several(lexicon.acts, 2)
        return {"a": a, "b": b, "u": u, "w": w}

    def objects(draw: Draw) -> Mapping[str, object]:
        (a,) = persons(draw, lexicon, 1)
        x, y, z = draw.several(lexicon.objects, 3)
        return {"a": a, "x": x, "y": y, "k": z, "g": draw.one(got)}

    return (
        fragment("subjects", _SUBJECTS, worlds("a b"), acts, lexicon),
        fragment("verbs", _VERBS, worlds("u w bu bw"), acts, lexicon),
        fragment("objects", _OBJECTS, worlds("x y k"), objects, lexicon),
    )


# Atoms: now, the state holds; was, it held before; other, another state.
_STATE = """
& {who} is {x} | {who} is not {x}
{s} {s.be} {x} | now
{s} {s.be} not {x} | not now
it is true that {s} {s.be} {x} | now
it is not true that {s} {s.be} {x} | not now
*it is not the case that {s} {s.be} {x} | not now
it is false that {s} {s.be} {x} | not now
it is not true that {s} {s.be} not {x} | now
*it is false that {s} {s.be} not {x} | now
{s} {s.be} no longer {x} | was and not now
*{s} {s.be} not {x} any more | was and not now
{s} {s.be} still {x} | was and now
*{s} {s.be} {x}, as before | was and now
{s} {s.be} {x} for the first time | now and not was
{s} {s.has} never been {x} | not was and not now
{s} {s.has} been {x} before | was
>{s} used to be {x} | was | was and not now
{s} {s.be} {x} and {y} | now and other
{s} {s.be} neither {x} nor {y} | not now and not other
{s} {s.be} {x} but not {y} | now and not other
~{s} {s.be} {y} | other
~{s} {s.be} not {y} | not other
"""
_UN = """
the {o} is {x} | x
the {o} is not {x} | not x
the {o} is un{x} | not x
the {o} is not un{x} | x
it is not true that the {o} is un{x} | x
it is not true that the {o} is {x} | not x
*it is false that the {o} is un{x} | x
*it is false that the {o} is {x} | not x
it is true that the {o} is un{x} | not x
the {o} is {x} and {y} | x and y
the {o} is un{x} and {y} | not x and y
the {o} is neither {x} nor {y} | not x and not y
*the {o} is neither un{x} nor {y} | x and not y
~the {o} is {y} | y
the {o} is {y} and un{x} | not x and y
the {o} is both {x} and {y} | x and y
the {o} is neither {y} nor {x} | not x and not y
~the {o} is not {y} | not y
"""
_EVENT = """
~{a} {u.past} | a
~{a} did not {u.base} | not a
it is not true that {a} {u.past} | not a
it is not true that {a} did not {u.base} | a
*it is false that {a} {u.past} | not a
*it is false that {a} did not {u.base} | a
someone {u.past} | a or b or x
nobody {u.past} | not a and not b and not x
not a single person {u.past} | not a and not b and not x
*there was nobody who {u.past} | not a and not b and not x
it is not true that nobody {u.past} | a or b or x
nobody but {a} {u.past} | a and not b and not x
*nobody except {b} {u.past} | b and not a and not x
~{b} {u.past} | b
~{b} did not {u.base} | not b
neither {a} nor {b} {u.past} | not a and not b
{a} {u.past}, but {b} did not | a and not b
"""
_NOTHING = """
& {who} {g.past} the {x} | {who} did not {g.base} the {x}
{a} {g.past} the {x} | x
{a} did not {g.base} the {x} | not x
{a} {g.past} nothing | not x and not y and not z
{a} did not {g.base} anything | not x and not y and not z
{a} {g.past} something | x or y or z
it is not true that {a} {g.past} nothing | x or y or z
*there was nothing that {a} {g.past} | not x and not y and not z
*there was something that {a} {g.past} | x or y or z
{a} {g.past} nothing but the {x} | x and not y and not z
{a} {g.past} nothing except the {y} | y and not x and not z
{a} {g.past} the {y} | y
{a} did not {g.base} the {y} | not y
{a} {g.past} the {x} but not the {y} | x and not y
*it is not true that {a} {g.past} the {y} | not y
{a} {g.past} neither the {x} nor the {y} | not x and not y
"""
# Atoms: once, at least once; often, many times (and so at least once); back, b did it to a.
_NEVER = """
& {who} has {v.done} {b} | {who} has never {v.done} {b}
{a} has {v.done} {b} | once
{a} has never {v.done} {b} | not once
{a} has not {v.done} {b} | not once
{a} has {v.done} {b} many times | often
{a} has {v.done} {b} at least once | once
at no time has {a} {v.done} {b} | not once
{b} has never been {v.done} by {a} | not once
{b} has been {v.done} by {a} | once
*not once has {a} {v.done} {b} | not once
it is not true that {a} has never {v.done} {b} | once
*{a} has {v.done} {b} before | once
{b} has {v.done} {a} | back
{b} has never {v.done} {a} | not back
{a} has never been {v.done} by {b} | not back
*never has {b} {v.done} {a} | not back
it is not true that {b} has never {v.done} {a} | back
"""
# Atoms: u, w: what a did.
_WITHOUT = """
& {who} left | {who} did not leave
{a} left without {w.ing} | u and not w
{a} left before noon without {w.ing} | u and not w and e
*without {w.ing}, {a} left | u and not w
{a} left and {w.past} | u and w
{a} did not leave without {w.ing} | not u or w | u and w
*{a} left, and {a} did not {w.base} | u and not w
{a} left before noon | u and e
~{a} left | u
~{a} {w.past} | w
~{a} did not leave | not u
~{a} did not {w.base} | not w
{a} left, but {a} did not {w.base} | u and not w
*it is not true that {a} {w.past} | not w
{a} neither left nor {w.past} | not u and not w
"""
_UNS = """locked:gate,shed,drawer,safe,garage;finished:report,novel,painting,roof,kennel;
occupied:flat,seat,cabin,room;paid:bill,invoice,receipt;sold:house,painting,boat,farm;used:stamp,ticket,towel;
signed:contract,form,letter;tested:engine,rocket,parachute;painted:fence,shelf,wall,boat;washed:cup,plate,shirt,jug;
answered:letter,card;wrapped:present,parcel,sandwich;heated:cabin,greenhouse,pool"""
_PLAIN = "old small dirty grey ugly large nice"
_FINISHED = "pay wave apologise speak smile eat sign complain sing help knock explain cry"


def negation(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Not, un-, never, nobody, nothing, without, no longer; one negation and two."""
    moods, silent = lexicon.of(MOODS.split(";")), [Verb.of(base) for base in lexicon.of(_FINISHED.split())]
    uns = [entry.partition(":")[::2] for entry in lexicon.of(_UNS.split(";"))]
    got = [Verb.of(base) for base in lexicon.of(_GOT.split())]

    def state(draw: Draw) -> Mapping[str, object]:
        x, y = draw.several(moods, 2)
        return {"s": persons(draw, lexicon, 1)[0], "x": x, "y": y}

    def un(draw: Draw) -> Mapping[str, object]:
        x, things = draw.one(uns)
        return {"o": draw.one(things.split(",")), "x": x, "y": draw.one(_PLAIN.split())}

    def event(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        u, w = draw.one(lexicon.acts), draw.one(silent)
        return {"a": a, "b": b, "u": u, "w": w, "v": draw.one(lexicon.deeds), "t": adjunct(draw, lexicon)}

    def nothing(draw: Draw) -> Mapping[str, object]:
        x, y = draw.several(lexicon.objects, 2)
        return {"a": persons(draw, lexicon, 1)[0], "x": x, "y": y, "g": draw.one(got)}

    return (
        fragment("state", _STATE, worlds("now was other"), state, lexicon, "present"),
        fragment("un", _UN, worlds("x y"), un, lexicon, "present"),
        fragment("event", _EVENT, worlds("a b x"), event, lexicon),
        fragment("nothing", _NOTHING, worlds("x y z"), nothing, lexicon),
        fragment("never", _NEVER, worlds("once often back", "once or not often"), event, lexicon, "present"),
        fragment("without", _WITHOUT, worlds("u w e"), event, lexicon),
    )


# Atoms: p, q, and c: the conditional holds, which is more than that p is false or q true.
_IF = """
& {r} | {r_not}
if {p}, {q} | c |h not p or q
{q} if {p} | c |h not p or q
whenever {p}, {q} | c |h not p or q
*{q} whenever {p} | c |h not p or q
*provided that {p}, {q} | c | c and (p or not q) |h not p or q
>if {p}, {q}. {p} | c and p
>if {p}, {q}. {p_not} | c and not p
>if {p}, {q}. {q_not} | c and not q
>*{q} if {p}. {p} | c and p
>*{q} if {p}. {q_not} | c and not q
>whenever {p}, {q}. {p} | c and p
>if {p}, {q}. {q} | c and q
~{p} | p
~{q} | q
~{p_not} | not p
~{q_not} | not q
{p}, but {q_not} | p and not q
{q_not}, although {p} | p and not q
{p} and {q} | p and q
<*it is not true that {q} | not q
<*it is not true that {p} | not p
"""
_UNLESS = """
& {r} | {r_not}
unless {p}, {q} | d || d and p != q |h p or q
{q} unless {p} | d || d and p != q |h p or q
>unless {p}, {q}. {p_not} | d and not p
>{q} unless {p}. {q_not} | d and not q
>*unless {p}, {q}. {q_not} | d and not q
>*{q} unless {p}. {p_not} | d and not p
~{p} | p
~{q} | q
~{p_not} | not p
~{q_not} | not q
{p_not}, and {q_not} | not p and not q
{q_not}, and {p_not} | not p and not q
<*it is not true that {q} | not q
<*it is not true that {p} | not p
"""
_BECAUSE = """
& {r} | {r_not}
>{q} because {p} | p and q
>because {p}, {q} | p and q
>*since {p}, {q} | p and q
>although {p}, {q} | p and q
>{q} although {p} | p and q
>*even though {p}, {q} | p and q
>{p}, so {q} | p and q
>although {p}, {q_not} | p and not q
>because {p_not}, {q} | not p and q
if {p}, {q} | c |h not p or q
{q} if {p} | c |h not p or q
{p} and {q} | p and q
~{p} | p
~{q} | q
~{p_not} | not p
~{q_not} | not q
<*it is not true that {p} | not p
<*it is not true that {q} | not q
{p}, but {q_not} | p and not q
{q_not}, although {p} | p and not q
"""
_CAUSES = """it snows|it does not snow;the train is late|the train is not late;
the shop is closed|the shop is not closed;the oven is broken|the oven is not broken;
the river is frozen|the river is not frozen;the guide is ill|the guide is not ill;
the road is blocked|the road is not blocked;the lift is out of order|the lift is not out of order;
the moon is full|the moon is not full;the alarm is on|the alarm is not on;
the boss is away|the boss is not away;the tide is high|the tide is not high;
the wind is strong|the wind is not strong;the heating is off|the heating is not off;
the kitchen is full|the kitchen is not full;the ice is thin|the ice is not thin;
the printer is jammed|the printer is not jammed;the captain is injured|the captain is not injured;
the harvest is poor|the harvest is not poor;the door is locked|the door is not locked;
the ferry is full|the ferry is not full;the dog is outside|the dog is not outside;
school is out|school is not out"""
_EFFECTS = """the match is cancelled|the match is not cancelled;
the children stay at home|the children do not stay at home;dinner is late|dinner is not late;
{a} takes the bus|{a} does not take the bus;{a} works upstairs|{a} does not work upstairs;
the meeting is moved|the meeting is not moved;{a} is in a bad mood|{a} is not in a bad mood;
the tour is shortened|the tour is not shortened;{a} sleeps badly|{a} does not sleep badly;
the cat hides|the cat does not hide;{a} sings|{a} does not sing;prices go up|prices do not go up;
the lights are on|the lights are not on;{a} wears a hat|{a} does not wear a hat;
the team trains indoors|the team does not train indoors;{a} calls a friend|{a} does not call a friend;
parents wait in the yard|parents do not wait in the yard;{a} drinks tea|{a} does not drink tea;
the boats stay in port|the boats do not stay in port;{a} goes home early|{a} does not go home early;
the bell rings|the bell does not ring"""


def conditional(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """If, whenever, unless, with and without their antecedents; because and although, whose clauses are both true."""
    causes, effects = (lexicon.of(text.split(";")) for text in (_CAUSES, _EFFECTS))

    def clauses(draw: Draw) -> Mapping[str, object]:
        a = persons(draw, lexicon, 1)[0]
        p, r = (cause.split("|") for cause in draw.several(causes, 2))
        q = draw.one(effects).format(a=a).split("|")
        return {"p": p[0], "p_not": p[1], "q": q[0], "q_not": q[1], "r": r[0], "r_not": r[1]}

    if_then, unless = "not c or not p or q", "not d or p or q"
    return (
        fragment("if", _IF, worlds("p q c", if_then), clauses, lexicon, "present"),
        fragment("unless", _UNLESS, worlds("p q d", unless), clauses, lexicon, "present"),
        fragment("because", _BECAUSE, worlds("p q c", if_then), clauses, lexicon, "present"),
    )
