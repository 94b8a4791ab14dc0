"""`evaluate`: one model on several data sets; and the `Report` it returns.

A report is rows of model × data set. Reports of several models are joined by `combine`. How a number
comes about is in `metrics`, `calibration` and `comparison`; what a report looks like is in `views`
(terminal, Markdown) and `figures`; the folder it is saved in, in `predictions`.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from neurogame._common.records import plain, restore
from neurogame._common.validation import check_count
from neurogame.data import PairDataset
from neurogame.evaluation import views
from neurogame.evaluation.alignment import align, counts_as, sort_labels
from neurogame.evaluation.calibration import Calibration, calibrate, fit_temperature
from neurogame.evaluation.comparison import Comparison, check_same_data, compare
from neurogame.evaluation.metrics import Group, Scores, by, score_aligned
from neurogame.evaluation.predictions import Predictions, load_predictions, read_report, write_report
from neurogame.nli import NLI

GROUPS = (("heuristic", "label"), ("round",))  # HANS, ANLI: reported where the pairs have these extras

Progress = Callable[[int], object]  # called with the number of pairs just done


@dataclass(frozen=True)
class Row:
    """One model on one data set."""

    model: str
    parameters: int
    data: str
    source: str
    fingerprint: str
    n: int
    without_gold: int  # rows dropped because they have no gold label
    malformed: int  # rows skipped
    scores: Scores
    groups: dict[str, tuple[Group, ...]]  # "heuristic × label": …
    calibration: Calibration
    comparisons: tuple[Comparison, ...]
    seconds: float  # tokenising and forward passes
    pairs_per_second: float
    predictions: Predictions | None = field(default=None, repr=False, compare=False, metadata={"saved": False})

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, without the predictions."""
        return plain(self)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Report:
    """Rows of model × data set."""

    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        seen: set[tuple[str, str]] = set()
        prints: dict[str, str] = {}
        for row in self.rows:
            if (row.model, row.data) in seen:
                raise ValueError(
                    f"{row.model} on {row.data} appears twice in a report; give runs and data sets names of their own "
                    "(`evaluate(..., name=...)` names the model)"
                )
            seen.add((row.model, row.data))
            check_same_data((row.data, row.fingerprint), (row.data, prints.setdefault(row.data, row.fingerprint)))

    @property
    def models(self) -> tuple[str, ...]:
        """Model names, in the order of the rows."""
        return tuple(dict.fromkeys(row.model for row in self.rows))

    @property
    def data(self) -> tuple[str, ...]:
        """Names of data sets, in the order of the rows."""
        return tuple(dict.fromkeys(row.data for row in self.rows))

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values; `from_dict` is its inverse. Predictions are saved beside it, see `save`."""
        return plain(self)  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Report":
        """The report that `to_dict` described."""
        return restore(cls, data)

    def to_markdown(self) -> str:
        """The report as Markdown, with every table."""
        return views.markdown(self)

    def table(self) -> RenderableType:
        """The report for the terminal: one table for all models and data sets, then groups and comparisons."""
        return views.table(self)

    def save(self, folder: str | Path, *, overwrite: bool = False, sentences: bool = False) -> Path:
        """Write `report.json`, `report.md` and one `predictions-<data>.jsonl` per row into `folder`.

        Args:
            folder: made if it does not exist.
            overwrite: whether to replace the results that `folder` holds; without, they are a FileExistsError.
            sentences: whether the predictions repeat premise and hypothesis.

        Returns:
            The folder.
        """
        return write_report(self, Path(folder), overwrite=overwrite, sentences=sentences)

    @classmethod
    def load(cls, folder: str | Path) -> "Report":
        """What `save` wrote, predictions included."""
        rows = cls.from_dict(read_report(Path(folder))).rows
        return cls(tuple(replace(row, predictions=p) for row, p in zip(rows, load_predictions(folder), strict=True)))


def combine(reports: Iterable[Report]) -> Report:
    """One report of several: other models, other data sets, or both.

        combine([evaluate(nli, dev), evaluate(other, dev)]).table()

    Args:
        reports: in which no model is twice on the same data set.

    Returns:
        All rows, in order.

    Raises:
        ValueError: if there is no row, a row is there twice, or two sets of one name differ.
    """
    rows = tuple(row for report in reports for row in report.rows)
    if not rows:
        raise ValueError("there are no reports to combine")
    return Report(rows)


def evaluate(
    nli: NLI,
    datasets: Sequence[PairDataset] | PairDataset,
    *,
    batch_size: int = 32,
    calibration: PairDataset | None = None,
    bins: int = 15,
    resamples: int = 1000,
    seed: int = 0,
    against: "str | Path | Report | Sequence[Predictions] | None" = None,
    groups: Sequence[Sequence[str]] | None = None,
    name: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Run a model over data sets and score it.

        report = evaluate(neurogame.load(), neurogame.data.load("toy/dev"))
        report.rows[0].scores.accuracy, report.to_markdown()

    Args:
        nli: the model; labels are matched by name.
        datasets: one data set, or several with names of their own.
        batch_size: pairs per forward pass.
        calibration: a separate set to fit the temperature on. A data set that is this very set is
            cross-fitted instead: no temperature is tested on the pairs it was fitted on.
        bins: of the expected calibration error, of equal width.
        resamples: of the bootstrap.
        seed: of the bootstrap and of the halves.
        against: another run to compare with, data set by data set: a folder that `Report.save` wrote,
            a report, or predictions. At least one data set must be common to both.
        groups: what to break accuracy down by, see `metrics.by`; None means heuristic × label and
            round, where the pairs have them.
        name: how the report calls the model, if not by its own name.
        progress: passed to the model's `logits`, which calls it with the number of pairs just done.

    Returns:
        A row for each data set.

    Raises:
        ValueError: if a set is empty, has labels that the model lacks, or shares its name with another; or if the run
            to compare with has none of these pairs.
    """
    sets: list[Any] = [datasets] if hasattr(datasets, "fingerprint") else list(datasets)
    _check(nli, sets, calibration)
    for option, value in (("batch_size", batch_size), ("bins", bins), ("resamples", resamples)):
        check_count(option, value)
    others = _others(against, sets)
    model = nli.name if name is None else name
    runs: dict[str, tuple[Predictions, float]] = {}  # and the seconds they took

    def run(data: PairDataset) -> tuple[Predictions, float]:
        if data.fingerprint not in runs:
            pairs = [(pair.premise, pair.hypothesis) for pair in data]
            start = time.perf_counter()
            logits = nli.logits(pairs, batch_size=batch_size, progress=progress)
            seconds = time.perf_counter() - start
            aligned = align(logits, _gold(data), nli.labels)
            runs[data.fingerprint] = Predictions(model, data.name, data.fingerprint, aligned, pairs), seconds
        return runs[data.fingerprint]

    fitted: tuple[float, str] | None = None
    if calibration is not None:
        on = run(calibration)[0].aligned
        fitted = fit_temperature(on.logits, on.gold), calibration.name
    rows = []
    for data in sets:
        own, seconds = run(data)
        own, aligned = replace(own, data=data.name), own.aligned
        separate = fitted if calibration is not None and calibration.fingerprint != data.fingerprint else None
        # A stored temperature may stem from this very calibration set, so it is not used on it either.
        stored = nli.temperature if calibration is None or separate is not None else 1.0
        rows.append(
            Row(
                model=model,
                parameters=int(nli.parameters),
                data=data.name,
                source=str(data.source),
                fingerprint=data.fingerprint,
                n=len(aligned),
                without_gold=data.without_gold,
                malformed=len(data.malformed),
                scores=score_aligned(aligned, bins=bins, resamples=resamples, seed=seed),
                groups=_groups(groups, data, own),
                calibration=calibrate(aligned, fitted=separate, stored=stored, bins=bins, seed=seed),
                comparisons=tuple(compare(own, o, resamples=resamples, seed=seed) for o in others.get(data.name, ())),
                seconds=seconds,
                pairs_per_second=len(aligned) / max(seconds, 1e-9),
                predictions=own,
            )
        )
    return Report(tuple(rows))


