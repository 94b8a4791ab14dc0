"""The pairs of `explanations`, what people marked of them, and the work that is to be done: steps, in an order.

A `Sample` is a list of pairs; a `Step` is a row of the tables on some of them. Not every row can be had on all pairs in
an hour, so that a row, or a kind of metric, may have a limit: then it is about the first pairs of the sample, as many
as the limit says. The sample is in random order, so they are a sample too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

import numpy as np

from neurogame._common.extras import need
from neurogame._common.validation import check_count
from neurogame.data import Pair, PairDataset, rationales
from neurogame.evaluation.alignment import Booleans
from neurogame.explanation import METHODS, Explanation, methods_for
from neurogame.nli import NLI
from neurogame_bench.faithfulness.plausibility import mean_share, mean_sizes

REFERENCE = "kernelshap"  # whose time is the unit
SAMPLES = {REFERENCE: 100}  # forward passes; the other methods do as much as they do by default
OPTIONS: Mapping[str, Mapping[str, Any]] = {"decision": {"check": False}}  # of explain: the values of one pass
SEEDED = ("decision", "input", "lime", "kernelshap")  # methods that draw at random
BASELINES = ("random", "all words", "hypothesis", "lexical difference")
JUDGED = ("left out", "curve", "mask", "auc", "pad", "interactions", "degraded")  # what deletion measures beyond AOPC
KINDS = (*JUDGED, "stability", "timing", "enumeration")
LIMITS = {"timing": 10, "stability": 10}  # pairs, by default
OPTIONAL = ("degraded",)  # on no pair by default
FEWEST, MOST = 5, 10  # words of the pairs that are enumerated
CHUNK = 20  # pairs per step


@dataclass(frozen=True, eq=False)
class Sample:
    """Pairs, what people marked of each, one row per annotator, and whether words of them are deleted."""

    name: str
    data: PairDataset
    marks: tuple[tuple[Booleans, ...], ...]
    deleted: bool
    unaligned: int = 0  # pairs whose marked words are not those of their sentences

    def __len__(self) -> int:
        return len(self.data)


@dataclass(frozen=True)
class Step:
    """A row on the pairs [start, stop) of a sample; what else it depends on are pairs of names and counts."""

    row: str
    sample: str
    start: int
    stop: int
    detail: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return f"{self.row}, {self.sample} {self.start}-{self.stop}"

    def upto(self, name: str) -> int:
        """Where a detail ends."""
        return dict(self.detail).get(name, self.start)


@dataclass(frozen=True)
class Work:
    """All that is to be done."""

    samples: tuple[Sample, ...]
    methods: tuple[str, ...]
    seed: int = 0
    limits: Mapping[str, int] = field(default_factory=dict)
    chunk: int = CHUNK

    def __post_init__(self) -> None:
        rows = (*METHODS, *BASELINES)
        allowed = (*rows, *(f"{row}/marked" for row in METHODS if row != "random"), *KINDS)
        for name, limit in self.limits.items():
            if name not in allowed:
                raise ValueError(f"limit of {name!r}; allowed: {', '.join(dict.fromkeys(allowed))}")
            check_count(f"limit of {name}", limit)

    def limit(self, name: str, sample: Sample) -> int:
        """How many of the pairs a row or a kind of metric is about."""
        key = name if sample.deleted else f"{name}/{sample.name}"
        usual = 0 if name in OPTIONAL else LIMITS.get(name, len(sample))
        return min(len(sample), self.limits.get(key, usual))

    @cached_property
    def sizes(self) -> dict[str | None, int]:
        """Label → how many words people mark of a pair; annotator 1."""
        golds, labels = self._golds()
        return mean_sizes(golds, labels)

    @cached_property
    def percent(self) -> float | None:
        """Which share of the words people mark, in %; annotator 1."""
        golds, _ = self._golds()
        return mean_share(golds) if golds else None

    def _golds(self) -> tuple[list[Booleans], list[str | None]]:
        marked = [
            (m[0], pair.label)
            for sample in self.samples
            for m, pair in zip(sample.marks, sample.data, strict=True)
            if m
        ]
        return [gold for gold, _ in marked], [label for _, label in marked]

    def steps(self) -> list[Step]:
        """Chunk by chunk, methods before what is made of them; time and enumeration last."""
        steps = []
        for sample in self.samples:
            for start in range(0, len(sample), self.chunk):
                steps += self._steps(sample, start)
        first = self.samples[0]
        timed = self.limit("timing", first)
        steps.append(Step("timing", first.name, 0, timed, tuple((name, timed) for name in self.methods)))
        if "input" in self.methods:
            short = sum(is_short(pair) for pair in first.data)
            steps.append(Step("enumeration", first.name, 0, min(short, self.limits.get("enumeration", short))))
        return [step for step in steps if step.stop > step.start]

    def _steps(self, sample: Sample, start: int) -> list[Step]:
        end = start + self.chunk

        def upto(name: str) -> int:
            return min(end, self.limit(name, sample))

        made = []
        for name in self.methods:
            kinds = ["interactions"] if sample.deleted else []
            kinds += ["stability"] if sample.deleted and name in SEEDED else []
            stop = upto(name)
            detail = tuple((kind, at) for kind in kinds if (at := min(stop, upto(kind))) > start)
            made.append(Step(name, sample.name, start, stop, detail))
        made = [step for step in made if step.stop > start]
        if not sample.deleted:
            return made
        rows = [(step.row, step.stop) for step in made] + [(name, upto(name)) for name in BASELINES]
        families = [(kind, upto(kind)) for kind in JUDGED]
        detail = tuple((name, stop) for name, stop in (*rows, *families) if stop > start)
        return [*made, Step("deletion", sample.name, start, min(end, len(sample)), detail)]

    def sample(self, name: str) -> Sample:
        """By its name."""
        return next(sample for sample in self.samples if sample.name == name)


def draw(data: PairDataset, pairs: int, seed: int) -> PairDataset:
    """`random.Random(seed).sample` of the pairs; all of them, in the same way shuffled, where there are no more."""
    if not len(data):
        raise ValueError(f"{data.name} has no pairs")
    places = Random(seed).sample(range(len(data)), min(pairs, len(data)))  # noqa: S311 — not cryptography
    return PairDataset(tuple(data[i] for i in places), data.name, data.source)


def chosen(nli: NLI, methods: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Methods to compare, and those that would work if their packages were there; random orders are a row anyway."""
    works = [name for name, method in METHODS.items() if method.applies(nli.model) and name != "random"]
    installed = [name for name in methods_for(nli.model) if name != "random"]
    wanted = list(dict.fromkeys(works if methods is None else methods))
    unknown = [name for name in wanted if name not in works and name != "random"]
    if unknown:
        raise ValueError(f"methods: {unknown[0]!r} does not work for {nli.name}; allowed: {', '.join(works)}")
    names = [name for name in wanted if name in installed]
    missing = [name for name in wanted if name in works and name not in installed]
    if missing and methods is not None:
        need(next(m for m in METHODS[missing[0]].needs), "explain")
    if not names:
        raise ValueError(f"methods: none is left to compare; allowed: {', '.join(works)}")
    return names, missing


