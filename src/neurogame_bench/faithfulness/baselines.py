"""Rankings that know nothing of the model: what an explanation must beat to say anything.

random                another order for every draw; reported as the mean of DRAWS
all words             every word the same score: the earlier first
hypothesis            the words of the hypothesis
lexical difference    the words of the hypothesis that the premise does not have, case and punctuation aside
"""

from collections.abc import Sequence

import numpy as np

from neurogame.evaluation.alignment import Array

DRAWS = 10


def random(n: int, seed: Sequence[int], draws: int = DRAWS) -> list[Array]:
    """Uniform scores in [0, 1), one row per draw."""
    return list(np.random.default_rng(list(seed)).random((draws, n)))


def every_word(n: int) -> Array:
    """1 for all."""
    return np.ones(n)


def hypothesis(sides: Sequence[str]) -> Array:
    """1 in the hypothesis, else 0."""
    return np.array([float(side == "hypothesis") for side in sides])


def lexical_difference(words: Sequence[str], sides: Sequence[str]) -> Array:
    """1 for a word of the hypothesis that the premise does not have, else 0."""
    bare = ["".join(letter for letter in word.casefold() if letter.isalnum()) or word for word in words]
    premise = {word for word, side in zip(bare, sides, strict=True) if side == "premise"}
    return np.array([float(s == "hypothesis" and w not in premise) for w, s in zip(bare, sides, strict=True)])
