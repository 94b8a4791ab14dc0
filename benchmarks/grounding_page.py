"""The tables of docs/grounding.md, from results/grounding.json: targets, then every part of benchmarks/grounding.py.

    python benchmarks/grounding_page.py                          # seconds

They stand between two markers; the rest of the page is written by hand and stays as it is. The accuracy that the first
target is about is measured by benchmarks/ship.py.
"""

import argparse
from collections.abc import Callable, Mapping
from operator import ge, le
from pathlib import Path
from typing import Any

from common import RESULTS, progress

from neurogame_bench.grounding.enumeration import CORRELATED
from neurogame_bench.grounding.parts import PARTS
from neurogame_bench.grounding.r2 import ACCOUNTS
from neurogame_bench.grounding.refined import BUDGETS, COMPARED, METHODS
from neurogame_bench.grounding.second_order import DELTAS
from neurogame_bench.pages import pipes, update
from neurogame_bench.study import Record, read

NAME = "results/grounding.json"  # of the markers
HOLDS = {"≥": ge, "≤": le}
Figure = Mapping[str, Any]
Found = Mapping[str, Any]  # the parts of one name

# what, relation, target, factor (100: in %), and where the figure is; the accuracy comes first, see `accuracy`
TARGETS: tuple[tuple[str, str, float, float, Callable[[Found], Figure]], ...] = (
    ("R² of logits(C) on held-out coalitions", "≥", 0.88, 1, lambda p: p["r2"]["laws"]["mixed"]["about b"]["game"]),
    ("correlation of Shapley values, enumerated", "≥", 0.95, 1, lambda p: _pooled(p, "Shapley")),
    ("correlation of Banzhaf pair interactions, enumerated", "≥", 0.80, 1, lambda p: _pooled(p, "Banzhaf pairs")),
    (
        "R² that the best additive game b + Σ x_i loses",
        "≥",
        0.10,
        1,
        lambda p: p["r2"]["laws"]["mixed"]["lost from b"],
    ),
    (
        "the same if the additive account may choose its own constant instead of b",
        "≥",
        0.10,
        1,
        lambda p: p["r2"]["laws"]["mixed"]["lost without interactions"],
    ),
    *(
        (f"squared error, refined at {n} passes / KernelSHAP at {2 * n}", "≤", 1.0, 1, lambda p, n=n: _ratio(p, n))
        for n in COMPARED
    ),
    (
        "pairs whose label at most half of the words keep, %",
        "≥",
        90.0,
        100,
        lambda p: p["rationale"]["checked"]["kept, at most half"],
    ),
    ("processor time, explained without check / predicted", "≤", 1.5, 1, lambda p: p["cost"]["unchecked"]["processor"]),
)


def _pooled(parts: Found, name: str) -> Figure:
    found: Figure = parts["enumeration"]["correlations"][name]["pooled"]
    return found


def _ratio(parts: Found, passes: int) -> Figure:
    of = {"ours": "refined", "theirs": "kernelshap", "passes": passes}
    found: Figure = next(r for r in parts["refined"]["ratios"] if all(r[key] == value for key, value in of.items()))
    return found


def accuracy(whole: Record, name: str) -> Figure | None:
    """Points of SNLI dev accuracy that the grounded model has more than the shipped one; None: not known."""
    entry = whole[name]
    if entry["protocol"]["source"] == "explainer":
        return None  # which leaves the model as it is
    given = entry.get("accuracy") or whole.get("accuracy")
    if not given:
        return None
    percent = 100.0 if max(given.values()) <= 1.0 else 1.0
    return {"value": percent * (given["grounded"] - given["shipped"]), "low": None, "high": None}


# what of the results of `deleted` is a target: metric, ours, theirs, relation, bound
COMPARISONS = (
    ("comprehensiveness", "decision", "kernelshap", "≥", 0.0),
    ("sufficiency", "decision", "kernelshap", "≤", 0.0),
    ("comprehensiveness", "decision", "presence", "≥", 0.0),
    ("sufficiency", "decision", "presence", "≤", 0.0),
    ("auprc", "decision", "random", "≥", 0.10),
)
SHOWN = (
    "comprehensiveness",
    "sufficiency",
    "normalised comprehensiveness",
    "normalised sufficiency",
    "comprehensiveness, mask",
    "sufficiency, mask",
    "comprehensiveness, pad",
    "sufficiency, pad",
    "deletion auc",
    "insertion auc",
    "tau_loo",
    "auprc",
)


