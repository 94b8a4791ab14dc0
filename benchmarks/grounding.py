"""How far a grounded game is what the model says of incomplete texts: results/grounding.json, part by part.

    python benchmarks/grounding.py --root DATA                              # the embedded model and its explainer
    python benchmarks/grounding.py --root DATA --model FOLDER               # another; readout "game", or an explainer
    python benchmarks/grounding.py --root DATA --explainer FOLDER --name x  # stored under another name
    python benchmarks/grounding.py --root DATA --only r2 cost               # some parts
    python benchmarks/grounding.py --root DATA --pairs 20 r2=40             # pairs: at most 20, of r2 40
    python benchmarks/grounding_page.py                                     # the tables of docs/grounding.md

    r2             R² of logits(C) on held-out coalitions by law and size, and of additive and quadratic accounts
    enumeration    short pairs, all coalitions: correlation of values and interactions, swing words found
    refined        squared error of Shapley values by forward passes spent, against KernelSHAP and plain sampling
    rationale      pairs with at most half of the words that keep the label when they alone are read
    cost           processor time of an explanation over that of a prediction
    second_order   Spearman's ρ with second-order effects of deletion at the whole text
    claims         the paper's claims on the grounded game

Pairs are those of SNLI dev that benchmarks/explanations.py draws, by the same seed; `enumeration` and `refined` take
pairs of few words, in random order too. Finished steps of some pairs are files in runs/grounding, so a part that was
stopped goes on where it stopped; a finished part goes to results/grounding.json. Several processes may be at different
parts (--only). Intervals are 95 %, bootstrapped over pairs. Everything follows from --seed but the seconds.

`refined` needs true Shapley values: method "input" with REFERENCE passes and other draws, which enumerates 12 words
and regresses beyond. Its own error is in every error alike and draws ratios towards 1; it is reported beside them.
"""

import argparse
import fcntl
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from common import RESULTS, progress, show
from effects import FAILS, HOLDS, NOTHING, Record, partial_spearman, resampled, spearman, verdict
from explanations import checksum
from phrases import INTENSIFIERS, bare, is_negation
from study import Study, read, write

from neurogame import exact
from neurogame._types import Bool, Float, Tensor
from neurogame.about import machine
from neurogame.benchmark.explanations_cases import draw as draw_pairs
from neurogame.benchmark.explanations_cases import words_of
from neurogame.benchmark.explanations_work import WORD_PAIRS
from neurogame.data import Pair, PairDataset
from neurogame.data import load as load_pairs
from neurogame.data.words import tokenize, units
from neurogame.evaluation.alignment import Array
from neurogame.explanation import Explanation
from neurogame.explanation.reading import Question, Reading, has_readout, is_grounded
from neurogame.explanation.reading import read as read_pair
from neurogame.explanation.record import plain
from neurogame.explanation.refinement import residual_shapley
from neurogame.explanation.removal import InputGame, evaluate
from neurogame.faithfulness import interaction, intervals
from neurogame.faithfulness.coalitions import left_out
from neurogame.faithfulness.correlation import spearman as rank_correlation
from neurogame.faithfulness.deletion import entropy
from neurogame.grounding.coalitions import centred, draw
from neurogame.grounding.fitting import empty_logits
from neurogame.grounding.game import WordGame
from neurogame.hamiltonian import Hamiltonian
from neurogame.modeling.loading import quiet
from neurogame.nli import NLI, load
from neurogame.readout import LabelValues, label_values

DRAWN = 500  # pairs that benchmarks/explanations.py draws
LAWS = ("mixed", "shapley", "banzhaf", "uniform")  # uniform: each word with probability p ~ U(0, 1)
COALITIONS = 8  # per pair and law
BINS = (0.0, 0.25, 0.5, 0.75, 1.0)  # shares of the words that are left
ADDITIVE = ("additive φ", "additive β", "additive β, own constant")
QUADRATIC = ("quadratic φ", "quadratic β", "quadratic β, own constant")
ACCOUNTS = ("game", *ADDITIVE, *QUADRATIC)
PRECISE = 2048  # coalitions per law for values of the game that are compared, where they are sampled
CORRELATED = ("Shapley", "Banzhaf", "Banzhaf pairs", "Shapley pairs")
REFERENCE = 4096  # forward passes of the Shapley values that count as true
BUDGETS = {"refined": (100, 200), "refined_large": (500, 1000)}  # forward passes, and whose pairs they are limited to
METHODS = ("refined", "kernelshap", "plain", "input")
COMPARED = (100, 500)  # N: refined at N against KernelSHAP at 2N
REPETITIONS = 3  # of the timing of a pair
DELTAS = ("J", "Δ")  # of the game: averaged over coalitions, and at the whole text
AMPLIFIERS = (*INTENSIFIERS, "so", "too")
_FUNCTION = (
    "a an the this that these those some any each every all both another other one is are was were be been being am "
    "has have had having do does did will would can could may might must shall should to of in on at by for with from "
    "into onto over under up down out off near through around about as and or but if while when where who whom whose "
    "which what there here it its he him his she her hers they them their theirs we us our you your i me my"
)
FUNCTION_WORDS = frozenset(_FUNCTION.split())  # what is none of these and no negation is a content word
FEWEST = 10  # pairs on which a claim can rest
WORDS = {HOLDS: "found", FAILS: "the opposite found", NOTHING: "not found"}


