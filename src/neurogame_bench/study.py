"""Studies: rows × seeds under one protocol, each run computed once and kept, so that a study can be resumed.

A finished run is a JSON file in RUNS/NAME/rows. A study that was stopped continues where it stopped, and several
processes can share the work. `Study.collect` writes RESULTS/NAME.json from all runs. A run that was made under another
protocol does not count.
"""

import json
import multiprocessing
import os
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from neurogame._common.records import plain
from neurogame._common.writing import write_text
from neurogame.about import machine

Record = dict[str, Any]
Task = tuple[str, int]  # row, seed
Progress = Callable[[str], object]


def progress(message: str) -> None:
    """Print one line to stderr, at once: results alone go to stdout.

    Args:
        message: the line.
    """
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


@dataclass(frozen=True)
class Study:
    """Where the runs of one study are, and under which protocol they count.

        study = Study("table", {"pairs": 500}, results=Path("results"), runs=Path("runs"))
        study.run([("cls", 0), ("cls", 1)], lambda task: {"accuracy": measure(*task)}, jobs=2)
        study.collect(["cls"], [0, 1])

    Args:
        name: of the study, and of its files.
        protocol: JSON values on which a run depends.
        results: folder of NAME.json; None: there is none, only runs.
        runs: folder for what is kept between processes.
    """

    name: str
    protocol: Record
    results: Path | None
    runs: Path

    @property
    def result(self) -> Path:
        """RESULTS/NAME.json."""
        assert self.results is not None
        return self.results / f"{self.name}.json"

    def file(self, row: str, seed: int) -> Path:
        """The file of one run."""
        return self.runs / self.name / "rows" / f"{slug(row)}-{seed}.json"

    def record(self, row: str, seed: int) -> Record | None:
        """A finished run: its own file, or its entry in the results.

        Args:
            row: name of the row.
            seed: of the run.

        Returns:
            What `store` was given, with row, seed and protocol; None if there is no such run under this protocol.
        """
        file = self.file(row, seed)
        if (record := read(file)) is not None:
            if record["protocol"] == self.protocol:
                return record
            progress(f"{row}, seed {seed}: {file} was made under another protocol and does not count")
        stored = self._stored()
        if stored.get("protocol") == self.protocol:
            return next((run for run in stored["runs"] if (run["row"], run["seed"]) == (row, seed)), None)
        return None

    def store(self, row: str, seed: int, record: Mapping[str, Any]) -> None:
        """Keep a finished run, with machine and protocol.

        Args:
            row: name of the row.
            seed: of the run.
            record: JSON values.
        """
        whole = {"row": row, "seed": seed, **record, "machine": machine(), "protocol": self.protocol}
        write(self.file(row, seed), whole)

    def collect(self, names: Sequence[str], seeds: Sequence[int], **content: Any) -> list[Record]:
        """Write every finished run to RESULTS/NAME.json; those of further seeds that are there are included.

        Args:
            names: rows, in the order of the file.
            seeds: that were asked for.
            content: further keys of the file.

        Returns:
            The runs without protocol and machine.
        """
        stored = self._stored()
        known = {run["seed"] for run in stored.get("runs", [])}
        known |= {int(file.stem.rpartition("-")[2]) for file in self.file("x", 0).parent.glob("*.json")}
        tasks = [(row, seed) for row in names for seed in sorted(known | set(seeds))]
        records = [record for task in tasks if (record := self.record(*task)) is not None]
        runs = [{key: value for key, value in run.items() if key not in ("protocol", "machine")} for run in records]
        known_machine = stored.get("machine") or machine()
        head = {
            "machine": next((run["machine"] for run in records if "machine" in run), known_machine),
            "seconds": round(sum(run["seconds"] for run in runs), 1),  # summed over runs, whatever ran side by side
            "processor_seconds": round(sum(run.get("processor_seconds", 0.0) for run in runs), 1),
            "protocol": self.protocol,
        }
        write(self.result, {**head, **content, "runs": runs})
        return runs

    def run(self, tasks: Sequence[Task], work: Callable[[Task], Record], *, jobs: int, fresh: bool = False) -> None:
        """Do every task that has no record yet, and store its record.

        Args:
            tasks: rows with seeds.
            work: makes the record of a task.
            jobs: tasks at a time, each with its share of the cores.
            fresh: compute again what is there already.
        """
        todo = [task for task in tasks if fresh or self.record(*task) is None]
        progress(f"{self.name}: {len(todo)} of {len(tasks)} runs to make")
        started = time.perf_counter()
        for done, (task, record) in enumerate(each(todo, work, jobs), 1):
            self.store(*task, record)
            minutes = (time.perf_counter() - started) / 60
            left = minutes / done * (len(todo) - done)
            result = record.get("said", "")
            progress(f"[{done}/{len(todo)}] {task[0]}, seed {task[1]}: {result} ({minutes:.1f} min, {left:.0f} to go)")

    def _stored(self) -> Record:
        return (read(self.result) or {}) if self.results is not None else {}


