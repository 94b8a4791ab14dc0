"""The parts: what is measured of each text, and what it amounts to. Rows are stored, so that a part can be resumed.

faithfulness   comprehensiveness and sufficiency (AOPC, by real deletion) of every method
enumeration    short texts, all coalitions: correlation of every method's values with the true Shapley values, and
               of pair interactions with the true Banzhaf and Shapley interactions
timing         seconds per text, all methods in turn; texts per second of the attached game in batches
curve          texts × coalitions that a game is fitted on → R², correlation with enumeration, minutes
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import torch

from neurogame import exact
from neurogame._common.records import plain
from neurogame._common.types import Tensor
from neurogame.evaluation.alignment import Array
from neurogame.grounding.fitting import GroundedGame, Observed, fit_games, fit_quality, observe
from neurogame_bench import intervals
from neurogame_bench.any_classifier import rivals
from neurogame_bench.any_classifier.bench import Bench, batched, enumerated
from neurogame_bench.any_classifier.tasks import Text
from neurogame_bench.explanations.work import answers
from neurogame_bench.faithfulness import judging
from neurogame_bench.grounding.figures import figure, mean, moments, pearson
from neurogame_bench.study import Record, Study, kept_rows, progress

LIMITS = {"faithfulness": 100, "costly": 30, "enumeration": 25, "timing": 6, "batch": 64}  # texts
COSTLY = 200  # passes from which on a method is judged on fewer texts
WORDS = (8, 10)  # of texts that are enumerated
METRICS = ("comprehensiveness", "sufficiency")
AOPC: tuple[judging.Family, ...] = ("aopc",)
INDICES: tuple[rivals.Index, ...] = ("banzhaf", "shapley")
TEXTS, COALITIONS = (500, 1000, 2000, 4000, 8000), (2, 4)  # of the curve
JUDGED = 200  # texts that R² is judged on, 8 coalitions each
Keep = Callable[[Record], Study]


# --- faithfulness ---------------------------------------------------------------------------------------------------


def faithfulness(bench: Bench, limits: Mapping[str, int], keep: Keep) -> Record:
    """Comprehensiveness and sufficiency of every method, and paired differences from ours."""
    methods = [method for method in bench.methods() if not method.pairs_only]

    def row(text: Text, place: int) -> Record:
        reading = bench.reading(text)
        v = rivals.game(reading, reading.prediction.label)  # what several ask for is evaluated once
        whole = np.array([reading.prediction.probabilities[name] for name in bench.classifier.labels])
        subject = judging.Subject(whole, answers(reading, v.mode))
        scores: Record = {"words": len(reading.units.read)}
        for method in methods:
            if method.passes < COSTLY or place < limits["costly"]:
                values = bench.solve(reading, method, v).values
                assert values is not None
                judged = judging.by_deletion(values.numpy(), subject, AOPC)
                scores[rivals.key(method)] = [float(judged[metric][0]) for metric in METRICS]
        return scores

    def study(start: int, some: Sequence[Text]) -> Study:
        stop = start + len(some)
        costly = max(0, min(stop, limits["costly"]) - start)
        names = [rivals.key(method) for method in methods]
        return keep({"start": start, "stop": stop, "costly": costly, "methods": names})

    texts = bench.drawn(limits["faithfulness"])
    rows, seconds = kept_rows("faithfulness", texts, 5, row, study, seed=bench.seed, noun="texts")
    mine = rivals.key(methods[0])
    table = []
    for method in methods:
        key = rivals.key(method)
        both = [(row[mine], row[key]) for row in rows if key in row]
        if not both:
            continue
        entry: Record = {"method": key, "texts": len(both)}
        for k, metric in enumerate(METRICS):
            entry[metric] = mean([theirs[k] for _, theirs in both])
            if not method.is_ours:
                entry[f"{metric}, ours less theirs"] = _difference(both, k)
        table.append(entry)
    return {"texts": len(rows), "words": _range(rows), "seconds": round(seconds, 1), "rows": table}


def _difference(both: Sequence[tuple[Sequence[float], Sequence[float]]], k: int) -> Record:
    a, b = (np.array([intervals.summands([pair[side][k]]) for pair in both]) for side in (0, 1))
    made = intervals.difference(a, b)
    return {"value": made.value, "low": made.low, "high": made.high, "texts": made.cases}


def _range(rows: Sequence[Record]) -> list[float]:
    words = [row["words"] for row in rows]
    return [min(words), median(words), max(words)]


# --- enumeration ----------------------------------------------------------------------------------------------------


def truth(bench: Bench, text: Text) -> tuple[Any, Any, Tensor]:
    """(reading, a game that knows all coalitions, their values) of a short text."""
    reading = bench.reading(text)
    v, table = enumerated(reading, exact.all_coalitions(len(reading.units.read)))
    return reading, v, table


def pair_values(table: Tensor, index: rivals.Index) -> Tensor:
    """Interactions of all i < j."""
    n = exact.players_of(table)
    i, j = torch.triu_indices(n, n, offset=1)
    return exact.interactions(table, index=index)[i, j]


def enumeration(bench: Bench, limits: Mapping[str, int], keep: Keep) -> Record:
    """Correlations of every method with the true values, over all words of all texts and as means over texts."""
    methods = [method for method in bench.methods() if not method.texts_only]

    def row(text: Text, _: int) -> Record:
        reading, v, table = truth(bench, text)
        n = v.players
        i, j = torch.triu_indices(n, n, offset=1)
        phi, J = exact.shapley(table), {index: pair_values(table, index) for index in INDICES}
        entries: Record = {"words": n}
        for method in methods:
            solution = bench.solve(reading, method, v)
            entry: Record = {}
            if solution.values is not None:
                entry["values"] = moments(solution.values, phi)
            pairs = dict(solution.pairs)
            for index, matrix in pairs.items():
                entry[index] = moments(matrix[i, j], J[index])
            if method.is_ours:
                assert reading.game is not None
                own = reading.game.logits(exact.all_coalitions(n)) @ v.direction
                entry["shapley"] = moments(pair_values(own, "shapley"), J["shapley"])
            entries[rivals.key(method)] = entry
        return entries

    def study(start: int, some: Sequence[Text]) -> Study:
        return keep({"start": start, "stop": start + len(some)})

    texts = bench.of_words(*WORDS, limits["enumeration"])
    rows, seconds = kept_rows("enumeration", texts, 5, row, study, seed=bench.seed, noun="texts")
    table = []
    for method in methods:
        key = rivals.key(method)
        entry: Record = {"method": key}
        for what in ("values", *INDICES):
            sums = np.array([row[key][what] for row in rows if what in row[key]])
            if len(sums):
                entry[what] = {"pooled": figure(sums, pearson), "mean": mean(pearson(sums).tolist())}
        table.append(entry)
    return {"texts": len(rows), "words": _range(rows), "seconds": round(seconds, 1), "rows": table}


# --- timing ---------------------------------------------------------------------------------------------------------


def timing(bench: Bench, limits: Mapping[str, int], keep: Keep) -> Record:
    """Processor seconds per text of every method in turn, after a warm-up; and of a batch of texts of ours."""
    methods = [method for method in bench.methods() if not (method.pairs_only and method.passes >= COSTLY)]
    texts = bench.drawn(limits["timing"] + 1)
    many = bench.drawn(limits["batch"])
    keeper = keep({"texts": len(texts), "batch": len(many), "methods": [rivals.key(method) for method in methods]})
    record = keeper.record("timing", bench.seed)
    if record is None:
        seconds: dict[str, list[float]] = {name: [] for name in ("prediction", *map(rivals.key, methods))}
        for place, text in enumerate(texts):
            for method in (None, *methods):
                began = time.process_time()
                reading = bench.reading(text)
                if method is not None:
                    bench.solve(reading, method)
                if place:  # the first is the warm-up
                    seconds["prediction" if method is None else rivals.key(method)].append(time.process_time() - began)
        batch: Record = {"texts": len(many)}
        for name, check in (("seconds", False), ("checked seconds", True)):
            began = time.process_time()
            batched(bench, many, check=check)
            batch[name] = time.process_time() - began
        record = plain({"seconds each": seconds, "batch": batch, "seconds": 0.0})
        keeper.store("timing", bench.seed, record)
    return summarised(record)


def summarised(record: Record) -> Record:
    """Means over texts, and how much slower than ours each method is; ours in a batch against theirs one by one."""
    each = {name: float(np.mean(times)) for name, times in record["seconds each"].items()}
    count = record["batch"]["texts"]
    batch = {name: record["batch"][name] / count for name in ("seconds", "checked seconds")}
    ours = each["neurogame"]
    rows = [
        {"method": name, "seconds": s, "times ours": s / ours, "times ours in a batch": s / batch["seconds"]}
        for name, s in each.items()
    ]
    rates = {"texts per second": 1.0 / batch["seconds"], "checked texts per second": 1.0 / batch["checked seconds"]}
    return {
        "texts": len(record["seconds each"]["neurogame"]),
        "batch": {**record["batch"], **rates},
        "rows": rows,
    }


# --- how many texts -------------------------------------------------------------------------------------------------


def subset(data: Observed, texts: int, coalitions: int) -> Observed:
    """The first texts with their first coalitions and those's complements, and the whole."""
    half, total = coalitions // 2, (len(data.logits[0]) - 1) // 2
    rows = [*range(half), *range(total, total + half), 2 * total]
    return Observed(
        data.states[:texts],
        data.word_of[:texts],
        [C[rows] for C in data.members[:texts]],
        [z[rows] for z in data.logits[:texts]],
        data.empty,
    )


