"""How the comparison of `neurogame_bench.explanations` looks: as tables, and as a figure. It measures nothing."""

from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from neurogame._common.extras import need
from neurogame._common.writing import save_figure

FAITHFULNESS = {
    "comprehensiveness": "comp ↑",
    "sufficiency": "suff ↓",
    "comprehensiveness, mask": "comp, mask ↑",
    "sufficiency, mask": "suff, mask ↓",
    "normalised comprehensiveness": "norm. comp ↑",
    "normalised sufficiency": "norm. suff ↑",
    "tau_loo": "τ-LOO ↑",
    "decision flip": "flip ↓",
    "auc_tp": "AUC-TP ↓",
}
CURVES = {  # a table of their own
    "deletion auc": "deletion AUC ↓",
    "insertion auc": "insertion AUC ↑",
    "comprehensiveness, pad": "comp, pad ↑",
    "sufficiency, pad": "suff, pad ↓",
}
PLAUSIBILITY = {
    "auprc": "AUPRC ↑",
    "average precision": "AP ↑",
    "token f1": "token F1 ↑",
    "iou f1": "IOU-F1 ↑",
    "token iou": "token IOU ↑",
}
METHOD = {"stability": "stability ↑", "interactions": "interactions, ρ ↑"}
_TITLES = {**FAITHFULNESS, **CURVES, **PLAUSIBILITY, **METHOD}
_LESS_USUAL = {
    "comprehensiveness, ferret": "comp, ferret ↑",
    "sufficiency, ferret": "suff, ferret ↓",
    "comprehensiveness, human share": "comp, human share ↑",
    "sufficiency, human share": "suff, human share ↓",
}
_PANELS = {
    "comprehensiveness": "comprehensiveness (higher is better)",
    "sufficiency": "sufficiency (lower is better)",
    "auprc": "AUPRC against human highlights (higher is better)",
    "seconds": "seconds per explanation (median)",
}
_COLOURS = {"method": "tab:blue", "baseline": "0.6", "people": "tab:green"}


def table(results: dict[str, Any]) -> RenderableType:
    """Faithfulness, plausibility, what concerns methods alone, degraded copies; what they rest on below."""
    settings, people = results["settings"], results["people"]
    shown: list[RenderableType] = []
    if any("comprehensiveness" in row["figures"] for row in results["rows"]):
        title = f"Faithfulness of {settings['model']}: {settings['pairs']} pairs of {settings['data']}"
        shown.append(_block(title, FAITHFULNESS, results))
    if any(name in row["figures"] for row in results["rows"] for name in CURVES):
        shown.append(_block("Faithfulness: whole curves, and words padded instead of deleted", CURVES, results))
    if people["pairs"]:
        labels = ", ".join(f"{name} {count}" for name, count in people["labels"].items())
        title = f"Plausibility: {people['pairs']} pairs of {people['data']} with human highlights ({labels})"
        shown.append(_block(title, PLAUSIBILITY, results))
    shown.append(_methods(results))
    if results.get("degraded") is not None:
        head, body = degraded(results)
        out = Table(*head, title="Each method minus its degraded copy", title_justify="left")
        for line in body:
            out.add_row(*line)
        shown.append(out)
    shown.append("\n".join(notes(results)))
    return Group(*shown)


def _block(title: str, titles: dict[str, str], results: dict[str, Any]) -> Table:
    """Rows that have any of the metrics, each value ± half of its interval."""
    out = Table(title=title, title_justify="left")
    out.add_column("", no_wrap=True)
    there = [name for name in titles if any(name in row["figures"] for row in results["rows"])]
    for name in there:
        out.add_column(titles[name], justify="right", no_wrap=True)
    for row in results["rows"]:
        if any(name in row["figures"] for name in there):
            out.add_row(row["row"], *(_cell(row["figures"].get(name), name) for name in there))
    return out


def _cell(figure: dict[str, Any] | None, metric: str) -> str:
    if figure is None or figure["value"] is None:
        return "–"
    digits = 1 if metric == "auc_tp" else 3
    half = (figure["high"] - figure["low"]) / 2.0
    return f"{figure['value']:.{digits}f} ±{half:.{digits}f}".replace("±0.", "±.")


