"""A report as figures: accuracy with intervals, confusion matrices, reliability diagrams. PNG or SVG by suffix.

matplotlib is imported when something is drawn, and only its `Figure` objects are used, never the
global state of pyplot: figures can be drawn from any thread, with or without a display.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from neurogame._common.extras import need
from neurogame._common.writing import save_figure
from neurogame.evaluation.report import Report, Row

# Okabe and Ito: colour-blind safe
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_BEFORE, _AFTER = COLOURS[1], COLOURS[0]
_SMALL = 9
_CELL, _PANEL = 3.4, 3.2  # inches


def draw(report: Report, path: str | Path | None = None) -> Any:
    """Everything in one figure: accuracy on top, then for each model a line of confusions and one of reliability.

        figures.draw(evaluate(nli, dev), "report.png")

    Args:
        report: of `evaluate`.
        path: a .png or .svg file that it is also written to; None: none.

    Returns:
        A matplotlib `Figure`, as of all functions here.
    """
    models, columns = report.models, len(report.data)
    heights = [_accuracy_height(report), *(h for _ in models for h in (_CELL, _PANEL))]
    canvas = _canvas(max(8.0, _CELL * columns), sum(heights))
    parts = canvas.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    _accuracy(parts[0], report)
    for place, model in enumerate(models):
        rows = [row for row in report.rows if row.model == model]
        _confusions(parts[1 + 2 * place], rows, columns)
        _reliabilities(parts[2 + 2 * place], rows, columns)
    return _save(canvas, path)


def accuracy(report: Report, path: str | Path | None = None) -> Any:
    """Accuracy with its 95 % interval, models side by side within each data set."""
    canvas = _canvas(8.0, _accuracy_height(report))
    _accuracy(canvas, report)
    return _save(canvas, path)


def confusion(rows: Report | Row | Sequence[Row], path: str | Path | None = None, *, columns: int = 3) -> Any:
    """One confusion matrix per row, `columns` in a line: gold labels down, predictions across, colour by share."""
    return _panels(_confusions, rows, columns, _CELL, path)


def reliability(rows: Report | Row | Sequence[Row], path: str | Path | None = None, *, columns: int = 3) -> Any:
    """One reliability diagram per row, before and after temperature scaling; bars show where the pairs are."""
    return _panels(_reliabilities, rows, columns, _PANEL, path)


def _panels(
    painter: Any, given: Report | Row | Sequence[Row], columns: int, size: float, path: str | Path | None
) -> Any:
    """Rows of a report, `columns` panels in a line."""
    rows = list(given.rows if isinstance(given, Report) else [given] if isinstance(given, Row) else given)
    if not rows:
        raise ValueError("there are no rows to draw")
    columns = min(columns, len(rows))
    lines = [rows[start : start + columns] for start in range(0, len(rows), columns)]
    canvas = _canvas(max(4.2, size * columns), size * len(lines))
    for part, line in zip(canvas.subfigures(len(lines), 1, squeeze=False)[:, 0], lines, strict=True):
        painter(part, line, columns)
    return _save(canvas, path)


def _accuracy_height(report: Report) -> float:
    legend = 0.28 * -(-len(report.models) // 3)
    return 1.1 + legend + 0.3 * len(report.rows) + 0.2 * len(report.data)


def _accuracy(canvas: Any, report: Report) -> None:
    """Points, not bars: the axis need not begin at 0, and differences of a point or two can be seen."""
    axes = canvas.subplots()
    middles, names, place = [], [], 0.0
    for name in report.data:
        rows = [row for row in report.rows if row.data == name]
        ys = [place + k for k in range(len(rows))]
        middles.append(sum(ys) / len(ys))
        names.append(f"{name}\nmost frequent label {100 * rows[0].scores.majority:.1f}")
        for y, row in zip(ys, rows, strict=True):
            style = _style(report.models.index(row.model))
            value, (low, high) = 100 * row.scores.accuracy, (100 * bound for bound in row.scores.interval)
            axes.hlines(y, low, high, color=style["color"], linewidth=1.8, zorder=2)
            axes.plot(value, y, **style, markersize=6, zorder=3)
            offset = {"textcoords": "offset points", "va": "center", "fontsize": _SMALL, "color": "0.15"}
            axes.annotate(f"{value:.1f}", (high, y), (7, 0), **offset)
        place = ys[-1] + 1.65
    for k, model in enumerate(report.models):
        axes.plot([], [], **_style(k), linestyle="none", label=_cut(model, 40))
    axes.set_yticks(middles, names, fontsize=_SMALL)
    axes.set_ylim(place - 0.9, -0.75)
    left = 100 * min(row.scores.interval[0] for row in report.rows)
    right = 100 * max(row.scores.interval[1] for row in report.rows)
    span = max(right - left, 4.0)  # noise is not to fill the width
    axes.set_xlim((left + right - span) / 2 - 0.06 * span, (left + right + span) / 2 + 0.12 * span)
    axes.set_xlabel("accuracy in %, with 95 % bootstrap interval", fontsize=_SMALL)
    axes.tick_params(axis="x", labelsize=_SMALL)
    axes.grid(visible=True, axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    canvas.legend(loc="outside upper left", ncols=min(3, len(report.models)), frameon=False, fontsize=_SMALL)


def _confusions(canvas: Any, rows: list[Row], columns: int) -> None:
    """One line of confusion matrices."""
    for axes, row in _axes(canvas, rows, columns):
        names, counts = row.scores.labels, row.scores.confusion
        shares = [[count / max(1, sum(line)) for count in line] for line in counts]
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        for i, line in enumerate(counts):
            for j, count in enumerate(line):
                text = f"{count}\n{100 * shares[i][j]:.0f} %"
                dark = shares[i][j] > 0.55
                axes.text(j, i, text, ha="center", va="center", fontsize=_SMALL, color="white" if dark else "0.1")
        broken = [name.replace("non-", "non-\n") for name in names]
        axes.set_xticks(range(len(names)), broken, fontsize=_SMALL)
        axes.set_yticks(range(len(names)), broken, fontsize=_SMALL, rotation=90, va="center")
        axes.tick_params(length=0)
        axes.set_xlabel("predicted", fontsize=_SMALL)
        axes.set_ylabel("gold", fontsize=_SMALL)
        axes.spines[:].set_visible(False)
        _title(axes, row, f"accuracy {100 * row.scores.accuracy:.1f} %")


def _reliabilities(canvas: Any, rows: list[Row], columns: int) -> None:
    """One line of reliability diagrams; the area of a marker is the share of pairs in its bin."""
    for axes, row in _axes(canvas, rows, columns):
        calibration = row.calibration
        axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle="--", zorder=1)
        stages = [("T = 1", calibration.before, _BEFORE, "o")]
        if calibration.after is not None:
            label = "T = " + ", ".join(f"{T:.2f}" for T in calibration.temperatures)
            stages.append((label, calibration.after, _AFTER, "s"))
        for label, trust, colour, marker in stages:
            bins = [b for b in trust.reliability if b.count]
            x, y = [b.confidence for b in bins], [b.accuracy for b in bins]
            axes.plot(x, y, color=colour, linewidth=1.1, zorder=2)
            axes.scatter(x, y, s=[4 + 70 * b.count / row.n for b in bins], color=colour, marker=marker, zorder=3)
            axes.plot([], [], color=colour, marker=marker, label=f"{label}: ECE {100 * trust.ece:.1f} %", markersize=5)
        table = stages[-1][1].reliability
        for b in table:  # where the pairs are, along the bottom; the tallest bar takes a quarter of the height
            share, bar = 0.25 * b.count / max(b.count for b in table), {"color": "0.88", "edgecolor": "white"}
            axes.bar((b.low + b.high) / 2, share, width=b.high - b.low, zorder=0, **bar)
        axes.set_xlim(min(b.low for stage in stages for b in stage[1].reliability if b.count), 1.02)
        axes.set_ylim(0, 1.32)  # room for the legend
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
        axes.set_xlabel("confidence", fontsize=_SMALL)
        axes.set_ylabel("accuracy", fontsize=_SMALL)
        axes.tick_params(labelsize=_SMALL)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="upper left", frameon=False, fontsize=_SMALL - 0.5, handlelength=1.6, borderaxespad=0.1)
        source = f"T {calibration.source.removesuffix(', two halves')}" if calibration.after else "no T fitted"
        _title(axes, row, f"{row.scores.bins} bins; {source}")


def _axes(canvas: Any, rows: list[Row], columns: int) -> Iterator[tuple[Any, Row]]:
    """A panel for each row, in one line; the others stay empty."""
    panels = canvas.subplots(1, columns, squeeze=False)[0]
    for axes in panels[len(rows) :]:
        axes.set_axis_off()
    return zip(panels, rows, strict=False)


def _title(axes: Any, row: Row, second: str) -> None:
    axes.set_title(f"{_cut(row.model)}\n{_cut(row.data)}\n{_cut(second)}", loc="left", fontsize=_SMALL)


def _cut(text: str, most: int = 34) -> str:
    """A name that fits over a panel; of a long one the end tells more."""
    return text if len(text) <= most else f"…{text[1 - most :]}"


def _style(k: int) -> dict[str, str]:
    """Colour and marker repeat with different periods, so that many models stay apart."""
    return {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[(k + k // len(COLOURS)) % len(MARKERS)]}


def _canvas(width: float, height: float) -> Any:
    return need("matplotlib.figure", "train").Figure(figsize=(width, height), layout="constrained")


def _save(canvas: Any, path: str | Path | None) -> Any:
    if path is not None:
        save_figure(canvas, path, dpi=150)
    return canvas
