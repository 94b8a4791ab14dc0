"""Spearman's ρ with second-order effects of deletion at the whole text."""

from collections.abc import Sequence

import numpy as np
import torch

from neurogame.data import Pair
from neurogame.evaluation.alignment import Array
from neurogame.explanation.removal import evaluate
from neurogame.grounding.coalitions import centred
from neurogame_bench.explanations.work import WORD_PAIRS
from neurogame_bench.faithfulness import interaction
from neurogame_bench.faithfulness.coalitions import left_out
from neurogame_bench.faithfulness.correlation import spearman
from neurogame_bench.grounding.bench import Bench
from neurogame_bench.grounding.figures import mean, span
from neurogame_bench.study import Record

DELTAS = ("J", "Δ")  # of the game: averaged over coalitions, and at the whole text


def row(bench: Bench, pair: Pair, place: int) -> Record:
    """ρ of the game's J and of its Δ at the whole text with Δ of the model, in probabilities and in logits."""
    reading, game = bench.reading(pair)
    n, at = game.players, bench.nli.labels.index(reading.prediction.label)
    pairs = interaction.word_pairs(n, WORD_PAIRS, seed=bench.seed + place)
    keep = np.concatenate([np.ones((1, n), dtype=bool), left_out(n), left_out(n, pairs)])
    C = torch.from_numpy(keep)
    answers = evaluate(reading, C).double()
    probabilities = (answers / bench.nli.temperature).softmax(-1)[:, at].numpy()
    logits, guessed = (centred(of)[:, at].numpy() for of in (answers, game.logits(C)))

    def delta(values: Array) -> Array:
        whole, alone, both = np.split(values, [1, 1 + n])
        return interaction.second_order(float(whole[0]), alone, both, pairs)

    J = bench.explain(pair, check=False).interactions
    assert J is not None
    read_words = list(reading.units.read)
    matrix = np.array(J)[np.ix_(read_words, read_words)]
    ours = {"J": np.array([matrix[i, j] for i, j in pairs]), "Δ": delta(guessed)}
    row: Record = {"words": n}
    for what, values in (("probability", probabilities), ("logit", logits)):
        effect = delta(values)
        row[what] = {name: spearman(scores, effect) for name, scores in ours.items()}
    return row


def summary(rows: Sequence[Record]) -> Record:
    """Mean ρ over pairs."""
    return {what: {of: mean([row[what][of] for row in rows]) for of in DELTAS} for what in ("probability", "logit")}


def table(results: Record) -> list[Record]:
    """ρ with Δ of the model."""
    names = {"J": "J of the game", "Δ": "Δ of the game at the whole text"}
    return [
        {"ρ with the model's Δ": names[of], **{what: span(results[what][of]) for what in ("probability", "logit")}}
        for of in DELTAS
    ]
