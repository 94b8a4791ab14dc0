"""The tables and the figure of docs/training.md, from what benchmarks/ship.py measured.

    python benchmarks/training_page.py       # results/embedded.json → docs/training.md, a second

The tables stand between two markers; the rest of the page is written by hand and stays as it is.
"""

import json
from typing import Any

from common import RESULTS
from ship import NAMES, TARGETS

from neurogame.evaluation import Report, Row
from neurogame.training import curves
from neurogame_bench.pages import pipes, update

DOCS = RESULTS.parent / "docs"
NAME = "results/embedded.json"
BEFORE = {  # the models that shipped before, newest first, as history
    "configs/further.yaml": RESULTS / "embedded_further.json",
    "configs/long.yaml": RESULTS / "embedded_long.json",
    "the first model": RESULTS / "embedded_before.json",
}


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


def figures(report: Report, *before: dict[str, str]) -> str:
    """A row per data set."""
    rows = []
    for row in report.rows:
        cells = [NAMES.get(row.data, row.data), str(row.n), accuracy(row), against(row)]
        cells += [known.get(row.data, "–") for known in before]
        rows.append([*cells, f"{100 * row.calibration.before.ece:.1f}"])  # the temperature is in the weights
    return pipes(["data", "pairs", "accuracy, %", "target", *BEFORE, "ECE, points"], rows)


def heuristics(*reports: Report) -> str:
    """HANS by heuristic and gold label, beside the models before."""
    groups = [next(iter(next(row for row in of.rows if row.data.startswith("hans")).groups.values())) for of in reports]
    rows = [[*same[0].key.values(), *(f"{100 * of.accuracy:.1f}" for of in same)] for same in zip(*groups, strict=True)]
    return pipes(["HANS", "gold", "accuracy, %", *BEFORE], rows, left=2)


def curve(*runs: dict[str, Any]) -> str:
    """Dev over the runs."""
    rows = [
        [
            run["name"],
            f"{entry['step']:,}",
            f"{entry['step'] * run['pairs_a_step']:,}",
            f"{100 * entry['eval_accuracy']:.1f}",
            f"{entry['eval_loss']:.3f}",
            f"{entry['eval_coalition_r2']:.3f}",
        ]
        for run in runs
        for entry in run["history"]
        if "eval_accuracy" in entry
    ]
    return pipes(["run", "step", "pairs seen", "dev accuracy, %", "dev loss", "R² of the game"], rows)


def main() -> None:
    """Read, draw, write."""
    stored, *before = (
        json.loads(path.read_text(encoding="utf-8")) for path in (RESULTS / "embedded.json", *BEFORE.values())
    )
    reports = [Report.from_dict(of["evaluation"]) for of in (stored, *before)]
    earlier = [{row.data: f"{100 * row.scores.accuracy:.1f}" for row in of.rows} for of in reports[1:]]
    out = RESULTS / "embedded_before_ood.json"
    rows = Report.from_dict(json.loads(out.read_text(encoding="utf-8"))["evaluation"]).rows
    earlier[-1] |= {row.data: f"{100 * row.scores.accuracy:.1f}" for row in rows}
    mixture = ", ".join(f"{name} {of['rows']:,}" for name, of in stored["mixture"]["sets"].items())
    run = stored["run"]
    text = "\n\n".join(
        [
            figures(reports[0], *earlier),
            heuristics(*reports),
            f"Rows a pass: {stored['mixture']['rows']:,} ({mixture}). Steps: {run['steps']:,} of {run['pairs_a_step']} "
            f"pairs, {run['steps'] * run['pairs_a_step'] / stored['mixture']['rows']:.2f} of a pass.",
            curve(*(of["run"] for of in before[-2::-1]), run),
        ]
    )
    update(DOCS / "training.md", text, NAME)
    curves.draw(run["history"], DOCS / "figures" / "training.png")


if __name__ == "__main__":
    main()
