"""Argument checks shared by the public functions: an error names the value, what is allowed, the likely cause.

Shape and dtype checks always run. Checks that must read *values* (NaN, an empty row, γ ≤ 0) would
synchronise a GPU or break a compiled graph, so they run in eager mode on the CPU, or where the
caller asked with `validate=True`.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, get_args

import torch
from torch.autograd import forward_ad

from neurogame._common.types import Bool, Tensor

exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)  # torch 2.6 has only the latter
"""Whether `torch.export` makes a graph of free size: no size and no number may be looked at."""


def traced() -> bool:
    """Whether a graph is made of what runs."""
    return torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None


def transformed() -> bool:
    """Whether what runs is not plain eager code: a traced or compiled graph, forward-mode AD, torch.func."""
    return traced() or differentiated()


def differentiated() -> bool:
    """Whether forward-mode AD or torch.func differentiates what runs, which `requires_grad` does not say."""
    return forward_ad._current_level >= 0 or mapped()


def mapped() -> bool:
    """Whether a transform of `torch.func` is at work (vmap, grad, jacrev, …), which looks into no autograd.Function.

    Not where torch.compile makes a graph: it has an interpreter of its own on that stack.
    """
    return not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Autocast off, where it is on: elsewhere the context would become a graph of its own in an exported one."""
    on = torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)  # not on "meta"
    return torch.autocast(device.type, enabled=False) if on else nullcontext()


def reads_values(tensor: Tensor, validate: bool | None = None) -> bool:
    """Whether a check may look at the values of `tensor`: `validate`, or eager CPU if that is None."""
    if validate is not None:
        return validate
    return tensor.device.type == "cpu" and not transformed()


def check_choice(name: str, value: object, literal: Any) -> None:
    """`value` must be one of the strings of a `Literal` type."""
    allowed = get_args(literal)
    if value not in allowed:
        raise ValueError(f"{name} = {value!r} is unknown; allowed: {', '.join(map(repr, allowed))}")


def check_vectors(V: Tensor, validate: bool | None = None, name: str = "V") -> None:
    """`V` must be a floating [..., tokens, dim] tensor with at least one token and no NaN or infinity."""
    if not isinstance(V, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(V).__name__}")
    if V.dim() < 2 or V.shape[-2] < 1 or V.shape[-1] < 1:
        raise ValueError(f"{name} must have shape [..., tokens, dim] with at least one token, got {list(V.shape)}")
    if not V.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {V.dtype}; token ids instead of embeddings?")
    if not reads_values(V, validate) or bool(torch.isfinite(V.detach().sum())):  # one pass; NaN and inf survive a sum
        return
    bad = int((~torch.isfinite(V)).sum())
    if bad:
        raise ValueError(f"{name} holds {bad} NaN or infinite entries; the layer below has probably diverged")


def check_norms(V: Tensor, validate: bool | None = None, anchor: Tensor | None = None) -> None:
    """‖a + Σ_{i∈C} V_i‖² must fit the numbers of V for every coalition: an infinite one says nothing of its members.

    Args:
        V: [..., tokens, dim], float32 or float64, 0 at padding.
        validate: see `reads_values`.
        anchor: a [..., dim], on the leading axes of V; None: there is none.
    """
    if not reads_values(V, validate):
        return
    terms = V.shape[-2] + (anchor is not None)
    most = (torch.finfo(V.dtype).max / terms) ** 0.5  # ‖Σ V_i‖² ≤ n Σ ‖V_i‖², the anchor one of them
    size = float(torch.linalg.vector_norm(V.detach()))
    if anchor is not None and anchor.numel():
        offset = float(torch.linalg.vector_norm(anchor.detach(), dim=-1).max())
        if offset > most:
            raise ValueError(
                f"anchor holds numbers up to {float(anchor.detach().abs().max()):.3g}, with which the norms of "
                f"coalitions overflow {V.dtype}; scale it down with V, or use float64"
            )
        size = math.hypot(size, offset)
    if size > most:  # NaN is not silent: it stays NaN to the end
        raise ValueError(
            f"V holds numbers up to {float(V.detach().abs().max()):.3g}, with which the norms of coalitions overflow "
            f"{V.dtype}; has the layer below diverged? Scale its output down, or use float64"
        )


def check_positive(name: str, value: float | Tensor, validate: bool | None = None) -> None:
    """A temperature: a positive number, or a tensor of them."""
    if isinstance(value, Tensor):
        if reads_values(value, validate) and not bool((value > 0).all()):
            raise ValueError(f"{name} must be > 0 everywhere, its smallest entry is {float(value.min()):g}")
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number or a tensor, got {value!r}")
    elif not value > 0:  # also catches NaN
        raise ValueError(f"{name} must be > 0, got {value!r}")


def check_leading(name: str, value: float | Tensor | None, axes: torch.Size) -> None:
    """A tensor of temperatures must broadcast to the leading axes it stands for."""
    if isinstance(value, Tensor):
        try:
            torch.broadcast_shapes(value.shape, axes)
        except RuntimeError:
            shape, wanted = list(value.shape), list(axes)
            raise ValueError(f"{name} of shape {shape} does not broadcast to the leading axes {wanted}") from None


def check_count(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """A whole number of at least `least`, and at most `most` where there is a bound."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, got {value}")


def as_anchor(anchor: Tensor, V: Tensor) -> Tensor:
    """The anchor on all leading axes of V [..., tokens, dim]."""
    if not isinstance(anchor, Tensor):
        raise TypeError(f"anchor must be a torch.Tensor, got {type(anchor).__name__}")
    if anchor.is_complex():
        raise TypeError(f"anchor must hold real numbers, got {anchor.dtype}")
    shape = (*V.shape[:-2], V.shape[-1])
    try:
        return anchor.to(V.dtype).expand(shape)
    except RuntimeError:
        raise ValueError(f"anchor of shape {list(anchor.shape)} does not broadcast to {list(shape)}") from None


def as_mask(
    mask: Tensor | None, shape: torch.Size, device: torch.device, validate: bool | None = None
) -> Bool[Tensor, "..."] | None:
    """A mask of real tokens as booleans, checked against `shape` = [..., tokens]; None stays None."""
    if mask is None:
        return None
    if not isinstance(mask, Tensor):
        raise TypeError(f"mask must be a torch.Tensor, got {type(mask).__name__}")
    if mask.is_floating_point() or mask.is_complex():
        raise TypeError(
            f"mask must be bool or 0/1 integers (True = real token), got {mask.dtype}; "
            "an additive mask of 0 and -inf is the likely cause: pass mask == 0, or mask.bool() for ones and zeros"
        )
    if mask.dim() > 1 and mask.dim() != len(shape):
        raise ValueError(
            f"mask of shape {list(mask.shape)} must have as many axes as the tokens, which are {list(shape)}; "
            "[batch, 1, tokens] is one mask for all heads"
        )
    try:
        fits = mask.dim() > 0 and torch.broadcast_shapes(mask.shape, shape) == shape and mask.shape[-1] == shape[-1]
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"mask of shape {list(mask.shape)} does not fit the tokens, which are {list(shape)}")
    if reads_values(mask, validate):
        if mask.dtype != torch.bool and not bool(((mask == 0) | (mask == 1)).all()):
            raise ValueError(
                "mask must hold only 0 and 1 (1 = real token); token ids or segment ids instead of a mask?"
            )
        empty = (mask == 0).all(dim=-1)
        if bool(empty.any()):
            rows = empty.nonzero().tolist()[:3]
            raise ValueError(f"a sequence needs at least one real token; the mask is empty at index {rows}")
    return mask.to(device=device, dtype=torch.bool)
