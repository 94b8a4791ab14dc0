"""An explanation as one HTML file that needs nothing else: no script, no network, no fonts; light, dark, on a phone.

`templates/explanation.html` has the markup and the words around the numbers, here is what goes into it. Templates
escape what they are given; all text of a user goes through `text`, once. Signs are never in colour alone: numbers, +
and −, solid and dashed lines say the same.
"""

from __future__ import annotations

from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from neurogame._common.printing import cut, printable
from neurogame.explanation import summary
from neurogame.explanation.views.drawing import DRAWING, direction, matrix, network, trajectory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neurogame.explanation.record import Explanation

_HERE = Path(__file__).parent
_TITLE = 60  # characters of a text in a title
_ROWS = 12  # words in a table, the rest is folded
_OPEN = 18  # rows of the layer's table, up to which it is open from the start
_LISTED = 24  # entries of a list
_UNLISTED = {"shapley_se", "banzhaf_se", "unread", "trajectory", "without", "rationale_alone"}  # per word, or drawn


def page(ex: Explanation, *, back: Mapping[str, Any] | None = None) -> str:
    """The whole document.

    Args:
        ex: what is shown.
        back: for a page among others: `href` of their index, its number of `rows`, and the numbers of the pages
            `before` and `after`, None where there is none.
    """
    title = f"{ex.prediction.label}: {' / '.join(short(text) for _, text in ex.parts)}"
    return render("page.html", title=title, back=back, **_parts(ex))


def fragment(ex: Explanation) -> str:
    """The same for a notebook: styles that touch nothing around them."""
    return render("fragment.html", **_parts(ex))


def render(template: str, **values: Any) -> Markup:
    """A file of `templates`, filled in; every value is escaped unless it is `Markup` already."""
    return Markup(_environment().get_template(template).render(**values))  # noqa: S704  autoescape is on


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"text": text, "printable": printable, "value": _value}
    environment.filters |= {"signed": summary.signed, "count": summary.plural}
    style = Markup((_HERE.parent / "page.css").read_text(encoding="utf-8"))  # noqa: S704  a file of ours
    environment.globals |= {"summary": summary, "style": style, "drawing": DRAWING, "unlisted": _UNLISTED}
    return environment


def text(word: str, most: int | None = None) -> Markup:
    """A user's text, escaped, in a direction of its own; cut after `most` characters."""
    return Markup("<bdi>{}</bdi>").format(printable(word) if most is None else cut(word, most))


def short(sentence: str) -> str:
    """The beginning of a text, in one line."""
    return cut(" ".join(sentence[: 4 * _TITLE].split()), _TITLE)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        rest = f" … and {len(value) - _LISTED} more" if len(value) > _LISTED else ""
        return ", ".join(_value(entry) for entry in value[:_LISTED]) + rest or "none"
    return "–" if value is None else cut(str(value), 200)


def _parts(ex: Explanation) -> dict[str, Any]:
    ranked = summary.strongest_words(ex)
    first = _ROWS if len(ranked) > _ROWS + 3 else len(ranked)  # a last row or two are not worth a fold
    pairs = dict(zip(("Synergies", "Antagonisms"), summary.synergies_and_antagonisms(ex, 5), strict=True))
    return {
        "ex": ex,
        "facts": ex.diagnostics,
        "sides": sides(ex),
        "shares": summary.shares(ex),
        "rows": ranked[:first],
        "folded": ranked[first:],
        "strongest": list(pairs.items()),
        "pair_digits": summary.digits([pair.value for sign in pairs.values() for pair in sign]),
        "network": network(ex),
        "matrix": matrix(ex),
        "layer": _layer(ex),
    }


def sides(ex: Explanation) -> list[dict[str, Any]]:
    """The texts for the macro `heat_map`: each word that counts on its colour."""
    shares, silent = summary.shares(ex), summary.unread(ex)

    def word(i: int) -> dict[str, Any]:
        strong, weak = abs(shares[i]) >= DRAWING.strong, abs(shares[i]) < DRAWING.weak
        sign = [] if weak else ["for" if shares[i] > 0 else "against"]
        names = " ".join(["w", *sign, *["strong"] * strong, *["swing"] * (i in ex.swing)])
        entry = {"count": 0, "text": text(ex.words[i], 60), "unread": i in silent, "names": names}
        return entry | {"shade": DRAWING.tint(shares[i]), "title": summary.score(ex, i) + summary.plus_minus(ex, i)}

    return [
        {
            "name": side,
            "direction": direction(sentence),
            "words": [word(run[0]) if len(run) == 1 else {"count": len(run)} for run in summary.passages(ex, side)],
        }
        for side, sentence in ex.parts
    ]


def _layer(ex: Explanation) -> dict[str, Any] | None:
    """What the layer itself says of each word, facts of the forward pass; None for a model without weights of words."""
    if ex.alpha is None:
        return None
    columns = {"field J": ex.field, "gate λ": ex.gate, "α": ex.alpha}
    silent = summary.unread(ex)
    read = [i for i in range(len(ex.words)) if i not in silent]
    by_side = [(side, list(run)) for side, run in groupby(read, lambda i: ex.sides[i])]
    return {
        "columns": [(name, column) for name, column in columns.items() if column],
        "sides": by_side,
        "open": len(read) + len(by_side) <= _OPEN,
        "largest": max(map(abs, ex.field or ()), default=0.0) or 1.0,
        "most": 1.0 if ex.field is not None else max(ex.alpha) or 1.0,  # weights of a control need not reach 1
        "trajectory": trajectory(ex),
    }