def deleted(name: str, folder: Path = RESULTS) -> Record | None:
    """What benchmarks/explanations.py measured for a name; None: nothing yet. "readout" is the embedded model."""
    return read(folder / ("explanations.json" if name == "readout" else f"explanations_{name}.json"))


def compared(name: str, metric: str, ours: str, theirs: str) -> Figure | None:
    """The paired difference of two methods."""
    found = deleted(name)
    wanted = (metric, ours, theirs)
    return next(
        (d for d in (found or {}).get("differences", ()) if (d["metric"], d["row"], d["against"]) == wanted), None
    )


def of_deletion(name: str) -> str:
    """Every method's figures, then whether the metrics tell a degraded copy apart."""
    found = deleted(name)
    if found is None:
        return "not measured"
    rows = []
    for row in found["rows"]:
        figures = row["figures"]
        rows.append([row["row"], *(f"{span(figures.get(m))}{_pairs(figures.get(m))}" for m in SHOWN)])
    text = pipes(["", *SHOWN], rows)
    degraded = found.get("degraded")
    if degraded:
        blind = {metric: methods for metric, methods in degraded["not told apart"].items() if methods}
        told = "; ".join(f"{metric}: {', '.join(methods)}" for metric, methods in blind.items()) or "none"
        text += f"\n\nMetrics that do not tell a method from a degraded copy of it (interval contains 0): {told}."
    return text


def _pairs(figure: Figure | None) -> str:
    return "" if figure is None or figure.get("pairs") is None else f" [{figure['pairs']}]"


def of_readouts(folder: Path = RESULTS) -> str | None:
    """The variants of the game, from benchmarks/readouts.py."""
    found = read(folder / "readouts.json")
    if found is None:
        return None
    rows = [
        [
            row["variant"],
            *(f"{number(row[f])} ± {number(row[f + '_sd'])}" for f in ("r2", "r2_about_mean", "cpu_seconds")),
        ]
        for row in found["rows"]
    ]
    used = found["settings"]
    note = (
        f"Frozen embedded model, {used['texts']} training pairs of SNLI with {used['coalitions']} coalitions each, "
        f"{used['steps']} steps, {len(used['seeds'])} seeds (± their standard deviation), {used['dev']} dev pairs."
    )
    return pipes(["", "R² about b", "about the mean", "seconds to fit"], rows) + "\n\n" + note


def targets(whole: Record, names: list[str]) -> str:
    """What was to be reached, and for each name what was found."""
    first = [cell(accuracy(whole, name), "≥", -0.5) for name in names]
    unchanged = [whole[name]["protocol"]["source"] == "explainer" for name in names]
    first = ["the model is unchanged" if same else text for same, text in zip(unchanged, first, strict=True)]
    body = [["SNLI dev accuracy against the shipped model, points", "≥ −0.5", *first]]
    for what, relation, target, factor, of in TARGETS:
        cells = []
        for name in names:
            try:
                found: Figure | None = of(whole[name]["parts"])
            except (KeyError, StopIteration):
                found = None
            cells.append(cell(found, relation, target, factor))
        body.append([what, f"{relation} {number(target)}", *cells])
    for metric, ours, theirs, relation, bound in COMPARISONS:
        cells = [cell(compared(name, metric, ours, theirs), relation, bound) for name in names]
        body.append([f"{metric}, {ours} − {theirs}", f"{relation} {number(bound)}", *cells])
    return pipes(["", "target", *names], body, left=2)


def cell(figure: Figure | None, relation: str, target: float, factor: float = 1.0) -> str:
    """A figure with its interval, and whether it reaches a target."""
    if figure is None or figure["value"] is None:
        return "not measured"
    word = "met" if HOLDS[relation](factor * figure["value"], target) else "missed"
    return f"{span(figure, factor)}, **{word}**"


