"""What a head of NeuroGame self-attention does where couplings matter: α of the query that acts, J, and convergence.

    python benchmarks/self_attention_heads.py   # 15 minutes; results/self_attention_heads.json, a figure, a page
    python benchmarks/self_attention_heads.py --page     # the text of the page alone, from the results

The network has one layer and is trained on `twice` of `benchmarks/self_attention.py`: every value occurs twice, one of
them both times with the same key. Only the first token is read, so its query is the only one that is shown.
"""

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import torch
from common import RESULTS, Clock, progress, save
from self_attention import KEYS, Block, Job, Network, Setting, sequences
from torch import Tensor

from neurogame import QueryGames, exact
from neurogame._common.extras import need
from neurogame._common.writing import save_figure
from neurogame_bench.pages import update

DOCS = Path(__file__).resolve().parent.parent / "docs"
FIGURE = DOCS / "figures" / "concept-self-attention.svg"
PAGE = DOCS / "concepts" / "self-attention.md"
NAME = "results/self_attention_heads.json"  # of the markers
SETTING = Setting(layers=1, steps=6000, batch=64, rate=3e-3, lengths=(8,))
UPDATES = (1, 2, 3, 4, 6, 8, 12, 16)
FLOOR = 1e-8  # of the residuals shown: below it there is rounding only
SEQUENCES, SHOWN = 300, 0  # for the statistics; the one of them in the figure


@torch.no_grad()
def games(network: Network, ids: Tensor, updates: int = 2) -> QueryGames:
    """The games of the first token with all tokens, in float64."""
    network = network.double().eval()
    block = network.blocks[0]
    assert isinstance(block, Block)
    x = block.norms[0](network.embedding(ids).sum(-2))
    attention: Any = block.attention
    attention.iterations = updates
    found: QueryGames = attention.games(x[:, :1], x)
    attention.iterations = 2
    return found


def names(ids: Tensor) -> list[str]:
    """Tokens as key and value: a letter per key in order of appearance, the value as a number."""
    keys = [int(k) for k in ids[1:, 0]]
    letters = {key: chr(ord("a") + i) for i, key in enumerate(dict.fromkeys(keys))}
    return ["first", *(f"{letters[k]} {int(v) - 4 - KEYS}" for k, v in zip(keys, ids[1:, 1], strict=True))]


