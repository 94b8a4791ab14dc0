"""What heads of NeuroGame self-attention do with a sentence: α of every query, J, and how far to trust mean field.

    python benchmarks/self_attention_heads.py      # a minute; results/self_attention_heads.json and a figure

The network is the one of `benchmarks/self_attention.py` on the toy language with couplings, seed 0, trained once more.
"""

from pathlib import Path
from typing import Any

import torch
from common import Clock, progress, save
from self_attention import TASKS, Block, Job, Network, texts, words
from torch import Tensor

from neurogame import QueryGames, exact
from neurogame.extras import need
from neurogame.writing import save_figure

FIGURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "concept-self-attention.svg"
PAIR = ("The dog did not chase the cat.", "The cat was chased by the dog.")
UPDATES = (1, 2, 3, 4, 6, 8, 12, 16)
SENTENCES = 100  # of the dev pairs, for convergence


def encoded(pair: tuple[str, str], number: dict[str, int]) -> tuple[list[str], Tensor]:
    """Words and ids of a pair as the network reads it."""
    left, right = (words(text, 24) for text in pair)
    named = ["·", *left, "|", *right]
    ids = [1, *(number[w] for w in left), 2, *(number[w] for w in right)]
    return named, torch.tensor([[[i, 4 + (k > len(left))] for k, i in enumerate(ids)]])


@torch.no_grad()
def games(network: Network, ids: Tensor) -> list[QueryGames]:
    """The games of every block, in float64."""
    network = network.double().eval()
    x = network.embedding(ids).sum(-2)
    assert network.places is not None
    x = x + network.places[: x.shape[1]]
    padding = ids[..., 0] == 0
    found = []
    for block in network.blocks:
        assert isinstance(block, Block)
        found.append(block.attention.games(block.norms[0](x), key_padding_mask=padding))  # type: ignore[operator]
        x = block(x, padding)
    return found


def convergence(network: Network, ids: Tensor) -> list[dict[str, Any]]:
    """Residual and distance from the fixed point by number of updates, over queries, heads and blocks."""
    rows = []
    for updates in UPDATES:
        residuals, distances = [], []
        for block in network.blocks:
            block.attention.iterations = updates  # type: ignore[union-attr]
        for found in games(network, ids):
            real = (~(ids[..., 0] == 0))[:, None, :].expand_as(found.residual)
            state = found.solve(max_iter=500, tol=1e-9)
            residuals.append(found.residual[real])
            distances.append((state.alpha - found.alpha).abs().amax(-1)[real])
        residual, distance = torch.cat(residuals), torch.cat(distances)
        rows.append(
            {
                "updates": updates,
                "residual median": float(residual.median()),
                "residual 99 %": float(residual.quantile(0.99)),
                "distance median": float(distance.median()),
                "distance 99 %": float(distance.quantile(0.99)),
            }
        )
    for block in network.blocks:
        block.attention.iterations = 2  # type: ignore[union-attr]
    return rows


def trusted(found: list[QueryGames]) -> list[dict[str, float]]:
    """Per block and head: ω-free facts of the Ising systems of one sentence, mean field against enumeration."""
    rows = []
    for layer, game in enumerate(found):
        state = game.solve(max_iter=500, tol=1e-9)
        n = game.alpha.shape[-1]
        assert game.coupling is not None
        for head in range(game.alpha.shape[1]):
            J = game.coupling[0, head].expand(n, n, n)
            truth = exact.marginals(game.field[0, head], J, game.gamma)
            rows.append(
                {
                    "layer": layer,
                    "head": head,
                    "radius": float(state.spectral_radius[0, head].max()),
                    "alpha sum": float(game.alpha[0, head].sum(-1).mean()),
                    "error of two updates": float((game.alpha[0, head] - truth).abs().mean()),
                    "error of mean field": float((state.alpha[0, head] - truth).abs().mean()),
                    "mean alpha": float(truth.mean()),
                }
            )
    return rows


def figure(named: list[str], found: QueryGames, head: int, rows: list[dict[str, Any]], path: Path) -> None:
    """α of every query, J, and the residual by update."""
    fig = need("matplotlib.figure", "bench").Figure(figsize=(13, 4.4), layout="constrained")
    left, middle, right = fig.subplots(1, 3, width_ratios=(1, 1, 0.75))
    assert found.interactions is not None
    alpha, J = found.alpha[0, head], found.interactions[0, head, 0]
    shown = left.imshow(alpha, cmap="Greys", vmin=0.0, vmax=float(alpha.max()))
    left.set(title="α: which tokens are on for a query", xlabel="token", ylabel="query")
    fig.colorbar(shown, ax=left, shrink=0.7)
    most = float(J.abs().max())
    shown = middle.imshow(J, cmap="RdBu", vmin=-most, vmax=most)
    middle.set(title="J: which tokens help (blue) or replace (red) each other")
    fig.colorbar(shown, ax=middle, shrink=0.7)
    for panel in (left, middle):
        panel.set_xticks(range(len(named)), named, rotation=90)
        panel.set_yticks(range(len(named)), named)
    updates = [row["updates"] for row in rows]
    right.semilogy(updates, [row["residual median"] for row in rows], "o-", label="median")
    right.semilogy(updates, [row["residual 99 %"] for row in rows], "s--", label="99 % of queries")
    right.axvline(2, color="grey", linewidth=0.8)
    right.set(title="Convergence", xlabel="updates (the layer makes 2)", ylabel="residual of the mean field")
    right.legend()
    save_figure(fig, path)


def main() -> None:
    """Train, look, draw."""
    clock = Clock()
    torch.set_num_threads(1)
    setting = TASKS["toy"]
    job = Job("toy", "couplings", 0, "", setting)
    progress("training the network of the toy language")
    accuracy = job()["accuracy"]
    number = texts("toy", setting.pairs, "")[3]
    named, ids = encoded(PAIR, number)
    found = games(job.network, ids)
    heads = trusted(found)
    # ω by block and head; the figure shows the head whose couplings act most
    strengths = [block.attention.strength.tolist() for block in job.network.blocks]  # type: ignore[union-attr, operator]
    best = max(heads, key=lambda row: row["radius"])
    rows = convergence(job.network, job.dev[0][:SENTENCES])
    figure(named, found[int(best["layer"])], int(best["head"]), rows, FIGURE)
    save(
        "self_attention_heads",
        clock(),
        pair=PAIR,
        accuracy=accuracy,
        strengths=[[round(w, 3) for w in layer] for layer in strengths],
        shown={"layer": best["layer"], "head": best["head"]},
        heads=heads,
        convergence=rows,
    )


if __name__ == "__main__":
    main()
