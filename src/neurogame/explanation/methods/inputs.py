"""Methods "input" and "occlusion": what the model says when words are missing from its input.

    input       v(C) = ℓ(x_C) − ℓ(x_∅): Shapley, Banzhaf and interactions of the words that are left in the text
    occlusion   ℓ(x) − ℓ(x∖i): one word deleted, all others left in place

ℓ is the logit of the target, or the target's minus the contrast's; x_C is `removal`'s, words deleted. Any sequence
classifier will do: nothing is asked of it but logits. Each v(C) is a forward pass, so "input" enumerates up to EXACT
words only and estimates by `regression` beyond them, from PASSES passes in all. Interactions follow the Banzhaf law.
The shares add up to the model's own logit: Σφ = total, origin + total = ℓ(x), origin = ℓ(x_∅).
"""

from dataclasses import replace
from typing import Any

import torch

from neurogame._types import Float, Tensor
from neurogame.explanation import regression
from neurogame.explanation.methods.decision import enumerate_game, swings
from neurogame.explanation.reading import Attribution, Question, Reading
from neurogame.explanation.removal import InputGame

EXACT = 10  # words up to which all 2ⁿ coalitions are evaluated
PASSES = 600  # forward passes beyond that, or three per word if that is more


def attribute(reading: Reading, question: Question) -> Attribution:
    """Method "input"; `question.samples` forward passes, enumeration where they suffice for it."""
    v = InputGame.of(reading, question)
    n, samples = v.players, question.samples
    enough = 2**n <= (2**EXACT if samples is None else samples)
    values = enumerate_game(v, n) if enough else _estimate(v, n, question)
    assert values.shapley is not None
    swing, becomes = swings(v, reading.nli.outputs, question)
    diagnostics = {**values.diagnostics, **account(v, values.shapley), "swing_to": becomes}
    return replace(values, swing=swing, diagnostics=diagnostics)


def occlusion(reading: Reading, question: Question) -> Attribution:
    """Method "occlusion"; n + 1 forward passes."""
    v = InputGame.of(reading, question)
    n = v.players
    present = torch.cat([torch.ones(1, n, dtype=torch.bool), ~torch.eye(n, dtype=torch.bool)])
    whole, without = v(present).split([1, n])
    swing, becomes = swings(v, reading.nli.outputs, question)
    return Attribution(whole - without, swing=swing, diagnostics={"removal": v.mode, "swing_to": becomes})


def account(v: InputGame, shares: Float[Tensor, "players"]) -> dict[str, Any]:
    """How shares of ℓ(x) − ℓ(x_∅) add up; special tokens are in every x_C and hold nothing."""
    nobody, everyone = v.logits(torch.tensor([[False], [True]]).expand(2, v.players))
    origin, total = float(nobody @ v.direction), float((everyone - nobody) @ v.direction)
    return {
        "origin": origin,
        "outside": 0.0,
        "total": total,
        "efficiency_gap": abs(float(shares.sum()) - total),
        "logit_error": float((everyone - v.reading.logits).abs().max()),
        "removal": v.mode,
    }


def _estimate(v: InputGame, n: int, question: Question) -> Attribution:
    """From as many pairs of coalitions as the passes allow; swing words need no more, each N∖i is among them."""
    passes = max(PASSES, 3 * n) if question.samples is None else question.samples
    least = min(2**n, 2 * n + 2)
    if passes < least:
        raise ValueError(f"samples = {passes}: method = 'input' needs at least {least} forward passes for {n} words")
    fit = regression.estimate(v, n, pairs=passes // 2 - 1, seed=question.seed)
    return Attribution(
        fit.shapley.value,
        fit.shapley.value,
        fit.banzhaf.value,
        fit.interactions,
        errors={"shapley_se": fit.shapley.se, "banzhaf_se": fit.banzhaf.se},
        diagnostics={
            "exact": False,
            "coalitions": fit.coalitions,
            "couplings": "none" if fit.interactions is None else "pairs",
            "shapley_ess": 2.0 * fit.shapley.ess,  # in coalitions: a row is a pair of them
            "banzhaf_ess": 2.0 * fit.banzhaf.ess,
            "interactions_se": fit.interactions_se,
        },
    )
