"""The tables and the figure of docs/training.md, from what benchmarks/ship.py measured.

    python benchmarks/training_page.py       # results/embedded.json → docs/training.md, a second

The tables stand between two markers; the rest of the page is written by hand and stays as it is.
"""

import json
from pathlib import Path
from typing import Any

from common import RESULTS
from ship import NAMES, TARGETS

from neurogame.evaluation import Report, Row
from neurogame.training import curves
from neurogame_bench.pages import pipes, update

DOCS = RESULTS.parent / "docs"
NAME = "results/embedded.json"
BEFORE = RESULTS / "embedded_before.json"  # the model that shipped before this one, as history


def accuracy(row: Row) -> str:
    """In %, with its interval."""
    low, high = (100 * x for x in row.scores.interval)
    return f"{100 * row.scores.accuracy:.1f} ({low:.1f} to {high:.1f})"


def against(row: Row) -> str:
    """The target, and whether it is met."""
    if row.data not in TARGETS:
        return ""
    gap = 100 * row.scores.accuracy - TARGETS[row.data]
    return f"≥ {TARGETS[row.data]:g}, **{'met' if gap >= 0 else f'missed by {-gap:.1f}'}**"


def figures(report: Report, before: dict[str, str]) -> str:
    """A row per data set."""
    rows = []
    for row in report.rows:
        trust = row.calibration.after or row.calibration.before
        cells = [NAMES.get(row.data, row.data), str(row.n), accuracy(row), against(row), before.get(row.data, "–")]
        rows.append([*cells, f"{100 * trust.ece:.1f}"])
    return pipes(["data", "pairs", "accuracy, %", "target", "the model before", "ECE, points"], rows)


def heuristics(report: Report, before: Report) -> str:
    """HANS by heuristic and gold label, beside the model before."""
    ours, theirs = (
        next(iter(next(row for row in of.rows if row.data.startswith("hans")).groups.values()))
        for of in (report, before)
    )
    rows = [
        [*ours_of.key.values(), f"{100 * ours_of.accuracy:.1f}", f"{100 * theirs_of.accuracy:.1f}"]
        for ours_of, theirs_of in zip(ours, theirs, strict=True)
    ]
    return pipes(["HANS", "gold", "accuracy, %", "the model before"], rows, left=2)


def curve(history: list[dict[str, Any]], pairs: int) -> str:
    """Dev over the run."""
    rows = [
        [
            f"{entry['step']:,}",
            f"{entry['step'] * pairs:,}",
            f"{100 * entry['eval_accuracy']:.1f}",
            f"{entry['eval_loss']:.3f}",
            f"{entry['eval_coalition_r2']:.3f}",
        ]
        for entry in history
        if "eval_accuracy" in entry
    ]
    return pipes(["step", "pairs seen", "dev accuracy, %", "dev loss", "R² of the game"], rows, left=0)


def main() -> None:
    """Read, draw, write."""
    stored, old = (json.loads(path.read_text(encoding="utf-8")) for path in (RESULTS / "embedded.json", BEFORE))
    report, before = (Report.from_dict(of["evaluation"]) for of in (stored, old))
    known = {row.data: f"{100 * row.scores.accuracy:.1f}" for row in before.rows}
    out = Path(RESULTS / "embedded_before_ood.json")
    if out.exists():
        rows = Report.from_dict(json.loads(out.read_text(encoding="utf-8"))["evaluation"]).rows
        known |= {row.data: f"{100 * row.scores.accuracy:.1f}" for row in rows}
    mixture = ", ".join(f"{name} {of['rows']:,}" for name, of in stored["mixture"]["sets"].items())
    run = stored["run"]
    text = "\n\n".join(
        [
            figures(report, known),
            heuristics(report, before),
            f"Rows a pass: {stored['mixture']['rows']:,} ({mixture}). Steps: {run['steps']:,} of {run['pairs_a_step']} "
            f"pairs, {run['steps'] * run['pairs_a_step'] / stored['mixture']['rows']:.2f} of a pass.",
            curve(run["history"], run["pairs_a_step"]),
        ]
    )
    update(DOCS / "training.md", text, NAME)
    curves.draw(run["history"], DOCS / "figures" / "training.png")


if __name__ == "__main__":
    main()
