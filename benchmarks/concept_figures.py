"""The figures of docs/concepts, drawn from the package itself, and the numbers that the pages quote.

    python benchmarks/concept_figures.py                # seconds; docs/figures/concept-*.svg, results/concepts.json

The game has four words with vectors in the plane, made up so that everything can be seen; the mean-field errors are of
random systems; the last figure is of the embedded model.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from common import Clock, progress, save
from torch import Tensor

from neurogame import exact, ising, load
from neurogame._common.extras import need
from neurogame.evaluation.figures import COLOURS
from neurogame.values import l1_normalise

FIGURES = Path(__file__).resolve().parent.parent / "docs" / "figures"
WORDS = ("not", "very", "good", "film")
VECTORS = torch.tensor([[-0.9, 0.6], [0.5, 0.1], [1.2, 0.2], [0.3, 0.9]], dtype=torch.float64)
BACKGROUND, RADIUS = 1.0, 0.25  # μ, and ρ(J) after scaling
GAMMAS = torch.logspace(-1.0, 0.7, 60, dtype=torch.float64)
PAIR = ("A man is asleep on a bench.", "Nobody is asleep.")
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0)
SYSTEMS, SPINS, STEPS = 200, 10, 100
_GREY = "0.55"


def main() -> None:
    """Draw everything."""
    clock, table = Clock(), exact.value_table(VECTORS)
    phi, beta, J = exact.shapley(table), exact.banzhaf(table), exact.interactions(table)
    _game(table)
    _values(table, phi, beta, J)
    field, coupling = spin_system(phi, beta, J)
    _temperature(field, coupling)
    _two_answers()
    errors = mean_field_errors()
    _errors(errors)
    why = load().explain(*PAIR, contrast="neutral")
    for kind in ("sentence", "network"):
        why.figure(kind, FIGURES / f"concept-{kind}.svg")
    save(
        "concepts",
        clock(),
        words=WORDS,
        vectors=VECTORS.tolist(),
        shapley=phi.tolist(),
        banzhaf=beta.tolist(),
        coupling=J.tolist(),
        mean_field={"systems": SYSTEMS, "spins": SPINS, "steps": STEPS, "rows": errors},
    )


def spin_system(phi: Tensor, beta: Tensor, J: Tensor) -> tuple[Tensor, Tensor]:
    """Fields n·(½φ + ½β) − μ of the normalised values, couplings scaled to ρ(J) = RADIUS: as the layer makes them."""
    field = len(WORDS) * (l1_normalise(phi) + l1_normalise(beta)) / 2 - BACKGROUND
    return field, J * RADIUS / torch.linalg.eigvalsh(J).abs().max()


def mean_field_errors() -> list[dict[str, float]]:
    """Mean |α − exact| of random systems at each ρ(J)/γ, and how many of them converged."""
    draw = torch.Generator().manual_seed(0)
    field = torch.randn(SYSTEMS, SPINS, generator=draw, dtype=torch.float64)
    J = torch.randn(SYSTEMS, SPINS, SPINS, generator=draw, dtype=torch.float64).triu(1)
    J = J + J.mT
    J = J / torch.linalg.eigvalsh(J).abs().amax(-1)[:, None, None]
    rows = []
    for ratio in RATIOS:
        truth = exact.marginals(field, ratio * J, 1.0)
        row: dict[str, float] = {"ratio": ratio}
        for method in ("mean_field", "tap"):
            state = ising.solve(field, ratio * J, 1.0, method=method, max_iter=STEPS)
            row[method] = float((state.alpha - truth).abs().mean())
            row[f"{method}_converged"] = float(state.converged.double().mean())
        rows.append(row)
    return rows


# --- figures ------------------------------------------------------------------------------------------------------


def _canvas(width: float, height: float, panels: int) -> tuple[Any, Sequence[Any]]:
    figure = need("matplotlib.figure", "bench").Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _written(figure: Any, name: str) -> None:
    path = FIGURES / f"concept-{name}.svg"
    with need("matplotlib", "bench").rc_context({"svg.fonttype": "path", "svg.hashsalt": "neurogame"}):
        figure.savefig(path, metadata={"Date": None})
    progress(f"wrote {path.name}, {path.stat().st_size // 1024} kB")


def _game(table: Tensor) -> None:
    figure, (plane, sizes) = _canvas(8.6, 3.6, 2)
    for word, (x, y), colour in zip(WORDS, VECTORS.tolist(), COLOURS, strict=False):
        plane.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 2})
        plane.text(x * 1.1, y * 1.1, word, color=colour, ha="center", va="bottom", weight="bold")
    total = VECTORS.sum(0).tolist()
    plane.annotate("", total, (0, 0), arrowprops={"arrowstyle": "-|>", "color": _GREY, "linestyle": "--"})
    plane.text(*total, " all four", color=_GREY, va="bottom", ha="center")
    plane.set(xlim=(-1.3, 1.6), ylim=(-0.3, 2.1), aspect="equal", title="the words' vectors $V_i$")
    plane.spines[["left", "bottom"]].set_position("zero")
    plane.set_xticks([])
    plane.set_yticks([])
    members = exact.all_coalitions(len(WORDS))
    for index, value in enumerate(table.tolist()):
        size, inside = int(members[index].sum()), [w for w, m in zip(WORDS, members[index], strict=True) if m]
        sizes.plot(size, value, "o", markersize=4, color=COLOURS[0])
        sizes.text(
            size + 0.07,
            value + (0.025 if inside == ["not", "good"] else 0.0),
            "+".join(inside) or "nobody",
            fontsize=6.5,
            va="center",
            color="0.25",
        )
    sizes.set(xlabel="words in the coalition C", ylabel="v(C) = ‖Σ $V_i$‖", title="what all 16 coalitions are worth")
    sizes.set(xlim=(-0.2, 4.9), xticks=range(5))
    _written(figure, "game")


def _values(table: Tensor, phi: Tensor, beta: Tensor, J: Tensor) -> None:
    figure, (dots, matrix) = _canvas(8.6, 3.4, 2)
    members, bits = exact.all_coalitions(len(WORDS)), 1 << torch.arange(len(WORDS))
    for i in range(len(WORDS)):
        without = (~members[:, i]).nonzero().flatten()
        delta = table[without + bits[i]] - table[without]
        sizes = members[without].sum(-1)
        dots.scatter(i + (sizes - 1.5) * 0.13, delta, s=14, color=COLOURS[i], alpha=0.7, linewidth=0)
    for at, values, colour, name in ((-0.3, phi, "black", "Shapley φ"), (0.3, beta, _GREY, "Banzhaf β")):
        places = [i + at for i in range(len(WORDS))]
        dots.plot(
            places, values, linestyle="none", marker="_", markersize=12, markeredgewidth=2, color=colour, label=name
        )
    dots.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    dots.set_xticks(range(len(WORDS)), WORDS)
    dots.set(
        ylabel="v(C∪i) − v(C)", title="what a word adds to each coalition without it\n(left to right: 0 to 3 others)"
    )
    dots.legend(frameon=False, fontsize=8)
    largest = float(J.abs().max())
    image = matrix.imshow(J, cmap="RdBu", vmin=-largest, vmax=largest)
    for i in range(len(WORDS)):
        for j in range(len(WORDS)):
            ink = "white" if abs(J[i, j]) > largest / 2 else "black"
            matrix.text(j, i, "" if i == j else f"{J[i, j]:+.2f}", ha="center", va="center", fontsize=8, color=ink)
    matrix.set_xticks(range(len(WORDS)), WORDS)
    matrix.set_yticks(range(len(WORDS)), WORDS)
    matrix.set_title("pair interactions $J_{ij}$")
    figure.colorbar(image, ax=matrix, shrink=0.8)
    _written(figure, "values")


def _temperature(field: Tensor, coupling: Tensor) -> None:
    figure, (axes,) = _canvas(7.0, 3.6, 1)
    solved = ising.solve(field, coupling, GAMMAS, damping=1.0, max_iter=500).alpha
    truth = torch.stack([exact.marginals(field, coupling, float(gamma)) for gamma in GAMMAS])
    for i, word in enumerate(WORDS):
        axes.semilogx(GAMMAS, solved[:, i], color=COLOURS[i], linewidth=2, label=word)
        axes.semilogx(GAMMAS, truth[:, i], color=COLOURS[i], linewidth=1, linestyle="--")
    axes.axvspan(float(GAMMAS[0]), RADIUS, color="0.93")
    axes.text(RADIUS, 0.3, "ρ(J)/γ > 1 ", ha="right", color="0.4", fontsize=8)
    axes.axhline(0.5, color="0.8", linewidth=0.8)
    axes.set(xlabel="temperature γ", ylabel="attention α = P(on)", ylim=(-0.02, 1.02), xlim=(GAMMAS[0], GAMMAS[-1]))
    axes.set_title("lines: mean field, dashes: exact marginals", fontsize=10)
    axes.set_xticks([0.1, 0.2, 0.5, 1, 2, 5], ["0.1", "0.2", "0.5", "1", "2", "5"])
    axes.set_xticks([], minor=True)
    axes.legend(frameon=False, loc="center left")
    _written(figure, "temperature")


def _two_answers() -> None:
    """Two tokens that pull on each other, J_12 = 1, with a small field: free energy along s_1 = s_2 = m."""
    figure, axes = _canvas(8.6, 3.0, 3)
    m = torch.linspace(-0.999, 0.999, 401, dtype=torch.float64)
    up = (1 + m) / 2
    entropy = -2 * (torch.special.xlogy(up, up) + torch.special.xlogy(1 - up, 1 - up))
    field, coupling = torch.full((2,), 0.05, dtype=torch.float64), torch.tensor([[0.0, 1.0], [1.0, 0.0]]).double()
    energy = ising.energy(m[:, None].expand(-1, 2), field, coupling)
    for panel, gamma in zip(axes, (2.0, 1.0, 2 / 3), strict=True):
        panel.plot(m, energy - gamma * entropy, color=COLOURS[0])
        state = ising.solve(field, coupling, gamma, damping=1.0, max_iter=500)
        spin = float(state.spins[0])
        panel.plot(spin, float(state.free_energy), "o", color=COLOURS[1], markersize=7)
        panel.set(title=f"ρ(J)/γ = {1 / gamma:.3g}", xlabel="spin of both")
    axes[0].set_ylabel("free energy")
    axes[2].annotate(
        "found from s = 0", (0.97, 0.93), xycoords="axes fraction", ha="right", fontsize=8, color=COLOURS[1]
    )
    _written(figure, "two-answers")


def _errors(rows: list[dict[str, float]]) -> None:
    figure, (axes, share) = _canvas(8.6, 3.2, 2)
    ratios = [row["ratio"] for row in rows]
    for method, name, colour in (("mean_field", "mean field", COLOURS[0]), ("tap", "TAP", COLOURS[1])):
        axes.semilogy(ratios, [row[method] for row in rows], "o-", markersize=4, color=colour, label=name)
        share.plot(ratios, [100 * row[f"{method}_converged"] for row in rows], "o-", markersize=4, color=colour)
    axes.set(xlabel="ρ(J)/γ", ylabel="mean |α − exact|")
    share.set(xlabel="ρ(J)/γ", ylabel=f"% converged in {STEPS} steps", ylim=(-3, 103))
    axes.legend(frameon=False)
    for panel in (axes, share):
        panel.axvline(1.0, color="0.8", linewidth=0.8)
    _written(figure, "mean-field")


if __name__ == "__main__":
    main()
