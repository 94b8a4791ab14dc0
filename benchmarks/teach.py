"""What teachers say of the pairs of a mixture, beside their labels.

    python benchmarks/teach.py runs/mixture --teacher runs/teacher/model --out runs/mixture-taught  # half an hour

Reads MIXTURE/train.jsonl.gz and writes OUT, the same rows in the same order with a column `probabilities` (label →
probability), which `training.distillation` reads; held_out.jsonl.gz and mixture.json are copied. Pairs of the sets
of EXACT have none: their labels follow from meaning, and the teacher has seen nothing like them. Passes are in
bfloat16; a pair that occurs several times is read once. Of several teachers (--teacher more than once) the mean counts.
stderr says how often they agree with the labels.
"""

import argparse
import gzip
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from common import progress
from mixture import EXACT, key, write
from torch import Tensor

from neurogame.data import Pair, load
from neurogame.data.batching import collate, encode, sorted_batches
from neurogame.labels import LABELS
from neurogame.modeling.loading import quiet
from neurogame.nli import NLI
from neurogame.nli import load as load_model


@torch.no_grad()
def answers(nli: NLI, pairs: list[Pair], batch_size: int) -> Tensor:
    """Probabilities [pairs, labels], labels in the order of `neurogame.labels`."""
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


def main() -> None:
    """Read, ask the teacher, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mixture", type=Path, help="folder that mixture.py wrote")
    parser.add_argument("--teacher", required=True, type=Path, action="append", help="folder of a model")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    quiet()
    pairs = list(load(args.mixture / "train.jsonl.gz"))
    unique = {key(pair.premise, pair.hypothesis): pair for pair in pairs if pair.extras["set"] not in EXACT}
    each = [answers(load_model(teacher), list(unique.values()), args.batch_size) for teacher in args.teacher]
    mean = torch.stack(each).mean(0)
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
