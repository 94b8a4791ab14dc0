"""How a report reads: tables for the terminal and for Markdown, from the same cells. The numbers come from `report`."""

from typing import TYPE_CHECKING

from rich.console import Group as Together
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from neurogame.evaluation.alignment import sort_labels

if TYPE_CHECKING:
    from neurogame.evaluation.report import Report, Row

NONE = "–"
_SHORT = {"entailment": "ent.", "neutral": "neut.", "contradiction": "contr.", "non-entailment": "non-ent."}
_TEXT = {"model", "data", "against", "test", "label", "heuristic", "round", "gold \\ predicted", "temperature"}
Cells = list[list[str]]


def percent(value: float, digits: int = 1) -> str:
    """.8886 is 88.9."""
    return f"{100 * value:.{digits}f}"


def between(interval: tuple[float, float]) -> str:
    """(.881, .895) is [88.1, 89.5]."""
    return f"[{percent(interval[0])}, {percent(interval[1])}]"


def by_data(report: "Report") -> list["Row"]:
    """Rows of one data set together: models are compared within it."""
    return sorted(report.rows, key=lambda row: report.data.index(row.data))


def temperatures(row: "Row") -> str:
    """T of a row's calibration; two where it was cross-fitted."""
    return " ".join(f"{T:.2f}" for T in row.calibration.temperatures) or NONE


def overview(report: "Report") -> tuple[list[str], Cells]:
    """One line per model and data set; the F1 of a label means something where it is a gold label of some pair."""
    names = sort_labels({name for row in report.rows for name in row.scores.labels})
    head = ["model", "data", "pairs", "accuracy [95 %]", "macro-F1", *(f"F1 {_SHORT.get(n, n)}" for n in names)]
    head += ["ECE → scaled", "T", "NLL"]
    cells = []
    for row in by_data(report):
        scores, after = row.scores, row.calibration.after
        f1 = {name: percent(c.f1) for name, c in scores.classes.items() if c.support > 0}
        line = [row.model, row.data, str(row.n), f"{percent(scores.accuracy, 2)} {between(scores.interval)}"]
        line += [percent(scores.macro_f1), *(f1.get(name, NONE) for name in names)]
        line += [f"{percent(scores.ece)} → {NONE if after is None else percent(after.ece)}", temperatures(row)]
        cells.append([*line, f"{scores.nll:.3f}"])
    return head, cells


def comparisons(report: "Report") -> tuple[list[str], Cells]:
    """One line per McNemar test."""
    head = ["data", "model", "against", "difference [95 %]", "only model", "only other", "p (McNemar)", "test"]
    cells = [
        [
            c.data,
            c.model,
            c.against,
            f"{100 * c.difference:+.2f} [{100 * c.interval[0]:+.1f}, {100 * c.interval[1]:+.1f}]",
            str(c.only_model),
            str(c.only_against),
            "< 1e-6" if c.mcnemar.p_value < 1e-6 else f"{c.mcnemar.p_value:.2g}",
            c.mcnemar.test,
        ]
        for row in by_data(report)
        for c in row.comparisons
    ]
    return head, cells


def groups(report: "Report", data: str, title: str) -> tuple[list[str], Cells]:
    """One line per group of one breakdown of one data set, one column per model."""
    rows = [row for row in report.rows if row.data == data and row.groups.get(title)]
    lines = list(zip(*(row.groups[title] for row in rows), strict=False))
    cells = [
        [*line[0].key.values(), str(line[0].n), *(f"{percent(g.accuracy)} {between(g.interval)}" for g in line)]
        for line in lines
    ]
    return [*lines[0][0].key, "pairs", *(row.model for row in rows)], cells


def breakdowns(report: "Report") -> list[tuple[str, str]]:
    """Data set and title of every breakdown in a report."""
    titles = ((row.data, title) for row in by_data(report) for title, groups in row.groups.items() if groups)
    return list(dict.fromkeys(titles))


def note(report: "Report") -> str:
    """What the overview's columns mean."""
    bins = " or ".join(map(str, sorted({row.scores.bins for row in report.rows})))
    resamples = " or ".join(map(str, sorted({row.scores.resamples for row in report.rows})))
    return (
        f"Percent, except NLL. Intervals: percentile bootstrap, {resamples} resamples. "
        f"ECE: {bins} bins of equal width, before → after the logits are divided by T; NLL before. "
        "Macro-F1: mean over the labels the gold labels have."
    )