def span(figure: Figure | None, factor: float = 1.0) -> str:
    """A value with its interval."""
    if figure is None or figure["value"] is None:
        return "–"
    value, low, high = (None if (x := figure[key]) is None else factor * x for key in ("value", "low", "high"))
    return number(value) + (f" ({number(low)} to {number(high)})" if low is not None else "")


def number(value: float | None) -> str:
    """.917, −.5, 93.4, 1.53."""
    if value is None:
        return "–"
    digits = 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    text = f"{value:.{digits}f}"
    if text.lstrip("-").startswith("0."):
        text = text.replace("0.", ".", 1)
    return text.replace("-", "−")


# --- parts ------------------------------------------------------------------------------------------------------------


def of_r2(found: Found) -> str:
    """Accounts by law, then the game by size."""
    laws = found["laws"]
    rows = [[name, *(span(of["about b"][name]) for of in laws.values())] for name in ACCOUNTS]
    rows.append(["game, about the mean", *(span(of["about the mean"]["game"]) for of in laws.values())])
    rows.append(["lost by the best additive", *(span(of["lost without interactions"]) for of in laws.values())])
    rows.append(["lost by the best additive from b", *(span(of["lost from b"]) for of in laws.values())])
    for k, size in enumerate(next(iter(laws.values()))["sizes"]):
        title = f"game, {100 * size['from']:.0f} to {100 * size['to']:.0f} % of the words"
        sizes = (of["sizes"][k] for of in laws.values())
        rows.append([title, *(f"{span(of)} [{of['coalitions']}]" for of in sizes)])
    head = ["R² about b, by the law of the coalitions", *laws]
    return pipes(head, rows) + "\n\nIn square brackets: coalitions of that size."


def of_enumeration(found: Found) -> str:
    """Correlations, then swing words."""
    correlations = found["correlations"]
    rows = [
        [name, span(correlations[name]["pooled"]), span(correlations[name]["mean over pairs"])] for name in CORRELATED
    ]
    low, high = found["words"]
    first = pipes([f"correlation with the true values, {low} to {high} words", "pooled", "mean over pairs"], rows)
    swing = [
        [name, *(str(of[key]) for key in ("right", "named", "true")), span(of["precision"]), span(of["recall"])]
        for name, of in found["swing"].items()
    ]
    return f"{first}\n\n{pipes(['swing words', 'right', 'named', 'true', 'precision', 'recall'], swing)}"


def of_refined(found: Found) -> str:
    """Squared errors by passes, then ratios."""
    errors, own = found["errors"], found["reference"]
    columns = [str(n) for budget in BUDGETS.values() for n in budget]
    count = {n: next((errors[name][n]["pairs"] for name in METHODS if n in errors[name]), 0) for n in columns}
    rows = [[name, *(span(errors[name].get(n), 1000.0) for n in columns)] for name in METHODS]
    rows.append(["game, one pass", span(errors["game"]["1"], 1000.0), *[""] * (len(columns) - 1)])
    first = pipes(["squared error, 10⁻³", *(f"{n} passes [{count[n]}]" for n in columns)], rows)
    ratios = [
        [f"{of['ours']} at {of['passes']} / {of['theirs']} at {of['their passes']}", span(of), str(of["pairs"])]
        for of in found["ratios"]
    ]
    about = (
        f"Mean over the words of a pair, then over pairs [how many]. True values: `input` with {own['passes']} passes, "
        f"{own['enumerated pairs']} pairs enumerated; their own error {span(own['squared error'], 1000.0)} · 10⁻³, "
        f"mean square of the values {span(own['mean square of the values'])}."
    )
    return f"{first}\n\n{about}\n\n{pipes(['ratio of squared errors', '', 'pairs'], ratios)}"


def of_rationale(found: Found) -> str:
    """Unchecked and checked."""
    columns = list(found["checked"])
    rows = [[name, *(span(found[name][column]) for column in columns)] for name in ("unchecked", "checked")]
    return pipes(["rationale", *columns], rows)


def of_cost(found: Found) -> str:
    """Ratios to the prediction."""
    rows = [
        [
            name,
            span(found[name]["processor"]),
            span(found[name]["wall"]),
            f"{1000 * found['processor seconds'][name]:.0f}",
        ]
        for name in ("unchecked", "checked")
    ]
    predicted = f"{1000 * found['processor seconds']['predict']:.0f}"
    head = ["explained / predicted, in turn in one run, median", "processor time", "wall time", "milliseconds"]
    return pipes(head, [*rows, ["predicted", "1", "1", predicted]])


