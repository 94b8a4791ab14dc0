"""A toy language for inference: sentences whose labels follow from what they mean, drawn without shortcuts.

Four phenomena: negation, quantifiers, hypernyms and passives. Each has sentence forms over a handful
of worlds; a form is a template and the worlds in which it is true. With P and H the worlds of premise
and hypothesis,

    entailment  P ⊆ H        contradiction  P ∩ H = ∅        neutral  otherwise.

Conventions:
- existential import: every noun phrase under a quantifier denotes something, so "every dog fell"
  entails "some dog fell", and "no dog fell" entails "not every dog fell";
- "the dog" is the same one dog in premise and hypothesis;
- animals are no persons; opposites such as wet and dry are complementary: exactly one of the two holds;
- an event that took place "today" took place; a black dog is a dog.

No shortcuts: pairs of forms are weighted such that every form occurs equally often with each label, on
either side, and the words are drawn independently of the label. So neither sentence alone says anything
about the label; how many words the two share says as little as the forms allow. Pairs of passives with
exchanged roles ("The dog chased the cat." / "The dog was chased by the cat.") are decided by word order
alone. They are few, so that a model that ignores order can still get nearly everything else right.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import product
from typing import Any

from neurogame.data.forms import Draw, Form, Language, balance, sentence
from neurogame.data.pairs import DataError, Pair, PairDataset, check_seed, draw_new
from neurogame.labels import LABELS

KINDS = {
    "animal": ("dog", "cat", "horse", "cow"),
    "person": ("doctor", "nurse", "artist", "farmer"),
}
NOUNS = KINDS["animal"] + KINDS["person"]
DID = {  # what either kind does: past → base
    "moved": "move",
    "stopped": "stop",
    "arrived": "arrive",
    "turned": "turn",
    "fell": "fall",
    "vanished": "vanish",
    "waited": "wait",
    "returned": "return",
    "left": "leave",
    "slipped": "slip",
}
DONE = {  # transitive, not symmetric: past → (base, participle)
    "chased": ("chase", "chased"),
    "saw": ("see", "seen"),
    "heard": ("hear", "heard"),
    "found": ("find", "found"),
    "followed": ("follow", "followed"),
    "watched": ("watch", "watched"),
    "touched": ("touch", "touched"),
    "bit": ("bite", "bitten"),
    "helped": ("help", "helped"),
    "pushed": ("push", "pushed"),
}
OPPOSITES = {"wet": "dry", "awake": "asleep", "inside": "outside"}
OPPOSITES |= {value: key for key, value in OPPOSITES.items()}
COLOURS = ("black", "white", "brown", "grey")
LOOKS = ("", "young ", "old ", "tall ", "small ", "quiet ", "strange ")
ADVERBS = ("today", "again", "early", "here")


def negation() -> Language:
    """Worlds: (a of the subject, b of the subject). o and q are the opposites of a and b."""

    def forms(state: str, index: int, *, truth: bool) -> tuple[Form, Form]:
        return (
            Form(f"the {{s}} {{is}} {state}", lambda world: world[index] == truth),
            Form(f"the {{s}} {{is}} not {state}", lambda world: world[index] != truth),
        )

    def words(draw: Draw) -> dict[str, str]:
        a = draw.one(OPPOSITES)
        b = draw.one(OPPOSITES, a, OPPOSITES[a])
        subject = draw.one(LOOKS) + draw.one(NOUNS)
        return {"s": subject, "is": draw.one(("is", "was")), "a": a, "o": OPPOSITES[a], "b": b, "q": OPPOSITES[b]}

    of_a = forms("{a}", 0, truth=True) + forms("{o}", 0, truth=False)
    of_b = forms("{b}", 1, truth=True) + forms("{q}", 1, truth=False)
    return Language(of_a + of_b, tuple(product((False, True), repeat=2)), words)


_QUANTIFIERS: dict[str, Callable[[set[bool]], bool]] = {  # of the truth values of the verb over the noun's things
    "every {n} {past}": lambda did: False not in did,
    "some {n} {past}": lambda did: True in did,
    "a {n} {past}": lambda did: True in did,
    "no {n} {past}": lambda did: True not in did,
    "not every {n} {past}": lambda did: False in did,
    "some {n} did not {base}": lambda did: False in did,
}


def _quantified(nouns: Mapping[str, str], ends: Mapping[str, int]) -> tuple[Form, ...]:
    """Each quantifier with each noun phrase and each end of the sentence.

    Args:
        nouns: noun phrase → the sorts of things it is true of.
        ends: end of the sentence → the least degree to which a thing must have done it. Degrees: 0 did
            not, 1 did, 2 did and the adverb is true of it.

    A world is the set of (sort, degree) that occur in it.
    """

    def form(quantifier: str, noun: str, end: str) -> Form:
        def holds(world: frozenset[tuple[str, int]]) -> bool:
            return _QUANTIFIERS[quantifier]({degree >= ends[end] for sort, degree in world if sort in nouns[noun]})

        return Form(quantifier.replace("{n}", noun) + end, holds)

    return tuple(form(*parts) for parts in product(_QUANTIFIERS, nouns, ends))


def _occurring(needed: str, optional: str) -> tuple[frozenset[tuple[str, int]], ...]:
    """All worlds in which each needed sort of thing occurs (existential import), the optional ones perhaps."""
    choices = []
    for sort in needed + optional:
        subsets = [frozenset((sort, i) for i in range(3) if bits >> i & 1) for bits in range(8)]
        choices.append([s for s in subsets if s or sort in optional])
    return tuple(frozenset().union(*parts) for parts in product(*choices))


def _verb(draw: Draw) -> dict[str, str]:
    past = draw.one(DID)
    return {"past": past, "base": DID[past], "w": draw.one(ADVERBS)}


def quantifiers() -> Language:
    """Sorts: c, things of the noun's kind and of the colour; o, of the kind and of another colour."""

    def words(draw: Draw) -> dict[str, str]:
        return {"x": draw.one(KINDS["animal"]), "m": draw.one(COLOURS), **_verb(draw)}

    return Language(_quantified({"{x}": "co", "{m} {x}": "c"}, {"": 1, " {w}": 2}), _occurring("c", "o"), words)


