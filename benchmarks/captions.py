"""Pairs of captions from premises that nothing was trained on, to try a model on: JSON lines, gzipped.

    python benchmarks/captions.py --root DATA --out runs/captions_dev.jsonl.gz          # a second
    neurogame evaluate MODEL -d runs/captions_dev.jsonl.gz

The captions are premises of SNLI dev, where those of the training mixture are of SNLI train; `neurogame_bench.captions`
puts them together.
"""

import argparse
from pathlib import Path

from common import progress
from mixture import write

from neurogame.data import load
from neurogame_bench import captions


def main() -> None:
    """Read, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True, type=Path, help="where the data sets are; see docs/nli.md")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=77)
    args = parser.parse_args()
    pairs = captions.generate(load("snli/dev", root=args.root), args.count, args.seed)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write(args.out, pairs)
    progress(f"wrote {args.out}: {len(pairs):,} pairs")


if __name__ == "__main__":
    main()
