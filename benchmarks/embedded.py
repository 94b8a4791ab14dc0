"""How fast the embedded model is: from import to the first answer, and pairs per second, on this machine.

    python benchmarks/embedded.py --root DATA          # about two minutes; results/embedded_speed.json

Loading is timed in fresh processes after one that warms the disk's cache. Pairs are the first of SNLI dev; without
--root they come from the toy language, whose sentences are shorter.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from common import Clock, progress, save, show

import neurogame
from neurogame.data import load as load_pairs
from neurogame.modeling.loading import quiet

FIRST = """
import json, time
began = time.perf_counter()
import torch, transformers
libraries = time.perf_counter()
import neurogame
imported = time.perf_counter()
nli = neurogame.load()
loaded = time.perf_counter()
nli.predict("A man is asleep on a bench.", "Nobody is awake.")
done = time.perf_counter()
print(json.dumps({"import torch, transformers": libraries - began, "import neurogame": imported - libraries,
                  "load": loaded - imported, "first prediction": done - loaded, "load to first": done - imported}))
"""


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="where the data sets are; see docs/nli.md")
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--repetitions", type=int, default=5)
    args = parser.parse_args()
    quiet()
    clock = Clock()
    runs = []
    for repetition in range(args.repetitions + 1):
        run = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)  # noqa: S603 — our own text
        if repetition:
            runs.append(json.loads(run.stdout))
            progress(f"load to first prediction: {runs[-1]['load to first']:.2f} s")
    seconds = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    nli = neurogame.load()
    data = load_pairs("snli/dev", root=args.root) if args.root else load_pairs("toy/dev")
    pairs = [(pair.premise, pair.hypothesis) for pair in data][: args.pairs]
    tokens = statistics.mean(map(len, nli.tokenizer(*map(list, zip(*pairs, strict=True)))["input_ids"]))
    nli.predict(pairs[:64], batch_size=32)
    rates = []
    for _ in range(args.repetitions):
        began = time.perf_counter()
        nli.predict(pairs, batch_size=32, show_progress=False)
        rates.append(len(pairs) / (time.perf_counter() - began))
        progress(f"{rates[-1]:.0f} pairs/s")
    rate = statistics.median(rates)
    rows = [
        {"what": f"{name}, s", "median": value, "target": "≤ 3" if name == "load to first" else ""}
        for name, value in seconds.items()
    ]
    rows.append(
        {"what": f"pairs/s, batch 32, {data.name}, {tokens:.1f} tokens a pair", "median": rate, "target": "≥ 150"}
    )
    show("The embedded model", rows)
    save("embedded_speed", clock(), startup=seconds, data=data.name, tokens=tokens, pairs_per_second=rate, rates=rates)


if __name__ == "__main__":
    main()
