"""The strongest interactions as a ring of words: premise above, hypothesis below, both read from left to right.

A single text goes all the way round, clockwise from the bottom.

Where words need each other the line is solid, where one replaces the other it is dashed; width says how strongly.
`figures` draws the same `ring` with the same `strongest` lines.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from neurogame.explanation import summary
from neurogame.explanation.views.drawing import DRAWING, words_of
from neurogame.printing import cut

if TYPE_CHECKING:
    from neurogame.explanation.record import Explanation

_SIZE, _LONGEST = 480, 12


def strongest(ex: Explanation, shown: list[int]) -> list[summary.Pair]:
    """The pairs that are drawn, strongest first."""
    inside = set(shown)
    both = (pair for pairs in summary.pairs(ex, len(ex.words) ** 2) for pair in pairs)
    pairs = sorted((p for p in both if p.i in inside and p.j in inside), key=lambda pair: -abs(pair.value))
    return [pair for pair in pairs if abs(pair.value) >= DRAWING.faintest * abs(pairs[0].value)][: DRAWING.lines]


def ring(ex: Explanation, shown: list[int]) -> tuple[dict[int, float], list[tuple[float, float]]]:
    """Angle of each word, clockwise from the right as SVG has it; and where the arc of each text begins and ends."""
    names = [side for side, _ in ex.parts]
    sides = [[i for i in shown if ex.sides[i] == side] for side in (*names, *[None] * (2 - len(names)))]
    first = len(sides[0]) / len(shown)
    least = DRAWING.narrowest
    first = min(1 - least, max(least, first)) if all(sides) else first
    angles, arcs = dict[int, float](), []
    for words, share, middle, turn in ((sides[0], first, -0.5, 1), (sides[1], 1 - first, 0.5, -1)):
        arc, centre = 2 * math.pi * share - DRAWING.gap, math.pi * middle
        for place, i in enumerate(words):
            angles[i] = centre + turn * arc * ((place + 0.5) / len(words) - 0.5)
        arcs += [(centre - arc / 2, centre + arc / 2)] if words else []
    return angles, arcs


def network(ex: Explanation) -> dict[str, Any] | None:
    """What `figures.html` draws as a ring; None where no pair is above the error."""
    shown = words_of(ex)
    lines = strongest(ex, shown)
    if not lines:
        return None
    names = {i: cut(summary.name(ex, i), _LONGEST) for i in shown}
    radius = _SIZE / 2 - 20 - 7.6 * max(map(len, names.values()))
    angles, arcs = ring(ex, shown)
    largest = max(map(abs, ex.scores)) or 1.0
    return {
        "size": _SIZE,
        "half": _SIZE / 2,
        "arcs": [_arc(*ends, radius) for ends in arcs],
        "edges": [_edge(ex, pair, angles, radius, lines[0].value) for pair in reversed(lines)],
        "nodes": [_node(names[i], angles[i], radius, ex.scores[i] / largest) for i in shown],
        "said": summary.listed_pairs(ex, lines[:3], summary.digits([lines[0].value])),
        "where": "" if ex.text is not None else "; premise above, hypothesis below",
    }


def _at(angle: float, radius: float) -> str:
    return f"{radius * math.cos(angle):.1f} {radius * math.sin(angle):.1f}"


def _arc(start: float, end: float, radius: float) -> str:
    wide = int(end - start > math.pi)
    return f"M{_at(start, radius)}A{radius:.1f} {radius:.1f} 0 {wide} 1 {_at(end, radius)}"


def _edge(ex: Explanation, pair: summary.Pair, angles: dict[int, float], radius: float, top: float) -> dict[str, Any]:
    """A curve that bends towards the middle."""
    a, b = angles[pair.i], angles[pair.j]
    x, y = (DRAWING.bend / 2 * radius * (f(a) + f(b)) for f in (math.cos, math.sin))
    share = abs(pair.value / top)
    return {
        "value": pair.value,
        "path": f"M{_at(a, radius)}Q{x:.1f} {y:.1f} {_at(b, radius)}",
        "width": DRAWING.line[0] + DRAWING.line[1] * share,
        "ink": DRAWING.ink[0] + DRAWING.ink[1] * share,
        "title": summary.named_pair(ex, pair, summary.digits([top])),
    }


def _node(name: str, angle: float, radius: float, share: float) -> dict[str, Any]:
    left = math.cos(angle) < 0
    x, y = _at(angle, radius).split()
    turn = math.degrees(angle) + 180 * left
    size = DRAWING.dot[0] + DRAWING.dot[1] * abs(share)
    return {"name": name, "x": x, "y": y, "share": share, "radius": size, "turn": turn, "left": left}
