"""NeuroGame attention in the models of transformers: `attn_implementation="neurogame"`.

    α_ij ← σ((q_i + ω Σ_{k≠j} α_ik G_k)·G_j/√d + ω‖G_j‖²/(2√d) − log n_i − μ)      q, G = k, V = v of the model

The attention interface hands over queries, keys and values of a layer, with the layer itself. So the keys of the model
are the keys of the game, and the two numbers of a head, ω and μ, are parameters put beside the model's own
(`use_neurogame_attention`). A layer without them plays with ω = μ = 0, which is sigmoid attention. The mathematics is
in `query_game`.
"""

from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import sdpa_mask

from neurogame._types import Float, Tensor
from neurogame.players import as_bias, count_players
from neurogame.query_game import QueryGame
from neurogame.validation import check_count

NAME = "neurogame"  # of the implementation, and of what a layer carries
UNSUPPORTED = ("softcap", "s_aux", "position_bias")  # what other logits than q·k/√d are made of


class HeadTerms(nn.Module):
    """ω and μ of the heads of one attention layer."""

    def __init__(self, heads: int, *, iterations: int = 2, strength: float = 0.0, background: float = 0.0) -> None:
        super().__init__()
        check_count("iterations", iterations)
        self.iterations = iterations
        self.strength = nn.Parameter(torch.full((heads,), float(strength)))
        self.background = nn.Parameter(torch.full((heads,), float(background)))

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"heads={len(self.strength)}, iterations={self.iterations}"


def neurogame_attention(
    module: nn.Module,
    query: Float[Tensor, "batch heads queries dim"],
    key: Float[Tensor, "batch groups tokens dim"],
    value: Float[Tensor, "batch groups tokens width"],
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **options: Any,
) -> tuple[Float[Tensor, "batch queries heads width"], Float[Tensor, "batch heads queries tokens"] | None]:
    """What a layer of transformers calls: outputs with the heads of a token side by side, and α where it is asked for.

    Args:
        module: the calling layer; its `neurogame` has ω and μ.
        query: one per head.
        key: one per head, or per group of heads.
        value: laid out as the keys.
        attention_mask: True at players, or numbers added to the logits; [batch, 1, queries, tokens].
        scaling: of q·G; None: 1/√dim.
        dropout: of weights.
        is_causal: without a mask, whether query i plays with tokens 0 … i; None: as the layer says.
        options: what else transformers passes; `output_attentions` returns α.
    """
    for name in UNSUPPORTED:
        if options.get(name) is not None:
            raise ValueError(f"{NAME!r} attention knows no {name}, got {options[name]!r}")
    heads = query.shape[1]
    if key.shape[1] != heads:
        key, value = (x.repeat_interleave(heads // key.shape[1], dim=1) for x in (key, value))
    terms = getattr(module, NAME, None)
    with torch.autocast(query.device.type, enabled=False):
        exact = torch.float32 if query.dtype.itemsize < 4 else query.dtype
        q, G, V = (x.to(exact) for x in (query, key, value))
        if scaling is not None:
            q = q * (scaling * q.shape[-1] ** 0.5)
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        bias, count = _bias(attention_mask, q, G.shape[2], causal=bool(causal) and query.shape[2] > 1)
        strength = None if terms is None else terms.strength.to(exact)
        price = count.log() + (q.new_zeros(heads) if terms is None else terms.background.to(exact))[:, None]
        iterations = 1 if terms is None else terms.iterations
        asked = options.get("output_attentions") or getattr(module.config, "output_attentions", False)
        game = QueryGame(q, G, strength, price, bias, iterations)
        out, alpha = game.attend(V, dropout=dropout, need_weights=bool(asked or dropout))
    return out.transpose(1, 2).to(query.dtype), None if alpha is None else alpha.to(query.dtype)


def _bias(mask: Tensor | None, like: Tensor, tokens: int, *, causal: bool) -> tuple[Tensor | None, Tensor]:
    """What is added to the logits, −inf where a token does not play, and the number of players."""
    if mask is None and causal:
        mask = torch.ones(1, 1, like.shape[2], tokens, dtype=torch.bool, device=like.device).tril()
    if mask is None:
        return None, count_players(None, tokens, like)
    mask = mask[..., :tokens]
    bias = as_bias("attention_mask", ~mask if mask.dtype == torch.bool else mask, like)
    return bias, count_players(bias, tokens, like)


def register_attention() -> None:
    """Make `attn_implementation="neurogame"` known to transformers; calling it again changes nothing.

    >>> neurogame.register_attention()
    >>> model = AutoModel.from_pretrained("bert-base-uncased", attn_implementation="neurogame")
    """
    AttentionInterface.register(NAME, neurogame_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def use_neurogame_attention(
    model: PreTrainedModel, *, iterations: int = 2, strength: float = 0.0, background: float = 0.0
) -> PreTrainedModel:
    """Swap the attention of every layer of a model for NeuroGame attention, in place, with ω and μ to be learned.

    Projections and everything else stay, so does the rest of the state dict; each attention layer gains `neurogame`
    with `strength` and `background` per head. Weights that were trained with softmax have to be trained further. To
    load what was saved, build the model, call this, then `load_state_dict`.

    Args:
        model: of a family that goes through the attention interface, as BERT, RoBERTa and most others do.
        iterations: updates of the mean field.
        strength: ω of every head at the start.
        background: μ of every head at the start.

    Returns:
        The same model.

    Raises:
        ValueError: no layer of the model goes through the attention interface.
    """
    register_attention()
    layers = [module for module in model.modules() if hasattr(module, "scaling") and hasattr(module, "config")]
    if not layers:
        raise ValueError(
            f"{type(model).__name__} has no layer that goes through the attention interface of transformers"
        )
    model.set_attn_implementation(NAME)
    for layer in layers:
        heads = getattr(layer, "num_attention_heads", None) or getattr(layer, "num_heads", None)
        heads = heads or layer.config.num_attention_heads
        terms = HeadTerms(int(heads), iterations=iterations, strength=strength, background=background)
        one = next(layer.parameters())
        layer.add_module(NAME, terms.to(device=one.device, dtype=one.dtype))
    return model