def each(tasks: Sequence[Task], work: Callable[[Task], Record], jobs: int) -> Iterable[tuple[Task, Record]]:
    """Tasks with their records, in the order in which they end.

    Args:
        tasks: rows with seeds.
        work: makes the record of a task.
        jobs: tasks at a time; with several, each has a process of its own.

    Returns:
        Pairs of task and record, see `timed`.
    """
    cores = os.cpu_count() or 1
    if jobs <= 1 or len(tasks) <= 1:
        before = torch.get_num_threads()
        torch.set_num_threads(max(1, cores // max(1, jobs)))
        try:
            yield from ((task, timed(work, task)) for task in tasks)
        finally:
            torch.set_num_threads(before)
        return
    # Forked before anything has been computed here: a process has all that was imported, and no threads to lose.
    share = (work, max(1, cores // jobs))
    with multiprocessing.get_context("fork").Pool(jobs, _prepare, share, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(_perform, tasks)


_shared: list[Callable[[Task], Record]] = []  # what a worker was forked to do; it need not be picklable


def _prepare(work: Callable[[Task], Record], threads: int) -> None:
    _shared[:] = [work]
    torch.set_num_threads(threads)


def _perform(task: Task) -> tuple[Task, Record]:
    return task, timed(_shared[0], task)


def timed(work: Callable[[Task], Record], task: Task) -> Record:
    """What `work` returns, with wall and processor time and the number of threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    record = work(task)
    spent = {"seconds": time.perf_counter() - wall, "processor_seconds": time.process_time() - cpu}
    return {**record, **{key: round(value, 1) for key, value in spent.items()}, "threads": torch.get_num_threads()}


def kept_rows(
    name: str,
    items: Sequence[Any],
    step: int,
    row: Callable[[Any, int], Record],
    study: Callable[[int, Sequence[Any]], Study],
    *,
    seed: int,
    noun: str = "pairs",
    fresh: bool = False,
) -> tuple[list[Record], float]:
    """A row for each item, stored `step` at a time: what is stored is not computed again.

    Args:
        name: of what is measured.
        items: what it is measured on.
        step: items whose rows are stored together.
        row: of an item and its place.
        study: of the place of the first item of a step and its items → where their rows are stored.
        seed: of the run.
        noun: what progress calls the items.
        fresh: compute again what is stored.

    Returns:
        The rows, and the seconds that computing them took.
    """
    rows: list[Record] = []
    seconds = 0.0
    for start in range(0, len(items), step):
        some = items[start : start + step]
        keeper, key = study(start, some), f"{name} {start}"
        record = None if fresh else keeper.record(key, seed)
        if record is None:
            began = time.perf_counter()
            made = [row(item, start + k) for k, item in enumerate(some)]
            record = plain({"rows": made, "seconds": round(time.perf_counter() - began, 2)})
            keeper.store(key, seed, record)
            progress(f"{name}: {start + len(some)} of {len(items)} {noun}, {record['seconds']:.1f} s")
        rows += record["rows"]
        seconds += record["seconds"]
    return rows, seconds


@contextmanager
def claimed(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Hold a lock file; the claim ends with the process, however it ends.

    Args:
        path: the lock file; its folder is made.
        wait: until the process that holds it is done.

    Yields:
        Whether this process has it. Where there are no locks (Windows), always True.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        except ImportError:
            yield True
        else:
            yield True


def checksum(model: torch.nn.Module) -> int:
    """CRC-32 of all weights: the records of one model are not another's."""
    code = 0
    for _, weight in sorted(model.state_dict().items()):
        code = zlib.crc32(weight.cpu().float().numpy().tobytes(), code)
    return code


def read(path: Path) -> Record | None:
    """The content of a JSON file; None if there is no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file, whole or not at all; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def slug(name: str) -> str:
    """A name for files: γ and λ spelled, the rest reduced to letters, digits, dots and dashes."""
    spelled = name.replace("γ", "gamma").replace("λ", "lambda").replace("½", "half").replace("√", "root")
    return re.sub(r"[^A-Za-z0-9.]+", "-", spelled).strip("-.")


def chosen(names: Sequence[str], only: Sequence[str] | None) -> list[str]:
    """The rows asked for, in the order of the study.

    Args:
        names: of all rows.
        only: those asked for; None: all.

    Raises:
        SystemExit: if there is no such row.
    """
    unknown = sorted(set(only or ()) - set(names))
    if unknown:
        raise SystemExit(f"unknown row {unknown[0]!r}; allowed: {', '.join(names)}")
    return [name for name in names if not only or name in only]
