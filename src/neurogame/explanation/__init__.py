"""Why a model said what it said of a pair: word by word, with errors.

`words` (from tokens to words) → `reading` (one pair through the model) → a method → `record` (the Explanation) →
`summary` (what is worth saying) → `terminal`, `page`. A method maps a `Reading` and a `Question` to an `Attribution`;
`methods` lists them, checks what was asked and puts the record together. They stand in

    decision      the game of a logit on the head alone          intrinsic    the layer's own game
    inputs        the game with words removed at the input       gradients    by the slope at the word embeddings
    presence      the same with words that fade, by slopes       baselines    attention weights, random numbers
    surrogates    the same in the hands of captum and shap

`removal` takes words out of a pair, `regression` estimates a game that is dear to evaluate.
"""

from neurogame.explanation.methods import METHODS, explain, methods_for, named
from neurogame.explanation.record import Explanation

__all__ = ["METHODS", "Explanation", "explain", "methods_for", "named"]