def _methods(results: dict[str, Any]) -> Table:
    """Stability, interactions and time of each method."""
    reference = results["settings"]["reference"]
    out = Table(title="Methods", title_justify="left")
    out.add_column("", no_wrap=True)
    spent = {"seconds": "seconds", "ratio": f"× {reference}", "forward passes": "forward passes"}
    for title in (*METHOD.values(), *spent.values()):
        out.add_column(title, justify="right", no_wrap=True)
    for row in results["rows"]:
        if row["kind"] == "method":
            figures = (_cell(row["figures"].get(name), name) for name in METHOD)
            out.add_row(row["row"], *figures, *("–" if row[name] is None else f"{row[name]:.3g}" for name in spent))
    return out


def degraded(results: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Method minus degraded copy, a line per metric and a column per method: head and body of a table.

    A value in brackets is one that its interval does not tell from 0, or that is on the side of the copy.
    """
    cells = {(one["metric"], one["row"]): one for one in results["degraded"]["differences"]}
    metrics, rows = (list(dict.fromkeys(key[place] for key in cells)) for place in (0, 1))
    body = [[_title(metric), *(_told(cells.get((metric, row)), metric) for row in rows)] for metric in metrics]
    return ["", *rows], body


def _told(one: dict[str, Any] | None, metric: str) -> str:
    if one is None or one["copy ranks lower"] is None:
        return "–"
    value = f"{one['value']:+.{1 if metric == 'auc_tp' else 3}f}".replace("-", "−")
    return value if one["copy ranks lower"] else f"[{value}]"


def _title(metric: str) -> str:
    return {**_TITLES, **_LESS_USUAL}[metric]


def notes(results: dict[str, Any]) -> list[str]:
    """What the figures rest on: intervals, counts of what is undefined, what was left out."""
    settings, people = results["settings"], results["people"]
    notes = [
        f"± half of the 95 % bootstrap interval over pairs ({settings['resamples']} resamples); ↑ higher is better."
    ]
    undefined = _undefined(results["rows"])
    if undefined:
        notes.append(f"Undefined, left out and counted: {undefined}.")
    never = [_never(row) for row in results["rows"] if _never(row)]
    if never:
        notes.append(f"Decision never flipped, counted as 1: {', '.join(never)}.")
    if not settings["masking"]:
        notes.append("No mask columns: the tokenizer has no mask token.")
    if settings["not installed"]:
        notes.append(f"Not installed, not compared: {', '.join(settings['not installed'])} (neurogame[explain]).")
    if settings["limits"]:
        limits = ", ".join(f"{name} {limit}" for name, limit in settings["limits"].items())
        notes.append(f"On the first pairs only, to save time: {limits}.")
    if results["missing"]:
        steps = len(results["missing"])
        notes.append(f"Not complete: {steps} steps are missing, the first: {results['missing'][0]}.")
    for row in results["rows"]:
        left = row.get("left out", {"pairs": 0})
        if left["pairs"]:
            notes.append(f"Pairs left out of {row['row']}: {left['pairs']}; the first: {left['first reason']}")
    if people["pairs"]:
        share = f"{people['share of words, %']:.1f} % of the words"
        notes.append(f"Selections have as many words as annotator 1 marks: {share}; people are annotators 2 and 3.")
        notes.append("AUPRC rewards equal scores, so that rows which only select words are better judged by AP.")
        if people["not aligned"]:
            notes.append(
                f"Left out, as their marked words are not those of the sentences: {people['not aligned']} pairs."
            )
    else:
        notes.append("No plausibility: the data have no human highlights; --rationales FILE names some.")
    notes += _checked(results["rows"])
    notes += _degraded(results.get("degraded"))
    exact = results["enumeration"]
    if exact is not None:
        words = "{} to {}".format(*exact["words"])
        rho = " and ".join(f"{_cell(exact[name], name)} ({name})" for name in ("interactions", "shapley"))
        pairs = f"pairs of {words} words ({exact['pairs']} of them)"
        notes.append(f"Method input from half of the coalitions against all of them, {pairs}: ρ = {rho}.")
    return notes


def _checked(rows: list[dict[str, Any]]) -> list[str]:
    """Whether shares add up, and whether the spins have settled."""
    checks = {row["row"]: row["checks"] for row in rows if row.get("checks")}
    lines = []
    gaps = [f"{row} {record['efficiency_gap']:.1e}" for row, record in checks.items() if "efficiency_gap" in record]
    if gaps:
        lines.append(f"Largest efficiency gap |Σφ − total|: {', '.join(gaps)}.")
    spins = next((record for record in checks.values() if "residual" in record), None)
    if spins is not None:
        residual, iterations = f"{spins['residual']:.1e}", f"{spins['iterations']:.0f}"
        share = f"{100 * spins['converged']:.0f} %"
        lines.append(
            f"Mean field: residual ≤ {residual} in ≤ {iterations} iterations, converged on {share} of the pairs."
        )
    return lines


def _degraded(results: dict[str, Any] | None) -> list[str]:
    """What was done to the copies, and which metrics do not rank them lower."""
    if results is None:
        return []
    every = results["differences"]
    share, pairs = f"{100 * results['moved share']:.0f} % of the words", max(one["pairs"] for one in every)
    lines = [f"Degraded copies, of {pairs} pairs: {share}, drawn at random, have each other's scores."]
    blind = []
    for metric, rows in results["not told apart"].items():
        judged = [one["row"] for one in every if one["metric"] == metric and one["copy ranks lower"] is not None]
        blind.append(f"{_title(metric)[:-2]} ({'every method' if len(rows) == len(judged) else ', '.join(rows)})")
    named = "; ".join(blind) or "none"
    lines.append(f"Metrics that do not rank the copy lower (95 % interval of the paired difference): {named}.")
    return lines


def _undefined(rows: list[dict[str, Any]]) -> str:
    """As in "τ-LOO 500 (all words)": a count per metric, and whose it is."""
    lines = []
    for metric, title in _TITLES.items():
        counts = {row["row"]: row["figures"][metric]["undefined"] for row in rows if metric in row["figures"]}
        for count in sorted({count for count in counts.values() if count}):
            whose = [row for row, other in counts.items() if other == count]
            lines.append(f"{title[:-2]} {count} ({'every row' if len(whose) == len(counts) else ', '.join(whose)})")
    return "; ".join(lines)


def _never(row: dict[str, Any]) -> str:
    figure = row["figures"].get("never flipped")
    return f"{row['row']} {100 * figure['value']:.0f} %" if figure and figure["value"] else ""


def figure(results: dict[str, Any], path: Path) -> None:
    """Four panels: comprehensiveness, sufficiency, AUPRC and seconds of each row, with intervals."""
    panels = [name for name in _PANELS if any(_value(row, name) is not None for row in results["rows"])]
    ticker = need("matplotlib.ticker", "explain")
    lines = -(-len(panels) // 2)
    size = (10.0, lines * (1.0 + 0.24 * len(results["rows"])))
    canvas = need("matplotlib.figure", "explain").Figure(figsize=size, layout="constrained")
    grid = canvas.subplots(lines, 2, squeeze=False).ravel()
    for axes in grid[len(panels) :]:
        axes.remove()
    for axes, name in zip(grid, panels, strict=False):
        rows = [row for row in results["rows"] if _value(row, name) is not None]
        for place, row in enumerate(rows):
            value, colour = _value(row, name), _COLOURS[row["kind"]]
            if name != "seconds":
                interval = row["figures"][name]
                axes.plot([interval["low"], interval["high"]], [place, place], color=colour, linewidth=2)
            axes.plot([value], [place], "o", color=colour, markersize=5)
        axes.set_yticks(range(len(rows)), [row["row"] for row in rows])
        axes.invert_yaxis()
        axes.set_title(_PANELS[name], loc="left", fontsize=9)
        axes.grid(visible=True, axis="x", color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
        if name == "seconds":
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:g}"))
            axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    save_figure(canvas, path, dpi=130)


def _value(row: dict[str, Any], name: str) -> float | None:
    value = row.get("seconds") if name == "seconds" else row["figures"].get(name, {}).get("value")
    return None if value is None else float(value)
