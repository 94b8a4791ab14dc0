"""The strongest interactions as a ring of words: premise above, hypothesis below, both read from left to right.

Where words need each other the line is solid, where one replaces the other it is dashed; width says how strongly.
`figures` draws the same `ring` with the same `strongest` lines.
"""

import math
from html import escape

from neurogame.explanation import summary
from neurogame.explanation.record import Explanation
from neurogame.printing import cut

MOST = 14  # lines
_FAINTEST = 0.12  # of the strongest: below, a line says nothing
_GAP = 0.34  # radians between the two texts
_SIZE, _LONGEST = 480, 12


def strongest(ex: Explanation, shown: list[int]) -> list[summary.Pair]:
    """The pairs that are drawn, strongest first."""
    inside = set(shown)
    both = (pair for found in summary.pairs(ex, len(ex.words) ** 2) for pair in found)
    found = sorted((p for p in both if p.i in inside and p.j in inside), key=lambda pair: -abs(pair.value))
    return [pair for pair in found if abs(pair.value) >= _FAINTEST * abs(found[0].value)][:MOST]


def ring(ex: Explanation, shown: list[int]) -> tuple[dict[int, float], list[tuple[float, float]]]:
    """Angle of each word, clockwise from the right as SVG has it; and where the arc of each text begins and ends."""
    sides = [[i for i in shown if ex.sides[i] == side] for side in ("premise", "hypothesis")]
    first = len(sides[0]) / len(shown)
    first = min(0.68, max(0.32, first)) if all(sides) else first  # a word alone needs room as well
    angles, arcs = dict[int, float](), []
    for words, share, middle, turn in ((sides[0], first, -0.5, 1), (sides[1], 1 - first, 0.5, -1)):
        arc, centre = 2 * math.pi * share - _GAP, math.pi * middle
        for place, i in enumerate(words):
            angles[i] = centre + turn * arc * ((place + 0.5) / len(words) - 0.5)
        arcs += [(centre - arc / 2, centre + arc / 2)] if words else []
    return angles, arcs


def network(ex: Explanation) -> str:
    """A figure as inline SVG; nothing where no pair is above the error."""
    shown = summary.drawn(ex)
    lines = strongest(ex, shown)
    if not lines:
        return ""
    names = {i: cut(ex.words[i], _LONGEST) for i in shown}
    radius = _SIZE / 2 - 20 - 7.6 * max(map(len, names.values()))
    angles, arcs = ring(ex, shown)
    digits = summary.digits([lines[0].value])
    parts = [_arc(*ends, radius) for ends in arcs]
    parts += [_line(ex, pair, angles, radius, abs(pair.value / lines[0].value), digits) for pair in reversed(lines)]
    largest = max(map(abs, ex.scores)) or 1.0
    parts += [_word(names[i], angles[i], radius, ex.scores[i] / largest) for i in shown]
    said = "; ".join(
        f"{summary.placed(ex, p.i)} and {summary.placed(ex, p.j)} {summary.signed(p.value, digits)}" for p in lines[:3]
    )
    half = _SIZE / 2
    return (
        f'<figure style="flex-basis:22rem"><svg class="network" role="img" '
        f'aria-label="{escape(f"Strongest interactions: {said}.")}" viewBox="{-half} {-half} {_SIZE} {_SIZE}" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
        f"<figcaption>The {summary.counted(len(lines), 'strongest pair')}; premise above, hypothesis below. "
        "Solid and blue: need each other; dashed and orange: replace each other. "
        "Dots grow with a word's own score.</figcaption></figure>"
    )


def _at(angle: float, radius: float) -> str:
    return f"{radius * math.cos(angle):.1f} {radius * math.sin(angle):.1f}"


def _arc(start: float, end: float, radius: float) -> str:
    wide = int(end - start > math.pi)
    path = f"M{_at(start, radius)}A{radius:.1f} {radius:.1f} 0 {wide} 1 {_at(end, radius)}"
    return f'<path class="arc" d="{path}"/>'


def _line(
    ex: Explanation, pair: summary.Pair, angles: dict[int, float], radius: float, share: float, digits: int
) -> str:
    """A curve that bends towards the middle."""
    a, b = angles[pair.i], angles[pair.j]
    x, y = (0.2 * radius * (f(a) + f(b)) for f in (math.cos, math.sin))
    title = escape(f"{summary.placed(ex, pair.i)} × {summary.placed(ex, pair.j)}: {summary.signed(pair.value, digits)}")
    kind = "plus" if pair.value > 0 else "minus"
    return (
        f'<path class="edge {kind}" d="M{_at(a, radius)}Q{x:.1f} {y:.1f} {_at(b, radius)}" '
        f'stroke-width="{1 + 6 * share:.2f}" stroke-opacity="{0.3 + 0.6 * share:.2f}"><title>{title}</title></path>'
    )


def _word(name: str, angle: float, radius: float, share: float) -> str:
    left = math.cos(angle) < 0
    turn = math.degrees(angle) + 180 * left
    x, y = _at(angle, radius).split()
    return (
        f'<g transform="translate({x},{y})"><circle class="{"p" if share > 0 else "n"}" r="{3 + 5 * abs(share):.1f}"/>'
        f'<text transform="rotate({turn:.1f}) translate({-12 if left else 12},4)" '
        f'text-anchor="{"end" if left else "start"}">{escape(name)}</text></g>'
    )
