"""docs/results.md and its figures, from results/*.json: tables, and prose whose verdicts follow from the numbers.

    python benchmarks/results_page.py                               # seconds; docs/results.md, docs/figures/*.png
    python benchmarks/results_page.py --results DIR --docs DIR      # from and to other folders
    python benchmarks/results_page.py --partial                     # leave out what has not been measured

Nothing is typed in by hand: to change a sentence, change its template in results_text.py; to change a number, run what
measures it.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Any

import results_figures as draw
from common import RESULTS, progress
from results_text import ABLATIONS, ALIKE, CLAIMS, END, GROUPS, INSIDE, INTRO, OOD, SETS, TABLE

from neurogame.evaluation import Report, figures
from neurogame_bench.effects import FEW, NOTHING
from neurogame_bench.intervals import Interval
from neurogame_bench.pages import pipes
from neurogame_bench.study import Record, read

NEEDED = {
    "table": "benchmarks/table.py",
    "ablations": "benchmarks/ablations.py",
    "ood": "benchmarks/ood.py",
    "claims": "benchmarks/claims.py",
    "embedded": "benchmarks/ship.py",
    "self_attention": "benchmarks/self_attention.py",
}


# --- cells --------------------------------------------------------------------------------------------------------


def accuracy(found: Record, digits: int = 1) -> str:
    """Mean ± standard deviation, in %."""
    sd = "" if found["sd"] is None else f" ± {100 * found['sd']:.{digits}f}"
    return f"{100 * found['mean']:.{digits}f}{sd}"


def interval(bounds: Interval | None, digits: int = 1) -> str:
    """[−1.2, +0.3], in points."""
    return "" if bounds is None else f"[{100 * bounds[0]:+.{digits}f}, {100 * bounds[1]:+.{digits}f}]"


def difference(found: Record | None, digits: int = 1) -> str:
    """A paired difference with its interval over seeds, in points."""
    return (
        "–" if found is None else f"{100 * found['difference']:+.{digits}f} {interval(found['seeds'], digits)}".strip()
    )


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1] if names else "none"


def quoted(names: Sequence[str]) -> str:
    """Names of rows, some of which have a comma."""
    return listed([f"`{name}`" for name in names])


def wrapped(text: str) -> str:
    """Paragraphs filled to the width of the other pages; tables, headings, figures and commands stay."""
    filled = [
        block
        if block.lstrip("\n").startswith(("|", "#", "!", "    ", "<!--", "```"))
        else fill(block, 119, break_long_words=False, break_on_hyphens=False)
        for block in text.split("\n\n")
    ]
    return "\n\n".join(filled)


def seeds_of(runs: Sequence[Record]) -> str:
    """How many seeds, and which; and the rows that have fewer."""
    by_row: dict[str, set[int]] = {}
    for run in runs:
        by_row.setdefault(run["row"], set()).add(run["seed"])
    every = sorted(set().union(*by_row.values()))
    fewer: dict[tuple[int, ...], list[str]] = {}
    for row, own in by_row.items():
        if len(own) < len(every):
            fewer.setdefault(tuple(sorted(own)), []).append(row)
    listing = f"{_seeds(every)} ({', '.join(map(str, every))})"
    return listing + "".join(f", {_seeds(own)} for {quoted(rows)}" for own, rows in fewer.items())


def _seeds(found: Sequence[int]) -> str:
    return f"{len(found)} seed{'s' if len(found) > 1 else ''}"


def effects(rows: Sequence[Record], of: str | None = None) -> dict[str, list[str]]:
    """Names of rows by what they do to accuracy."""
    found: dict[str, list[str]] = {"lowers accuracy": [], "raises accuracy": [], NOTHING: [], FEW: []}
    for row in rows:
        gap = (row[of] if of else row)["difference"]
        if gap is not None:
            found[gap["effect"]].append(row["name"])
    return found


def said(found: dict[str, list[str]], base: str) -> str:
    """Which rows are measurably better, worse, or neither."""
    words = {
        "lowers accuracy": f"Measurably below {base}",
        "raises accuracy": f"Measurably above {base}",
        NOTHING: "No measurable difference",
        FEW: "Too few seeds to say",
    }
    return " ".join(f"{words[effect]}: {quoted(names)}." for effect, names in found.items() if names)


# --- sections -------------------------------------------------------------------------------------------------------


def section_table(stored: Record, default: Report | None) -> str:
    """The paper's rows, then ours."""
    protocol, by_name = stored["protocol"], {row["name"]: row for row in stored["rows"]}
    sets = list(protocol["sets"])
    paper = []
    for row in stored["paper"]:
        ours = [by_name[name] for name in row["ours"] if name in by_name]
        for place, one in enumerate(ours or [None]):
            lead = [row["model"], row["parameters"]] if place == 0 else ["", ""]
            here = [one["name"] if one else f"`{row['command']}`"]
            cells: list[str] = []
            for k, data in enumerate(sets):
                cells += [f"{row['paper'][k]:.2f}", row["published"][k] or "–"] if place == 0 else ["", ""]
                cells.append(accuracy(one[data]) if one else "–")
            paper.append([*lead, *cells, *here])
    if default is not None:
        found = {row.data: row.scores.accuracy for row in default.rows}
        cells = [cell for data in sets for cell in ("", "", f"{100 * found[data]:.1f}" if data in found else "–")]
        paper.append(["", "", *cells, "the default model, see [training](training.md)"])
    head = ["model", "parameters"]
    head += [f"{SETS[data]}, {what}" for data in sets for what in ("paper", "published", "here")]
    rows = [row for row in stored["rows"] if row["group"] == "table"]
    lines = [
        [
            row["name"],
            f"{row['parameters'] / 1e6:.1f}M",
            f"{row['pairs_seen']:,}",
            f"{row['minutes']:.1f}",
            *(cell for data in sets for cell in (accuracy(row[data]), difference(row[data]["difference"]))),
        ]
        for row in rows
    ]
    bert = next(row for row in stored["paper"] if row["model"] == "BERT-base")
    return TABLE.format(
        pairs=protocol["pairs"],
        train=protocol["train"],
        encoder=protocol["encoder"],
        seeds=seeds_of(stored["runs"]),
        sizes=listed([f"{of['pairs']:,} pairs of {SETS[data]}" for data, of in protocol["sets"].items()]),
        paper=pipes([*head, "row, or command elsewhere"], paper, left=2),
        bert=float(bert["published"][0].split()[0]) - bert["paper"][0],
        minutes=stored["seconds"] / 60,
        rows=pipes(
            ["row", "parameters", "pairs seen", "minutes", *(c for d in sets for c in (SETS[d], "difference"))], lines
        ),
        verdict=" ".join(
            f"On {SETS[data]}: {said(effects(rows, data), 'the default NeuroGame head')}" for data in sets
        ),
    )


