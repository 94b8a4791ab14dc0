"""How fast each estimator approaches its limit, and how far that limit is from the classical value.

    python benchmarks/estimators.py        # about a minute; writes results/estimators.json

Norm games of n = 10 random tokens (dim 8, 64 games), γ = .25, 1 and 4 for the Gibbs weights. For
K = 8 … 2048 the mean relative error against the estimator's own limit (exact, by enumeration) gives
the slope of log error over log K, −½ for plain Monte Carlo; beside it the relative error against the
classical Shapley and Banzhaf values, which is what a user wants. shapiq's permutation sampling runs
on the same games with the same number of evaluations.
"""

from typing import Any

import numpy as np
import torch
from common import Clock, progress, save, show
from shapiq.approximator import PermutationSamplingSV

from neurogame import exact, values

N, DIM, GAMES, SEED = 10, 8, 64, 0
BUDGETS = (8, 32, 128, 512, 2048)
GAMMAS = (0.25, 1.0, 4.0)


def relative(found: torch.Tensor, truth: torch.Tensor) -> float:
    """Mean over games of ‖found − truth‖/‖truth‖."""
    return float(((found - truth).norm(dim=-1) / truth.norm(dim=-1)).mean())


def slope(errors: list[float]) -> float:
    """Least-squares slope of log error over log K."""
    return float(np.polyfit(np.log(BUDGETS), np.log(errors), 1)[0])


def curve(
    V: torch.Tensor, table: torch.Tensor, estimator: values.Estimator, tilt: float | None
) -> list[dict[str, Any]]:
    """Two rows, Shapley and Banzhaf, with errors at every budget."""
    classical = {"shapley": exact.shapley(table), "banzhaf": exact.banzhaf(table)}
    limits = {"shapley": exact.shapley(table, tilt), "banzhaf": exact.banzhaf(table, tilt)}
    if estimator == "algorithm1":
        limits["shapley"] = limits["banzhaf"]  # E1: dividing by p cancels the permutation law
    found = [values.estimate(V, samples=K, tilt=tilt, estimator=estimator, couplings="none") for K in BUDGETS]
    rows = []
    for kind in ("shapley", "banzhaf"):
        own = [relative(getattr(f, kind), limits[kind]) for f in found]
        real = [relative(getattr(f, kind), classical[kind]) for f in found]
        ess = float(getattr(found[-1], f"{kind}_ess").mean()) / BUDGETS[-1]
        row: dict[str, Any] = {"estimator": estimator, "tilt": tilt or "none", "value": kind, "slope": slope(own)}
        row |= {f"K={K}": e for K, e in zip(BUDGETS, real, strict=True)}
        rows.append({**row, "own limit, K=2048": own[-1], "ESS/K": ess})
    return rows


def permutation_sampling(tables: torch.Tensor, truth: torch.Tensor) -> dict[str, Any]:
    """shapiq's ApproShapley with K·(n + 1) evaluations of each game."""
    errors = []
    for K in BUDGETS:
        found = []
        for seed, table in enumerate(tables.numpy()):

            def game(C: np.ndarray, table: np.ndarray = table) -> np.ndarray:
                return np.atleast_1d(table[(np.asarray(C, dtype=np.int64) << np.arange(N)).sum(-1)])

            estimate = PermutationSamplingSV(n=N, random_state=seed).approximate(budget=K * (N + 1), game=game)
            found.append([float(estimate[(i,)]) for i in range(N)])
        errors.append(relative(torch.tensor(found, dtype=torch.float64), truth))
        progress(f"shapiq K={K} done")
    row: dict[str, Any] = {
        "estimator": "shapiq permutations",
        "tilt": "none",
        "value": "shapley",
        "slope": slope(errors),
    }
    return {
        **row,
        **{f"K={K}": e for K, e in zip(BUDGETS, errors, strict=True)},
        "own limit, K=2048": errors[-1],
        "ESS/K": 1.0,
    }


def main() -> None:
    """Run, print, save."""
    clock = Clock()
    V = torch.randn(GAMES, 1, N, DIM, generator=torch.Generator().manual_seed(SEED), dtype=torch.float64)
    table = exact.value_table(V)
    rows = curve(V, table, "paired", None)
    for gamma in GAMMAS:
        rows += curve(V, table, "algorithm1", gamma)
    for gamma in GAMMAS:
        rows += curve(V, table, "paired", gamma)
    rows.append(permutation_sampling(table[:, 0], exact.shapley(table[:, 0])))
    show("Relative error against the classical value, by budget; slope against the estimator's own limit", rows)
    save("estimators", clock(), n=N, dim=DIM, games=GAMES, seed=SEED, rows=rows)


if __name__ == "__main__":
    main()
