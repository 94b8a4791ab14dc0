"""The model that is measured and its pairs; coalitions and precise values of a game, which several parts use."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from neurogame._common.types import Bool, Float, Tensor
from neurogame.data import Pair, PairDataset
from neurogame.data.words import tokenize, units
from neurogame.explanation import Explanation
from neurogame.explanation.reading import Reading
from neurogame.explanation.reading import read as read_pair
from neurogame.grounding.coalitions import draw
from neurogame.grounding.fitting import empty_logits
from neurogame.grounding.game import WordGame
from neurogame.nli import NLI
from neurogame.readout import LabelValues, label_values
from neurogame_bench.explanations.cases import draw as draw_pairs
from neurogame_bench.explanations.cases import words_of
from neurogame_bench.phrases import INTENSIFIERS, bare, is_negation

DRAWN = 500  # pairs that benchmarks/explanations.py draws
LAWS = ("mixed", "shapley", "banzhaf", "uniform")  # uniform: each word with probability p ~ U(0, 1)
PRECISE = 2048  # coalitions per law for values of the game that are compared, where they are sampled
AMPLIFIERS = (*INTENSIFIERS, "so", "too")


@dataclass(frozen=True, eq=False)
class Bench:
    """The model that is measured, on which pairs, with which random numbers."""

    nli: NLI
    dev: PairDataset
    seed: int = 0

    @cached_property
    def base(self) -> Float[Tensor, "labels"]:
        """b: what the model says of a text without words."""
        return empty_logits(self.nli.model, self.nli.tokenizer).double()

    @cached_property
    def shuffled(self) -> PairDataset:
        """All pairs in random order, for the parts that look for some of them."""
        return draw_pairs(self.dev, len(self.dev), self.seed)

    def drawn(self, count: int) -> PairDataset:
        """The first of those that benchmarks/explanations.py draws."""
        return draw_pairs(self.dev, max(DRAWN, count), self.seed)[:count]

    def of_words(self, least: int, most: int, count: int) -> PairDataset:
        """Pairs of which the model reads so many words."""

        def fits(pair: Pair) -> bool:
            if not least <= len(words_of(pair)) <= most:
                return False
            tokens = tokenize(self.nli.tokenizer, pair.premise, pair.hypothesis, self.nli.max_length)
            return least <= len(units(tokens, "word").read) <= most

        pairs: list[Pair] = []
        for pair in self.shuffled:
            if len(pairs) == count:
                break
            if fits(pair):
                pairs.append(pair)
        return PairDataset(tuple(pairs), self.dev.name, self.dev.source)

    def marked(self, count: int) -> PairDataset:
        """The drawn pairs, then others with a negation or an intensifier, until there are `count` of these."""
        first = self.drawn(count)
        known = {(pair.premise, pair.hypothesis) for pair in first}
        lacking = count - sum(map(_is_marked, first))
        more = [p for p in self.shuffled if (p.premise, p.hypothesis) not in known and _is_marked(p)]
        return PairDataset((*first, *more[: max(0, lacking)]), self.dev.name, self.dev.source)

    def reading(self, pair: Pair) -> tuple[Reading, WordGame]:
        """One pass, and the game of it."""
        reading = read_pair(self.nli, pair.premise, pair.hypothesis, "word")
        assert reading.game is not None
        return reading, reading.game

    def explain(self, pair: Pair, **options: Any) -> Explanation:
        """As a user would."""
        return self.nli.explain(pair.premise, pair.hypothesis, **options)


def _is_marked(pair: Pair) -> bool:
    return any(is_negation(word) or bare(word) in AMPLIFIERS for word in words_of(pair))


def coalitions(law: str, n: int, count: int, seed: Sequence[int]) -> Bool[Tensor, "coalitions words"]:
    """`count` coalitions of n words, the second half the complements of the first; by numbers of their own."""
    number = int(np.random.SeedSequence([*seed, LAWS.index(law)]).generate_state(1)[0])
    generator = torch.Generator().manual_seed(number)
    if law != "uniform":
        return draw([n], count, law, generator=generator)[0]  # type: ignore[arg-type]  # one of the other three
    p = torch.rand(count // 2, 1, generator=generator)
    C = torch.rand(count // 2, n, generator=generator) < p
    return torch.cat([C, ~C])


def precise(game: WordGame) -> LabelValues:
    """φ, β and J of every label, with little noise where coalitions are sampled."""
    return label_values(game.V, game.anchor, game.R, samples=PRECISE)
