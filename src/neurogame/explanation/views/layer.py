"""What the layer itself says of each word, in reading order: field J_i, gate λ_i, α_i, and how the spins settled.

Facts of the forward pass, the same for every method. A part that a model does not have is left out, and the text says
so.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from neurogame.explanation import summary
from neurogame.explanation.views.markup import text
from neurogame.explanation.views.trajectory import trajectory

if TYPE_CHECKING:
    from neurogame.explanation.record import Explanation

_ROWS = 18  # of a table that is open from the start


def layer(ex: Explanation) -> dict[str, Any] | None:
    """The section of a page; None for a model without weights of words."""
    if ex.alpha is None:
        return None
    given = {"field J": ex.field, "gate λ": ex.gate, "α": ex.alpha}
    columns = {name: column for name, column in given.items() if column}
    silent = summary.unread(ex)
    largest = max(map(abs, ex.field or ()), default=0.0) or 1.0
    most = 1.0 if ex.field is not None else max(ex.alpha) or 1.0  # weights of a control need not reach 1
    read = [i for i in range(len(ex.words)) if i not in silent]
    sides = [
        (
            side,
            [
                {"word": summary.name(ex, i), "cells": [_cell(n, c[i], largest, most) for n, c in columns.items()]}
                for i in run
            ],
        )
        for side, run in groupby(read, lambda i: ex.sides[i])
    ]
    title, note = _heading(ex)
    return {
        "title": title,
        "note": note,
        "columns": list(columns),
        "sides": sides,
        "open": len(read) + len(sides) <= _ROWS,
        "spins": ex.field is not None and not ex.diagnostics.get("grounded"),
        "trajectory": trajectory(ex),
        "end": _end(ex),
    }


def _heading(ex: Explanation) -> tuple[str, str]:
    if ex.diagnostics.get("grounded"):
        note = Markup(
            "α is how far a word belongs to the reasons for {}: 1 surely, 0 surely not, ½ neither. It is the word's "
            "marginal under exp(g/γ), γ = {:g}, where g is the logit as fields φ and couplings J of the words."
        )
        return "Reasons as spins", note.format(text(str(ex.target)), ex.diagnostics["gamma"][0])
    if ex.field is None:
        return "Inside the layer", (
            "α are the weights of the pooling, mean over heads. This head has no field, no gate and no spins."
        )
    return "Inside the layer", (
        "α is the probability that attention keeps a word, the field J what pulls it there, the gate λ how much of "
        "the field is Shapley rather than Banzhaf; mean over heads."
    )


def _cell(name: str, value: float, largest: float, most: float) -> dict[str, Any]:
    """A number over a bar: signed for the field, from 0 for the others."""
    if name != "field J":
        return {"number": f"{value:.2f}", "width": 100 * value / most, "kind": "part"}
    return {
        "number": summary.signed(value),
        "width": 50 * abs(value) / largest,
        "kind": "for" if value > 0 else "against",
    }


def _end(ex: Explanation) -> str:
    """Whether the paths of α reached their end."""
    facts = ex.diagnostics
    if facts.get("iterations") is None:
        return ""
    done = "converged" if facts.get("converged") else "did not converge"
    return f"The slowest head {done} after {facts['iterations']} updates, ρ(J)/γ = {facts['spectral_radius']:.2f}."