@dataclass(frozen=True, eq=False)
class Bench:
    """The model that is measured, on which pairs, with which random numbers."""

    nli: NLI
    dev: PairDataset
    seed: int = 0

    @cached_property
    def base(self) -> Float[Tensor, "labels"]:
        """b: what the model says of a text without words."""
        return empty_logits(self.nli.model, self.nli.tokenizer).double()

    @cached_property
    def shuffled(self) -> PairDataset:
        """All pairs in random order, for the parts that look for some of them."""
        return draw_pairs(self.dev, len(self.dev), self.seed)

    def drawn(self, count: int) -> PairDataset:
        """The first of those that benchmarks/explanations.py draws."""
        return draw_pairs(self.dev, max(DRAWN, count), self.seed)[:count]

    def of_words(self, least: int, most: int, count: int) -> PairDataset:
        """Pairs of which the model reads so many words."""

        def fits(pair: Pair) -> bool:
            if not least <= len(words_of(pair)) <= most:
                return False
            tokens = tokenize(self.nli.tokenizer, pair.premise, pair.hypothesis, self.nli.max_length)
            return least <= len(units(tokens, "word").read) <= most

        found: list[Pair] = []
        for pair in self.shuffled:
            if len(found) == count:
                break
            if fits(pair):
                found.append(pair)
        return PairDataset(tuple(found), self.dev.name, self.dev.source)

    def marked(self, count: int) -> PairDataset:
        """The drawn pairs, then others with a negation or an intensifier, until there are `count` of these."""
        first = self.drawn(count)
        known = {(pair.premise, pair.hypothesis) for pair in first}
        lacking = count - sum(map(_is_marked, first))
        more = [p for p in self.shuffled if (p.premise, p.hypothesis) not in known and _is_marked(p)]
        return PairDataset((*first, *more[: max(0, lacking)]), self.dev.name, self.dev.source)

    def reading(self, pair: Pair) -> tuple[Reading, WordGame]:
        """One pass, and the game of it."""
        reading = read_pair(self.nli, pair.premise, pair.hypothesis, "word")
        assert reading.game is not None
        return reading, reading.game

    def explain(self, pair: Pair, **options: Any) -> Explanation:
        """As a user would."""
        return self.nli.explain(pair.premise, pair.hypothesis, **options)


def _is_marked(pair: Pair) -> bool:
    return any(is_negation(word) or bare(word) in AMPLIFIERS for word in words_of(pair))


# --- figures over pairs -----------------------------------------------------------------------------------------------


def figure(rows: Any, statistic: intervals.Statistic = intervals.ratio) -> Record:
    """A statistic of the sums of rows [pairs, columns], with its interval."""
    made = intervals.estimate(np.array(rows, dtype=float), statistic)
    return {"value": made.value, "low": made.low, "high": made.high, "pairs": len(rows)}


def mean(values: Sequence[float | None]) -> Record:
    """The mean of what is defined, over the pairs where it is."""
    defined = [value for value in values if value is not None and not math.isnan(value)]
    return figure([intervals.summands([value]) for value in defined])


def moments(x: Tensor, y: Tensor) -> list[float]:
    """(n, Σx, Σy, Σx², Σy², Σxy): what a correlation over several texts is made of."""
    x, y = x.double(), y.double()
    return [float(len(x)), *(float(t) for t in (x.sum(), y.sum(), x @ x, y @ y, x @ y))]


def pearson(sums: Array) -> Array:
    """r from `moments` summed over texts; NaN where one of the two is constant."""
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    spread = np.clip(xx - x * x / n, 0.0, None) * np.clip(yy - y * y / n, 0.0, None)
    return _ratio(xy - x * y / n, np.sqrt(spread))


def of_ratios(above: int, below: int, other: tuple[int, int] | None = None) -> intervals.Statistic:
    """The ratio of two columns, less that of two others."""

    def statistic(sums: Array) -> Array:
        found = _ratio(sums[..., above], sums[..., below])
        return found if other is None else found - _ratio(sums[..., other[0]], sums[..., other[1]])

    return statistic


def _ratio(above: Array, below: Array) -> Array:
    above, below = np.asarray(above, dtype=float), np.asarray(below, dtype=float)
    found: Array = np.divide(above, below, out=np.full(above.shape, math.nan), where=below > 0)
    return found


def span(figure: Mapping[str, Any], digits: int = 3) -> str:
    """A value with its interval, as text."""
    if figure["value"] is None or math.isnan(figure["value"]):
        return "–"
    return f"{figure['value']:.{digits}f} [{figure['low']:.{digits}f}, {figure['high']:.{digits}f}]"


