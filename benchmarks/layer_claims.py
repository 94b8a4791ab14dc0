"""Claims about what the layer does on sentences: the sign of couplings, ranks, neutral pairs, Σα, convergence.

Each function takes what `observe` saw (or a model) and returns entries for benchmarks/claims.py, which has the rules.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from common import progress
from observe import Seen, observe

from neurogame.data import PairDataset
from neurogame.labels import LABELS
from neurogame.modeling.heads import NeuroGamePooling
from neurogame.nli import NLI
from neurogame_bench.effects import (
    FAILS,
    HOLDS,
    bootstrap,
    clustered,
    gap,
    partial_spearman,
    percentile_ranks,
    relative,
    sign_test,
    spearman,
    together,
    verdict,
)
from neurogame_bench.intervals import Interval, resampled
from neurogame_bench.phrases import INTENSIFIERS, NEGATORS, clause_markers, coupled, is_negation, is_quantifier, phrases
from neurogame_bench.study import Record

PRECISE = 512  # coalitions per law where ranks are compared; the model itself uses 24


def claim(name: str, says: str, found: str | None, number: str, rule: str, **details: Any) -> Record:
    """One entry of the page; `found` is None where it could not be measured, and `number` says why."""
    return {"name": name, "says": says, "verdict": found, "number": number, "rule": rule, **details}


def between(interval: Interval | None, digits: int = 3) -> str:
    """An interval as text."""
    return "no interval" if interval is None else f"[{interval[0]:+.{digits}f}, {interval[1]:+.{digits}f}]"


def of_phrases(nli: NLI, most: int | None) -> list[Record]:
    """J_ij("not", "good") < 0 < J_ij("very", "good"), in units of the mean |J| over all word pairs of the sentences."""
    listed = list(phrases())[:most]
    rows: list[Record] = []
    for i, seen in observe(nli, [(p.premise, p.hypothesis) for p in listed], what="phrases"):
        if seen.game is None:
            raise SystemExit(f"{nli.name} plays no game: J_ij needs a NeuroGame head")
        rows.append(coupled(listed[i].modifier, listed[i].adjective, seen.words, seen.sides, seen.game.coupling))
    tables = {modifier: _of_modifier(rows, modifier) for modifier in (*NEGATORS, *INTENSIFIERS)}
    no, very = tables["not"], tables["very"]
    paired: dict[str, list[float]] = {}
    for row in rows:
        if row["modifier"] in ("not", "very"):
            paired.setdefault(row["adjective"], []).append(row["J"] * (1 if row["modifier"] == "not" else -1))
    contrast = np.array([2.0 * float(np.mean(values)) for values in paired.values()])
    over = bootstrap(contrast)
    background = float(np.mean([row["all"] for row in rows])), float(np.mean([row["neighbours"] for row in rows]))
    parts = verdict(no["interval"], -1), verdict(very["interval"], +1)
    number = ", ".join(
        f"{word} {of['mean']:+.2f} {between(of['interval'], 2)}" for word, of in (("not", no), ("very", very))
    )
    return [
        claim(
            "negation competes, intensification cooperates",
            "J_ij(“not”, “good”) < 0 and J_ij(“very”, “good”) > 0",
            together(parts),
            number,
            "both means on their side of 0; bootstrap over adjectives; unit: mean |J_ij| of the pair of sentences",
            parts={"not": parts[0], "very": parts[1]},
            modifiers=tables,
            all_pairs=background[0],
            neighbours=background[1],
            contrast={"difference": float(contrast.mean()), "interval": over, **sign_test(contrast)},
            adjectives=len(paired),
            sentences=len(rows),
        )
    ]


def _of_modifier(rows: Sequence[Record], modifier: str) -> Record:
    """Mean coupling of one modifier with its adjectives; an adjective is one draw, whatever the frames."""
    own = [row for row in rows if row["modifier"] == modifier]
    return clustered([row["J"] for row in own], [row["adjective"] for row in own])


def of_dev(nli: NLI, dev: PairDataset) -> list[Record]:
    """What one pass over SNLI dev tells, and another with more coalitions over the pairs that have marked words."""
    seen = dict(observe(nli, [(pair.premise, pair.hypothesis) for pair in dev], what="SNLI dev"))
    listed = [seen[i] for i in range(len(dev))]
    marked = [(pair.premise, pair.hypothesis) for pair in dev if _marked(pair)]
    with precise(nli):
        ranked = [found for _, found in observe(nli, marked, what="ranks")]
    return [
        of_ranks(ranked, "negations", is_negation),
        of_ranks(ranked, "quantifiers", is_quantifier),
        of_neutral(listed, dev),
        of_complexity(listed, dev),
        of_convergence(listed, "default model"),
    ]


def _marked(pair: Any, *kinds: Callable[[str], bool]) -> bool:
    """Whether a pair has a negation or a quantifier (or a word of the given kinds)."""
    words = f"{pair.premise} {pair.hypothesis}".split()
    return any(is_one(word) for is_one in kinds or (is_negation, is_quantifier) for word in words)


@contextmanager
def precise(nli: NLI) -> Iterator[None]:
    """The layer with PRECISE coalitions per law: noise moves ranks to the middle, and φ and β are not equally noisy."""
    assert isinstance(nli.model.pooling, NeuroGamePooling)
    layer = nli.model.pooling.layer
    usual = layer.config
    layer.config = replace(usual, samples=PRECISE)
    try:
        yield
    finally:
        layer.config = usual


def of_ranks(listed: Sequence[Seen], what: str, is_one: Callable[[str], bool]) -> Record:
    """Rank of such words by |φ_i| minus rank by |β_i|, 0 the first word and 1 the last of a pair."""
    advantage, pair, absolute = [], [], []
    for i, seen in enumerate(listed):
        assert seen.game is not None
        phi, beta = percentile_ranks(seen.game.shapley), percentile_ranks(seen.game.banzhaf)
        for k, word in enumerate(seen.words):
            if is_one(word) and len(seen.words) > 1:
                advantage.append(float(phi[k] - beta[k]))
                absolute.append((float(phi[k]), float(beta[k])))
                pair.append(i)
    return _ranked(f"Banzhaf ranks {what} higher", what, "the layer's game", advantage, absolute, pair)


def _ranked(
    name: str, what: str, where: str, advantage: list[float], absolute: list[tuple[float, float]], pair: list[int]
) -> Record:
    says, rule = f"Banzhaf ranks {what} higher than Shapley does ({where})", "mean difference in rank > 0; over pairs"
    if len(set(pair)) < 2:
        return claim(name, says, None, f"not measured: pairs with such a word: {len(set(pair))}", rule)
    values = np.array(advantage)
    over = bootstrap(values, pair)
    by_shapley, by_banzhaf = (float(np.mean([both[k] for both in absolute])) for k in (0, 1))
    number = (
        f"{values.mean():+.4f} {between(over, 4)} of the list; mean rank {by_shapley:.3f} (φ), {by_banzhaf:.3f} (β)"
    )
    details = {"mean": float(values.mean()), "interval": over, "words": len(values), "pairs": len(set(pair))}
    return claim(name, says, verdict(over, +1), number, rule, **details, **sign_test(values))


def of_neutral(listed: Sequence[Seen], dev: PairDataset) -> Record:
    """mean |J_ij| of neutral pairs against the others, relative to pairs of the same length."""
    gold = np.array([str(pair.label) for pair in dev])
    tokens = np.array([seen.tokens for seen in listed])
    columns = {}
    for name in ("strength", "scaled", "across"):
        raw = np.array([getattr(seen.game, name) for seen in listed])
        values = relative(raw, tokens)
        columns[name] = {
            **gap(values[gold == LABELS[1]], values[gold != LABELS[1]]),
            "by_label": {label: float(values[gold == label].mean()) for label in LABELS},
            "unadjusted": {label: float(raw[gold == label].mean()) for label in LABELS},
        }
    main = columns["strength"]
    return claim(
        "couplings vanish on neutral pairs",
        "|J_ij| is smaller on neutral pairs, near zero",
        verdict(main["interval"], -1),
        f"{100 * main['difference']:+.1f} % {between(tuple(100 * bound for bound in main['interval']), 1)}, "
        f"d = {main['d']:+.2f}",
        "mean |J_ij|, relative to pairs of like length, neutral minus others < 0; over pairs",
        measures=columns,
        pairs=len(listed),
    )


def of_complexity(listed: Sequence[Seen], dev: PairDataset) -> Record:
    """Σα against the number of tokens and of clause markers."""
    total = np.array([seen.total for seen in listed])
    tokens = np.array([float(seen.tokens) for seen in listed])
    markers = np.array([float(clause_markers(pair.premise) + clause_markers(pair.hypothesis)) for pair in dev])
    rho = partial_spearman(total, markers, tokens)
    over = resampled(partial_spearman, total, markers, tokens)
    r = spearman(total, tokens, markers, total / tokens)
    length = float(r[0, 1])
    return claim(
        "Σα grows with complexity",
        "Σα reflects the semantic complexity of the input",
        verdict(over, +1),
        f"ρ = {rho:+.3f} {between(over)} with clause markers at equal length; {length:+.3f} with length itself",
        "partial Spearman correlation of Σα and clause markers given the number of tokens > 0; over pairs",
        partial=rho,
        interval=over,
        with_length=length,
        with_markers=float(r[0, 2]),
        share_with_markers=float(r[3, 2]),
        mean_share=float((total / tokens).mean()),
        pairs=len(listed),
    )


def of_convergence(listed: Sequence[Seen], what: str) -> Record:
    """Iterations and residuals of every pair and head."""
    games = [seen.game for seen in listed if seen.game is not None]
    iterations = np.concatenate([game.iterations for game in games])
    residual = np.concatenate([game.residual for game in games])
    converged = np.concatenate([game.converged for game in games])
    within = {str(limit): float((converged & (iterations <= limit)).mean()) for limit in (5, 10, 20, 25)}
    return claim(
        f"convergence, {what}",
        f"the iteration converges within 10 to 20 steps ({what})",
        HOLDS if within["20"] >= 0.95 else FAILS,
        f"{100 * within['10']:.1f} % within 10 steps, {100 * within['20']:.1f} % within 20; "
        f"median {np.median(iterations):.0f}",
        "residual below the tolerance within 20 steps in at least 95 % of the systems (pair × head)",
        within=within,
        converged=float(converged.mean()),
        histogram=np.bincount(iterations).tolist(),
        quantiles={str(q): float(np.quantile(iterations, q)) for q in (0.5, 0.9, 0.99)},
        residuals={str(q): float(np.quantile(residual, q)) for q in (0.5, 0.9, 0.99, 1.0)},
        systems=len(iterations),
        pairs=len(listed),
    )


def of_decision(nli: NLI, dev: PairDataset, most: int) -> list[Record]:
    """Ranks and swing words in the game of the decision, on pairs that have a negation or a quantifier."""
    negated = [i for i, pair in enumerate(dev) if _marked(pair, is_negation)]
    others = [i for i, pair in enumerate(dev) if _marked(pair, is_quantifier) and not _marked(pair, is_negation)]
    chosen_pairs = (negated[: most // 2] + others)[:most]
    found: dict[str, tuple[list[float], list[tuple[float, float]], list[int]]] = {
        "negations": ([], [], []),
        "quantifiers": ([], [], []),
    }
    swings = {"negations": [0, 0], "quantifiers": [0, 0], "other words": [0, 0]}
    for done, i in enumerate(chosen_pairs, 1):
        explained = nli.explain(dev[i].premise, dev[i].hypothesis, method="decision")
        assert explained.shapley is not None
        assert explained.banzhaf is not None
        phi, beta = (percentile_ranks(np.array(values)) for values in (explained.shapley, explained.banzhaf))
        for k, word in enumerate(explained.words):
            kind = "negations" if is_negation(word) else "quantifiers" if is_quantifier(word) else "other words"
            swings[kind][0] += k in explained.swing
            swings[kind][1] += 1
            if kind in found:
                advantage, absolute, pair = found[kind]
                advantage.append(float(phi[k] - beta[k]))
                absolute.append((float(phi[k]), float(beta[k])))
                pair.append(i)
        if done % 50 == 0:
            progress(f"  decisions: {done} of {len(chosen_pairs)} pairs")
    shares = {kind: {"swing": hits, "words": n, "share": hits / max(1, n)} for kind, (hits, n) in swings.items()}
    claims = [
        _ranked(f"Banzhaf ranks {what} higher, decision game", what, "the game of the decision", *lists)
        for what, lists in found.items()
    ]
    return [{**entry, "swing_words": shares} for entry in claims]
