"""The parts of the study: what is measured of each pair, what it amounts to, on which pairs; rows are kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from neurogame._common.records import plain
from neurogame.data import PairDataset
from neurogame_bench.explanations.work import WORD_PAIRS
from neurogame_bench.grounding import claims, cost, enumeration, phrases, r2, rationale, refined, second_order
from neurogame_bench.grounding.bench import PRECISE, Bench
from neurogame_bench.study import Record, Study, kept_rows


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
    "r2": Part(r2.row, r2.summary, r2.table, 400, settings=(("coalitions", r2.COALITIONS), ("precise", PRECISE))),
    "enumeration": Part(enumeration.row, enumeration.summary, enumeration.table, 40, words=(8, 11), step=5, kept=True),
    "refined": Part(
        refined.row,
        refined.summary,
        refined.table,
        60,
        (12, 24),
        2,
        kept=True,
        settings=(("reference", refined.REFERENCE),),
    ),
    "rationale": Part(rationale.row, rationale.summary, rationale.table, 500),
    "cost": Part(cost.row, cost.summary, cost.table, 100, step=None, settings=(("repetitions", cost.REPETITIONS),)),
    "second_order": Part(
        second_order.row, second_order.summary, second_order.table, 60, settings=(("word pairs", WORD_PAIRS),)
    ),
    "claims": Part(claims.row, claims.summary, claims.table, 500, step=50, settings=(("precise", PRECISE),)),
    "phrases": Part(phrases.row, phrases.summary, phrases.table, 828, step=50, settings=(("precise", PRECISE),)),
}
LIMITS = {**{name: part.pairs for name, part in PARTS.items()}, "refined_large": 30}


def pairs_of(bench: Bench, name: str, limits: Mapping[str, int]) -> PairDataset:
    """The pairs of a part."""
    if name == "claims":
        return bench.marked(limits[name])
    if name == "phrases":
        return phrases.dataset(limits[name])
    words = PARTS[name].words
    return bench.drawn(limits[name]) if words is None else bench.of_words(*words, limits[name])


def measure(
    bench: Bench, name: str, limits: Mapping[str, int], study: Callable[[Record], Study], *, fresh: bool = False
) -> Record:
    """Measure a part: rows that are stored are not computed again.

    Args:
        bench: model and pairs.
        name: of `PARTS`.
        limits: pairs of each part.
        study: settings of a step → where its rows are kept.
        fresh: compute again what is there already.

    Returns:
        JSON values: the summary of the part, with "pairs" and "seconds".
    """
    part, pairs = PARTS[name], pairs_of(bench, name, limits)
    row = partial(part.row, limits=limits) if name in ("refined", "claims") else part.row

    def keeper(start: int, some: Any) -> Study:
        settings = {**dict(part.settings), "start": start, "pairs": some.fingerprint}
        if name == "refined":
            settings["large"] = min(len(some), max(0, limits["refined_large"] - start))
        if name == "claims":
            settings["drawn"] = min(len(some), max(0, limits["claims"] - start))
        return study(settings)

    step = part.step or max(1, len(pairs))
    rows, seconds = kept_rows(name, pairs, step, partial(row, bench), keeper, seed=bench.seed, fresh=fresh)
    summary: Record = plain({"pairs": len(rows), "seconds": round(seconds, 1), **part.summary(rows)})
    return {**summary, "rows": rows} if part.kept else summary
