"""The tables of load, growth and lists in the docs, from what load.py, growth.py and explain_list.py measured.

    python benchmarks/cost_page.py       # results/{load,growth,explain_list}.json → docs, a second

`make load` ends with it. Each table stands between two markers; the rest of a page is written by hand. A results file
that is not there, or has no such rows yet, leaves its table as it is.
"""

import json
from typing import Any

from common import RESULTS, progress

from neurogame_bench.pages import pipes, update

DOCS = RESULTS.parent / "docs"
PERFORMANCE, SERVE = DOCS / "performance.md", DOCS / "how-to" / "serve.md"
Row = dict[str, Any]


def backends(rows: list[Row]) -> str:
    """Requests per second as ratios to torch in one process at the same number of clients, and p99."""
    base = {row["clients"]: row["per_second"] for row in rows if (row["backend"], row["processes"]) == ("torch", 1)}
    cells = [
        [
            row["backend"],
            str(row["processes"]),
            str(row["clients"]),
            f"{row['per_second'] / max(base[row['clients']], 1e-9):.2f}",
            f"{row['p50_ms']:.0f}",
            f"{row['p99_ms']:.0f}",
        ]
        for row in rows
    ]
    return pipes(["backend", "processes", "clients", "requests, torch in one process = 1", "p50, ms", "p99, ms"], cells)


def growth(found: Row) -> str:
    """Two curves: predictions by tokens, explanations by words."""
    by_tokens = [
        [str(row["tokens"]), f"{row['pairs_per_second']:.1f}", _power(row), _size(row)] for row in found["tokens"]
    ]
    by_words = [
        [row["method"], str(row["words"]), f"{row['milliseconds']:.0f}", _power(row), _size(row)]
        for row in found["words"]
    ]
    predictions = pipes(["tokens", "pairs per second", "exponent", "memory of a batch, MB"], by_tokens, left=0)
    return f"{predictions}\n\n" + pipes(["method", "words", "ms", "exponent", "memory, MB"], by_words)


def lists(found: Row) -> str:
    """Ratios, the bound, and the tokens behind it."""
    cells = [
        [
            f"{row['what']}, {'checked' if row['check'] else 'unchecked'}",
            f"{row['ratio']:.2f}",
            f"{row['bound']:.2f}",
            f"{row['model_alone_ms'] / row['together_ms']:.0%}".replace("%", " %"),
        ]
        for row in found["rows"]
    ]
    head = ["32 pairs together", "times faster than pair by pair", "bound", "share of the forward passes"]
    tokens = found["tokens"]
    said = f"A pair has {tokens['pair']:.0f} tokens; its check puts {tokens['check']:.0f} more through the encoder."
    return f"{pipes(head, cells)}\n\n{said}"


def _power(row: Row) -> str:
    return "–" if row["growth"] is None else f"{row['growth']:.2f}"


def _size(row: Row) -> str:
    return "–" if row["megabytes"] is None else f"{row['megabytes']:.0f}"


def main() -> None:
    """Read, write."""
    for name, page, table in (
        ("load", SERVE, lambda found: backends(found["backends"]) if found.get("backends") else ""),
        ("growth", PERFORMANCE, growth),
        ("explain_list", PERFORMANCE, lists),
    ):
        path = RESULTS / f"{name}.json"
        text = table(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else ""
        if text:
            update(page, text, f"results/{name}.json")
        progress(f"{name}: {'written to ' + page.name if text else 'not measured yet'}")


if __name__ == "__main__":
    main()
