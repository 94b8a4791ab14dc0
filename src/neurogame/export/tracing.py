"""Functions of the layer as a graph of free size needs them, in their place while it is traced; one export at a time.

    ising._iterate        a loop of the graph, which ends when every row has converged, as the eager one does
    ising.transformed     False: a radius that is traced would also compute what only its gradient needs
    couplings._blocks     all rows at once: their number is not known
    torch.lgamma          from a table of the bank: ONNX has none
    torch.logaddexp       without overflow: torch.onnx writes log(eᵃ + eᵇ)
    torch.where           of truth values by logic: onnxruntime has no other
    torch.autocast        nothing: the model is in float32, and each context would become a graph of its own

Where a name is private, the reason stands here and nowhere else; `tests/test_export.py` compares the results.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from neurogame import couplings, ising
from neurogame._types import Tensor
from neurogame.couplings import LinearCoupling
from neurogame.export.bank import Bank
from neurogame.ising import Problem

_torch_where = torch.where
_SAMPLES_AT_ONCE = 8  # of the all-pairs couplings: fewer make a long graph, more take memory


@contextmanager
def traceable(bank: Bank) -> Iterator[None]:
    """The stand-ins, and silence: torch's own deprecations and hints do not concern the user who exports."""
    stand_ins: dict[tuple[Any, str], Any] = {
        (ising, "_iterate"): _loop,
        (ising, "transformed"): lambda: False,
        (couplings, "_blocks"): _all_rows,
        (torch, "lgamma"): bank.lgamma,
        (torch, "logaddexp"): _logaddexp,
        (torch, "where"): _where,
        (torch, "autocast"): _no_autocast,
    }
    own = {(module, name): getattr(module, name) for module, name in stand_ins}
    log = logging.getLogger("torch.onnx")
    level = log.level
    try:
        log.setLevel(logging.ERROR)
        for (module, name), stand_in in stand_ins.items():
            setattr(module, name, stand_in)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
        for (module, name), function in own.items():
            setattr(module, name, function)


def _loop(problem: Problem, damping: float, max_iter: int, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """`ising._iterate` as a `while_loop`; what a step reads of the problem goes in as arguments, not as a closure."""
    is_masked = problem.mask is not None
    constants = (problem.field, problem.gamma, *ising.factors(problem.coupling))
    constants = (problem.mask, *constants) if problem.mask is not None else constants

    def goes_on(t: Tensor, _: Tensor, __: Tensor, residual: Tensor, *___: Tensor) -> Tensor:
        return (t < max_iter) & (residual >= tol).any()

    def step(t: Tensor, s: Tensor, new: Tensor, residual: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        mask, rest = (given[0], given[1:]) if is_masked else (None, given)
        field, gamma, *parts = rest
        J = None if not parts else parts[0] if len(parts) == 1 else LinearCoupling(*parts)
        active = residual >= tol
        s = torch.where(active.unsqueeze(-1), s + damping * (new - s), s)
        new = Problem(field, J, gamma, mask, problem.method).update(s)
        return t + 1, s, new, torch.where(active, (new - s).abs().amax(-1), residual)

    s = torch.zeros(problem.field.shape, dtype=problem.field.dtype, device=problem.field.device)
    new = problem.update(s)
    start = (torch.zeros((), dtype=torch.int64, device=s.device), s, new, (new - s).abs().amax(-1))
    t, s, _, residual = torch.ops.higher_order.while_loop(goes_on, step, start, constants)
    return s, residual, t.expand(residual.shape)


def _all_rows(_: Tensor, samples: int, chunk: int | None) -> Iterator[tuple[slice, slice]]:
    """Blocks of some samples and all rows."""
    size = chunk or _SAMPLES_AT_ONCE
    for k in range(0, samples, size):
        yield slice(None), slice(k, k + size)


def _logaddexp(a: Tensor, b: Tensor) -> Tensor:
    top = torch.maximum(a, b)
    return top + ((a - top).exp() + (b - top).exp()).log()


def _where(condition: Tensor, *choices: Any) -> Any:
    if all(isinstance(choice, Tensor) and choice.dtype == torch.bool for choice in choices):
        yes, no = choices
        return (condition & yes) | (~condition & no)
    return _torch_where(condition, *choices)


def _no_autocast(*_: Any, **__: Any) -> AbstractContextManager[None]:
    return nullcontext()
