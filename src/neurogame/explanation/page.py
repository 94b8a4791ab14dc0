"""An explanation as one HTML file that needs nothing else: no script, no network, no fonts; light, dark, on a phone.

All text of a user goes through `_text`, once. Signs are never in colour alone: numbers, + and −, solid and dashed lines
say the same. The matrix of interactions is `matrix`'s.
"""

import unicodedata
from html import escape
from importlib import resources
from typing import Any

from neurogame.explanation import summary
from neurogame.explanation.matrix import matrix
from neurogame.explanation.record import Explanation
from neurogame.explanation.words import SIDES

_STRONG = 0.3  # of the largest score: a word this strong shows its number
_DEEPEST = 0.5  # opacity of the strongest word: its text must stay readable
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_COLUMNS = {"banzhaf": "Banzhaf β", "alpha": "α", "field": "field J", "gate": "gate λ"}


def page(ex: Explanation) -> str:
    """The whole document."""
    title = escape(f"{ex.prediction.label}: {_short(ex.premise)} / {_short(ex.hypothesis)}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{title}</title>\n<style>\nhtml, body {{ margin: 0; }}\n{_style()}</style>\n</head>\n"
        f'<body class="ng">\n{_main(ex)}\n</body>\n</html>\n'
    )


def fragment(ex: Explanation) -> str:
    """The same for a notebook: styles that touch nothing around them."""
    return f'<style>\n{_style()}</style>\n<div class="ng">\n{_main(ex)}\n</div>'


def _style() -> str:
    return resources.files("neurogame.explanation").joinpath("page.css").read_text(encoding="utf-8")


def _main(ex: Explanation) -> str:
    parts = [_head(ex), _warnings(ex), _labels(ex), _sentences(ex), _words(ex), _interactions(ex), _diagnostics(ex)]
    return "<main>\n" + "\n".join(part for part in (*parts, _foot(ex)) if part) + "\n</main>"


def _text(word: str) -> str:
    """A user's text, escaped, in a direction of its own."""
    return f"<bdi>{escape(summary.printable(word))}</bdi>"


def _short(text: str, most: int = 60) -> str:
    shown = summary.printable(" ".join(text.split()))
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _head(ex: Explanation) -> str:
    said = ex.prediction
    model = escape(str(ex.diagnostics.get("model", "")))
    return (
        f'<header><p class="eyebrow">NeuroGame{" · " + model if model else ""} · method “{escape(ex.method)}”</p>'
        f"<h1>{escape(said.label.capitalize())}, with probability {said.probabilities[said.label]:.3f}</h1>"
        f'<p class="eyebrow">{escape(summary.question(ex))}.</p></header>'
    )


def _warnings(ex: Explanation) -> str:
    said = "".join(f"<li>{escape(line)}</li>" for line in summary.warnings(ex))
    return f'<ul class="warn" role="note" aria-label="Warnings">{said}</ul>' if said else ""


def _labels(ex: Explanation) -> str:
    """A bar per label."""
    rows = "".join(
        f"<li{' class=said' if name == ex.prediction.label else ''}><span>{escape(name)}</span>"
        f'<span class="track" aria-hidden="true"><i style="width:{100 * p:.1f}%"></i></span>'
        f'<span class="number">{p:.3f}</span></li>'
        for name, p in ex.prediction.probabilities.items()
    )
    return f'<section aria-label="Probabilities"><ul class="labels">{rows}</ul></section>'


def _sentences(ex: Explanation) -> str:
    """Both texts with each word on the colour of its score."""
    largest = max(map(abs, ex.scores), default=0.0) or 1.0
    silent, digits = summary.unread(ex), summary.digits(ex.scores)
    sides = []
    for side, text in zip(SIDES, (ex.premise, ex.hypothesis), strict=True):
        words = " ".join(
            _word(ex, i, largest, digits, read=i not in silent) for i, s in enumerate(ex.sides) if s == side
        )
        sides.append(
            f'<div class="side"><span>{side}</span>'
            f'<div class="text" dir="{_direction(text)}">{words or "<i>(empty)</i>"}</div></div>'
        )
    below = _legend(ex, silent=bool(silent)) + _swings(ex)
    return f"<section><h2>The pair, word by word</h2>{''.join(sides)}{below}</section>"


def _direction(text: str) -> str:
    """Of the first letter that has one; `dir="auto"` does not look into <bdi>."""
    found = (unicodedata.bidirectional(c) for c in text)
    return "rtl" if next((kind for kind in found if kind in ("L", "R", "AL")), "L") != "L" else "ltr"


def _word(ex: Explanation, i: int, largest: float, digits: int, *, read: bool) -> str:
    share, number = ex.scores[i] / largest, summary.signed(ex.scores[i], digits)
    classes = ["w", "for" if share > 0 else "against"]
    classes += ["strong"] if abs(share) >= _STRONG else []
    classes += ["swing"] if i in ex.swing else []
    hint = f"{number}{_plus_minus(ex, i, digits)}" if read else "not read by the model"
    mark = f'<sup dir="ltr">{number}</sup>' if abs(share) >= _STRONG else ""
    names = " ".join(classes) if read else "w unread"
    shade = f' style="--a:{_DEEPEST * abs(share):.3f}"' if read else ""
    label = escape(f"{summary.printable(ex.words[i])}: {hint}")
    return f'<span class="{names}"{shade} title="{label}">{_text(ex.words[i])}{mark}</span>'


def _legend(ex: Explanation, *, silent: bool) -> str:
    against, for_it = summary.poles(ex)
    marks = [("w for strong", "+", for_it), ("w against strong", "−", against)]
    marks += [("w swing", "word", "swing word")] if ex.swing else []
    marks += [("w unread", "word", "not read")] if silent else []
    said = "".join(
        f'<span><span class="{names}" style="--a:{0.35 if len(sign) == 1 else 0}">{sign}</span> {escape(text)}</span>'
        for names, sign, text in marks
    )
    return f'<div class="legend">{said}</div>'


