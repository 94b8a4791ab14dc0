"""Padding on any side: poolings get the real tokens first, and their records are put back into the order of the input.

Coalitions are drawn by position, and token 0 is the anchor or the query of most heads. With the real tokens first,
neither depends on where the padding is.
"""

from dataclasses import replace
from typing import Any

from neurogame._common.types import Bool, Int, Tensor
from neurogame._common.validation import reads_values
from neurogame.attention import NeuroGameOutput
from neurogame.couplings import permute_tokens
from neurogame.modeling.heads import SpinsOutput
from neurogame.readout import GameTerms


def real_first(real: Bool[Tensor, "batch tokens"]) -> Int[Tensor, "batch tokens"] | None:
    """The order that puts real tokens first and keeps them in sequence; None where they are known to be first."""
    if reads_values(real) and not bool((real[:, 1:] & ~real[:, :-1]).any()):
        return None
    return (~real).int().argsort(dim=1, stable=True)


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
        return replace(_reordered(game, back, "alpha"), V=gather_tokens(game.V.mT, back).mT)
    values = game.values
    phi, beta = (_reordered(mean, back, "value delta omega") for mean in (values.phi, values.beta))
    values = replace(_reordered(values, back), phi=phi, beta=beta)
    if isinstance(game, SpinsOutput):  # its spins are no tokens
        return replace(game, shapley=values.shapley, banzhaf=values.banzhaf, values=values)
    problem = _reordered(game.spin_state.problem, back, "field mask")
    state = replace(_reordered(game.spin_state, back, "spins"), problem=problem)
    return replace(_reordered(game, back, "alpha field shapley banzhaf gate"), spin_state=state, values=values)


def _reordered(record: Any, back: Int[Tensor, "batch tokens"], fields: str = "") -> Any:
    """A record with the named fields in another order of tokens, and its couplings, where there are any."""
    tensors = {name: getattr(record, name) for name in fields.split()}
    moved: dict[str, Any] = {name: None if x is None else gather_tokens(x, back) for name, x in tensors.items()}
    if getattr(record, "coupling", None) is not None:
        moved["coupling"] = permute_tokens(record.coupling, back.unsqueeze(1))
    return replace(record, **moved)
