"""NeuroGame: attention by contribution. Tokens are players of a cooperative game and spins of an Ising system.

The package reads in the order of the paper: `game` (v(C)), `sampling` (how coalitions are drawn),
`values` and `couplings` (Shapley, Banzhaf, pair interactions), `exact` (enumeration), `ising` (spins),
`attention` (the layer), `modeling` (encoder and head), `data`, `nli` (load and predict), `explanation`, `evaluation`,
`training`.
"""

from neurogame import exact, game, ising, sampling, values
from neurogame.attention import AttentionConfig, NeuroGameAttention, NeuroGameOutput
from neurogame.couplings import LinearCoupling
from neurogame.explanation import Explanation
from neurogame.ising import SpinState, solve
from neurogame.modeling import (
    DamConfig,
    DamForSequenceClassification,
    EsimConfig,
    EsimForSequenceClassification,
    NeuroGameConfig,
    NeuroGameForSequenceClassification,
)
from neurogame.nli import NLI, Prediction, load
from neurogame.values import GameValues, estimate, estimate_game

__version__ = "0.1.0"

__all__ = [
    "NLI",
    "AttentionConfig",
    "DamConfig",
    "DamForSequenceClassification",
    "EsimConfig",
    "EsimForSequenceClassification",
    "Explanation",
    "GameValues",
    "LinearCoupling",
    "NeuroGameAttention",
    "NeuroGameConfig",
    "NeuroGameForSequenceClassification",
    "NeuroGameOutput",
    "Prediction",
    "SpinState",
    "__version__",
    "estimate",
    "estimate_game",
    "exact",
    "game",
    "ising",
    "load",
    "sampling",
    "solve",
    "values",
]