def _swings(ex: Explanation) -> str:
    """Which words the decision hangs on."""
    if not ex.swing:
        return ""
    found = zip(ex.swing, ex.diagnostics.get("swing_to", ()), strict=False)
    said = "; ".join(f"<b>{_text(ex.words[i])}</b> ({ex.sides[i]}): {escape(to)}" for i, to in found)
    return f'<p class="swings">Without one word, all others left in place, the decision would be another — {said}.</p>'


def _words(ex: Explanation) -> str:
    """A row per word that was read, strongest first."""
    columns = {name: getattr(ex, name) for name in _COLUMNS if getattr(ex, name) is not None}
    digits = summary.digits(ex.scores)
    largest = max(map(abs, ex.scores), default=0.0) or 1.0
    rows = []
    for i in summary.ranked(ex):
        share = ex.scores[i] / largest
        swing = ' <span class="tag">swing</span>' if i in ex.swing else ""
        name = f'{_text(ex.words[i])}<span class="tag">{ex.sides[i]}</span>{swing}'
        value = f"{summary.signed(ex.scores[i], digits)}{_plus_minus(ex, i, digits)}"
        others = "".join(_cell(column[i], name) for name, column in columns.items())
        rows.append(
            f'<tr><td>{name}</td><td class="drawn">{_bar(share)}</td><td class="number">{value}</td>{others}</tr>'
        )
    score = "Shapley φ" if ex.shapley is not None else "score"
    heads = "".join(f'<th scope="col">{name}</th>' for name in (score, *(_COLUMNS[c] for c in columns)))
    heads = f'<th scope="col">word</th><th class="drawn" aria-hidden="true"></th>{heads}'
    return (
        "<section><h2>What each word did</h2>"
        f'<p class="note">{_reading(ex)}</p><div class="scroll"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _cell(value: float, name: str) -> str:
    text = f"{value:.2f}" if name in ("alpha", "gate") else summary.signed(value)
    return f'<td class="number weak">{text}</td>'


def _bar(share: float) -> str:
    side = "for" if share > 0 else "against"
    return f'<span class="bar {side}" aria-hidden="true"><i style="width:{50 * abs(share):.1f}%"></i></span>'


def _plus_minus(ex: Explanation, i: int, digits: int) -> str:
    error = summary.error_of(ex, i)
    return "" if error is None or ex.diagnostics.get("exact") else f" ± {error:.{digits}f}"


def _reading(ex: Explanation) -> str:
    """How the scores add up."""
    total, outside = ex.diagnostics.get("total"), ex.diagnostics.get("outside")
    if total is None or outside is None:
        return "Scores of the method itself."
    words = summary.signed(sum(ex.scores))
    whole = "the norm of all words together" if ex.target is None else "the logit, counted from an empty input"
    return (
        f"Fair shares: the words together hold {words} and the special tokens {summary.signed(outside)}; that is "
        f"{summary.signed(total)}, {whole}{_up_to(ex)}."
    )


def _up_to(ex: Explanation) -> str:
    gap = ex.diagnostics.get("efficiency_gap") or 0.0
    return f", up to a sampling error of {gap:.2g}" if gap >= 0.005 else ""


def _interactions(ex: Explanation) -> str:
    """The strongest pairs, then all of them."""
    if ex.interactions is None:
        return ""
    lists = []
    synergies, antagonisms = summary.pairs(ex, 5)
    digits = summary.digits([pair.value for pair in (*synergies, *antagonisms)])
    for name, found in (("Synergies", synergies), ("Antagonisms", antagonisms)):
        rows = "".join(
            f"<li><span>{_placed(ex, pair.i)} × {_placed(ex, pair.j)}</span>"
            f'<span class="number">{summary.signed(pair.value, digits)}</span></li>'
            for pair in found
        )
        lists.append(f"<div><h3>{name}</h3><ol>{rows or '<li>none above the error</li>'}</ol></div>")
    return (
        "<section><h2>Words in pairs</h2>"
        '<p class="note">J<sub>ij</sub> is what two words add together beyond what each adds alone: positive where '
        "they need each other, negative where one does the other's work.</p>"
        f'<div class="pairs">{"".join(lists)}</div>{matrix(ex)}</section>'
    )


def _placed(ex: Explanation, i: int) -> str:
    return f'{_text(ex.words[i])}<span class="tag">{ex.sides[i]}</span>'


def _diagnostics(ex: Explanation) -> str:
    """Everything the record knows about itself, folded."""
    entries = "".join(
        f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(_value(value))}</dd>"
        for name, value in ex.diagnostics.items()
        if name not in ("shapley_se", "banzhaf_se", "unread")
    )
    said = escape(" · ".join(summary.footing(ex)))
    return (
        f'<section><h2>How far to trust it</h2><p class="note">{said}</p>'
        f"<details><summary>All diagnostics</summary><dl>{entries}</dl></details></section>"
    )


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(_value(entry) for entry in value) or "none"
    return "–" if value is None else summary.printable(str(value))


def _foot(ex: Explanation) -> str:
    layer = (
        " α is the probability that attention keeps a word, the field what pulls it there, λ how much of the field is "
        "Shapley rather than Banzhaf."
        if ex.field is not None
        else " α are the weights of the pooling."
        if ex.alpha is not None
        else ""
    )
    return (
        "<footer><p>Shapley φ averages what a word adds over all orders in which words can arrive; Banzhaf β over all "
        f"groups it can join.{layer}</p></footer>"
    )
