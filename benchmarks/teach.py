"""What teachers say of the pairs of a mixture, beside their labels.

    python benchmarks/teach.py runs/mixture --teacher runs/teacher/model --out runs/mixture-taught  # twenty minutes

Reads MIXTURE/train.jsonl.gz and writes OUT, the same rows in the same order with a column `probabilities` (label →
probability), which `training.distillation` reads; held_out.jsonl.gz and mixture.json are copied. Pairs of the sets
of EXACT have none: their labels follow from meaning, and the teacher has seen nothing like them. Passes are in
bfloat16, in --processes of one thread each; a pair that occurs several times is read once. Of several teachers
(--teacher more than once) the mean counts. stderr says how often they agree with the labels.
"""

import argparse
import gzip
import json
import shutil
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from common import progress
from mixture import EXACT, key, write
from torch import Tensor

from neurogame.data import Pair
from neurogame.data import load as load_pairs
from neurogame.data.batching import collate, encode, sorted_batches
from neurogame.labels import LABELS
from neurogame.modeling.loading import quiet
from neurogame.nli import load


@torch.no_grad()
def answers(teacher: Path, pairs: list[Pair], batch_size: int) -> Tensor:
    """Probabilities [pairs, labels], labels in the order of `neurogame.labels`; for a process of its own."""
    quiet()
    torch.set_num_threads(1)
    nli = load(teacher)
    rows = encode(pairs, nli.tokenizer, max_length=nli.max_length)
    pad, probabilities = collate(nli.tokenizer), torch.zeros(len(pairs), len(nli.labels))
    batches = sorted_batches(rows.lengths, batch_size)
    for done, places in enumerate(batches):
        batch = pad([rows[i] for i in places])
        batch.pop("labels", None)
        with torch.autocast("cpu", torch.bfloat16):
            logits = nli.model(**batch).logits.float()
        probabilities[places] = (logits / nli.temperature).softmax(-1)
        if done % 200 == 0:
            progress(f"{nli.name}: {done * batch_size:,} of {len(pairs):,} pairs")
    return probabilities[:, [nli.labels.index(label) for label in LABELS]]


def divided(teacher: Path, pairs: list[Pair], batch_size: int, processes: int) -> Tensor:
    """`answers`, every process with its share of the pairs."""
    shares = [pairs[first::processes] for first in range(processes)]
    found = torch.zeros(len(pairs), len(LABELS))
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for first, part in enumerate(pool.map(partial(answers, teacher, batch_size=batch_size), shares)):
            found[first::processes] = part
    return found


def main() -> None:
    """Read, ask the teacher, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mixture", type=Path, help="folder that mixture.py wrote")
    parser.add_argument("--teacher", required=True, type=Path, action="append", help="folder of a model")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    pairs = list(load_pairs(args.mixture / "train.jsonl.gz"))
    unique = {key(pair.premise, pair.hypothesis): pair for pair in pairs if pair.extras["set"] not in EXACT}
    asked = list(unique.values())
    mean = torch.stack([divided(teacher, asked, args.batch_size, args.processes) for teacher in args.teacher]).mean(0)
    said: dict[Any, dict[str, float]] = {
        texts: {label: round(p, 4) for label, p in zip(LABELS, row, strict=True)}
        for texts, row in zip(unique, mean.tolist(), strict=True)
    }
    agree: Counter[str] = Counter()
    for texts, pair in unique.items():
        agree[pair.extras["set"]] += max(said[texts], key=said[texts].__getitem__) == pair.label
    sizes = Counter(pair.extras["set"] for pair in unique.values())
    progress(", ".join(f"{name}: {agree[name] / count:.3f} of {count:,}" for name, count in sizes.items()))
    args.out.mkdir(parents=True, exist_ok=True)
    for name in ("held_out.jsonl.gz", "mixture.json"):
        shutil.copyfile(args.mixture / name, args.out / name)
    write(args.out / "train.jsonl.gz", (taught(pair, said) for pair in pairs))
    with gzip.open(args.out / "train.jsonl.gz") as file:
        progress(f"wrote {args.out}: {sum('probabilities' in json.loads(line) for line in file):,} rows taught")


def taught(pair: Pair, said: dict[Any, dict[str, float]]) -> Pair:
    """The pair with what the teacher said of it, if it was asked."""
    known = None if pair.extras["set"] in EXACT else said[key(pair.premise, pair.hypothesis)]
    extras = {**pair.extras, **({} if known is None else {"probabilities": known})}
    return Pair(pair.premise, pair.hypothesis, pair.label, extras)


if __name__ == "__main__":
    main()
