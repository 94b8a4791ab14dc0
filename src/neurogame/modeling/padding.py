"""Padding on any side: a pooling sees the real tokens first, and its record comes back in the order of the input.

The draws of coalitions belong to positions, and token 0 is the anchor or the query of most heads. With
the real tokens first, neither depends on where the padding is.
"""

from dataclasses import replace

from neurogame._types import Bool, Int, Tensor
from neurogame.attention import NeuroGameOutput
from neurogame.couplings import LinearCoupling, permute_tokens
from neurogame.ising import SpinState
from neurogame.modeling.heads import SpinsOutput
from neurogame.readout import GameTerms
from neurogame.validation import reads_values
from neurogame.values import GameValues, Mean


def real_first(real: Bool[Tensor, "batch tokens"]) -> Int[Tensor, "batch tokens"] | None:
    """The order that puts real tokens first and keeps them in sequence; None where they are known to be first."""
    if reads_values(real) and not bool((real[:, 1:] & ~real[:, :-1]).any()):
        return None
    return (~real).int().argsort(dim=1, stable=True)


def inverse(order: Int[Tensor, "batch tokens"]) -> Int[Tensor, "batch tokens"]:
    """Where each token went."""
    return order.argsort(dim=1)


def gather_tokens(x: Tensor, order: Int[Tensor, "batch tokens"]) -> Tensor:
    """x[b, …, order[b, i]]: tokens are the last axis."""
    index = order.reshape(order.shape[0], *[1] * (x.dim() - 2), order.shape[1])
    return x.gather(-1, index.expand(*x.shape[:-1], order.shape[1]))


def gather_rows(x: Tensor, order: Int[Tensor, "batch tokens"]) -> Tensor:
    """x[b, order[b, i], :] of [batch, tokens, dim]."""
    return x.gather(1, order.unsqueeze(-1).expand_as(x))


Record = NeuroGameOutput | SpinsOutput | GameTerms


def restore_order(game: Record, back: Int[Tensor, "batch tokens"]) -> Record:
    """The record with token i where token `back[i]` is now; numbers per sequence stay."""
    if isinstance(game, GameTerms):
        alpha = None if game.alpha is None else gather_tokens(game.alpha, back)
        return replace(game, V=gather_tokens(game.V.mT, back).mT, alpha=alpha)
    if isinstance(game, SpinsOutput):  # its spins are no tokens
        values = _values(game.values, back)
        return replace(game, shapley=values.shapley, banzhaf=values.banzhaf, values=values)
    return replace(
        game,
        alpha=gather_tokens(game.alpha, back),
        field=gather_tokens(game.field, back),
        shapley=gather_tokens(game.shapley, back),
        banzhaf=gather_tokens(game.banzhaf, back),
        gate=gather_tokens(game.gate, back),
        coupling=_coupling(game.coupling, back),
        spin_state=_state(game.spin_state, back),
        values=_values(game.values, back),
    )


def _coupling(
    coupling: Tensor | LinearCoupling | None, back: Int[Tensor, "batch tokens"]
) -> Tensor | LinearCoupling | None:
    return None if coupling is None else permute_tokens(coupling, back.unsqueeze(1))


def _state(state: SpinState, back: Int[Tensor, "batch tokens"]) -> SpinState:
    problem = state.problem
    mask = None if problem.mask is None else gather_tokens(problem.mask, back)
    coupling = _coupling(problem.coupling, back)
    problem = replace(problem, field=gather_tokens(problem.field, back), coupling=coupling, mask=mask)
    return replace(state, spins=gather_tokens(state.spins, back), problem=problem)


def _values(values: GameValues, back: Int[Tensor, "batch tokens"]) -> GameValues:
    coupling = _coupling(values.coupling, back)
    return replace(values, coupling=coupling, phi=_mean(values.phi, back), beta=_mean(values.beta, back))


def _mean(mean: Mean, back: Int[Tensor, "batch tokens"]) -> Mean:
    omega = None if mean.omega is None else gather_tokens(mean.omega, back)
    return replace(mean, value=gather_tokens(mean.value, back), delta=gather_tokens(mean.delta, back), omega=omega)
