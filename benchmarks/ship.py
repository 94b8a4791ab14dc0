"""Pack a trained model as the embedded one, measure what was packed, and write its card from the figures.

    python benchmarks/ship.py runs/mean --root DATA --pack      # seconds: the folder alone, to try it
    python benchmarks/ship.py runs/mean --root DATA --after runs/a runs/b   # ten to twenty minutes on two cores

Takes RUN/model, writes src/neurogame/embedded/model, the digest of its checksums (embedded/shipped.py) and
results/embedded.json; what that file said of the run before goes to embedded_previous.json, and its curve to
embedded_runs.json. Everything is measured on the float16 file as users load it, not on the weights it was rounded
from. The run's own metrics.json says how it was trained; docs/training.md tells the story.
"""

import argparse
import json
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from common import RESULTS, Clock, portable, progress, save

from neurogame import embedded
from neurogame.data import Pair, PairDataset
from neurogame.data import load as load_pairs
from neurogame.data.fragments import PROBES, probe
from neurogame.evaluation import Report, evaluate
from neurogame.modeling.loading import quiet
from neurogame.nli import load
from neurogame.training.checkpoints import checkpoints
from neurogame_bench import shipping
from neurogame_bench.study import read, write

SETS = ("snli/dev", "snli/test", "mnli/matched", "mnli/mismatched", "hans", "sick/test", "snli_hard/dev")
TARGETS = {  # accuracy, %
    "snli/test": 86.6,
    "mnli/matched": 79.5,
    "mnli/mismatched": 79.5,
    "hans/test": 68.0,
    "sick/test": 60.0,
    "snli_hard/dev": 74.0,
    **{f"fragments/probe_{name}": 85.0 for name in PROBES},
    "page": 100.0,
}
PAGE = Path(embedded.__file__).parents[1] / "serving" / "static" / "examples.js"
NAMES = {
    "snli/dev": "SNLI dev (checkpoints were chosen on its first 1 500 pairs)",
    "snli/test": "SNLI test",
    "mnli/matched": "MNLI matched",
    "mnli/mismatched": "MNLI mismatched",
    "hans/test": "HANS (neutral and contradiction count as non-entailment)",
    "sick/test": "SICK test",
    "snli_hard/dev": "SNLI-hard dev",
    **{f"fragments/probe_{name}": f"Probe: {name} (own pairs, words that no training pair has)" for name in PROBES},
    "page": "The examples of the page",
}

CARD = """---
library_name: transformers
pipeline_tag: text-classification
language: en
license: other
base_model: {base}
tags: [natural-language-inference, neurogame, interpretability]
---

# The embedded model of neurogame

Natural-language inference: does a premise entail a hypothesis, contradict it, or neither? {encoder} with
a grounded game as its classifier, {parameters:,} parameters. The logits are b + R v(N): v are norm games over the
words, trained so that v(C) gives what the model itself says of the words C. Shapley values, Banzhaf values and pair
interactions of every logit come from the forward pass that predicts.

```python
import neurogame

nli = neurogame.load()
nli.predict("A man is asleep.", "Nobody is awake.").probabilities
nli.explain("A man is asleep.", "Nobody is awake.").show()
```

The weights are stored as float16 and load as float32; the figures below were measured on that file. A temperature was
fitted on dev pairs and divided into the weights: softmax(logits) is the probability, in every library.

## Results

| data | pairs | accuracy, % (95 % interval) | macro-F1 | ECE, 15 bins |
|---|---|---|---|---|
{rows}

HANS by heuristic and gold label, %: {hans}.

`python benchmarks/ship.py` of the repository computes them; `results/embedded.json` has the rest. Against the
targets of the project: {targets}

## Data

{train_pairs:,} rows a pass, drawn by `benchmarks/mixture.py` (weights in brackets), balanced by label within each set
(syntactic and captions keep their own): {mixture}. People labelled them, except for silver_counterfactual (premises
written and labels filtered by machines) and the generated sets (fragments, order, events, scenes, quantifiers,
captions), whose labels follow from meaning; captions are premises of SNLI put beside each other, and the target of two
that have nothing to do with each other leaves room for doubt (`neurogame_bench.captions`). {teacher}No pair
of the evaluation sets is among them; up to case and punctuation {shared} premises of SNLI and MNLI evaluation pairs
are.

| set | licence |
|---|---|
| SNLI (snli, captions) and its edits by people (snli_cad) and machines (silver_counterfactual) | CC BY-SA 4.0 |
| MNLI (mnli) | as OANC and its other sources allow |
| crowd-written pairs in the manner of MNLI (crowd) | none stated: research use |
| WANLI (wanli) | CC BY 4.0 |
| inversions and passives of MNLI sentences (syntactic; Min et al., 2020) | MIT |
| the fragments of English of this project (fragments, order, events, scenes, quantifiers) | Apache-2.0 |

The licences of the training data apply to what is made from them; because of the crowd-written sets, take the
weights as meant for research.

**Exposure.** {exposure} Accuracy on SNLI and MNLI is therefore not that of an
encoder that never saw them.

## Training

{training}

## Limits

- English; sentence pairs of the length of a caption or a paragraph. Pairs are cut to 128 tokens; predictions say so.
- NLI data carry annotation artefacts; HANS above shows what happens where word overlap misleads.
- Quantities, dates and world knowledge are weak points of a model of this size.
- Not for decisions about people. The data contain the stereotypes of their authors.
- An explanation says what this model did, not what is true.
"""

