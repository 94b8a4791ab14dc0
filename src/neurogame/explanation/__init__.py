"""Why a model said what it said of a pair: word by word, with errors.

`data.words` (from tokens to words) → `reading` (one pair through the model) → a method → `record` (the Explanation) →
`summary` (what is worth saying) → `views`. A method maps a `Reading` and a `Question` to an `Attribution`;
`methods` lists them, checks what was asked and puts the record together. They stand in

    decision      the game of the decision, see `grounded`       intrinsic    the layer's own game
    inputs        the game with words removed at the input       gradients    by the slope at the word embeddings
    presence      the same with words that fade, by slopes       baselines    attention weights, random numbers
    surrogates    the same in the hands of captum and shap

`removal` asks the model about a pair without some words, `regression` estimates a game that is dear to evaluate,
`refinement` does with a grounded game to start from.
"""

from neurogame.explanation.methods import METHODS, best, explain, methods_for, named
from neurogame.explanation.record import Explanation

__all__ = ["METHODS", "Explanation", "best", "explain", "methods_for", "named"]
