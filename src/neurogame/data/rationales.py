"""Human highlights of e-SNLI: from sentences with words marked *so* to one truth value per word.

A word is what whitespace delimits, punctuation attached, as everywhere in this package. The
`*_Highlighted_*` columns of e-SNLI number words in a tokenisation of their own and are ignored, as
the authors of the set advise.
"""

import re
from dataclasses import dataclass

from neurogame.data.pairs import Pair

# An asterisk opens a mark if text follows it at once, and closes one if text precedes it at once; marks do not nest.
_MARK = re.compile(r"\*(?=[^\s*])([^*]*[^\s*])\*")
_COLUMNS = (("Sentence1_marked_", "Sentence2_marked_"), ("p_marked_", "h_marked_"))


@dataclass(frozen=True)
class Rationale:
    """The words of a sentence and, for each, whether the annotator marked it or a part of it."""

    words: tuple[str, ...]
    marked: tuple[bool, ...]

    def __post_init__(self) -> None:
        if len(self.words) != len(self.marked):
            raise ValueError(f"{len(self.words)} words but {len(self.marked)} marks; allowed: one mark per word")


def parse(marked: str, sentence: str | None = None) -> Rationale:
    """The rationale in a marked sentence: "A *red* *shirt.*" marks "red" and "shirt.".

    An asterisk that neither opens nor closes a mark is dropped. The words are those of `sentence`, if it is the same
    text up to whitespace and asterisks, so that a word such as "5*3" keeps its own.
    """
    inside = [False] * len(marked)
    for match in _MARK.finditer(marked):
        inside[match.start(1) : match.end(1)] = [True] * len(match.group(1))
    flags = (inside[at] for at, _ in _letters(marked))
    text = marked.replace("*", "")
    if sentence is not None and [c for _, c in _letters(sentence)] == [c for _, c in _letters(marked)]:
        text = sentence
    words = tuple(text.split())
    return Rationale(words, tuple(sum(next(flags) for _ in _letters(word)) > 0 for word in words))


def rationales(pair: Pair) -> list[tuple[Rationale, Rationale]]:
    """(premise, hypothesis) rationales of a pair, one per annotator, from the marked columns among its extras.

        [p.marked for p, h in rationales(load("esnli/dev")[0])]

    Columns are e-SNLI's own (`Sentence1_marked_1`, `Sentence2_marked_1`) or plain (`p_marked_1`,
    `h_marked_1`), counted from 1; an annotator whose columns are missing or empty is left out.

    Args:
        pair: with the columns as extras.

    Returns:
        In the order of the annotators; empty if no annotator marked words.
    """
    marks = []
    for premise, hypothesis in _COLUMNS:
        numbers = sorted(
            int(number)
            for column in pair.extras
            if column.startswith(premise) and (number := column.removeprefix(premise)).isdecimal()
        )
        for annotator in numbers:
            texts = pair.extras[f"{premise}{annotator}"], pair.extras.get(f"{hypothesis}{annotator}")
            if all(isinstance(text, str) and text.strip() for text in texts):
                marks.append((parse(str(texts[0]), pair.premise), parse(str(texts[1]), pair.hypothesis)))
    return marks


def _letters(text: str) -> list[tuple[int, str]]:
    """The characters that are neither whitespace nor asterisks, with their places."""
    return [(at, c) for at, c in enumerate(text) if c != "*" and not c.isspace()]