NOTICE = """neurogame, embedded model
The encoder's weights are derived from {base}{detail}.
All weights have been fine-tuned further by the NeuroGame developers, except the word embeddings.
Trained on SNLI (Bowman et al., 2015, CC BY-SA 4.0), MultiNLI (Williams et al., 2018), WANLI (Liu et al., 2022, CC BY
4.0), counterfactual edits of SNLI by people (Kaushik et al., 2020) and by machines, inversions and passives of MultiNLI
(Min et al., 2020, MIT) and crowd-written pairs without a stated licence; its first run also on multi-premise entailment
(Lai et al., 2017). See README.md beside this file.
"""

TEACHER = """Except for the generated sets and
syntactic, the target is {own:g} of the label and {share:g} of what a larger model says of the pair: all-mpnet-base-v2
(Apache-2.0), fine-tuned on {rows:,} pairs of the same sets ({configs}), which saw SNLI and MNLI training
pairs in its own contrastive training. """

ENCODERS = {
    "minilm": {
        "base": "sentence-transformers/all-MiniLM-L6-v2",
        "encoder": "The encoder all-MiniLM-L6-v2 (6 layers × 384)",
        "detail": ", Copyright its authors,\nlicensed under the Apache License, Version 2.0 "
        "(http://www.apache.org/licenses/LICENSE-2.0)",
        "exposure": "The encoder saw SNLI and MNLI training pairs in its own contrastive training.",
    },
    "e5": {
        "base": "intfloat/e5-small",
        "encoder": "The encoder E5-small (12 layers × 384)",
        "detail": ", Copyright its authors, licensed under the MIT License,\n"
        "converted from an ONNX file that has no upstream checksum",
        "exposure": "The encoder saw SNLI and MNLI training pairs in its contrastive fine-tuning (Wang et al., 2022).",
    },
}


def table(report: Report) -> str:
    """Rows of the card."""
    lines = []
    for row in report.rows:
        s, c = row.scores, row.calibration
        low, high = (100 * x for x in s.interval)
        lines.append(
            f"| {NAMES.get(row.data, row.data)} | {row.n} | {100 * s.accuracy:.2f} ({low:.2f}–{high:.2f}) "
            f"| {100 * s.macro_f1:.2f} | {100 * c.before.ece:.1f} |"  # the temperature is in the weights
        )
    return "\n".join(lines)


def hans(report: Report) -> str:
    """Accuracy by heuristic × label, in a line."""
    row = next(row for row in report.rows if row.data.startswith("hans"))
    groups = next(iter(row.groups.values()))
    return ", ".join(f"{' / '.join(group.key.values())} {100 * group.accuracy:.1f}" for group in groups)


def points(gap: float) -> str:
    """How far from a target, in points of accuracy."""
    return f"{abs(gap):.1f}" if abs(gap) >= 0.05 else "less than 0.1"


def targets(report: Report) -> str:
    """Which are met, and by how much the others are missed."""
    parts = []
    for row in report.rows:
        if row.data in TARGETS:
            gap = 100 * row.scores.accuracy - TARGETS[row.data]
            how = "met" if gap == 0 else f"{'met' if gap > 0 else 'missed'} by {points(gap)}"
            parts.append(f"{NAMES[row.data].partition(' (')[0]} {how}")
    return "; ".join(parts) + "."


