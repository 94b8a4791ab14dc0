"""The index of many explanations: pages of heat maps, each with a link to the page of its pair.

No script: a page is read from top to bottom, and holds so few pairs that a phone shows it. Text of a user is escaped by
`markup.text`.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

from neurogame.explanation import markup
from neurogame.explanation.page import heat_map, page
from neurogame.explanation.record import Explanation

PER_PAGE = 100


def draw(folder: Path, lines: Path, *, title: str, asked: Mapping[str, Any]) -> None:
    """The page of each pair, and the index in front of them; each file is written whole or not at all."""
    (folder / "pairs").mkdir(exist_ok=True)
    counts, rows = Counter[str](), 0
    for row in _rows(lines):
        rows += 1
        counts["failed" if "error" in row else row["prediction"]["label"]] += 1
        counts["right"] += "error" not in row and row.get("gold") == row["prediction"]["label"]
        counts["gold"] += "error" not in row and "gold" in row
    pages = -(-rows // PER_PAGE)
    head = _head(title, asked, rows, counts)
    found = _rows(lines)
    for number in range(1, pages + 1):
        entries = "".join(_entry(folder, row, number, rows) for row in islice(found, PER_PAGE))
        ways = _ways(number, pages)
        body = f"<main>\n{head}{ways}{entries}{ways}\n</main>"
        markup.write(folder / _name(number), markup.document(f"{title}, explained", body))


def _rows(lines: Path) -> Iterator[dict[str, Any]]:
    with lines.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def _name(number: int) -> str:
    return "index.html" if number == 1 else f"index-{number}.html"


def _head(title: str, asked: Mapping[str, Any], rows: int, counts: Counter[str]) -> str:
    said = [f"{label} {n}" for label, n in counts.most_common() if label not in ("right", "gold", "failed")]
    said += [f"{counts['right']} of {counts['gold']} as labelled in the file"] if counts["gold"] else []
    said += [f"{counts['failed']} failed"] if counts["failed"] else []
    how = [f"method “{asked.get('method', 'decision')}”"]
    how += [f"{name} {asked[name]}" for name in ("target", "contrast", "level") if asked.get(name)]
    return (
        f'<header><p class="eyebrow">NeuroGame · {escape(str(asked.get("model", "")))} · {escape(", ".join(how))}</p>'
        f"<h1>{markup.text(title, 80)}: {rows} {'row' if rows == 1 else 'rows'}, explained</h1>"
        f'<p class="eyebrow">{escape(" · ".join(said))}</p></header>'
    )


def _ways(number: int, pages: int) -> str:
    """To the other pages of the index."""
    if pages == 1:
        return ""
    links = [
        f"<b>{n}</b>" if n == number else f'<a href="{_name(n)}">{n}</a>'
        for n in sorted({1, pages, *range(max(1, number - 3), min(pages, number + 3) + 1)})
    ]
    return f'<nav class="ways" aria-label="Pages">{" ".join(links)}</nav>'


def _entry(folder: Path, row: Mapping[str, Any], number: int, rows: int) -> str:
    """A pair in the index; its own page is written on the way."""
    place = row["row"]
    if "error" in row:
        texts = " / ".join(markup.text(markup.short(row[name])) for name in ("premise", "hypothesis") if name in row)
        said = f'<p class="warn">{markup.text(row["error"], 300)}</p>'
        return f'<section id="row-{place}"><h2>{place} · failed</h2><p class="note">{texts}</p>{said}</section>'
    ex = Explanation.from_dict(row)
    label, gold = ex.prediction.label, row.get("gold")
    other = f' · <span class="tag">labelled {markup.text(str(gold))}</span>' if gold not in (None, label) else ""
    back = f'<a href="../{_name(number)}#row-{place}">All {rows} rows</a>'
    before = f' <a href="{place - 1}.html">Before</a>' if (folder / "pairs" / f"{place - 1}.html").exists() else ""
    nav = f'<nav class="ways" aria-label="Pairs">{back}{before}</nav>\n'
    markup.write(folder / "pairs" / f"{place}.html", page(ex, nav=nav))
    return (
        f'<section id="row-{place}"><h2><a href="pairs/{place}.html">{place}</a> · {markup.text(label)} '
        f"{ex.prediction.probabilities[label]:.3f}{other}</h2>{heat_map(ex, numbers=False)}</section>\n"
    )
