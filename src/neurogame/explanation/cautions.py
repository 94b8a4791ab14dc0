"""Known pitfalls of NLI models that show in the two texts alone; no model is run.

    cautions("The nurse thanked the pilot.", "The pilot thanked the nurse.")   # the same words in another order

Heuristics with few false alarms: a wrong warning costs more than a missing one.
"""

import json
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

_FEWEST = 3  # words needed to judge an order or a language
_HITS = 2  # frequent words of other languages that make a text foreign
_LATIN = 0.5  # share of letters below which a text is in another script
_EDGES = ".,;:!?()[]\"'…“”‘’«»¿¡"
_FREQUENT = json.loads(Path(__file__).with_name("frequent_words.json").read_text(encoding="utf-8"))  # by language
_ENGLISH = frozenset(_FREQUENT.pop("English").split())
_OTHERS = frozenset(" ".join(_FREQUENT.values()).split()) - _ENGLISH  # languages in Latin script


def cautions(premise: str | None, hypothesis: str | None) -> list[str]:
    """Warnings about the two texts; none for a single text, whose task is not known.

    Args:
        premise: as given to the model; None: there is no pair.
        hypothesis: likewise.

    Returns:
        One line each, without a full stop: an empty side, another language, the same words in another order.

    Example:
        >>> cautions("Two dogs sleep.", "")
        ['the hypothesis is empty: the answer rests on the premise alone']
    """
    if premise is None or hypothesis is None:
        return []
    return list(_cautions({"premise": premise, "hypothesis": hypothesis}))


def _cautions(texts: dict[str, str]) -> Iterator[str]:
    words = {side: [word for word in map(bare, text.split()) if word] for side, text in texts.items()}
    empty = [side for side, text in texts.items() if not text.strip()]
    if len(empty) == 1:
        other = next(side for side in texts if side not in empty)
        yield f"the {empty[0]} is empty: the answer rests on the {other} alone"
    foreign = [side for side, text in texts.items() if not looks_english(text, words[side])]
    if foreign:
        subject = "premise and hypothesis do" if len(foreign) == 2 else f"the {foreign[0]} does"
        yield f"{subject} not look like English: a model that was trained on English guesses here"
    if reordered(words["premise"], words["hypothesis"]):
        yield "the hypothesis repeats the premise's words in another order: models often miss who does what to whom"


def bare(word: str) -> str:
    """A word in lower case, without the punctuation around it."""
    return word.strip(_EDGES).casefold()


def reordered(premise: list[str], hypothesis: list[str]) -> bool:
    """Whether every word of the hypothesis is one of the premise, but not in the premise's order."""
    if len(hypothesis) < _FEWEST or Counter(hypothesis) - Counter(premise):
        return False
    rest = iter(premise)
    return not all(word in rest for word in hypothesis)  # `in` moves on: a subsequence keeps the order


def looks_english(text: str, words: Sequence[str]) -> bool:
    """Whether the letters are mostly Latin, and frequent words of other languages are no more than English ones."""
    letters = [c for c in text[:2000] if c.isalpha()]
    if letters and sum(map(_is_latin, letters)) < _LATIN * len(letters):
        return False
    english, foreign = (sum(word in frequent for word in words) for frequent in (_ENGLISH, _OTHERS))
    return len(words) < _FEWEST or foreign < _HITS or foreign <= english


def _is_latin(letter: str) -> bool:
    return letter.isascii() or unicodedata.name(letter, "").startswith("LATIN")
