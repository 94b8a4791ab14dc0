"""How good the explanations of the default model are, against the targets: results/explanations.json and its figure.

    python benchmarks/explanations.py --root DATA                   # about an hour of one core; may be stopped
    python benchmarks/explanations.py --root DATA --only input      # one row; also deletion, timing, enumeration
    python benchmarks/explanations.py --root DATA --limit input=100 # more pairs of a row: only what is new is computed
    python benchmarks/explanations.py --root DATA --without-degraded # no degraded copies, fewer forward passes
    python benchmarks/explanations.py --root DATA --collect         # compute nothing, write from what there is
    python benchmarks/explanations_page.py                          # the tables of docs/explanations.md

The protocol is that of `neurogame_bench.explanations`. Its steps (a method on some pairs, all deletions of these
pairs, …) are files in runs/explanations; several processes may be started (one per core, with OMP_NUM_THREADS=1), each
takes pairs that no other is at. Methods that no target is about have fewer pairs, see LIMITS, and so have metrics
beyond AOPC and AUC; every figure says on how many it rests. The step `timing` wants a machine that has nothing else to
do.

"At least as faithful" is about the mean over the pairs; the interval of the paired difference stands beside it. A
target whose rows were not measured is neither reached nor missed.
"""

import argparse
from operator import ge, le
from pathlib import Path
from typing import Any

from common import RESULTS, progress, show
from rich.console import Console

from neurogame.explanation import METHODS
from neurogame.modeling.loading import quiet
from neurogame_bench import explanations
from neurogame_bench.explanations.cases import Work
from neurogame_bench.explanations.summary import COMPARED
from neurogame_bench.study import Study, write

RATIONALES = "rationales/esnli_entailment.jsonl.gz"  # below DATA
LIMITS = {  # pairs; the methods that targets are about have all
    "gradient": 100,
    "attention": 100,
    "occlusion": 60,
    "integrated_gradients": 60,
    "lime": 30,
    "partition": 6,
    "input": 20,
    "random": 40,
    "all words": 60,
    "hypothesis": 60,
    "lexical difference": 60,
    "gradient/marked": 100,
    "attention/marked": 100,
    "integrated_gradients/marked": 20,
    "kernelshap/marked": 30,
    "occlusion/marked": 40,
    "lime/marked": 20,
    "partition/marked": 6,
    "input/marked": 6,
    "left out": 60,
    "interactions": 40,
    "curve": 20,
    "mask": 40,
    "auc": 40,
    "pad": 40,
    "degraded": 40,
    "stability": 5,
    "timing": 5,
}
HOLDS = {"≥": ge, "≤": le}


def verdicts(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Each target with what was found: value, interval where there is one, and whether it is reached; None: unknown."""
    differences = {(d["metric"], d["row"], d["against"]): d for d in results["differences"]}
    rows = {row["row"]: row for row in results["rows"]}
    decision = rows.get("decision", {})
    time = None if decision.get("ratio") is None else {"value": decision["ratio"], "pairs": decision["timed pairs"]}
    targets = [
        (f"{metric}, {ours} − {theirs}", relation, 0.0, differences.get((metric, ours, theirs)))
        for metric, relation in (("comprehensiveness", "≥"), ("sufficiency", "≤"))
        for ours, theirs in COMPARED[metric]
        if {ours, theirs} <= rows.keys()
    ]
    targets += [
        ("seconds, decision / kernelshap", "≤", 0.02, time),
        *(
            (f"auprc, {row} − random", "≥", bound, differences.get(("auprc", row, "random")))
            for row, bound in (("game", 0.05), ("decision", 0.1), ("presence", 0.05))
            if row in rows
        ),
        (
            "interactions of input, ρ with second-order effects",
            "≥",
            0.3,
            rows.get("input", {}).get("figures", {}).get("interactions"),
        ),
        ("interactions of input, ρ with enumeration", "≥", 0.95, _enumerated(results["enumeration"])),
    ]
    people = _verdict("auprc, people − random", "≥", 0.0, differences.get(("auprc", "people", "random")))
    beside = {**people, "target": None, "reached": None, "missed by": None}  # how far people agree
    return [*(_verdict(*target) for target in targets), beside]


def _enumerated(results: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if results is None else {**results["interactions"], "pairs": results["pairs"]}


def _verdict(what: str, relation: str, target: float, figure: dict[str, Any] | None) -> dict[str, Any]:
    value, low, high, pairs = ((figure or {}).get(name) for name in ("value", "low", "high", "pairs"))
    reached = None if value is None else HOLDS[relation](value, target)
    return {
        "what": what,
        "target": f"{relation} {target:g}",
        "value": value,
        "low": low,
        "high": high,
        "pairs": pairs,
        "reached": reached,
        "missed by": abs(value - target) if reached is False and value is not None else None,
    }


def collect(study: Study, work: Work, settings: dict[str, Any], figures: Path) -> None:
    """Judge, print and store what there is; it says what is missing."""
    there = {step: explanations.stored(study, step, work.seed) for step in work.steps()}
    records = {step: record for step, record in there.items() if record is not None}
    results = explanations.collect(work, records, settings)
    Console(width=180).print(explanations.table(results))
    targets = verdicts(results)
    show("Targets", [{name: "–" if value is None else value for name, value in row.items()} for row in targets])
    explanations.figure(results, figures / f"{study.name}.png")
    passes = sum(record.get("passes", 0) for record in records.values())
    spent = {"seconds": round(sum(record["seconds"] for record in records.values()), 1), "deletion passes": passes}
    write(study.result, {**spent, "targets": targets, **results})
    progress(f"wrote {study.result}" + (f"; {len(results['missing'])} steps are missing" if results["missing"] else ""))


def main() -> None:
    """Compute what is missing, then collect."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="where the data sets are; see docs/nli.md")
    parser.add_argument("--rationales", type=Path, help=f"pairs with human highlights; default: {RATIONALES} there")
    parser.add_argument("--model", help="a folder; by default the model that comes with the package")
    parser.add_argument("--data", default="snli/dev")
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", nargs="+", default=[], metavar="NAME=N", help="fewer or more pairs than LIMITS says")
    parser.add_argument("--without-degraded", action="store_true", help="no degraded copies: fewer forward passes")
    parser.add_argument("--only", nargs="+", metavar="ROW", help="steps to compute; default: all")
    parser.add_argument("--collect", action="store_true", help="compute nothing")
    parser.add_argument("--name", default="explanations", help="of the files")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for what is kept between runs")
    parser.add_argument("--figures", type=Path, default=RESULTS.parent / "docs" / "figures")
    args = parser.parse_args()
    quiet()
    allowed = (*METHODS, "deletion", "timing", "enumeration")
    for name in args.only or ():
        if name not in allowed:
            parser.error(f"--only {name!r}; allowed: {', '.join(allowed)}")
    limits = {name: limit for name, limit in LIMITS.items() if name != "degraded" or not args.without_degraded}
    for given in args.limit:
        name, _, number = given.partition("=")
        if not number.isdecimal():
            parser.error(f"--limit {given!r}; needed: NAME=N, as in input=40")
        limits[name] = int(number)
    nli, work, settings = explanations.prepare(
        model=args.model,
        data=args.data,
        pairs=args.pairs,
        seed=args.seed,
        rationales=args.rationales or args.root / RATIONALES,
        limits=limits,
        root=args.root,
    )
    study = Study(args.name, explanations.protocol(nli, work, settings), args.out, args.runs)
    if not args.collect:
        explanations.complete(nli, work, study, only=args.only)
    collect(study, work, settings, args.figures)


if __name__ == "__main__":
    main()
