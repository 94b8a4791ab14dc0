"""What the pooling of a model does on sentence pairs, word by word and in batches: α, values, couplings, convergence.

`NLI.explain` tells the same of one pair, with errors and for people; this is for thousands of pairs. Word pieces are
averaged for α and summed for values and couplings, over heads the mean is taken, as explanations do it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from common import progress
from numpy.typing import NDArray
from torch import Tensor

from neurogame.attention import NeuroGameOutput
from neurogame.couplings import LinearCoupling
from neurogame.data.batching import collate, sorted_batches
from neurogame.data.words import Tokens, Units, tokenize, units
from neurogame.modeling import NeuroGameForSequenceClassification
from neurogame.modeling.heads import Pooled
from neurogame.nli import NLI

Array = NDArray[np.float64]
Pair = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Game:
    """The record of a NeuroGame layer on one pair."""

    shapley: Array  # [words]
    banzhaf: Array  # [words]
    coupling: Array  # [words, words], unscaled, as the values are; zeros without couplings
    strength: float  # mean |J_ij| over pairs of players, unscaled
    scaled: float  # the same as the spins feel it
    across: float  # mean |J_ij| between premise and hypothesis, unscaled
    iterations: NDArray[np.int64]  # [heads]
    residual: Array  # [heads]
    converged: NDArray[np.bool_]  # [heads]


@dataclass(frozen=True, eq=False)
class Seen:
    """One pair as the pooling saw it; words that were cut off are left out."""

    words: tuple[str, ...]
    sides: tuple[str, ...]
    tokens: int  # that play
    label: int  # predicted, as a number
    alpha: Array  # [words], mean over heads and pieces
    total: float  # Σ α over players, mean over heads
    game: Game | None


def observe(nli: NLI, pairs: Sequence[Pair], *, batch_size: int = 64, what: str = "") -> Iterator[tuple[int, Seen]]:
    """Each pair with its number, the longest first."""
    model = nli.model
    if not isinstance(model, NeuroGameForSequenceClassification):
        raise SystemExit(f"{nli.name} is a {type(model).__name__}; a model with one of our heads is needed")
    model.eval()
    read = [tokenize(nli.tokenizer, premise, hypothesis, nli.max_length) for premise, hypothesis in pairs]
    pad, done = collate(nli.tokenizer), 0
    for batch in sorted_batches([len(tokens.pieces) for tokens in read], batch_size):
        rows = [{name: column[0].tolist() for name, column in read[i].inputs.items()} for i in batch]
        inputs = pad(rows)
        with torch.inference_mode():
            states = model(**inputs, output_hidden_states=True).hidden_states[-1].to(model.classifier.dtype)
            players = model.players(inputs["input_ids"], inputs["attention_mask"].bool())
            pooled = model.pooling(states, players, record=True)
            labels = model.classifier(pooled.output).argmax(-1)
            dense = _dense(pooled)
        for place, i in enumerate(batch):
            yield i, _seen(read[i], pooled, dense, players, place, int(labels[place]))
        done += len(batch)
        if done // 2048 > (done - len(batch)) // 2048:
            progress(f"  {what or nli.name}: {done} of {len(pairs)} pairs")


def _dense(pooled: Pooled) -> tuple[Tensor, Tensor] | None:
    """J_ij as it was estimated and as the spins feel it, [batch, heads, tokens, tokens]."""
    if not isinstance(pooled.game, NeuroGameOutput) or pooled.game.coupling is None:
        return None
    kept = (pooled.game.values.coupling, pooled.game.coupling)
    both = [J.to_dense() if isinstance(J, LinearCoupling) else J for J in kept]
    assert isinstance(both[0], Tensor)
    assert isinstance(both[1], Tensor)
    return both[0], both[1]


def _seen(
    tokens: Tokens, pooled: Pooled, dense: tuple[Tensor, Tensor] | None, players: Tensor, place: int, label: int
) -> Seen:
    """Cut one pair out of a batch."""
    n, words = len(tokens.pieces), units(tokens, "word")
    assert pooled.weights is not None
    weights = pooled.weights[place, :, :n].double()
    play = players[place, :n]
    game = None
    if isinstance(pooled.game, NeuroGameOutput):
        J = None if dense is None else (dense[0][place, :, :n, :n].double(), dense[1][place, :, :n, :n].double())
        game = _game(pooled.game, J, words, tokens, play, place)
    return Seen(
        words=tuple(words.names[i] for i in words.read),
        sides=tuple(words.sides[i] for i in words.read),
        tokens=int(play.sum()),
        label=label,
        alpha=words.mean(weights).mean(0).numpy(),
        total=float(weights.sum(-1).mean()),
        game=game,
    )


def _game(
    found: NeuroGameOutput, J: tuple[Tensor, Tensor] | None, words: Units, tokens: Tokens, play: Tensor, place: int
) -> Game:
    n, state = len(tokens.pieces), found.spin_state
    count = len(words.read)
    coupling, sizes = np.zeros((count, count)), (0.0, 0.0, 0.0)
    if J is not None:
        both = play.unsqueeze(0) & play.unsqueeze(1) & ~torch.eye(n, dtype=torch.bool)
        side = torch.tensor([-1 if s is None else s for s in tokens.sides])
        apart = both & (side.unsqueeze(0) != side.unsqueeze(1))
        coupling = words.pair_sums(J[0]).mean(0).numpy()
        sizes = _mean_size(J[0], both), _mean_size(J[1], both), _mean_size(J[0], apart)
    return Game(
        shapley=words.sum(found.shapley[place, :, :n].double()).mean(0).numpy(),
        banzhaf=words.sum(found.banzhaf[place, :, :n].double()).mean(0).numpy(),
        coupling=coupling,
        strength=sizes[0],
        scaled=sizes[1],
        across=sizes[2],
        iterations=state.iterations[place].numpy(),
        residual=state.residual[place].double().numpy(),
        converged=state.converged[place].numpy(),
    )


def _mean_size(J: Tensor, where: Tensor) -> float:
    """Mean |J_ij| over heads and the marked pairs; 0 if there is none."""
    return float(J.abs()[:, where].mean()) if bool(where.any()) else 0.0
