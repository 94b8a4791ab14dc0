"""The paper's claims put to the test on trained models: for each a number with an interval, and a verdict by a rule.

    python benchmarks/claims.py --root DATA                      # about 10 minutes on two cores; results/claims.json
    python benchmarks/claims.py --root DATA --only phrases       # one group of claims: phrases, dev, decision, …

The model is the embedded one (or --model). Claims that compare heads at the same budget take the models of
benchmarks/table.py in runs/table and the figures in table.json and ood.json. What is compared with what:

    phrases      J_ij of "not good" and "very good" in sentences of benchmarks/phrases.py
    dev          on SNLI dev: Banzhaf against Shapley ranks, |J_ij| of neutral pairs, Σα and complexity, convergence
    decision     Banzhaf against Shapley ranks in the game of the decision; swing words
    negation     α of negation words against softmax pooling, models trained alike
    paper        convergence of the paper's preset, trained alike
    budget       neutral recall and HANS against `cls` and `mean`, trained alike
    overhead     parameters and time

Rules. A claim about the sign of an effect holds if its 95 % interval lies on the claimed side of 0, does not hold if
it lies on the other, and has no measurable effect if it contains 0. Intervals are bootstrapped over what was
drawn: adjectives, or pairs of sentences; those over models trained with several seeds are t-intervals. A claim about a
quantity states its threshold.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import arguments, show
from layer_claims import between, claim, of_convergence, of_decision, of_dev, of_phrases
from observe import observe
from transformers import BertConfig

import neurogame
from neurogame import embedded
from neurogame.data import PairDataset
from neurogame.data import load as load_pairs
from neurogame.evaluation.alignment import Array
from neurogame.labels import LABELS
from neurogame.modeling import NeuroGameConfig, NeuroGameForSequenceClassification
from neurogame.modeling.loading import quiet
from neurogame.modeling.model import overhead as head_parameters
from neurogame.nli import NLI
from neurogame_bench.effects import FAILS, HOLDS, RESAMPLES, bootstrap, t_interval, together, verdict
from neurogame_bench.phrases import is_negation
from neurogame_bench.study import Record, Study, Task, chosen, read, slug

CHEAP = ("budget", "overhead")  # they only read results, which may be new: never kept
ALIKE = ("negation", "paper")  # need models of the table; kept once those were there


def of_negation(ours: dict[int, NLI], softmax: dict[int, NLI], dev: PairDataset) -> list[Record]:
    """log(α of a negation word/mean α of the words) in NeuroGame models minus the same in softmax pooling, by seed."""
    name = "negation words get more weight"
    says = "attention by contribution weights negation words higher than softmax does"
    rule = "mean log ratio of weights, NeuroGame minus softmax pooling trained alike, > 0 over pairs for every seed"
    pairs = [pair for pair in dev if any(map(is_negation, f"{pair.premise} {pair.hypothesis}".split()))]
    seeds = sorted(set(ours) & set(softmax))
    if len(pairs) < 2 or not seeds:
        lacking = "no models trained alike; benchmarks/table.py" if not seeds else "no pair has a negation word"
        return [claim(name, says, None, f"not measured: {lacking}", rule)]
    ratios = {kind: [_emphasis(of[seed], pairs) for seed in seeds] for kind, of in (("own", ours), ("soft", softmax))}
    gaps = [own - soft for own, soft in zip(ratios["own"], ratios["soft"], strict=True)]
    parts: list[Record] = [{"difference": float(values.mean()), "interval": bootstrap(values)} for values in gaps]
    means = {kind: [float(np.exp(of.mean())) for of in found] for kind, found in ratios.items()}
    own, soft = (", ".join(f"{value:.2f}" for value in means[kind]) for kind in ("own", "soft"))
    return [
        claim(
            name,
            says,
            together(verdict(part["interval"], +1) for part in parts),
            f"weight over mean weight {own} (NeuroGame) against {soft} (softmax), by seed",
            rule,
            by_seed=parts,
            ratios=means,
            pairs=len(pairs),
        )
    ]


def _emphasis(nli: NLI, pairs: Sequence[Any]) -> Array:
    """log(mean α of the negation words/mean α of all words), one number per pair."""
    found = np.empty(len(pairs))
    for i, seen in observe(nli, [(pair.premise, pair.hypothesis) for pair in pairs]):
        marked = np.array([is_negation(word) for word in seen.words])
        if not marked.any():  # cut off
            found[i] = 0.0
            continue
        found[i] = np.log(max(float(seen.alpha[marked].mean()), 1e-12) / max(float(seen.alpha.mean()), 1e-12))
    return found


def of_budget(out: Path) -> list[Record]:
    """Neutral recall on SNLI test and accuracy on HANS, NeuroGame minus `cls` and minus `mean`, by seed."""
    claims = []
    for name, says, file, of in (
        ("neutral pairs", "NGT improves on the neutral class", "table", _neutral_recall),
        ("HANS", "robust handling of contradiction and negation (here: HANS)", "ood", _hans),
    ):
        rule = "paired differences by seed to `cls` and to `mean`, both t-intervals > 0"
        stored = read(out / f"{file}.json")
        values: dict[str, dict[int, float]] = {}
        for run in (stored or {}).get("runs", []):
            if run["row"] in ("neurogame", "cls", "mean"):
                values.setdefault(run["row"], {})[run["seed"]] = of(run)
        parts: dict[str, Record] = {}
        for other in ("cls", "mean"):
            seeds = sorted(set(values.get("neurogame", {})) & set(values.get(other, {})))
            gaps = [values["neurogame"][seed] - values[other][seed] for seed in seeds]
            if gaps:
                parts[other] = {"difference": float(np.mean(gaps)), "by_seed": gaps, "interval": t_interval(gaps)}
        if len(parts) < 2:
            claims.append(claim(name, says, None, f"not measured: {file}.json lacks the rows", rule))
            continue
        number = ", ".join(
            f"{100 * part['difference']:+.1f} points to {other} "
            + between(None if part["interval"] is None else tuple(100 * b for b in part["interval"]), 1)
            for other, part in parts.items()
        )
        means = {row: float(np.mean(list(by.values()))) for row, by in values.items()}
        found = together(verdict(part["interval"], +1) for part in parts.values())
        claims.append(claim(name, says, found, number, rule, against=parts, means=means))
    return claims


def _neutral_recall(run: Record) -> float:
    return float(run["sets"]["snli/test"]["recall"][LABELS[1]])


def _hans(run: Record) -> float:
    return float(next(of for data, of in run["sets"].items() if data.startswith("hans"))["accuracy"])


def of_overhead(out: Path) -> list[Record]:
    """Parameters on top of BERT-base, counted; time against mean pooling, from results/throughput.json."""
    with torch.device("meta"):
        models = {
            head: NeuroGameForSequenceClassification(NeuroGameConfig(encoder=BertConfig(), head=head, **options))
            for head, options in {"neurogame": {}, "spins": {}, "cls": {"equal_size": False}}.items()
        }
    bert = sum(p.numel() for p in models["cls"].encoder.parameters())
    shares = {head: head_parameters(model) / bert for head, model in models.items()}
    rule = "head over encoder at most 1 %; on BERT-base without pooler"
    said = {"neurogame": "the NeuroGame head", "spins": "the paper's spins head"}
    claims = [
        claim(
            f"parameters of {what}",
            f"about 0.7 % more parameters than BERT-base ({what})",
            HOLDS if shares[head] <= 0.01 else FAILS,
            f"{100 * shares[head]:.2f} % ({head_parameters(models[head]):,}; a [CLS] pooler with the same classifier "
            f"{100 * shares['cls']:.2f} %)",
            rule,
            share=shares[head],
        )
        for head, what in said.items()
    ]
    timing = {row["head"]: row for row in (read(out / "throughput.json") or {}).get("rows", [])}
    rule = "at most 10 % fewer pairs per second than mean pooling on the same encoder, in training and in evaluation"
    if "neurogame" not in timing:
        return [*claims, claim("time", "minimal computational overhead", None, "not measured: throughput.json", rule)]
    ratio = [timing["neurogame"][f"{part} ratio"] for part in ("training", "evaluation")]
    number = f"{ratio[0]:.2f} of the pairs per second in training, {ratio[1]:.2f} in evaluation"
    found = HOLDS if min(ratio) >= 0.9 else FAILS
    return [*claims, claim("time", "minimal computational overhead", found, number, rule, ratios=ratio)]


# --- running ----------------------------------------------------------------------------------------------------------


def alike(args: Any, row: str) -> dict[int, NLI]:
    """The models of one row of the table, by seed; none if they are not there."""
    folders = {seed: args.runs / "table" / f"{slug(row)}-{seed}" / "model" for seed in args.seeds}
    return {seed: neurogame.load(folder) for seed, folder in folders.items() if folder.is_dir()}


def groups(args: Any, dev: PairDataset) -> dict[str, Callable[[], list[Record]]]:
    """Every group of claims by name."""

    def model() -> NLI:
        return neurogame.load(args.model) if args.model else neurogame.load()

    def of_paper() -> list[Record]:
        found = list(alike(args, "neurogame, paper preset").values())
        if not found:
            says, rule = "the iteration converges within 10 to 20 steps (paper preset)", "as for the default model"
            return [claim("convergence, paper preset", says, None, "not measured: no model in runs/table", rule)]
        part = dev.take(min(len(dev), 2000), seed=0)
        seen = dict(observe(found[0], [(pair.premise, pair.hypothesis) for pair in part], what="paper preset"))
        return [of_convergence([seen[i] for i in range(len(part))], "paper preset")]

    return {
        "phrases": lambda: of_phrases(model(), args.phrases),
        "dev": lambda: of_dev(model(), dev),
        "decision": lambda: of_decision(model(), dev, args.decisions),
        "negation": lambda: of_negation(alike(args, "neurogame"), alike(args, "softmax"), dev),
        "paper": of_paper,
        "budget": lambda: of_budget(args.out),
        "overhead": lambda: of_overhead(args.out),
    }


def main() -> None:
    """Measure what is missing, collect, print."""
    parser = arguments(__doc__)
    parser.add_argument("--model", type=Path, help="folder of a NeuroGame model; default: the embedded one")
    parser.add_argument("--pairs", type=int, help="of SNLI dev, drawn at random; default: all")
    parser.add_argument("--phrases", type=int, help="at most so many sentences; default: all")
    parser.add_argument("--decisions", type=int, default=200, help="pairs explained one by one")
    args = parser.parse_args()
    quiet()
    weights = (args.model or embedded.FOLDER) / embedded.WEIGHTS
    if not weights.exists():
        raise SystemExit(f"{weights.parent} holds no model; benchmarks/ship.py packs the embedded one, or give --model")
    dev = load_pairs("snli/dev", root=args.root).take(args.pairs, seed=0)
    protocol = {
        "model": args.model.parent.name if args.model else "embedded",
        "sha256": embedded.digest(weights),
        "dev": {"pairs": len(dev), "fingerprint": dev.fingerprint},
        "phrases": args.phrases,
        "decisions": args.decisions,
        "resamples": RESAMPLES,
    }
    study, known = Study("claims", protocol, args.out, args.runs), groups(args, dev)
    names = chosen(list(known), args.only)

    def work(task: Task) -> Record:
        found = known[task[0]]()
        return {"claims": found, "said": "; ".join(f"{of['name']}: {of['verdict']}" for of in found)}

    def lacking(name: str) -> bool:
        old = study.record(name, 0)
        return old is not None and any(entry["verdict"] is None for entry in old["claims"])

    again = [name for name in names if args.fresh or name in CHEAP or (name in ALIKE and lacking(name))]
    study.run([(name, 0) for name in names if name not in again], work, jobs=args.jobs)
    study.run([(name, 0) for name in again], work, jobs=args.jobs, fresh=True)
    runs = study.collect(list(known), [0])
    entries = [entry for run in runs for entry in run["claims"]]
    show(
        "The paper's claims",
        [{"claim": of["says"], "found": of["number"], "verdict": of["verdict"] or "–"} for of in entries],
    )


if __name__ == "__main__":
    main()
