"""What NeuroGame attention costs, as ratios to softmax attention measured in the same run.

Reference: `torch.nn.MultiheadAttention(768, 12, batch_first=True)` in eval mode with
`need_weights=False`, self-attention on the same input. Ours: the whole `NeuroGameAttention(768, 12)`,
default preset, projections and W_O included. The two do not do the same: ours pools (one vector per
sequence), self-attention mixes (one per token). So beside each row stand the one-query pooling form
of MHA (one learned query per sequence) and `scaled_dot_product_attention` alone, without projections.

`run` returns plain numbers, `table` and `figure` show them; the command line only calls these.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Group, RenderableType
from rich.table import Table
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from neurogame._common.extras import need
from neurogame._common.writing import save_figure
from neurogame.about import machine
from neurogame.attention import NeuroGameAttention
from neurogame_bench import self_attention
from neurogame_bench.self_attention import attention_alone, timed_pass
from neurogame_bench.timing import Progress, Run, interleaved, peak_memory

DIM, HEADS = 768, 12
# batch, tokens, couplings, with backward, target (ratio to MHA), as they were set before the work began
CASES: tuple[tuple[int, int, str, bool, float | None], ...] = (
    (8, 128, "linear", False, 0.6),
    (8, 128, "linear", True, 1.0),
    (8, 128, "pairs", False, 1.0),
    (8, 128, "pairs", True, 1.5),
    (8, 32, "linear", False, 1.0),
    (8, 32, "linear", True, None),
    (2, 128, "pairs", True, None),
)
LENGTHS = (1024, 2048, 4096, 8192, 16384)
TARGET_FASTER = {4096: 4.0, 16384: 15.0}
TARGET_GROWTH, TARGET_MEMORY_GROWTH, TARGET_MEMORY, TARGET_MODEL = 2.3, 2.2, 300e6, 1.10


class _Contestants:
    """The modules of one comparison, and what each does with an input."""

    def __init__(self, couplings: str) -> None:
        torch.manual_seed(0)
        self.ours = NeuroGameAttention(DIM, HEADS, couplings=couplings).eval()
        self.mha = nn.MultiheadAttention(DIM, HEADS, batch_first=True).eval()
        self.query = nn.Parameter(torch.randn(1, 1, DIM) * DIM**-0.5)

    def forwards(self) -> dict[str, Callable[[Tensor], Tensor]]:
        """Name → function of x."""
        return {
            "neurogame": lambda x: self.ours(x).output,
            "MHA": lambda x: self.mha(x, x, x, need_weights=False)[0],
            "MHA, one query": lambda x: self.mha(self.query.expand(len(x), 1, DIM), x, x, need_weights=False)[0],
            "SDPA alone": attention_alone,
        }

    def runs(self, x: Tensor, *, backward: bool) -> dict[str, Run]:
        """Name → call to be timed: forward without gradients, or forward and backward."""
        learned = (*self.ours.parameters(), *self.mha.parameters(), self.query)
        return {name: timed_pass(forward, x, learned, backward=backward) for name, forward in self.forwards().items()}


def run(*, repetitions: int = 15, lengths: tuple[int, ...] = LENGTHS, progress: Progress = print) -> dict[str, Any]:
    """All rows: cases at batch 8, long sequences, memory, a whole model. Some minutes on two cores.

        print(run(repetitions=3, lengths=(1024,))["cases"][0]["ratio"])

    Args:
        repetitions: interleaved, of each case.
        lengths: tokens of the long sequences.
        progress: called with a line on what is being done.

    Returns:
        JSON values: "machine", "operations", "cases", "long", "memory", "model".
    """
    rows = []
    for batch, tokens, couplings, backward, target in CASES:
        progress(f"batch {batch}, n = {tokens}, {couplings}, {'forward + backward' if backward else 'forward'}")
        x = torch.randn(batch, tokens, DIM, generator=torch.Generator().manual_seed(0))
        seconds = interleaved(_Contestants(couplings).runs(x, backward=backward), repetitions)
        rows.append(
            {
                "batch": batch,
                "tokens": tokens,
                "couplings": couplings,
                "pass": "forward + backward" if backward else "forward",
                **_ratios(seconds),
                "target": target,
            }
        )
    return {
        "machine": machine(),
        "repetitions": repetitions,
        "operations": [operations(8, 128), operations(8, 32), operations(1, 16384)],
        "cases": rows,
        "long": _long(lengths, progress),
        "memory": _memory(progress),
        "model": _model(repetitions, progress),
        "self_attention": self_attention.run(repetitions=repetitions, progress=progress),
    }


def _ratios(seconds: dict[str, float]) -> dict[str, float]:
    """Milliseconds of ours, and everything as a multiple of MHA."""
    reference = seconds["MHA"]
    out = {"ms": seconds["neurogame"] * 1e3, "MHA ms": reference * 1e3, "ratio": seconds["neurogame"] / reference}
    return out | {f"{name} ratio": s / reference for name, s in seconds.items() if name not in ("neurogame", "MHA")}


def _long(lengths: tuple[int, ...], progress: Progress) -> list[dict[str, Any]]:
    """Batch 1, forward, linear couplings: seconds, how many times faster than MHA, growth per doubling."""
    contestants = _Contestants("linear")
    rows: list[dict[str, Any]] = []
    for tokens in lengths:
        progress(f"batch 1, n = {tokens}")
        x = torch.randn(1, tokens, DIM, generator=torch.Generator().manual_seed(0))
        repetitions = 5 if tokens <= 4096 else 3
        seconds = interleaved(contestants.runs(x, backward=False), repetitions)
        # Growth must not depend on what MHA leaves in the caches: ours alone, again.
        alone = interleaved({"neurogame": contestants.runs(x, backward=False)["neurogame"]}, 9)["neurogame"]
        row: dict[str, Any] = {"tokens": tokens, **_ratios(seconds), "alone ms": alone * 1e3}
        row["times faster"] = 1.0 / row["ratio"]
        row["growth"] = row["alone ms"] / rows[-1]["alone ms"] if rows else None
        row["target"] = TARGET_FASTER.get(tokens)
        rows.append(row)
    return rows


_SETUP = """
import torch
from neurogame import NeuroGameAttention
module = NeuroGameAttention({dim}, {heads}, couplings="{couplings}").eval()
def run(x, backward):
    with torch.set_grad_enabled(backward):
        out = module(x).output
        if backward:
            out.sum().backward()
