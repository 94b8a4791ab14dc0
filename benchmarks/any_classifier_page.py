"""The tables of docs/any-classifier.md, from results/any_classifier.json: targets first, then every part.

    python benchmarks/any_classifier_page.py                          # seconds

They stand between two markers; the rest of the page is written by hand and stays as it is.
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from common import RESULTS, progress

from neurogame_bench.grounding.figures import span
from neurogame_bench.pages import pipes, update
from neurogame_bench.study import Record, read

NAME = "results/any_classifier.json"  # of the markers
OURS, PARTITION, DOCUMENTED = "neurogame", "shap Partition", "shap.Explainer as documented"
CORES, MINUTES = 2, 10.0  # of the target
SPEED = 50.0
Found = Mapping[str, Any]  # of one task
TITLES = {"pairs": "pairs (SNLI)", "sentiment": "single texts (sentiment)"}


def row_of(part: Found, name: str) -> Record | None:
    """The row of a method; None: it has none."""
    return next((row for row in part["rows"] if row["method"] == name), None)


def targets(task: Found) -> list[tuple[str, str, float | None, float, int]]:
    """(what, relation, value, target, digits); None: not measured."""
    parts, fit = task["parts"], task["fit"]
    own = row_of(parts["enumeration"], OURS) if "enumeration" in parts else None
    rows: list[tuple[str, str, float | None, float, int]] = [
        ("R² on coalitions of test texts", "≥", fit["test"]["r2"], 0.80, 3),
        (
            "correlation with enumerated Shapley values",
            "≥",
            None if own is None else own["values"]["pooled"]["value"],
            0.93,
            3,
        ),
        ("minutes of fitting on two cores (core minutes / 2)", "≤", fit["core minutes"] / CORES, MINUTES, 1),
    ]
    timing, faithful = parts.get("timing"), parts.get("faithfulness")
    for name in (f"{PARTITION}, 500", f"{PARTITION}, 100", f"{DOCUMENTED}, 500"):
        fast, judged = (None if part is None else row_of(part, name) for part in (timing, faithful))
        if name.startswith(DOCUMENTED) and fast is None and judged is None:
            continue
        seconds = None if fast is None else fast["times ours in a batch"]
        rows.append((f"{name} passes: its seconds / ours in a batch", "≥", seconds, SPEED, 0))
        for metric, relation in (("comprehensiveness", "≥"), ("sufficiency", "≤")):
            value = None if judged is None else judged[f"{metric}, ours less theirs"]["value"]
            rows.append((f"{metric}, ours less {name}", relation, value, 0.0, 3))
    return rows


def verdict(value: float | None, relation: str, target: float, digits: int) -> str:
    """Met, or missed by how much."""
    if value is None:
        return "not measured"
    if value >= target if relation == "≥" else value <= target:
        return "**met**"
    return f"**missed by {number(abs(value - target), digits)}**"


def number(value: float, digits: int) -> str:
    """With a true minus sign."""
    return f"{value:.{digits}f}".replace("-", "−")


def targets_table(found: Found) -> str:
    """Every target of every task."""
    cells = [
        [
            TITLES.get(name, name),
            what,
            f"{relation} {target:g}",
            "–" if value is None else number(value, digits),
            verdict(value, relation, target, digits),
        ]
        for name, task in found.items()
        for what, relation, value, target, digits in targets(task)
    ]
    return pipes(["classifier", "what", "target", "found", ""], cells, left=2)


def classifiers(found: Found) -> str:
    """What was explained, and what fitting took."""
    cells = []
    for name, task in found.items():
        of, fit = task["classifier"], task["fit"]
        record = fit["record"]
        cells.append(
            [
                TITLES.get(name, name),
                f"{of['class']} on {of['encoder']}",
                ", ".join(of["labels"]),
                f"{100 * of['accuracy']:.1f} ({of['accuracy of']})",
                f"{record['texts']} × {record['coalitions']}",
                f"{record['steps']}",
                f"{fit['core minutes']:.1f}",
                f"{record['r2']:.3f}",
                f"{fit['test']['r2']:.3f}",
            ]
        )
    head = ["", "classifier", "labels", "accuracy, % (texts)", "fitted on texts × coalitions", "steps"]
    return pipes([*head, "core minutes", "R², held out", "R², test"], cells, left=3)


def faithfulness(part: Found) -> str:
    """Means with intervals; differences on the same texts."""
    cells = [
        [
            row["method"],
            str(row["texts"]),
            span(row["comprehensiveness"]),
            span(row["sufficiency"]),
            _difference(row, "comprehensiveness"),
            _difference(row, "sufficiency"),
        ]
        for row in part["rows"]
    ]
    low, middle, high = part["words"]
    said = f"Texts of {low:g} to {high:g} words, half of them below {middle:g}.\n\n"
    head = ["method, passes", "texts", "comp ↑", "suff ↓", "comp, ours less theirs", "suff, ours less theirs"]
    return said + pipes(head, cells)


def _difference(row: Found, metric: str) -> str:
    figure = row.get(f"{metric}, ours less theirs")
    return "" if figure is None else span(figure).replace("-", "−")


def enumeration(part: Found) -> str:
    """Correlations, pooled over words and as means over texts."""

    def cells_of(row: Found) -> list[str]:
        found = [row.get(what) for what in ("values", "banzhaf", "shapley")]
        return [
            text
            for of in found
            for text in (("", "") if of is None else (span(of["pooled"]), f"{of['mean']['value']:.3f}"))
        ]

    cells = [[row["method"], *cells_of(row)] for row in part["rows"]]
    low, _, high = part["words"]
    said = f"{part['texts']} texts of {low:g} to {high:g} words, all coalitions.\n\n"
    names = ("Shapley values", "Banzhaf pairs", "Shapley pairs")
    return said + pipes(["method, passes", *(h for name in names for h in (name, "mean over texts"))], cells)


def timing(part: Found) -> str:
    """Seconds, and ratios to ours."""
    batch = part["batch"]
    cells = [
        [
            row["method"],
            f"{row['seconds']:.3f}",
            f"{1 / row['seconds']:.1f}",
            f"{row['times ours']:.1f}",
            f"{row['times ours in a batch']:.0f}" if row["times ours in a batch"] >= 10 else
            f"{row['times ours in a batch']:.1f}",
        ]
        for row in part["rows"]
    ]  # fmt: skip
    said = (
        f"Processor seconds of one thread, {part['texts']} texts one by one, all methods in turn. {OURS} on "
        f"{batch['texts']} texts at once: {batch['texts per second']:.1f} texts per second, with its claims checked by "
        f"real deletion {batch['checked texts per second']:.1f}. The last column is the mean over the single texts, "
        f"divided by the mean over that batch, which has other texts beside them.\n\n"
    )
    head = ["method, passes", "seconds per text", "texts per second", "× ours", "× ours in a batch"]
    return said + pipes(head, cells)


def curve(part: Found) -> str:
    """One line per fit."""
    cells = [
        [
            str(row["texts"]),
            str(row["coalitions"]),
            str(row["steps"]),
            f"{row['r2']:.3f}",
            span(row["shapley"]),
            f"{row['minutes of passes']:.1f}",
            f"{row['minutes of fitting']:.1f}",
        ]
        for row in part["rows"]
    ]
    said = f"R² on {part['judged']} test texts × 8 coalitions; {part['enumerated']} texts enumerated; core minutes.\n\n"
    head = ["texts", "coalitions", "steps", "R²", "Shapley, enumerated", "minutes of passes", "minutes of fitting"]
    return said + pipes(head, cells, left=0)


SECTIONS: dict[str, tuple[str, Callable[[Found], str]]] = {
    "faithfulness": ("Faithfulness", faithfulness),
    "enumeration": ("Against enumeration", enumeration),
    "timing": ("Time", timing),
    "curve": ("How many texts", curve),
}


def written(found: Found) -> str:
    """All tables."""
    lacking = [title for name, title in TITLES.items() if name not in found]
    lacking += [
        f"{title.lower()} ({TITLES.get(name, name)})"
        for name, task in found.items()
        for part, (title, _) in SECTIONS.items()
        if part not in task["parts"]
    ]
    blocks = ["### Targets", targets_table(found)]
    blocks += [f"Not measured yet: {', '.join(lacking)}."] if lacking else []
    blocks += ["### Classifiers", classifiers(found)]
    for part, (title, table) in SECTIONS.items():
        for name, task in found.items():
            if part in task["parts"]:
                blocks += [f"### {title}: {TITLES.get(name, name)}", table(task["parts"][part])]
    return "\n" + "\n\n".join(blocks) + "\n"


def main() -> None:
    """Write the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS / "any_classifier.json")
    parser.add_argument("--page", type=Path, default=RESULTS.parent / "docs" / "any-classifier.md")
    given = parser.parse_args()
    found = read(given.results)
    if found is None:
        raise SystemExit(f"no {given.results}; benchmarks/any_classifier.py makes it")
    update(given.page, written(found), NAME)
    progress(f"wrote {given.page.name}")


if __name__ == "__main__":
    main()
