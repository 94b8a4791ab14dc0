"""Fair timing on a shared machine: interleaved repetitions, medians, ratios in one run; memory in a fresh process."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

Run = Callable[[], object]
Progress = Callable[[str], None]
Clock = Callable[[], float]


def seconds_each(
    contestants: dict[str, Run], repetitions: int, clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each contestant; every repetition runs all of them in turn, after one warm-up round.

    `clock` may be time.process_time: with one thread it does not count what others did on a busy machine.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for repetition in range(repetitions + 1):
        for name, run in contestants.items():
            began = clock()
            run()
            if repetition:
                seconds[name].append(clock() - began)
    return seconds


def interleaved(contestants: dict[str, Run], repetitions: int, clock: Clock = time.perf_counter) -> dict[str, float]:
    """Median seconds of each contestant, see `seconds_each`."""
    return {name: median(times) for name, times in seconds_each(contestants, repetitions, clock).items()}


_MEMORY = """
import sys
from pathlib import Path
def status(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))
{setup}
run(*warm)
Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
run(*real)
print(status("VmHWM") - before)
"""


def peak_memory(setup: str) -> int | None:
    """Bytes by which a call raises the peak of resident memory, in a process of its own; None where Linux is not.

    `setup` defines `run(*arguments)` and the argument tuples `warm` (small, to load libraries) and `real`.
    """
    if not Path("/proc/self/clear_refs").exists():
        return None
    command = [sys.executable, "-c", _MEMORY.format(setup=setup)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 — our own text
    return int(result.stdout)
