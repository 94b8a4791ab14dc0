"""Short pairs, all coalitions: correlation of values and interactions, swing words that the game names."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from neurogame import exact
from neurogame._common.types import Tensor
from neurogame.data import Pair
from neurogame.explanation.removal import evaluate
from neurogame.grounding.coalitions import centred
from neurogame_bench.grounding.bench import Bench
from neurogame_bench.grounding.figures import figure, mean, moments, of_ratios, pearson, span
from neurogame_bench.study import Record

CORRELATED = ("Shapley", "Banzhaf", "Banzhaf pairs", "Shapley pairs")


def row(bench: Bench, pair: Pair, _: int) -> Record:
    """Moments of the game's values against the true ones, and swing words: (right, named, true)."""
    reading, game = bench.reading(pair)
    n, label = game.players, reading.prediction.label
    C, at = exact.all_coalitions(n), bench.nli.labels.index(label)
    answers = evaluate(reading, C).double()
    tables = [centred(logits)[:, at] for logits in (game.logits(C), answers)]
    i, j = torch.triu_indices(n, n, offset=1)
    values: dict[str, Callable[[Tensor], Tensor]] = {
        "Shapley": exact.shapley,
        "Banzhaf": exact.banzhaf,
        "Banzhaf pairs": lambda table: exact.interactions(table)[i, j],
        "Shapley pairs": lambda table: exact.interactions(table, index="shapley")[i, j],
    }
    without = (2**n - 1) ^ (1 << torch.arange(n))  # rows of the tables
    true = {reading.units.read[k] for k in (answers[without].argmax(-1) != at).nonzero().flatten().tolist()}
    swing = {}
    for name, check in (("unchecked", False), ("checked", True)):
        named = set(bench.explain(pair, check=check).swing)
        swing[name] = [len(named & true), len(named), len(true)]
    return {"words": n, "label": label, **{name: moments(*map(of, tables)) for name, of in values.items()}, **swing}


def summary(rows: Sequence[Record]) -> Record:
    """Correlations over all words of all pairs, and their means over pairs; precision and recall of swing words."""
    correlations = {}
    for name in CORRELATED:
        sums = np.array([row[name] for row in rows])
        correlations[name] = {"pooled": figure(sums, pearson), "mean over pairs": mean(pearson(sums).tolist())}
    swing = {}
    for name in ("unchecked", "checked"):
        sums = np.array([row[name] for row in rows], dtype=float)
        right, named, true = sums.sum(0).tolist()
        counts = {"right": int(right), "named": int(named), "true": int(true)}
        swing[name] = {**counts, "precision": figure(sums, of_ratios(0, 1)), "recall": figure(sums, of_ratios(0, 2))}
    words = [row["words"] for row in rows]
    return {"words": [min(words), max(words)], "correlations": correlations, "swing": swing}


def table(results: Record) -> list[Record]:
    """Correlations, then swing words."""
    rows = [
        {"what": name, "pooled": span(of["pooled"]), "mean over pairs": span(of["mean over pairs"])}
        for name, of in results["correlations"].items()
    ]
    return rows + [
        {
            "what": f"swing words, {name}: {of['right']} right of {of['named']} named, {of['true']} true",
            "pooled": f"precision {span(of['precision'], 2)}",
            "mean over pairs": f"recall {span(of['recall'], 2)}",
        }
        for name, of in results["swing"].items()
    ]
