"""Which events took place, and in which order: `time` and `implicative` verbs."""

from collections.abc import Mapping

from neurogame.data.forms import Draw
from neurogame.data.fragments.inflection import Phrase, Verb
from neurogame.data.fragments.lexicon import Lexicon
from neurogame.data.fragments.phrases import persons
from neurogame.data.fragments.tables import Fragment, fragment, worlds

# Numbers a, b, c: when the three events took place.
_ORDER = """
& {who} {u.past} | {who} did not {u.base}
{a} {u.past} before {b} {w.past} | a < b
{b} {w.past} after {a} {u.past} | a < b
before {b} {w.past}, {a} {u.past} | a < b
after {a} {u.past}, {b} {w.past} | a < b
when {b} {w.past}, {a} had already {u.done} | a < b
{a} {u.past}, and then {b} {w.past} | a < b
first {a} {u.past}, and later {b} {w.past} | a < b
*by the time {b} {w.past}, {a} had {u.done} | a < b
*it was only after {a} {u.past} that {b} {w.past} | a < b
{b} {w.past} before {a} {u.past} | b < a
{a} {u.past} after {b} {w.past} | b < a
before {a} {u.past}, {b} {w.past} | b < a
after {b} {w.past}, {a} {u.past} | b < a
when {a} {u.past}, {b} had already {w.done} | b < a
{b} {w.past}, and then {a} {u.past} | b < a
first {b} {w.past}, and later {a} {u.past} | b < a
*by the time {a} {u.past}, {b} had {w.done} | b < a
*it was only after {b} {w.past} that {a} {u.past} | b < a
{a} {u.past} at the very moment when {b} {w.past} | a == b
{a} {u.past} before {c} {x.past} | a < c
{c} {x.past} before {a} {u.past} | c < a
{c} {x.past} after {b} {w.past} | b < c
after {c} {x.past}, {b} {w.past} | c < b
"""
# The same of one kind of event.
_FIRST = """
& {who} {u.past} before {a} | {who} did not {u.base} before {a}
{a} {u.past} before {b} | a < b
{b} {u.past} after {a} | a < b
{b} {u.past} before {a} | b < a
{a} {u.past} after {b} | b < a
{a} {u.past} earlier than {b} | a < b
{b} {u.past} later than {a} | a < b
{a} {u.past} later than {b} | b < a
when {b} {u.past}, {a} had already {u.done} | a < b
when {a} {u.past}, {b} had already {u.done} | b < a
{a} and {b} {u.past} at the same time | a == b
{a} did not {u.base} before {b} | a >= b | a > b
{b} did not {u.base} before {a} | b >= a | b > a
{b} {u.past} before {c} | b < c
{c} {u.past} before {b} | c < b
{a} {u.past} before {c} | a < c
{c} {u.past} after {a} | a < c
{c} {u.past} before {a} | c < a
>{a} {u.past} before {b}, and {b} {u.past} before {c} | a < b < c
>first {a} {u.past}, then {b}, and finally {c} | a < b < c
>{c} {u.past} before {a}, but after {b} | b < c < a
{c} {u.past} after both {a} and {b} | a < c and b < c
*{a} {u.past} sooner than {b} | a < b
*{b} {u.past} sooner than {a} | b < a
>*{a} {u.past} after {b}, who {u.past} after {c} | c < b < a
*by the time {b} {u.past}, {a} had {u.done} | a < b
"""
# Atoms: p, a did u; q, b did w.
_OCCURRED = """
& {who} {w.past} | {who} did not {w.base}
>after {a} {u.past}, {b} {w.past} | p and q
>as soon as {a} {u.past}, {b} {w.past} | p and q
>when {b} {w.past}, {a} had already {u.done} | p and q
>{a} {u.past}, and then {b} {w.past} | p and q
>*{b} {w.past} once {a} had {u.done} | p and q
>{b} {w.past} before {a} could {u.base} | q | q and not p
>{a} {u.past} before {b} could {w.base} | p | p and not q
>when {a} {u.past}, {b} had not yet {w.done} | p | p and q
>*by the time {b} {w.past}, {a} had not {u.done} | q | q and p
>when {b} {w.past}, {a} had not yet {u.done} | q | q and p
>{a} {u.past}, but {b} never {w.past} | p and not q
>{b} {w.past}, but {a} never {u.past} | q and not p
~{a} {u.past} | p
~{b} {w.past} | q
~{a} did not {u.base} | not p
~{b} did not {w.base} | not q
{a} {u.past}, and {b} {w.past} | p and q
{a} did not {u.base}, and {b} did not {w.base} | not p and not q
*it is not true that {b} {w.past} | not q
*it is not true that {a} {u.past} | not p
~{a} never {u.past} | not p
"""
# Atoms: p, a did d for some time; q, b did w; r, c did d.
_UNTIL = """
& {who} {w.past} | {who} did not {w.base}
>{a} {d.past} until {b} {w.past} | p and q
>until {b} {w.past}, {a} {d.past} | p and q
>{a} kept {d.ing} until {b} {w.past} | p and q
>while {a} was {d.ing}, {b} {w.past} | p and q
>{b} {w.past} while {a} was {d.ing} | p and q
>*{a} did not stop {d.ing} until {b} {w.past} | p and q
>{a} {d.past}, and meanwhile {b} {w.past} | p and q
>while {a} was {d.ing}, {c} was not | p and not r
>neither {a} nor {c} was {d.ing} when {b} {w.past} | q and not r and not p
~{a} was {d.ing} | p
~{a} was not {d.ing} | not p
~{c} was {d.ing} | r
~{c} was not {d.ing} | not r
~{b} {w.past} | q
~{b} did not {w.base} | not q
*it is not true that {b} {w.past} | not q
*it is not true that {a} was {d.ing} | not p
both {a} and {c} were {d.ing} | p and r
"""
# Atoms: a, b have done it by now.
_ALREADY = """
& {who} has already {c.done} | {who} has not {c.done} yet
{a} has already {c.done} | a
{a} has {c.done} | a
{a} has not {c.done} yet | not a
{a} has not {c.done} | not a
{b} has already {c.done} | b
{b} has not {c.done} yet | not b
both {a} and {b} have already {c.done} | a and b
neither {a} nor {b} has {c.done} yet | not a and not b
{a} has already {c.done}, but {b} has not | a and not b
of {a} and {b}, so far only {b} has {c.done} | b and not a
*{a} has yet to {c.base} | not a
*{b} has yet to {c.base} | not b
*it is true that {a} has {c.done} by now | a
*it is not true that {b} has already {c.done} | not b
"""
# Numbers a, b, c: years of birth; y is 1, z is 3.
_YEARS = """
>{a} {f} in {y}, and {b} {f} in {z} | a == 1 and b == 3
>{b} {f} in {z}, and {a} {f} in {y} | a == 1 and b == 3
>{a} {f} in {z}, and {b} {f} in {y} | a == 3 and b == 1
>*{a} {f} in {z}, but {b} already in {y} | a == 3 and b == 1
>{b} {f} in {z}, and {c} {f} in {y} | b == 3 and c == 1
{a} {f} in {y} | a == 1
{a} {f} in {z} | a == 3
{b} {f} in {z} | b == 3
{b} {f} in {y} | b == 1
{a} {f} before {b} | a < b
{b} {f} after {a} | a < b
{b} {f} before {a} | b < a
{a} {f} after {b} | b < a
*{a} {f} earlier than {b} | a < b
*{b} {f} earlier than {a} | b < a
{c} {f} before {b} | c < b
{c} {f} after {b} | c > b
{a} {f} before {z} | a < 3
{a} {f} after {y} | a > 1
{b} {f} before {z} | b < 3
"""
# Number s: the year in which a started; y is 1, z is 3. Atoms w, a has worked there; n, a works there now; b, b does.
_SINCE = """
& {who} works at the {l} | {who} does not work at the {l}
{a} has worked at the {l} since {y} | s == 1 and w and n
{a} has worked at the {l} since {z} | s == 3 and w and n
{a} started working at the {l} in {y} | s == 1 and w
{a} started working at the {l} in {z} | s == 3 and w
{a} started working at the {l} before {z} | s < 3 and w
{a} started working at the {l} after {y} | s > 1 and w
~{a} works at the {l} | n
~{a} does not work at the {l} | not n
{a} no longer works at the {l} | w and not n
{a} worked at the {l} from {y} to {z} and then quit | s == 1 and w and not n | s == 1 and w
~{b} works at the {l} | b
~{b} does not work at the {l} | not b
both {a} and {b} work at the {l} | n and b
*since {y}, {a} has been working at the {l} | s == 1 and w and n
*{a} does not work at the {l} any more | w and not n
*{a} still works at the {l} | w and n |h n
"""
_LASTING = "wait;work;read;sleep;rest;talk;practise;cook;play chess;paint;study;fish;iron;garden;drive;dig"
_EMPLOYERS = """library station school office bakery hotel factory theatre cafe hospital gym bank cinema pharmacy
workshop clinic brewery restaurant supermarket"""
_ARRIVING = (
    "arrive;finish;leave;wake up;sign up;pay;go home;apply;register;eat;check in;sit down;graduate;retire;answer"
)


