"""What the records of `work` amount to: every metric of every row, with intervals. No model is asked.

A row is about the pairs for which it has a record; a difference of two rows is about those that both have.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import numpy as np

from neurogame.evaluation.alignment import Array, Booleans
from neurogame_bench import intervals
from neurogame_bench.explanations.cases import BASELINES, FEWEST, MOST, REFERENCE, Sample, Step, Work, sides_of
from neurogame_bench.explanations.work import Record, baseline_scores
from neurogame_bench.faithfulness import degradation, judging
from neurogame_bench.faithfulness.stability import stability

COMPARED = {  # metric → (ours, theirs) whose difference has an interval of its own
    **dict.fromkeys(
        ("comprehensiveness", "sufficiency"),
        (
            *((ours, theirs) for ours in ("decision", "presence") for theirs in ("integrated_gradients", REFERENCE)),
            ("game", "attention"),
            ("decision", "presence"),
        ),
    ),
    "auprc": tuple((row, "random") for row in ("decision", "decision, pairs", "game", "presence", "people")),
}
SPINS = "α > ½"
PAIRS = "{}, pairs"  # the words of a method by Σ|J_ij| over the other text instead of by their shares
Place = tuple[str, int]  # sample, place in it
Records = Mapping[Step, Record]


@dataclass(frozen=True)
class Sheet:
    """Summands of every row and metric, a line per pair."""

    lines: dict[tuple[str, str], dict[Place, Array]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, row: str, place: Place, summands: Mapping[str, Any]) -> None:
        """The summands of one more pair, by metric."""
        for metric, line in summands.items():
            self.lines[row, metric][place] = np.asarray(line, dtype=float)

    def figures(self, row: str, seed: int) -> dict[str, Any]:
        """Of each metric of a row: value, interval, pairs and counts."""
        by_metric = {}
        for metric, lines in ((metric, lines) for (name, metric), lines in self.lines.items() if name == row):
            statistic = judging.STATISTICS.get(metric, intervals.ratio)
            estimate = intervals.estimate(np.stack([lines[place] for place in sorted(lines)]), statistic, seed=seed)
            by_metric[metric] = {**asdict(estimate), "pairs": len(lines)}
        return by_metric

    def differences(self, seed: int) -> list[dict[str, Any]]:
        """Those of COMPARED that can be had, each on the pairs of both rows."""
        compared = []
        for metric, ours, theirs in ((metric, *rows) for metric, both in COMPARED.items() for rows in both):
            figure = self.against(self, metric, ours, theirs, seed)
            if figure is not None:
                compared.append(
                    {"metric": metric, "row": ours, "against": theirs, **asdict(figure), "pairs": figure.cases}
                )
        return compared

    def against(self, other: "Sheet", metric: str, ours: str, theirs: str, seed: int) -> intervals.Figure | None:
        """A row minus one of another sheet, on the pairs of both; None if there are none."""
        mine, its = self.lines.get((ours, metric), {}), other.lines.get((theirs, metric), {})
        common = sorted(mine.keys() & its.keys())
        if not common:
            return None
        one, two = (np.stack([lines[place] for place in common]) for lines in (mine, its))
        return intervals.difference(one, two, judging.STATISTICS.get(metric, intervals.ratio), seed=seed)


def report(work: Work, records: Records, *, spins: bool) -> dict[str, Any]:
    """Rows, differences, time, enumeration; `spins`: the weights of the model are spins, and α > ½ selects words."""
    sheet, copies = Sheet(), Sheet()
    for step, record in records.items():
        if step.row == "deletion":
            for line in record["pairs"]:
                sheet.add(line["row"], (step.sample, line["place"]), line["lines"])
                copies.add(line["row"], (step.sample, line["place"]), line.get("degraded", {}))
    for sample in work.samples:
        _plausible(sheet, work, sample, records, spins=spins)
    for row in work.methods:
        for place, entry in _entries(records, row):
            if "again" in entry:
                tau = stability([np.array(scores) for scores in (entry["scores"], *entry["again"])])
                sheet.add(row, place, {"stability": intervals.summands([tau])})
    if not sheet.lines:
        reasons = [
            entry["error"] for record in records.values() for entry in record.get("pairs", ()) if "error" in entry
        ]
        raise ValueError(
            f"no pair could be explained; the first reason: {reasons[0] if reasons else 'nothing was run'}"
        )
    times: Record = next((record for step, record in records.items() if step.row == "timing"), {})
    return {
        "rows": [_row(sheet, work, row, records, times) for row in _order(sheet, work)],
        "differences": sheet.differences(work.seed),
        "prediction": {"seconds": _median(times.get("seconds_each", {}).get("prediction", ()))},
        "enumeration": _enumeration(records, work.seed),
        "degraded": _degraded(sheet, copies, work),
    }


def _degraded(sheet: Sheet, copies: Sheet, work: Work) -> Record | None:
    """Each method minus its degraded copy, by metric, and whether the copy ranks lower; None without copies."""
    differences: list[Record] = []
    for metric, better in judging.BETTER.items():
        for row in work.methods:
            figure = sheet.against(copies, metric, row, row, work.seed)
            if figure is not None:
                lower = degradation.ranks_lower(figure, better)
                differences.append(
                    {"metric": metric, "row": row, **asdict(figure), "pairs": figure.cases, "copy ranks lower": lower}
                )
    if not differences:
        return None
    blind: dict[str, list[str]] = defaultdict(list)
    for one in differences:
        if one["copy ranks lower"] is False:
            blind[one["metric"]].append(one["row"])
    return {"moved share": degradation.MOVED, "differences": differences, "not told apart": dict(blind)}


def _order(sheet: Sheet, work: Work) -> list[str]:
    """Methods, what they must beat, people."""
    known = [*work.methods, *map(PAIRS.format, work.methods), SPINS, *BASELINES, "people"]
    return [row for row in known if any(name == row for name, _ in sheet.lines)]


def _entries(records: Records, row: str) -> Iterator[tuple[Place, Record]]:
    """The entries of a method, without the pairs that it could not explain."""
    for step, record in records.items():
        if step.row == row:
            yield from (((step.sample, e["place"]), e) for e in record["pairs"] if "error" not in e)


def _row(sheet: Sheet, work: Work, row: str, records: Records, times: Record) -> Record:
    method = row in work.methods
    cells: Record = {
        "row": row,
        "kind": "method" if method else "people" if row == "people" else "baseline",
        "figures": sheet.figures(row, work.seed),
    }
    if not method:
        return cells
    every = [entry for step, record in records.items() if step.row == row for entry in record["pairs"]]
    errors = [entry["error"] for entry in every if "error" in entry]
    own, unit, first = (times.get("processor_each", {}).get(name, []) for name in (row, REFERENCE, "prediction"))
    return cells | {
        "left out": {"pairs": len(errors), "first reason": errors[0] if errors else None},
        "forward passes": _median(entry["passes"] for entry in every if "passes" in entry),
        "seconds": _median(times.get("seconds_each", {}).get(row, ())),
        "ratio": _median(a / b for a, b in zip(own, unit, strict=False)),
        "ratio beyond the prediction": _median((a - b) / c for a, b, c in zip(own, first, unit, strict=False)),
        "timed pairs": len(own),
        "checks": _checks([entry["checks"] for entry in every if "checks" in entry]),
    }


def _median(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return median(numbers) if numbers else None


def _checks(checked: Sequence[Mapping[str, Any]]) -> Record:
    """Largest efficiency gap, residual and iterations; the share of pairs on which the spins converged."""
    names = dict.fromkeys(name for checks in checked for name in checks)
    every = {name: [float(checks[name]) for checks in checked if checks.get(name) is not None] for name in names}
    return {name: float(np.mean(x)) if name == "converged" else max(x) for name, x in every.items() if x}


# --- against people -------------------------------------------------------------------------------------------------


def _plausible(sheet: Sheet, work: Work, sample: Sample, records: Records, *, spins: bool) -> None:
    """Plausibility of all rows of the pairs that have marks; gold is annotator 1."""
    by_place: dict[int, dict[str, Record]] = defaultdict(dict)
    for row in work.methods:
        for (name, place), entry in _entries(records, row):
            if name == sample.name and sample.marks[place]:
                by_place[place][row] = entry
    sizes, percent = work.sizes, work.percent
    for place, entries in sorted(by_place.items()):
        pair, places = sample.data[place], next(iter(entries.values()))["read"]
        sides = [side for i, side in enumerate(sides_of(pair)) if i in set(places)]
        gold, *others = (marks[places] for marks in sample.marks[place])
        marked = judging.Marked(gold, sides, percent or 0.0, sizes[pair.label])
        for row, entry in entries.items():
            of_gold = None if entry.get("of_gold") is None else np.array(entry["of_gold"])
            sheet.add(row, (sample.name, place), judging.by_people(np.array(entry["scores"]), marked, of_gold=of_gold))
            if "involvement" in entry:
                involved = np.array(entry["involvement"])
                by_pairs = judging.by_people(involved, marked, of_gold=involved)
                sheet.add(PAIRS.format(row), (sample.name, place), by_pairs)
        alpha = np.array(entries["attention"]["scores"]) if spins and "attention" in entries else None
        if alpha is not None:
            sheet.add(SPINS, (sample.name, place), _selection(alpha, alpha > 0.5, marked))
        for row, draws in baseline_scores(pair, places, (work.seed, place)).items():
            judged = [
                judging.by_people(scores, marked, of_gold=scores)
                if row == "random"
                else _selection(scores, scores > 0, marked)
                for scores in draws
            ]
            sheet.add(row, (sample.name, place), judging.average(judged))
        if others:
            people = [_selection(marks.astype(float), marks, marked) for marks in others]
            sheet.add("people", (sample.name, place), judging.average(people))


def _selection(scores: Array, selected: Booleans, marked: judging.Marked) -> judging.Rows:
    """Of a row that selects words by itself, the same for every label."""
    return judging.by_people(scores, marked, of_gold=scores, selected=selected)


def _enumeration(records: Records, seed: int) -> Record | None:
    entries = [entry for step, record in records.items() if step.row == "enumeration" for entry in record["pairs"]]
    if not entries:
        return None
    rows = {
        name: np.array([intervals.summands([math.nan if e[name] is None else e[name]]) for e in entries])
        for name in ("interactions", "shapley")
    }
    return {
        "words": [FEWEST, MOST],
        "pairs": len(entries),
        "coalitions": "half",
        **{name: asdict(intervals.estimate(lines, seed=seed)) for name, lines in rows.items()},
    }
