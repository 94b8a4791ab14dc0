"""How a report reads: tables for the terminal and for Markdown, from the same cells. The numbers come from `report`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group as Together
from rich.console import RenderableType
from rich.table import Table

from neurogame.evaluation.alignment import ordered
from neurogame.labels import LABELS

if TYPE_CHECKING:
    from neurogame.evaluation.report import Report, Row

NONE = "–"
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


def class_names(report: "Report") -> tuple[str, ...]:
    """The labels that need a column: those of any row."""
    return ordered({name for row in report.rows for name in row.scores.labels})


def p_value(p: float) -> str:
    """Two digits; tiny values as a bound."""
    return "< 1e-6" if p < 1e-6 else f"{p:.2g}"


def temperatures(row: "Row") -> str:
    """T of a row's calibration; two where it was cross-fitted."""
    return " ".join(f"{T:.2f}" for T in row.calibration.temperatures) or NONE


def overview(report: "Report") -> tuple[list[str], Cells]:
    """One line per model and data set."""
    names = class_names(report)
    head = ["model", "data", "pairs", "accuracy [95 %]", "macro-F1", *(f"F1 {_short(name)}" for name in names)]
    head += ["ECE → scaled", "T", "NLL"]
    cells = []
    for row in by_data(report):
        scores, after = row.scores, row.calibration.after
        f1 = [percent(scores.classes[name].f1) if _has(row, name) else NONE for name in names]
        cells.append(
            [
                row.model,
                row.data,
                str(row.n),
                f"{percent(scores.accuracy, 2)} {between(scores.interval)}",
                percent(scores.macro_f1),
                *f1,
                f"{percent(scores.ece)} → {NONE if after is None else percent(after.ece)}",
                temperatures(row),
                f"{scores.nll:.3f}",
            ]
        )
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
            p_value(c.mcnemar.p_value),
            c.mcnemar.test,
        ]
        for row in by_data(report)
        for c in row.comparisons
    ]
    return head, cells


def groups(report: "Report", data: str, title: str) -> tuple[list[str], Cells]:
    """One line per group of one breakdown of one data set, one column per model."""
    rows = [row for row in report.rows if row.data == data and row.groups.get(title)]
    first = rows[0].groups[title]
    cells = []
    for place, group in enumerate(first):
        cell = [row.groups[title][place] for row in rows]
        cells.append(
            [*group.key.values(), str(group.n), *(f"{percent(g.accuracy)} {between(g.interval)}" for g in cell)]
        )
    return [*first[0].key, "pairs", *(row.model for row in rows)], cells


def breakdowns(report: "Report") -> list[tuple[str, str]]:
    """Data set and title of every breakdown in a report."""
    titles = ((row.data, title) for row in by_data(report) for title, groups in row.groups.items() if groups)
    return list(dict.fromkeys(titles))


def note(report: "Report") -> str:
    """What the overview's columns mean."""
    bins = sorted({row.scores.bins for row in report.rows})
    resamples = sorted({row.scores.resamples for row in report.rows})
    return (
        f"Percent, except NLL. Intervals: percentile bootstrap, {_listed(resamples)} resamples. "
        f"ECE: {_listed(bins)} bins of equal width, before → after the logits are divided by T; NLL before. "
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
        parts = {_mnli_part(row.data): row.scores.accuracy for row in report.rows if row.model == model}
        if "matched" in parts and "mismatched" in parts:
            lines.append(f"{model}: MNLI m/mm {percent(parts['matched'], 2)} / {percent(parts['mismatched'], 2)}")
    return lines


def _mnli_part(data: str) -> str | None:
    """Which part of MNLI a data set's name says it is."""
    lowered = data.lower()
    if "mnli" not in lowered and "multinli" not in lowered:
        return None
    return next((part for part in ("mismatched", "matched") if part in lowered), None)


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


def _has(row: "Row", name: str) -> bool:
    """Whether the F1 of a label means something: it is a gold label of some pair."""
    return name in row.scores.classes and row.scores.classes[name].support > 0


def _short(name: str) -> str:
    return {LABELS[0]: "ent.", LABELS[1]: "neut.", LABELS[2]: "contr.", "non-entailment": "non-ent."}.get(name, name)


def _listed(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers))


_TEXT = {"model", "data", "against", "test", "label", "heuristic", "round", "gold \\ predicted", "temperature"}


def _pipes(head: list[str], cells: Cells) -> str:
    """A Markdown table; numbers to the right."""
    rule = ["---" if name in _TEXT else "---:" for name in head]
    return "\n".join("| " + " | ".join(_escaped(cell) for cell in line) + " |" for line in (head, rule, *cells))


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


def _rich(title: str, head: list[str], cells: Cells, *, sections: bool = False) -> Table:
    """A terminal table; with `sections`, a rule between data sets."""
    shown = Table(title=title or None, title_justify="left")
    for name in head:
        shown.add_column(name, justify="left" if name in _TEXT else "right", no_wrap=name not in _TEXT)
    at = head.index("data") if sections else 0
    for line, following in zip(cells, [*cells[1:], None], strict=True):
        last = sections and following is not None and following[at] != line[at]
        shown.add_row(*(_literal(cell) for cell in line), end_section=last)
    return shown


def _literal(cell: str) -> str:
    """rich reads [word] as markup; intervals and names are not."""
    return cell.replace("[", "\\[")
