"""The tables of docs/explanations.md, from results/explanations.json: targets, faithfulness, plausibility, methods,
degraded copies.

    python benchmarks/explanations_page.py          # seconds

They stand between two markers; the rest of the page is written by hand and stays as it is.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from common import RESULTS, progress

from neurogame_bench.explanations.view import CURVES, FAITHFULNESS, METHOD, PLAUSIBILITY, degraded, notes
from neurogame_bench.pages import pipes, update

NAME = "results/explanations.json"  # of the markers


def tables(found: dict[str, Any]) -> str:
    """Everything between the markers of the page."""
    settings, people = found["settings"], found["people"]
    labels = ", ".join(f"{count} {name}" for name, count in people["labels"].items())
    marked = f"{people['pairs']} pairs of {people['data']} with human highlights ({labels})"
    parts = [
        "### Targets",
        targets(found["targets"]),
        f"### Faithfulness: {settings['pairs']} pairs of {settings['data']}",
        block(found["rows"], FAITHFULNESS),
        *curves(found["rows"]),
        f"### Plausibility: {marked}",
        block(found["rows"], PLAUSIBILITY),
        "### Methods: stability, interactions, time",
        methods(found),
        *copies(found),
        "![Comprehensiveness, sufficiency, AUPRC and seconds of each row](figures/explanations.png)",
        "\n".join(f"- {note}" for note in notes(found)),
    ]
    return "\n\n".join(parts)


def targets(rows: list[dict[str, Any]]) -> str:
    """What was to be reached, what was, and by how much it was missed."""
    body = []
    for row in rows:
        interval = "" if row["low"] is None else f" ({_number(row['low'])} to {_number(row['high'])})"
        value = "–" if row["value"] is None else f"{_number(row['value'])}{interval}"
        body.append([row["what"], row["target"] or "–", value, str(row["pairs"] or "–"), _verdict(row)])
    return pipes(["", "target", "found (95 % interval)", "pairs", ""], body)


def _verdict(row: dict[str, Any]) -> str:
    if row["value"] is None:
        return "not measured"
    if row["target"] is None:
        return "for comparison"
    return "**reached**" if row["reached"] else f"**missed** by {_number(row['missed by'])}"


def block(rows: list[dict[str, Any]], titles: dict[str, str]) -> str:
    """Rows that have any of the metrics; the pairs of the first, and of another where they are not the same."""
    there = [name for name in titles if any(name in row["figures"] for row in rows)]
    body = []
    for row in rows:
        figures = [row["figures"].get(name) for name in there]
        most = max((figure["pairs"] for figure in figures if figure), default=0)
        if most:
            body.append([row["row"], str(most), *(_cell(figure, most) for figure in figures)])
    return pipes(["", "pairs", *(titles[name] for name in there)], body)


def curves(rows: list[dict[str, Any]]) -> list[str]:
    """Whole curves and padded words, where they were measured."""
    if not any(name in row["figures"] for row in rows for name in CURVES):
        return []
    return ["### Faithfulness: whole curves, and words padded instead of deleted", block(rows, CURVES)]


def copies(found: dict[str, Any]) -> list[str]:
    """Each method beside its degraded copy, where there are any."""
    if found.get("degraded") is None:
        return []
    return ["### Each method minus its degraded copy (in brackets: not told apart)", pipes(*degraded(found))]


def methods(found: dict[str, Any]) -> str:
    """Of the methods alone."""
    reference = found["settings"]["reference"]
    titles = [*METHOD.values(), "seconds", f"× {reference}", "the same, prediction not counted", "forward passes"]
    body = []
    for row in found["rows"]:
        if row["kind"] == "method":
            cells = [_cell(figure, 0) if (figure := row["figures"].get(name)) else "–" for name in METHOD]
            spent = (row[name] for name in ("seconds", "ratio", "ratio beyond the prediction", "forward passes"))
            body.append([row["row"], *cells, *("–" if value is None else f"{value:.3g}" for value in spent)])
    return pipes(["", *titles], body)


def _cell(figure: dict[str, Any] | None, usual: int) -> str:
    """Value ± half of its interval, and in brackets on how many pairs, where they are not as many as usual."""
    if figure is None or figure["value"] is None:
        return "–"
    half = _number((figure["high"] - figure["low"]) / 2.0)
    fewer = "" if figure["pairs"] == usual else f" [{figure['pairs']}]"
    return f"{_number(figure['value'])} ± {half}{fewer}"


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}".replace("0.", ".", 1).replace("-", "−")


def main() -> None:
    """Read, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS / "explanations.json")
    parser.add_argument("--page", type=Path, default=RESULTS.parent / "docs" / "explanations.md")
    args = parser.parse_args()
    found = json.loads(args.results.read_text(encoding="utf-8"))
    update(args.page, tables(found), NAME)
    progress(f"wrote the tables of {args.page}")


if __name__ == "__main__":
    main()