def of_second_order(found: Found) -> str:
    """Mean ρ over pairs."""
    names = {"J": "J of the game", "Δ": "Δ of the game at the whole text"}
    rows = [[names[of], *(span(found[what][of]) for what in ("probability", "logit"))] for of in DELTAS]
    return pipes(["ρ with the model's Δ at the whole text", "of the probability", "of the logit"], rows)


def of_claims(found: Found) -> str:
    """One row each."""
    rows = [
        [
            of["claim"],
            of["what"],
            str(of["n"]),
            span(of["difference"]),
            span(of.get("mean")),
            span(of.get("others")),
            of["found"],
        ]
        for of in found["claims"]
    ]
    return pipes(["claim", "what", "pairs", "difference or ρ", "own", "others", ""], rows, left=2)


def of_phrases(found: Found) -> str:
    """Each modifier with its adjective, and what other words have."""
    lines = {**found["modifiers"], "neighbours": found["neighbours"], "any two words": found["all"]}
    rows = [[name, span(of), str(of["negative"]), str(of["positive"])] for name, of in lines.items()]
    head = ["words", "J / mean abs. J, predicted label", "adjectives below 0", "above 0"]
    return pipes(head, rows) + f"\n\nJ(not, good) < 0 and J(very, good) > 0: {found['found']}."


SECTIONS: dict[str, tuple[str, Callable[[Found], str]]] = {
    "r2": ("What the game predicts", of_r2),
    "enumeration": ("Against enumeration", of_enumeration),
    "refined": ("Refined", of_refined),
    "rationale": ("Rationales", of_rationale),
    "cost": ("Cost", of_cost),
    "second_order": ("Second-order effects", of_second_order),
    "claims": ("The paper's claims", of_claims),
    "phrases": ("“not good” and “very good”", of_phrases),
}


def _drawn(part: str, entry: Record) -> str:
    """What the rows of a part are of."""
    return "sentences of neurogame_bench/phrases.py" if part == "phrases" else f"pairs of {entry['protocol']['data']}"


def tables(whole: Record) -> str:
    """Everything between the markers."""
    names = [name for name, entry in whole.items() if isinstance(entry, dict) and "parts" in entry]
    blocks = ["### Targets", targets(whole, names)]
    blocks.append("In brackets 95 % intervals, bootstrapped over pairs. A target is met or missed by the value itself.")
    for part in PARTS:
        title, render = SECTIONS[part]
        there = [name for name in names if part in whole[name]["parts"]]
        blocks += [f"### {title}"] * bool(there)
        for name in there:
            found = whole[name]["parts"][part]
            blocks += [f"**{name}**, {found['pairs']} {_drawn(part, whole[name])}:", render(found)]
    blocks.append("### By deletion")
    for name in names:
        blocks += [f"**{name}**, pairs in square brackets:", of_deletion(name)]
    variants = of_readouts()
    if variants is not None:
        blocks += ["### Where the spins stand, and other variants", variants]
    return "\n\n".join(blocks)


def _accuracy(path: Path) -> float:
    """On SNLI dev, in what benchmarks/ship.py wrote."""
    rows = (read(path) or {}).get("evaluation", {}).get("rows", ())
    return next(float(row["scores"]["accuracy"]) for row in rows if row["data"] == "snli/dev")


def main() -> None:
    """Read, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS / "grounding.json")
    parser.add_argument("--page", type=Path, default=RESULTS.parent / "docs" / "grounding.md")
    args = parser.parse_args()
    whole = read(args.results)
    if whole is None:
        raise SystemExit(f"no {args.results}; benchmarks/grounding.py measures it")
    before, after = (args.results.with_name(f"{name}.json") for name in ("embedded_before", "embedded"))
    if before.exists() and after.exists():
        whole["accuracy"] = {"shipped": _accuracy(before), "grounded": _accuracy(after)}  # of entries without their own
    update(args.page, tables(whole), NAME)
    progress(f"wrote the tables of {args.page}")


if __name__ == "__main__":
    main()