def section_ablations(stored: Record, table: Record | None) -> str:
    """Frozen features, then end to end."""
    protocol, rows = stored["protocol"], stored["rows"]
    lines = []
    for group, title in GROUPS.items():
        own = [row for row in rows if row["group"] == group]
        lines += [[f"**{title}**", "", "", "", "", ""]] if own else []
        for row in own:
            gap = row["difference"]
            pairs = "" if gap is None else interval(gap["pairs"], 2)
            effect = "" if gap is None else gap["effect"]
            lines.append(
                [row["name"], accuracy(row, 2), difference(gap, 2), pairs, effect, f"{row['processor_seconds']:.0f}"]
            )
    gaps = [row["difference"]["seeds"] for row in rows if row["difference"] and row["difference"]["seeds"]]
    seen = median((high - low) / 2 for low, high in gaps) if gaps else 0.0
    better = effects(rows)["raises accuracy"]
    kinds: dict[str, tuple[str, ...]] = {
        "Parts of the mechanism": tuple(group for group in GROUPS if group not in ("heads", "preset")),
        "Other heads and the paper's preset": ("heads", "preset"),
    }
    verdict = [
        f"**{kind}.** {said(effects([row for row in rows if row['group'] in of]), 'the default')}"
        for kind, of in kinds.items()
    ]
    verdict.append(
        f"**A better default?** By these figures {quoted(better)}; the model is retrained before the default changes."
        if better
        else "**A better default?** Nothing tried here is measurably better."
    )
    end, end_verdict = "*Not measured.*", ""
    if table is not None:
        data = next(iter(table["protocol"]["sets"]))
        names = ("neurogame", "neurogame, paper preset", "no couplings", "no fields")
        own = [row for row in table["rows"] if row["name"] in names]
        cells = [
            [row["name"], accuracy(row[data]), difference(row[data]["difference"]), _effect(row[data])] for row in own
        ]
        end = pipes(["row", SETS[data], "difference [95 %, seeds]", "effect"], cells)
        end_verdict = said(effects(own, data), "the default")
    epochs = protocol["epochs"]
    return ABLATIONS.format(
        train_pairs=protocol["train_pairs"],
        dev_pairs=protocol["dev_pairs"],
        encoder=protocol["encoder"],
        epochs="one pass" if epochs == 1 else f"{epochs} passes",
        seeds=seeds_of(stored["runs"]),
        seen=100 * seen,
        count=sum(row["difference"] is not None for row in rows),
        rows=pipes(["row", "accuracy", "difference [95 %, seeds]", "[95 %, pairs]", "effect", "s/run"], lines),
        verdict="\n\n".join(verdict),
        end_to_end=end,
        end_verdict=end_verdict,
    )