# --- r2 ---------------------------------------------------------------------------------------------------------------


def coalitions(law: str, n: int, count: int, seed: Sequence[int]) -> Bool[Tensor, "coalitions words"]:
    """`count` coalitions of n words, the second half the complements of the first; by numbers of their own."""
    number = int(np.random.SeedSequence([*seed, LAWS.index(law)]).generate_state(1)[0])
    generator = torch.Generator().manual_seed(number)
    if law != "uniform":
        return draw([n], count, law, generator=generator)[0]  # type: ignore[arg-type]  # one of the other three
    p = torch.rand(count // 2, 1, generator=generator)
    C = torch.rand(count // 2, n, generator=generator) < p
    return torch.cat([C, ~C])


def precise(game: WordGame) -> LabelValues:
    """φ, β and J of every label, with little noise where coalitions are sampled."""
    return label_values(game.V, game.anchor, game.R, samples=PRECISE)


def accounts(game: WordGame, C: Bool[Tensor, "coalitions words"]) -> dict[str, Float[Tensor, "coalitions labels"]]:
    """What the game says of coalitions, and what is left of it without interactions, or with those of pairs alone.

    φ and β from b, which both ends of φ meet; and β about the game's mean over fair coins, the best account there.
    """
    values, b, n = precise(game), game.base.double(), game.players
    phi, beta, J, inside = values.shapley, values.banzhaf, values.coupling, C.double()
    coins = exact.all_coalitions(n) if n <= 12 else coalitions("banzhaf", n, 2 * PRECISE, (0, 0))
    middle = game.logits(coins).mean(0)
    own = middle - beta.sum(-1) / 2.0 + J.sum((-2, -1)) / 8.0  # g(∅), where the mean of g is `middle`

    def quadratic(field: Tensor, base: Tensor) -> Tensor:
        found = [Hamiltonian(*of).value(C) for of in zip(field, J, base, strict=True)]
        return torch.stack(found, -1)

    found = {
        "game": game.logits(C),
        "additive φ": b + inside @ phi.mT,
        "additive β": b + inside @ beta.mT,
        "additive β, own constant": middle + (inside - 0.5) @ beta.mT,
        "quadratic φ": quadratic(phi, b),
        "quadratic β": quadratic(beta, b),
        "quadratic β, own constant": quadratic(beta, own),
    }
    assert tuple(found) == ACCOUNTS
    return found


def r2_row(bench: Bench, pair: Pair, place: int) -> Record:
    """Sums of squares by law and by the share of words that is left, see `_squares`."""
    reading, game = bench.reading(pair)
    C = {law: coalitions(law, game.players, COALITIONS, (bench.seed, place)) for law in LAWS}
    said = evaluate(reading, torch.cat(list(C.values()))).double().split(COALITIONS)
    found = accounts(game, torch.cat(list(C.values())))
    rows: Record = {"words": game.players}
    for k, (law, truth) in enumerate(zip(LAWS, said, strict=True)):
        predicted = [account[k * COALITIONS : (k + 1) * COALITIONS] for account in found.values()]
        share = C[law].double().mean(-1)
        which = torch.bucketize(share, torch.tensor(BINS[1:-1], dtype=torch.float64), right=True)
        lines = [
            _squares([p[which == k] for p in predicted], truth[which == k], bench.base) for k in range(len(BINS) - 1)
        ]
        rows[law] = lines
    return rows


def _squares(predicted: Sequence[Tensor], said: Tensor, base: Tensor) -> list[float]:
    """(coalitions, Σ‖said − b‖², Σ‖said‖², Σ‖account − said‖² each, Σ said by label), centred over the labels."""
    said, base = centred(said), centred(base)
    errors = [float((centred(p) - said).square().sum()) for p in predicted]
    spread = float((said - base).square().sum())
    return [float(len(said)), spread, float(said.square().sum()), *errors, *said.sum(0).tolist()]


def about_base(account: str, less: str | None = None) -> intervals.Statistic:
    """R² with b as origin, of `_squares` summed; or that less the R² of another account."""

    def statistic(sums: Array) -> Array:
        error = sums[..., 3 + ACCOUNTS.index(account)]
        if less is not None:
            return _ratio(sums[..., 3 + ACCOUNTS.index(less)] - error, sums[..., 1])
        return 1.0 - _ratio(error, sums[..., 1])

    return statistic


def about_mean(account: str) -> intervals.Statistic:
    """R² with the mean of what was said as origin."""

    def statistic(sums: Array) -> Array:
        total = sums[..., 3 + len(ACCOUNTS) :]
        spread = sums[..., 2] - _ratio(np.square(total).sum(-1), sums[..., 0])
        return 1.0 - _ratio(sums[..., 3 + ACCOUNTS.index(account)], spread)

    return statistic


def r2_summary(rows: Sequence[Record]) -> Record:
    """By law: R² of every account, of the game by size, and what the best additive account loses."""
    laws = {}
    for law in LAWS:
        sums = np.array([row[law] for row in rows], dtype=float)  # (pairs, bins, columns)
        whole = sums.sum(1)
        of_base = {name: figure(whole, about_base(name)) for name in ACCOUNTS}
        value = {name: float(of["value"]) for name, of in of_base.items()}.__getitem__
        best = max(ADDITIVE, key=value)
        sizes = []
        for k, (low, high) in enumerate(pairwise(BINS)):
            count = sums[:, k, 0].sum()
            size = {"from": low, "to": high, "coalitions": int(count), **figure(sums[:, k], about_base("game"))}
            labels = sums.shape[-1] - 3 - len(ACCOUNTS)
            sizes.append({**size, "rms": float(np.sqrt(sums[:, k, 3].sum() / max(1.0, count * labels)))})
        laws[law] = {
            "coalitions": int(whole[:, 0].sum()),
            "about b": of_base,
            "about the mean": {name: figure(whole, about_mean(name)) for name in ACCOUNTS},
            "best additive": best,
            "lost without interactions": figure(whole, about_base("game", less=best)),
            "lost from b": figure(whole, about_base("game", less=max(ADDITIVE[:2], key=value))),
            "sizes": sizes,
        }
    return {"laws": laws}


def r2_table(found: Record) -> list[Record]:
    """By law."""
    return [
        {
            "law": law,
            "R² about b": span(of["about b"]["game"]),
            "about mean": f"{of['about the mean']['game']['value']:.3f}",
            "best additive": f"{of['about b'][of['best additive']]['value']:.3f} ({of['best additive']})",
            "lost": span(of["lost without interactions"]),
            "best quadratic": f"{max(of['about b'][name]['value'] for name in QUADRATIC):.3f}",
            "by size": " ".join("–" if size["value"] is None else f"{size['value']:.2f}" for size in of["sizes"]),
        }
        for law, of in found["laws"].items()
    ]


# --- enumeration ------------------------------------------------------------------------------------------------------


def enumeration_row(bench: Bench, pair: Pair, _: int) -> Record:
    """Moments of the game's values against the true ones, and swing words: (right, named, true)."""
    reading, game = bench.reading(pair)
    n, label = game.players, reading.prediction.label
    C, at = exact.all_coalitions(n), bench.nli.labels.index(label)
    said = evaluate(reading, C).double()
    tables = [centred(logits)[:, at] for logits in (game.logits(C), said)]
    i, j = torch.triu_indices(n, n, offset=1)
    values: dict[str, Callable[[Tensor], Tensor]] = {
        "Shapley": exact.shapley,
        "Banzhaf": exact.banzhaf,
        "Banzhaf pairs": lambda table: exact.interactions(table)[i, j],
        "Shapley pairs": lambda table: exact.interactions(table, index="shapley")[i, j],
    }
    without = (2**n - 1) ^ (1 << torch.arange(n))  # rows of the tables
    true = {reading.units.read[k] for k in (said[without].argmax(-1) != at).nonzero().flatten().tolist()}
    swing = {}
    for name, check in (("unchecked", False), ("checked", True)):
        named = set(bench.explain(pair, check=check).swing)
        swing[name] = [len(named & true), len(named), len(true)]
    return {"words": n, "label": label, **{name: moments(*map(of, tables)) for name, of in values.items()}, **swing}


def enumeration_summary(rows: Sequence[Record]) -> Record:
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


def enumeration_table(found: Record) -> list[Record]:
    """Correlations, then swing words."""
    rows = [
        {"what": name, "pooled": span(of["pooled"]), "mean over pairs": span(of["mean over pairs"])}
        for name, of in found["correlations"].items()
    ]
    return rows + [
        {
            "what": f"swing words, {name}: {of['right']} right of {of['named']} named, {of['true']} true",
            "pooled": f"precision {span(of['precision'], 2)}",
            "mean over pairs": f"recall {span(of['recall'], 2)}",
        }
        for name, of in found["swing"].items()
    ]


# --- refined ----------------------------------------------------------------------------------------------------------


class Recalled(NLI):
    """The same model; of an input that it has read before it knows the logits. Several methods ask for the same."""

    def __init__(self, nli: NLI) -> None:
        super().__init__(nli.model, nli.tokenizer, name=nli.name, explainer=nli.explainer)
        self.known: dict[bytes, Tensor] = {}

    def forward(self, inputs: Mapping[str, Tensor], **options: Any) -> Any:
        """Logits of a batch; the model's whole output where more is asked for."""
        if options:
            return super().forward(inputs, **options)
        real = zip(inputs["input_ids"], inputs["attention_mask"].bool(), strict=True)
        keys = [ids[there].cpu().numpy().tobytes() for ids, there in real]
        fresh = [i for i, key in enumerate(keys) if key not in self.known]
        if fresh:
            logits = super().forward({name: column[fresh] for name, column in inputs.items()}).logits
            self.known.update(zip((keys[i] for i in fresh), logits, strict=True))
        return SimpleNamespace(logits=torch.stack([self.known[key] for key in keys]))


def refined_row(bench: Bench, pair: Pair, place: int, limits: Mapping[str, int]) -> Record:
    """Mean squared error over the words of a pair, by method and forward passes."""
    nli = Recalled(bench.nli)
    seed = bench.seed + place + 1
    true = nli.explain(pair.premise, pair.hypothesis, method="input", samples=REFERENCE, seed=seed + 10_000)
    target = true.target
    assert target is not None
    se = np.array(true.diagnostics.get("shapley_se", [0.0] * len(true.words)))
    places = [i for i in range(len(true.words)) if i not in set(true.diagnostics["unread"])]
    truth = np.array(true.scores)

    def error(scores: Sequence[float]) -> float:
        return float(np.square(np.array(scores) - truth)[places].mean())

    game = nli.explain(pair.premise, pair.hypothesis, target=target, check=False)
    row: Record = {"words": len(places), "exact": bool(true.diagnostics["exact"])}
    row |= {"reference": float(np.square(se)[places].mean()), "size": error([0.0] * len(truth))}
    row["errors"] = {"game": {"1": error(game.scores)}, **{name: {} for name in METHODS}}
    for passes in [n for part, budget in BUDGETS.items() if place < limits[part] for n in budget]:
        options: dict[str, Any] = {"target": target, "samples": passes, "seed": seed}
        made = {
            "refined": nli.explain(pair.premise, pair.hypothesis, method="decision", check=False, **options).scores,
            "kernelshap": nli.explain(pair.premise, pair.hypothesis, method="kernelshap", **options).scores,
            "plain": plain_sampling(nli, pair, target, passes, seed),
            "input": nli.explain(pair.premise, pair.hypothesis, method="input", **options).scores,
        }
        for name, scores in made.items():
            row["errors"][name][str(passes)] = error(scores)
    return row


def plain_sampling(nli: NLI, pair: Pair, target: str, passes: int, seed: int) -> tuple[float, ...]:
    """Shapley values from the draws that `refine` makes, without a game to take off: all of ℓ is residual."""
    reading = read_pair(nli, pair.premise, pair.hypothesis, "word")
    v = InputGame.of(reading, Question(target=target))
    n, pairs = v.players, max(2, (passes - 2) // 2)
    C = draw([n], 2 * pairs, "shapley", generator=torch.Generator().manual_seed(seed))[0, :pairs]
    ends = v(torch.tensor([[False], [True]]).expand(2, n))
    phi, _ = residual_shapley(C, v(C) - v(~C), float(ends[1] - ends[0]))
    return reading.units.listed(phi)


def refined_summary(rows: Sequence[Record]) -> Record:
    """Mean squared errors by method and passes, and ratios of means."""
    errors: Record = {}
    for name in ("game", *METHODS):
        passes = dict.fromkeys(n for row in rows for n in row["errors"][name])
        errors[name] = {n: mean([row["errors"][name].get(n) for row in rows]) for n in passes}
    ratios = []
    for n in COMPARED:
        for ours, theirs, factor in (("refined", "kernelshap", 2), ("refined", "plain", 1), ("refined", "input", 1)):
            a, b = str(n), str(factor * n)
            both = [row["errors"] for row in rows if a in row["errors"][ours] and b in row["errors"][theirs]]
            found = figure([[of[ours][a], of[theirs][b]] for of in both], of_ratios(0, 1))
            ratios.append({"ours": ours, "passes": n, "theirs": theirs, "their passes": factor * n, **found})
    return {
        "words": [min(row["words"] for row in rows), max(row["words"] for row in rows)],
        "reference": {
            "passes": REFERENCE,
            "enumerated pairs": sum(row["exact"] for row in rows),
            "squared error": mean([row["reference"] for row in rows]),  # by its own standard errors
            "mean square of the values": mean([row["size"] for row in rows]),
        },
        "errors": errors,
        "ratios": ratios,
    }


def refined_table(found: Record) -> list[Record]:
    """Errors in 10⁻³ squared logits, then ratios."""
    columns = [str(n) for budget in BUDGETS.values() for n in budget]
    rows = []
    for name, by in found["errors"].items():
        cells = {n: f"{1000 * by[n]['value']:.3g}" if n in by else "–" for n in columns}
        one = f", one pass: {1000 * by['1']['value']:.3g}" if "1" in by else ""
        rows.append({"10⁻³ squared error": f"{name}{one}", **cells})
    own = found["reference"]["squared error"]["value"]
    rows.append({"10⁻³ squared error": f"the reference's own: {1000 * own:.3g}", **dict.fromkeys(columns, "")})
    for ratio in found["ratios"]:
        what = f"{ratio['ours']} at {ratio['passes']} / {ratio['theirs']} at {ratio['their passes']}"
        rows.append({"10⁻³ squared error": f"{what}: {span(ratio, 2)}", **dict.fromkeys(columns, "")})
    return rows


# --- rationale --------------------------------------------------------------------------------------------------------


def rationale_row(bench: Bench, pair: Pair, _: int) -> Record:
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


def rationale_summary(rows: Sequence[Record]) -> Record:
    """Shares of pairs: with a rationale, that the model confirms, of at most half of the words; and how many words."""
    found = {}
    for name in ("unchecked", "checked"):
        claims = [(row["words"], row[name]) for row in rows]
        found[name] = {
            "claimed": mean([float(claim is not None) for _, claim in claims]),
            "kept": mean([float(claim[1]) for _, claim in claims if claim is not None]),
            "kept, at most half": mean(
                [float(claim is not None and claim[1] and 2 * claim[0] <= n) for n, claim in claims]
            ),
            "share of words": mean([claim[0] / n for n, claim in claims if claim is not None]),
            "words": mean([float(claim[0]) for _, claim in claims if claim is not None]),
        }
    return found


def rationale_table(found: Record) -> list[Record]:
    """Unchecked, checked."""
    return [{"": name, **{what: span(of) for what, of in found[name].items()}} for name in ("unchecked", "checked")]


# --- cost -------------------------------------------------------------------------------------------------------------


def cost_row(bench: Bench, pair: Pair, place: int) -> Record:
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
    return {name: [median(each) for each in zip(*found, strict=True)] for name, found in seconds.items()}


def cost_summary(rows: Sequence[Record]) -> Record:
    """Median over pairs of the ratio to the prediction of the same pair, and median seconds."""
    found: Record = {"one run": True, "repetitions": REPETITIONS}
    found["processor seconds"] = {
        name: median(row[name][0] for row in rows) for name in ("predict", "unchecked", "checked")
    }
    for name in ("unchecked", "checked"):
        for clock, k in (("processor", 0), ("wall", 1)):
            ratios = np.array([row[name][k] / row["predict"][k] for row in rows])
            low, high = resampled(lambda values: float(np.median(values)), ratios)
            value = float(np.median(ratios))
            found.setdefault(name, {})[clock] = {"value": value, "low": low, "high": high, "pairs": len(rows)}
    return found


def cost_table(found: Record) -> list[Record]:
    """Unchecked, checked."""
    return [
        {
            "× predict, one run": name,
            "processor": span(found[name]["processor"], 2),
            "wall": span(found[name]["wall"], 2),
            "milliseconds": 1000 * found["processor seconds"][name],
        }
        for name in ("unchecked", "checked")
    ]


# --- second order -----------------------------------------------------------------------------------------------------


def second_order_row(bench: Bench, pair: Pair, place: int) -> Record:
    """ρ of the game's J and of its Δ at the whole text with Δ of the model, in probabilities and in logits."""
    reading, game = bench.reading(pair)
    n, at = game.players, bench.nli.labels.index(reading.prediction.label)
    pairs = interaction.word_pairs(n, WORD_PAIRS, seed=bench.seed + place)
    keep = np.concatenate([np.ones((1, n), dtype=bool), left_out(n), left_out(n, pairs)])
    C = torch.from_numpy(keep)
    said = evaluate(reading, C).double()
    probabilities = (said / bench.nli.temperature).softmax(-1)[:, at].numpy()
    logits, guessed = (centred(of)[:, at].numpy() for of in (said, game.logits(C)))

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
        row[what] = {name: rank_correlation(found, effect) for name, found in ours.items()}
    return row


def second_order_summary(rows: Sequence[Record]) -> Record:
    """Mean ρ over pairs."""
    return {what: {of: mean([row[what][of] for row in rows]) for of in DELTAS} for what in ("probability", "logit")}


def second_order_table(found: Record) -> list[Record]:
    """ρ with Δ of the model."""
    names = {"J": "J of the game", "Δ": "Δ of the game at the whole text"}
    return [
        {"ρ with the model's Δ": names[of], **{what: span(found[what][of]) for what in ("probability", "logit")}}
        for of in DELTAS
    ]


# --- claims -----------------------------------------------------------------------------------------------------------


def claims_row(bench: Bench, pair: Pair, place: int, limits: Mapping[str, int]) -> Record:
    """What the claims are about, of one pair; means of J over pairs of words, None where there are none."""
    reading, game = bench.reading(pair)
    labels, said, where = bench.nli.labels, reading.prediction, reading.units
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
    at = labels.index(said.label)
    of_label = {"negation": labels.index("contradiction"), "next": at}
    of_label |= {"across": of_label["negation"], "others": of_label["negation"], "near": at}

    def coupling(name: str) -> float | None:
        found = [float(J[of_label[name], i, j]) for i, j in groups[name]]
        return sum(found) / len(found) if found else None

    no = torch.tensor(negative)
    phi, beta = shapley[at].abs(), banzhaf[at].abs()
    alpha = bench.explain(pair, check=False).alpha
    assert alpha is not None
    return {
        "drawn": place < limits["claims"],
        "words": len(words),
        **{name: coupling(name) for name in groups},
        "values": [float(x[side].sum()) for side in (no, ~no) for x in (beta, phi)],
        "negations": int(no.sum()),
        "alpha": sum(alpha[i] for i in where.read),
        "entropy": entropy(np.array(list(said.probabilities.values()))),
    }


def claims_summary(rows: Sequence[Record]) -> Record:
    """Each claim: n, the number with its interval, and whether it was found."""

    def compared(ours: str, theirs: str) -> Record:
        both = [row for row in rows if row[ours] is not None and row[theirs] is not None]
        own, other = mean([row[ours] for row in both]), mean([row[theirs] for row in both])
        return {"difference": mean([row[ours] - row[theirs] for row in both]), "mean": own, "others": other}

    negated = [row["values"] for row in rows if row["negations"]]
    drawn = [row for row in rows if row["drawn"]]
    alpha, words, unsure = (
        np.array([row[name] for row in drawn], dtype=float) for name in ("alpha", "words", "entropy")
    )

    def rho(x: Array, y: Array) -> float:
        return float(spearman(x, y)[0, 1])

    def ranked(statistic: Callable[..., float], *columns: Array) -> Record:
        low, high = resampled(statistic, *columns)
        return {"value": statistic(*columns), "low": low, "high": high, "pairs": len(drawn)}

    found = [
        _claim("negation repels", "J of a negation with content words of the other side, less that of the other word "
               "pairs of the text; contradiction logit", -1, **compared("negation", "others")),
        _claim("negation repels, across", "the same, less that of the other content words across the two sides", -1,
               **compared("negation", "across")),
        _claim("intensifiers attract", "J of an intensifier with the next word, less that of the other neighbours in "
               "the text; predicted label", +1, **compared("next", "near")),
        _claim("Banzhaf stresses negations", "Σ|β|/Σ|φ| of negations less that of the other words of the same texts",
               +1, difference=figure(negated, of_ratios(0, 1, (2, 3))), mean=figure(negated, of_ratios(0, 1)),
               others=figure(negated, of_ratios(2, 3))),
        _claim("Σα grows with length", "ρ of Σα and the number of words", +1, difference=ranked(rho, alpha, words)),
        _claim("Σα grows with doubt", "ρ of Σα and the entropy of the prediction", +1,
               difference=ranked(rho, alpha, unsure)),
        _claim("Σα grows with doubt, at equal length", "the same, with the number of words taken out", +1,
               difference=ranked(partial_spearman, alpha, unsure, words)),
    ]  # fmt: skip
    return {"drawn": len(drawn), "negations": sum(row["negations"] for row in rows), "claims": found}


def _claim(name: str, what: str, sign: int, *, difference: Record, **beside: Record) -> Record:
    """One entry; `difference` is what the word rests on."""
    n, low, high = difference["pairs"], difference["low"], difference["high"]
    said = WORDS[verdict((low, high), sign)] if n >= FEWEST else "too few pairs"
    return {"claim": name, "what": what, "n": n, "difference": difference, **beside, "found": said}


def claims_table(found: Record) -> list[Record]:
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
        for of in found["claims"]
    ]


# --- parts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """What is measured of each pair, what it amounts to, and on which pairs."""

    row: Callable[..., Record]  # of (bench, pair, place)
    summary: Callable[[Sequence[Record]], Record]
    table: Callable[[Record], list[Record]]
    pairs: int
    words: tuple[int, int] | None = None  # of the pairs; None: whatever was drawn
    step: int | None = 10  # pairs whose rows are kept together; None: all, in one run
    kept: bool = False  # whether the results have the rows
    settings: tuple[tuple[str, Any], ...] = ()  # on which a row depends


PARTS = {
    "r2": Part(r2_row, r2_summary, r2_table, 400, settings=(("coalitions", COALITIONS), ("precise", PRECISE))),
    "enumeration": Part(enumeration_row, enumeration_summary, enumeration_table, 40, words=(8, 11), step=5, kept=True),
    "refined": Part(
        refined_row, refined_summary, refined_table, 60, (12, 24), 2, kept=True, settings=(("reference", REFERENCE),)
    ),
    "rationale": Part(rationale_row, rationale_summary, rationale_table, 500),
    "cost": Part(cost_row, cost_summary, cost_table, 100, step=None, settings=(("repetitions", REPETITIONS),)),
    "second_order": Part(
        second_order_row, second_order_summary, second_order_table, 60, settings=(("word pairs", WORD_PAIRS),)
    ),
    "claims": Part(claims_row, claims_summary, claims_table, 500, step=50, settings=(("precise", PRECISE),)),
}
LIMITS = {**{name: part.pairs for name, part in PARTS.items()}, "refined_large": 30}


def pairs_of(bench: Bench, name: str, limits: Mapping[str, int]) -> PairDataset:
    """The pairs of a part."""
    if name == "claims":
        return bench.marked(limits[name])
    words = PARTS[name].words
    return bench.drawn(limits[name]) if words is None else bench.of_words(*words, limits[name])


def measure(
    bench: Bench, name: str, limits: Mapping[str, int], study: Callable[[Record], Study], *, fresh: bool = False
) -> Record:
    """Every row of a part, those that are stored from where they are, and what they amount to."""
    part, pairs = PARTS[name], pairs_of(bench, name, limits)
    row = partial(part.row, limits=limits) if name in ("refined", "claims") else part.row
    step = part.step or max(1, len(pairs))
    rows: list[Record] = []
    seconds = 0.0
    for start in range(0, len(pairs), step):
        some = pairs[start : start + step]
        settings = {**dict(part.settings), "start": start, "pairs": some.fingerprint}
        if name == "refined":
            settings["large"] = min(len(some), max(0, limits["refined_large"] - start))
        if name == "claims":
            settings["drawn"] = min(len(some), max(0, limits["claims"] - start))
        keeper, key = study(settings), f"{name} {start}"
        record = None if fresh else keeper.found(key, bench.seed)
        if record is None:
            began = time.perf_counter()
            made = [row(bench, pair, start + k) for k, pair in enumerate(some)]
            record = plain({"rows": made, "seconds": round(time.perf_counter() - began, 2)})
            keeper.store(key, bench.seed, record)
            progress(f"{name}: {start + len(some)} of {len(pairs)} pairs, {record['seconds']:.1f} s")
        rows += record["rows"]
        seconds += record["seconds"]
    found: Record = plain({"pairs": len(rows), "seconds": round(seconds, 1), **part.summary(rows)})
    return {**found, "rows": rows} if part.kept else found


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """One process at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def publish(path: Path, name: str, head: Record, part: str, found: Record) -> None:
    """Put a part under a name of the results; parts of another model under that name go."""
    whole = read(path) or {}
    entry = whole.get(name, {})
    if entry.get("protocol") not in (None, head["protocol"]):
        progress(f"{path.name}: what {name!r} had was measured on another model, seed or data; replaced")
        entry = {key: value for key, value in entry.items() if key == "accuracy"}
    parts = {**entry.get("parts", {}), part: found}
    ordered = {key: parts[key] for key in PARTS if key in parts}
    write(path, {**whole, name: {**entry, **head, "parts": ordered}})


def counts(given: Sequence[str]) -> dict[str, int]:
    """Pairs of each part: N is the most for all, PART=N for one."""
    limits, named = dict(LIMITS), {}
    for text in given:
        name, equals, number = text.rpartition("=")
        if not number.isdecimal() or not int(number) or (equals and name not in LIMITS):
            raise SystemExit(f"--pairs {text!r}; needed: N, or PART=N with PART one of {', '.join(LIMITS)}")
        if equals:
            named[name] = int(number)
        else:
            limits = {part: min(most, int(number)) for part, most in limits.items()}
    return limits | named


def main() -> None:
    """Measure what is missing, part by part; print and store each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="where the data sets are; see docs/nli.md")
    parser.add_argument("--model", help="a folder; by default the model that comes with the package")
    parser.add_argument("--explainer", type=Path, help="a folder that `neurogame ground` wrote for that model")
    parser.add_argument("--name", help="in the results; default: readout or explainer, as the model has it")
    parser.add_argument("--pairs", nargs="+", default=[], metavar="[PART=]N", help="fewer or more pairs than LIMITS")
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="compute again what is there already")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for what is kept between runs")
    args = parser.parse_args()
    quiet()
    torch.set_num_threads(args.threads)
    limits = counts(args.pairs)
    nli = load(args.model, explainer=args.explainer)
    if not is_grounded(nli.model):
        raise SystemExit(f"{nli.name} has no grounded game: readout 'game', or --explainer FOLDER, is needed")
    source = "readout" if has_readout(nli.model) else "explainer"
    name = args.name or source
    bench = Bench(nli, load_pairs("snli/dev", root=args.root), args.seed)
    protocol: Record = {"source": source, "weights": checksum(nli.model), "data": bench.dev.name, "seed": args.seed}
    if nli.explainer is not None and source == "explainer":
        protocol["explainer"] = checksum(nli.explainer.game)
    head = {"machine": machine(), "protocol": protocol}
    for part in [key for key in PARTS if not args.only or key in args.only]:

        def study(settings: Record) -> Study:
            return Study(f"grounding/{name}", {**protocol, **settings}, args.out, args.runs)

        found = measure(bench, part, limits, study, fresh=args.fresh)
        with alone(args.runs / "grounding" / "lock"):
            publish(args.out / "grounding.json", name, head, part, found)
        title = f"{name}: {part}, {found['pairs']} pairs, {found['seconds']:.0f} s"
        show(title, PARTS[part].table(found))


if __name__ == "__main__":
    main()
