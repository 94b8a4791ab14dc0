"""The index of many explanations: pages of heat maps, each with a link to the page of its pair.

No script: a page is read from top to bottom, and holds so few pairs that a phone shows it. `templates/index.html` has
the markup.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from neurogame._common.writing import write_text
from neurogame.explanation import summary
from neurogame.explanation.record import Explanation
from neurogame.explanation.views.page import page, render, short, sides

PER_PAGE = 100


def draw(folder: Path, lines: Path, *, title: str, asked: Mapping[str, Any]) -> None:
    """The page of each pair, and the index in front of them; each file is written whole or not at all."""
    (folder / "pairs").mkdir(exist_ok=True)
    count, counts = _count(_rows(lines))
    pages = -(-count // PER_PAGE)
    first = Explanation.from_dict(next(row for row in _rows(lines) if "error" not in row))
    head = {"title": f"{title}, explained", "name": title, "asked": asked, "first": first}
    head |= {"rows": count, "counts": counts, "pages": pages}
    rows = _neighbours(lines)
    for number in range(1, pages + 1):
        entries = [_entry(folder, *row, number, count) for row in islice(rows, PER_PAGE)]
        near = sorted({1, pages, *range(max(1, number - 3), min(pages, number + 3) + 1)})
        ways = [{"number": n, "name": _name(n)} for n in near]
        text = render("index.html", **head, entries=entries, number=number, near=ways)
        write_text(folder / _name(number), text, durable=False)


def _count(rows: Iterator[Mapping[str, Any]]) -> tuple[int, list[str]]:
    """The number of rows; and phrases: how many have which label, agree with their gold label, or failed."""
    labels, counts = Counter[str](), Counter[str]()
    for row in rows:
        counts.update(rows=1, failed="error" in row)
        if "error" not in row:
            label, gold = row["prediction"]["label"], row.get("gold")
            labels[label] += 1
            counts.update(gold=gold is not None, right=gold == label)
    phrases = [f"{label} {n}" for label, n in labels.most_common()]
    phrases += [f"{counts['right']} of {counts['gold']} as labelled in the file"] if counts["gold"] else []
    return counts["rows"], phrases + ([f"{counts['failed']} failed"] if counts["failed"] else [])


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


def _entry(
    folder: Path, row: Mapping[str, Any], before: int | None, after: int | None, number: int, rows: int
) -> dict[str, Any]:
    """A pair in the index; its own page is written on the way."""
    place = row["row"]
    if "error" in row:
        texts = [short(row[name]) for name in ("text", "premise", "hypothesis") if name in row]
        return {"row": place, "error": row["error"], "texts": texts}
    ex = Explanation.from_dict(row)
    label, gold = ex.prediction.label, row.get("gold")
    back = {"href": f"../{_name(number)}#row-{place}", "rows": rows, "before": before, "after": after}
    write_text(folder / "pairs" / f"{place}.html", page(ex, back=back), durable=False)
    answer, share = summary.answer(ex)
    shown = ex.prediction.logits[answer] if summary.is_score(ex) else share
    entry = {"row": place, "error": "", "label": label, "number": "" if shown is None else f"{shown:.3f}"}
    entry["reasons"] = summary.reasons(ex)
    return entry | {"gold": None if gold in (None, label) else str(gold), "sides": sides(ex)}