def hypernyms() -> Language:
    """Sorts: x, one kind under the hypernym k; r, the rest of k; j, another hypernym."""

    def words(draw: Draw) -> dict[str, str]:
        k = draw.one(KINDS)
        return {"x": draw.one(KINDS[k]), "k": k, "j": draw.one(KINDS, k), **_verb(draw)}

    return Language(_quantified({"{x}": "x", "{k}": "xr", "{j}": "j"}, {" {w}": 1}), _occurring("xj", "r"), words)


def passives() -> Language:
    """Worlds: (a did it to b, someone else did it to b, b did it to a, b is q). o is the opposite of q.

    The states are there because "The cat was chased." and "The cat was dry." look alike, and because
    what a sentence about an event leaves open is mostly not about the event. The number of shared
    words is not balanced: that would make most neutral pairs exchanges of roles.
    """

    def event(who: str, whom: str, index: int, roles: int) -> tuple[Form, ...]:
        voices = {
            f"the {{{who}}} {{past}} the {{{whom}}}": True,
            f"the {{{who}}} did not {{base}} the {{{whom}}}": False,
            f"the {{{whom}}} was {{done}} by the {{{who}}}": True,
            f"the {{{whom}}} was not {{done}} by the {{{who}}}": False,
        }

        def form(text: str, *, truth: bool) -> Form:
            return Form(text, lambda world: world[index] == truth, roles)

        return tuple(form(text, truth=truth) for text, truth in voices.items())

    forms = (
        *event("a", "b", 0, 0),
        *event("b", "a", 2, 1),
        Form("the {b} was {done}", lambda world: world[0] or world[1]),
        Form("the {b} was not {done}", lambda world: not (world[0] or world[1])),
        Form("the {b} was {q}", lambda world: world[3]),
        Form("the {b} was not {q}", lambda world: not world[3]),
        Form("the {b} was {o}", lambda world: not world[3]),
        Form("the {b} was not {o}", lambda world: world[3]),
    )

    def words(draw: Draw) -> dict[str, str]:
        a, past, q = draw.one(NOUNS), draw.one(DONE), draw.one(OPPOSITES)
        base, done = DONE[past]
        return {"a": a, "b": draw.one(NOUNS, a), "past": past, "base": base, "done": done, "q": q, "o": OPPOSITES[q]}

    return Language(forms, tuple(product((False, True), repeat=4)), words, level=False)


PHENOMENA: dict[str, Callable[[], Language]] = {
    "negation": negation,
    "quantifier": quantifiers,
    "hypernym": hypernyms,
    "passive": passives,
}


@cache
def _tables() -> dict[str, tuple[Language, dict[str, tuple[tuple[tuple[str, str], ...], Any]]]]:
    """Phenomenon → its language and, for each label, the pairs of forms with cumulative weights."""
    tables = {}
    for name, make in PHENOMENA.items():
        language = make()
        weighted = balance(language)
        tables[name] = (language, {label: weighted.of(label) for label in LABELS})
    return tables


def generate(count: int, seed: int) -> PairDataset:
    """`count` different pairs in random order, as many of each phenomenon and label as can be.

        generate(1200, seed=0).summary()

    Args:
        count: number of pairs; there are some ten thousand.
        seed: the same seed gives the same pairs.

    Returns:
        The pairs. `extras` has the phenomenon ("negation", "quantifier", "hypernym", "passive") and the two templates.

    Raises:
        DataError: if the count is not positive, or there are too few pairs.
    """
    if count < 1:
        raise DataError(f"count {count} is not positive; allowed: a number of pairs to generate")
    check_seed(seed)
    draw = Draw(seed)
    groups = list(product(LABELS, PHENOMENA))
    pairs: dict[tuple[str, str], Pair] = {}
    for index in range(count):
        label, phenomenon = groups[index % len(groups)]
        pair = draw_new(partial(_pair, phenomenon, label, draw), pairs)
        if pair is None:
            raise DataError(f"{count} pairs are more than the toy language has; allowed: up to some ten thousand")
        pairs[pair.premise, pair.hypothesis] = pair
    return PairDataset(tuple(pairs.values()), "toy", "generated").shuffled(seed)


def _pair(phenomenon: str, label: str, draw: Draw) -> Pair:
    language, by_label = _tables()[phenomenon]
    cells, cumulative = by_label[label]
    premise, hypothesis = cells[draw.place(cumulative)]
    words = language.words(draw)
    extras = {"phenomenon": phenomenon, "premise_form": premise, "hypothesis_form": hypothesis}
    return Pair(sentence(premise, words), sentence(hypothesis, words), label, extras)
