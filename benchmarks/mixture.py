"""The training data of the shipped model: several NLI sets in given shares, the labels of each balanced.

    python benchmarks/mixture.py --root DATA --out runs/mixture          # seconds; see docs/training.md

Reads DATA/train/NAME.jsonl.gz (the sets of GENERATED come from the package, "captions" from neurogame_bench) and writes
OUT/train.jsonl.gz, OUT/held_out.jsonl.gz and OUT/mixture.json. The second is a slice of the MNLI rows that no model
trains on; it chooses between runs, so that MNLI matched and mismatched need not. A set of n rows with weight w gives
round(w·n) rows, a third of them for each label: the rows of a label, shuffled, are repeated in turn until there are
enough. "syntactic" and "captions" keep the labels they have: the first holds few contradictions, which would be
repeated six times, and the second is there for its neutral pairs. A row says which `set` it is of. No pair of DATA/eval
is used, up to case and full stops: a generated one may happen to be there. A seed fixes everything.
"""

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from random import Random

from common import progress

from neurogame.data import Pair, fragments, load
from neurogame.labels import LABELS
from neurogame_bench import captions

WEIGHTS = {"snli": 1.6, "snli_cad": 1.5, "mnli": 2.0, "crowd": 0.6, "wanli": 1.0, "mpe": 0.0, "toy": 0.0}
WEIGHTS |= {"syntactic": 2.0, "fragments": 1.0, "order": 1.0, "events": 0.0, "scenes": 0.0, "quantifiers": 0.0}
WEIGHTS |= {"captions": 0.0}
GENERATED = {  # of a seed
    "toy": lambda _: load("toy/train"),
    "fragments": lambda seed: fragments.generate(40_000, seed=seed),
    "order": lambda seed: fragments.generate(12_000, seed=seed + 3, phenomena=["roles"]),  # who did it: learned last
    "events": lambda seed: fragments.generate(6_000, seed=seed + 5, phenomena=["event", "conditional"]),
    "scenes": lambda seed: fragments.generate(12_000, seed=seed + 7, phenomena=["scene"]),
    "quantifiers": lambda seed: fragments.generate(6_000, seed=seed + 11, phenomena=["quantifier"]),
}
EXACT = {*GENERATED, "captions", "syntactic"}  # whose labels follow from how they were made
UNBALANCED = ("syntactic", "captions")
HELD_OUT = ("mnli", 2000)


def source(name: str, root: Path, seed: int) -> list[Pair]:
    """All pairs of a set: read, or generated."""
    if name == "captions":
        return captions.generate(load(root / "train" / "snli.jsonl.gz"), 12_000, seed)
    return list(GENERATED[name](seed) if name in GENERATED else load(root / "train" / f"{name}.jsonl.gz"))


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


def key(premise: str, hypothesis: str) -> tuple[str, str]:
    """A pair up to case and full stops."""
    return premise.lower().strip(" ."), hypothesis.lower().strip(" .")


def evaluated(root: Path) -> set[tuple[str, str]]:
    """The pairs of all evaluation sets."""
    files = sorted((root / "eval").glob("*.jsonl.gz"))
    if not files:
        raise SystemExit(f"no evaluation set in {root / 'eval'}; without them no pair of theirs can be kept out")
    lines = (line for file in files for line in gzip.decompress(file.read_bytes()).splitlines())
    return {key(row["premise"], row["hypothesis"]) for row in map(json.loads, lines)}


def write(path: Path, pairs: Iterable[Pair]) -> None:
    """JSON lines, gzipped, the same bytes every time; with what else is known of a pair."""
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as file:
        for pair in pairs:
            row = {"premise": pair.premise, "hypothesis": pair.hypothesis, "label": pair.label, **pair.extras}
            file.write((json.dumps(row, ensure_ascii=False) + "\n").encode())


def _kept(pair: Pair) -> dict[str, object]:
    """What stays of what else is known of a pair: how sure one can be of its label."""
    return {name: value for name, value in pair.extras.items() if name == "probabilities"}


def main() -> None:
    """Read, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True, type=Path, help="holds train/NAME.jsonl.gz")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--weight", action="append", default=[], metavar="NAME=W", help="over the defaults; 0 leaves out"
    )
    parser.add_argument(
        "--fragments-seed", type=int, default=0, help="another one: fragments that no earlier run has seen"
    )
    args = parser.parse_args()
    weights = WEIGHTS | {name: float(w) for name, _, w in (given.partition("=") for given in args.weight)}
    kept: list[Pair] = []
    sets = {}
    args.out.mkdir(parents=True, exist_ok=True)
    forbidden = evaluated(args.root)
    for name, weight in weights.items():
        draw = Random(f"{args.seed}/{name}")
        drawn = source(name, args.root, args.fragments_seed) if weight else []
        pairs = [pair for pair in drawn if key(pair.premise, pair.hypothesis) not in forbidden]
        if len(pairs) < len(drawn):
            progress(f"{name}: {len(drawn) - len(pairs)} pairs left out, which are in an evaluation set")
        if name == HELD_OUT[0]:
            draw.shuffle(pairs)
            held, pairs = pairs[: HELD_OUT[1]], pairs[HELD_OUT[1] :]
            write(args.out / "held_out.jsonl.gz", (replace(pair, extras={}) for pair in held))
        count = round(weight * len(pairs))
        rows = list(islice(cycle(pairs), count)) if name in UNBALANCED else balanced(pairs, count, draw)
        progress(f"{name}: {len(pairs)} pairs, weight {weight:g}, {len(rows)} rows")
        kept += (replace(pair, extras={"set": name, **_kept(pair)}) for pair in rows)
        if weight:
            sets[name] = {"pairs": len(pairs), "weight": weight, "rows": len(rows)}
    Random(args.seed).shuffle(kept)
    write(args.out / "train.jsonl.gz", kept)
    record = {
        "seed": args.seed,
        "fragments_seed": args.fragments_seed,
        "rows": len(kept),
        "held_out": HELD_OUT,
        "sets": sets,
    }
    (args.out / "mixture.json").write_text(json.dumps(record, indent=1) + "\n")
    counts = Counter(pair.label for pair in kept)
    progress(f"{len(kept)} rows: " + ", ".join(f"{label} {counts[label]}" for label in LABELS))


if __name__ == "__main__":
    main()