def samples_of(drawn: PairDataset, marked: PairDataset | None) -> tuple[Sample, ...]:
    """Pairs to delete words of, and those that people marked; None: the same, if they have marks."""
    data = drawn if marked is None else marked
    annotated = [(pair, *marks_of(pair)) for pair in data]
    unaligned = sum(fits is False for *_, fits in annotated)
    if marked is None:
        return (Sample("drawn", drawn, tuple(marks for _, marks, _ in annotated), deleted=True, unaligned=unaligned),)
    fitting = [(pair, marks) for pair, marks, _ in annotated if marks]
    if not fitting:
        raise ValueError(
            f"{marked.name}: no pair has marked words; needed: columns Sentence1_marked_1 and Sentence2_marked_1, or "
            "p_marked_1 and h_marked_1, with words marked *so*"
        )
    kept = PairDataset(tuple(pair for pair, _ in fitting), marked.name, marked.source)
    return (
        Sample("drawn", drawn, ((),) * len(drawn), deleted=True),
        Sample("marked", kept, tuple(marks for _, marks in fitting), deleted=False, unaligned=unaligned),
    )


def marks_of(pair: Pair) -> tuple[tuple[Booleans, ...], bool | None]:
    """Marks of all annotators over the words of premise and hypothesis; whether they fit them, None without any."""
    annotators = rationales(pair)
    fitting = [np.array((*p.marked, *h.marked)) for p, h in annotators if [*p.words, *h.words] == words_of(pair)]
    fits = bool(annotators) and len(fitting) == len(annotators)
    return (tuple(fitting) if fits else ()), (fits if annotators else None)


def words_of(pair: Pair) -> list[str]:
    """Of premise and hypothesis."""
    return [*pair.premise.split(), *pair.hypothesis.split()]


def sides_of(pair: Pair) -> list[str]:
    """Of the same words."""
    return ["premise"] * len(pair.premise.split()) + ["hypothesis"] * len(pair.hypothesis.split())


def is_short(pair: Pair) -> bool:
    """Whether all coalitions of its words can be evaluated, and half of them say enough to be compared."""
    return FEWEST <= len(words_of(pair)) <= MOST


def explain(nli: NLI, pair: Pair, method: str, seed: int, **options: Any) -> Explanation:
    """One method, with the samples and the options it has here."""
    options = {"samples": SAMPLES.get(method), **OPTIONS.get(method, {}), **options}
    return nli.explain(pair.premise, pair.hypothesis, method=method, seed=seed, **options)
