"""What is known or said, and what may or must be: `attitude` and `modal`."""

from collections.abc import Mapping

from neurogame.data.forms import Draw
from neurogame.data.fragments.english import section
from neurogame.data.fragments.form_tables import Fragment, fragment, worlds
from neurogame.data.fragments.inflection import Verb
from neurogame.data.fragments.lexicon import Lexicon
from neurogame.data.fragments.noun_phrases import persons

ENGLISH = section("reports")


def attitude(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """Knowing presupposes the clause, also under negation; saying leaves it open; being wrong about it denies it."""
    knowing, saying, opining = (
        [Verb.of(phrase.replace("_", " ")) for phrase in lexicon.of(text.split())]
        for text in (ENGLISH["knowing"], ENGLISH["saying"], ENGLISH["opining"])
    )
    feeling, states = lexicon.of(ENGLISH["feeling"].split()), lexicon.of(ENGLISH["states"].split(";"))
    pity, rumour, myth = (lexicon.of(text.split(";")) for text in (ENGLISH["pity"], ENGLISH["rumour"], ENGLISH["myth"]))

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
        fragment("knew", ENGLISH["knew"], worlds("p k kn b"), knew, lexicon),
        fragment("glad", ENGLISH["glad"], worlds("p k kn b"), knew, lexicon),
        fragment("said", ENGLISH["said"], worlds("p k kn"), said, lexicon),
        fragment("wrongly", ENGLISH["wrongly"], worlds("p k kn j"), wrongly, lexicon),
        fragment("it was", ENGLISH["it_was"], worlds("p g l m"), it_was, lexicon),
        fragment("according", ENGLISH["according"], worlds("p s"), it_was, lexicon),
    )


_WILL_AXIOM = (
    "(pe or not e) and (pn or e) and (pb or not b) and (nb or b) "
    "and (pe or not pr) and (pn or not un) and not (pr and un)"
)


def modal(lexicon: Lexicon) -> tuple[Fragment, ...]:
    """May, will, certainly; must, is allowed to, will; can, does."""
    soon = ENGLISH["soon"].split(";")
    skills = [Verb.of(phrase) for phrase in lexicon.of(ENGLISH["skills"].split(";"))]

    def words(draw: Draw) -> Mapping[str, object]:
        a, b = persons(draw, lexicon, 2)
        when = draw.one(soon)
        task, skill = draw.one(lexicon.tasks), draw.one(skills)
        return {"a": a, "b": b, "c": task, "s": skill, "t": f" {when}" if when else ""}

    can = "(c or not d) and (b or not bd)"
    return (
        fragment("will", ENGLISH["will"], worlds("e pe pn pr un b pb nb", _WILL_AXIOM), words, lexicon, "present"),
        fragment("must", ENGLISH["must"], worlds("o m e b", "m or not o"), words, lexicon, "present"),
        fragment("can", ENGLISH["can"], worlds("c d b bd", can), words, lexicon, "present"),
    )
