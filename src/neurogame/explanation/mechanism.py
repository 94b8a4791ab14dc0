"""What the pooling itself says of each word: its weight α, its field J_i, its gate λ_i; and how the spins settled.

The same for every method, where the head has it: they are facts of the forward pass, not attributions.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

from neurogame._types import Float, Tensor
from neurogame.attention import NeuroGameOutput
from neurogame.explanation.reading import Reading
from neurogame.ising import SpinState
from neurogame.modeling.heads import NeuroGamePooling, SpinsOutput


@dataclass(frozen=True, eq=False)
class Mechanism:
    """Per head and read unit, averaged over the tokens of a unit; None is what the head does not have."""

    alpha: Float[Tensor, "heads read"] | None = None
    field: Float[Tensor, "heads read"] | None = None
    gate: Float[Tensor, "heads read"] | None = None
    diagnostics: dict[str, Any] = dataclasses.field(default_factory=dict)


def mechanism(reading: Reading) -> Mechanism:
    """α, J_i and λ_i of a NeuroGame head; of a control its weights, as α; nothing of a foreign model."""
    units, pooled, pooling = reading.units, reading.pooled, reading.pooling
    if pooled is None:
        return Mechanism()
    diagnostics: dict[str, Any] = {"head": reading.model.config.head}
    if isinstance(pooled.game, NeuroGameOutput | SpinsOutput):
        diagnostics |= convergence(pooled.game.spin_state)
    if pooled.weights is None:
        return Mechanism(diagnostics=diagnostics)
    weights = pooled.weights[0].cpu()
    diagnostics["outside_alpha"] = float((units.outside(weights) / weights.sum(-1)).mean())
    alpha = units.averaged(weights)
    game = pooled.game
    if not isinstance(game, NeuroGameOutput):
        return Mechanism(alpha, diagnostics=diagnostics)
    assert isinstance(pooling, NeuroGamePooling)
    diagnostics |= {"gamma": pooling.layer.gamma.tolist(), "preset": reading.model.config.preset}
    diagnostics |= {"layer_samples": game.values.samples, "layer_couplings": game.values.couplings}
    return Mechanism(
        alpha, units.averaged(game.field[0].cpu()), units.averaged(game.gate[0].cpu()), diagnostics=diagnostics
    )


def convergence(state: SpinState) -> dict[str, Any]:
    """Of the worst head: residual, iterations and ρ(J)/γ; converged if every head did."""
    converged = state.converged.flatten()
    return {
        "converged": bool(converged.all()),
        "unconverged_heads": int((~converged).sum()),
        "heads": converged.numel(),
        "residual": float(state.residual.max()),
        "iterations": int(state.iterations.max()),
        "spectral_radius": float(state.spectral_radius.max()),
    }