def curve(
    bench: Bench,
    limits: Mapping[str, int],
    keep: Keep,
    *,
    texts: Sequence[int] = TEXTS,
    coalitions: Sequence[int] = COALITIONS,
    steps: Sequence[int] = (3000,),
) -> Record:
    """Fit a game to the first texts and coalitions of one observation; R² on test texts, Shapley values, minutes."""
    model, tokenizer = bench.explainer.model, bench.explainer.tokenizer
    assert model is not None
    assert tokenizer is not None
    layers, most = bench.explainer.layers, max(coalitions)
    cells = [(n, c, s) for s in steps for c in coalitions for n in texts]
    keepers = {cell: keep(dict(zip(("texts", "coalitions", "steps"), cell, strict=True))) for cell in cells}
    records = {cell: keeper.record(_cell(cell), bench.seed) for cell, keeper in keepers.items()}
    if any(record is None for record in records.values()):
        options: dict[str, Any] = {"removal": bench.explainer.removal, "max_length": 128}
        began = time.process_time()
        data = observe(
            model, tokenizer, list(bench.task.fit[: max(texts)]), layers, coalitions=most, seed=bench.seed, **options
        )
        per_pass = (time.process_time() - began) / (len(data) * (most + 1))
        progress(f"curve: {len(data)} texts asked, {1000 * per_pass:.1f} ms a pass")
        judged = [text for text, _ in bench.task.test[: limits.get("judged", JUDGED)]]
        dev = observe(model, tokenizer, judged, layers, coalitions=8, seed=bench.seed + 1, **options)
        short = bench.of_words(*WORDS, limits["enumeration"])
        known = [(reading, exact.shapley(table), v.direction) for reading, v, table in (truth(bench, t) for t in short)]
        for cell in [cell for cell, record in records.items() if record is None]:
            record = _fitted(bench, subset(data, *cell[:2]), dev, known, cell, per_pass)
            keepers[cell].store(_cell(cell), bench.seed, record)
            records[cell] = record
            progress(f"curve: {_cell(cell)}: R² {record['r2']:.3f}, Shapley {record['shapley']['value']:.3f}")
    rows = [{key: record[key] for key in _KEPT} for record in records.values() if record is not None]
    return {"rows": rows, "judged": limits.get("judged", JUDGED), "enumerated": limits["enumeration"]}


