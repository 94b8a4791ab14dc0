"""The index of many explanations: pages of heat maps, each with a link to the page of its pair.

No script: a page is read from top to bottom, and holds so few pairs that a phone shows it. Text of a user is escaped by
`markup.text`.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

from neurogame.explanation import summary
from neurogame.explanation.record import Explanation
from neurogame.explanation.views import markup
from neurogame.explanation.views.page import heat_map, page
from neurogame.writing import write_text

PER_PAGE = 100


@dataclass
class Counts:
    """What the rows of a file came to; a label may have any name, so labels are counted apart."""

    labels: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    failed: int = 0
    gold: int = 0  # explained rows that say their label
    right: int = 0  # those where the model says the same


def draw(folder: Path, lines: Path, *, title: str, asked: Mapping[str, Any]) -> None:
    """The page of each pair, and the index in front of them; each file is written whole or not at all."""
    (folder / "pairs").mkdir(exist_ok=True)
    counts = _counted(_rows(lines))
    pages = -(-counts.rows // PER_PAGE)
    head = _head(title, asked, counts) + _legend(next(row for row in _rows(lines) if "error" not in row))
    found = _neighbours(lines)
    for number in range(1, pages + 1):
        entries = "".join(_entry(folder, *row, number, counts.rows) for row in islice(found, PER_PAGE))
        ways = _ways(number, pages)
        body = f"<main>\n{head}{ways}{entries}{ways}\n</main>"
        write_text(folder / _name(number), markup.document(f"{title}, explained", body), durable=False)


def _counted(rows: Iterator[Mapping[str, Any]]) -> Counts:
    counts = Counts()
    for row in rows:
        counts.rows += 1
        if "error" in row:
            counts.failed += 1
            continue
        label, gold = row["prediction"]["label"], row.get("gold")
        counts.labels[label] += 1
        counts.gold += gold is not None
        counts.right += gold == label
    return counts


def _rows(lines: Path) -> Iterator[dict[str, Any]]:
    with lines.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def _neighbours(lines: Path) -> Iterator[tuple[dict[str, Any], int | None, int | None]]:
    """Each row, and the numbers of the explained rows before and after it; the file is read twice, side by side."""
    explained = (row["row"] for row in _rows(lines) if "error" not in row)
    before, after = None, next(explained, None)
    for row in _rows(lines):
        if row["row"] != after:  # it failed
            yield row, before, after
            continue
        here, after = after, next(explained, None)
        yield row, before, after
        before = here


def _name(number: int) -> str:
    return "index.html" if number == 1 else f"index-{number}.html"


def _head(title: str, asked: Mapping[str, Any], counts: Counts) -> str:
    said = [f"{label} {n}" for label, n in counts.labels.most_common()]
    said += [f"{counts.right} of {counts.gold} as labelled in the file"] if counts.gold else []
    said += [f"{counts.failed} failed"] if counts.failed else []
    how = [f"method “{asked.get('method', 'decision')}”"]
    how += [f"{name} {asked[name]}" for name in ("target", "contrast", "level") if asked.get(name)]
    return (
        f'<header><p class="eyebrow">NeuroGame · {escape(str(asked.get("model", "")))} · {escape(", ".join(how))}</p>'
        f"<h1>{markup.text(title, 80)}: {summary.counted(counts.rows, 'row')}, explained</h1>"
        f'<p class="eyebrow">{escape(" · ".join(said))}</p></header>'
    )


def _legend(row: Mapping[str, Any]) -> str:
    """Which colour is which sign: the same in all rows, whatever label each explains."""
    ex = Explanation.from_dict(row)
    against, for_it = summary.poles(ex)
    if ex.target is not None:
        for_it = "for the label explained"
        against = "against it" if ex.contrast is None else f"against it, for {ex.contrast}"
    said = "".join(
        f'<span><span class="w {kind} strong" style="--a:0.35">{sign}</span> {look}: {escape(meaning)}</span>'
        for kind, sign, look, meaning in (
            ("for", "+", "blue, solid", for_it),
            ("against", "−", "orange, dashed", against),
        )
    )
    return f'<div class="legend">{said}</div>\n'


def _ways(number: int, pages: int) -> str:
    """To the other pages of the index."""
    if pages == 1:
        return ""
    links = [
        f"<b>{n}</b>" if n == number else f'<a href="{_name(n)}">{n}</a>'
        for n in sorted({1, pages, *range(max(1, number - 3), min(pages, number + 3) + 1)})
    ]
    return f'<nav class="ways" aria-label="Pages">{" ".join(links)}</nav>'


def _entry(folder: Path, row: Mapping[str, Any], before: int | None, after: int | None, number: int, rows: int) -> str:
    """A pair in the index; its own page is written on the way."""
    place = row["row"]
    if "error" in row:
        texts = " / ".join(markup.text(markup.short(row[name])) for name in ("premise", "hypothesis") if name in row)
        said = f'<p class="warn">{markup.text(row["error"], 300)}</p>'
        return f'<section id="row-{place}"><h2>{place} · failed</h2><p class="note">{texts}</p>{said}</section>'
    ex = Explanation.from_dict(row)
    label, gold = ex.prediction.label, row.get("gold")
    other = f' · <span class="tag">labelled {markup.text(str(gold))}</span>' if gold not in (None, label) else ""
    links = [f'<a href="../{_name(number)}#row-{place}">All {summary.counted(rows, "row")}</a>']
    links += [f'<a rel="prev" href="{before}.html">Before</a>'] if before is not None else []
    links += [f'<a rel="next" href="{after}.html">Next</a>'] if after is not None else []
    nav = f'<nav class="ways" aria-label="Pairs">{" ".join(links)}</nav>\n'
    write_text(folder / "pairs" / f"{place}.html", page(ex, nav=nav), durable=False)
    return (
        f'<section id="row-{place}"><h2>{place} · <a href="pairs/{place}.html">{markup.text(label)} '
        f"{ex.prediction.probabilities[label]:.3f}</a>{other}</h2>{heat_map(ex, numbers=False)}</section>\n"
    )
