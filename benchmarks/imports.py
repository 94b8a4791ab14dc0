"""What `import neurogame` adds to `import torch, transformers`: processor seconds in fresh interpreters.

    python benchmarks/imports.py                 # about a minute; results/imports.json

The target is at most 2.5 s more, and nothing that is optional. Both figures come from the same interpreter, one after
the other; the medians of several are kept. `commands` has the command line from cold: `--version` and `--help`, which
import neither library, and `explain` of one pair, beside the price of the two libraries with the models of
transformers, which no program that runs one can avoid; its target is 1.5 times that.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from common import RESULTS, show

from neurogame.about import machine
from neurogame_bench.study import write

TARGET = 2.5  # seconds
OPTIONAL = ("matplotlib", "fastapi", "captum", "sklearn")
CODE = f"""
import json, sys, time
start = time.process_time()
import torch, transformers
between = time.process_time()
import neurogame
end = time.process_time()
found = [name for name in {OPTIONAL!r} if name in sys.modules]
neurogame.load
print(json.dumps([between - start, end - between, time.process_time() - end, found]))
"""


COMMANDS = {
    "torch_and_transformers": ["-c", "import torch, transformers"],
    "with_a_model_class": ["-c", "import torch, transformers; transformers.BertForSequenceClassification"],
    "version": ["-m", "neurogame", "--version"],
    "help": ["-m", "neurogame", "--help"],
    "explain": ["-m", "neurogame", "explain", "A man is asleep on a bench.", "Nobody is asleep."],
}


def _seconds(arguments: list[str]) -> float:
    """Processor seconds of a fresh interpreter and what it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    runs = [json.loads(_fresh()) for _ in range(args.repeats + 1)][1:]  # the first one warms the disk's cache
    base, added, later = (round(statistics.median(run[i] for run in runs), 2) for i in range(3))
    timed = {
        name: round(statistics.median(_seconds(line) for _ in range(args.repeats)), 2)
        for name, line in COMMANDS.items()
    }
    record = {
        "machine": machine(),
        "repeats": args.repeats,
        "unit": "processor seconds, median",
        "torch_and_transformers": base,
        "neurogame_adds": added,
        "first_use_of_load_adds": later,  # transformers' own models, which every user of them waits for
        "ratio": round(added / base, 3),
        "target": TARGET,
        "optional_imported": runs[0][3],
        "commands": timed,
        "explain_ratio": round(timed["explain"] / timed["torch_and_transformers"], 2),
    }
    write(args.out / "imports.json", record)
    show(
        "import", [{key: record[key] for key in ("torch_and_transformers", "neurogame_adds", "first_use_of_load_adds")}]
    )
    show("command line, processor seconds", [timed])


def _fresh() -> str:
    return subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout  # noqa: S603


if __name__ == "__main__":
    main()
