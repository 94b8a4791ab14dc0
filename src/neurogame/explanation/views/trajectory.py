"""How the spins settled: α of the strongest words after each update of s ← (1 − damping)·s + damping·tanh(h/γ).

Inline SVG; `figures` draws the same lines. Words of the premise are solid, those of the hypothesis dashed, and each
line ends at its word, so that nothing depends on colour.
"""

from html import escape

from neurogame.explanation import summary
from neurogame.explanation.record import Explanation
from neurogame.printing import cut

MOST = 12  # lines
_WIDTH, _HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 128, 14, 34
_APART = 15  # between two names
_NARROWEST = 0.1  # of α, from bottom to top: rounding is not to fill the picture


def lines(ex: Explanation) -> dict[int, tuple[float, ...]]:
    """Word → its path, of the words with the largest scores."""
    found = summary.path(ex)
    return {} if found is None else {i: found[i] for i in summary.ranked(ex, MOST)}


def bounds(paths: dict[int, tuple[float, ...]]) -> tuple[float, float]:
    """Of α, with some room, within [0, 1]."""
    low, high = (pick(map(pick, paths.values())) for pick in (min, max))
    room = max(0.06 * (high - low), (_NARROWEST - high + low) / 2)
    return max(0.0, low - room), min(1.0, high + room)


def apart(places: dict[int, float], least: float, top: float, bottom: float) -> dict[int, float]:
    """Heights as near to `places` as they can be in the same order, at least `least` apart, from top to bottom."""
    order = sorted(places, key=lambda i: places[i])
    found: dict[int, float] = {}
    for rank, i in enumerate(order):
        found[i] = max(places[i], top if rank == 0 else found[order[rank - 1]] + least)
    limit = bottom
    for i in reversed(order):
        found[i] = min(found[i], limit)
        limit = found[i] - least
    return found


def trajectory(ex: Explanation) -> str:
    """A figure; nothing where there is no path."""
    paths = lines(ex)
    if not paths:
        return ""
    updates = len(next(iter(paths.values()))) - 1
    low, high = bounds(paths)
    floor, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT

    def x(step: float) -> float:
        return _LEFT + (right - _LEFT) * step / max(updates, 1)

    def y(alpha: float) -> float:
        return floor - (floor - _TOP) * (alpha - low) / (high - low)

    parts = []
    for alpha in (low, (low + high) / 2, high):
        parts.append(f'<line class="rule" x1="{_LEFT}" x2="{right}" y1="{y(alpha):.1f}" y2="{y(alpha):.1f}"/>')
        parts.append(f'<text class="block" x="{_LEFT - 6}" y="{y(alpha) + 4:.1f}" text-anchor="end">{alpha:.2f}</text>')
    parts += [
        f'<text class="block" x="{x(step):.1f}" y="{floor + 16}" text-anchor="middle">{step}</text>'
        for step in sorted({0, updates // 2, updates})
    ]
    parts.append(f'<text class="block" x="{(_LEFT + right) / 2}" y="{_HEIGHT - 3}" text-anchor="middle">update</text>')
    names = apart({i: y(path[-1]) for i, path in paths.items()}, _APART, _TOP, floor)
    for i, path in paths.items():
        points = " ".join(f"{x(step):.1f},{y(alpha):.1f}" for step, alpha in enumerate(path))
        parts.append(f'<polyline class="path {ex.sides[i]}" points="{points}"/>')
        lead = f'x1="{right}" y1="{y(path[-1]):.1f}" x2="{right + 10}" y2="{names[i]:.1f}"'
        parts.append(f'<line class="rule" {lead}/>')
        parts.append(f'<text x="{right + 14}" y="{names[i] + 4:.1f}">{escape(cut(ex.words[i], 15))}</text>')
    said = "; ".join(f"{summary.placed(ex, i)} {path[-1]:.2f}" for i, path in list(paths.items())[:3])
    return (
        f'<figure><div class="scroll"><svg class="paths" role="img" '
        f'aria-label="{escape(f"Paths of α. Where they end: {said}.")}" viewBox="0 0 {_WIDTH} {_HEIGHT}" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg></div>'
        f"<figcaption>α after each update, mean over heads, of {summary.counted(len(paths), 'word')} with "
        "the largest scores. Solid: premise; dashed: hypothesis.</figcaption></figure>"
    )
