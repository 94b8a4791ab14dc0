"""The small table on the first screen of README.md and docs/index.md, from what is in results/.

    python benchmarks/landing.py          # seconds

It stands between two markers; the rest of both pages is written by hand and stays as it is.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from common import RESULTS, progress

from neurogame_bench.pages import pipes, update

NAME = "results: first screen"  # of the markers
PAGES = ("README.md", "docs/index.md")
KNOWN = {"decision": "NeuroGame, one pass", "kernelshap": "KernelSHAP", "random": "random order of words"}


def table(explanations: dict[str, Any], grounding: dict[str, Any]) -> str:
    """Reasons against what else there is: passes, comprehensiveness, sufficiency; below it what v(C) is worth."""
    rows = {row["row"]: row for row in explanations["rows"]}
    cells = [
        [KNOWN[name], _passes(rows[name]), *(_figure(rows[name], m) for m in ("comprehensiveness", "sufficiency"))]
        for name in KNOWN
        if name in rows
    ]
    head = ["reasons by", "passes of the model", "comprehensiveness ↑", "sufficiency ↓"]
    game = grounding["readout"]["parts"]["r2"]["laws"]["mixed"]["about b"]["game"]
    settings = explanations["settings"]
    said = (
        f"Measured on {settings['pairs']} pairs of {settings['data']}{_fewer(cells, rows, settings['pairs'])}, model "
        f"`{settings['model']}`, by deleting the words that are named "
        f"([how]({{docs}}grounding.md#how-good-is-it)). What the game says of texts with words missing and what "
        f"the model says of them agree with R² = {_short(game['value'])} ({game['pairs']} pairs)."
    )
    return f"{pipes(head, cells)}\n\n{said}"


def _fewer(cells: list[list[str]], rows: dict[str, Any], pairs: int) -> str:
    """Rows that were measured on fewer pairs than the rest."""
    by_title = {
        title: rows[name]["figures"]["comprehensiveness"]["pairs"] for name, title in KNOWN.items() if name in rows
    }
    fewer = [f"{cell[0]}: {by_title[cell[0]]}" for cell in cells if by_title[cell[0]] < pairs]
    return f" ({', '.join(fewer)})" if fewer else ""


def _passes(row: dict[str, Any]) -> str:
    return f"{row['forward passes']:.0f}" if row.get("forward passes") else "–"


def _figure(row: dict[str, Any], metric: str) -> str:
    found = row["figures"][metric]
    return f"{_short(found['value'])} ({_short(found['low'])} to {_short(found['high'])})"


def _short(value: float) -> str:
    return f"{value:.2f}".replace("0.", ".", 1)


def main() -> None:
    """Read, write both pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--explanations", type=Path, default=RESULTS / "explanations.json")
    parser.add_argument("--grounding", type=Path, default=RESULTS / "grounding.json")
    parser.add_argument("--root", type=Path, default=RESULTS.parent)
    args = parser.parse_args()
    text = table(*(json.loads(path.read_text(encoding="utf-8")) for path in (args.explanations, args.grounding)))
    for page in PAGES:
        update(args.root / page, text.replace("{docs}", "docs/" if page == "README.md" else ""), NAME)
        progress(f"written: {page}")


if __name__ == "__main__":
    main()
