"""How the comparison of `neurogame_bench.values` looks: as tables, and as a figure. It measures nothing."""

from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from neurogame._common.extras import need
from neurogame._common.writing import save_figure


def table(results: dict[str, Any]) -> RenderableType:
    """Per n: errors at equal evaluations, milliseconds, times faster at equal error; then errors at equal time."""
    settings = results["settings"]
    shown: list[RenderableType] = [_table_of(results, enumeration) for enumeration in results["exact"]]
    shown.append(_equal_time_table(results))
    shown.append(
        f"Errors are relative, ‖φ̂ − φ‖/‖φ‖, with K·(n + 1) evaluations; ms per game, at K = {_reference(results)}.\n"
        f"× = times faster at the error of that row of ours: {settings['batch']} games in one call (large batch), "
        f"{settings['games']} (batch),\none, and estimate_game (any game).\n"
        "~ extrapolated by 1/√evaluations   * by evaluating all 2ⁿ coalitions   – the budget does not suffice"
    )
    return Group(*shown)


_MARKS = {"interpolated": "", "extrapolated": "~", "enumerated": "*"}


def _table_of(results: dict[str, Any], enumeration: dict[str, Any]) -> Table:
    """The methods of one n."""
    n, settings = enumeration["n"], results["settings"]
    alone, together = (enumeration[f"seconds, {calls}"] * 1e3 for calls in ("one", "batch"))
    title = f"n = {n}; exact enumeration takes {alone:.3g} ms per game, {together:.3g} ms in a batch"
    shown = Table(title=title, title_justify="left")
    shown.add_column("method", no_wrap=True)
    for K in settings["budgets"]:
        shown.add_column(f"K={K}", justify="right")
    shown.add_column("ms", justify="right")
    for name in results["ours"]:
        shown.add_column(
            f"× {name.removeprefix('neurogame').lstrip(', ').replace('estimate_', 'any ')}", justify="right"
        )
    rows = {(row["method"], row["K"]): row for row in results["rows"] if row["n"] == n}
    times = {(pair["against"], pair["ours"]): pair for pair in results["equal error"] if pair["n"] == n}
    for name in results["methods"]:
        cells = [_error(rows.get((name, K))) for K in settings["budgets"]]
        reference = rows.get((name, _reference(results)))
        cells.append("–" if reference is None else f"{reference['seconds'] * 1e3:.3g}")
        for ours in results["ours"]:
            pair = times.get((name, ours))
            cells.append("" if pair is None else f"{_MARKS[pair['how']]}{_round(pair['times faster'])}")
        shown.add_row(name, *cells)
    return shown


def _error(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    return "exact*" if row["enumerated"] else f"{row['error']:.4f}"


def _round(times: float) -> str:
    """Two digits: a third would be noise."""
    return f"{float(f'{times:.2g}'):g}"


def _equal_time_table(results: dict[str, Any]) -> Table:
    """What the others reach in the time that one game takes us alone."""
    ours = "neurogame, one game"
    shown = Table(title=f"Error (ms) at the budget whose time is closest to that of {ours}", title_justify="left")
    shown.add_column("method", no_wrap=True)
    pairs = {(pair["against"], pair["n"]): pair for pair in results["equal time"] if pair["ours"] == ours}
    players = results["settings"]["players"]
    for n in players:
        shown.add_column(f"n = {n}", justify="right")
    reference = {row["n"]: row for row in results["rows"] if row["method"] == ours and row["K"] == _reference(results)}
    shown.add_row(ours, *(f"{_error(reference[n])} ({reference[n]['seconds'] * 1e3:.3g})" for n in players))
    for name in (m for m in results["methods"] if m not in results["ours"]):
        near = [(pairs[name, n]["their K"], n) for n in players]
        rows = [next(r for r in results["rows"] if (r["method"], r["K"], r["n"]) == (name, *at)) for at in near]
        shown.add_row(name, *(f"{_error(row)} ({row['seconds'] * 1e3:.3g})" for row in rows))
    return shown


def _reference(results: dict[str, Any]) -> int:
    return int(results["settings"]["reference K"])


_STYLES = {  # colour by package, line by how it is called, marker by estimator
    "neurogame, large batch": ("#c1121f", "-", "D"),
    "neurogame, batch": ("#c1121f", "--", "s"),
    "neurogame, one game": ("#c1121f", ":", "o"),
    "neurogame estimate_game": ("#f08a4b", "-", "o"),
    "shapiq permutations": ("#1d4e89", "-", "^"),
    "shapiq SVARM": ("#1d4e89", "--", "v"),
    "shapiq KernelSHAP": ("#3a86c8", "-", "P"),
    "shapiq KernelSHAP, paired": ("#3a86c8", "--", "X"),
    "captum": ("#4a7c59", ":", "o"),
    "captum, batch": ("#4a7c59", "--", "s"),
    "captum, large batch": ("#4a7c59", "-", "D"),
}


def figure(results: dict[str, Any], path: str | Path, *, n: int | None = None) -> None:
    """Error against evaluations and against milliseconds per game, log-log, for one n (None: the largest)."""
    matplotlib, ticker = need("matplotlib.figure", "bench"), need("matplotlib.ticker", "bench")
    n = max(results["settings"]["players"]) if n is None else n
    settings = results["settings"]
    canvas = matplotlib.Figure(figsize=(11, 6.2), layout="constrained")
    left, right = canvas.subplots(1, 2, sharey=True)
    for name in results["methods"]:
        colour, line, marker = _STYLES[name]
        rows = [r for r in results["rows"] if r["method"] == name and r["n"] == n and not r["enumerated"]]
        style = {"color": colour, "linestyle": line, "marker": marker, "markersize": 5, "linewidth": 1.6}
        errors = [row["error"] for row in rows]
        if "batch" not in name:  # a batch changes the time, not the error
            left.plot([row["evaluations"] for row in rows], errors, **style)
        right.plot([row["seconds"] * 1e3 for row in rows], errors, label=name, **style)
    alone = next(row["seconds, one"] * 1e3 for row in results["exact"] if row["n"] == n)
    right.axvline(alone, color="0.45", linewidth=1, linestyle=(0, (1, 2)), label="neurogame.exact, one game (error 0)")
    left.set_xlabel("evaluations of v(C) per game")
    right.set_xlabel("milliseconds per game")
    left.set_ylabel("relative error of the Shapley values")
    left.set_title("At equal evaluations, one game per call", loc="left")
    right.set_title("At equal time", loc="left")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.grid(visible=True, which="major", color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:g}"))
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: f"{y:g}"))
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    left.xaxis.set_major_locator(ticker.FixedLocator([K * (n + 1) for K in settings["budgets"]]))
    left.xaxis.set_minor_locator(ticker.NullLocator())
    canvas.suptitle(
        f"Shapley values of norm games with n = {n} players, {settings['games']} games "
        f"(batch {settings['games']}, large batch {settings['batch']})",
        x=0.01,
        ha="left",
    )
    canvas.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9, handlelength=3)
    save_figure(canvas, path, dpi=150)
