"""An explanation as figures for a paper: sentence, matrix, network, trajectory, lambda. PNG or SVG by suffix.

What is drawn and where comes from `summary` and `drawing`, as for the page. matplotlib is imported when
something is drawn, without pyplot and its global state. Characters that its fonts lack are boxes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from neurogame._common.extras import need
from neurogame._common.printing import cut
from neurogame._common.validation import check_choice
from neurogame._common.writing import figure_format, save_figure
from neurogame.explanation import summary
from neurogame.explanation.views import drawing
from neurogame.explanation.views.drawing import DRAWING, first_side, paths_of, strongest, words_of

if TYPE_CHECKING:
    from neurogame.explanation.record import Explanation

Kind = Literal["sentence", "matrix", "network", "trajectory", "lambda"]
KINDS: tuple[str, ...] = get_args(Kind)
FOR, AGAINST, INK, SOFT = "#2663aa", "#be5218", "#1d2129", "#5b6472"
_WIDTH = 6.3  # inches: a column of text
_TEXT, _SMALL, _TINY = 9, 8, 5.5  # points


def figure(ex: Explanation, kind: str = "sentence", path: str | Path | None = None) -> Any:
    """Draw an explanation as `Explanation.figure` says; a matplotlib `Figure`, also written to `path` if given."""
    check_choice("kind", kind, Kind)
    goal = None if path is None else Path(path).expanduser()
    if goal is not None:
        figure_format(goal)
    paint, needs = _PAINTERS[kind]
    options: dict[str, Any] = {"lines.scale_dashes": False}  # dashes as long on a thick line as on a thin one
    options |= {"svg.fonttype": "none", "svg.hashsalt": "neurogame"}  # text as text, the same ids in every file
    with warnings.catch_warnings(), need("matplotlib", "explain").rc_context(options):
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # such letters are drawn as boxes
        canvas = paint(ex)
        if canvas is None:
            raise ValueError(
                f"kind = {kind!r}: an explanation by {ex.method!r} of this {summary.noun(ex)} has no {needs}"
            )
        if goal is not None:
            save_figure(canvas, goal, dpi=200, bbox_inches="tight")
    return canvas


def _axes(width: float, height: float, **options: Any) -> tuple[Any, Any]:
    """A figure of so many inches, and its only axes."""
    canvas = need("matplotlib.figure", "explain").Figure(figsize=(width, height), layout="constrained")
    return canvas, canvas.add_subplot(**options)


def _plain(word: str, most: int) -> str:
    """A word that matplotlib does not take for mathematics."""
    return cut(word, most).replace("$", r"\$")


def _wide(word: str, size: float, weight: str = "normal") -> float:
    """Inches that a word takes."""
    font = need("matplotlib.font_manager", "explain").FontProperties(size=size, weight=weight)
    paths = need("matplotlib.textpath", "explain").text_to_path
    return float(paths.get_text_width_height_descent(word, font, ismath=False)[0]) / 72


def _sentence(ex: Explanation) -> Any:
    """The texts, each word on the colour of its score, the strong ones with their number."""
    shares = summary.shares(ex)
    boxes, y = list[tuple[float, float, str, int | None, bool]](), 0.0
    for side, sentence in ex.parts:
        x, leftwards = 0.0, drawing.direction(sentence) == "rtl"
        boxes.append((0.0, y, side, None, False))
        y += 0.24
        for run in summary.passages(ex, side):
            i = run[0] if len(run) == 1 else None
            name = f"… {len(run)} words not read …" if i is None else cut(ex.words[i], 40)
            width = _wide(name, _TEXT, "bold" if i in ex.swing else "normal") + 0.12
            if i is not None and abs(shares[i]) >= DRAWING.strong:  # a number needs room as well
                width = max(width, _wide(summary.score(ex, i), _TINY) + 0.08)
            if x and x + width > _WIDTH:
                x, y = 0.0, y + 0.46
            boxes.append((_WIDTH - x if leftwards else x, y, name.replace("$", r"\$"), i, leftwards))
            x += width
        y += 0.52
    canvas, axes = _axes(_WIDTH + 0.2, y + 0.1)
    for x, y, name, i, leftwards in boxes:
        share = 0.0 if i is None else shares[i]
        back = {"facecolor": (FOR if share > 0 else AGAINST, 0.55 * abs(share)), "edgecolor": "none", "pad": 2.0}
        colour = SOFT if i is None or i in summary.unread(ex) else INK
        weight = "bold" if i in ex.swing else "normal"
        place = {"va": "center", "ha": "right" if leftwards else "left"}
        axes.text(x, y, name, fontsize=_TEXT, color=colour, weight=weight, bbox=back if share else None, **place)
        if abs(share) >= DRAWING.strong:
            axes.text(x, y + 0.17, summary.score(ex, i or 0), fontsize=_TINY, color=SOFT, **place)
    return _bare(canvas, axes, (-0.05, _WIDTH + 0.1), (canvas.get_figheight() - 0.2, -0.15))


def _bare(canvas: Any, axes: Any, xs: tuple[float, float], ys: tuple[float, float]) -> Any:
    axes.set(xlim=xs, ylim=ys)
    axes.set_axis_off()
    return canvas


def _matrix(ex: Explanation) -> Any:
    """J_ij, the parts of a pair as blocks."""
    shown = words_of(ex)
    if ex.interactions is None or len(shown) < 2:
        return None
    names = [_plain(summary.name(ex, i), 14) for i in shown]
    values = [[ex.interactions[i][j] for j in shown] for i in shown]
    largest = max(abs(value) for row in values for value in row) or 1.0
    size = max(3.2, 1.4 + 0.2 * len(shown))
    canvas, axes = _axes(size + 0.8, size)
    colours = need("matplotlib.colors", "explain").LinearSegmentedColormap.from_list("signed", [AGAINST, "white", FOR])
    image = axes.imshow(values, cmap=colours, vmin=-largest, vmax=largest)
    axes.set_xticks(range(len(shown)), names, rotation=90, fontsize=_SMALL)
    axes.set_yticks(range(len(shown)), names, fontsize=_SMALL)
    axes.tick_params(length=0)
    first = first_side(ex, shown)
    if 0 < first < len(shown):
        axes.axhline(first - 0.5, color=INK, linewidth=0.8)
        axes.axvline(first - 0.5, color=INK, linewidth=0.8)
    for (side, _), end, at in zip(ex.parts, (-0.5, len(shown) - 0.5), ("left", "right"), strict=False):
        if len(ex.parts) > 1 and side in {ex.sides[i] for i in shown}:
            look = {"fontsize": _SMALL, "color": SOFT, "rotation_mode": "anchor"}
            axes.text(end, 1.01, side, transform=axes.get_xaxis_transform(), ha=at, va="bottom", **look)
            axes.text(1.01, end, side, transform=axes.get_yaxis_transform(), ha=at, va="bottom", rotation=-90, **look)
    axes.spines[:].set_color("0.8")
    bar = canvas.colorbar(image, ax=axes, shrink=0.7, label="interaction $J_{ij}$")
    bar.ax.tick_params(labelsize=_SMALL)
    return canvas


def _network(ex: Explanation) -> Any:
    """The ring of the page."""
    shown, shares = words_of(ex), summary.shares(ex)
    lines = strongest(ex, shown)
    if not lines:
        return None
    angles, arcs = drawing.ring(ex, shown)
    patches, paths = need("matplotlib.patches", "explain"), need("matplotlib.path", "explain")
    canvas, axes = _axes(4.6, 4.6, aspect="equal")
    places = {i: (math.cos(angle), math.sin(angle)) for i, angle in angles.items()}
    for start, end in arcs:
        ends = {"theta1": math.degrees(start), "theta2": math.degrees(end)}
        axes.add_patch(patches.Arc((0, 0), 2, 2, **ends, color="0.85", linewidth=1))
    for pair in reversed(lines):
        a, b = places[pair.i], places[pair.j]
        bend = DRAWING.bend / 2
        curve = paths.Path([a, (bend * (a[0] + b[0]), bend * (a[1] + b[1])), b], [1, 3, 3])
        share = abs(pair.value / lines[0].value)
        look: dict[str, Any] = {
            "edgecolor": FOR if pair.value > 0 else AGAINST,
            "linestyle": "-" if pair.value > 0 else (0, (3, 2)),
        }
        axes.add_patch(patches.PathPatch(curve, fill=False, linewidth=0.6 + 3 * share, alpha=0.3 + 0.6 * share, **look))
    for i, (x, y) in places.items():
        axes.plot(x, y, "o", color=FOR if shares[i] > 0 else AGAINST, markersize=3 + 4 * abs(shares[i]))
        turn = -math.degrees(angles[i]) + 180 * (x < 0)  # angles run clockwise, text turns the other way
        look = {"rotation": turn, "rotation_mode": "anchor", "va": "center", "ha": "right" if x < 0 else "left"}
        axes.text(1.09 * x, 1.09 * y, _plain(summary.name(ex, i), 14), fontsize=_SMALL, color=INK, **look)
    room = 1.15 + 0.085 * max(len(cut(summary.name(ex, i), 14)) for i in shown)
    for (side, _), y in zip(ex.parts, (-room, room), strict=False):
        if len(ex.parts) > 1 and side in {ex.sides[i] for i in shown}:
            axes.text(0, y, side, ha="center", va="center", fontsize=_SMALL, color=SOFT)
    return _bare(canvas, axes, (-room, room), (room, -room))


def _trajectory(ex: Explanation) -> Any:
    """α after each update, each line with its word at the end."""
    paths = paths_of(ex)
    if not paths:
        return None
    low, high = drawing.bounds(paths)
    canvas, axes = _axes(_WIDTH, 3.2)
    updates = len(next(iter(paths.values()))) - 1
    heights = drawing.spread({i: path[-1] for i, path in paths.items()}, 0.062 * (high - low), low, high)
    leader = {"arrowstyle": "-", "color": "0.75", "linewidth": 0.6, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)}
    for i, path in paths.items():
        first = ex.sides[i] == ex.parts[0][0]
        axes.plot(range(len(path)), path, color=INK if first else FOR, linestyle="-" if first else "--", linewidth=1)
        name, place = _plain(summary.name(ex, i), 16), (1.03, (heights[i] - low) / (high - low))
        look = {"fontsize": _SMALL, "va": "center", "color": INK, "annotation_clip": False, "arrowprops": leader}
        axes.annotate(name, (updates, path[-1]), place, "data", "axes fraction", **look)
    axes.set(xlim=(0, max(updates, 1)), ylim=(low, high))
    which = "" if len(ex.parts) == 1 else " (solid: premise, dashed: hypothesis)"
    axes.set_xlabel(f"update{which}", fontsize=_SMALL)
    axes.set_ylabel("α, mean over heads", fontsize=_SMALL)
    return _plot(canvas, axes)


def _lambda(ex: Explanation) -> Any:
    """λ_i of each word in reading order, mean over heads, and each head as a small dot."""
    if ex.gate is None:
        return None
    shown = words_of(ex)
    canvas, axes = _axes(max(3.0, min(9.0, 1.0 + 0.22 * len(shown))), 2.6)
    for row in ex.per_head.get("gate", ()):
        axes.plot(range(len(shown)), [row[i] for i in shown], ".", color=SOFT, markersize=2.5, alpha=0.5)
    axes.plot(range(len(shown)), [ex.gate[i] for i in shown], "_", color=FOR, markersize=9, markeredgewidth=2)
    axes.axhline(0.5, color="0.8", linewidth=0.8, zorder=0)
    first = first_side(ex, shown)
    if 0 < first < len(shown):
        axes.axvline(first - 0.5, color="0.6", linewidth=0.8, zorder=0)
    axes.set_xticks(range(len(shown)), [_plain(summary.name(ex, i), 14) for i in shown], rotation=90)
    axes.set(xlim=(-0.6, len(shown) - 0.4), ylim=(-0.02, 1.02))
    axes.set_ylabel("gate λ\n0 Banzhaf, 1 Shapley", fontsize=_SMALL)
    return _plot(canvas, axes)


def _plot(canvas: Any, axes: Any) -> Any:
    axes.tick_params(labelsize=_SMALL)
    axes.spines[["top", "right"]].set_visible(False)
    return canvas


_PAINTERS: dict[str, tuple[Callable[[Explanation], Any], str]] = {  # kind → painter, and what an explanation must have
    "sentence": (_sentence, "words"),
    "matrix": (_matrix, "interactions"),
    "network": (_network, "interaction above its error"),
    "trajectory": (_trajectory, "trajectory of the spins"),
    "lambda": (_lambda, "gate λ"),
}
