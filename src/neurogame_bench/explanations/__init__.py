"""How good the explanations of a model are: every method beside what it must beat, on the same pairs.

`run` measures; `table` and `figure` (in `view`) show the results. `cases` has the pairs and the steps, `work` what is
asked of the model, `steps` does the work and keeps it, `summary` is what it amounts to. Metrics are those of
`neurogame_bench.faithfulness`, defined there. What is particular to this benchmark:

- pairs — `random.Random(seed).sample` of the data, and as many of the pairs with human highlights, which are the same
  where the data have them. A row may have a limit: the first pairs only. Pairs that a method cannot explain are left
  out of its row, and counted;
- scores — each method's own, for the label ŷ that the model predicts of the whole pair; AP alone takes those for the
  gold label. Units are words that the model reads; special tokens stay in every input;
- removal — "delete", and "mask" and "pad" in columns of their own; probabilities are those of `predict`,
  temperature included;
- rows — the methods that work for the model; random orders (mean of ten), all words, the hypothesis, the lexical
  difference; against human highlights also the words with α > ½, and people: annotators 2 and 3 against 1;
- degraded — where asked for: each method beside a copy in which half of the words have each other's scores, by every
  deletion metric; a metric that does not rank the copy lower (95 % interval of the paired difference) is named;
- stability — Kendall's τ between runs with three seeds, of the methods that draw at random;
- interactions — Spearman's ρ with second-order deletion effects, over 60 pairs of words of each pair; mean over pairs.
  Beside it, for method "input" on pairs of few words, ρ of the estimate from half of the coalitions with exact
  enumeration;
- seconds — wall time of the whole call `nli.explain`, prediction included; all methods run in turn on each of a few
  pairs, after a warm-up. Median over pairs, and median of the ratio to KernelSHAP on the same pair, which is one of
  processor time.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from neurogame._common.extras import need
from neurogame._common.records import plain
from neurogame._common.validation import check_count
from neurogame.about import machine
from neurogame.data import load as load_pairs
from neurogame.nli import NLI, load
from neurogame_bench import intervals
from neurogame_bench.explanations.cases import (
    OPTIONS,
    REFERENCE,
    SAMPLES,
    Work,
    chosen,
    draw,
    samples_of,
)
from neurogame_bench.explanations.steps import beside, complete, protocol, stored
from neurogame_bench.explanations.summary import Records, report
from neurogame_bench.explanations.view import figure, table
from neurogame_bench.explanations.work import SEEDS, WORD_PAIRS, perform
from neurogame_bench.study import Progress, Study

__all__ = ["beside", "collect", "complete", "figure", "perform", "prepare", "protocol", "run", "stored", "table"]

PAIRS = 20  # by default: minutes, not hours


def run(
    progress: Progress = lambda _: None,
    *,
    model: NLI | str | Path | None = None,
    data: str = "snli/dev",
    pairs: int = PAIRS,
    seed: int = 0,
    methods: Sequence[str] | None = None,
    rationales: str | Path | None = None,
    limits: Mapping[str, int] | None = None,
    root: str | Path | None = None,
    hub: bool = False,
    device: str | None = None,
    runs: str | Path | None = None,
) -> dict[str, Any]:
    """Every metric of every row, with intervals.

        results = run(data="pairs.csv", pairs=50, methods=["decision", "kernelshap"], runs="runs")

    Args:
        progress: called with a line on what is being done.
        model: a model, or what `neurogame.load` takes.
        data: a data set, or a file.
        pairs: how many of them, at most.
        seed: of the draw of pairs, of random orders, of the methods that sample, and of the bootstrap.
        methods: names; None: all that work for the model.
        rationales: a file or data set with human highlights; None: those that the data have, if they do.
        limits: fewer pairs for a row, as in {"input": 10, "input/marked": 5}, or for a kind of metric: "left out",
            "curve", "mask", "auc", "pad", "interactions", "stability", "timing", "enumeration". "degraded" is how many
            pairs have degraded copies, which doubles their forward passes: none, unless it is here.
        root: where data sets are looked for; None: as `neurogame.data.load` does.
        hub: download a named data set that is not there.
        device: where the model runs.
        runs: a folder for finished steps: the same call resumes where it was stopped, and several processes may share
            the work. None: nothing is kept.

    Returns:
        JSON values: "settings", "rows" (with "figures": metric → value, low, high, pairs), "differences", "people",
        "enumeration", "degraded", and in "missing" the steps that another process is at.

    Raises:
        ValueError: if a method or a limit is not known, or no pair can be explained.
        ImportError: if a library of `neurogame[explain]` is missing.
    """
    nli, work, settings = prepare(
        model=model,
        data=data,
        pairs=pairs,
        seed=seed,
        methods=methods,
        rationales=rationales,
        limits=limits,
        root=root,
        hub=hub,
        device=device,
    )
    study = None
    if runs is not None:
        pairs_of = {sample.name: sample.data.fingerprint for sample in work.samples}
        known = {**protocol(nli, work, settings), "fingerprints": pairs_of}
        study = Study("explanations", plain(known), None, Path(runs))
    return collect(work, complete(nli, work, study, say=progress), settings)


def prepare(
    *,
    model: NLI | str | Path | None,
    data: str,
    pairs: int,
    seed: int,
    methods: Sequence[str] | None = None,
    rationales: str | Path | None = None,
    limits: Mapping[str, int] | None = None,
    root: str | Path | None = None,
    hub: bool = False,
    device: str | None = None,
) -> tuple[NLI, Work, dict[str, Any]]:
    """The model, what is to be done, and under which settings; arguments as of `run`."""
    need("scipy", "explain")
    need("sklearn", "explain")
    check_count("pairs", pairs)
    check_count("seed", seed, least=0)
    drawn = draw(load_pairs(data, root=root, hub=hub), pairs, seed)
    marked = None if rationales is None else draw(load_pairs(rationales, root=root, hub=hub), pairs, seed)
    samples = samples_of(drawn, marked)
    nli = model if isinstance(model, NLI) else load(model, device=device)
    names, missing = chosen(nli, methods)
    work = Work(samples, tuple(names), seed, dict(limits or {}))
    return (
        nli,
        work,
        {
            "model": nli.name,
            "data": drawn.name,
            "pairs": len(drawn),
            "seed": seed,
            "methods": names,
            "limits": dict(work.limits),
            "samples": {name: count for name, count in SAMPLES.items() if name in names},
            "options": {name: dict(OPTIONS[name]) for name in names if name in OPTIONS},
            "not installed": missing,
            "masking": nli.tokenizer.mask_token_id is not None,
            "spins": getattr(nli.model.config, "head", None) == "neurogame",
            "seeds": SEEDS,
            "word pairs": WORD_PAIRS,
            "resamples": intervals.RESAMPLES,
            "reference": REFERENCE,
        },
    )


def collect(work: Work, records: Records, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What `run` returns, from the records there are.

    Args:
        work: what was to be done.
        records: step → record; those that are not there are listed as missing.
        settings: as `prepare` returns them.

    Returns:
        JSON values.

    Raises:
        ValueError: if no pair could be explained.
    """
    sample = work.samples[-1]  # the one with marks, if there are any
    labels = [pair.label for pair, marks in zip(sample.data, sample.marks, strict=True) if marks]
    missing = [str(step) for step in work.steps() if step not in records]
    results = {
        "machine": machine(),
        "settings": dict(settings),
        "people": {
            "data": sample.data.name if labels else None,
            "pairs": len(labels),
            "labels": {str(name): labels.count(name) for name in dict.fromkeys(labels)},
            "share of words, %": work.percent,
            "words by label": {str(name): size for name, size in work.sizes.items()},
            "not aligned": sample.unaligned,
        },
        "missing": missing,
        **report(work, records, spins=settings["spins"]),
    }
    return plain(results)  # type: ignore[no-any-return]