def _effect(found: Record) -> str:
    return "" if found["difference"] is None else str(found["difference"]["effect"])


def section_default(report: Report) -> str:
    """The embedded model on whole sets."""
    lines = []
    for row in report.rows:
        if row.data in SETS:
            before, after = row.calibration.before, row.calibration.after
            scaled = "–" if after is None else f"{100 * after.ece:.1f}"
            low, high = row.scores.interval
            score = f"{100 * row.scores.accuracy:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
            lines.append(
                [
                    SETS[row.data],
                    f"{row.n:,}",
                    score,
                    f"{100 * row.scores.macro_f1:.1f}",
                    f"{100 * before.ece:.1f} → {scaled}",
                ]
            )
    groups = [
        [*map(str, group.key.values()), f"{group.n:,}", f"{100 * group.accuracy:.1f}"]
        for row in report.rows
        if row.data.startswith("hans")
        for group in next(iter(row.groups.values()), ())
    ]
    return OOD.format(
        bins=report.rows[0].scores.bins,
        default=pipes(["set", "pairs", "accuracy [95 %]", "macro-F1", "ECE"], lines),
        hans=pipes(["heuristic", "label", "pairs", "accuracy"], groups, left=2),
    )


def section_alike(stored: Record) -> str:
    """NeuroGame, `cls` and `mean` out of domain."""
    rows = stored["rows"]
    lines = []
    for row in sorted(rows, key=lambda row: list(stored["protocol"]["sets"]).index(row["data"])):
        scaled = "–" if row["ece_scaled"] is None else f"{100 * row['ece_scaled']['mean']:.1f}"
        lines.append(
            [
                SETS.get(row["data"], row["data"]),
                row["name"],
                f"{row['pairs']:,}",
                accuracy(row),
                difference(row["difference"]),
                f"{100 * row['ece']['mean']:.1f} → {scaled}",
            ]
        )
    of_hans = [row for row in rows if row["data"].startswith("hans")]
    title = next(iter(of_hans[0]["groups"]))
    cells = []
    for k, group in enumerate(of_hans[0]["groups"][title]):
        found = [accuracy(row["groups"][title][k]) for row in of_hans]
        cells.append([group["heuristic"], group["label"], f"{group['n']:,}", *found])
    names = list(dict.fromkeys(row["data"] for row in rows))
    verdict = " ".join(
        f"{SETS.get(name, name)}: {said(effects([row for row in rows if row['data'] == name]), 'NeuroGame')}"
        for name in names
    )
    return ALIKE.format(
        seeds=seeds_of(stored["runs"]),
        rows=pipes(["set", "head", "pairs", "accuracy", "difference", "ECE"], lines, left=2),
        hans=pipes(["heuristic", "label", "pairs", *(row["name"] for row in of_hans)], cells, left=2),
        verdict=verdict,
    )


def claims_of_shipped(parts: Record) -> str:
    """The claims on the game of the model that ships, as benchmarks/grounding.py found them."""
    words = parts["phrases"]
    both = ", ".join(f"{name} {_span(words['modifiers'][name])}" for name in ("not", "very"))
    unit = "in units of the mean |J| of the sentences; predicted label"
    lines = [["J(not, good) < 0 and J(very, good) > 0", unit, both, str(words["pairs"]), f"**{words['found']}**"]]
    lines += [
        [of["claim"], of["what"], _span(of["difference"]), str(of["n"]), f"**{of['found']}**"]
        for of in parts["claims"]["claims"]
    ]
    return pipes(["claim", "measured", "found", "pairs", ""], lines, left=3)


