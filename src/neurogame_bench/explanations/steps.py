"""Doing the work of `cases` step by step: what is stored is not computed again, and several processes may share it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from neurogame.explanation import METHODS
from neurogame.nli import NLI
from neurogame_bench.explanations.cases import Step, Work
from neurogame_bench.explanations.summary import Records
from neurogame_bench.explanations.work import Record, perform
from neurogame_bench.study import Progress, Study, checksum, claimed, progress

PROTOCOL = ("model", "data", "pairs", "seed", "samples", "seeds", "word pairs")  # settings on which a record depends


def protocol(nli: NLI, work: Work, settings: Mapping[str, Any]) -> Record:
    """All that a record depends on: settings, the marked pairs, the weights.

    Args:
        nli: the model.
        work: what is to be done.
        settings: as `prepare` returns them.

    Returns:
        JSON values; a stored record counts only where they are the same.
    """
    known = {name: settings[name] for name in PROTOCOL}
    return known | {"rationales": work.samples[-1].data.name, "weights": checksum(nli.model)}


def stored(study: Study, step: Step, seed: int) -> Record | None:
    """The record of a step, if it was made with the same details."""
    record = study.record(str(step), seed)
    return record if record is not None and record["detail"] == _detail(step) else None


def complete(
    nli: NLI, work: Work, study: Study | None = None, *, only: Sequence[str] | None = None, say: Progress = progress
) -> dict[Step, Record]:
    """Perform the steps that have no record yet, the steps of the same pairs by one process at a time.

    Args:
        nli: the model.
        work: what is to be done.
        study: where records are kept, so that a run can be resumed; None: nowhere.
        only: rows to compute; None: all.
        say: called with a line on what is being done.

    Returns:
        Step → record. Steps that another process is at, and those that wait for others, are missing.
    """
    steps = work.steps()
    places = {step: count for count, step in enumerate(steps, 1)}
    records: dict[Step, Record] = {}
    for name, group in _groups(steps).items():
        with _alone(study, name) as mine:
            if not mine:
                say(f"{name}: another process is at it")
                continue
            for step in group:
                record = None if study is None else stored(study, step, work.seed)
                if record is None and (only is None or step.row in only):
                    if step.row == "deletion" and any(other not in records for other in group if other != step):
                        say(f"{step}: waits for its methods")
                        continue
                    say(f"{places[step]} of {len(steps)}: {step}")
                    record = perform(nli, work, step, beside(step, records))
                    if study is not None:
                        study.store(str(step), work.seed, {**record, "detail": _detail(step)})
                if record is not None:
                    records[step] = record
    return records


def beside(step: Step, records: Records) -> dict[str, Sequence[Record]]:
    """Row → the entries of the methods on the pairs of a step."""
    near = (
        (other, record) for other, record in records.items() if (other.sample, other.start) == (step.sample, step.start)
    )
    return {other.row: record["pairs"] for other, record in near if other.row in METHODS}


def _groups(steps: Sequence[Step]) -> dict[str, list[Step]]:
    """Steps that belong together: all of the same pairs; the others by themselves."""
    groups: dict[str, list[Step]] = {}
    for step in steps:
        alone = step.row in ("timing", "enumeration")
        groups.setdefault(step.row if alone else f"{step.sample}-{step.start}", []).append(step)
    return groups


def _detail(step: Step) -> list[list[Any]]:
    """As JSON has it."""
    return [list(pair) for pair in step.detail]


@contextmanager
def _alone(study: Study | None, group: str) -> Iterator[bool]:
    if study is None:
        yield True
        return
    with claimed(study.runs / study.name / "claims" / group) as mine:
        yield mine
