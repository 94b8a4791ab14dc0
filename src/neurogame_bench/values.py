"""Estimator quality per budget: Shapley values against exact enumeration, shapiq and Captum, on the same games.

`run` measures; `table` and `figure` (in `values_view`) show the results. The games are norm games
v(C) = ‖Σ_{i∈C} V_i‖ of n random tokens, V ~ N(0, 1) in float64, small enough that all 2ⁿ coalitions give the
exact Shapley values φ.
Every method gets budgets of K·(n + 1) evaluations of v, and is described by three numbers per budget:

- error — ‖φ̂ − φ‖₂/‖φ‖₂, mean over games and repetitions, each with draws of its own;
- evaluations — of v per game, counted where v is called. `estimate` calls no v: there it is K·(n + 1), the values
  behind φ̂. It also finds the Banzhaf indices from as many again, which the clock sees. `estimate_game` pays for
  both in evaluations, so that within the same budget its φ̂ has fewer than half the samples;
- seconds — wall time per game, median over the repetitions; within a round, all calls come in random order.
  Every call draws its coalitions anew, ours as well: without a generator, `estimate` would remember them.

The games of a batch share their draws, in `estimate` as in Captum: their errors rise and fall together, so batches
are repeated more often than single games.

All others get the same vectorised v(C), and what helps them: shapiq's permutation sampling in one batch instead of
five permutations at a time, KernelSHAP also with its complement pairing, approximators that are built before the
clock starts, Captum a whole permutation per forward call and a row in which it, too, solves a batch of games in
one call. SVARM and KernelSHAP never evaluate a coalition twice: from a budget of 2ⁿ on they enumerate.

Out of these come two comparisons with each of our rows at the reference budget (the K closest to 64):

- equal error — the seconds another method needs for our error, divided by our seconds. They are interpolated on
  its curve, log error over log seconds; where the measured budgets stop short of that error, on either side, its
  fit error ∝ 1/√evaluations with seconds ∝ evaluations is extended ("extrapolated"); where its enumeration was
  measured and is cheaper, that counts ("enumerated");
- equal time — its error at that measured budget whose seconds are closest to ours.
"""

import platform
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import count
from math import exp, log
from statistics import fmean, median
from typing import Any, Literal

import numpy as np
import torch

from neurogame import exact
from neurogame._common.extras import need
from neurogame._common.types import Bool, Float, Tensor
from neurogame.game import value
from neurogame.values import estimate, estimate_game
from neurogame_bench.values_view import figure, table

__all__ = ["figure", "run", "table"]

ROUNDS = 5  # every method and budget is measured at least once per round
REFERENCE = 64  # the K at which methods are compared at equal error and equal time

Curve = list[dict[str, Any]]  # the rows of one method at one n, by rising budget
Calls = Literal["one", "batch", "large"]  # how many games go into one call


@dataclass(frozen=True)
class Solved:
    """The result of one call: φ̂ of every game in it, evaluations and time."""

    phi: Float[Tensor, "games tokens"]
    evaluations: int  # per game
    seconds: float  # per call


@dataclass(frozen=True)
class Trial:
    """One call, judged."""

    errors: list[float]  # of the games that all methods solve, whatever else is in the call
    evaluations: int  # per game
    seconds: float  # per game


@dataclass(frozen=True)
class Method:
    """A way to estimate φ. `solve` takes (V [games, tokens, dim], budget, seed); None is a budget too small for it."""

    name: str
    solve: Callable[[Tensor, int, int], Solved | None]
    calls: Calls
    repeats: int = 1  # per round
    is_ours: bool = False
    is_distinct: bool = False  # evaluates no coalition twice, so a budget of 2ⁿ is enumeration


class Counted:
    """v of one norm game, vectorised and counted, in the form each package wants it."""

    def __init__(self, V: Float[Tensor, "tokens dim"]) -> None:
        self.V = V
        self.evaluations = 0

    def __call__(self, members: Bool[Tensor, "... tokens"]) -> Float[Tensor, "..."]:
        """v(C) for each row of `members`."""
        self.evaluations += members[..., 0].numel()
        return value(self.V, members)

    def of_arrays(self, members: "np.ndarray[Any, np.dtype[np.bool_]]") -> "np.ndarray[Any, np.dtype[np.float64]]":
        """The same for shapiq: numpy, and one coalition may come without its axis."""
        values: np.ndarray[Any, np.dtype[np.float64]] = self(torch.from_numpy(np.atleast_2d(members))).numpy()
        return values


