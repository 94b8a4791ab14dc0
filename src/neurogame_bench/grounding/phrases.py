"""J of a modifier with its adjective: "not good" and "very good", which the paper says have opposite signs."""

from collections.abc import Sequence

from neurogame.data import Pair, PairDataset
from neurogame_bench.effects import WORDS, clustered, together, verdict
from neurogame_bench.grounding.bench import Bench, precise
from neurogame_bench.grounding.figures import span
from neurogame_bench.phrases import INTENSIFIERS, NEGATORS, coupled, phrases
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
    words, sides = ([column[i] for i in where.read] for column in (where.names, where.sides))
    return coupled(pair.extras["modifier"], pair.extras["adjective"], words, sides, J)


def summary(rows: Sequence[Record]) -> Record:
    """Of each modifier the mean over its adjectives with an interval, and whether the two signs are as claimed."""
    modifiers = {}
    for name in (*NEGATORS, *INTENSIFIERS):
        own = [row for row in rows if row["modifier"] == name]
        if own:
            modifiers[name] = _of(own, "J")
    claimed = [(modifiers[name], sign) for name, sign in (("not", -1), ("very", +1)) if name in modifiers]
    found = together(verdict((of["low"], of["high"]), sign) for of, sign in claimed) if len(claimed) == 2 else None
    return {
        "adjectives": len({row["adjective"] for row in rows}),
        "modifiers": modifiers,
        "neighbours": _of(rows, "neighbours"),
        "all": _of(rows, "all"),
        "found": None if found is None else WORDS[found],
    }


def _of(rows: Sequence[Record], name: str) -> Record:
    """The mean of a column; an adjective is one draw, whatever the frames."""
    found = clustered([row[name] for row in rows], [row["adjective"] for row in rows])
    low, high = found.pop("interval")
    return {"value": found.pop("mean"), "low": low, "high": high, "pairs": found.pop("n"), **found}


def table(results: Record) -> list[Record]:
    """One line for each modifier, and what other words have."""
    lines = {**results["modifiers"], "neighbours": results["neighbours"], "any two": results["all"]}
    return [
        {"words": name, "J": span(of, 2), "adjectives below 0": of["negative"], "above 0": of["positive"]}
        for name, of in lines.items()
    ]
