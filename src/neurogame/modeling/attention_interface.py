"""NeuroGame attention in the models of transformers: `attn_implementation="neurogame"`.

    α_ij ← σ((q_i + ω Σ_{k≠j} α_ik G_k)·G_j/√d + ω‖G_j‖²/(2√d) − log n_i − μ)      q, G = k, V = v of the model

The attention interface passes queries, keys and values of a layer, and the layer itself. The keys of the model are the
keys of the game. `use_neurogame_attention` adds the two parameters of a head, ω and μ, to every layer, and an entry to
the configuration, which `load_neurogame_attention` reads. A layer without them uses ω = μ = 0, which is sigmoid
attention. The mathematics is in `query_game`.
"""

import inspect
import warnings
from os import PathLike
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import sdpa_mask

from neurogame._common.types import Float, Tensor
from neurogame._common.validation import check_count, full_precision
from neurogame.players import as_bias, count_players
from neurogame.query_game import QueryGame

NAME = "neurogame"  # of the implementation, and of the module that a layer gains
ENTRY = "neurogame_attention"  # of the configuration of a swapped model: the options
# Parts of logits beyond q·k/√d: the argument of the interface, and the attribute of layers that pass it.
UNSUPPORTED = {
    "softcap": "attn_logit_softcapping",
    "s_aux": "sinks",
    "position_bias": "has_relative_attention_bias",
}


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
            value = options[name]
            got = f"a tensor {list(value.shape)}" if isinstance(value, Tensor) else repr(value)
            raise ValueError(f"{NAME!r} attention knows no {name}, got {got}")
    heads = query.shape[1]
    if key.shape[1] != heads:
        key, value = (x.repeat_interleave(heads // key.shape[1], dim=1) for x in (key, value))
    terms = getattr(module, NAME, None)
    if terms is None and not torch.compiler.is_compiling():
        _warn_or_refuse(module)
    with full_precision(query.device):
        exact = torch.float32 if query.dtype.itemsize < 4 else query.dtype
        q, G, V = (x.to(exact) for x in (query, key, value))
        if scaling is not None:
            q = q * (scaling * q.shape[-1] ** 0.5)
        queries, tokens, bias = q.shape[2], G.shape[2], None
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        if attention_mask is None and causal and queries > 1:
            attention_mask = torch.ones(1, 1, queries, tokens, dtype=torch.bool, device=q.device).tril()
        if attention_mask is not None:  # bias: −inf where a token does not play
            mask = attention_mask[..., :tokens]
            bias = as_bias("attention_mask", ~mask if mask.dtype == torch.bool else mask, q)
        count = count_players(bias, tokens, q)
        strength = None if terms is None else terms.strength.to(exact)
        price = count.log() + (q.new_zeros(heads) if terms is None else terms.background.to(exact))[:, None]
        iterations = 1 if terms is None else terms.iterations
        need_weights = options.get("output_attentions") or getattr(module.config, "output_attentions", False)
        game = QueryGame(q, G, strength, price, bias, iterations)
        out, alpha = game.attend(V, dropout=dropout, need_weights=bool(need_weights or dropout))
    return out.transpose(1, 2).to(query.dtype), None if alpha is None else alpha.to(query.dtype)


def _warn_or_refuse(module: nn.Module) -> None:
    """Raise for a layer that lacks the ω and μ it was saved with; warn, once, for one that never had them."""
    if getattr(getattr(module, "config", None), ENTRY, None) is not None:
        raise ValueError(
            f"the configuration says {ENTRY}, but this {type(module).__name__} has no ω and μ: load the model with "
            "neurogame.load_neurogame_attention, or call neurogame.use_neurogame_attention on it"
        )
    warnings.warn(
        f'attn_implementation="{NAME}" alone is sigmoid attention, without couplings; '
        "neurogame.use_neurogame_attention(model) gives every head its ω and μ",
        stacklevel=2,
    )


def register_attention() -> None:
    """Make `attn_implementation="neurogame"` known to transformers; calling it again changes nothing.

    Importing both packages does this too, as soon as transformers imports its models.

    >>> model = AutoModel.from_pretrained("bert-base-uncased", attn_implementation="neurogame")
    """
    AttentionInterface.register(NAME, neurogame_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def use_neurogame_attention(
    model: PreTrainedModel, *, iterations: int = 2, strength: float = 0.0, background: float = 0.0
) -> PreTrainedModel:
    """Swap the attention of every layer of a model for NeuroGame attention, in place, with ω and μ to be learned.

    Projections and everything else stay, so does the rest of the state dict; each attention layer gains `neurogame`
    with `strength` and `background` per head. Weights that were trained with softmax have to be trained further. What
    `save_pretrained` writes is loaded by `load_neurogame_attention`. Swapping again keeps ω and μ.

    Args:
        model: of a family that goes through the attention interface, as BERT, RoBERTa and most others do.
        iterations: updates of the mean field.
        strength: ω of every new head at the start.
        background: μ of every new head at the start.

    Returns:
        The same model.

    Raises:
        ValueError: no layer of the model goes through the attention interface, or the logits of a layer have parts that
            the game does not know (soft caps, sinks, relative positions as in T5).
    """
    check_count("iterations", iterations)
    layers = [module for module in model.modules() if _through_interface(module)]
    if not layers:
        raise ValueError(
            f"{type(model).__name__} has no layer that goes through the attention interface of transformers"
        )
    for layer in layers:
        for name, attribute in UNSUPPORTED.items():
            if getattr(layer, attribute, None) is not None:
                raise ValueError(f"{NAME!r} attention knows no {name}, and {type(layer).__name__} has one")
    model.set_attn_implementation(NAME)
    for layer in layers:
        if hasattr(layer, NAME):
            getattr(layer, NAME).iterations = iterations
            continue
        terms = HeadTerms(_heads(layer), iterations=iterations, strength=strength, background=background)
        layer.add_module(NAME, terms.to(next(layer.parameters())))
    for config in (model.config, *(layer.config for layer in layers)):
        setattr(config, ENTRY, {"iterations": iterations})
    model.config.attn_implementation = NAME  # is saved, so that nobody loads the weights as softmax by mistake
    return model


def load_neurogame_attention(folder: str | PathLike[str], model_class: Any = None, **options: Any) -> PreTrainedModel:
    """A model that was swapped by `use_neurogame_attention` and saved, with its learned ω and μ.

    >>> model = neurogame.load_neurogame_attention("runs/mine", AutoModelForSequenceClassification)

    Args:
        folder: what `save_pretrained` wrote, or the name of a model on the hub.
        model_class: an Auto class, or the class of the model; None: AutoModel.
        options: as of `from_pretrained`.

    Raises:
        ValueError: the configuration does not say that the model was swapped, or ω and μ are not among the weights.
    """
    from transformers import AutoConfig, AutoModel  # this module is imported while transformers imports these

    model_class = AutoModel if model_class is None else model_class
    config = options.pop("config", None) or AutoConfig.from_pretrained(folder)
    entry = getattr(config, ENTRY, None)
    if entry is None:
        raise ValueError(
            f"the configuration of {str(folder)!r} has no {ENTRY}: load it with from_pretrained, "
            "then neurogame.use_neurogame_attention(model)"
        )
    if not (isinstance(model_class, type) and issubclass(model_class, PreTrainedModel)):
        with torch.device("meta"):  # only its class is needed
            model_class = type(model_class.from_config(config))

    def build(self: PreTrainedModel, *args: Any, **kwargs: Any) -> None:
        model_class.__init__(self, *args, **kwargs)
        use_neurogame_attention(self, **entry)

    # from_pretrained builds the class it is called on, then fills its parameters: ω and μ must exist by then.
    swapped: Any = type(model_class.__name__, (model_class,), {"__init__": build, "__module__": model_class.__module__})
    returns_info = options.pop("output_loading_info", False)
    model, info = swapped.from_pretrained(
        folder, config=config, attn_implementation=NAME, output_loading_info=True, **options
    )
    missing = sorted(name for name in info["missing_keys"] if f".{NAME}." in name)
    if missing:
        raise ValueError(f"the weights in {str(folder)!r} have no {', '.join(missing[:3])}{', …' * (len(missing) > 3)}")
    model.__class__ = model_class
    return (model, info) if returns_info else model


def _through_interface(module: nn.Module) -> bool:
    """Whether the forward pass of a layer looks its attention up in transformers' interface."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names and hasattr(module, "config")


def _heads(layer: Any) -> int:
    """Heads of a layer, by the names that families have for them."""
    for owner in (layer, layer.config):
        for name in ("num_attention_heads", "num_heads", "n_heads"):
            if getattr(owner, name, None):
                return int(getattr(owner, name))
    raise ValueError(f"{type(layer).__name__} does not say how many heads it has")


register_attention()
