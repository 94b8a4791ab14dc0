"""What is drawn where: the numbers that all drawings share, and the places of words in matrix, ring and trajectory.

The page draws them as SVG (`templates/figures.html`), `figures` draws them with matplotlib, and the page of
`neurogame serve` reads the numbers from /health. A change here changes all of them.

    matrix      interactions J_ij, premise and hypothesis of a pair as blocks
    network     the strongest of them as a ring: premise above, hypothesis below, both read from left to right; a single
                text goes all the way round, clockwise from the bottom
    trajectory  α of the strongest words after each update of s ← (1 − damping)·s + damping·tanh(h/γ)

Signs are never in colour alone: blue is +, a solid line, words that need each other; orange is −, a dashed line, words
that replace each other. In the trajectory the premise is solid, and each line ends at its word.
"""

from __future__ import annotations

import math
import unicodedata
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from neurogame._common.printing import cut
from neurogame.explanation import summary

if TYPE_CHECKING:
    from neurogame.explanation.record import Explanation

_CELL = 24  # of the matrix
_VISIBLE = 0.01  # of the strongest pair: less would not differ from the background
_RING = 480  # width and height
_LINES = 12  # words of a trajectory
_WIDTH, _HEIGHT = 640, 300  # of a trajectory
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 128, 14, 34  # its margins
_APART = 15  # between two of its names
_NARROWEST = 0.1  # of α, from bottom to top: rounding is not to fill the picture


@dataclass(frozen=True)
class Drawing:
    """Shares are of the strongest word or pair."""

    words: int = 40  # in a matrix or a ring: more could not be read
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
    """As plain JSON values, for the page of `neurogame serve`."""
    return asdict(DRAWING)


def direction(sentence: str) -> str:
    """Writing direction of the first letter that has one; `dir="auto"` does not look into <bdi>."""
    kinds = (unicodedata.bidirectional(c) for c in sentence)
    return "rtl" if next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L" else "ltr"


def words_of(ex: Explanation) -> list[int]:
    """The words of a matrix or a ring, in their order: of many those with the largest scores."""
    return sorted(summary.strongest_words(ex, DRAWING.words))


def first_side(ex: Explanation, shown: list[int]) -> int:
    """How many of the words are of the first text."""
    return sum(ex.sides[i] == ex.parts[0][0] for i in shown)


def matrix(ex: Explanation) -> dict[str, Any] | None:
    """What `figures.html` draws, of many words those with the largest scores; None where there is no pair."""
    shown = words_of(ex)
    if ex.interactions is None or len(shown) < 2:
        return None
    names = [cut(summary.name(ex, i), 14) for i in shown]
    gutter = 16 + round(7.2 * max(map(len, names)))
    places = {i: gutter + _CELL * place for place, i in enumerate(shown)}
    first, end = first_side(ex, shown), gutter + _CELL * len(shown)
    middle = gutter + _CELL * first - 1
    blocks = {"premise": gutter} if first and ex.text is None else {}
    blocks |= {"hypothesis": middle} if first < len(shown) else {}
    pairs = [summary.Pair(i, j, ex.interactions[i][j]) for i in shown for j in shown]
    largest = max(abs(pair.value) for pair in pairs) or 1.0
    digits = summary.digits([largest])
    cells = [
        {"x": places[pair.j], "y": places[pair.i], "value": pair.value, "share": abs(pair.value) / largest}
        | {"title": summary.pair_title(ex, pair, digits)}
        for pair in pairs
        if abs(pair.value) / largest >= _VISIBLE
    ]
    return {
        "size": end + 20,
        "gutter": gutter,
        "end": end,
        "cut": middle,
        "inner": _CELL - 2,
        "places": list(places.values()),
        "names": list(zip(names, places.values(), strict=True)),
        "blocks": list(blocks.items()),
        "cells": cells,
        "largest": summary.signed(largest, digits).replace("+", "±"),
        "left_out": len(summary.strongest_words(ex)) - len(shown),
        "said": summary.pair_list(ex, summary.strongest_pairs(ex)[:3], digits),
    }


def strongest(ex: Explanation, shown: list[int]) -> list[summary.Pair]:
    """The pairs that are drawn in a ring, strongest first."""
    inside = set(shown)
    pairs = [pair for pair in summary.strongest_pairs(ex) if pair.i in inside and pair.j in inside]
    return [pair for pair in pairs if abs(pair.value) >= DRAWING.faintest * abs(pairs[0].value)][: DRAWING.lines]