def _ours(V: Tensor, budget: int, seed: int) -> Solved | None:
    """The norm game's own path: one call for all games of V."""
    n = V.shape[-2]
    samples = budget // (n + 1) // 2 * 2  # an odd number would be rounded up, beyond the budget
    if samples == 0:
        return None
    start = time.perf_counter()
    phi = estimate(V, samples=samples, couplings="none", generator=seed).shapley
    return Solved(phi, samples * (n + 1), time.perf_counter() - start)


def _ours_any_game(V: Tensor, budget: int, seed: int) -> Solved | None:
    """The black box: K·(n + 1) evaluations for each of two laws, and v(∅) and v(N)."""
    n = V.shape[-2]
    samples = (budget - 2) // (2 * (n + 1)) // 2 * 2
    if samples == 0:
        return None
    v = Counted(V[0])
    start = time.perf_counter()
    phi = estimate_game(v, n, samples=samples, couplings="none", generator=seed).shapley
    return Solved(phi.unsqueeze(0), v.evaluations, time.perf_counter() - start)


def _shapiq(approximator: str, approximate: dict[str, Any], **settings: Any) -> Callable[[Tensor, int, int], Solved]:
    """One of shapiq's approximators; `approximate` is what its method of that name gets besides budget and game."""
    kind = getattr(need("shapiq.approximator", "bench"), approximator)

    def solve(V: Tensor, budget: int, seed: int) -> Solved:
        n = V.shape[-2]
        v = Counted(V[0])
        ready = kind(n=n, random_state=seed, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "not all budget is required": from 2ⁿ on, and that is meant
            start = time.perf_counter()
            values = ready.approximate(budget=budget, game=v.of_arrays, **approximate)
            seconds = time.perf_counter() - start
        return Solved(V.new_tensor([[float(values[(i,)]) for i in range(n)]]), v.evaluations, seconds)

    return solve


def _captum(V: Tensor, budget: int, seed: int) -> Solved | None:
    """Captum's permutation sampling: V's games are the examples, a coalition is a mask of ones on the baseline zero."""
    games, n = V.shape[:2]
    samples = (budget - 1) // n  # n evaluations per permutation, one for the baseline
    if samples == 0:
        return None
    evaluations = 0

    def forward(masks: Float[Tensor, "coalitions_games tokens"]) -> Float[Tensor, "coalitions_games"]:
        nonlocal evaluations
        evaluations += masks.shape[0] // games
        if games == 1:
            return value(V[0], masks.bool())
        return value(V, masks.bool().view(-1, games, n).transpose(0, 1)).mT.reshape(-1)

    ready = need("captum.attr", "bench").ShapleyValueSampling(forward)
    everyone = torch.ones(games, n, dtype=V.dtype)
    with torch.random.fork_rng(devices=[]):  # it draws from the global generator, which is the caller's
        torch.manual_seed(seed)
        start = time.perf_counter()
        phi = ready.attribute(everyone, baselines=0, n_samples=samples, perturbations_per_eval=n)
        seconds = time.perf_counter() - start
    return Solved(phi.to(V.dtype), evaluations, seconds)


def methods() -> tuple[Method, ...]:
    """Everything that is compared, ours first."""
    return (
        Method("neurogame, large batch", _ours, "large", 20, is_ours=True),
        Method("neurogame, batch", _ours, "batch", 20, is_ours=True),
        Method("neurogame, one game", _ours, "one", 4, is_ours=True),
        Method("neurogame estimate_game", _ours_any_game, "one", 4, is_ours=True),
        # a batch larger than the budget is one batch
        Method("shapiq permutations", _shapiq("PermutationSamplingSV", {"batch_size": 1 << 30}), "one"),
        Method("shapiq SVARM", _shapiq("SVARM", {}), "one", is_distinct=True),
        Method("shapiq KernelSHAP", _shapiq("KernelSHAP", {}), "one", is_distinct=True),
        Method("shapiq KernelSHAP, paired", _shapiq("KernelSHAP", {}, pairing_trick=True), "one", is_distinct=True),
        Method("captum", _captum, "one"),
        Method("captum, batch", _captum, "batch", 5),
        Method("captum, large batch", _captum, "large", 5),
    )


def run(
    *,
    players: Sequence[int] = (8, 10, 12, 14),
    dim: int = 16,
    games: int = 8,
    budgets: Sequence[int] = (16, 32, 64, 128, 256),
    seed: int = 0,
    batch: int = 64,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure everything; plain numbers, ready for JSON.

    Args:
        players: the n of the games.
        dim: of the tokens.
        games: random games per n; each is solved by itself, and all of them in one call ("batch").
        budgets: the K of the budgets K·(n + 1).
        seed: of games and draws.
        batch: games in one call of the rows "large batch", as a transformer layer has sequences × heads of them;
            its first `games` are the same as everywhere, and the error is theirs.
        progress: called with a line on what was done.

    The number of threads is the caller's.
    """
    compared = methods()
    budgets = sorted(budgets)
    rows: list[dict[str, Any]] = []
    enumeration: list[dict[str, Any]] = []
    for n in players:
        V = torch.randn(max(games, batch), n, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        measured, enumerated = _measure(V, compared, {"one": games, "batch": games, "large": batch}, budgets, seed)
        rows += measured
        enumeration.append(enumerated)
        progress(f"n = {n} done")
    K = min(budgets, key=lambda k: abs(log(k / REFERENCE)))
    return {
        "machine": _machine(),
        "settings": {
            "players": list(players),
            "dim": dim,
            "games": games,
            "batch": batch,
            "budgets": list(budgets),
            "seed": seed,
            "rounds": ROUNDS,
            "reference K": K,
        },
        "methods": [m.name for m in compared],
        "ours": [m.name for m in compared if m.is_ours],
        "rows": rows,
        "exact": enumeration,
        "equal error": [_equal_error(*pair) for pair in _pairs(rows, compared, K)],
        "equal time": [_equal_time(*pair) for pair in _pairs(rows, compared, K)],
    }


def _machine() -> dict[str, Any]:
    """What a reader needs to place the figures."""
    packages = ("neurogame", "torch", "numpy", "shapiq", "captum")
    return {
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in packages},
    }


def _measure(
    V: Tensor, compared: Sequence[Method], sizes: dict[Calls, int], budgets: Sequence[int], seed: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """All methods on the games V of one n: a row per method and budget, and what exact enumeration takes."""
    n = V.shape[-2]
    truth = exact.shapley(exact.value_table(V[: sizes["one"]]))
    seeds = count(seed * 1_000_000)  # no two calls share their draws
    order = torch.Generator().manual_seed(seed)
    trials_of: dict[tuple[str, int], list[Trial]] = {(method.name, K): [] for method in compared for K in budgets}
    whole: dict[Calls, list[float]] = {calls: [] for calls in sizes}
    for method in compared:  # what the first call of a package does once is not its speed
        method.solve(V[:1], budgets[0] * (n + 1), seed)
    for _ in range(ROUNDS):
        for calls, size in sizes.items():
            for block in V[:size].split(1 if calls == "one" else size):
                start = time.perf_counter()
                exact.shapley(exact.value_table(block))
                whole[calls].append((time.perf_counter() - start) / len(block))
        calls_due = [(K, method) for K in budgets for method in compared for _ in range(method.repeats)]
        for which in torch.randperm(len(calls_due), generator=order).tolist():
            K, method = calls_due[which]
            trials_of[method.name, K] += _solve(V[: sizes[method.calls]], truth, method, K * (n + 1), seeds)
    rows = []
    for (name, K), trials in trials_of.items():
        if not trials:
            continue
        evaluations = max(trial.evaluations for trial in trials)
        rows.append(
            {
                "n": n,
                "method": name,
                "K": K,
                "budget": K * (n + 1),
                "evaluations": evaluations,
                "error": fmean(error for trial in trials for error in trial.errors),
                "seconds": median(trial.seconds for trial in trials),
                "enumerated": evaluations == 1 << n and any(m.name == name and m.is_distinct for m in compared),
            }
        )
    seconds = {f"seconds, {calls}": median(times) for calls, times in whole.items()}
    return rows, {"n": n, "evaluations": 1 << n, **seconds}


def _solve(V: Tensor, truth: Tensor, method: Method, budget: int, seeds: Iterator[int]) -> Iterator[Trial]:
    """Call by call; nothing where the budget does not suffice. V may hold more games than `truth`, which come first."""
    size = 1 if method.calls == "one" else len(V)
    for block, phi in zip(V.split(size), truth.split(size), strict=False):
        solved = method.solve(block, budget, next(seeds))
        if solved is not None:
            errors = (solved.phi[: len(phi)] - phi).norm(dim=-1) / phi.norm(dim=-1)
            yield Trial(errors.tolist(), solved.evaluations, solved.seconds / len(block))


def _pairs(
    rows: list[dict[str, Any]], compared: Sequence[Method], K: int
) -> Iterator[tuple[dict[str, Any], str, Curve]]:
    """Each row of ours at the reference budget, with each other method's name and curve at that n."""
    for own in rows:
        if own["K"] != K or not any(m.is_ours and m.name == own["method"] for m in compared):
            continue
        for other in compared:
            curve = [row for row in rows if row["method"] == other.name and row["n"] == own["n"]]
            if curve and not other.is_ours:
                yield own, other.name, curve


def _equal_error(own: dict[str, Any], against: str, curve: Curve) -> dict[str, Any]:
    """How many times faster `own` is than the other method at the error of `own`."""
    seconds, how = seconds_for(own["error"], curve)
    return {
        "n": own["n"],
        "ours": own["method"],
        "against": against,
        "error": own["error"],
        "our seconds": own["seconds"],
        "their seconds": seconds,
        "times faster": seconds / own["seconds"],
        "how": how,
    }


def seconds_for(error: float, curve: Curve) -> tuple[float, str]:
    """The seconds at which a curve reaches an error, and how they were found."""
    sampled = [row for row in curve if not row["enumerated"]]
    whole = min((row["seconds"] for row in curve if row["enumerated"]), default=float("inf"))
    seconds, how = _on_curve(error, sampled) if sampled else (float("inf"), "interpolated")
    return (whole, "enumerated") if whole <= seconds else (seconds, how)


def _on_curve(error: float, sampled: Curve) -> tuple[float, str]:
    """`seconds_for` where no budget enumerates; only rows that no other beats in both error and seconds count."""
    front: Curve = []
    for row in sorted(sampled, key=lambda row: float(row["seconds"])):
        if not front or row["error"] < front[-1]["error"]:
            front.append(row)
    first, last = front[0], front[-1]
    if last["error"] <= error <= first["error"]:
        x = [log(row["error"]) for row in reversed(front)]
        y = [log(row["seconds"]) for row in reversed(front)]
        return exp(float(np.interp(log(error), x, y))), "interpolated"
    # log error = log c − ½ log evaluations, with c from all of the curve: a single point is noisy
    log_c = fmean(log(row["error"]) + 0.5 * log(row["evaluations"]) for row in sampled)
    evaluations = exp(2 * (log_c - log(error)))
    if error < last["error"]:
        return last["seconds"] * max(1.0, evaluations / last["evaluations"]), "extrapolated"
    return first["seconds"] * min(1.0, evaluations / first["evaluations"]), "extrapolated"


def _equal_time(own: dict[str, Any], against: str, curve: Curve) -> dict[str, Any]:
    """The other method's error where it takes about as long as `own`."""
    near = min(curve, key=lambda row: abs(log(row["seconds"] / own["seconds"])))
    return {
        "n": own["n"],
        "ours": own["method"],
        "against": against,
        "our error": own["error"],
        "our seconds": own["seconds"],
        "their K": near["K"],
        "their error": near["error"],
        "their seconds": near["seconds"],
    }
