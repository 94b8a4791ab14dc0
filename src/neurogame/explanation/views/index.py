"""The index of many explanations: pages of heat maps, each with a link to the page of its pair.

No script: a page is read from top to bottom, and holds so few pairs that a phone shows it. `templates/index.html` has
the markup.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from neurogame.explanation import summary
from neurogame.explanation.record import Explanation
from neurogame.explanation.views import markup
from neurogame.explanation.views.page import page, sides
from neurogame.writing import write_text

PER_PAGE = 100


@dataclass
class Counts:
    """How many rows of a file have which label, failed, or agree with their gold label."""

    labels: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    failed: int = 0
    gold: int = 0  # explained rows that say their label
    right: int = 0  # those where the model says the same

    def listed(self) -> list[str]:
        """A phrase each."""
        phrases = [f"{label} {n}" for label, n in self.labels.most_common()]
        phrases += [f"{self.right} of {self.gold} as labelled in the file"] if self.gold else []
        return phrases + ([f"{self.failed} failed"] if self.failed else [])


def draw(folder: Path, lines: Path, *, title: str, asked: Mapping[str, Any]) -> None:
    """The page of each pair, and the index in front of them; each file is written whole or not at all."""
    (folder / "pairs").mkdir(exist_ok=True)
    counts = _counted(_rows(lines))
    pages = -(-counts.rows // PER_PAGE)
    head = {
        "title": f"{title}, explained",
        "name": title,
        "model": str(asked.get("model", "")),
        "how": _how(asked),
        "rows": counts.rows,
        "counts": counts.listed(),
        "legend": _legend(next(row for row in _rows(lines) if "error" not in row)),
        "pages": pages,
    }
    rows = _neighbours(lines)
    for number in range(1, pages + 1):
        entries = [_entry(folder, *row, number, counts.rows) for row in islice(rows, PER_PAGE)]
        near = sorted({1, pages, *range(max(1, number - 3), min(pages, number + 3) + 1)})
        ways = [{"number": n, "name": _name(n)} for n in near]
        text = markup.render("index.html", **head, entries=entries, number=number, near=ways)
        write_text(folder / _name(number), text, durable=False)


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


def _how(asked: Mapping[str, Any]) -> list[str]:
    named = [f"{name} {asked[name]}" for name in ("target", "contrast", "level") if asked.get(name)]
    return [f"method “{asked.get('method', 'decision')}”", *named]


def _legend(row: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Which colour is which sign: the same in all rows, whatever label each explains."""
    ex = Explanation.from_dict(row)
    against, for_it = summary.poles(ex)
    if ex.target is not None:
        for_it = "for the label explained"
        against = "against it" if ex.contrast is None else f"against it, for {ex.contrast}"
    return [("for", "+", "blue, solid", for_it), ("against", "−", "orange, dashed", against)]


def _entry(
    folder: Path, row: Mapping[str, Any], before: int | None, after: int | None, number: int, rows: int
) -> dict[str, Any]:
    """A pair in the index; its own page is written on the way."""
    place = row["row"]
    if "error" in row:
        texts = [markup.short(row[name]) for name in ("text", "premise", "hypothesis") if name in row]
        return {"row": place, "error": row["error"], "texts": texts}
    ex = Explanation.from_dict(row)
    label, gold = ex.prediction.label, row.get("gold")
    back = {"href": f"../{_name(number)}#row-{place}", "rows": rows, "before": before, "after": after}
    write_text(folder / "pairs" / f"{place}.html", page(ex, back=back), durable=False)
    return {
        "row": place,
        "error": "",
        "label": label,
        "number": _number(ex),
        "gold": None if gold in (None, label) else str(gold),
        "sides": sides(ex),
    }


def _number(ex: Explanation) -> str:
    """The probability of the answer, or the score."""
    label, share = summary.answer(ex)
    if summary.is_score(ex):
        return f"{ex.prediction.logits[label]:.3f}"
    return "" if share is None else f"{share:.3f}"
