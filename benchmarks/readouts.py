"""Which game predicts a frozen model best: where the spins stand, with and without interactions, from which layers.

    python benchmarks/readouts.py --root DATA        # half an hour of one core, once the passes are done

The embedded model, frozen, is asked about coalitions of words of TEXTS training pairs (SNLI), once. Then each variant
of the game is fitted to the same answers, three seeds each, and judged on coalitions of SNLI dev pairs: R² about b and
about the mean, and the seconds that fitting took. Variants:

    spins none     the game of V itself; α of the Hamiltonian explains and changes nothing (what ships)
    spins gate     V weighted by the α of the paper's layer before the readout
    no mixing      no layer in which tokens look at each other; two layers: two of them instead of one
    additive       v_h(C) = ⟨â_h, Σ V_hi⟩: the same parameters without interactions
    last layer     states of the last layer alone
    16 heads, 192 heads
"""

import argparse
import random
import time
from pathlib import Path
from typing import Any

import torch
from common import Clock, progress, save, show

from neurogame import embedded
from neurogame._common.types import Float, Tensor
from neurogame.data import load as load_data
from neurogame.grounding import GroundedGame, Observed, fit_games, fit_quality, observe
from neurogame.grounding.texts import as_pairs
from neurogame.modeling.configuration import read_layers
from neurogame.nli import NLI, load
from neurogame.readout import GameTerms, NormGames


class LinearTerms(GameTerms):
    """v_h(C) = ⟨â_h, Σ_{i∈C} V_hi⟩."""

    def of(self, members: Float[Tensor, "batch coalitions players"]) -> Float[Tensor, "batch coalitions heads"]:
        """The slope of the norm at the anchor."""
        S = torch.einsum("bcp,bhpd->bchd", members.to(self.V.dtype), self.V)
        return (S * torch.nn.functional.normalize(self.anchor, dim=-1).unsqueeze(1)).sum(-1)


class AdditiveGames(NormGames):
    """The same parameters, no interactions."""

    def terms(self, *arguments: Any, **options: Any) -> GameTerms:
        """As above."""
        found = super().terms(*arguments, **options)
        return LinearTerms(found.V, found.anchor)


VARIANTS: dict[str, dict[str, Any]] = {
    "spins none": {},
    "spins gate": {"spins": "gate"},
    "no mixing": {"mixing": 0},
    "two layers": {"mixing": 2},
    "additive": {"kind": "additive"},
    "last layer": {"layers": -1},
    "16 heads": {"heads": 16},
    "192 heads": {"heads": 192},
}


def observed(nli: NLI, name: str, count: int, root: Path, coalitions: int, seed: int) -> Observed:
    """Answers on `count` pairs of a data set."""
    pairs = as_pairs(random.Random(seed).sample(list(load_data(name, root=root)), count))
    layers = read_layers(int(nli.model.config.num_hidden_layers))
    return observe(nli.model, nli.tokenizer, pairs, layers, coalitions=coalitions, seed=seed)


def last(data: Observed) -> Observed:
    """The states of the last layer alone."""
    dim = data.states[0].shape[-1] // 4
    return Observed([x[:, -dim:] for x in data.states], data.word_of, data.members, data.logits, data.empty)


def fitted(options: dict[str, Any], data: Observed, steps: int, seed: int) -> GroundedGame:
    """A game of one variant."""
    options = dict(options)
    kind = options.pop("kind", None)
    torch.manual_seed(seed)
    game = GroundedGame(data.states[0].shape[-1], data.logits[0].shape[-1], **options)
    if kind == "additive":
        games = AdditiveGames(game.games.dim, **options)
        games.load_state_dict(game.games.state_dict())
        game.games = games
    fit_games(game, data, steps=steps, seed=seed)
    return game


def main() -> None:
    """Fit and judge every variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="where the data sets are; see docs/nli.md")
    parser.add_argument("--texts", type=int, default=3000)
    parser.add_argument("--dev", type=int, default=300)
    parser.add_argument("--coalitions", type=int, default=6)
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    given = parser.parse_args()
    clock = Clock()
    nli = load(embedded.folder())
    train = observed(nli, "snli/train", given.texts, given.root, given.coalitions, 0)
    dev = observed(nli, "snli/dev", given.dev, given.root, 8, 1)
    progress(f"{clock():.0f} s: asked the model")
    runs, rows = [], []
    for name in given.only:
        options = dict(VARIANTS[name])
        part = last if options.pop("layers", None) else (lambda data: data)
        for seed in given.seeds:
            began = time.process_time()
            game = fitted(options, part(train), given.steps, seed)
            spent = time.process_time() - began
            runs.append({"variant": name, "seed": seed, "cpu_seconds": round(spent, 1), **fit_quality(game, part(dev))})
            progress(f"{clock():.0f} s: {name}, seed {seed}: R² {runs[-1]['r2']:.4f}")
        mine = [run for run in runs if run["variant"] == name]
        row: dict[str, Any] = {"variant": name}
        for figure in ("r2", "r2_about_mean", "cpu_seconds"):
            numbers = torch.tensor([float(run[figure]) for run in mine], dtype=torch.float64)
            row[figure] = round(float(numbers.mean()), 4)
            row[f"{figure}_sd"] = round(float(numbers.std()), 4) if len(numbers) > 1 else 0.0
        rows.append(row)
    settings = {name: getattr(given, name) for name in ("texts", "dev", "coalitions", "steps", "seeds")}
    save("readouts", clock(), settings=settings, rows=rows, runs=runs)
    show("R² of games fitted to the embedded model", rows)


if __name__ == "__main__":
    main()