def _span(of: Record) -> str:
    """A value with its interval, three digits."""
    if of["value"] is None:
        return "–"
    return f"{of['value']:+.3f} [{of['low']:+.3f}, {of['high']:+.3f}]"


def section_claims(stored: Record, shipped: Record) -> str:
    """Every claim with its number and verdict."""
    entries = [entry for run in stored["runs"] for entry in run["claims"]]
    lines = [[of["says"], of["number"], f"**{of['verdict'] or 'not measured'}**", of["rule"]] for of in entries]
    count = {word: sum(of["verdict"] == word for of in entries) for word in ("holds", "does not hold", NOTHING, None)}
    details = next((of for of in entries if "modifiers" in of), None)
    return CLAIMS.format(
        shipped=claims_of_shipped(shipped["parts"]),
        pairs=shipped["parts"]["claims"]["pairs"],
        data=shipped["protocol"]["data"],
        sentences=shipped["parts"]["phrases"]["pairs"],
        model="the first model that shipped, whose game was not grounded"
        if stored["protocol"]["model"] == "embedded"
        else f"`{stored['protocol']['model']}`",
        also=" and, where heads are compared, on the models of the table",
        rows=pipes(["the paper says", "found", "verdict", "rule"], lines, left=4),
        count=len(entries),
        holds=count["holds"],
        fails=count["does not hold"],
        nothing=count[NOTHING],
        unmeasured=f", {count[None]} could not be measured" if count[None] else "",
        phrases="" if details is None else _phrases(details),
    )


def _phrases(details: Record) -> str:
    """The couplings of each modifier, beside those of any two words."""
    cells = []
    for word, of in details["modifiers"].items():
        low, high = of["interval"]
        signs = [str(of["negative"]), str(of["positive"]), f"{of['p']:.2g}"]
        cells.append([word, f"{of['mean']:+.2f} [{low:+.2f}, {high:+.2f}]", *signs])
    table = pipes(["modifier", "J_ij with its adjective", "adjectives below 0", "above 0", "p (sign test)"], cells)
    contrast = details["contrast"]
    return (
        f"Couplings of modifiers with their adjectives ({details['adjectives']} adjectives, {details['sentences']} "
        f"sentences of benchmarks/phrases.py), in units of the mean |J_ij| of the sentences:\n\n{table}\n\n"
        f"For comparison: any two words {details['all_pairs']:+.2f}, neighbours {details['neighbours']:+.2f}. A sign "
        "says little where all couplings lean to one side; what tells the two apart is the difference not − very: "
        f"{contrast['difference']:+.2f} [{contrast['interval'][0]:+.2f}, {contrast['interval'][1]:+.2f}]."
    )


def section_inside(stored: Record) -> str:
    """Transformers with one attention or another."""
    rows, settings = stored["rows"], stored["protocol"]["tasks"]
    cells, lengths, verdict = [], [], []
    for task, setting in settings.items():
        own = [row for row in rows if row["task"] == task]
        for row in own:
            omega = "" if row["strength"] is None else f"{row['strength'][0]:+.2f} … {row['strength'][1]:+.2f}"
            gaps = [_gap(row, other) if row["attention"] != other else "" for other in ("softmax", "values")]
            count = f"{row['parameters']:,}"
            cells.append([row["task"], row["attention"], accuracy(row), *gaps, omega, count])
            if setting["lengths"]:
                lengths.append([task, row["attention"], *(f"{100 * x:.1f}" for x in row["lengths"].values())])
        told = [_apart(own, other) for other in ("softmax", "values")]
        verdict.append(f"`{task}`: {'; '.join(t for t in told if t) or 'none'}.")
    tested = next(setting["lengths"] for setting in settings.values() if setting["lengths"])
    one, fragments = next(iter(settings.values())), [row for row in rows if row["task"] == "fragments"]
    held = list(fragments[0]["held"]) if fragments else []
    by_held = [[row["attention"], *(f"{100 * row['held'][kind]:.1f}" for kind in held)] for row in fragments]
    head = ["task", "attention", "accuracy", "less softmax [95 %]", "less `values` [95 %]", "ω", "parameters"]
    return INSIDE.format(
        width=one["width"],
        heads=one["heads"],
        faster=f"{stored['protocol']['faster']:.0f}",
        seeds=seeds_of(stored["runs"]),
        least=min(setting["steps"] for setting in settings.values()),
        most=max(setting["steps"] for setting in settings.values()),
        rows=pipes(head, cells, left=2),
        verdict="Differences whose interval excludes 0. " + " ".join(verdict),
        first=tested[0],
        lengths=pipes(["task", "attention", *(f"n = {n}" for n in tested)], lengths, left=2),
        held=pipes(["attention", *held], by_held),
        snli=settings["snli"]["pairs"],
    )


