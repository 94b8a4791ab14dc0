"""The figures of docs/results.md that `neurogame.evaluation.figures` does not have."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neurogame._common.extras import need
from neurogame.evaluation.figures import COLOURS
from neurogame_bench.study import Record

_GREY = "0.6"


def _figure(width: float, height: float) -> Any:
    return need("matplotlib.figure", "bench").Figure(figsize=(width, height), layout="constrained")


def _tidy(axes: Any) -> None:
    axes.grid(visible=True, axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def accuracy(table: Record, names: Mapping[str, str], path: Path) -> None:
    """A panel per set: each seed a dot, the mean a bar, the line its 95 % t-interval."""
    rows, sets = table["rows"], list(table["protocol"]["sets"])
    figure = _figure(9.0, 1.0 + 0.32 * len(rows))
    panels = figure.subplots(1, len(sets), sharey=True, squeeze=False)[0]
    for axes, data in zip(panels, sets, strict=True):
        for y, row in enumerate(rows):
            found, colour = row[data], COLOURS[0] if row["name"].startswith("neurogame") else COLOURS[6]
            seeds = [100 * run["sets"][data]["accuracy"] for run in table["runs"] if run["row"] == row["name"]]
            if found["interval"]:
                axes.hlines(y, *(100 * bound for bound in found["interval"]), color=colour, linewidth=1.6)
            axes.plot(seeds, [y] * len(seeds), linestyle="none", marker="o", markersize=3, color=_GREY)
            axes.plot(100 * found["mean"], y, marker="|", markersize=11, markeredgewidth=2.2, color=colour)
        middle = [100 * row[data]["mean"] for row in rows]
        axes.set_xlim(min(middle) - 6, max(middle) + 6)  # a t-interval of three seeds may be wider than the panel
        axes.set_xlabel(f"accuracy on {names.get(data, data)}, %")
        _tidy(axes)
    panels[0].set_yticks(range(len(rows)), [row["name"] for row in rows])
    panels[0].invert_yaxis()
    figure.savefig(path, dpi=130)


def ablations(rows: list[Record], path: Path) -> None:
    """Differences to the default with both intervals: thick over pairs, thin over seeds."""
    shown = [row for row in rows if row["difference"] is not None]
    figure = _figure(8.5, 1.2 + 0.28 * max(1, len(shown)))
    axes = figure.subplots()
    for y, row in enumerate(shown):
        gap = row["difference"]
        colour = {"raises accuracy": COLOURS[2], "lowers accuracy": COLOURS[1]}.get(gap["effect"], COLOURS[6])
        if gap["seeds"]:
            axes.hlines(y, *(100 * bound for bound in gap["seeds"]), color=colour, linewidth=1)
        axes.hlines(y, *(100 * bound for bound in gap["pairs"]), color=colour, linewidth=3.5, alpha=0.55)
        axes.plot([100 * value for value in gap["by_seed"]], [y] * len(gap["by_seed"]), ".", color=_GREY, markersize=4)
        axes.plot(100 * gap["difference"], y, marker="o", markersize=5, color=colour)
    axes.axvline(0, color="black", linewidth=0.8)
    names = [row["name"] if row["against"] == "default" else f"{row['name']} (to {row['against']})" for row in shown]
    axes.set_yticks(range(len(shown)), names)
    axes.invert_yaxis()
    axes.set_xlabel("difference to the default in points of accuracy; thin: 95 % over seeds, thick: 95 % over pairs")
    _tidy(axes)
    figure.savefig(path, dpi=130)


def iterations(claims: Record, path: Path) -> None:
    """Share of systems (pair × head) by the number of iterations until the residual is below the tolerance."""
    entries = [entry for run in claims["runs"] for entry in run["claims"] if "histogram" in entry]
    figure = _figure(8.0, 3.6)
    axes = figure.subplots()
    axes.axvspan(10, 20, color="0.93", label="10 to 20, as the paper says")
    for k, entry in enumerate(entries):
        counts, total = entry["histogram"], sum(entry["histogram"])
        places = [i + (k - (len(entries) - 1) / 2) * 0.4 for i in range(len(counts))]
        label = f"{entry['name'].removeprefix('convergence, ')}: {100 * entry['converged']:.1f} % converged"
        axes.bar(places, [100 * count / total for count in counts], width=0.4, color=COLOURS[k], label=label)
    axes.set(xlabel="iterations (those that did not converge stop at the limit)", ylabel="% of systems")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)
