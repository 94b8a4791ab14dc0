"""Method "game": the values inside the forward pass, φ_i, β_i and J_ij of v(C) = f(‖a + Σ_{i∈C} V_i‖) − f(‖a‖).

They are what the fields are made of, so they say which words the attention finds strong, not which label they speak
for: the game is the same for every label. Per word the pieces are summed, over heads the mean is taken:

    φ_word = mean_h Σ_{i∈word} φ_hi,   J_AB = mean_h Σ_{i∈A} Σ_{j∈B} J_hij,   Σ_words φ + outside = mean_h v_h(N)

`outside` is what special tokens hold. The couplings are in units of v, as the values are, before the layer scales them.
There are no swing words: this game takes no decision. For the "spins" head the values stand beside the path to the
logits, and the record says so.
"""

from typing import Any

import torch

from neurogame._types import Float, Tensor
from neurogame.attention import NeuroGameOutput
from neurogame.couplings import LinearCoupling
from neurogame.data.words import Units
from neurogame.explanation.reading import Attribution, Question, Reading
from neurogame.modeling.heads import NeuroGamePooling, SpinsOutput, SpinsPooling, pooling_of
from neurogame.values import Mean


def applies(model: object) -> bool:
    """Whether the model plays a game in its forward pass."""
    return isinstance(pooling_of(model), NeuroGamePooling | SpinsPooling)


def attribute(reading: Reading, _: Question) -> Attribution:
    """The layer's own values, from tokens and heads to words, whatever is asked."""
    units, game = reading.units, None if reading.pooled is None else reading.pooled.game
    assert isinstance(game, NeuroGameOutput | SpinsOutput)
    values = game.values
    phi, beta = (units.summed(x[0].double().cpu()) for x in (game.shapley, game.banzhaf))  # (heads, read)
    outside = float(units.outside(game.shapley[0].double().cpu()).mean())
    total = float(values.grand().double().mean())
    interactions = None
    if values.coupling is not None:
        J = values.coupling.to_dense() if isinstance(values.coupling, LinearCoupling) else values.coupling
        interactions = units.crossed(J[0].double().cpu()).mean(0)
    diagnostics: dict[str, Any] = {
        "exact": False,
        "samples": values.samples,
        "couplings": values.couplings,
        "shapley_ess": float(values.shapley_ess.min()),
        "banzhaf_ess": float(values.banzhaf_ess.min()),
        "total": total,
        "outside": outside,
        "efficiency_gap": abs(float(phi.mean(0).sum()) + outside - total),
        "on_path": isinstance(game, NeuroGameOutput),
    }
    return Attribution(
        scores=phi.mean(0),
        shapley=phi.mean(0),
        banzhaf=beta.mean(0),
        interactions=interactions,
        per_head={"shapley": phi, "banzhaf": beta},
        errors={"shapley_se": summed_error(values.phi, units), "banzhaf_se": summed_error(values.beta, units)},
        diagnostics=diagnostics,
    )


def summed_error(mean: Mean, units: Units) -> Float[Tensor, "read"]:
    """Standard error of mean_h Σ_{i∈word} φ_hi: √(Σ_h se_h²)/H, with se_h from the *summed* contributions of a word.

    The pieces of a word share their coalitions, so their errors are correlated and do not add in squares; the spread of
    the sums has the covariances in it. Heads draw their own coalitions and are independent.
    """
    with torch.inference_mode():
        weight = 1.0 / mean.delta.shape[-2] if mean.omega is None else mean.omega
        spread = units.summed(((mean.delta - mean.value.unsqueeze(-2)) * weight)[0].double().cpu())
        summed = Mean(torch.zeros_like(spread[:, 0]), spread, torch.ones_like(spread), mean.is_paired)
        return summed.se.square().sum(0).sqrt() / len(spread)
