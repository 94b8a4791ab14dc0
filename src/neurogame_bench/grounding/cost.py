"""Processor time of an explanation over that of a prediction."""

import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from neurogame.data import Pair
from neurogame_bench.grounding.bench import Bench
from neurogame_bench.grounding.figures import span
from neurogame_bench.intervals import resampled
from neurogame_bench.study import Record

REPETITIONS = 3  # of the timing of a pair


def row(bench: Bench, pair: Pair, place: int) -> Record:
    """Processor and wall seconds of a prediction, an unchecked and a checked explanation, in turn; medians."""
    contestants: dict[str, Callable[[], object]] = {
        "predict": lambda: bench.nli.predict(pair.premise, pair.hypothesis),
        "unchecked": lambda: bench.explain(pair, check=False),
        "checked": lambda: bench.explain(pair, check=True),
    }
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for repetition in range(REPETITIONS + (place == 0)):
        for name, run in contestants.items():
            began = time.process_time(), time.perf_counter()
            run()
            if repetition or place:  # the first round of the first pair is the warm-up
                seconds[name].append((time.process_time() - began[0], time.perf_counter() - began[1]))
    return {name: [median(each) for each in zip(*times, strict=True)] for name, times in seconds.items()}


def summary(rows: Sequence[Record]) -> Record:
    """Median over pairs of the ratio to the prediction of the same pair, and median seconds."""
    results: Record = {"one run": True, "repetitions": REPETITIONS}
    results["processor seconds"] = {
        name: median(row[name][0] for row in rows) for name in ("predict", "unchecked", "checked")
    }
    for name in ("unchecked", "checked"):
        for clock, k in (("processor", 0), ("wall", 1)):
            ratios = np.array([row[name][k] / row["predict"][k] for row in rows])
            low, high = resampled(lambda values: float(np.median(values)), ratios)
            value = float(np.median(ratios))
            results.setdefault(name, {})[clock] = {"value": value, "low": low, "high": high, "pairs": len(rows)}
    return results


def table(results: Record) -> list[Record]:
    """Unchecked, checked."""
    return [
        {
            "× predict, one run": name,
            "processor": span(results[name]["processor"], 2),
            "wall": span(results[name]["wall"], 2),
            "milliseconds": 1000 * results["processor seconds"][name],
        }
        for name in ("unchecked", "checked")
    ]
