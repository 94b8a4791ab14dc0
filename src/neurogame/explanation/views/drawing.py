"""The numbers that all drawings share: the page, the figures, and the page of `neurogame serve`, which reads them
from /health. A change here changes all of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from neurogame.explanation import summary

if TYPE_CHECKING:
    from neurogame.explanation.record import Explanation


@dataclass(frozen=True)
class Drawing:
    """Shares are of the strongest word or pair."""

    words: int = 40  # in a matrix or a ring: more would be a carpet, not a picture
    strong: float = 0.3  # share from which on a word shows its number
    weak: float = 0.25  # share below which a word has no colour, so that the others stand out
    deepest: float = 0.5  # opacity of the strongest word, before a theme deepens it: its text must stay readable
    palest: float = 0.25  # of the deepest: where colour begins
    lines: int = 14  # in a ring
    faintest: float = 0.12  # share below which a line says nothing
    gap: float = 0.34  # radians between the two texts of a ring
    narrowest: float = 0.32  # share of the ring that each text has at least: a word alone needs room as well
    bend: float = 0.4  # how far a line keeps from the middle, of the way to its ends
    line: tuple[float, float] = (1.0, 6.0)  # width of a line: least, and per share
    ink: tuple[float, float] = (0.3, 0.6)  # its opacity, likewise
    dot: tuple[float, float] = (3.0, 5.0)  # radius of a word's dot, likewise
    sign: float = 0.35  # share from which on a cell of the matrix carries its sign
    shade: float = 0.8  # opacity of the strongest cell

    def tint(self, share: float) -> float:
        """Opacity of a word's colour."""
        size = abs(share)
        return 0.0 if size < self.weak else self.deepest * (self.palest + (1.0 - self.palest) * size)


DRAWING = Drawing()


def shared() -> dict[str, object]:
    """As plain JSON values, for those who draw elsewhere."""
    return asdict(DRAWING)


def plus_minus(ex: Explanation, i: int, digits: int) -> str:
    """± the standard error of a word's score; empty where there is none, or the score is exact."""
    error = summary.error_of(ex, i)
    return "" if error is None or ex.diagnostics.get("exact") else f" ± {error:.{digits}f}"


def words_of(ex: Explanation) -> list[int]:
    """The words of a matrix or a ring, in their order: of many those with the largest scores."""
    return sorted(summary.ranked(ex, DRAWING.words))
