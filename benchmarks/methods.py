"""What the page of `neurogame serve` says of each method's faithfulness and price, from what is in results/.

python benchmarks/methods.py          # seconds; writes src/neurogame/explanation/measured.json
"""

import argparse
import json
from pathlib import Path
from typing import Any

from common import RESULTS, progress

from neurogame._common.writing import write_text
from neurogame.explanation.measured import FILE

SOURCES = {  # by the kind of model, the present one first: which file, and what the model is called
    "readout": ("explanations.json", "the embedded model"),
    "explainer": ("explanations_explainer.json", "the first model that shipped, with an explainer"),
    "head": ("explanations_first.json", "the first model that shipped"),
}


def figures(results: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """By kind of model and method: comprehensiveness with its interval, chance, passes, time over a prediction's."""
    return {
        kind: _rows(json.loads((results / name).read_text(encoding="utf-8")), model)
        for kind, (name, model) in SOURCES.items()
    }


def _rows(found: dict[str, Any], model: str) -> dict[str, Any]:
    rows = {row["row"]: row for row in found["rows"]}
    chance = rows["random"]["figures"]["comprehensiveness"]["value"]
    predicted = found["prediction"]["seconds"]
    return {
        name: {
            "model": model,
            "data": found["settings"]["data"],
            "pairs": row["figures"]["comprehensiveness"]["pairs"],
            "faithfulness": _short(row["figures"]["comprehensiveness"]["value"]),
            "low": _short(row["figures"]["comprehensiveness"]["low"]),
            "high": _short(row["figures"]["comprehensiveness"]["high"]),
            "chance": _short(chance),
            "passes": row.get("forward passes"),
            "cost": None if row.get("seconds") is None else _short(row["seconds"] / predicted),
        }
        for name, row in rows.items()
        if (row["kind"] == "method" or name == "random") and row["figures"].get("comprehensiveness")
    }


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def text(results: Path = RESULTS) -> str:
    """The file."""
    return json.dumps(figures(results), indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Read, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--output", type=Path, default=FILE)
    args = parser.parse_args()
    write_text(args.output, text(args.results))
    progress(f"written: {args.output.name}")


if __name__ == "__main__":
    main()
