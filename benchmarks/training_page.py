"""The tables and the figure of docs/training.md, from what benchmarks/ship.py measured.

    python benchmarks/training_page.py       # results/embedded.json → docs/training.md, a second

The tables stand between two markers; the rest of the page is written by hand and stays as it is.
"""

import json
from collections.abc import Iterable
from typing import Any

from common import RESULTS
from ship import NAMES, TARGETS, points

from neurogame.evaluation import Report, Row
from neurogame.training import curves
from neurogame_bench.pages import pipes, update

DOCS = RESULTS.parent / "docs"
NAME = "results/embedded.json"
BEFORE = {  # models that shipped before, newest first; {run} is the name of its run
    "before ({run})": RESULTS / "embedded_previous.json",
    "the first model": RESULTS / "embedded_before.json",
}
SHOWN = "taught-again"  # the run whose curve is drawn: the last one that led to what ships
RUNS = RESULTS / "embedded_runs.json"  # what was logged in the runs before


def accuracy(row: Row) -> str:
    """In %, with its interval."""
    low, high = (100 * x for x in row.scores.interval)
    return f"{100 * row.scores.accuracy:.1f} ({low:.1f} to {high:.1f})"


def against(row: Row) -> str:
    """The target, and whether it is met."""
    if row.data not in TARGETS:
        return ""
    gap = 100 * row.scores.accuracy - TARGETS[row.data]
    return f"≥ {TARGETS[row.data]:g}, **{'met' if gap >= 0 else f'missed by {points(gap)}'}**"


def figures(report: Report, before: dict[str, dict[str, str]]) -> str:
    """A row per data set; beside it the accuracy of the models before, by their names."""
    rows = []
    for row in report.rows:
        cells = [NAMES.get(row.data, row.data), str(row.n), accuracy(row), against(row)]
        cells += [known.get(row.data, "–") for known in before.values()]
        rows.append([*cells, f"{100 * row.calibration.before.ece:.1f}"])  # the temperature is in the weights
    return pipes(["data", "pairs", "accuracy, %", "target", *before, "ECE, points"], rows)


def heuristics(reports: list[Report], names: Iterable[str]) -> str:
    """HANS by heuristic and gold label, of the model that ships and of those of `names`."""
    groups = [next(iter(next(row for row in of.rows if row.data.startswith("hans")).groups.values())) for of in reports]
    rows = [[*same[0].key.values(), *(f"{100 * of.accuracy:.1f}" for of in same)] for same in zip(*groups, strict=True)]
    return pipes(["HANS", "gold", "accuracy, %", *names], rows, left=2)


def conventions(report: Report, name: str) -> str:
    """How many of the errors on a set are neutral pairs that are called contradictions."""
    row = next(row for row in report.rows if row.data == name)
    scores, labels = row.scores, list(row.scores.labels)
    neutral, contradiction = labels.index("neutral"), labels.index("contradiction")
    exchanged = scores.confusion[neutral][contradiction], scores.confusion[contradiction][neutral]
    errors = round((1 - scores.accuracy) * row.n)
    merged = 100 * (1 - (errors - sum(exchanged)) / row.n)
    return (
        f"{NAMES[name]}: {exchanged[0]:,} of {errors:,} errors are neutral pairs that the model calls contradictions; "
        f"with neutral and contradiction as one label it has {merged:.1f} %."
    )


def curve(*runs: dict[str, Any]) -> str:
    """Dev over the runs."""
    rows = [
        [
            run["name"],
            f"{entry['step']:,}",
            f"{entry['step'] * run['pairs_a_step']:,}",
            f"{100 * entry['eval_accuracy']:.1f}",
            f"{entry['eval_loss']:.3f}",
            f"{entry['eval_coalition_r2']:.3f}" if "eval_coalition_r2" in entry else "–",  # a teacher has no game
        ]
        for run in runs
        for entry in run["history"]
        if "eval_accuracy" in entry
    ]
    return pipes(["run", "step", "pairs seen", "dev accuracy, %", "dev loss", "R² of the game"], rows)


def average(run: dict[str, Any]) -> str:
    """The mean of weights on dev."""
    entry = next(entry for entry in run["history"] if "eval_accuracy" in entry)
    return (
        f"The mean of weights that ships: dev accuracy {100 * entry['eval_accuracy']:.1f} %, dev loss "
        f"{entry['eval_loss']:.3f}, R² of the game {entry['eval_coalition_r2']:.3f}."
    )


def main() -> None:
    """Read, draw, write."""
    stored, *others = (
        json.loads(path.read_text(encoding="utf-8")) for path in (RESULTS / "embedded.json", *BEFORE.values())
    )
    names = [name.format(run=of["run"]["name"]) for name, of in zip(BEFORE, others, strict=True)]
    reports = [Report.from_dict(of["evaluation"]) for of in (stored, *others)]
    earlier = {
        name: {row.data: f"{100 * row.scores.accuracy:.1f}" for row in of.rows}
        for name, of in zip(names, reports[1:], strict=True)
    }
    out = RESULTS / "embedded_before_ood.json"
    rows = Report.from_dict(json.loads(out.read_text(encoding="utf-8"))["evaluation"]).rows
    earlier[names[-1]] |= {row.data: f"{100 * row.scores.accuracy:.1f}" for row in rows}
    mixture = ", ".join(f"{name} {of['rows']:,}" for name, of in stored["mixture"]["sets"].items())
    runs = json.loads(RUNS.read_text(encoding="utf-8"))["runs"]
    text = "\n\n".join(
        [
            figures(reports[0], earlier),
            heuristics(reports, names),
            conventions(reports[0], "sick/test"),
            f"Rows a pass of the last mixture: {stored['mixture']['rows']:,} ({mixture}).",
            curve(*runs),
            average(stored["run"]),
        ]
    )
    update(DOCS / "training.md", text, NAME)
    curves.draw(next(run for run in runs if run["name"] == SHOWN)["history"], DOCS / "figures" / "training.png")


if __name__ == "__main__":
    main()
