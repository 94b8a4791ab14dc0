"""The matrix of interactions as inline SVG: blue and + where words need each other, orange and − where they replace.

Premise and hypothesis are blocks; each cell has its numbers as a title, and its sign where it is strong.
"""

from html import escape

from neurogame.explanation import summary
from neurogame.explanation.record import Explanation

MOST = 40  # words drawn: more would be a carpet, not a picture
_CELL, _SIGN = 24, 0.35
_LONGEST = 14  # characters of a label


def matrix(ex: Explanation) -> str:
    """A figure; of many words those with the largest scores."""
    assert ex.interactions is not None
    shown = sorted(summary.ranked(ex, MOST))
    if len(shown) < 2:
        return ""
    names = [_label(ex.words[i]) for i in shown]
    gutter = 16 + round(7.2 * max(map(len, names)))
    size = gutter + _CELL * len(shown) + 8
    largest = max(abs(ex.interactions[i][j]) for i in shown for j in shown) or 1.0
    digits = summary.digits([largest])
    parts = [_cells(ex, shown, gutter, largest, digits), _names(names, gutter), _blocks(ex, shown, gutter)]
    left_out = len(summary.ranked(ex)) - len(shown)
    caption = "Deepest colour: " + summary.signed(largest, digits).replace("+", "±") + "."
    caption += f" {left_out} weaker words are left out." if left_out else ""
    return (
        f'<figure><div class="scroll"><svg role="img" aria-label="{escape(_spoken(ex, digits))}" width="{size}" '
        f'height="{size}" viewBox="0 0 {size} {size}" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _cells(ex: Explanation, shown: list[int], gutter: int, largest: float, digits: int) -> str:
    assert ex.interactions is not None
    found = []
    for row, i in enumerate(shown):
        for column, j in enumerate(shown):
            x, y, value = gutter + _CELL * column, gutter + _CELL * row, ex.interactions[i][j]
            place = f'x="{x}" y="{y}" width="{_CELL - 2}" height="{_CELL - 2}" rx="3"'
            if i == j:
                found.append(f'<rect {place} class="grid" fill-opacity=".45"/>')
                continue
            share = abs(value) / largest
            title = escape(f"{summary.placed(ex, i)} × {summary.placed(ex, j)}: {summary.signed(value, digits)}")
            kind = "p" if value > 0 else "n"
            found.append(f'<rect {place} class="grid"/><rect {place} class="{kind}" fill-opacity="{0.8 * share:.2f}">')
            found.append(f"<title>{title}</title></rect>")
            if share >= _SIGN:
                sign = "+" if value > 0 else "−"
                found.append(f'<text class="sign" x="{x + _CELL / 2 - 1}" y="{y + _CELL / 2 + 3}">{sign}</text>')
    return "".join(found)


def _names(names: list[str], gutter: int) -> str:
    found = []
    for place, name in enumerate(names):
        middle = gutter + _CELL * place + _CELL / 2 + 3
        found.append(f'<text x="{gutter - 6}" y="{middle}" text-anchor="end">{escape(name)}</text>')
        found.append(f'<text transform="translate({middle},{gutter - 6}) rotate(-90)">{escape(name)}</text>')
    return "".join(found)


def _blocks(ex: Explanation, shown: list[int], gutter: int) -> str:
    """A line between premise and hypothesis, where both are there."""
    first = sum(ex.sides[i] == "premise" for i in shown)
    if first in (0, len(shown)):
        return ""
    cut, end = gutter + _CELL * first - 1, gutter + _CELL * len(shown)
    ends = (f'x1="{cut}" y1="8" x2="{cut}" y2="{end}"', f'x1="8" y1="{cut}" x2="{end}" y2="{cut}"')
    return "".join(f'<line class="cut" {place}/>' for place in ends)


def _label(word: str) -> str:
    shown = summary.printable(word)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def _spoken(ex: Explanation, digits: int) -> str:
    """What the picture says, for those who do not see it."""
    strongest = sorted((pair for found in summary.pairs(ex, 3) for pair in found), key=lambda pair: -abs(pair.value))
    said = "; ".join(
        f"{summary.printable(ex.words[p.i])} and {summary.printable(ex.words[p.j])} {summary.signed(p.value, digits)}"
        for p in strongest[:3]
    )
    return f"Matrix of interactions between words. Strongest: {said or 'none'}."