def shared_premises(mixture: Path, sets: Iterable[PairDataset]) -> int:
    """How many premises of SNLI's and MNLI's evaluation pairs are premises of training pairs."""
    trained = {plain(pair.premise) for pair in load_pairs(mixture / "train.jsonl.gz")}
    evaluated = (pair for data in sets if data.name.startswith(("snli/", "mnli/")) for pair in data)
    return len({plain(pair.premise) for pair in evaluated} & trained)


def plain(text: str) -> str:
    """Without case and punctuation."""
    return re.sub(r"\W+", " ", text.lower()).strip()


def page_examples(mixture: Path) -> PairDataset:
    """The examples of the page with the labels they should get; refused if one of them was trained on."""
    listed = PAGE.read_text(encoding="utf-8").partition("= ")[2].rpartition(";")[0]
    rows = json.loads(re.sub(r",\s*\]", "]", listed))
    pairs = tuple(Pair(premise, hypothesis, label) for _, premise, hypothesis, label in rows)
    trained = {(pair.premise, pair.hypothesis) for pair in load_pairs(mixture / "train.jsonl.gz")}
    if seen := [pair for pair in pairs if (pair.premise, pair.hypothesis) in trained]:
        raise SystemExit(f"an example of the page is in the training data: {seen[0].premise} / {seen[0].hypothesis}")
    return PairDataset(pairs, "page", str(PAGE))


def training(runs: Sequence[dict[str, Any]], mean: str) -> str:
    """The recipe in a paragraph: of `runs`, which have one recipe, and of the `mean` of weights that ships."""
    first, recipe = runs[0], runs[0]["training"]
    steps = " and ".join(f"{n:,}" for n in sorted({run["steps"] for run in runs}))
    many = f"{len(runs)} runs (seeds {', '.join(str(run['seed']) for run in runs)}) of " if len(runs) > 1 else ""
    return (
        f"{many}{steps} steps of {first['pairs_a_step']} pairs from the weights shipped before, AdamW, learning rate "
        f"{recipe['learning_rate']:g}, schedule {recipe['schedule']} towards step {recipe['max_steps']:,}, weight "
        f"decay {recipe['weight_decay']:g}, averaged weights ({recipe['ema']:g}), word embeddings and the "
        f"{recipe['freeze_layers']} lowest layers frozen. Of the pairs of a step "
        f"{100 * recipe['grounding']['share']:g} % were also read incomplete, to ground the game. What ships is the "
        f"mean of the weights of {mean}, with a temperature fitted to dev. `docs/training.md` has the commands, the "
        "curves, the time it took and what was discarded."
    )


def taught(run: dict[str, Any], teachers: Sequence[dict[str, Any]]) -> str:
    """What a teacher, trained in one run or several, had to do with the labels of `run`, if it had one."""
    share = run["training"].get("distillation", 0.0)
    if not share:
        return ""
    if not teachers:
        raise SystemExit(f"{run['name']} was trained with a teacher: --teacher names the folder of its run")
    rows = sum(of["steps"] * of["pairs_a_step"] for of in teachers)
    configs = ", then ".join(f"`configs/{of['name']}.yaml`" for of in teachers)
    return TEACHER.format(own=round(1 - share, 4), share=share, rows=rows, configs=configs)


def ingredients(folder: Path) -> str:
    """What average.py put into the mean in `folder`: runs by name, "the model shipped before"; weights other than 1."""
    names = []
    for of in json.loads((folder / "average.json").read_text(encoding="utf-8")):
        path = Path(of["model"])
        run = path.parts[path.parts.index("runs") + 1] if "runs" in path.parts else "the model shipped before"
        names.append(run if of["weight"] == 1 else f"{run} (counted {of['weight']:g} times)")
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def logged(run: Path, processes: int) -> dict[str, Any]:
    """What is known of a run, ended early or not: its recipe, and what was logged until its last checkpoint."""
    last = checkpoints(run / "checkpoints")[-1]
    state = json.loads((last / "trainer_state.json").read_text(encoding="utf-8"))
    config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    return {
        "name": config["name"],
        "seed": config["seed"],
        "steps": state["global_step"],
        "history": state["log_history"],
        "training": config["training"],
        "pairs_a_step": processes * config["training"]["batch_size"],
    }


