"""How the spins settled: α of the strongest words after each update of s ← (1 − damping)·s + damping·tanh(h/γ).

`figures` draws the same lines as the page. Of a pair, words of the premise are solid, those of the hypothesis
dashed, and each line ends at its word, so that nothing depends on colour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neurogame.explanation import summary
from neurogame.printing import cut

if TYPE_CHECKING:
    from neurogame.explanation.record import Explanation

MOST = 12  # lines
_WIDTH, _HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 128, 14, 34
_APART = 15  # between two names
_NARROWEST = 0.1  # of α, from bottom to top: rounding is not to fill the picture


def lines(ex: Explanation) -> dict[int, tuple[float, ...]]:
    """Word → its path, of the words with the largest scores."""
    paths = summary.path(ex)
    return {} if paths is None else {i: paths[i] for i in summary.ranked(ex, MOST)}


def bounds(paths: dict[int, tuple[float, ...]]) -> tuple[float, float]:
    """Of α, with some room, within [0, 1]."""
    low, high = (pick(map(pick, paths.values())) for pick in (min, max))
    room = max(0.06 * (high - low), (_NARROWEST - high + low) / 2)
    return max(0.0, low - room), min(1.0, high + room)


def apart(places: dict[int, float], least: float, top: float, bottom: float) -> dict[int, float]:
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
    paths = lines(ex)
    if not paths:
        return None
    updates = len(next(iter(paths.values()))) - 1
    low, high = bounds(paths)
    floor, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT

    def x(step: float) -> float:
        return _LEFT + (right - _LEFT) * step / max(updates, 1)

    def y(alpha: float) -> float:
        return floor - (floor - _TOP) * (alpha - low) / (high - low)

    names = apart({i: y(path[-1]) for i, path in paths.items()}, _APART, _TOP, floor)
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "left": _LEFT,
        "right": right,
        "floor": floor,
        "rules": [(alpha, y(alpha)) for alpha in (low, (low + high) / 2, high)],
        "ticks": [(step, x(step)) for step in sorted({0, updates // 2, updates})],
        "lines": [
            {
                "side": ex.sides[i],
                "points": " ".join(f"{x(step):.1f},{y(alpha):.1f}" for step, alpha in enumerate(path)),
                "end": y(path[-1]),
                "name": cut(summary.name(ex, i), 15),
                "name_at": names[i],
            }
            for i, path in paths.items()
        ],
        "which": "" if ex.text is not None else " Solid: premise; dashed: hypothesis.",
        "said": "; ".join(f"{summary.placed(ex, i)} {path[-1]:.2f}" for i, path in list(paths.items())[:3]),
    }
