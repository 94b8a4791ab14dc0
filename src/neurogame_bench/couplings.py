"""How accurate the linear-time couplings are: against exact pairs on the same draws, beside the sampling error.

For n tokens the relative Frobenius distance between J of `couplings="linear"` and J of `couplings="pairs"`
from the same coalitions (the error of the linear form), and between two pair estimates from different
coalitions, divided by √2 (the error of sampling with K coalitions at all). The linear form is good
enough where its error is below the second. Tokens are random with a common direction, cosine about ½
between any two, as contextual embeddings have it; with and without an anchor of length √n times theirs.
"""

from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from neurogame._common.extras import need
from neurogame._common.writing import save_figure
from neurogame.about import machine
from neurogame.couplings import LinearCoupling
from neurogame.values import estimate
from neurogame_bench.timing import Progress

LENGTHS = (8, 16, 32, 64, 128, 256, 512)
HEADS, DIM, SAMPLES = 4, 64, 24


def _distance(one: Tensor, two: Tensor) -> float:
    """Mean over heads of ‖one − two‖/‖two‖."""
    return float(((one - two).norm(dim=(-2, -1)) / two.norm(dim=(-2, -1))).mean())


def _errors(V: Tensor, anchor: Tensor | None, seed: int) -> tuple[float, float]:
    """(error of the linear form, error of sampling)."""
    with torch.no_grad():
        pairs = estimate(V, anchor=anchor, samples=SAMPLES, generator=seed).coupling
        other = estimate(V, anchor=anchor, samples=SAMPLES, generator=seed + 1000).coupling
        linear = estimate(V, anchor=anchor, samples=SAMPLES, couplings="linear", generator=seed).coupling
    assert isinstance(pairs, Tensor)
    assert isinstance(other, Tensor)
    assert isinstance(linear, LinearCoupling)
    return _distance(linear.to_dense(), pairs), _distance(other, pairs) / 2**0.5


def run(
    *, lengths: tuple[int, ...] = LENGTHS, repetitions: int = 5, seed: int = 0, progress: Progress = print
) -> dict[str, Any]:
    """Errors for each n, with and without an anchor: means over `repetitions` draws of tokens and coalitions.

        run(lengths=(8, 16), repetitions=2)["rows"]

    Args:
        lengths: numbers of tokens.
        repetitions: draws of each.
        seed: of the draws.
        progress: called with a line on what is being done.

    Returns:
        JSON values, a row for each n with and without an anchor.
    """
    rows = []
    for n in lengths:
        progress(f"n = {n}")
        for anchored in (False, True):
            errors = []
            for repetition in range(repetitions):
                g = torch.Generator().manual_seed(seed + repetition)
                V = torch.randn(1, HEADS, n, DIM, generator=g) + torch.randn(1, HEADS, 1, DIM, generator=g)
                anchor = torch.randn(1, HEADS, DIM, generator=g) * (2 * n) ** 0.5 if anchored else None
                errors.append(_errors(V, anchor, seed + repetition))
            linear, sampling = torch.tensor(errors).mean(0).tolist()
            rows.append({"tokens": n, "anchor": anchored, "linear form": linear, "sampling, K = 24": sampling})
    return {"machine": machine(), "heads": HEADS, "dim": DIM, "samples": SAMPLES, "seed": seed, "rows": rows}


def table(results: dict[str, Any]) -> Table:
    """One row per length and anchor."""
    out = Table(title="Relative error of the couplings", title_justify="left")
    for column in ("tokens", "anchor", "linear form", "sampling, K = 24"):
        out.add_column(column, justify="right")
    for row in results["rows"]:
        errors = (f"{100 * row[name]:.2f} %" for name in ("linear form", "sampling, K = 24"))
        out.add_row(str(row["tokens"]), "yes" if row["anchor"] else "no", *errors)
    return out


def figure(results: dict[str, Any], path: Path) -> None:
    """Both errors over n."""
    fig = need("matplotlib.figure", "bench").Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = fig.subplots()
    for anchored, marker in ((False, "o"), (True, "s")):
        rows = [row for row in results["rows"] if row["anchor"] == anchored]
        n, words = [row["tokens"] for row in rows], "with anchor" if anchored else "no anchor"
        axes.loglog(
            n, [row["linear form"] for row in rows], f"{marker}-", color="tab:blue", label=f"linear form, {words}"
        )
        axes.loglog(
            n, [row["sampling, K = 24"] for row in rows], f"{marker}--", color="tab:grey", label=f"sampling, {words}"
        )
    axes.set(xlabel="tokens", ylabel="relative error of J", title="Linear couplings against exact pairs")
    axes.set_xticks(n, [str(k) for k in n])
    axes.minorticks_off()
    axes.legend()
    save_figure(fig, path, dpi=130)
