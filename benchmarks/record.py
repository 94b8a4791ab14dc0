"""Rerun a benchmark of the package and store what it found: results/NAME.json and docs/figures/NAME.png.

    python benchmarks/record.py attention      # minutes; leave the machine alone meanwhile
    python benchmarks/record.py values
    python benchmarks/record.py couplings
    python benchmarks/record.py throughput

The same as `neurogame benchmark NAME --json --figure FILE`, in the places the documentation reads from.
"""

import argparse
from importlib import import_module

from common import RESULTS, Clock, progress, save
from rich.console import Console

FIGURES = {
    "attention": "attention",
    "values": "values-error",
    "couplings": "couplings-error",
    "throughput": "throughput",
}


def main() -> None:
    """Run, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=list(FIGURES))
    for name in parser.parse_args().names:
        clock, module = Clock(), import_module(f"neurogame_bench.{name}")
        found = module.run(progress=progress)
        Console(width=160).print(module.table(found))
        module.figure(found, RESULTS.parent / "docs" / "figures" / f"{FIGURES[name]}.png")
        save(name, clock(), **found)


if __name__ == "__main__":
    main()
