"""Method "decision": what each word adds to the logit of a label, as a cooperative game on the head alone.

    v(C) = ℓ(S ∪ C) − ℓ(∅),   ℓ(A) = logit_target(classifier(Σ_{i∈A} c_i)) [− logit_contrast(…)]

The encoder and the weights α stay as they are; c_i = W_O [α_1i V_1i … α_Hi V_Hi] is what token i adds to the pooled
vector, so everything between that and the logits (norm, hidden layers) is inside the game. The players are the words,
each with all its pieces at once. S are the special tokens: always present, as in every input, and never a player. So

    Σ_words φ  +  outside  =  total,   outside = v(∅) = ℓ(S) − ℓ(∅),   total = v(N) = the model's logit − ℓ(∅)

Up to EXACT words all coalitions are enumerated; above, they are sampled, and the errors are reported. Interactions
follow the Banzhaf law, as the couplings of the layer do.

A *swing word* is one without which, all others left in place, the head decides otherwise: another label gets the
largest logit, or, with a contrast, the other of the two.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from neurogame import exact
from neurogame._common.types import Bool, Float, Tensor
from neurogame.explanation.methods import grounded
from neurogame.explanation.reading import Attribution, Passes, Question, Reading, is_grounded
from neurogame.explanation.removal import InputGame
from neurogame.modeling.heads import pooling_of
from neurogame.modeling.model import FeedForward
from neurogame.outputs import Outputs
from neurogame.readout import balance
from neurogame.values import estimate_game

EXACT = 12  # words up to which all 2ⁿ coalitions are evaluated
EVALUATIONS = 1 << 13  # of the classifier above that, for the values: 2·K·(n + 1) with K coalitions per law
SAMPLES = (64, 256)  # least and most of these K
PAIR_EVALUATIONS = 1 << 12  # for the interactions, which need n(n − 1)/2 evaluations per coalition
_BLOCK = 1024  # coalitions evaluated at once


@dataclass(frozen=True, eq=False)
class Game:
    """ℓ(S ∪ C) on the classifier of a model."""

    terms: Float[Tensor, "terms dim"]  # Σ of c_i over the tokens of each word, and last over the special tokens
    classifier: FeedForward
    direction: Float[Tensor, "labels"]  # 1 at the target, −1 at the contrast
    passes: Passes = field(default_factory=Passes)

    @property
    def players(self) -> int:
        """n."""
        return len(self.terms) - 1

    def logits(self, C: Bool[Tensor, "... players"]) -> Float[Tensor, "... labels"]:
        """All logits of each coalition, the special tokens always with it."""
        logits = []
        with torch.inference_mode():
            for block in nn.functional.pad(C.reshape(-1, C.shape[-1]), (0, 1), value=1).split(_BLOCK):
                self.passes.add_head(len(block))
                logits.append(self.classifier.of_sums(block.to(self.terms), self.terms))
            return torch.cat(logits).reshape(*C.shape[:-1], -1).double().cpu()

    def __call__(self, C: Bool[Tensor, "... players"]) -> Float[Tensor, "..."]:
        """ℓ(S ∪ C)."""
        return self.logits(C) @ self.direction

    @property
    def origin(self) -> float:
        """ℓ(∅): nothing is pooled at all."""
        self.passes.add_head(1)
        with torch.inference_mode():
            return float(self.classifier(torch.zeros_like(self.terms[:1])).double().cpu()[0] @ self.direction)


def applies(model: object) -> bool:
    """Whether there is a game of the decision: a grounded one, or what the model classifies is a sum over tokens."""
    pooling = pooling_of(model)
    return is_grounded(model) or (pooling is not None and pooling.additive)


def game_of(reading: Reading, target: str, contrast: str | None) -> Game:
    """The decision game of a pair."""
    classifier = reading.model.classifier
    assert isinstance(classifier, FeedForward)
    with torch.inference_mode():
        c = reading.terms()[0]  # (tokens, dim)
        terms = torch.cat([reading.units.sum(c.mT), reading.units.outside(c.mT).unsqueeze(-1)], -1).mT
    return Game(terms, classifier, Question(target, contrast).direction(reading.nli.labels), reading.passes)


def attribute(reading: Reading, question: Question) -> Attribution:
    """Shapley, Banzhaf, interactions and swing words; `question.samples` coalitions per law where they are sampled.

    Where the model has a grounded game, that is the game of the decision, see `grounded`.
    """
    assert question.target is not None
    if reading.game is not None:
        return grounded.attribute(reading, question)
    v = game_of(reading, question.target, question.contrast)
    n = v.players
    values = (
        enumerate_game(v, n) if n <= EXACT else _sample(v, n, question.samples or default_samples(n), question.seed)
    )
    everyone = torch.ones(n, dtype=torch.bool)
    logits = v.logits(everyone)
    origin, outside, total = v.origin, float(v(~everyone)), float(logits @ v.direction)
    swing, becomes = swings(v, reading.nli.outputs, question)
    assert values.shapley is not None
    diagnostics: dict[str, Any] = {"origin": origin, "outside": outside - origin, "total": total - origin}
    diagnostics["efficiency_gap"] = abs(float(values.shapley.sum()) + outside - total)
    diagnostics |= {"logit_error": float((logits - reading.logits).abs().max()), "swing_to": becomes}
    return replace(values, swing=swing, diagnostics={**values.diagnostics, **diagnostics})


def enumerate_game(v: Game | InputGame, n: int) -> Attribution:
    """All 2ⁿ coalitions."""
    table = v(exact.all_coalitions(n))
    phi, zero, ess = exact.shapley(table), torch.zeros(n), float(len(table))
    diagnostics = {"exact": True, "samples": len(table), "couplings": "pairs"}
    diagnostics |= {"shapley_ess": ess, "banzhaf_ess": ess, "interactions_se": 0.0}
    beta, J, errors = exact.banzhaf(table), exact.interactions(table), {"shapley_se": zero, "banzhaf_se": zero}
    return Attribution(phi, phi, beta, J, errors=errors, diagnostics=diagnostics)


def default_samples(n: int) -> int:
    """Coalitions per law for n words, so that the number of evaluations hardly depends on n."""
    return max(SAMPLES[0], min(SAMPLES[1], EVALUATIONS // (2 * (n + 1)) // 2 * 2))


def _sample(v: Game, n: int, samples: int, seed: int) -> Attribution:
    """Values from `samples` coalitions per law; pairs from as many as PAIR_EVALUATIONS allows.

    The pairs come in two independent halves, whose difference is their error.
    """
    values = estimate_game(v, n, samples=samples, couplings="none", generator=3 * seed)
    phi = balance(values.phi, values.grand(), v.terms[:-1].double().cpu().norm(dim=-1))
    half = max(4, min(SAMPLES[0], PAIR_EVALUATIONS // (n * (n - 1)) // 2 * 2))
    draws = (3 * seed + 1, 3 * seed + 2)
    halves = [estimate_game(v, n, samples=half, couplings="pairs", generator=draw).coupling for draw in draws]
    first, second = (J for J in halves if isinstance(J, Tensor))
    pairs = ~torch.eye(n, dtype=torch.bool)
    diagnostics = {"exact": False, "samples": values.samples, "pair_samples": 2 * half, "couplings": "pairs"}
    diagnostics["sampled_gap"] = float(values.efficiency_gap)  # before `balance`
    diagnostics |= {name: float(getattr(values, name).min()) for name in ("shapley_ess", "banzhaf_ess")}
    diagnostics["interactions_se"] = float((first - second)[pairs].square().mean().sqrt() / 2.0)  # of a typical pair
    errors = {"shapley_se": phi.se, "banzhaf_se": values.banzhaf_se}
    J = (first + second) / 2.0
    return Attribution(phi.value, phi.value, values.banzhaf, J, errors=errors, diagnostics=diagnostics)


def swings(v: Game | InputGame, outputs: Outputs, question: Question) -> tuple[tuple[int, ...], list[str]]:
    """Words whose absence changes the decision, and to what; none where nothing is decided."""
    if not outputs.decides:
        return (), []
    assert question.target is not None
    n = v.players
    present = torch.cat([torch.ones(1, n, dtype=torch.bool), ~torch.eye(n, dtype=torch.bool)])
    now, *then = (outputs.decision(z, question.target, question.contrast) for z in v.logits(present))
    swing = tuple(i for i, label in enumerate(then) if label != now)
    return swing, [then[i] for i in swing]
