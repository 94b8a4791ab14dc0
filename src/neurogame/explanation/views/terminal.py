"""An explanation in the terminal: bars, the sentences in colour, the strongest words and pairs, how far to trust it.

Plain words first: values of the games, their errors and how they were computed are `details`. Without colours (a file,
a pipe, NO_COLOR) the strong words carry their signed number instead. A word never becomes markup, and its control
characters are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from neurogame._common.printing import cut, printable
from neurogame.explanation import summary
from neurogame.explanation.views.drawing import DRAWING

if TYPE_CHECKING:
    from neurogame.explanation.record import Explanation

FOR, AGAINST = (43, 108, 176), (192, 86, 33)  # blue and orange: distinguishable with any colour vision
_ROWS = 8  # words in the table
_DEEP = 0.9  # of the largest score
_NARROW, _WIDE = 64, 96  # columns: below, no columns of the layer; from there on, sides in full


@dataclass(frozen=True)
class View:
    """What `rich` prints: knows the width and the colours when it is asked."""

    explanation: Explanation
    details: bool = False  # whether values of the games, errors and diagnostics are printed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The parts, without spaces at the ends of lines and without two empty lines in a row."""
        parts = Group(*self._parts(console, options))
        empty = True
        for line in console.render_lines(parts, options.reset_height(), pad=False):
            segments = _strip(line)
            if segments or not empty:
                yield from (*segments, Segment.line())
            empty = not segments

    def _parts(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        ex, narrow = self.explanation, options.max_width < _NARROW
        colour = console.color_system is not None and not console.no_color
        bar = "#" if options.ascii_only else "█"
        if ex.target is not None:
            yield Text(printable(ex.sentence), style="bold")
            yield Text()
        yield _probabilities(ex, options.max_width, bar)
        yield Text()
        yield from _sentences(ex, colour=colour)
        yield Text()
        yield _legend(ex, colour=colour, details=self.details)
        yield _table(ex, options.max_width, bar, narrow=narrow, details=self.details)
        yield Text()
        yield _remarks(ex, narrow=narrow, details=self.details)
        yield Text()
        yield Text(" · ".join([f"method {ex.method}", *summary.footing(ex, details=self.details)]), style="dim")
        for warning in summary.warnings(ex):
            yield Text(f"! {warning}", style="yellow")


def _strip(line: list[Segment]) -> list[Segment]:
    """A line up to its last visible character; a space with a background is visible."""
    segments = list(line)
    while segments and not (segments[-1].style and segments[-1].style.bgcolor):
        text, style, _ = segments.pop()
        if text.rstrip():
            return [*segments, Segment(text.rstrip(), style)]
    return segments


def _probabilities(ex: Explanation, width: int, bar: str) -> Table:
    """One bar per label, the predicted one in bold."""
    rows = summary.bars(ex)
    room = max(6, min(40, width - max(len(name) for name, *_ in rows) - 10))
    grid = Table.grid(padding=(0, 1))
    for name, p, number, predicted in rows:
        style = "bold" if predicted else "dim"
        length = max(1, round(p * room)) if p > 0.5 / room else 0
        grid.add_row(Text(name, style), Text(bar * length + " " * (room - length), style), Text(f"{number:.3f}", style))
    return grid


def _sentences(ex: Explanation, *, colour: bool) -> Iterator[RenderableType]:
    """Premise and hypothesis, or the text, each word coloured by its signed score, or followed by it."""
    shares = summary.shares(ex)
    for side, _ in ex.parts:
        words = [
            _word(ex, run[0], shares[run[0]], colour=colour)
            if len(run) == 1
            else Text(f"[… {len(run)} words not read …]", style="dim")
            for run in summary.passages(ex, side)
        ]
        yield Text(side, style="dim")
        yield Padding(Text(" ").join(words) if words else Text("(empty)", style="dim"), (0, 0, 0, 2))


def _word(ex: Explanation, i: int, share: float, *, colour: bool) -> Text:
    silent = i in summary.unread(ex)
    style = _style(share, swings=i in ex.swing, silent=silent) if colour else ""
    before, core, after = ex.words[i].partition(summary.name(ex, i))  # punctuation has no colour of its own
    word = Text(cut(before)) + Text(cut(core), style) + Text(cut(after))
    if not colour and (silent or abs(share) >= DRAWING.weak):
        word.append("(not read)" if silent else f"({summary.score(ex, i)})")
    return word


def _legend(ex: Explanation, *, colour: bool, details: bool) -> Text:
    """What the numbers are, and which colour is which sign."""
    legend = Text(f"{summary.question(ex, details=details)}:", style="bold")
    if colour:
        against, for_it = summary.poles(ex)
        legend.append("\n").append(" + ", _style(1.0, swings=False, silent=False)).append(f" {for_it}  ", "dim")
        legend.append(" − ", _style(-1.0, swings=False, silent=False)).append(f" {against}", "dim")
    return legend


def _style(share: float, *, swings: bool, silent: bool) -> Style:
    """Background from nothing to full blue or orange; a swing word is underlined, one not read is struck through."""
    if silent:
        return Style(dim=True, strike=True)
    if abs(share) < DRAWING.weak:
        return Style(underline=swings)
    red, green, blue = (round(255 + (c - 255) * (0.25 + 0.75 * abs(share))) for c in (FOR if share > 0 else AGAINST))
    text = "#ffffff" if share > _DEEP else "#000000"  # white can be read on the deepest blue only
    return Style(color=text, bgcolor=f"rgb({red},{green},{blue})", underline=swings, bold=swings)


def _table(ex: Explanation, width: int, bar: str, *, narrow: bool, details: bool) -> Table:
    """The strongest words: score and a bar; in detail with its standard error and what the layer says of them."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    widest = max(8, width // (4 if narrow else 5))
    table.add_column(summary.unit(ex), overflow="ellipsis", no_wrap=True, max_width=widest)
    if ex.text is None:
        table.add_column("in", no_wrap=True)
    errors = details and any(summary.plus_minus(ex, i) for i in range(len(ex.words)))
    table.add_column("score ± error" if errors else "score", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    layer = {} if narrow or not details else {"Banzhaf": ex.banzhaf, "α": ex.alpha, "field": ex.field}
    extras = {name: column for name, column in layer.items() if column is not None}
    for name in extras:
        table.add_column(name, justify="right", no_wrap=True)
    digits = {"Banzhaf": summary.digits(ex.scores), "field": 2}
    room, shares = max(4, min(12, width - (52 if narrow else 76))), summary.shares(ex)
    for i in summary.strongest_words(ex, _ROWS):
        cells = [Text(cut(summary.name(ex, i)), "bold" if i in ex.swing else "")]
        if ex.text is None:
            cells.append(Text(ex.sides[i][0].upper() if width < _WIDE else ex.sides[i]))
        cells.append(Text(summary.score(ex, i) + (summary.plus_minus(ex, i) if errors else "")))
        colour = "rgb({},{},{})".format(*(FOR if shares[i] > 0 else AGAINST))
        cells.append(Text(bar * max(1, round(abs(shares[i]) * room)), colour))
        for name, column in extras.items():
            cells.append(Text(f"{column[i]:.2f}" if name == "α" else summary.signed(column[i], digits[name])))
        table.add_row(*cells)
    return table


def _remarks(ex: Explanation, *, narrow: bool, details: bool) -> RenderableType:
    """Swing words, rationale, pairs: a line each, or where there is no room a line for each."""
    pairs = summary.synergies_and_antagonisms(ex, 3)
    digits = summary.digits([pair.value for sign in pairs for pair in sign])
    word = partial(summary.side_name, ex)
    lines = {"swing words": [f"{word(i)} (without it: {label})" for i, label in summary.swings(ex)]}
    if ex.rationale is not None:
        lines["rationale"] = [" ".join(map(word, ex.rationale))]
    for name, sign in zip(("synergies", "antagonisms") if details else ("together", "either"), pairs, strict=True):
        numbers = [f" {summary.signed(pair.value, digits)}" if details else "" for pair in sign]
        lines[name] = [f"{word(i)} × {word(j)}{number}" for (i, j, _), number in zip(sign, numbers, strict=True)]
    shown = {name: entries for name, entries in lines.items() if entries}
    if narrow:
        return Group(*(line for name in shown for line in (Text(name, "bold"), *(Text(f"  {e}") for e in shown[name]))))
    grid = Table.grid(padding=(0, 2))
    for name in shown:
        grid.add_row(Text(name, style="bold"), Text(", ".join(shown[name])))
    return grid
