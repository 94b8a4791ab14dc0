"""Pairs with at most half of the words that keep the label when they alone are read."""

from collections.abc import Sequence

import torch

from neurogame.data import Pair
from neurogame.explanation.removal import evaluate
from neurogame_bench.grounding.bench import Bench
from neurogame_bench.grounding.figures import mean, span
from neurogame_bench.study import Record


def row(bench: Bench, pair: Pair, _: int) -> Record:
    """(words of the rationale, whether the model keeps its label of these alone), None where none is claimed."""
    reading, game = bench.reading(pair)
    units_read, at = reading.units.read, bench.nli.labels.index(reading.prediction.label)
    row: Record = {"words": game.players, "unchecked": None, "checked": None}
    for name, check in (("unchecked", False), ("checked", True)):
        ex = bench.explain(pair, check=check)
        if ex.rationale is not None:
            keep = torch.tensor([[i in ex.rationale for i in units_read]])
            kept = int(evaluate(reading, keep)[0].argmax()) == at  # in a pass of its own
            row[name] = [len(ex.rationale), kept]
    return row


def summary(rows: Sequence[Record]) -> Record:
    """Shares of pairs: with a rationale, that the model confirms, of at most half of the words; and how many words."""
    shares = {}
    for name in ("unchecked", "checked"):
        claims = [(row["words"], row[name]) for row in rows]
        shares[name] = {
            "claimed": mean([float(claim is not None) for _, claim in claims]),
            "kept": mean([float(claim[1]) for _, claim in claims if claim is not None]),
            "kept, at most half": mean(
                [float(claim is not None and claim[1] and 2 * claim[0] <= n) for n, claim in claims]
            ),
            "share of words": mean([claim[0] / n for n, claim in claims if claim is not None]),
            "words": mean([float(claim[0]) for _, claim in claims if claim is not None]),
        }
    return shares


def table(results: Record) -> list[Record]:
    """Unchecked, checked."""
    return [{"": name, **{what: span(of) for what, of in results[name].items()}} for name in ("unchecked", "checked")]
