"""What a head costs in a whole model: pairs per second in training and evaluation, as ratios to the `mean` head.

One encoder of the size of MiniLM-L6 (6 layers × 384, 12 heads, word embeddings frozen) under every head, on
batches of pairs as long as those of SNLI; a training step is forward, backward, clipping and AdamW. All heads
run in turn in one process, so that a ratio does not depend on what else the machine does.
"""

from pathlib import Path
from statistics import median
from typing import Any, get_args

import torch
from rich.console import RenderableType
from rich.table import Table
from torch import Tensor
from transformers import BertConfig

from neurogame._common.extras import need
from neurogame._common.writing import save_figure
from neurogame.about import machine
from neurogame.modeling import NeuroGameConfig, NeuroGameForSequenceClassification
from neurogame.modeling.configuration import Head
from neurogame_bench.timing import Progress, Run, seconds_each

BATCH = 64
SIZES = {  # of MiniLM-L6
    "vocab_size": 30_522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
SHORTEST, LONGEST = 16, 48  # tokens of an SNLI pair: nine in ten lie between
TARGET = 0.9  # pairs per second of the NeuroGame head, default preset, against the mean head
VARIANTS: dict[str, dict[str, Any]] = {head: {"head": head} for head in get_args(Head)}
VARIANTS["neurogame, paper preset"] = {"head": "neurogame", "preset": "paper"}
VARIANTS["neurogame, no couplings"] = {"head": "neurogame", "attention": {"couplings": "none"}}


def _model(options: dict[str, Any]) -> NeuroGameForSequenceClassification:
    torch.manual_seed(0)
    encoder = BertConfig(**SIZES)
    model = NeuroGameForSequenceClassification(NeuroGameConfig(encoder=encoder, **options))
    model.get_input_embeddings().requires_grad_(requires_grad=False)
    return model


def _batch(seed: int) -> dict[str, Tensor]:
    """Pairs of similar length, as length-sorted batching makes them: the longest sets the padding."""
    draw = torch.Generator().manual_seed(seed)
    middle = int(torch.randint(SHORTEST + 2, LONGEST - 1, (), generator=draw))
    lengths = torch.randint(middle - 2, middle + 3, (BATCH,), generator=draw)
    n = int(lengths.max())
    mask = (torch.arange(n) < lengths.unsqueeze(-1)).long()
    ids = torch.randint(1000, SIZES["vocab_size"], (BATCH, n), generator=draw) * mask
    labels = torch.randint(3, (BATCH,), generator=draw)
    segments = (torch.arange(n) > (lengths // 2).unsqueeze(-1)).long() * mask
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments, "labels": labels}


def _training(model: NeuroGameForSequenceClassification, batches: list[dict[str, Tensor]]) -> Run:
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5)

    def run() -> None:
        model.train()
        for step, batch in enumerate(batches):
            model(**batch, generator=step).loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad()

    return run


def _evaluation(model: NeuroGameForSequenceClassification, batches: list[dict[str, Tensor]]) -> Run:
    def run() -> None:
        model.eval()
        with torch.inference_mode():
            for batch in batches:
                model(**batch)

    return run


def run(
    progress: Progress = lambda _: None, repetitions: int = 5, heads: tuple[str, ...] | None = None
) -> dict[str, Any]:
    """Pairs per second of every head, and its ratio to `mean`: the median over repetitions of the ratio in each."""
    chosen = {name: VARIANTS[name] for name in dict.fromkeys(("mean", *(heads or VARIANTS)))}
    models = {name: _model(options) for name, options in chosen.items()}
    batches = [_batch(seed) for seed in range(2)]
    rows: dict[str, dict[str, Any]] = {name: {"head": name} for name in chosen}
    for part, make in (("training", _training), ("evaluation", _evaluation)):
        progress(f"{part}, {len(chosen)} heads")
        times = seconds_each({name: make(model, batches) for name, model in models.items()}, repetitions)
        for name, own in times.items():
            rows[name][f"{part} pairs/s"] = BATCH * len(batches) / median(own)
            rows[name][f"{part} ratio"] = median(a / b for a, b in zip(times["mean"], own, strict=True))
    return {"machine": machine(), "repetitions": repetitions, "target": TARGET, "rows": list(rows.values())}


def table(results: dict[str, Any]) -> RenderableType:
    """One row per head."""
    what = f"Pairs per second, batch {BATCH}, encoder of the size of MiniLM-L6"
    title = f"{what}; ratios to mean, target ≥ {results['target']}"
    out = Table(title=title, title_justify="left")
    for name in results["rows"][0]:
        out.add_column(name, justify="left" if name == "head" else "right")
    for row in results["rows"]:
        out.add_row(*(_cell(name, value) for name, value in row.items()))
    return out


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.2f}" if name.endswith("ratio") else f"{value:.0f}"


def figure(results: dict[str, Any], path: Path) -> None:
    """The ratios as bars."""
    fig = need("matplotlib.figure", "bench").Figure(figsize=(8, 4.2), layout="constrained")
    axes = fig.subplots()
    names = [row["head"] for row in results["rows"]]
    for shift, part, colour in ((-0.2, "training", "tab:blue"), (0.2, "evaluation", "tab:orange")):
        places = [i + shift for i in range(len(names))]
        axes.barh(places, [row[f"{part} ratio"] for row in results["rows"]], height=0.36, color=colour, label=part)
    axes.axvline(results["target"], color="black", linewidth=0.8, linestyle="--", label="target")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlabel="pairs per second / those of the mean head")
    fig.legend(loc="outside upper center", ncols=3)
    save_figure(fig, path, dpi=130)
