"""NeuroGame: attention by contribution. Tokens are players of a cooperative game and spins of an Ising system.

The package reads in the order of the paper: `game` (v(C)), `sampling` (how coalitions are drawn),
`values` and `couplings` (Shapley, Banzhaf, pair interactions), `exact` (enumeration), `ising` (spins),
`attention` (the layer that pools), `query_game` and `self_attention` (the layer inside a transformer), `readout` (games
read into logits), `hamiltonian` (the spins of a decision), `modeling` (encoder and head), `data`, `classifier` (a model
with tokenizer and labels), `opening` (the way to one), `grounding` (v(C) is what a model says of C), `explanation`,
`nli` (load, predict, explain), `evaluation`, `training`.
"""

from typing import TYPE_CHECKING

from neurogame._common import registering
from neurogame._common.lazy import lazy

if TYPE_CHECKING:
    from neurogame import exact, game, ising, sampling, values
    from neurogame.attention import AttentionConfig, NeuroGameAttention, NeuroGameOutput
    from neurogame.couplings import LinearCoupling
    from neurogame.explanation import Explanation
    from neurogame.grounding.explainer import Explainer, ground
    from neurogame.hamiltonian import Hamiltonian
    from neurogame.ising import SpinState, solve
    from neurogame.modeling import (
        DamConfig,
        DamForSequenceClassification,
        EsimConfig,
        EsimForSequenceClassification,
        NeuroGameConfig,
        NeuroGameForSequenceClassification,
    )
    from neurogame.modeling.attention_interface import (
        load_neurogame_attention,
        register_attention,
        use_neurogame_attention,
    )
    from neurogame.nli import NLI, Prediction, load
    from neurogame.self_attention import NeuroGameSelfAttention, QueryGames
    from neurogame.values import GameValues, estimate, estimate_game

__version__ = "0.1.0"

# Every name is imported when it is asked for: torch and transformers take seconds, and a message about a missing file
# needs neither.
_LATER = {
    "NLI": "nli",
    "AttentionConfig": "attention",
    "DamConfig": "modeling",
    "DamForSequenceClassification": "modeling.baselines.dam",
    "EsimConfig": "modeling",
    "EsimForSequenceClassification": "modeling.baselines.esim",
    "Explainer": "grounding.explainer",
    "Explanation": "explanation",
    "GameValues": "values",
    "Hamiltonian": "hamiltonian",
    "LinearCoupling": "couplings",
    "NeuroGameAttention": "attention",
    "NeuroGameConfig": "modeling",
    "NeuroGameForSequenceClassification": "modeling.model",
    "NeuroGameOutput": "attention",
    "NeuroGameSelfAttention": "self_attention",
    "Prediction": "nli",
    "QueryGames": "self_attention",
    "SpinState": "ising",
    "estimate": "values",
    "estimate_game": "values",
    "ground": "grounding.explainer",
    "load": "nli",
    "load_neurogame_attention": "modeling.attention_interface",
    "register_attention": "modeling.attention_interface",
    "solve": "ising",
    "use_neurogame_attention": "modeling.attention_interface",
}
_MODULES = {"attention", "batch", "couplings", "data", "evaluation", "exact", "explanation", "export"}
_MODULES |= {"faithfulness", "game", "grounding", "hamiltonian", "ising", "modeling", "nli", "prediction"}
_MODULES |= {"sampling", "training", "values"}

__all__ = [
    "NLI",
    "AttentionConfig",
    "DamConfig",
    "DamForSequenceClassification",
    "EsimConfig",
    "EsimForSequenceClassification",
    "Explainer",
    "Explanation",
    "GameValues",
    "Hamiltonian",
    "LinearCoupling",
    "NeuroGameAttention",
    "NeuroGameConfig",
    "NeuroGameForSequenceClassification",
    "NeuroGameOutput",
    "NeuroGameSelfAttention",
    "Prediction",
    "QueryGames",
    "SpinState",
    "__version__",
    "estimate",
    "estimate_game",
    "exact",
    "game",
    "ground",
    "ising",
    "load",
    "load_neurogame_attention",
    "register_attention",
    "sampling",
    "solve",
    "use_neurogame_attention",
    "values",
]

__getattr__, __dir__ = lazy(__name__, _LATER | {name: name for name in _MODULES})
registering.with_transformers()
