"""Who plays for a query: masks as what is added to the logits, −inf where a token is closed, and n_i.

A closed token is not worth little, it is not there: it has no value, exerts no force and is not counted in n_i. Masks
are those of `nn.MultiheadAttention`: True closes, numbers are added.
"""

import torch

from neurogame._common.types import Bool, Float, Tensor

CLOSED = -1e4  # a number at or below it closes the token


def attention_bias(
    shape: tuple[int, int, int, int],
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    is_causal: bool,
    like: Tensor,
) -> Float[Tensor, "#batch #heads #queries tokens"] | None:
    """What all masks together add to the logits, −inf where a token is closed; None: nothing.

    `shape` is batch, heads, queries, tokens; the masks are those of `NeuroGameSelfAttention.forward`, and TypeError or
    ValueError names one of another type or shape. The result has the dtype and device of `like`.
    """
    batch, heads, queries, tokens = shape
    biases = []
    if key_padding_mask is not None:
        given = list(key_padding_mask.shape)
        if given != [batch, tokens] and not (batch == 1 and given == [tokens]):
            raise ValueError(f"key_padding_mask must be [batch, tokens] = {[batch, tokens]}, got {given}")
        biases.append(as_bias("key_padding_mask", key_padding_mask, like).reshape(batch, 1, 1, tokens))
    if attn_mask is not None:
        if tuple(attn_mask.shape) not in ((queries, tokens), (batch * heads, queries, tokens)):
            raise ValueError(
                f"attn_mask must be [queries, tokens] = {[queries, tokens]} or [batch·heads, queries, tokens] = "
                f"{[batch * heads, queries, tokens]}, got {list(attn_mask.shape)}"
            )
        lead = (1, 1) if attn_mask.dim() == 2 else (batch, heads)
        biases.append(as_bias("attn_mask", attn_mask, like).reshape(*lead, queries, tokens))
    if is_causal:
        later = torch.ones(queries, tokens, dtype=torch.bool, device=like.device).triu(1)
        biases.append(as_bias("is_causal", later, like)[None, None])
    return sum(biases[1:], start=biases[0]) if biases else None


def count_players(
    bias: Float[Tensor, "#batch #heads #queries tokens"] | None, tokens: int, like: Tensor
) -> Float[Tensor, "#batch #heads #queries"]:
    """n_i: the tokens that are not closed to query i; at least 1, so that its logarithm is finite."""
    if bias is None:
        return like.new_full((1, 1, 1), tokens)  # an exported graph may leave the number open
    return (bias.detach() > CLOSED).sum(-1).clamp(min=1).to(like.dtype)


def player_mask(
    bias: Float[Tensor, "#batch #heads #queries tokens"] | None,
) -> Bool[Tensor, "#batch #heads #queries tokens"] | None:
    """Who plays for whom; None: all tokens."""
    return None if bias is None else bias > CLOSED


def as_bias(name: str, mask: Tensor, like: Tensor) -> Tensor:
    """True (closed) as −inf, False as 0; numbers as they are."""
    if mask.is_floating_point():
        mask = mask.to(like.dtype)
        return mask.masked_fill(mask <= CLOSED, -torch.inf)
    if mask.dtype != torch.bool:
        raise TypeError(
            f"{name} must be bool (True = closed) or floating point (added to the logits), got {mask.dtype}; "
            "an attention_mask with 1 at real tokens becomes attention_mask == 0"
        )
    return like.new_zeros(mask.shape).masked_fill(mask, -torch.inf)


def pad_nested(x: Tensor) -> tuple[Tensor, Bool[Tensor, "batch tokens"] | None]:
    """A nested tensor as [batch, tokens, dim] with zeros, and True at them; None for a tensor that is not nested."""
    if not x.is_nested:
        return x, None
    lengths = torch.tensor([len(row) for row in x.unbind()], device=x.device)
    whole = torch.nested.to_padded_tensor(x, 0.0)
    return whole, torch.arange(whole.shape[1], device=x.device) >= lengths[:, None]


def nested_like(x: Float[Tensor, "batch tokens dim"], like: Tensor) -> Tensor:
    """The tokens of `x` that the nested tensor `like` has, in its layout."""
    rows = [row[: len(own)] for row, own in zip(x, like.unbind(), strict=True)]
    if like.layout == torch.jagged:  # the same offsets, so that the two can be added
        return torch.nested.nested_tensor_from_jagged(torch.cat(rows), offsets=like.offsets())  # type: ignore[attr-defined]
    return torch.nested.as_nested_tensor(rows)
