"""A reading at another temperature: γ of every head times r, the spins solved again.

    ⟨s⟩ = tanh((J_i + Σ_j J_ij ⟨s_j⟩)/(r·γ)),  α = (1 + ⟨s⟩)/2,  Σ_i c_i(α) ──classify──▶ logits

Fields and couplings stay as the layer found them at its own γ. As r → 0 every α goes to 0 or 1, as r → ∞ to ½. The
model itself is never touched, so one model can answer many such questions at once.
"""

from dataclasses import replace

import torch

from neurogame import ising
from neurogame.attention import NeuroGameOutput
from neurogame.explanation.reading import Reading, check_temperature, is_grounded
from neurogame.modeling.heads import NeuroGamePooling, Pooled, pooling_of

FOLLOWING = frozenset({"decision", "game", "attention"})  # methods on the pooling as read; others ask the model
_MOST_STEPS = 5000  # a cold system needs short steps, so many of them
_SAFE = 0.95  # ρ(J)/γ up to which the layer's own steps are kept


def has_temperature(model: object) -> bool:
    """Whether the weights of the pooling, or of a grounded game, are spins with a temperature."""
    pooling = pooling_of(model)
    solved = isinstance(pooling, NeuroGamePooling) and pooling.layer.config.spins == "solved"
    return is_grounded(model) or solved


def heated(reading: Reading, factor: float) -> Reading:
    """The pair with γ of every head multiplied by `factor`, solved from s = 0; 1 is the reading itself."""
    check_temperature(factor)
    if factor == 1:
        return reading
    pooling = reading.pooling
    if not isinstance(pooling, NeuroGamePooling) or pooling.layer.config.spins != "solved":
        raise ValueError(
            f"temperature_factor = {factor:g}: {reading.nli.name} has no temperature γ; a model with the head "
            "'neurogame' and spins that are solved has one"
        )
    game = None if reading.pooled is None else reading.pooled.game
    assert isinstance(game, NeuroGameOutput)
    problem, damping = game.spin_state.problem, pooling.layer.config.damping
    # Below the layer's own γ the equations may have several solutions and undamped steps swing between them: with steps
    # 1/(1 + ρ(J)/γ) every minimum of the free energy attracts, and the one reached from s = 0 is taken.
    radius = float(game.spin_state.spectral_radius.max()) / factor
    with torch.inference_mode():
        state = ising.solve(
            problem.field,
            problem.coupling,
            problem.gamma * factor,
            method=problem.method,
            damping=damping if radius < _SAFE else min(damping, 1.0 / (1.0 + radius)),
            max_iter=_MOST_STEPS,
            mask=problem.mask,
            validate=False,
        )
        output = reading.terms(state.alpha).sum(1)  # (1, dim): W_O has no bias
        logits = reading.model.classify(output)[0].float().cpu()
    prediction = reading.nli.prediction(logits, truncated=reading.prediction.truncated)
    pooled = Pooled(output, state.alpha, replace(game, output=output, alpha=state.alpha, spin_state=state))
    return replace(reading, prediction=prediction, pooled=pooled)