def pairs(ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """[tokens, tokens] per sequence: same key, same value, neither; of two different tokens behind the first."""
    keys, values = ids[..., 0], ids[..., 1]
    behind = torch.ones(ids.shape[1], dtype=torch.bool)
    behind[0] = False
    real = behind[:, None] & behind & ~torch.eye(len(behind), dtype=torch.bool)
    key, value = (one[:, :, None] == one[:, None, :] for one in (keys, values))
    return key & real, value & ~key & real, ~key & ~value & real


def convergence(network: Network, ids: Tensor) -> list[dict[str, float]]:
    """Residual of the first token's games by number of updates, over sequences and heads."""
    rows = []
    for updates in UPDATES:
        residual = games(network, ids, updates).residual.flatten()
        rows.append({"updates": updates, "median": float(residual.median()), "99 %": float(residual.quantile(0.99))})
    return rows


def head_facts(network: Network, ids: Tensor) -> list[dict[str, float]]:
    """Per head: ω, ρ(J)/γ, J by kind of pair, α of the two tokens with one key and of the others, errors of α."""
    one, two = games(network, ids, 1), games(network, ids)
    state = two.solve(max_iter=2000, tol=1e-9, damping=0.5)
    same, agreeing, different = pairs(ids)
    twins = same.any(-1)
    others = ~twins
    others[:, 0] = False
    attention: Any = network.blocks[0].attention
    assert two.interactions is not None
    assert two.coupling is not None
    rows = []
    for head in range(two.alpha.shape[1]):
        J, alpha, solved = two.interactions[:, head, 0], two.alpha[:, head, 0], state.alpha[:, head, 0]
        truth = exact.marginals(two.field[:, head, 0], two.coupling[:, head, 0], two.gamma)
        rows.append(
            {
                "strength": float(attention.strength[head].detach()),
                "radius": float(state.spectral_radius[:, head].median()),
                "J, same key": float(J[same].mean()),
                "J, same value": float(J[agreeing].mean()),
                "J, others": float(J[different].mean()),
                "alpha 1, same key": float(one.alpha[:, head, 0][twins].mean()),
                "alpha 1, others": float(one.alpha[:, head, 0][others].mean()),
                "alpha 2, same key": float(alpha[twins].mean()),
                "alpha 2, others": float(alpha[others].mean()),
                "error of two updates": float((alpha - truth).abs().mean()),
                "error of mean field": float((solved - truth).abs().mean()),
            }
        )
    return rows


def figure(named: list[str], one: QueryGames, two: QueryGames, head: int, rows: list[dict[str, Any]]) -> None:
    """α of the query that is read after one and two updates, J, and the residual by update."""
    fig = need("matplotlib.figure", "bench").Figure(figsize=(13, 4.2), layout="constrained")
    left, middle, right = fig.subplots(1, 3, width_ratios=(1, 1, 0.75))
    places = range(len(named))
    for k, (found, label) in enumerate(((one, "first update, no couplings"), (two, "second update"))):
        heights = found.alpha[SHOWN, head, 0].tolist()
        left.bar([p - 0.2 + 0.4 * k for p in places], heights, 0.4, label=label, color=("0.7", "C0")[k])
    left.set(title="α of the token that is read", ylabel="α", xlabel="token: key and value")
    left.legend()
    assert two.interactions is not None
    J = two.interactions[SHOWN, head, 0]
    most = float(J.abs().max())
    shown = middle.imshow(J, cmap="RdBu", vmin=-most, vmax=most)
    middle.set(title="J: tokens that help (blue) or replace (red) each other")
    fig.colorbar(shown, ax=middle, shrink=0.8)
    middle.set_yticks(places, named)
    for panel in (left, middle):
        panel.set_xticks(places, named, rotation=90)
    updates = [row["updates"] for row in rows]
    right.semilogy(updates, [max(row["median"], FLOOR) for row in rows], "o-", label="median")
    right.semilogy(updates, [max(row["99 %"], FLOOR) for row in rows], "s--", label="99 % of games")
    right.axvline(2, color="grey", linewidth=0.8)
    right.set(title="Convergence", xlabel="updates (the layer makes 2)", ylabel="residual of the mean field")
    right.set_ylim(bottom=FLOOR / 2)
    right.legend()
    save_figure(fig, FIGURE)


def text(found: dict[str, Any]) -> str:
    """The paragraphs of the page."""
    heads, shown = found["heads"], found["heads"][found["shown"]]
    at = {row["updates"]: row for row in found["convergence"]}
    low, high = min(row["strength"] for row in heads), max(row["strength"] for row in heads)
    last = max(at)
    paragraphs = (
        f"The network of the figure has one layer and learned the task `twice` in {found['steps']} steps, to an "
        f"accuracy of {100 * found['accuracy']:.0f} % (`python benchmarks/self_attention_heads.py`, "
        "[results/self_attention_heads.json](../../results/self_attention_heads.json)). Of eight tokens, each a key "
        "(letter) with a value (number), two have the same key, and their value is the answer. The output is read at "
        "the first token, so only its query acts, and that query is the same in every sequence: nothing but what the "
        "tokens are to each other can tell.",
        f"The heads learned ω from {low:.2f} to {high:.2f}. Shown is the one whose J sets equal keys apart most, with "
        f"ω = {shown['strength']:.2f} and ρ(J)/γ = {shown['radius']:.2f} (median of {found['sequences']} sequences). "
        f"Its mean J is {shown['J, same key']:+.1f} between tokens with the same key, {shown['J, same value']:+.1f} "
        f"between tokens with the same value only, and {shown['J, others']:+.1f} between others. The first update "
        f"feels no couplings and gives the two tokens with one key a mean α of {shown['alpha 1, same key']:.3f}, the "
        f"others {shown['alpha 1, others']:.3f}; the second gives {shown['alpha 2, same key']:.3f} and "
        f"{shown['alpha 2, others']:.3f}.",
        f"After two updates the residual is {at[2]['median']:.2g} for the median game and {at[2]['99 %']:.2g} for all "
        f"but one in a hundred; after {last} it is {at[last]['median']:.1g} and {at[last]['99 %']:.1g}. So the "
        "network does not use a solution of the equations, it uses what two updates make of them. Enumeration of "
        "all 512 coalitions says how good mean field itself is: in the head shown the mean error of α is "
        f"{shown['error of two updates']:.3f} after two updates and {shown['error of mean field']:.3f} at the fixed "
        "point.",
    )
    return "\n\n".join(textwrap.fill(one, 120, break_long_words=False, break_on_hyphens=False) for one in paragraphs)


def page() -> None:
    """Write the paragraph into the page, from the results."""
    update(PAGE, text(json.loads((RESULTS / "self_attention_heads.json").read_text())), NAME)


def main() -> None:
    """Train, look, draw, write."""
    clock = Clock()
    torch.set_num_threads(1)
    job = Job("twice", "couplings", 0, "", SETTING)
    progress("training one layer on `twice`")
    accuracy = job()["accuracy"]
    ids, _ = sequences("twice", SETTING.lengths[0], SEQUENCES, torch.Generator().manual_seed(1))
    heads = head_facts(job.network, ids)
    shown = max(range(len(heads)), key=lambda head: heads[head]["J, same key"] - heads[head]["J, others"])
    rows = convergence(job.network, ids)
    figure(names(ids[SHOWN]), games(job.network, ids, 1), games(job.network, ids), shown, rows)
    save(
        "self_attention_heads",
        clock(),
        task="twice",
        steps=SETTING.steps,
        accuracy=accuracy,
        sequences=SEQUENCES,
        shown=shown,
        heads=heads,
        convergence=rows,
    )
    page()


if __name__ == "__main__":
    page() if sys.argv[1:] == ["--page"] else main()
