"""The tables of attention, load, growth and lists in the docs, from what was measured.

    python benchmarks/cost_page.py       # results/{attention,load,growth,explain_list}.json → docs, a second

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


def inside(found: Row) -> str:
    """NeuroGameSelfAttention: times as ratios to nn.MultiheadAttention, then peak memory."""
    names = {
        "couplings": "two updates",
        "couplings, 3 updates": "three updates",
        "no couplings": "no couplings",
        "sigmoid": "sigmoid",
        "SDPA alone": "SDPA alone",
    }
    cells = [
        [str(row["batch"]), str(row["tokens"]), row["pass"], f"{row['MHA ms']:.0f}", *(f"{row[n]:.2f}" for n in names)]
        for row in found["cases"]
    ]
    said = "Peak extra memory of forward and backward: " + "; ".join(
        f"batch {row['batch']}, n = {row['tokens']}: {row['couplings'] / 1e6:.0f} MB with couplings and "
        f"{row['no couplings'] / 1e6:.0f} MB without, {row['MHA'] / 1e6:.0f} MB for MHA"
        for row in found["memory"]
    )
    return f"{pipes(['batch', 'n', 'pass', 'MHA, ms', *names.values()], cells, left=3)}\n\n{said}."


def batching(rows: list[Row]) -> str:
    """Of the embedded model: requests per second as ratios to one client without batches, and quantiles."""
    by = {(row["batch"], row["clients"]): row for row in rows if row["model"] == "embedded"}
    single, shared = min(batch for batch, _ in by), max(batch for batch, _ in by)
    base = by[single, 1]["per_second"]
    cells = []
    for clients in sorted(n for batch, n in by if batch == single):
        each = [by[shared, clients], by[single, clients]]
        ratios = [f"{row['per_second'] / base:.2f}" for row in each]
        times = [", ".join(f"{row[q]:.0f}" for q in ("p50_ms", "p95_ms", "p99_ms")) for row in each]
        gain = f"{each[0]['per_second'] / each[1]['per_second']:.2f}"
        cells.append([str(clients), ratios[0], times[0], ratios[1], times[1], gain])
    quantiles = "p50, p95, p99 in ms"
    head = ["clients", "batches: requests", quantiles, "one at a time: requests", quantiles, "gain"]
    return f"{pipes(head, cells, left=0)}\n\nOne client, one at a time, has {base:.0f} requests a second."


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
    for name, part, page, table in (
        ("attention", "", PERFORMANCE, lambda found: inside(found["self_attention"])),
        ("load", ", batching", SERVE, lambda found: batching(found["rows"]) if found.get("rows") else ""),
        ("load", "", SERVE, lambda found: backends(found["backends"]) if found.get("backends") else ""),
        ("growth", "", PERFORMANCE, growth),
        ("explain_list", "", PERFORMANCE, lists),
    ):
        path = RESULTS / f"{name}.json"
        text = table(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else ""
        if text:
            update(page, text, f"results/{name}.json{part}")
        progress(f"{name}{part}: {'written to ' + page.name if text else 'not measured yet'}")


if __name__ == "__main__":
    main()