def keep_history(name: str, after: Sequence[dict[str, Any]]) -> None:
    """What shipped before run `name` becomes the previous model; its run and those of `after` join the runs before."""
    before = read(RESULTS / "embedded.json")
    new = list(after)
    if before is not None and before["run"]["name"] != name:
        write(RESULTS / "embedded_previous.json", before)
        new.insert(0, before["run"])
    known = (read(RESULTS / "embedded_runs.json") or {"runs": []})["runs"]
    kept = [run for run in known if run["name"] not in {name, *(run["name"] for run in new)}]
    write(RESULTS / "embedded_runs.json", {"runs": [*kept, *new]})


def main() -> None:
    """Pack, evaluate, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run; holds model/ and metrics.json")
    parser.add_argument("--root", required=True, type=Path, help="where the data sets are; see docs/nli.md")
    parser.add_argument("--encoder", choices=list(ENCODERS), default="e5")
    parser.add_argument("--mixture", type=Path, default=Path("runs/mixture"), help="folder that mixture.py wrote")
    parser.add_argument("--processes", type=int, default=2, help="of the runs: a step is so many batches")
    parser.add_argument("--after", type=Path, nargs="+", required=True, help="runs of one recipe, of which it is")
    parser.add_argument("--discarded", type=Path, nargs="+", default=[], help="runs after it, for their curves alone")
    parser.add_argument("--teacher", type=Path, nargs="+", default=[], help="runs of their teacher, if they had one")
    parser.add_argument("--hans", type=int, help="a fixed sample of so many pairs of HANS; by default all of them")
    parser.add_argument("--pack", action="store_true", help="pack only; nothing is measured and the card stays empty")
    args = parser.parse_args()
    quiet()
    clock, metrics, about = Clock(), json.loads((args.run / "metrics.json").read_text()), ENCODERS[args.encoder]
    config = yaml.safe_load((args.run / "config.yaml").read_text(encoding="utf-8"))
    mixture = json.loads((args.mixture / "mixture.json").read_text())
    trained = [logged(run, args.processes) for run in args.after]
    mean = ingredients(Path(config["model"]["encoder"]))
    teachers = [logged(run, args.processes) for run in args.teacher]
    teacher = taught(trained[0], teachers)
    discarded = [logged(run, args.processes) for run in args.discarded]
    target = embedded.FOLDER
    shutil.rmtree(target, ignore_errors=True)
    shipping.pack(args.run / "model", target, {"NOTICE": NOTICE.format(**about)})
    if args.pack:
        return
    nli = load(target)
    sets = [load_pairs(name, root=args.root) for name in SETS]
    sets = [data.take(args.hans, seed=0) if args.hans and data.name.startswith("hans") else data for data in sets]
    sets += [*(probe(name) for name in PROBES), page_examples(args.mixture)]
    progress(f"packed; evaluating on {sum(map(len, sets))} pairs")
    report = evaluate(nli, sets, batch_size=64)
    card = CARD.format(
        **about,
        parameters=nli.parameters,
        rows=table(report),
        hans=hans(report),
        targets=targets(report),
        train_pairs=mixture["rows"],
        teacher=teacher,
        shared=shared_premises(args.mixture, sets),
        mixture=", ".join(f"{name} {of['pairs']:,} ({of['weight']:g})" for name, of in mixture["sets"].items()),
        training=training(trained, mean),
    )
    (target / "README.md").write_text(card, encoding="utf-8")
    shipping.write_sums(target)  # and its digest into src/neurogame/embedded/shipped.py
    embedded.folder()
    run = {
        key: metrics[key] for key in ("name", "seed", "steps", "seconds", "parameters", "data", "history", "versions")
    }
    run["training"], run["pairs_a_step"] = config["training"], config["training"]["batch_size"]
    run["model"] = {key: value for key, value in config["model"].items() if key != "encoder"}  # a folder of a machine
    run["mean_of"] = mean
    unshipped = [{**of, "name": f"{of['name']} (discarded)"} for of in discarded]
    keep_history(metrics["name"], [*teachers, *trained, *unshipped])
    save("embedded", clock(), mixture=mixture, run=run, evaluation=portable(report.to_dict()))
    print(table(report))


if __name__ == "__main__":
    main()