warm, real = (torch.randn(1, 16, {dim}), {backward}), (torch.randn({batch}, {tokens}, {dim}), {backward})
"""


def _peak(batch: int, tokens: int, couplings: str, *, backward: bool) -> int | None:
    setup = _SETUP.format(dim=DIM, heads=HEADS, couplings=couplings, batch=batch, tokens=tokens, backward=backward)
    return peak_memory(setup)


def _memory(progress: Progress) -> dict[str, int | None]:
    """Peak extra bytes: pairs with backward, and the growth of the linear mode."""
    progress("peak memory, in processes of their own")
    return {
        "pairs, forward + backward, batch 8, n = 128": _peak(8, 128, "pairs", backward=True),
        "linear, forward, batch 1, n = 8192": _peak(1, 8192, "linear", backward=False),
        "linear, forward, batch 1, n = 16384": _peak(1, 16384, "linear", backward=False),
    }


def _model(repetitions: int, progress: Progress) -> dict[str, float]:
    """MiniLM-size encoder (6 × 384) + NeuroGame head against the same encoder + mean pooling; batch 32, n = 32."""
    progress("whole model, batch 32, n = 32")
    torch.manual_seed(0)
    sizes = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    encoder = BertModel(sizes, add_pooling_layer=False).eval()
    head, classifier = NeuroGameAttention(384, 12).eval(), nn.Linear(384, 3)
    ids = torch.randint(1000, 30000, (32, 32), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)

    def ours() -> None:
        with torch.no_grad():
            classifier(head(encoder(ids, mask).last_hidden_state, mask).output)

    def mean() -> None:
        with torch.no_grad():
            classifier(encoder(ids, mask).last_hidden_state.mean(1))

    seconds = interleaved({"neurogame": ours, "mean pooling": mean}, repetitions)
    return {
        "ms": seconds["neurogame"] * 1e3,
        "mean pooling ms": seconds["mean pooling"] * 1e3,
        "ratio": seconds["neurogame"] / seconds["mean pooling"],
    }


def operations(batch: int, tokens: int, samples: int = 24, iterations: int = 8) -> dict[str, float]:
    """Multiply–adds of a forward pass, in millions: what bounds the ratios above.

    Products with 4 probes × 6 power iterations count as 24 products of the coupling operator.
    """
    rows, d = batch * HEADS, DIM // HEADS
    project = batch * tokens * DIM * DIM
    attention = {"projections": 4 * project, "attention": 2 * rows * tokens**2 * d}
    toggles = 2 * 2 * rows * samples * tokens * d
    operator = 2 * rows * tokens * (d + samples)
    pairs = rows * samples * tokens * (tokens - 1) // 2
    ours = {
        "W_v": project,
        "gate and W_O": batch * tokens * DIM * HEADS + batch * DIM * DIM,
        "toggles": toggles,
        "power and mean-field iterations": (24 + iterations) * operator,
    }
    return {
        "batch": batch,
        "tokens": tokens,
        "MHA": sum(attention.values()) / 1e6,
        "linear": sum(ours.values()) / 1e6,
        **{f"linear: {name}": count / 1e6 for name, count in ours.items()},
        "pairs: square roots": pairs / 1e6,
    }


def table(results: dict[str, Any]) -> RenderableType:
    """The tables, with targets."""
    cases = _table("NeuroGame attention against MHA(768, 12), one run", results["cases"])
    long = _table("Long sequences: batch 1, forward, linear couplings", results["long"])
    other = Table(title="Memory and whole model", title_justify="left")
    for column in ("", "found", "target"):
        other.add_column(column, justify="left" if not column else "right")
    memory = results["memory"]
    for (name, size), target in zip(memory.items(), (f"≤ {TARGET_MEMORY / 1e6:.0f} MB", "", ""), strict=True):
        other.add_row(f"peak extra memory, {name}", "—" if size is None else f"{size / 1e6:.0f} MB", target)
    sizes = list(memory.values())
    if sizes[1] and sizes[2]:
        other.add_row("memory growth, 8 192 → 16 384", f"{sizes[2] / sizes[1]:.2f} ×", f"≤ {TARGET_MEMORY_GROWTH} ×")
    if results["long"][-1]["growth"]:
        other.add_row("time growth, last doubling", f"{results['long'][-1]['growth']:.2f} ×", f"≤ {TARGET_GROWTH} ×")
    other.add_row("encoder 6 × 384 + head against mean", f"{results['model']['ratio']:.2f} ×", f"≤ {TARGET_MODEL} ×")
    own = results["self_attention"]
    inside = _table("Inside a transformer: NeuroGameSelfAttention, ratios to MHA(768, 12) in one run", own["cases"])
    targets = ", ".join(f"{name} ≤ {target}" for name, target in self_attention.TARGETS.items())
    inside.caption, inside.caption_justify = f"targets: {targets}; memory ≤ {self_attention.TARGET_MEMORY}", "left"
    memory_inside = _table("Peak extra memory of forward + backward, MB", [_megabytes(row) for row in own["memory"]])
    return Group(cases, long, other, inside, memory_inside)


def _megabytes(row: dict[str, Any]) -> dict[str, Any]:
    """Bytes of every contestant as MB."""
    return {k: v / 1e6 if isinstance(v, int) and k not in ("batch", "tokens") else v for k, v in row.items()}


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    out = Table(title=title, title_justify="left")
    for name in rows[0]:
        out.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        out.add_row(*(_cell(value) for value in row.values()))
    return out


def _cell(value: Any) -> str:
    if value is None:
        return "—"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def figure(results: dict[str, Any], path: Path) -> None:
    """Growth with the sequence length, and the ratios of the cases, side by side."""
    fig = need("matplotlib.figure", "bench").Figure(figsize=(11, 4.2), layout="constrained")
    left, right = fig.subplots(1, 2)
    n = [row["tokens"] for row in results["long"]]
    left.loglog(n, [row["alone ms"] for row in results["long"]], "o-", label="NeuroGame attention, linear")
    left.loglog(n, [row["MHA ms"] for row in results["long"]], "s--", label="MultiheadAttention")
    left.loglog(
        n, [row["MHA, one query ratio"] * row["MHA ms"] for row in results["long"]], "^:", label="MHA, one query"
    )
    left.set(xlabel="tokens", ylabel="milliseconds, batch 1, forward", title="Growth with the sequence length")
    left.set_xticks(n, [f"{k:,}" for k in n])
    left.minorticks_off()
    left.legend()
    cases = [row for row in results["cases"] if row["target"] is not None]
    labels = [f"{row['couplings']}, n = {row['tokens']}\n{row['pass']}" for row in cases]
    right.barh(labels, [row["ratio"] for row in cases], color="tab:blue", label="measured")
    right.plot([row["target"] for row in cases], labels, "k|", markersize=22, markeredgewidth=2, label="target")
    right.axvline(1.0, color="grey", linewidth=0.8)
    right.invert_yaxis()
    right.set(xlabel="time / MultiheadAttention", title="Batch 8, dim 768, 12 heads")
    right.legend(loc="lower right")
    save_figure(fig, path, dpi=130)
