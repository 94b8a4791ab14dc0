"""The matrix of interactions: blue and + where words need each other, orange and − where they replace.

Premise and hypothesis of a pair are blocks; each cell has its numbers as a title, and its sign where it is strong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from neurogame.explanation import summary
from neurogame.explanation.views.drawing import DRAWING, words_of
from neurogame.printing import cut

if TYPE_CHECKING:
    from neurogame.explanation.record import Explanation

_CELL = 24
_VISIBLE = 0.01  # of the strongest pair: less would be drawn in the colour of the ground
_LONGEST = 14  # characters of a label


def matrix(ex: Explanation) -> dict[str, Any] | None:
    """What `figures.html` draws, of many words those with the largest scores; None where there is no pair."""
    assert ex.interactions is not None
    shown = words_of(ex)
    if len(shown) < 2:
        return None
    names = [cut(summary.name(ex, i), _LONGEST) for i in shown]
    gutter = 16 + round(7.2 * max(map(len, names)))
    places = [gutter + _CELL * place for place in range(len(shown))]
    largest = max(abs(ex.interactions[i][j]) for i in shown for j in shown) or 1.0
    digits = summary.digits([largest])
    pairs = sorted((pair for pairs in summary.pairs(ex, 3) for pair in pairs), key=lambda pair: -abs(pair.value))
    first, end = sum(ex.sides[i] == ex.parts[0][0] for i in shown), gutter + _CELL * len(shown)
    starts = {"premise": gutter} if first and ex.text is None else {}
    starts |= {"hypothesis": gutter + _CELL * first - 1} if first < len(shown) else {}
    return {
        "size": end + 20,
        "gutter": gutter,
        "end": end,
        "cut": gutter + _CELL * first - 1,
        "ground": "".join(_square(x, y) for y in places for x in places),
        "cells": list(_cells(ex, dict(zip(shown, places, strict=True)), largest, digits)),
        "names": [(name, place + _CELL / 2 + 3) for name, place in zip(names, places, strict=True)],
        "blocks": list(starts.items()),
        "largest": summary.signed(largest, digits).replace("+", "±"),
        "left_out": len(summary.ranked(ex)) - len(shown),
        "said": summary.listed_pairs(ex, pairs[:3], digits),
    }


def _square(x: int, y: int) -> str:
    inner = _CELL - 2
    return f"M{x} {y}h{inner}v{inner}h-{inner}z"


def _cells(ex: Explanation, places: dict[int, int], largest: float, digits: int) -> Iterator[dict[str, Any]]:
    """One per pair that is visible; the ground below them is one piece."""
    assert ex.interactions is not None
    for i, y in places.items():
        for j, x in places.items():
            value = ex.interactions[i][j]
            share = abs(value) / largest
            if share >= _VISIBLE:
                yield {
                    "value": value,
                    "shade": DRAWING.shade * share,
                    "path": _square(x, y),
                    "title": summary.named_pair(ex, summary.Pair(i, j, value), digits),
                    "sign": (x + _CELL // 2 - 1, y + _CELL // 2 + 3) if share >= DRAWING.sign else None,
                }
