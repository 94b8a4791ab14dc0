"""What the layer itself says of each word, in reading order: field J_i, gate λ_i, α_i, and how the spins settled.

Facts of the forward pass, the same for every method. HTML and inline SVG; a part that a model does not have is left
out, and the text says so.
"""

from neurogame.explanation import summary
from neurogame.explanation.record import Explanation
from neurogame.explanation.views.markup import text
from neurogame.explanation.views.trajectory import trajectory

_ROWS = 18  # of a table that is open from the start


def layer(ex: Explanation) -> str:
    """A section; nothing for a model without weights of words."""
    if ex.alpha is None:
        return ""
    if ex.diagnostics.get("grounded"):
        said = (
            f"α is how far a word belongs to the reasons for {text(str(ex.target))}: its marginal under exp(g/γ), "
            f"γ = {ex.diagnostics['gamma'][0]:g}, where g is the logit as fields φ and couplings J of the words."
        )
        return f'<section><h2>Reasons as spins</h2><p class="note">{said}</p>{_table(ex)}</section>'
    said = (
        "α is the probability that attention keeps a word, the field J what pulls it there, the gate λ how much of "
        "the field is Shapley rather than Banzhaf; mean over heads."
        if ex.field is not None
        else "α are the weights of the pooling, mean over heads. This head has no field, no gate and no spins."
    )
    return f'<section><h2>Inside the layer</h2><p class="note">{said}</p>{_table(ex)}{_settling(ex)}</section>'


def _table(ex: Explanation) -> str:
    columns = [
        (name, column) for name, column in (("field J", ex.field), ("gate λ", ex.gate), ("α", ex.alpha)) if column
    ]
    heads = "".join(f'<th scope="col">{name}</th>' for name, _ in columns)
    silent = summary.unread(ex)
    largest = max(map(abs, ex.field or ()), default=0.0) or 1.0
    most = 1.0 if ex.field is not None else max(ex.alpha or ()) or 1.0  # weights of a control need not reach 1
    rows, last = [], ""
    for i, side in enumerate(ex.sides):
        if i in silent:
            continue
        if side != last:
            rows.append(f'<tr><th class="of" scope="colgroup" colspan="{1 + len(columns)}">{side}</th></tr>')
            last = side
        cells = "".join(_cell(name, column[i], largest if name == "field J" else most) for name, column in columns)
        rows.append(f"<tr><td>{text(ex.words[i], 40)}</td>{cells}</tr>")
    opened = " open" if len(rows) <= _ROWS else ""
    return (
        f'<details{opened}><summary>Word by word</summary><div class="scroll"><table class="layer"><thead><tr>'
        f'<th scope="col">word</th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div></details>'
    )


def _cell(name: str, value: float, largest: float) -> str:
    """A number over a bar: signed for the field, from 0 for the others."""
    if name == "field J":
        number, width = summary.signed(value), 50 * abs(value) / largest
        kind = "bar for" if value > 0 else "bar against"
    else:
        number, width, kind = f"{value:.2f}", 100 * value / largest, "bar part"
    bar = f'<span class="{kind}" aria-hidden="true"><i style="width:{width:.1f}%"></i></span>'
    return f'<td><span class="number">{number}</span>{bar}</td>'


def _settling(ex: Explanation) -> str:
    """The paths of α, with whether they reached their end."""
    if ex.field is None:
        return ""
    drawn, found = trajectory(ex), ex.diagnostics
    if not drawn:
        return '<p class="note">How the spins settled is not in this record: it has no trajectory.</p>'
    end = ""
    if found.get("iterations") is not None:
        done = "converged" if found.get("converged") else "did not converge"
        end = f" The slowest head {done} after {found['iterations']} updates, ρ(J)/γ = {found['spectral_radius']:.2f}."
    return f'<h3>How the spins settled</h3><p class="note">From ½, undecided, to the fixed point.{end}</p>{drawn}'