def _check(nli: NLI, datasets: Sequence[PairDataset], calibration: PairDataset | None) -> None:
    """Check data sets and labels before the model runs."""
    if not datasets:
        raise ValueError("there are no data sets to evaluate on")
    names = [data.name for data in datasets]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"several data sets are called {twice[0]!r}; give each a name of its own")
    for data in datasets:
        _names(nli, data)
    if calibration is not None and len(_names(nli, calibration)) < len(nli.labels):
        raise ValueError(
            f"{calibration.name} has two-way gold labels and cannot fit the temperature of {len(nli.labels)} logits; "
            "calibrate on a set with the labels of the model"
        )


def _names(nli: NLI, data: PairDataset) -> set[str]:
    """The label names a model is scored by on a data set."""
    if len(data) == 0:
        raise ValueError(f"{data.name} has no pairs; is the file empty, or did every row lack a gold label?")
    try:
        return set(counts_as(sort_labels(nli.labels), _gold(data)))
    except ValueError as error:
        raise ValueError(f"{data.name}: {error}") from None


def _gold(data: PairDataset) -> list[Any]:
    """The gold labels; None, which `align` refuses, where a pair has none."""
    return [pair.label for pair in data]


def _others(
    against: "str | Path | Report | Sequence[Predictions] | None", datasets: Sequence[PairDataset]
) -> dict[str, list[Predictions]]:
    """The predictions to compare with, by the name of the data set; checked before the model runs."""
    if against is None:
        return {}
    if isinstance(against, Report):
        against = [row.predictions for row in against.rows if row.predictions is not None]
    others = load_predictions(against) if isinstance(against, str | Path) else list(against)
    by_data = {data.name: [o for o in others if o.fingerprint == data.fingerprint] for data in datasets}
    for data in datasets:
        for namesake in [] if by_data[data.name] else [o for o in others if o.data == data.name]:
            check_same_data((data.name, data.fingerprint), (f"{namesake.data} of the other run", namesake.fingerprint))
    if not any(by_data.values()):
        had = ", ".join(dict.fromkeys(o.data for o in others)) or "nothing"
        asked = ", ".join(data.name for data in datasets)
        raise ValueError(f"the run to compare with has predictions on {had}, none on {asked}")
    return by_data


def _groups(
    wanted: Sequence[Sequence[str]] | None, data: PairDataset, own: Predictions
) -> dict[str, tuple[Group, ...]]:
    """Accuracy by group; by default the breakdowns of `GROUPS` whose extras every pair has."""
    extras = [pair.extras or {} for pair in data]
    if wanted is None:
        wanted = [keys for keys in GROUPS if all(key == "label" or key in extra for extra in extras for key in keys)]
    return {" × ".join(keys): by(keys, extras, own.gold, own.aligned.correct) for keys in wanted}
