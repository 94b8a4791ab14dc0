"""The embedded model in torch, as ONNX and as int8: size, speed, and how far the answers move.

    python benchmarks/export.py                     # minutes; results/export.json
    python benchmarks/export.py --root DATA         # also accuracy, on a sample of SNLI dev

Speed is pairs per second as a ratio to torch, all three in turn in one run, with the same number of threads; without
--root the pairs are generated (short sentences). "moved" is the largest change of a logit when the pairs are answered
one by one instead of in batches: int8 rounds activations batch by batch, so its answers depend on their mates.
"""

import argparse
import shutil
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from common import Clock, progress, save, show

from neurogame.data import PairDataset
from neurogame.data import load as load_pairs
from neurogame.data.grammar import generate
from neurogame.export import export
from neurogame.export import folder as folders
from neurogame.export.exporting import int8
from neurogame.modeling.loading import quiet
from neurogame.nli import NLI, load
from neurogame_bench.timing import interleaved


def main() -> None:
    """Export, compare, time, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="where the files of SNLI are")
    parser.add_argument("--pairs", type=int, default=600)
    parser.add_argument("--timed", type=int, default=128, help="pairs that speed is measured on")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, help="default: as torch chooses")
    parser.add_argument("--keep", type=Path, help="a folder where the exported models stay, and are looked for")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    quiet()
    clock = Clock()
    data = sample(args.root, args.pairs)
    pairs = [(pair.premise, pair.hypothesis) for pair in data]
    with tempfile.TemporaryDirectory() as place:
        models: dict[str, NLI] = {"torch": load(device="cpu")}
        sizes = {"torch": 4 * models["torch"].parameters / 1e6}
        progress("export")
        plain = (args.keep or Path(place)) / "onnx"
        places = {"onnx": plain, "onnx int8": plain.with_name("int8")}
        if not plain.exists():
            export(models["torch"], plain)
        if not places["onnx int8"].exists():
            rounded(plain, places["onnx int8"])
        for name, folder in places.items():
            models[name], sizes[name] = load(folder, backend="onnx"), (folder / folders.MODEL).stat().st_size / 1e6
        progress("compare")
        logits = {name: nli.logits(pairs) for name, nli in models.items()}
        alone = {name: nli.logits(pairs[:64], batch_size=1) for name, nli in models.items()}
        progress("time")
        timed = pairs[: args.timed]
        seconds = interleaved({name: partial(nli.logits, timed) for name, nli in models.items()}, args.repetitions)
    rows = [
        {
            "model": name,
            "MB": round(sizes[name], 1),
            "speed": round(seconds["torch"] / seconds[name], 2),
            "max |Δlogit|": float((found - logits["torch"]).abs().max()),
            "mean |Δlogit|": float((found - logits["torch"]).abs().mean()),
            "same label": float((found.argmax(-1) == logits["torch"].argmax(-1)).float().mean()),
            "accuracy": accuracy(data, models[name], found),
            "moved": float((alone[name] - found[:64]).abs().max()),
        }
        for name, found in logits.items()
    ]
    show("The embedded model; speed as a ratio to torch", rows)
    what = "SNLI dev" if args.root else "generated"
    save("export", clock(), pairs=len(pairs), data=what, timed=len(timed), threads=torch.get_num_threads(), rows=rows)


def rounded(plain: Path, target: Path) -> None:
    """What `export(…, quantize="int8")` writes, from a folder that was exported without: tracing takes longest."""
    shutil.copytree(plain, target)
    int8(target / folders.MODEL)
    manifest = replace(folders.read(plain), quantized="int8", sha256=folders.sums(target))
    folders.write(manifest, target)


def sample(root: Path | None, count: int) -> PairDataset:
    """Generated pairs, or as many of SNLI dev at random."""
    return generate(count, seed=1) if root is None else load_pairs("snli/dev", root=root).take(count, seed=0)


def accuracy(data: PairDataset, nli: NLI, logits: torch.Tensor) -> float:
    """Share of right labels among pairs that have one."""
    right = [nli.labels[int(row.argmax())] == pair.label for row, pair in zip(logits, data, strict=True) if pair.label]
    return sum(right) / len(right)


if __name__ == "__main__":
    main()
