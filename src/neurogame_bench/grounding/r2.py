"""R² of logits(C) on held-out coalitions by law and size, and of additive and quadratic accounts of the game."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch

from neurogame import exact
from neurogame._common.types import Bool, Float, Tensor
from neurogame.data import Pair
from neurogame.evaluation.alignment import Array
from neurogame.explanation.removal import evaluate
from neurogame.grounding.coalitions import centred
from neurogame.grounding.game import WordGame
from neurogame.hamiltonian import Hamiltonian
from neurogame_bench import intervals
from neurogame_bench.grounding.bench import LAWS, PRECISE, Bench, coalitions, precise
from neurogame_bench.grounding.figures import figure, ratio, span
from neurogame_bench.study import Record

COALITIONS = 8  # per pair and law
BINS = (0.0, 0.25, 0.5, 0.75, 1.0)  # shares of the words that are left
ADDITIVE = ("additive φ", "additive β", "additive β, own constant")
QUADRATIC = ("quadratic φ", "quadratic β", "quadratic β, own constant")
ACCOUNTS = ("game", *ADDITIVE, *QUADRATIC)


def accounts(game: WordGame, C: Bool[Tensor, "coalitions words"]) -> dict[str, Float[Tensor, "coalitions labels"]]:
    """What the game says of coalitions, and what is left of it without interactions, or with those of pairs alone.

    φ and β from b, which both ends of φ meet; and β about the game's mean over fair coins, the best account there.
    """
    values, b, n = precise(game), game.base.double(), game.players
    phi, beta, J, inside = values.shapley, values.banzhaf, values.coupling, C.double()
    coins = exact.all_coalitions(n) if n <= 12 else coalitions("banzhaf", n, 2 * PRECISE, (0, 0))
    middle = game.logits(coins).mean(0)
    own = middle - beta.sum(-1) / 2.0 + J.sum((-2, -1)) / 8.0  # g(∅), where the mean of g is `middle`

    def quadratic(field: Tensor, base: Tensor) -> Tensor:
        logits = [Hamiltonian(*of).value(C) for of in zip(field, J, base, strict=True)]
        return torch.stack(logits, -1)

    logits = {
        "game": game.logits(C),
        "additive φ": b + inside @ phi.mT,
        "additive β": b + inside @ beta.mT,
        "additive β, own constant": middle + (inside - 0.5) @ beta.mT,
        "quadratic φ": quadratic(phi, b),
        "quadratic β": quadratic(beta, b),
        "quadratic β, own constant": quadratic(beta, own),
    }
    assert tuple(logits) == ACCOUNTS
    return logits


def row(bench: Bench, pair: Pair, place: int) -> Record:
    """Sums of squares by law and by the share of words that is left, see `_squares`."""
    reading, game = bench.reading(pair)
    C = {law: coalitions(law, game.players, COALITIONS, (bench.seed, place)) for law in LAWS}
    answers = evaluate(reading, torch.cat(list(C.values()))).double().split(COALITIONS)
    by_account = accounts(game, torch.cat(list(C.values())))
    rows: Record = {"words": game.players}
    for k, (law, truth) in enumerate(zip(LAWS, answers, strict=True)):
        predicted = [account[k * COALITIONS : (k + 1) * COALITIONS] for account in by_account.values()]
        share = C[law].double().mean(-1)
        which = torch.bucketize(share, torch.tensor(BINS[1:-1], dtype=torch.float64), right=True)
        lines = [
            _squares([p[which == k] for p in predicted], truth[which == k], bench.base) for k in range(len(BINS) - 1)
        ]
        rows[law] = lines
    return rows


def _squares(predicted: Sequence[Tensor], answers: Tensor, base: Tensor) -> list[float]:
    """(coalitions, Σ‖z − b‖², Σ‖z‖², Σ‖account − z‖² each, Σz by label) of the answers z, centred over the labels."""
    answers, base = centred(answers), centred(base)
    errors = [float((centred(p) - answers).square().sum()) for p in predicted]
    spread = float((answers - base).square().sum())
    return [float(len(answers)), spread, float(answers.square().sum()), *errors, *answers.sum(0).tolist()]


def about_base(account: str, less: str | None = None) -> intervals.Statistic:
    """R² with b as origin, of `_squares` summed; or that less the R² of another account."""

    def statistic(sums: Array) -> Array:
        error = sums[..., 3 + ACCOUNTS.index(account)]
        if less is not None:
            return ratio(sums[..., 3 + ACCOUNTS.index(less)] - error, sums[..., 1])
        return 1.0 - ratio(error, sums[..., 1])

    return statistic


def about_mean(account: str) -> intervals.Statistic:
    """R² with the mean of the answers as origin."""

    def statistic(sums: Array) -> Array:
        total = sums[..., 3 + len(ACCOUNTS) :]
        spread = sums[..., 2] - ratio(np.square(total).sum(-1), sums[..., 0])
        return 1.0 - ratio(sums[..., 3 + ACCOUNTS.index(account)], spread)

    return statistic


def summary(rows: Sequence[Record]) -> Record:
    """By law: R² of every account, of the game by size, and what the best additive account loses."""
    laws = {}
    for law in LAWS:
        sums = np.array([row[law] for row in rows], dtype=float)  # (pairs, bins, columns)
        whole = sums.sum(1)
        of_base = {name: figure(whole, about_base(name)) for name in ACCOUNTS}
        value = {name: float(of["value"]) for name, of in of_base.items()}.__getitem__
        best = max(ADDITIVE, key=value)
        sizes = []
        for k, (low, high) in enumerate(pairwise(BINS)):
            count = sums[:, k, 0].sum()
            size = {"from": low, "to": high, "coalitions": int(count), **figure(sums[:, k], about_base("game"))}
            labels = sums.shape[-1] - 3 - len(ACCOUNTS)
            sizes.append({**size, "rms": float(np.sqrt(sums[:, k, 3].sum() / max(1.0, count * labels)))})
        laws[law] = {
            "coalitions": int(whole[:, 0].sum()),
            "about b": of_base,
            "about the mean": {name: figure(whole, about_mean(name)) for name in ACCOUNTS},
            "best additive": best,
            "lost without interactions": figure(whole, about_base("game", less=best)),
            "lost from b": figure(whole, about_base("game", less=max(ADDITIVE[:2], key=value))),
            "sizes": sizes,
        }
    return {"laws": laws}


def table(results: Record) -> list[Record]:
    """By law."""
    return [
        {
            "law": law,
            "R² about b": span(of["about b"]["game"]),
            "about mean": f"{of['about the mean']['game']['value']:.3f}",
            "best additive": f"{of['about b'][of['best additive']]['value']:.3f} ({of['best additive']})",
            "lost": span(of["lost without interactions"]),
            "best quadratic": f"{max(of['about b'][name]['value'] for name in QUADRATIC):.3f}",
            "by size": " ".join("–" if size["value"] is None else f"{size['value']:.2f}" for size in of["sizes"]),
        }
        for law, of in results["laws"].items()
    ]
