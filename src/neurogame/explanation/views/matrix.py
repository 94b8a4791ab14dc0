"""The matrix of interactions as inline SVG: blue and + where words need each other, orange and − where they replace.

Premise and hypothesis are blocks; each cell has its numbers as a title, and its sign where it is strong.
"""

from html import escape

from neurogame.explanation import summary
from neurogame.explanation.record import Explanation
from neurogame.printing import cut

_CELL, _SIGN = 24, 0.35
_VISIBLE = 0.01  # of the strongest pair: less would be drawn in the colour of the ground
_LONGEST = 14  # characters of a label


def matrix(ex: Explanation) -> str:
    """A figure; of many words those with the largest scores."""
    assert ex.interactions is not None
    shown = summary.drawn(ex)
    if len(shown) < 2:
        return ""
    names = [cut(ex.words[i], _LONGEST) for i in shown]
    gutter = 16 + round(7.2 * max(map(len, names)))
    size = gutter + _CELL * len(shown) + 20
    largest = max(abs(ex.interactions[i][j]) for i in shown for j in shown) or 1.0
    digits = summary.digits([largest])
    parts = [_cells(ex, shown, gutter, largest, digits), _names(names, gutter), _blocks(ex, shown, gutter)]
    left_out = len(summary.ranked(ex)) - len(shown)
    caption = "Deepest colour: " + summary.signed(largest, digits).replace("+", "±") + "."
    caption += f" Left out: {summary.counted(left_out, 'weaker word')}." if left_out else ""
    return (
        f'<figure style="flex-basis:{size}px"><div class="scroll"><svg role="img" '
        f'aria-label="{escape(_spoken(ex, digits))}" width="{size}" height="{size}" viewBox="0 0 {size} {size}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _cells(ex: Explanation, shown: list[int], gutter: int, largest: float, digits: int) -> str:
    """One rectangle per pair, and the ground below them in one piece."""
    assert ex.interactions is not None
    inner = _CELL - 2
    places = [gutter + _CELL * place for place in range(len(shown))]
    ground = "".join(f"M{x} {y}h{inner}v{inner}h-{inner}z" for y in places for x in places)
    found = [f'<path class="grid" d="{ground}"/>']
    for y, i in zip(places, shown, strict=True):
        for x, j in zip(places, shown, strict=True):
            value = ex.interactions[i][j]
            share = abs(value) / largest
            if share < _VISIBLE:
                continue
            title = escape(f"{summary.placed(ex, i)} × {summary.placed(ex, j)}: {summary.signed(value, digits)}")
            kind = "p" if value > 0 else "n"
            found.append(
                f'<path class="{kind}" fill-opacity="{0.8 * share:.2f}" d="M{x} {y}h{inner}v{inner}h-{inner}z">'
            )
            found.append(f"<title>{title}</title></path>")
            if share >= _SIGN:
                sign = "+" if value > 0 else "−"
                found.append(f'<text class="sign" x="{x + _CELL // 2 - 1}" y="{y + _CELL // 2 + 3}">{sign}</text>')
    return "".join(found)


def _names(names: list[str], gutter: int) -> str:
    found = []
    for place, name in enumerate(names):
        middle = gutter + _CELL * place + _CELL / 2 + 3
        found.append(f'<text x="{gutter - 6}" y="{middle}" text-anchor="end">{escape(name)}</text>')
        found.append(f'<text transform="translate({middle},{gutter - 6}) rotate(-90)">{escape(name)}</text>')
    return "".join(found)


def _blocks(ex: Explanation, shown: list[int], gutter: int) -> str:
    """A line between premise and hypothesis, where both are there, and their names at the far ends."""
    first = sum(ex.sides[i] == "premise" for i in shown)
    cut, end = gutter + _CELL * first - 1, gutter + _CELL * len(shown)
    found = ""
    for side, start, stop in (("premise", gutter, cut), ("hypothesis", cut, end)):
        if stop - start >= _CELL:
            found += f'<text class="block" transform="translate({end + 12},{start + 2}) rotate(90)">{side}</text>'
            found += f'<text class="block" x="{start + 2}" y="{end + 14}">{side}</text>'
    if first in (0, len(shown)):
        return found
    ends = (f'x1="{cut}" y1="8" x2="{cut}" y2="{end + 16}"', f'x1="8" y1="{cut}" x2="{end + 16}" y2="{cut}"')
    return found + "".join(f'<line class="cut" {place}/>' for place in ends)


def _spoken(ex: Explanation, digits: int) -> str:
    """What the picture says, for those who do not see it."""
    strongest = sorted((pair for found in summary.pairs(ex, 3) for pair in found), key=lambda pair: -abs(pair.value))
    said = "; ".join(
        f"{summary.placed(ex, p.i)} and {summary.placed(ex, p.j)} {summary.signed(p.value, digits)}"
        for p in strongest[:3]
    )
    return f"Matrix of interactions between words. Strongest: {said or 'none'}."
