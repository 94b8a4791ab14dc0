"""Pairs of captions that are read as logic reads them: what one photograph shows says nothing of another.

SNLI takes premise and hypothesis to be about one photograph, so that a man who sings excludes a woman who dances. Here
both are captions (premises of SNLI train), each of a photograph of its own; a caption is entailed by itself and
contradicted by its negation, and has nothing to do with another. Labels follow from the form. Each way in which a
hypothesis is put occurs with each label, so none can be told from it alone. Which of the two readings is meant is a
convention that the pair does not tell, so that one should not be sure of it: beside the label of a caption and another
stands UNSURE, the column `probabilities` that `training.distillation` reads. `mixture.py` draws them.
"""

import re
from collections.abc import Sequence
from random import Random

from neurogame.data import Pair

_OPENING = re.compile(r"(an?|the|two|three|four|five|some|several|many|one)\b", re.IGNORECASE)  # can be written small
_VERB = re.compile(r"\b(is|are)\b")  # a sentence, which can be denied
_WORDS = range(5, 16)  # of a caption
_OTHERS = 100  # of which the one that shares most words is the other photograph, two times in three
UNSURE = {"entailment": 0.03, "neutral": 0.75, "contradiction": 0.22}
# (premise, hypothesis, label, share): a caption {i}, another {j}, a third {k}; {not} is a way to deny what follows.
FORMS = (
    ("{j}", "{i}", "neutral", 7),
    ("{j} and {k}", "{i}", "neutral", 1),
    ("{not} {j}", "{i}", "neutral", 1),
    ("{i}", "{i}", "entailment", 1),
    ("{i} and {j}", "{i}", "entailment", 2),
    ("{j} and {i}", "{i}", "entailment", 2),
    ("{not} {i}", "{i}", "contradiction", 2),
    ("{j} but {not} {i}", "{i}", "contradiction", 1),
    ("{j}", "{not} {i}", "neutral", 2),
    ("{not} {j}", "{not} {i}", "neutral", 1),
    ("{i}", "{not} {i}", "contradiction", 1),
    ("{i} and {j}", "{not} {i}", "contradiction", 1),
    ("{j} but {not} {i}", "{not} {i}", "entailment", 1),
    ("{i}", "{i} and {j}", "neutral", 1),
    ("{j} and {i}", "{i} and {j}", "entailment", 1),
    ("{i} but {not} {j}", "{i} and {j}", "contradiction", 1),
)
DENIALS = ("it is not true that", "it is false that", "it is not the case that")


def generate(pairs: Sequence[Pair], count: int, seed: int) -> list[Pair]:
    """`count` pairs about the captions among the premises of `pairs`; a seed fixes them."""
    draw = Random(f"{seed}/captions")  # noqa: S311 — not cryptography
    texts = sorted({pair.premise.strip().rstrip(".").strip() for pair in pairs})
    texts = [text for text in texts if _is_sentence(text)]
    made = []
    for premise, hypothesis, label, _ in draw.choices(FORMS, weights=[share for *_, share in FORMS], k=count):
        i, k = draw.sample(texts, 2)
        slots = {"i": i, "j": _other(i, texts, draw), "k": k, "not": draw.choice(DENIALS)}
        extras = {} if "{not}" in premise + hypothesis or label != "neutral" else {"probabilities": UNSURE}
        made.append(Pair(_filled(premise, slots), _filled(hypothesis, slots), label, extras))
    return made


def _is_sentence(text: str) -> bool:
    """Whether a caption can stand in all forms."""
    whole = _OPENING.match(text) and _VERB.search(text) and "." not in text
    return bool(whole) and len(text.split()) in _WORDS


def _other(caption: str, texts: Sequence[str], draw: Random) -> str:
    """Another caption; two times in three one that shares words with it. Neither says all that the other says."""
    words = set(caption.lower().split())
    others = [text for text in draw.sample(texts, _OTHERS) if not _covers(words, set(text.lower().split()))]
    if draw.random() < 1 / 3:
        return others[0]
    return max(others, key=lambda text: len(words & set(text.lower().split())) / len(words | set(text.lower().split())))


def _covers(a: set[str], b: set[str]) -> bool:
    """Whether nearly all words of one are in the other."""
    return len(a & b) > 0.7 * min(len(a), len(b))


def _filled(template: str, slots: dict[str, str]) -> str:
    """A sentence: a capital at its beginning and none at the captions within, a full stop at its end."""
    text = template.format(**{name: text[0].lower() + text[1:] for name, text in slots.items()})
    return f"{text[0].upper()}{text[1:]}."
