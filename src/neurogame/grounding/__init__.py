"""Games that mean something: v(C) is what a model says of the words C.

`coalitions` draws C and judges predictions, `texts` knows the words of a text, `fitting` fits a game to a frozen
classifier. Training a model and its game together is `neurogame.training`'s business.
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
