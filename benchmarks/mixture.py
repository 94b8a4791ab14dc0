"""The training data of the shipped model: several NLI sets in given shares, the labels of each balanced.

    python benchmarks/mixture.py --root DATA --out runs/mixture          # seconds; see docs/training.md

Reads DATA/train/NAME.jsonl.gz and writes OUT/train.jsonl.gz, OUT/held_out.jsonl.gz and OUT/mixture.json. The
second is a slice of the MNLI rows that no model trains on; it chooses between runs, so that MNLI matched and
mismatched need not. A set of n rows with weight w gives round(w·n) rows, a third of them for each label:
the rows of a label, shuffled, are repeated in turn until there are enough. A seed fixes everything.
"""

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import cycle, islice
from pathlib import Path
from random import Random

from common import progress

from neurogame.data import Pair, load
from neurogame.labels import LABELS

WEIGHTS = {"snli": 1.6, "snli_cad": 1.5, "mnli": 2.0, "crowd": 1.0, "wanli": 1.0, "mpe": 0.5, "toy": 1.0}
HELD_OUT = ("mnli", 2000)


def balanced(pairs: Sequence[Pair], count: int, draw: Random) -> list[Pair]:
    """`count` pairs, a third of each label, each pair of a label as often as any other (±1)."""
    kept: list[Pair] = []
    for place, label in enumerate(LABELS):
        rows = [pair for pair in pairs if pair.label == label]
        draw.shuffle(rows)
        share = (count + place) // len(LABELS)
        if not rows and share:
            raise SystemExit(f"no pair is labelled {label}; a balanced sample needs all of {', '.join(LABELS)}")
        kept += islice(cycle(rows), share)
    return kept


def write(path: Path, pairs: Iterable[Pair]) -> None:
    """JSON lines, gzipped, the same bytes every time."""
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as file:
        for pair in pairs:
            row = {"premise": pair.premise, "hypothesis": pair.hypothesis, "label": pair.label}
            file.write((json.dumps(row, ensure_ascii=False) + "\n").encode())


def main() -> None:
    """Read, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True, type=Path, help="holds train/NAME.jsonl.gz")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--weight", action="append", default=[], metavar="NAME=W", help="over the defaults; 0 leaves out"
    )
    args = parser.parse_args()
    weights = WEIGHTS | {name: float(w) for name, _, w in (given.partition("=") for given in args.weight)}
    kept: list[Pair] = []
    sets = {}
    args.out.mkdir(parents=True, exist_ok=True)
    for name, weight in weights.items():
        draw = Random(f"{args.seed}/{name}")
        path = "toy/train" if name == "toy" else args.root / "train" / f"{name}.jsonl.gz"
        pairs = list(load(path)) if weight else []
        if name == HELD_OUT[0]:
            draw.shuffle(pairs)
            held, pairs = pairs[: HELD_OUT[1]], pairs[HELD_OUT[1] :]
            write(args.out / "held_out.jsonl.gz", held)
        rows = balanced(pairs, round(weight * len(pairs)), draw)
        progress(f"{name}: {len(pairs)} pairs, weight {weight:g}, {len(rows)} rows")
        kept += rows
        if weight:
            sets[name] = {"pairs": len(pairs), "weight": weight, "rows": len(rows)}
    Random(args.seed).shuffle(kept)
    write(args.out / "train.jsonl.gz", kept)
    record = {"seed": args.seed, "rows": len(kept), "held_out": HELD_OUT, "sets": sets}
    (args.out / "mixture.json").write_text(json.dumps(record, indent=1) + "\n")
    counts = Counter(pair.label for pair in kept)
    progress(f"{len(kept)} rows: " + ", ".join(f"{label} {counts[label]}" for label in LABELS))


if __name__ == "__main__":
    main()
