"""Grounded games: v(C) predicts the model's logits of the words C.

`coalitions` draws C and computes R², `texts` tokenises texts and removes words, `fitting` fits a game to a frozen
classifier. `neurogame.training` trains a model and its game together.
"""

from neurogame.grounding.coalitions import Law, centred, draw, r_squared, tokens_of
from neurogame.grounding.fitting import GroundedGame, Observed, fit_games, fit_quality, observe

__all__ = [
    "GroundedGame",
    "Law",
    "Observed",
    "centred",
    "draw",
    "fit_games",
    "fit_quality",
    "observe",
    "r_squared",
    "tokens_of",
]
