"""Is a freshly initialised layer alive? Spread of α, convergence and response to couplings, by length and input.

    python benchmarks/alive.py        # a minute; writes results/alive.json

NeuroGameAttention(768, 12) with random weights on random layer-normed tokens: independent, or with a
common direction of strength 1 and 3 (cosine between tokens about 0, .5 and .9; contextual embeddings
lie between). The `paper` preset stands beside the default up to n = 128.
"""

from typing import Any

import torch
from common import Clock, progress, save, show
from scipy.stats import spearmanr

from neurogame import NeuroGameAttention

DIM, HEADS, BATCH = 768, 12, 8


def tokens(n: int, shared: float) -> torch.Tensor:
    """Layer-normed tokens with a common direction."""
    g = torch.Generator().manual_seed(n)
    x = torch.randn(BATCH, n, DIM, generator=g) + shared * torch.randn(1, 1, DIM, generator=g)
    return torch.nn.functional.layer_norm(x, (DIM,))


def row(preset: str, n: int, shared: float) -> dict[str, Any]:
    """One fresh layer, with its couplings and without."""
    torch.manual_seed(0)
    layer = NeuroGameAttention(DIM, HEADS, preset=preset).eval()
    silent = NeuroGameAttention(DIM, HEADS, preset=preset, couplings="none").eval()
    silent.load_state_dict(layer.state_dict(), strict=False)
    x = tokens(n, shared)
    with torch.no_grad():
        found, without = layer(x), silent(x)
    alpha, state = found.alpha, found.spin_state
    ranks = [spearmanr(a, f).statistic for a, f in zip(alpha.reshape(-1, n), found.field.reshape(-1, n), strict=True)]
    return {
        "preset": preset,
        "tokens": n,
        "shared": shared,
        "sd of α": float(alpha.std(-1).mean()),
        "share below ½": float((alpha < 0.5).double().mean()),
        "rank corr. with field": float(sum(ranks) / len(ranks)),
        "change by couplings": float((alpha - without.alpha).abs().mean()),
        "residual < 1e-3": float((state.residual < 1e-3).double().mean()),
        "iterations": float(state.iterations.double().mean()),
        "ρ/γ mean": float(state.spectral_radius.mean()),
        "ρ/γ max": float(state.spectral_radius.max()),
    }


def main() -> None:
    """Run, print, save."""
    clock, rows = Clock(), []
    for preset, lengths in (("default", (16, 32, 64, 128, 256, 512)), ("paper", (16, 64, 128))):
        for n in lengths:
            progress(f"{preset}, n = {n}")
            rows += [row(preset, n, shared) for shared in (0.0, 1.0, 3.0)]
    show("A fresh layer", rows)
    save("alive", clock(), dim=DIM, heads=HEADS, batch=BATCH, rows=rows)


if __name__ == "__main__":
    main()
