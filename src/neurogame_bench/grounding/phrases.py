"""J of a modifier with its adjective: "not good" and "very good", which the paper says have opposite signs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from neurogame.data import Pair, PairDataset
from neurogame.evaluation.alignment import Array
from neurogame_bench.effects import WORDS, bootstrap, sign_test, together, verdict
from neurogame_bench.grounding.bench import Bench, precise
from neurogame_bench.grounding.figures import span
from neurogame_bench.phrases import INTENSIFIERS, NEGATORS, bare, phrases
from neurogame_bench.study import Record


def dataset(count: int) -> PairDataset:
    """`count` at most of the sentences of `neurogame_bench.phrases`, in random order."""
    every = [
        Pair(of.premise, of.hypothesis, None, {"modifier": of.modifier, "adjective": of.adjective}) for of in phrases()
    ]
    return PairDataset(tuple(every), "neurogame_bench.phrases", "generated").shuffled(0).take(count)


def row(bench: Bench, pair: Pair, _: int) -> Record:
    """J of the two words for the predicted label, and the mean of J over neighbours and over all pairs of words.

    In units of the mean |J| of the sentences; J centred over the labels, as what all logits share decides nothing.
    """
    reading, game = bench.reading(pair)
    every = precise(game).coupling
    J = (every - every.mean(0))[bench.nli.labels.index(reading.prediction.label)].numpy()
    where = reading.units
    words = [bare(where.names[i]) for i in where.read]
    sides = [where.sides[i] for i in where.read]
    apart = ~np.eye(len(words), dtype=bool)
    unit = float(np.abs(J[apart]).mean()) or 1.0
    a = next(
        k
        for k in range(len(words) - 1)
        if (words[k], words[k + 1]) == (pair.extras["modifier"], pair.extras["adjective"])
    )
    near = [J[k, k + 1] for k in range(len(words) - 1) if k != a and sides[k] == sides[k + 1]]
    return {
        "modifier": pair.extras["modifier"],
        "adjective": pair.extras["adjective"],
        "J": float(J[a, a + 1]) / unit,
        "neighbours": float(np.mean(near)) / unit if near else None,
        "all": float(J[apart].mean()) / unit,
    }


def summary(rows: Sequence[Record]) -> Record:
    """Of each modifier the mean over its adjectives with an interval, and whether the two signs are as claimed."""
    modifiers = {}
    for name in (*NEGATORS, *INTENSIFIERS):
        own = [row for row in rows if row["modifier"] == name]
        if own:
            modifiers[name] = _of([row["J"] for row in own], [row["adjective"] for row in own])
    claimed = [(modifiers[name], sign) for name, sign in (("not", -1), ("very", +1)) if name in modifiers]
    found = together(verdict((of["low"], of["high"]), sign) for of, sign in claimed) if len(claimed) == 2 else None
    near = [row for row in rows if row["neighbours"] is not None]
    return {
        "adjectives": len({row["adjective"] for row in rows}),
        "modifiers": modifiers,
        "neighbours": _of([row["neighbours"] for row in near], [row["adjective"] for row in near]),
        "all": _of([row["all"] for row in rows], [row["adjective"] for row in rows]),
        "found": None if found is None else WORDS[found],
    }


def _of(values: Sequence[float], clusters: Sequence[Any]) -> Record:
    """A mean; an adjective is one draw, whatever the frames."""
    array: Array = np.array(values, dtype=float)
    low, high = bootstrap(array, clusters)
    means = [float(np.mean(array[[c == name for c in clusters]])) for name in dict.fromkeys(clusters)]
    return {"value": float(array.mean()), "low": low, "high": high, "pairs": len(values), **sign_test(means)}


def table(results: Record) -> list[Record]:
    """One line for each modifier, and what other words have."""
    lines = {**results["modifiers"], "neighbours": results["neighbours"], "any two": results["all"]}
    return [
        {"words": name, "J": span(of, 2), "adjectives below 0": of["negative"], "above 0": of["positive"]}
        for name, of in lines.items()
    ]
