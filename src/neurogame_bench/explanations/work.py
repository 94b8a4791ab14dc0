"""What `explanations` asks of the model, step by step; a step's record is plain values, to be kept as JSON.

METHOD        scores per word of each pair: for the predicted label, for the gold one where people marked words
              (AP needs them), with other seeds (stability), and interactions of some pairs of words
deletion      the inputs that all rows of a pair look at, each evaluated once, in one go; summands of every metric, of
              some pairs also those of each method's degraded copy
timing        seconds of each method, in turn on each pair, after a warm-up; the prediction alone beside them
enumeration   method "input" from half of the coalitions, and from all of them
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from neurogame._common.records import plain
from neurogame.data import Pair
from neurogame.data.removal import Mode
from neurogame.evaluation.alignment import Array, Booleans
from neurogame.explanation import Explanation, removal
from neurogame.explanation.reading import Reading, read
from neurogame.nli import NLI
from neurogame_bench import intervals
from neurogame_bench.explanations.cases import (
    FEWEST,
    MOST,
    Sample,
    Step,
    Work,
    explain,
    is_short,
    sides_of,
    words_of,
)
from neurogame_bench.faithfulness import baselines, interaction, judging
from neurogame_bench.faithfulness.coalitions import Answers, left_out
from neurogame_bench.faithfulness.correlation import spearman
from neurogame_bench.faithfulness.degradation import degraded

Record = dict[str, Any]
SEEDS = 3  # runs that stability compares
WORD_PAIRS = 60  # pairs of words of each pair whose interactions are compared
_CHECKS = ("efficiency_gap", "residual", "iterations", "converged")


def perform(nli: NLI, work: Work, step: Step, made: Mapping[str, Sequence[Record]]) -> Record:
    """Perform a step.

    Args:
        nli: the model.
        work: what is to be done.
        step: a part of it.
        made: entries of the methods on the same pairs, for the step "deletion".

    Returns:
        JSON values, with "seconds".
    """
    began = time.perf_counter()
    sample = work.sample(step.sample)
    match step.row:
        case "deletion":
            content = deletion(nli, work, sample, step, made)
        case "timing":
            content = timing(nli, sample.data[: step.stop], work.methods, work.seed)
        case "enumeration":
            short = [pair for pair in sample.data if is_short(pair)]
            content = {"pairs": [enumeration(nli, pair, work.seed) for pair in short[: step.stop]]}
        case method:
            content = {"pairs": [entry(nli, sample, step, method, i, work.seed) for i in range(step.start, step.stop)]}
    whole: Record = plain({**content, "seconds": time.perf_counter() - began})  # NaN is None
    return whole


# --- a method on a pair ---------------------------------------------------------------------------------------------


def entry(nli: NLI, sample: Sample, step: Step, method: str, place: int, seed: int) -> Record:
    """What a method says of a pair, or why it cannot."""
    pair = sample.data[place]
    try:
        ex = explain(nli, pair, method, seed)
        record = {
            "place": place,
            "read": _read(ex),
            "scores": _scores(ex),
            "passes": ex.diagnostics["encoder_passes"],
            "checks": {name: ex.diagnostics[name] for name in _CHECKS if name in ex.diagnostics},
        }
        if sample.marks[place]:
            known, other = pair.label in nli.labels, ex.target not in (None, pair.label)
            again = explain(nli, pair, method, seed, target=pair.label) if known and other else ex
            record["of_gold"] = _scores(again) if known else None
            if again.involvement is not None:
                record["involvement"] = [again.involvement[i] for i in _read(again)]
        if place < step.upto("stability"):
            record["again"] = [_scores(explain(nli, pair, method, seed + k)) for k in range(1, SEEDS)]
        if place < step.upto("interactions") and ex.interactions is not None:
            i, j = np.array(couples(len(record["read"]), seed + place), dtype=np.int64).reshape(-1, 2).T
            record["interactions"] = _matrix(ex)[i, j].tolist()
    except ValueError as error:
        return {"place": place, "error": " ".join(str(error).split())}
    return record


def couples(n: int, seed: int) -> list[tuple[int, int]]:
    """The pairs of words whose interactions are compared."""
    return interaction.word_pairs(n, WORD_PAIRS, seed=seed)


def _read(ex: Explanation) -> list[int]:
    unread = set(ex.diagnostics["unread"])
    return [i for i in range(len(ex.words)) if i not in unread]


def _scores(ex: Explanation) -> list[float]:
    return [ex.scores[i] for i in _read(ex)]


def _matrix(ex: Explanation) -> Array:
    matrix: Array = np.array(ex.interactions, dtype=float)[np.ix_(_read(ex), _read(ex))]
    return matrix


# --- deletion -------------------------------------------------------------------------------------------------------


def deletion(nli: NLI, work: Work, sample: Sample, step: Step, made: Mapping[str, Sequence[Record]]) -> Record:
    """Summands of every metric, row and pair, and how many inputs were evaluated."""
    lines: list[Record] = []
    passes = 0
    for place in range(step.start, step.stop):
        by_row = {row: e for row, rows in made.items() for e in rows if e["place"] == place and "error" not in e}
        if by_row:
            reading = read(nli, sample.data[place].premise, sample.data[place].hypothesis, "word")
            rows, copies = _judged(reading, sample.data[place], work, step, place, by_row)
            lines += [
                {"place": place, "row": row, "lines": _listed(judged)}
                | ({"degraded": _listed(copies[row])} if row in copies else {})
                for row, judged in rows.items()
            ]
            passes += reading.passes.encoder
    return {"pairs": lines, "passes": passes}


def _listed(rows: judging.Rows) -> Record:
    return {name: line.tolist() for name, line in rows.items()}


def _judged(
    reading: Reading, pair: Pair, work: Work, step: Step, place: int, by_row: Mapping[str, Record]
) -> tuple[dict[str, judging.Rows], dict[str, judging.Rows]]:
    """Deletion metrics of all rows of a pair, with faithfulness of interactions; the same of degraded copies."""
    nli, n = reading.nli, len(reading.units.read)
    subject = judging.Subject(
        whole=np.array([reading.prediction.probabilities[name] for name in nli.labels]),
        delete=answers(reading, "delete"),
        mask=answers(reading, "mask") if nli.tokenizer.mask_token_id is not None else None,
        gold=nli.labels.index(pair.label) if pair.label in nli.labels else None,
        percent=work.percent,
        pad=answers(reading, "pad"),
    )
    families = [family for family in judging.FAMILIES if family == "aopc" or place < step.upto(family)]
    simple = baseline_scores(pair, reading.units.read, (work.seed, place))
    rows = {row: [np.array(entry["scores"])] for row, entry in by_row.items()}
    rows |= {row: scores for row, scores in simple.items() if place < step.upto(row)}
    copies = {}
    if place < step.upto("degraded"):
        copies = {row: degraded(np.array(entry["scores"]), (work.seed, place, 1)) for row, entry in by_row.items()}
    together = couples(n, work.seed + place) if any("interactions" in e for e in by_row.values()) else []
    every = [*(scores for draws in rows.values() for scores in draws), *copies.values()]
    wanted = [judging.asked(scores, work.percent, families) for scores in every]
    both = left_out(n, [*((i,) for i in range(n)), *together] if together else [])
    subject.delete(np.concatenate([both, *(deleted for deleted, _, _ in wanted)]))  # all at once, then by row
    for ask, keep in ((subject.mask, [masked for _, masked, _ in wanted]), (subject.pad, [pad for *_, pad in wanted])):
        if ask is not None:
            ask(np.concatenate(keep))
    judged = {
        row: judging.average([judging.by_deletion(scores, subject, families) for scores in draws])
        for row, draws in rows.items()
    }
    if together:
        alone, pairs = np.split(subject.delete(both)[:, subject.predicted], [n])
        delta = interaction.second_order(subject.full, alone, pairs, together)
        for row, record in by_row.items():
            if "interactions" in record:
                rho = spearman(np.array(record["interactions"]), delta)
                judged[row]["interactions"] = np.array(intervals.summands([rho]))
    return judged, {row: judging.by_deletion(scores, subject, families) for row, scores in copies.items()}


def answers(reading: Reading, mode: Mode) -> Answers:
    """Probabilities, as `predict` gives them, of inputs without some of the words."""

    def evaluate(keep: Booleans) -> Array:
        logits = removal.evaluate(reading, torch.from_numpy(keep), mode)
        probabilities: Array = (logits.double() / reading.nli.temperature).softmax(-1).numpy()
        return probabilities

    return Answers(evaluate)


def baseline_scores(pair: Pair, places: Sequence[int], seed: Sequence[int]) -> dict[str, list[Array]]:
    """Rankings that know nothing of the model, over the words that it read."""
    words, sides = ([column[i] for i in places] for column in (words_of(pair), sides_of(pair)))
    return {
        "random": baselines.random(len(words), seed),
        "all words": [baselines.every_word(len(words))],
        "hypothesis": [baselines.hypothesis(sides)],
        "lexical difference": [baselines.lexical_difference(words, sides)],
    }


# --- time, enumeration ----------------------------------------------------------------------------------------------


def timing(nli: NLI, pairs: Sequence[Pair], methods: Sequence[str], seed: int) -> Record:
    """Seconds of whole calls of `nli.explain`, and of the prediction that each begins with; [pairs] per method.

    Wall time, and processor time, which other work on the machine does not lengthen. Pairs that a method cannot explain
    are left out for all.
    """
    names = ("prediction", *methods)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    processor: dict[str, list[float]] = {name: [] for name in names}
    shortest = min(pairs, key=lambda pair: len(words_of(pair)))
    for count, pair in enumerate((shortest, *pairs)):
        once = {}
        try:
            for name in names:
                began = time.perf_counter(), time.process_time()
                if name == "prediction":
                    read(nli, pair.premise, pair.hypothesis, "word")
                else:
                    explain(nli, pair, name, seed)
                once[name] = time.perf_counter() - began[0], time.process_time() - began[1]
        except ValueError:
            continue
        if count:  # the first is the warm-up
            for name, (wall, own) in once.items():
                seconds[name].append(wall)
                processor[name].append(own)
    return {"seconds_each": seconds, "processor_each": processor, "threads": torch.get_num_threads()}


def enumeration(nli: NLI, pair: Pair, seed: int) -> Record:
    """Spearman's ρ of method "input" from half of the coalitions with that from all; NaN if too few words are read."""
    n = len(read(nli, pair.premise, pair.hypothesis, "word").units.read)
    if not FEWEST <= n <= MOST:
        return {"words": n, "interactions": math.nan, "shapley": math.nan}
    exact, ours = (explain(nli, pair, "input", seed, samples=passes) for passes in (2**n, 2 ** (n - 1)))
    return {
        "words": n,
        "interactions": interaction.agreement(_matrix(ours), _matrix(exact)),
        "shapley": spearman(np.array(_scores(ours)), np.array(_scores(exact))),
    }
