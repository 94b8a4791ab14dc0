"""The fairness–sensitivity trade-off of the gate λ, which the paper's abstract promises, measured exactly.

    python benchmarks/tradeoff.py        # seconds; writes results/tradeoff.json

For x(λ) = λφ + (1−λ)β on norm games of n = 10 random tokens (dim 8, 200 games, enumeration, no
sampling):

- unfairness: |Σ_i x_i − v(N)|/v(N), the efficiency axiom's violation. 0 at λ = 1.
- sensitivity to noise: relative change ‖x′ − x‖/‖x‖ when every v(C), C ≠ ∅, gets independent normal
  noise of 5 % of v(N).
- local: Spearman correlation of x with the mean swing at half-size coalitions, where tokens are decisive.
- global: Spearman correlation of x with leaving one out, v(N) − v(N∖i).
"""

import torch
from common import Clock, save, show
from scipy.stats import spearmanr

from neurogame import exact

N, DIM, GAMES, SEED, NOISE = 10, 8, 200, 0, 0.05


def swings(table: torch.Tensor) -> torch.Tensor:
    """Mean of v(C∪i) − v(C) over contexts of (n−1)//2 players."""
    C = exact.all_coalitions(N)
    out = []
    for i in range(N):
        context = (~C[:, i] & (C.sum(-1) == (N - 1) // 2)).nonzero().squeeze(-1)
        out.append((table[:, context + (1 << i)] - table[:, context]).mean(-1))
    return torch.stack(out, dim=-1)


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    """Mean over games of Spearman's ρ."""
    return float(sum(spearmanr(x, y).statistic for x, y in zip(a.numpy(), b.numpy(), strict=True)) / len(a))


def main() -> None:
    """Run, print, save."""
    clock = Clock()
    g = torch.Generator().manual_seed(SEED)
    V = torch.randn(GAMES, N, DIM, generator=g, dtype=torch.float64)
    table = exact.value_table(V)
    noise = torch.randn(table.shape, generator=g, dtype=torch.float64) * NOISE * table[:, -1:]
    noise[:, 0] = 0.0
    phi, beta = exact.shapley(table), exact.banzhaf(table)
    phi_noise, beta_noise = exact.shapley(noise), exact.banzhaf(noise)  # values are linear in the game
    grand, local = table[:, -1], swings(table)
    everyone = (1 << N) - 1
    leave_one_out = torch.stack([table[:, everyone] - table[:, everyone - (1 << i)] for i in range(N)], dim=-1)
    rows = []
    for step in range(11):
        gate = step / 10
        x, change = gate * phi + (1 - gate) * beta, gate * phi_noise + (1 - gate) * beta_noise
        rows.append(
            {
                "λ": gate,
                "unfairness": float(((x.sum(-1) - grand).abs() / grand).mean()),
                "sensitivity to noise": float((change.norm(dim=-1) / x.norm(dim=-1)).mean()),
                "local (half-size swings)": correlation(x, local),
                "global (leave one out)": correlation(x, leave_one_out),
            }
        )
    show("x = λ·Shapley + (1−λ)·Banzhaf", rows)
    save("tradeoff", clock(), n=N, dim=DIM, games=GAMES, seed=SEED, noise=NOISE, rows=rows)


if __name__ == "__main__":
    main()
