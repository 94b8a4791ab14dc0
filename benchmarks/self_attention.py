"""Does it learn: small transformers from scratch, equal but for the attention, on five tasks and three seeds.

    python benchmarks/self_attention.py --root DATA --jobs 1     # minutes; results/self_attention.json, a figure
    python benchmarks/self_attention.py --root DATA --tasks recall twice --seeds 0     # a part; the rest is kept

ω and μ of an attention start at one value for all heads and learn at ten times the rate of the rest, without decay:
they are few, and at the rate of the weights their size would say how long training took, not what they are good for.

Attentions: `softmax` (nn.MultiheadAttention), `sigmoid`, `values` (NeuroGame without couplings), `couplings`
(NeuroGame), `couplings, normalised` (with outputs divided by Σα). Tasks, every one read off the first token:

- `toy`: pairs of the toy language, three labels; 2 layers.
- `fragments`: pairs of `neurogame.data.fragments`, three labels; 2 layers; also by what of a dev pair was held out:
  nothing but the pair itself is new, its forms, or its words.
- `snli`: pairs of SNLI, words of the training pairs, one pass; 2 layers.
- `recall`: tokens are (key, value); the first has a key and asks for its value. No positions; 1 layer; trained with 8
  pairs, tested with more.
- `twice`: every value occurs twice, one of them both times with the same key: which value? The first token asks
  nothing, so that only what the keys are to each other can tell; 1 layer and 2. A guess among the values: 2/n.

A finished run is kept, so that a study that was stopped goes on where it stopped.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from common import arguments, show
from torch import Tensor, nn

from neurogame import NeuroGameSelfAttention
from neurogame._common.extras import need
from neurogame._common.writing import save_figure
from neurogame.data import generate, load
from neurogame.labels import LABELS
from neurogame_bench.effects import t_interval
from neurogame_bench.study import Record, Study, Task, chosen

FIGURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "self-attention-learning.png"
KINDS: dict[str, dict[str, Any]] = {
    "softmax": {},
    "sigmoid": {"couplings": False, "contribution": False},
    "values": {"couplings": False},
    "couplings": {"couplings": True, "iterations": 2},
    "couplings, normalised": {"couplings": True, "iterations": 2, "normalise": True},
}
KEYS, VALUES = 48, 16
PAD, FIRST, SPLIT, UNKNOWN = range(4)
Batch = tuple[Tensor, Tensor]  # ids [batch, tokens, fields] whose embeddings are added, labels [batch]


@dataclass(frozen=True)
class Setting:
    """What one task trains."""

    layers: int
    steps: int
    batch: int
    rate: float
    pairs: int = 0  # of text to train on
    lengths: tuple[int, ...] = ()  # tokens beside the first; trained on the first of them
    width: int = 64
    heads: int = 4


TASKS = {
    "recall": Setting(layers=1, steps=402, batch=64, rate=3e-3, lengths=(8, 16, 32)),
    "twice": Setting(layers=1, steps=1500, batch=64, rate=3e-3, lengths=(8, 16, 32)),
    "twice, 2 layers": Setting(layers=2, steps=900, batch=64, rate=3e-3, lengths=(8, 16, 32)),
    "toy": Setting(layers=2, steps=1500, batch=32, rate=2e-3, pairs=8000),
    "fragments": Setting(layers=2, steps=2100, batch=32, rate=2e-3, pairs=12000),
    "snli": Setting(layers=2, steps=1002, batch=64, rate=2e-3, pairs=64000),
}
POINTS, DEV = 6, 1000  # of a curve; pairs or sequences that a point is measured on
FASTER = 10.0  # the rate of ω and μ, in rates of the rest


class Block(nn.Module):
    """x + attention(norm x), then x + feed-forward(norm x)."""

    def __init__(self, kind: str, setting: Setting) -> None:
        super().__init__()
        width, heads = setting.width, setting.heads
        self.attention: nn.Module
        if kind == "softmax":
            self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        else:
            self.attention = NeuroGameSelfAttention(width, heads, batch_first=True, **KINDS[kind])
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.forward_part = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        """[batch, tokens, width] to the same."""
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, key_padding_mask=padding, need_weights=False)[0]
        found: Tensor = x + self.forward_part(self.norms[1](x))
        return found


class Network(nn.Module):
    """Embeddings (with positions for text), blocks, logits of the first token."""

    def __init__(self, kind: str, setting: Setting, symbols: int, labels: int, *, places: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, setting.width, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=0.5)
        self.places = nn.Parameter(0.1 * torch.randn(places, setting.width)) if places else None
        self.blocks = nn.ModuleList(Block(kind, setting) for _ in range(setting.layers))
        self.out = nn.Sequential(nn.LayerNorm(setting.width), nn.Linear(setting.width, labels))

    def forward(self, ids: Tensor) -> Tensor:
        """Logits [batch, labels] of ids [batch, tokens, fields]."""
        x = self.embedding(ids).sum(-2)
        if self.places is not None:
            x = x + self.places[: x.shape[1]]
        padding = ids[..., 0] == PAD
        for block in self.blocks:
            x = block(x, padding if bool(padding.any()) else None)
        found: Tensor = self.out(x[:, 0])
        return found


# --- tasks ------------------------------------------------------------------------------------------------------------


def sequences(task: str, length: int, count: int, draw: torch.Generator) -> Batch:
    """`recall` and `twice`: keys with values, and one token before them."""
    rows = torch.arange(count)
    keys = torch.rand(count, KEYS, generator=draw).argsort(-1)[:, :length]
    if task == "recall":
        values = torch.randint(VALUES, (count, length), generator=draw)
        place = torch.randint(length, (count,), generator=draw)
        asked, label = 4 + keys[rows, place], values[rows, place]
    else:
        half = torch.rand(count, VALUES, generator=draw).argsort(-1)[:, : length // 2]
        values, label, asked = half.repeat(1, 2), half[:, 0], torch.full((count,), UNKNOWN)
        keys[:, length // 2] = keys[:, 0]  # the places of half[:, 0]; tokens have no order
    tokens = torch.stack([4 + keys, 4 + KEYS + values], dim=-1)
    first = torch.stack([asked, torch.full((count,), FIRST)], dim=-1)
    return torch.cat([first.unsqueeze(1), tokens], dim=1), label


@cache
def texts(task: str, train: int, root: str) -> tuple[Batch, Batch, int, dict[str, int]]:
    """Training and dev pairs as padded ids (word, side), the number of symbols, and the words with their numbers.

    Words are those of the training pairs.
    """
    if task == "toy":
        found = list(generate(train + DEV, seed=1))
        pairs = (found[:train], found[train:])
    elif task == "fragments":
        pairs = (list(load("fragments/train").take(train)), list(load("fragments/dev")))
    else:
        pairs = (
            list(load("snli/train", root=root).shuffled(0).take(train)),
            list(load("snli/dev", root=root).shuffled(0).take(DEV)),
        )
    counts: dict[str, int] = {}
    for pair in pairs[0]:
        for word in words(pair.premise, 24) + words(pair.hypothesis, 14):
            counts[word] = counts.get(word, 0) + 1
    known = sorted((word for word, count in counts.items() if count > 1), key=lambda word: (-counts[word], word))[:4000]
    number = {word: 6 + i for i, word in enumerate(known)}  # 4 and 5 are the two sides
    encoded = []
    for part in pairs:
        rows = []
        for pair in part:
            left, right = words(pair.premise, 24), words(pair.hypothesis, 14)
            ids = [FIRST, *(number.get(w, UNKNOWN) for w in left), SPLIT, *(number.get(w, UNKNOWN) for w in right)]
            rows.append(torch.tensor([[i, 4 + (k > len(left))] for k, i in enumerate(ids)]))
        padded = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        encoded.append((padded, torch.tensor([LABELS.index(str(pair.label)) for pair in part])))
    return encoded[0], encoded[1], 6 + len(number), number


@cache
def held_out() -> dict[str, Tensor]:
    """The dev pairs of fragments by what of them was held out of training."""
    kinds = [str(pair.extras["held"]) for pair in load("fragments/dev")]
    return {kind: torch.tensor([i for i, k in enumerate(kinds) if k == kind]) for kind in sorted(set(kinds))}


def words(text: str, most: int) -> list[str]:
    """Lower-case words without their punctuation."""
    return [word.strip(".,;:!?\"'()") for word in text.lower().split()][:most]


def shorter(ids: Tensor) -> Tensor:
    """Without columns that are padding in every row."""
    return ids[:, : int((ids[..., 0] != PAD).sum(-1).max())]


# --- runs -------------------------------------------------------------------------------------------------------------


class Job:
    """One run: a task, an attention, a seed."""

    def __init__(self, task: str, kind: str, seed: int, root: str, setting: Setting) -> None:
        self.task, self.setting = task, setting
        self.draw = torch.Generator().manual_seed(1000 + seed)
        of_text = not setting.lengths
        if of_text:
            self.train, self.dev, symbols, _ = texts(task, setting.pairs, root)
        else:
            symbols = 4 + KEYS + VALUES
        torch.manual_seed(seed)
        self.network = Network(kind, setting, symbols, len(LABELS) if of_text else VALUES, places=48 if of_text else 0)

    def batches(self) -> Iterator[Batch]:
        """Training batches, the same for every attention under one seed."""
        size = self.setting.batch
        if self.setting.lengths:
            for _ in range(self.setting.steps):
                yield sequences(self.task, self.setting.lengths[0], size, self.draw)
            return
        passes = -(-self.setting.steps * size // self.setting.pairs)
        order = torch.cat([torch.randperm(self.setting.pairs, generator=self.draw) for _ in range(passes)])
        for rows in order[: self.setting.steps * size].split(size):
            yield shorter(self.train[0][rows]), self.train[1][rows]

    def accuracy(self, length: int = 0, chosen: Tensor | None = None) -> float:
        """On dev pairs, all or some, or on sequences of a length that are the same for every run."""
        if length:
            ids, labels = sequences(self.task, length, DEV, torch.Generator().manual_seed(length))
        else:
            ids, labels = self.dev if chosen is None else (self.dev[0][chosen], self.dev[1][chosen])
        self.network.eval()
        hits = 0
        with torch.no_grad():
            for rows in torch.arange(len(labels)).split(250):
                hits += int((self.network(shorter(ids[rows])).argmax(-1) == labels[rows]).sum())
        self.network.train()
        return hits / len(labels)

    def __call__(self) -> Record:
        """Train, with POINTS points of a curve."""
        setting, curve, losses = self.setting, [], []
        every = setting.steps // POINTS
        fast = [p for name, p in self.network.named_parameters() if name.endswith(("strength", "background"))]
        rest = [p for name, p in self.network.named_parameters() if not name.endswith(("strength", "background"))]
        groups = [{"params": rest, "weight_decay": 0.01}, {"params": fast, "weight_decay": 0.0}]
        rates = [setting.rate, FASTER * setting.rate]
        optimizer = torch.optim.AdamW(groups[: 1 + bool(fast)])
        rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates[: 1 + bool(fast)], setting.steps, pct_start=0.1)
        first = setting.lengths[0] if setting.lengths else 0
        for step, (ids, labels) in enumerate(self.batches(), 1):
            loss = nn.functional.cross_entropy(self.network(ids), labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            optimizer.step()
            rate.step()
            losses.append(float(loss.detach()))
            if step % every == 0:
                curve.append([step, round(mean(losses[-every:]), 4), self.accuracy(first)])
        strengths = [
            [round(w, 3) for w in module.strength.tolist()]
            for module in self.network.modules()
            if isinstance(module, NeuroGameSelfAttention) and module.strength is not None
        ]
        lengths = {str(n): self.accuracy(n) for n in setting.lengths}
        found: Record = {"accuracy": curve[-1][2], "curve": curve, "lengths": lengths, "strength": strengths}
        if self.task == "fragments":
            found["held"] = {kind or "nothing": self.accuracy(0, at) for kind, at in held_out().items()}
        return {**found, "parameters": sum(p.numel() for p in self.network.parameters()), "said": f"{curve[-1][2]:.3f}"}


def summary(runs: Sequence[Record]) -> list[Record]:
    """One row per task and attention: mean and deviation over seeds, differences to the others seed by seed."""
    by_name: dict[str, dict[int, Record]] = {}
    for run in runs:
        by_name.setdefault(run["row"], {})[run["seed"]] = run
    rows = []
    for name, own in by_name.items():
        task, kind = name.rsplit(": ", 1)
        scores = [run["accuracy"] for run in own.values()]
        gaps = {other: _gaps(own, by_name.get(f"{task}: {other}", {})) for other in KINDS if other != kind}
        rows.append(
            {
                "task": task,
                "attention": kind,
                "seeds": len(own),
                "mean": mean(scores),
                "sd": stdev(scores) if len(scores) > 1 else None,
                "differences": {
                    other: {"value": mean(each), "interval": t_interval(each) if len(each) > 1 else None}
                    for other, each in gaps.items()
                    if each
                },
                "held": {k: mean(run["held"][k] for run in own.values()) for k in _any(own).get("held", {})},
                "lengths": {n: mean(run["lengths"][n] for run in own.values()) for n in _any(own)["lengths"]},
                "parameters": _any(own)["parameters"],
                "strength": [min(_strengths(own)), max(_strengths(own))] if _strengths(own) else None,
                "processor_seconds": mean(run["processor_seconds"] for run in own.values()),
            }
        )
    return rows


def _gaps(own: dict[int, Record], other: dict[int, Record]) -> list[float]:
    """Seed by seed."""
    return [own[seed]["accuracy"] - other[seed]["accuracy"] for seed in own if seed in other]


def _any(own: dict[int, Record]) -> Record:
    return next(iter(own.values()))


def _strengths(own: dict[int, Record]) -> list[float]:
    return [w for run in own.values() for layer in run["strength"] for w in layer]


def figure(runs: Sequence[Record], path: Path) -> None:
    """Learning curves, one panel per task: mean over seeds, range as a band."""
    tasks = [task for task in TASKS if any(run["row"].startswith(f"{task}: ") for run in runs)]
    fig = need("matplotlib.figure", "bench").Figure(figsize=(3.1 * len(tasks), 3.2), layout="constrained")
    panels = fig.subplots(1, len(tasks), squeeze=False)[0]
    styles = dict(zip(KINDS, ("k-", "C7--", "C0-.", "C3-", "C1:"), strict=True))
    for panel, task in zip(panels, tasks, strict=True):
        for kind, style in styles.items():
            own = [run["curve"] for run in runs if run["row"] == f"{task}: {kind}"]
            if own:
                steps = [point[0] for point in own[0]]
                columns = [[100 * point[2] for point in at] for at in zip(*own, strict=True)]
                panel.plot(steps, [mean(c) for c in columns], style, label=kind)
                low, high = [min(c) for c in columns], [max(c) for c in columns]
                panel.fill_between(steps, low, high, color=style[: 2 if style[0] == "C" else 1], alpha=0.12)
        panel.set(title=task, xlabel="step")
    panels[0].set(ylabel="accuracy, %")
    panels[-1].legend(fontsize=8)
    save_figure(fig, path, dpi=110)


def main() -> None:
    """Run what is missing, collect, show, draw."""
    parser = arguments(__doc__, jobs=1)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    args = parser.parse_args()
    protocol = {
        "tasks": {name: asdict(setting) for name, setting in TASKS.items()},
        "dev": DEV,
        "keys": KEYS,
        "values": VALUES,
        "kinds": KINDS,
        "faster": FASTER,
    }
    names = [f"{task}: {kind}" for task in TASKS for kind in KINDS]
    study = Study("self_attention", _plain(protocol), args.out, args.runs)

    def work(task: Task) -> Record:
        torch.set_num_threads(1)  # the networks are too small for more
        row, seed = task
        name, kind = row.rsplit(": ", 1)
        return Job("twice" if name.startswith("twice") else name, kind, seed, str(args.root), TASKS[name])()

    wanted = chosen(names, args.only)
    wanted = [name for name in wanted if name.rsplit(": ", 1)[0] in args.tasks]
    late = [name for name in wanted if name.endswith("normalised")]  # an extra: last, should time run out
    tasks = [
        (name, seed) for part in ([n for n in wanted if n not in late], late) for seed in args.seeds for name in part
    ]
    study.run(tasks, work, jobs=args.jobs, fresh=args.fresh)
    runs = study.collect(names, args.seeds)
    rows = summary(runs)
    study.collect(names, args.seeds, rows=rows)
    figure(runs, FIGURE)
    show("Accuracy by attention", [{key: row[key] for key in ("task", "attention", "mean", "sd")} for row in rows])


def _plain(protocol: Record) -> Record:
    """As JSON gives it back: tuples are lists."""
    found: Record = json.loads(json.dumps(protocol))
    return found


if __name__ == "__main__":
    main()