_KEPT = ("texts", "coalitions", "steps", "r2", "shapley", "minutes of passes", "minutes of fitting")


def _cell(cell: tuple[int, int, int]) -> str:
    return "curve {} {} {}".format(*cell)


def _fitted(
    bench: Bench, data: Observed, dev: Observed, known: Sequence[Any], cell: tuple[int, int, int], per_pass: float
) -> Record:
    """A game of one cell of the curve, judged."""
    torch.manual_seed(bench.seed)
    game = GroundedGame(data.states[0].shape[-1], data.logits[0].shape[-1], **dict(bench.explainer.options))
    began = time.process_time()
    fit_games(game, data, steps=cell[2], seed=bench.seed)
    minutes = (time.process_time() - began) / 60.0
    explainer = replace(bench.explainer, game=game)
    rows = []
    for reading, phi, direction in known:
        played = explainer.play(reading.hidden, reading.units.members)
        own = played.logits(exact.all_coalitions(played.players)) @ direction
        rows.append(moments(exact.shapley(own), phi))
    sums: Array = np.array(rows)
    record: Record = plain(
        {
            "texts": len(data),
            "coalitions": cell[1],
            "steps": cell[2],
            **fit_quality(game, dev),
            "shapley": figure(sums, pearson),
            "minutes of passes": per_pass * len(data) * (cell[1] + 1) / 60.0,
            "minutes of fitting": minutes,
            "seconds": 60.0 * minutes,
        }
    )
    return record


PARTS: dict[str, Callable[..., Record]] = {
    "faithfulness": faithfulness,
    "enumeration": enumeration,
    "timing": timing,
    "curve": curve,
}
