"""What is known or said, and what may or must be: `attitude` and `modal`."""

from collections.abc import Mapping

from neurogame.data.forms import Draw
from neurogame.data.fragments.inflection import Verb
from neurogame.data.fragments.lexicon import Lexicon
from neurogame.data.fragments.phrases import persons
from neurogame.data.fragments.tables import Fragment, fragment, worlds

# Atoms: p; k, a knew that p; kn, a knew that not p; b, b knew that p.
_KNEW = """
& {r} | {r_not}
{a} {f.past} that {p} | p and k
{a} did not {f.base} that {p} | p and not k |h not k
{a} {f.past} that {p_not} | not p and kn
{a} did not {f.base} that {p_not} | not p and not kn |h not kn
{b} {f.past} that {p} | p and b
{b} did not {f.base} that {p} | p and not b |h not b
>both {a} and {b} {f.past} that {p} | p and k and b
>{a} {f.past} that {p}, but {b} did not | p and k and not b
*nobody {f.past} that {p} | p and not k and not b |h not k and not b
*it was {a} who {f.past} that {p} | p and k | p and k and not b
~{p} | p
~{p_not} | not p
*it is not true that {p} | not p
~it is true that {p} | p
"""
_GLAD = """
& {r} | {r_not}
{a} was {g} that {p} | p and k
{a} was not {g} that {p} | p and not k |h not k
{a} was {g} that {p_not} | not p and kn
{b} was {g} that {p} | p and b
>both {a} and {b} were {g} that {p} | p and k and b
>{a} was {g} that {p}, but {b} was not | p and k and not b
*nobody was {g} that {p} | p and not k and not b |h not k and not b
*it was {a} who was {g} that {p} | p and k | p and k and not b
~{p} | p
~{p_not} | not p
*it is not true that {p} | not p
~it is true that {p} | p
"""
# Atoms: p; k, a said that p; kn, a said that not p.
_SAID = """
& {who} {s.past} that {p} | {who} did not {s.base} that {p}
{a} {s.past} that {p} | k
{a} did not {s.base} that {p} | not k
{a} {s.past} that {p_not} | kn | kn and not k
it is true that {a} {s.past} that {p} | k
it is not true that {a} {s.past} that {p} | not k
*what {a} {s.past} was that {p} | k
*at no point did {a} {s.base} that {p} | not k
~{p} | p
~{p_not} | not p
>{a} {s.past} that {p}, and it was true | k and p
>{a} {s.past} that {p}, but it was not true | k and not p
>*{a} {s.past} that {p}, but {a} was wrong | k and not p
*it is not true that {p} | not p
"""
_WRONGLY = """
& {who} {s.past} that {p} | {who} did not {s.base} that {p}
{a} {w} {s.past} that {p} | k and not p
{a} {r} {s.past} that {p} | k and p
{a} {s.past} that {p} | k
{a} did not {s.base} that {p} | not k
{a} {w} {s.past} that {p_not} | kn and p | kn and p and not k
{a} {r} {s.past} that {p_not} | kn and not p | kn and not p and not k
>{a} was wrong to {s.base} that {p} | k and not p
>*{a} was right to {s.base} that {p} | k and p
>*{a} {s.past}, wrongly, that {p} | k and not p
>{a} pretended that {p} | j and not p | j and not p and not k
>{a} pretended that {p_not} | j and p | j and p and not kn
~{p} | p
~{p_not} | not p
~it is true that {p} | p
*it is not true that {p} | not p
"""
# Atoms: p; g, it was a pity (and so true); l, it was rumoured that p; m, that not p.
_IT_WAS = """
& {r} | {r_not}
it was {g} that {p} | p and g
it was {l} that {p} | l
it was {n} that {p} | not p
it was {g} that {p_not} | not p and g
it was {l} that {p_not} | m
it was not {l} that {p} | not l
>to the surprise of {a}, {p} | p
>*it surprised {a} that {p} | p
>{p}, as {a} had expected | p
>*it did not surprise {a} that {p} | p
~{p} | p
~{p_not} | not p
*the fact is that {p} | p
*it is not true that {p} | not p
"""
# Atoms: p; s, a said so.
_ACCORDING = """
& {r} | {r_not}
according to {a}, {p} | s
{a} said that {p} | s
{a} did not say that {p} | not s
it is not true that {a} said that {p} | not s
*{p}, according to {a} | s
*{p}, or so {a} said | s
>{p}, as {a} rightly said | s and p
>{a} said, wrongly, that {p} | s and not p
>*{a} said that {p}, but {a} was lying | s and not p
~{p} | p
~{p_not} | not p
*it is not true that {p} | not p
"""
_KNOWING = "know realise notice discover remember find_out understand learn see figure_out"
_FEELING = "glad sorry surprised proud annoyed relieved sad disappointed delighted ashamed amused"
_SAYING = "believe think say claim hope suspect assume guess insist fear imagine declare announce argue swear"
_OPINING = "believe assume think conclude guess suspect claim"
_PITY = "a pity;odd;strange;a fact;no secret;annoying;sad;a shame;lucky;obvious;well known;unfortunate;a good thing"
_RUMOUR = "rumoured;claimed;likely;widely believed;reported;suspected"
_MYTH = "false;a lie;a myth;untrue"
_STATES = (
    "ill;late;angry;tired;in danger;at home;lost;married;hungry;ready;injured;upset;awake;drunk;lonely;in debt;bored"
)


