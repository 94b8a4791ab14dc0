"""Rerun a benchmark of the package and store what it found: results/NAME.json and docs/figures/NAME.png.

    python benchmarks/record.py attention      # minutes; leave the machine alone meanwhile
    python benchmarks/record.py values
    python benchmarks/record.py couplings
    python benchmarks/record.py throughput
    python benchmarks/record.py attention --inside          # what stands inside a transformer, into the stored rest
    python benchmarks/record.py attention --inside --busy   # the same where the machine is not quiet

The same as `neurogame benchmark NAME --json --figure FILE`, in the places the documentation reads from.
"""

import argparse
import json
import time
from importlib import import_module
from typing import Any

import torch
from common import RESULTS, Clock, progress, save
from rich.console import Console

from neurogame._common.writing import write_text
from neurogame.about import machine
from neurogame_bench import self_attention

FIGURES = {
    "attention": "attention",
    "values": "values-error",
    "couplings": "couplings-error",
    "throughput": "throughput",
}


def inside(repetitions: int, *, busy: bool) -> None:
    """The rows of `neurogame_bench.self_attention`, with a machine of their own, in results/attention.json."""
    if busy:
        torch.set_num_threads(1)
    path = RESULTS / "attention.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    options: dict[str, Any] = {"clock": time.process_time, "batch": 2} if busy else {}
    found = self_attention.run(repetitions=repetitions, progress=progress, **options)
    clock = "processor" if busy else "wall"
    stored["self_attention"] = {"machine": machine(), "repetitions": repetitions, "clock": clock, **found}
    write_text(path, json.dumps(stored, indent=1) + "\n")
    Console(width=160).print(found["cases"], found["memory"])


def main() -> None:
    """Run, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=list(FIGURES))
    parser.add_argument("--inside", action="store_true", help="of attention: NeuroGameSelfAttention alone")
    parser.add_argument("--repetitions", type=int, default=15, help="with --inside")
    parser.add_argument("--busy", action="store_true", help="with --inside: batch 2, one thread, processor time")
    args = parser.parse_args()
    if args.inside:
        inside(args.repetitions, busy=args.busy)
        return
    for name in args.names:
        clock, module = Clock(), import_module(f"neurogame_bench.{name}")
        found = module.run(progress=progress)
        Console(width=160).print(module.table(found))
        module.figure(found, RESULTS.parent / "docs" / "figures" / f"{FIGURES[name]}.png")
        save(name, clock(), **found)


if __name__ == "__main__":
    main()
