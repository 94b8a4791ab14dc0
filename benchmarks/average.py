"""The mean of the weights of several models, as a model.

    python benchmarks/average.py --out runs/mean FOLDER FOLDER=2         # the second counts twice; seconds

Models that were trained on from the same weights are often better together than each alone (Wortsman et al., 2022).
They must have the same tensors; configuration and tokenizer are those of the last. A run of one step fits the
temperature of the mean and measures its game (configs/averaged.yaml). Writes OUT, with average.json, which says what
went into it.
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
from common import progress
from safetensors.torch import load_file, save_file
from torch import Tensor

WEIGHTS = "model.safetensors"
COPIED = ("config.json", "tokenizer.json", "tokenizer_config.json")


def mean(models: dict[Path, float]) -> dict[str, Tensor]:
    """Σ w·θ / Σ w, tensor by tensor in float32."""
    total: dict[str, Tensor] = {}
    for folder, weight in models.items():
        tensors = load_file(folder / WEIGHTS)
        if total and tensors.keys() != total.keys():
            odd = min(tensors.keys() ^ total.keys())
            raise SystemExit(f"{folder} is another kind of model than the first: {odd} is in one of them alone")
        for name, tensor in tensors.items():
            total[name] = total.get(name, torch.zeros(())) + weight / sum(models.values()) * tensor.float()
    return total


def main() -> None:
    """Read, average, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="FOLDER[=WEIGHT]", help="saved models of one kind")
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    models = {Path(name): float(weight or 1) for name, _, weight in (given.partition("=") for given in args.models)}
    args.out.mkdir(parents=True, exist_ok=True)
    save_file(
        {name: tensor.contiguous() for name, tensor in mean(models).items()}, args.out / WEIGHTS, {"format": "pt"}
    )
    last = list(models)[-1]
    for name in COPIED:
        shutil.copyfile(last / name, args.out / name)
    of = [{"model": str(folder), "weight": weight} for folder, weight in models.items()]
    (args.out / "average.json").write_text(json.dumps(of, indent=1) + "\n")
    progress(f"wrote {args.out}")


if __name__ == "__main__":
    main()
