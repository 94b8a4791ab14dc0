"""The paper's claims on the grounded game: negation, intensifiers, Banzhaf and Shapley, neutral pairs, Σα, steps."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from neurogame import ising
from neurogame.data import Pair
from neurogame.evaluation.alignment import Array
from neurogame.labels import LABELS
from neurogame_bench.effects import FAILS, HOLDS, WORDS, gap, partial_spearman, relative, spearman, verdict
from neurogame_bench.faithfulness import interaction
from neurogame_bench.faithfulness.deletion import entropy
from neurogame_bench.grounding.bench import AMPLIFIERS, Bench, precise
from neurogame_bench.grounding.figures import figure, mean, of_ratios, span
from neurogame_bench.intervals import resampled
from neurogame_bench.phrases import bare, is_negation, is_quantifier
from neurogame_bench.study import Record

_FUNCTION = (
    "a an the this that these those some any each every all both another other one is are was were be been being am "
    "has have had having do does did will would can could may might must shall should to of in on at by for with from "
    "into onto over under up down out off near through around about as and or but if while when where who whom whose "
    "which what there here it its he him his she her hers they them their theirs we us our you your i me my"
)
FUNCTION_WORDS = frozenset(_FUNCTION.split())  # what is none of these and no negation is a content word
FEWEST = 10  # pairs on which a claim can rest
STEPS, MOST = 20, 0.95  # the paper's "10 to 20 steps", of so many pairs


def row(bench: Bench, pair: Pair, place: int, limits: Mapping[str, int]) -> Record:
    """What the claims are about, of one pair; means of J over pairs of words, None where there are none."""
    reading, game = bench.reading(pair)
    labels, prediction, where = bench.nli.labels, reading.prediction, reading.units
    values = precise(game)
    # centred over the labels: what all logits have in common decides nothing, and nothing grounds it
    shapley, banzhaf, J = (x - x.mean(0) for x in (values.shapley, values.banzhaf, values.coupling))
    words, sides = ([column[i] for i in where.read] for column in (where.names, where.sides))
    negative = [is_negation(word) for word in words]
    content = [not no and bare(word) not in FUNCTION_WORDS for word, no in zip(words, negative, strict=True)]
    groups: dict[str, list[tuple[int, int]]] = {name: [] for name in ("negation", "across", "others", "next", "near")}
    for i, j in interaction.word_pairs(len(words)):
        apart = sides[i] != sides[j]
        if apart and ((negative[i] and content[j]) or (negative[j] and content[i])):
            groups["negation"].append((i, j))
        else:
            groups["others"].append((i, j))
            groups["across"] += [(i, j)] * (apart and content[i] and content[j])
        if j == i + 1 and not apart:
            groups["next" if bare(words[i]) in AMPLIFIERS else "near"].append((i, j))
    at = labels.index(prediction.label)
    of_label = {"negation": labels.index("contradiction"), "next": at}
    of_label |= {"across": of_label["negation"], "others": of_label["negation"], "near": at}

    def coupling(name: str) -> float | None:
        strengths = [float(J[of_label[name], i, j]) for i, j in groups[name]]
        return sum(strengths) / len(strengths) if strengths else None

    marked = {"values": torch.tensor(negative), "quantified": torch.tensor(list(map(is_quantifier, words)))}
    phi, beta = shapley[at].abs(), banzhaf[at].abs()
    alpha = bench.explain(pair, check=False).alpha
    assert alpha is not None
    state = ising.solve(0.5 * shapley[at], 0.25 * J[at], 1.0, max_iter=10 * STEPS)  # as Hamiltonian has the two
    return {
        "drawn": place < limits["claims"],
        "words": len(words),
        **{name: coupling(name) for name in groups},
        **{name: [float(x[side].sum()) for side in (of, ~of) for x in (beta, phi)] for name, of in marked.items()},
        "negations": int(marked["values"].sum()),
        "quantifiers": int(marked["quantified"].sum()),
        "gold": pair.label,
        "strength": float(J.abs().sum() / max(1, len(J) * len(words) * (len(words) - 1))),
        "steps": int(state.iterations) if bool(state.converged) else None,
        "alpha": sum(alpha[i] for i in where.read),
        "entropy": entropy(np.array(list(prediction.probabilities.values()))),
    }


def summary(rows: Sequence[Record]) -> Record:
    """Each claim: n, the number with its interval, and whether it was found."""

    def compared(ours: str, theirs: str) -> Record:
        both = [row for row in rows if row[ours] is not None and row[theirs] is not None]
        own, other = mean([row[ours] for row in both]), mean([row[theirs] for row in both])
        return {"difference": mean([row[ours] - row[theirs] for row in both]), "mean": own, "others": other}

    def stressed(name: str, sums: str) -> Record:
        own = [row[sums] for row in rows if row[name]]
        return {
            "difference": figure(own, of_ratios(0, 1, (2, 3))),
            "mean": figure(own, of_ratios(0, 1)),
            "others": figure(own, of_ratios(2, 3)),
        }

    drawn = [row for row in rows if row["drawn"]]
    alpha, words, unsure = (
        np.array([row[name] for row in drawn], dtype=float) for name in ("alpha", "words", "entropy")
    )

    def rho(x: Array, y: Array) -> float:
        return float(spearman(x, y)[0, 1])

    def ranked(statistic: Callable[..., float], *columns: Array) -> Record:
        low, high = resampled(statistic, *columns)
        return {"value": statistic(*columns), "low": low, "high": high, "pairs": len(drawn)}

    claims = [
        _claim("negation repels", "J of a negation with content words of the other side, less that of the other word "
               "pairs of the text; contradiction logit", -1, **compared("negation", "others")),
        _claim("negation repels, across", "the same, less that of the other content words across the two sides", -1,
               **compared("negation", "across")),
        _claim("intensifiers attract", "J of an intensifier with the next word, less that of the other neighbours in "
               "the text; predicted label", +1, **compared("next", "near")),
        _claim("Banzhaf stresses negations", "Σ|β|/Σ|φ| of negations less that of the other words of the same texts",
               +1, **stressed("negations", "values")),
        _claim("Banzhaf stresses quantifiers", "the same of quantifiers", +1, **stressed("quantifiers", "quantified")),
        _claim("J vanishes on neutral pairs", "mean |J| over word pairs and labels, relative to pairs of like length; "
               "pairs whose gold label is neutral less the others", -1, difference=_of_neutral(drawn)),
        _claim("Σα grows with length", "ρ of Σα and the number of words", +1, difference=ranked(rho, alpha, words)),
        _claim("Σα grows with doubt", "ρ of Σα and the entropy of the prediction", +1,
               difference=ranked(rho, alpha, unsure)),
        _claim("Σα grows with doubt, at equal length", "the same, with the number of words taken out", +1,
               difference=ranked(partial_spearman, alpha, unsure, words)),
        _of_steps(drawn),
    ]  # fmt: skip
    return {"drawn": len(drawn), "negations": sum(row["negations"] for row in rows), "claims": claims}


def _of_neutral(rows: Sequence[Record]) -> Record:
    """Couplings of neutral pairs less those of others; no value where one of the two is missing."""
    neutral = np.array([row["gold"] == LABELS[1] for row in rows])
    if not neutral.any() or neutral.all():
        return {"value": None, "low": None, "high": None, "pairs": 0}
    sizes, words = (np.array([row[name] for row in rows]) for name in ("strength", "words"))
    size = relative(sizes, words)
    found = gap(size[neutral], size[~neutral])
    low, high = found["interval"]
    return {"value": found["difference"], "low": low, "high": high, "pairs": len(rows)}


def _of_steps(rows: Sequence[Record]) -> Record:
    """The share of pairs whose mean field ended within the steps that the paper names."""
    share = mean([float(row["steps"] is not None and row["steps"] <= STEPS) for row in rows])
    entry = _claim(
        "the iteration converges", f"share of pairs within {STEPS} steps; at least {MOST}", +1, difference=share
    )
    steps = sorted(row["steps"] for row in rows if row["steps"] is not None)
    outcome = WORDS[HOLDS if share["value"] >= MOST else FAILS] if len(rows) >= FEWEST else entry["found"]
    return {**entry, "found": outcome, "median": steps[len(steps) // 2] if steps else None}


def _claim(name: str, what: str, sign: int, *, difference: Record, **beside: Record) -> Record:
    """One entry; `difference` is what the word rests on."""
    n, low, high = difference["pairs"], difference["low"], difference["high"]
    outcome = "too few pairs" if n < FEWEST else WORDS[verdict((low, high), sign)]
    return {"claim": name, "what": what, "n": n, "difference": difference, **beside, "found": outcome}


def table(results: Record) -> list[Record]:
    """One line each."""
    return [
        {
            "claim": of["claim"],
            "n": of["n"],
            "difference or ρ": span(of["difference"], 4),
            "own": span(of["mean"], 4) if "mean" in of else "",
            "others": span(of["others"], 4) if "others" in of else "",
            "": of["found"],
        }
        for of in results["claims"]
    ]