def time(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Before, after, when, then, until, since, already: which events took place, and which of them first."""
    lasting = [Verb.of(phrase) for phrase in lexicon.of(_LASTING.split(";"))]
    employers = lexicon.of(_EMPLOYERS.split())
    arriving = [Verb.of(phrase) for phrase in lexicon.of(_ARRIVING.split(";"))]

    def events(draw: Draw) -> Mapping[str, object]:
        a, b, c = persons(draw, lexicon, 3)
        u, w, x = draw.several(lexicon.tasks if draw.chance(0.5) else lexicon.acts, 3)
        return {"a": a, "b": b, "c": c, "u": u, "w": w, "x": x, "d": draw.one(lasting)}

    def first(draw: Draw) -> Mapping[str, object]:
        a, b, c = persons(draw, lexicon, 3)
        return {"a": a, "b": b, "c": c, "u": draw.one(arriving)}

    def task(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        return {"a": a, "b": b, "c": draw.one(lexicon.tasks)}

    def years(draw: Draw) -> Mapping[str, object]:
        y = draw.one(range(1940, 2004))
        z = draw.one(range(y + 2, min(y + 30, 2019)))
        a, b, c = persons(draw, lexicon, 3)
        born = "was born"
        if draw.chance(0.4):
            a, b, c = (Phrase(f"the {noun}") for noun in draw.several(employers, 3))
            born = draw.one(("opened", "was built", "was renovated"))
        return {"a": a, "b": b, "c": c, "y": y, "z": z, "f": born}

    def jobs(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        y = draw.one(range(1985, 2010))
        return {"a": a, "b": b, "y": y, "z": draw.one(range(y + 2, 2020)), "l": draw.one(employers)}

    return (
        fragment("order", _ORDER, worlds("a b c", values=3), events, lexicon),
        fragment("first", _FIRST, worlds("a b c", values=3), first, lexicon),
        fragment("occurred", _OCCURRED, worlds("p q"), events, lexicon),
        fragment("until", _UNTIL, worlds("p q r"), events, lexicon),
        fragment("already", _ALREADY, worlds("a b"), task, lexicon, "present"),
        fragment("years", _YEARS, worlds("a b c", values=5), years, lexicon),
        fragment("since", _SINCE, worlds("s w n b", "w < 2 and n < 2 and b < 2", values=5), jobs, lexicon, "present"),
    )


# Atoms: e, a did it; k, what the verb presupposes (that a tried, or was meant to do it); b, b did it.
_TWO_WAY = """
& {who} {c.past} | {who} did not {c.base}
{a} {m.past} to {c.base} | e and k |h e
{a} did not {m.base} to {c.base} | not e and k |h not e
{a} {f.past} to {c.base} | not e and k |h not e
{a} did not {f.base} to {c.base} | e and k |h e
>{a} {m.past} to {c.base}, but {b} did not | e and k and not b
>{a} {f.past} to {c.base}, and so did {b} | not e and k and not b
>{b} {f.past} to {c.base}, but {a} did not | e and k and not b
*{a} never {m.past} to {c.base} | not e and k |h not e
*it was {a} who {m.past} to {c.base} | e and k |p e and k and not b |h e |h e and not b
*it was {a} who {f.past} to {c.base} | not e and k |p not e and k and b |h not e |h not e and b
~{a} {c.past} | e
~{a} did not {c.base} | not e
~it is not true that {a} {c.past} | not e
~{b} {c.past} | b
~{b} did not {c.base} | not b
both {a} and {b} {c.past} | e and b
neither {a} nor {b} {c.past} | not e and not b
"""
_SINGLE = """
& {who} {c.past} | {who} did not {c.base}
{a} {m.past} to {c.base} | e and k |h e
{a} did not {m.base} to {c.base} | not e and k |h not e
{b} {m.past} to {c.base} | b and k |h b
{b} did not {m.base} to {c.base} | not b and k |h not b
>{a} {m.past} to {c.base}, but {b} did not | e and k and not b
>neither {a} nor {b} {m.past} to {c.base} | not e and k and not b
*it was {a} who {m.past} to {c.base} | e and k |p e and k and not b |h e |h e and not b
*{a} never {m.past} to {c.base} | not e and k |h not e
~{a} {c.past} | e
~{a} did not {c.base} | not e
~it is not true that {a} {c.past} | not e
~{b} {c.past} | b
~{b} did not {c.base} | not b
"""
# Atoms: k, a refused; e, a did it; b, b did it. Who refused at first may have done it later: so in one direction only.
_REFUSED = """
& {who} {c.past} | {who} did not {c.base}
{a} {r.past} to {c.base} | k and not e |h k
{a} did not {r.base} to {c.base} | not k
it is not true that {a} {r.past} to {c.base} | not k
>{a} {r.past} to {c.base}, but {b} did not | k and not e
>{a} {r.past} to {c.base}, so {b} did it | k and not e and b
>neither {a} nor {b} {r.past} to {c.base} | not k
*it was {a} who {r.past} to {c.base} | k and not e |h k
*it is false that {a} {r.past} to {c.base} | not k
~{a} {c.past} | e |p e and k |p e and not k
~{a} did not {c.base} | not e
*it is not true that {a} {c.past} | not e
~{b} {c.past} | b
~{b} did not {c.base} | not b
"""
_FORCED = """
& {who} {c.past} | {who} did not {c.base}
{a} was {f} to {c.base} | k and e |h k
{a} was not {f} to {c.base} | not k
it is not true that {a} was {f} to {c.base} | not k
>{a} was {f} to {c.base}, but {b} was not | k and e
>nobody {f_past} {a} to {c.base} | not k
*it was {a} who was {f} to {c.base} | k and e |h k
*it is false that {a} was {f} to {c.base} | not k
~{a} {c.past} | e
~{a} did not {c.base} | not e |p not e and k |p not e and not k
*it is not true that {a} {c.past} | not e
~{b} {c.past} | b
~{b} did not {c.base} | not b
"""
# Atoms: w, the attitude; e, a did it.
_WANTED = """
& {who} {c.past} | {who} did not {c.base}
{a} {w.past} to {c.base} | w
{a} did not {w.base} to {c.base} | not w || not w and not e
it is true that {a} {w.past} to {c.base} | w
it is not true that {a} {w.past} to {c.base} | not w || not w and not e
*what {a} {w.past} to do was to {c.base} | w
*at no point did {a} {w.base} to {c.base} | not w || not w and not e
>{a} {w.past} to {c.base}, and {a} did | w and e
>{a} {w.past} to {c.base}, but {a} did not | w and not e
>*{a} {w.past} to {c.base} but never did | w and not e
~{a} {c.past} | e
~{a} did not {c.base} | not e
~it is not true that {a} {c.past} | not e
"""
_ASKED = """
& {who} {c.past} | {who} did not {c.base}
{a} was {w} to {c.base} | w
{a} was not {w} to {c.base} | not w || not w and not e
it is true that {a} was {w} to {c.base} | w
it is not true that {a} was {w} to {c.base} | not w || not w and not e
*it was {a} who was {w} to {c.base} | w
*at no point was {a} {w} to {c.base} | not w || not w and not e
>{a} was {w} to {c.base}, and {a} did | w and e
>{a} was {w} to {c.base}, but {a} did not | w and not e
>*{a} was {w} to {c.base} but never did | w and not e
~{a} {c.past} | e
~{a} did not {c.base} | not e
~it is not true that {a} {c.past} | not e
"""
_PAIRS = (("manage", "fail"), ("remember", "forget"))
_SINGLES = "bother dare happen have_the_courage take_the_time have_the_nerve make_the_effort have_the_patience"
_REFUSALS = "refuse decline"
_FORCES = "forced compelled"
_WANTS = "want hope plan try promise agree intend offer expect prepare wish long volunteer vow"
_WISHES = "asked told allowed expected supposed ready eager willing tempted invited advised encouraged urged"


def implicative(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Verbs that say whether their complement came true: always (manage), in one polarity (refuse), never (want)."""
    singles = [Verb.of(phrase.replace("_", " ")) for phrase in lexicon.of(_SINGLES.split())]
    wants, wishes = [Verb.of(base) for base in lexicon.of(_WANTS.split())], lexicon.of(_WISHES.split())

    def words(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        m, f = map(Verb.of, draw.one(_PAIRS))
        force = draw.one(_FORCES.split())
        return {"a": a, "b": b, "c": draw.one(lexicon.tasks), "m": m, "f": f, "f_past": force}

    def single(draw: Draw) -> Mapping[str, object]:
        return {**words(draw), "m": draw.one(singles)}

    def one_way(draw: Draw) -> Mapping[str, object]:
        chosen = dict(words(draw))
        return {**chosen, "r": Verb.of(draw.one(_REFUSALS.split())), "f": chosen["f_past"]}

    def wanted(draw: Draw) -> Mapping[str, object]:
        return {**words(draw), "w": draw.one(wants)}

    def asked(draw: Draw) -> Mapping[str, object]:
        return {**words(draw), "w": draw.one(wishes)}

    return (
        fragment("two-way", _TWO_WAY, worlds("e k b"), words, lexicon),
        fragment("single", _SINGLE, worlds("e k b"), single, lexicon),
        fragment("refused", _REFUSED, worlds("e k b"), one_way, lexicon),
        fragment("forced", _FORCED, worlds("e k b"), one_way, lexicon),
        fragment("wanted", _WANTED, worlds("e w"), wanted, lexicon),
        fragment("asked", _ASKED, worlds("e w"), asked, lexicon),
    )