def attitude(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Knowing presupposes the clause, also under negation; saying leaves it open; being wrong about it denies it."""
    knowing, saying, opining = (
        [Verb.of(phrase.replace("_", " ")) for phrase in lexicon.of(text.split())]
        for text in (_KNOWING, _SAYING, _OPINING)
    )
    feeling, states = lexicon.of(_FEELING.split()), lexicon.of(_STATES.split(";"))
    pity, rumour, myth = (lexicon.of(text.split(";")) for text in (_PITY, _RUMOUR, _MYTH))

    def clause(draw: Draw) -> dict[str, object]:
        a, b, c, d = persons(draw, lexicon, 4)
        words: dict[str, object] = {"a": a, "b": b}
        for name, subject in (("p", c), ("r", d)):
            if draw.chance(0.5):
                verb, rest = "was", draw.one(states)
            else:
                verb, rest = "had", draw.one((*lexicon.acts, *lexicon.tasks)).done
            words |= {name: f"{subject} {verb} {rest}", f"{name}_not": f"{subject} {verb} not {rest}"}
        return words

    def knew(draw: Draw) -> Mapping[str, object]:
        return {**clause(draw), "f": draw.one(knowing), "g": draw.one(feeling)}

    def said(draw: Draw) -> Mapping[str, object]:
        return {**clause(draw), "s": draw.one(saying)}

    def wrongly(draw: Draw) -> Mapping[str, object]:
        w, r = draw.one((("wrongly", "rightly"), ("mistakenly", "correctly")))
        return {**clause(draw), "s": draw.one(opining), "w": w, "r": r}

    def it_was(draw: Draw) -> Mapping[str, object]:
        return {**clause(draw), "g": draw.one(pity), "l": draw.one(rumour), "n": draw.one(myth)}

    return (
        fragment("knew", _KNEW, worlds("p k kn b"), knew, lexicon),
        fragment("glad", _GLAD, worlds("p k kn b"), knew, lexicon),
        fragment("said", _SAID, worlds("p k kn"), said, lexicon),
        fragment("wrongly", _WRONGLY, worlds("p k kn j"), wrongly, lexicon),
        fragment("it was", _IT_WAS, worlds("p g l m"), it_was, lexicon),
        fragment("according", _ACCORDING, worlds("p s"), it_was, lexicon),
    )


# Atoms: e, it will happen; pe, it may happen; pn, it may not happen; pr, it probably will; b and pb: the same of b.
_WILL = """
& {who} will {c.base}{t} | {who} will not {c.base}{t}
{a} will {c.base}{t} | e |p not pn
{a} will not {c.base}{t} | not e |p not pe
{a} is going to {c.base}{t} | e |p not pn
{a} may {c.base}{t} | pe || pe and pn
{a} might {c.base}{t} | pe || pe and pn
perhaps {a} will {c.base}{t} | pe || pe and pn
it is possible that {a} will {c.base}{t} | pe || pe and pn
*maybe {a} will {c.base}{t} | pe || pe and pn
*there is a chance that {a} will {c.base}{t} | pe || pe and pn
{a} will certainly {c.base}{t} | not pn
it is certain that {a} will {c.base}{t} | not pn
*{a} is bound to {c.base}{t} | not pn
*{a} is sure to {c.base}{t} | not pn
{a} will certainly not {c.base}{t} | not pe
it is impossible that {a} will {c.base}{t} | not pe
there is no chance that {a} will {c.base}{t} | not pe
it is not certain that {a} will {c.base}{t} | pn || pn and pe
*it is uncertain whether {a} will {c.base}{t} | pn and pe
{a} will probably {c.base}{t} | pr || pr and pn
it is likely that {a} will {c.base}{t} | pr || pr and pn
it is unlikely that {a} will {c.base}{t} | un || un and pe
{a} will probably not {c.base}{t} | un || un and pe
{b} will {c.base}{t} | b |p not nb
{b} will not {c.base}{t} | not b |p not pb
{b} may {c.base}{t} | pb || pb and nb
{b} will certainly not {c.base}{t} | not pb
"""
_WILL_AXIOM = (
    "(pe or not e) and (pn or e) and (pb or not b) and (nb or b) "
    "and (pe or not pr) and (pn or not un) and not (pr and un)"
)
# Atoms: o, it is an obligation; m, it is allowed; e, it will happen.
_MUST = """
& {who} has to {c.base} | {who} does not have to {c.base}
{a} must {c.base} | o
{a} has to {c.base} | o
{a} is required to {c.base} | o
*{a} is obliged to {c.base} | o
{a} does not have to {c.base} | not o || not o and m
{a} is not required to {c.base} | not o || not o and m
*{a} is not obliged to {c.base} | not o || not o and m
{a} is allowed to {c.base} | m || m and not o
{a} is permitted to {c.base} | m || m and not o
*{a} has permission to {c.base} | m || m and not o
{a} is not allowed to {c.base} | not m
{a} is forbidden to {c.base} | not m
{a} must not {c.base} | not m
*{a} is not permitted to {c.base} | not m
{a} is going to {c.base} | e
{a} will {c.base} | e
{a} will not {c.base} | not e
{a} is not going to {c.base} | not e
{b} has to {c.base} | b
{b} does not have to {c.base} | not b
"""
# Atoms: c, a can; d, a does it regularly; b, b can; bd, b does it regularly.
_CAN = """
& {who} can {s.base} | {who} cannot {s.base}
{a} can {s.base} | c
{a} is able to {s.base} | c
{a} cannot {s.base} | not c
{a} is unable to {s.base} | not c
{a} is not able to {s.base} | not c
{a} {s.third} every week | d
{a} never {s.third} | not d || not d and c
both {a} and {b} can {s.base} | c and b
neither {a} nor {b} can {s.base} | not c and not b
{a} can {s.base}, but {b} cannot | c and not b
{b} can {s.base} | b
{b} cannot {s.base} | not b
{b} {s.third} every week | bd
*{a} is capable of {s.ing} | c
*{a} is incapable of {s.ing} | not c
{b} is unable to {s.base} | not b
*{a} often {s.third} | d
"""
_SOON = ";tomorrow;tonight;next week;on Friday;soon;this afternoon;at the weekend;next month;before the holidays"
_SKILLS = """swim;ride a horse;speak Greek;play chess;dance the tango;sew;cook;drive a tractor;juggle;sing;ski;knit;
fly a plane;read music;sail;type;bake bread;climb trees;play the harp;fix engines;speak Dutch;skate;draw portraits"""


def modal(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """May, will, certainly; must, is allowed to, will; can, does."""
    soon = _SOON.split(";")
    skills = [Verb.of(phrase) for phrase in lexicon.of(_SKILLS.split(";"))]

    def words(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        when = draw.one(soon)
        task, skill = draw.one(lexicon.tasks), draw.one(skills)
        return {"a": a, "b": b, "c": task, "s": skill, "t": f" {when}" if when else ""}

    can = "(c or not d) and (b or not bd)"
    return (
        fragment("will", _WILL, worlds("e pe pn pr un b pb nb", _WILL_AXIOM), words, lexicon, "present"),
        fragment("must", _MUST, worlds("o m e b", "m or not o"), words, lexicon, "present"),
        fragment("can", _CAN, worlds("c d b bd", can), words, lexicon, "present"),
    )
