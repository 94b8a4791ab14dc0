"""An explanation as one HTML file that needs nothing else: no script, no network, no fonts; light, dark, on a phone.

`templates/explanation.html` has the markup, here is what goes into it. All text of a user goes through `markup.text`,
once. Signs are never in colour alone: numbers, + and −, solid and dashed lines say the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neurogame.explanation import summary
from neurogame.explanation.views import markup
from neurogame.explanation.views.drawing import DRAWING, plus_minus
from neurogame.explanation.views.layer import layer
from neurogame.explanation.views.matrix import matrix
from neurogame.explanation.views.network import network
from neurogame.printing import cut

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neurogame.explanation.record import Explanation

_ROWS = 12  # words in a table, the rest is folded
_LISTED = 24  # entries of a list
_UNLISTED = {"shapley_se", "banzhaf_se", "unread", "trajectory", "without", "rationale_alone"}  # per word, or drawn


def page(ex: Explanation, *, back: Mapping[str, Any] | None = None) -> str:
    """The whole document.

    Args:
        ex: what is shown.
        back: for a page among others: `href` of their index, its number of `rows`, and the numbers of the pages
            `before` and `after`, None where there is none.
    """
    title = f"{ex.prediction.label}: {' / '.join(markup.short(text) for _, text in ex.parts)}"
    return markup.render("page.html", title=title, back=back, **_parts(ex))


def fragment(ex: Explanation) -> str:
    """The same for a notebook: styles that touch nothing around them."""
    return markup.render("fragment.html", **_parts(ex))


def _parts(ex: Explanation) -> dict[str, Any]:
    digits = summary.digits(ex.scores)
    largest = max(map(abs, ex.scores), default=0.0) or 1.0
    rows = [
        {
            "i": i,
            "share": ex.scores[i] / largest,
            "score": summary.signed(ex.scores[i], digits),
            "value": f"{summary.signed(ex.scores[i], digits)}{plus_minus(ex, i, digits)}",
        }
        for i in summary.ranked(ex)
    ]
    first = _ROWS if len(rows) > _ROWS + 3 else len(rows)  # a last row or two are not worth a fold
    pairs = dict(zip(("Synergies", "Antagonisms"), summary.pairs(ex, 5), strict=True))
    return {
        "ex": ex,
        "model": str(ex.diagnostics.get("model", "")),
        "warnings": summary.warnings(ex),
        "sides": sides(ex),
        "answers": summary.answers(ex),
        "checks": summary.checks(ex),
        "marks": _marks(ex),
        "swings": list(zip(ex.swing, ex.diagnostics.get("swing_to", ()), strict=False)),
        "reading": _reading(ex),
        "digits": digits,
        "rows": rows[:first],
        "folded": rows[first:],
        "every": rows,
        "strongest": list(pairs.items()),
        "pair_digits": summary.digits([pair.value for some in pairs.values() for pair in some]),
        "network": None if ex.interactions is None else network(ex),
        "matrix": None if ex.interactions is None else matrix(ex),
        "layer": layer(ex),
        "diagnostics": [(n.replace("_", " "), _value(x)) for n, x in ex.diagnostics.items() if n not in _UNLISTED],
    }


def sides(ex: Explanation) -> list[dict[str, Any]]:
    """The texts for the macro `heat_map`: each word that counts on its colour."""
    largest = max(map(abs, ex.scores), default=0.0) or 1.0
    digits = summary.digits(ex.scores)
    return [
        {
            "name": side,
            "direction": markup.direction(sentence),
            "words": [
                _word(ex, run[0], largest, digits) if len(run) == 1 else {"count": len(run)}
                for run in summary.passages(ex, side)
            ],
        }
        for side, sentence in ex.parts
    ]


def _word(ex: Explanation, i: int, largest: float, digits: int) -> dict[str, Any]:
    share, number = ex.scores[i] / largest, summary.signed(ex.scores[i], digits)
    strong = abs(share) >= DRAWING.strong
    sign = [] if abs(share) < DRAWING.weak else ["for" if share > 0 else "against"]
    names = ["w", *sign, *["strong"] * strong, *["swing"] * (i in ex.swing)]
    return {
        "count": 0,
        "text": markup.text(ex.words[i], 60),
        "unread": i in summary.unread(ex),
        "names": " ".join(names),
        "shade": DRAWING.tint(share),
        "title": f"{number}{plus_minus(ex, i, digits)}",
    }


def _marks(ex: Explanation) -> list[tuple[str, str, str]]:
    """The legend: look, sign, meaning."""
    against, for_it = summary.poles(ex)
    marks = [("w for strong", "+", for_it), ("w against strong", "−", against)]
    marks += [("w swing", "word", "swing word")] if ex.swing else []
    marks += [("w unread", "word", "not read")] if summary.unread(ex) else []
    return marks


def _reading(ex: Explanation) -> str:
    """How the scores add up."""
    total, outside = ex.diagnostics.get("total"), ex.diagnostics.get("outside")
    if total is None or outside is None:
        return f"{summary.question(ex)}, as the method “{ex.method}” has it."
    words, faded = summary.signed(sum(ex.scores)), ex.diagnostics.get("faded")
    gap = ex.diagnostics.get("efficiency_gap") or 0.0
    up_to = f", up to an error of {gap:.2g}" if gap >= 0.005 else ""
    if faded is not None:
        return (
            f"Fair shares: the words together hold {words}, what the logit gains from {summary.percent(faded)} of each "
            f"word to all of it{up_to}."
        )
    name = "score" if summary.is_score(ex) else "logit"
    whole = "the norm of all words together" if ex.target is None else f"the {name}, counted from an empty input"
    return (
        f"Fair shares: the words together hold {words} and the special tokens {summary.signed(outside)}; that is "
        f"{summary.signed(total)}, {whole}{up_to}."
    )


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        rest = f" … and {len(value) - _LISTED} more" if len(value) > _LISTED else ""
        return ", ".join(_value(entry) for entry in value[:_LISTED]) + rest or "none"
    return "–" if value is None else cut(str(value), 200)