def ring(ex: Explanation, shown: list[int]) -> tuple[dict[int, float], list[tuple[float, float]]]:
    """Angle of each word, clockwise from the right as SVG has it; and where the arc of each text begins and ends."""
    first, least = first_side(ex, shown), DRAWING.narrowest
    sides, share = (shown[:first], shown[first:]), first / len(shown)
    share = min(1 - least, max(least, share)) if all(sides) else share
    angles, arcs = dict[int, float](), []
    for words, part, middle, turn in ((sides[0], share, -0.5, 1), (sides[1], 1 - share, 0.5, -1)):
        arc, centre = 2 * math.pi * part - DRAWING.gap, math.pi * middle
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
    names, shares = {i: cut(summary.name(ex, i), 12) for i in shown}, summary.shares(ex)
    radius = _RING / 2 - 20 - 7.6 * max(map(len, names.values()))
    angles, arcs = ring(ex, shown)
    digits = summary.digits([lines[0].value])

    def at(angle: float) -> str:
        return f"{radius * math.cos(angle):.1f} {radius * math.sin(angle):.1f}"

    def arc(start: float, end: float) -> str:
        return f"M{at(start)}A{radius:.1f} {radius:.1f} 0 {int(end - start > math.pi)} 1 {at(end)}"

    def curve(a: float, b: float) -> str:
        """Bends towards the middle."""
        x, y = (DRAWING.bend / 2 * radius * (f(a) + f(b)) for f in (math.cos, math.sin))
        return f"M{at(a)}Q{x:.1f} {y:.1f} {at(b)}"

    def node(i: int) -> dict[str, Any]:
        left, at_comma = math.cos(angles[i]) < 0, at(angles[i]).replace(" ", ",")
        turn = math.degrees(angles[i]) + 180 * left
        return {"name": names[i], "at": at_comma, "share": shares[i], "left": left, "turn": turn}

    def edge(pair: summary.Pair) -> dict[str, Any]:
        path, share = curve(angles[pair.i], angles[pair.j]), abs(pair.value / lines[0].value)
        return {"value": pair.value, "path": path, "share": share, "title": summary.pair_title(ex, pair, digits)}

    drawn: dict[str, Any] = {"size": _RING, "half": _RING / 2, "arcs": [arc(*ends) for ends in arcs]}
    drawn |= {"edges": [edge(pair) for pair in reversed(lines)], "nodes": [node(i) for i in shown]}
    where = "" if ex.text is not None else "; premise above, hypothesis below"
    return drawn | {"said": summary.pair_list(ex, lines[:3], digits), "where": where}


def paths_of(ex: Explanation) -> dict[int, tuple[float, ...]]:
    """Word → its α after each update, from ½ on, of the words with the largest scores; none where no spins settled."""
    rows = ex.diagnostics.get("trajectory")
    return {i: tuple(rows[i]) for i in summary.strongest_words(ex, _LINES)} if rows else {}


def bounds(paths: dict[int, tuple[float, ...]]) -> tuple[float, float]:
    """Of α, with some room, within [0, 1]."""
    low, high = (pick(map(pick, paths.values())) for pick in (min, max))
    room = max(0.06 * (high - low), (_NARROWEST - high + low) / 2)
    return max(0.0, low - room), min(1.0, high + room)


def spread(places: dict[int, float], least: float, top: float, bottom: float) -> dict[int, float]:
    """Heights as near to `places` as they can be in the same order, at least `least` apart, from top to bottom."""
    order = sorted(places, key=lambda i: places[i])
    heights: dict[int, float] = {}
    for rank, i in enumerate(order):
        heights[i] = max(places[i], top if rank == 0 else heights[order[rank - 1]] + least)
    limit = bottom
    for i in reversed(order):
        heights[i] = min(heights[i], limit)
        limit = heights[i] - least
    return heights


def trajectory(ex: Explanation) -> dict[str, Any] | None:
    """What `figures.html` draws; None where there is no path."""
    paths = paths_of(ex)
    if not paths:
        return None
    updates = len(next(iter(paths.values()))) - 1
    low, high = bounds(paths)
    floor, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT

    def x(step: float) -> float:
        return _LEFT + (right - _LEFT) * step / max(updates, 1)

    def y(alpha: float) -> float:
        return floor - (floor - _TOP) * (alpha - low) / (high - low)

    heights = spread({i: y(path[-1]) for i, path in paths.items()}, _APART, _TOP, floor)
    lines = [
        {
            "side": ex.sides[i],
            "points": " ".join(f"{x(step):.1f},{y(alpha):.1f}" for step, alpha in enumerate(path)),
            "end": y(path[-1]),
            "name": cut(summary.name(ex, i), 15),
            "name_at": heights[i],
        }
        for i, path in paths.items()
    ]
    drawn: dict[str, Any] = {"width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": right, "floor": floor}
    drawn["rules"] = [(alpha, y(alpha)) for alpha in (low, (low + high) / 2, high)]
    drawn |= {"ticks": [(step, x(step)) for step in sorted({0, updates // 2, updates})], "lines": lines}
    said = "; ".join(f"{summary.side_name(ex, i)} {path[-1]:.2f}" for i, path in list(paths.items())[:3])
    return drawn | {"said": said, "which": "" if ex.text is not None else " Solid: premise; dashed: hypothesis."}
