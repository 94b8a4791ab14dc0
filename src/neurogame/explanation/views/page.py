"""An explanation as one HTML file that needs nothing else: no script, no network, no fonts; light, dark, on a phone.

All text of a user goes through `markup.text`, once. Signs are never in colour alone: numbers, + and −, solid and dashed
lines say the same. `matrix`, `network` and `trajectory` draw inline SVG.
"""

from html import escape
from typing import Any

from neurogame.data.words import SIDES
from neurogame.explanation import summary
from neurogame.explanation.record import Explanation
from neurogame.explanation.views.layer import layer
from neurogame.explanation.views.markup import direction, document, placed, short, style, text
from neurogame.explanation.views.matrix import matrix
from neurogame.explanation.views.network import network
from neurogame.printing import cut, printable

_STRONG = 0.3  # of the largest score: a word this strong shows its number
_DEEPEST = 0.5  # opacity of the strongest word: its text must stay readable
_ROWS = 12  # words in a table, the rest is folded
_LISTED = 24  # entries of a list
_UNLISTED = (
    "shapley_se",
    "banzhaf_se",
    "unread",
    "trajectory",
    "without",
    "rationale_alone",
)  # one number per word, or drawn


def page(ex: Explanation, *, nav: str = "") -> str:
    """The whole document; `nav` is HTML above it, for pages among others."""
    title = f"{ex.prediction.label}: {short(ex.premise)} / {short(ex.hypothesis)}"
    return document(title, nav + _main(ex))


def fragment(ex: Explanation) -> str:
    """The same for a notebook: styles that touch nothing around them."""
    return f'<style>\n{style()}</style>\n<div class="ng">\n{_main(ex)}\n</div>'


def _main(ex: Explanation) -> str:
    parts = (_head, _warnings, _labels, _sentences, _words, _interactions, layer, _diagnostics, _foot)
    return "<main>\n" + "\n".join(filter(None, (part(ex) for part in parts))) + "\n</main>"


def _head(ex: Explanation) -> str:
    said = ex.prediction
    model = escape(str(ex.diagnostics.get("model", "")))
    return (
        f'<header><p class="eyebrow">NeuroGame{" · " + model if model else ""} · method “{escape(ex.method)}”</p>'
        f"<h1>{escape(said.label.capitalize())}, with probability {said.probabilities[said.label]:.3f}</h1>"
        f"{_sentence(ex)}"
        f'<p class="eyebrow">{escape(summary.question(ex))}.</p></header>'
    )


def _sentence(ex: Explanation) -> str:
    """The reasons in plain words; nothing for a method that speaks of no label."""
    return "" if ex.target is None else f'<p class="reasons">{escape(printable(ex.sentence))}</p>'


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
    below = _legend(ex) + _swings(ex) + _rationale(ex)
    return f"<section><h2>The pair, word by word</h2>{heat_map(ex)}{below}</section>"


def heat_map(ex: Explanation, *, numbers: bool = True) -> str:
    """Both texts with each word on the colour of its score, the strong ones with their number."""
    largest = max(map(abs, ex.scores), default=0.0) or 1.0
    digits = summary.digits(ex.scores)
    sides = []
    for side, sentence in zip(SIDES, (ex.premise, ex.hypothesis), strict=True):
        words = " ".join(
            _word(ex, run[0], largest, digits, numbers=numbers)
            if len(run) == 1
            else f'<span class="tag">… {len(run)} words not read …</span>'
            for run in summary.passages(ex, side)
        )
        sides.append(
            f'<div class="side"><span>{side}</span>'
            f'<div class="text" dir="{direction(sentence)}">{words or "<i>(empty)</i>"}</div></div>'
        )
    return "".join(sides)


def _word(ex: Explanation, i: int, largest: float, digits: int, *, numbers: bool) -> str:
    word = text(ex.words[i], 60)
    if i in summary.unread(ex):
        return f'<span class="w unread" title="not read by the model">{word}</span>'
    share, number = ex.scores[i] / largest, summary.signed(ex.scores[i], digits)
    strong = abs(share) >= _STRONG
    names = ["w", "for" if share > 0 else "against", *["strong"] * strong, *["swing"] * (i in ex.swing)]
    mark = f'<sup dir="ltr">{number}</sup>' if strong and numbers else ""
    title = escape(f"{number}{_plus_minus(ex, i, digits)}")
    return (
        f'<span class="{" ".join(names)}" style="--a:{_DEEPEST * abs(share):.2f}" title="{title}">{word}{mark}</span>'
    )


def _legend(ex: Explanation) -> str:
    against, for_it = summary.poles(ex)
    marks = [("w for strong", "+", for_it), ("w against strong", "−", against)]
    marks += [("w swing", "word", "swing word")] if ex.swing else []
    marks += [("w unread", "word", "not read")] if summary.unread(ex) else []
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
    said = "; ".join(f"<b>{text(ex.words[i], 40)}</b> ({ex.sides[i]}): {escape(to)}" for i, to in found)
    return f'<p class="swings">Without one word, all others left in place, the decision would be another — {said}.</p>'