def table(report: "Report") -> RenderableType:
    """The report for the terminal."""
    shown: list[RenderableType] = [_rich("", *overview(report), sections=True), note(report)]
    shown += [*_mnli(report), *sources(report)]
    shown += [_rich(f"{row.model} on {row.data}", *confusion(row)) for row in by_data(report)]
    shown += [_rich(f"{data}: accuracy by {title}", *groups(report, data, title)) for data, title in breakdowns(report)]
    head, cells = comparisons(report)
    if cells:
        shown.append(_rich("Compared on the same pairs", head, cells))
    return Together(*shown)


def markdown(report: "Report") -> str:
    """The report as Markdown: overview, MNLI m/mm, breakdowns, comparisons, then each row in detail."""
    parts = ["# Evaluation", _pipes(*overview(report)), note(report)]
    parts += ["\n".join(f"- {line}" for line in [*_mnli(report), *sources(report)])]
    for data, title in breakdowns(report):
        parts += [f"## {data}: accuracy by {title}", _pipes(*groups(report, data, title)), "Intervals: Wilson, 95 %."]
    head, cells = comparisons(report)
    if cells:
        parts += ["## Compared on the same pairs", _pipes(head, cells)]
    for row in by_data(report):
        parts += [f"## {row.model} on {row.data}", *_details(row)]
    return "\n\n".join(parts) + "\n"


def confusion(row: "Row") -> tuple[list[str], list[list[str]]]:
    """Counts of gold (down) and predicted labels (across)."""
    scores = row.scores
    cells = [[name, *map(str, counts)] for name, counts in zip(scores.labels, scores.confusion, strict=True)]
    return ["gold \\ predicted", *scores.labels], cells


def _details(row: "Row") -> list[str]:
    """Per class, confusion matrix, calibration and provenance of one row."""
    scores = row.scores
    classes = [
        [name, percent(c.precision), percent(c.recall), percent(c.f1), str(c.support), str(c.predicted)]
        for name, c in scores.classes.items()
    ]
    stages = [("T = 1", row.calibration.before), (f"T = {temperatures(row)}", row.calibration.after)]
    trust = [[stage, percent(c.ece, 2), f"{c.nll:.4f}", f"{c.brier:.4f}"] for stage, c in stages if c is not None]
    return [
        f"{row.n} pairs from {row.source}; {row.without_gold} dropped without gold label, {row.malformed} malformed; "
        f"fingerprint `{row.fingerprint}`. {row.parameters:,} parameters, {row.pairs_per_second:.0f} pairs/s. "
        f"Macro-F1 {percent(scores.macro_f1, 2)} {between(scores.macro_f1_interval)}; "
        f"the most frequent label alone would be right in {percent(scores.majority)} %.",
        _pipes(["label", "precision", "recall", "F1", "pairs", "predicted"], classes),
        _pipes(*confusion(row)),
        _pipes(["temperature", f"ECE, {scores.bins} bins", "NLL", "Brier"], trust),
        f"Temperature: {row.calibration.source}.",
    ]


def _mnli(report: "Report") -> list[str]:
    """Lines like "model: MNLI m/mm 84.6 / 83.4", where a model has both rows."""
    lines = []
    for model in report.models:
        parts = {}
        for row in (row for row in report.rows if row.model == model):
            name = row.data.lower()
            if "matched" in name and ("mnli" in name or "multinli" in name):
                parts["mismatched" if "mismatched" in name else "matched"] = percent(row.scores.accuracy, 2)
        if len(parts) == 2:
            lines.append(f"{model}: MNLI m/mm {parts['matched']} / {parts['mismatched']}")
    return lines


def sources(report: "Report") -> list[str]:
    """Where the temperatures come from: one line per source."""
    by_source: dict[str, dict[str, list[str]]] = {}
    for row in by_data(report):
        by_source.setdefault(row.calibration.source, {}).setdefault(row.data, []).append(row.model)
    models = {data: [row.model for row in report.rows if row.data == data] for data in report.data}
    return [
        f"T, {source}: "
        + ", ".join(data if who == models[data] else f"{data} ({', '.join(who)})" for data, who in where.items())
        for source, where in by_source.items()
    ]


def _pipes(head: list[str], cells: Cells) -> str:
    """A Markdown table; numbers to the right."""
    rule = ["---" if name in _TEXT else "---:" for name in head]
    lines = ([cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in (head, rule, *cells))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _rich(title: str, head: list[str], cells: Cells, *, sections: bool = False) -> Table:
    """A terminal table; with `sections`, a rule between data sets."""
    shown = Table(title=title or None, title_justify="left")
    for name in head:
        shown.add_column(name, justify="left" if name in _TEXT else "right", no_wrap=name not in _TEXT)
    at = head.index("data") if sections else 0
    for line, following in zip(cells, [*cells[1:], None], strict=True):
        last = sections and following is not None and following[at] != line[at]
        shown.add_row(*map(Text, line), end_section=last)  # rich would read [word] as markup
    return shown