def _gap(row: Record, other: str) -> str:
    """The difference to another attention, with its interval."""
    gap = row["differences"].get(other)
    return "" if gap is None else f"{100 * gap['value']:+.1f} {interval(gap['interval'])}".strip()


def _apart(rows: Sequence[Record], other: str) -> str:
    """Which attentions are measurably above and below another."""
    sides: dict[str, list[str]] = {"above": [], "below": []}
    for row in rows:
        gap = row["differences"].get(other)
        if gap and gap["interval"] and not gap["interval"][0] <= 0 <= gap["interval"][1]:
            sides["above" if gap["value"] > 0 else "below"].append(row["attention"])
    return " and ".join(f"{quoted(names)} {side} `{other}`" for side, names in sides.items() if names)


def section_end(parts: dict[str, Record]) -> str:
    """Wall time and machine of each part."""
    lines = []
    for name, of in parts.items():
        on = of["machine"]
        lines.append(
            [f"results/{name}.json", NEEDED[name], f"{of['seconds'] / 60:.0f}", f"{on['processor']}", f"{on['torch']}"]
        )
    table = pipes(["file", "written by", "minutes, summed over runs", "processor", "torch"], lines, left=2)
    return END.format(cost=table)


# --- figures and page -------------------------------------------------------------------------------------------------


def drawn(parts: dict[str, Record], default: Report | None, folder: Path) -> None:
    """Every figure that the parts at hand allow."""
    folder.mkdir(parents=True, exist_ok=True)
    if "table" in parts:
        draw.accuracy(parts["table"], SETS, folder / "results-accuracy.png")
    if "ablations" in parts:
        draw.ablations(parts["ablations"]["rows"], folder / "results-ablations.png")
    if "claims" in parts:
        draw.iterations(parts["claims"], folder / "results-iterations.png")
    if default is not None:
        matrices = [row for row in default.rows if row.data in ("snli/test", "mnli/matched", "hans/test")]
        figures.confusion(matrices or default, folder / "results-confusion.png")
        figures.reliability([row for row in default.rows if row.data in SETS], folder / "results-reliability.png")


def page(parts: dict[str, Record], default: Report | None, grounded: Record | None) -> str:
    """The text."""
    sections = [INTRO]
    missing = [NEEDED[name] for name in NEEDED if name not in parts]
    if missing:
        sections.append(f"**Not measured yet:** what {listed([f'`{command}`' for command in missing])} would find.\n")
    if "table" in parts:
        sections.append(section_table(parts["table"], default))
    if "ablations" in parts:
        sections.append(section_ablations(parts["ablations"], parts.get("table")))
    if default is not None:
        sections.append(section_default(default))
    if "ood" in parts:
        sections.append(section_alike(parts["ood"]))
    if "claims" in parts and grounded is not None:
        sections.append(section_claims(parts["claims"], grounded["readout"]))
    if "self_attention" in parts:
        sections.append(section_inside(parts["self_attention"]))
    return wrapped("\n".join([*sections, section_end(parts)])).rstrip() + "\n"


def main() -> None:
    """Read, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--docs", type=Path, default=RESULTS.parent / "docs")
    parser.add_argument("--partial", action="store_true", help="leave out what has not been measured")
    args = parser.parse_args()
    found: dict[str, Any] = {name: read(args.results / f"{name}.json") for name in NEEDED}
    missing = [name for name, stored in found.items() if stored is None]
    if missing and not args.partial:
        raise SystemExit(f"{args.results / missing[0]}.json is missing: {NEEDED[missing[0]]} writes it (or --partial)")
    parts = {name: stored for name, stored in found.items() if stored is not None}
    default = Report.from_dict(parts["embedded"]["evaluation"]) if "embedded" in parts else None
    drawn(parts, default, args.docs / "figures")
    grounded = read(args.results / "grounding.json")
    (args.docs / "results.md").write_text(page(parts, default, grounded), encoding="utf-8")
    progress(f"wrote {args.docs / 'results.md'}" + (f", without {', '.join(missing)}" if missing else ""))


if __name__ == "__main__":
    main()