def _rationale(ex: Explanation) -> str:
    """The words that are enough."""
    if ex.rationale is None:
        return ""
    words = " ".join(f"<b>{text(ex.words[i], 40)}</b>" for i in ex.rationale)
    tried = "tried on the model" if ex.diagnostics.get("checked") else "not tried on the model"
    return f'<p class="swings">These words alone keep the answer ({tried}): {words}.</p>'


def _words(ex: Explanation) -> str:
    """A row per word that was read, strongest first."""
    digits = summary.digits(ex.scores)
    largest = max(map(abs, ex.scores), default=0.0) or 1.0
    rows = []
    for i in summary.ranked(ex):
        swing = ' <span class="tag">swing</span>' if i in ex.swing else ""
        value = f"{summary.signed(ex.scores[i], digits)}{_plus_minus(ex, i, digits)}"
        other = "" if ex.banzhaf is None else f'<td class="number weak">{summary.signed(ex.banzhaf[i], digits)}</td>'
        rows.append(
            f'<tr><td>{placed(ex, i)}{swing}</td><td class="drawn">{_bar(ex.scores[i] / largest)}</td>'
            f'<td class="number">{value}</td>{other}</tr>'
        )
    names = ["Shapley φ" if ex.shapley is not None else "score"] + ["Banzhaf β"] * (ex.banzhaf is not None)
    heads = "".join(f'<th scope="col">{name}</th>' for name in names)
    heads = f'<tr><th scope="col">word</th><th class="drawn" aria-hidden="true"></th>{heads}</tr>'
    # a last row or two are not worth a fold
    first, rest = (rows[:_ROWS], rows[_ROWS:]) if len(rows) > _ROWS + 3 else (rows, [])
    folded = f"<details><summary>{len(rest)} weaker words</summary>{_table(heads, rest)}</details>" if rest else ""
    note = f'<p class="note">{_reading(ex)}</p>'
    return f"<section><h2>What each word did</h2>{note}{_table(heads, first)}{folded}</section>"


def _table(heads: str, rows: list[str]) -> str:
    return (
        f'<div class="scroll"><table class="words"><thead>{heads}</thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


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
        return f"{escape(summary.question(ex))}, as the method “{escape(ex.method)}” has it."
    words, faded = summary.signed(sum(ex.scores)), ex.diagnostics.get("faded")
    if faded is not None:
        return (
            f"Fair shares: the words together hold {words}, what the logit gains from {summary.percent(faded)} of each "
            f"word to all of it{_up_to(ex)}."
        )
    whole = "the norm of all words together" if ex.target is None else "the logit, counted from an empty input"
    return (
        f"Fair shares: the words together hold {words} and the special tokens {summary.signed(outside)}; that is "
        f"{summary.signed(total)}, {whole}{_up_to(ex)}."
    )


def _up_to(ex: Explanation) -> str:
    gap = ex.diagnostics.get("efficiency_gap") or 0.0
    return f", up to an error of {gap:.2g}" if gap >= 0.005 else ""


def _interactions(ex: Explanation) -> str:
    """The strongest pairs, then all of them."""
    if ex.interactions is None:
        return ""
    lists = []
    synergies, antagonisms = summary.pairs(ex, 5)
    digits = summary.digits([pair.value for pair in (*synergies, *antagonisms)])
    for name, found in (("Synergies", synergies), ("Antagonisms", antagonisms)):
        rows = "".join(
            f"<li><span>{placed(ex, pair.i)} × {placed(ex, pair.j)}</span>"
            f'<span class="number">{summary.signed(pair.value, digits)}</span></li>'
            for pair in found
        )
        lists.append(f"<div><h3>{name}</h3><ol>{rows or '<li>none above the error</li>'}</ol></div>")
    return (
        "<section><h2>Words in pairs</h2>"
        '<p class="note">J<sub>ij</sub> is what two words add together beyond what each adds alone: positive where '
        "they need each other, negative where one does the other's work.</p>"
        f'<div class="pairs">{"".join(lists)}</div><div class="views">{network(ex)}{matrix(ex)}</div></section>'
    )


def _diagnostics(ex: Explanation) -> str:
    """Everything the record knows about itself, folded."""
    entries = "".join(
        f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(_value(value))}</dd>"
        for name, value in ex.diagnostics.items()
        if name not in _UNLISTED
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
    if isinstance(value, list | tuple):
        rest = f" … and {len(value) - _LISTED} more" if len(value) > _LISTED else ""
        return ", ".join(_value(entry) for entry in value[:_LISTED]) + rest or "none"
    return "–" if value is None else cut(str(value), 200)


def _foot(ex: Explanation) -> str:
    if ex.shapley is None:
        return ""
    if ex.diagnostics.get("faded") is not None:
        return (
            "<footer><p>Shapley φ adds up what a little more of a word is worth while all words come in together; "
            "Banzhaf β is what it is worth halfway.</p></footer>"
        )
    return (
        "<footer><p>Shapley φ averages what a word adds over all orders in which words can arrive; Banzhaf β over all "
        "groups it can join.</p></footer>"
    )
