"""What every benchmark shares: where results go, what machine they were measured on, how a table is printed."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from neurogame.about import machine
from neurogame.writing import write_text

RESULTS = Path(__file__).resolve().parent.parent / "results"


def progress(message: str) -> None:
    """One line to stderr: results alone go to stdout."""
    print(message, file=sys.stderr, flush=True)


def save(name: str, seconds: float, **content: Any) -> None:
    """results/NAME.json, with the machine and the wall time."""
    RESULTS.mkdir(exist_ok=True)
    record = {"machine": machine(), "seconds": round(seconds, 1), **content}
    path = RESULTS / f"{name}.json"
    write_text(path, json.dumps(record, indent=1) + "\n")
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
