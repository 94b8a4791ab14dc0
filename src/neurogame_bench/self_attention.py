"""What self-attention by games costs, as ratios to softmax self-attention measured in the same run.

Reference: `torch.nn.MultiheadAttention(768, 12, batch_first=True)` in eval mode, `need_weights=False`. Ours:
`NeuroGameSelfAttention` of the same sizes with two and three updates, without couplings, and as sigmoid attention.
`scaled_dot_product_attention` alone, without projections, stands beside. All return one vector per token.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from neurogame.self_attention import NeuroGameSelfAttention
from neurogame_bench.timing import Clock, Progress, Run, interleaved, peak_memory

DIM, HEADS = 768, 12
CASES: tuple[tuple[int, int, bool], ...] = ((8, 128, False), (8, 128, True), (8, 512, False), (8, 512, True))
KINDS: dict[str, dict[str, Any]] = {
    "couplings": {"iterations": 2},
    "couplings, 3 updates": {"iterations": 3},
    "no couplings": {"couplings": False},
    "sigmoid": {"couplings": False, "contribution": False},
}
TARGETS = {"couplings": 2.0, "no couplings": 1.15}  # ratio to MHA, as they were set before the work began
TARGET_MEMORY = 1.5


def run(
    *, repetitions: int, progress: Progress, clock: Clock = time.perf_counter, batch: int | None = None
) -> dict[str, Any]:
    """All rows: times of every case, at another batch if one is given, peak memory with backward, multiply–adds."""
    rows = []
    for usual, tokens, backward in CASES:
        size = batch or usual
        what = "forward + backward" if backward else "forward"
        progress(f"self-attention, batch {size}, n = {tokens}, {what}")
        x = torch.randn(size, tokens, DIM, generator=torch.Generator().manual_seed(0))
        seconds = interleaved(_runs(x, backward=backward), repetitions, clock)
        reference = seconds["MHA"]
        ratios = {name: s / reference for name, s in seconds.items() if name != "MHA"}
        rows.append({"batch": size, "tokens": tokens, "pass": what, "MHA ms": reference * 1e3, **ratios})
    return {
        "cases": rows,
        "memory": _memory(progress),
        "operations": [operations(usual, tokens) for usual, tokens, backward in CASES if not backward],
    }


def _runs(x: Tensor, *, backward: bool) -> dict[str, Run]:
    """Name → call to be timed."""
    torch.manual_seed(0)
    modules: dict[str, nn.Module] = {"MHA": nn.MultiheadAttention(DIM, HEADS, batch_first=True).eval()}
    for name, options in KINDS.items():
        given = {**options, **({} if name == "sigmoid" else {"strength": 0.1})}
        modules[name] = NeuroGameSelfAttention(DIM, HEADS, batch_first=True, **given).eval()

    def called(module: nn.Module) -> Callable[[Tensor], Tensor]:
        return lambda x: module(x, x, x, need_weights=False)[0]

    forwards = {name: called(module) for name, module in modules.items()} | {"SDPA alone": attention_alone}
    learned = [parameter for module in modules.values() for parameter in module.parameters()]
    return {name: timed_pass(forward, x, learned, backward=backward) for name, forward in forwards.items()}


def timed_pass(
    forward: Callable[[Tensor], Tensor], x: Tensor, learned: Sequence[nn.Parameter], *, backward: bool
) -> Run:
    """A call to be timed: forward without gradients, or forward and backward.

    Args:
        forward: of x.
        x: the input.
        learned: parameters whose gradients are cleared before each backward pass.
        backward: whether there is one.
    """

    def only_forward() -> None:
        with torch.no_grad():
            forward(x)

    def both() -> None:
        for parameter in learned:
            parameter.grad = None
        forward(x.detach().requires_grad_()).sum().backward()

    return both if backward else only_forward


def attention_alone(x: Tensor) -> Tensor:
    """`scaled_dot_product_attention` of x with itself, without projections."""
    q = x.unflatten(-1, (HEADS, DIM // HEADS)).transpose(1, 2)
    return scaled_dot_product_attention(q, q, q)


_SETUP = """
import torch
from torch import nn
from neurogame import NeuroGameSelfAttention
module = {module}.eval()
def run(x):
    module(x, x, x, need_weights=False)[0].sum().backward()
warm, real = (torch.randn(1, 16, {dim}),), (torch.randn({batch}, {tokens}, {dim}, requires_grad=True),)
"""


def _memory(progress: Progress) -> list[dict[str, Any]]:
    """Peak extra bytes of forward and backward at the longest case, in processes of their own."""
    batch, tokens, _ = max(CASES, key=lambda case: case[1])
    progress(f"self-attention, peak memory, n = {tokens}")
    own = f"({DIM}, {HEADS}, batch_first=True"
    modules = {"MHA": f"nn.MultiheadAttention{own})"} | {
        name: f"NeuroGameSelfAttention{own}, **{KINDS[name]!r})" for name in TARGETS
    }
    sizes = {
        name: peak_memory(_SETUP.format(module=module, dim=DIM, batch=batch, tokens=tokens))
        for name, module in modules.items()
    }
    return [{"batch": batch, "tokens": tokens, **sizes}]


def operations(batch: int, tokens: int) -> dict[str, float]:
    """Multiply–adds in millions, forward and with backward, and their ratios to MHA: what bounds the times.

    A product of queries × tokens with vectors of the head is the unit of attention: 2 of softmax and of sigmoid, 2 more
    for each further update. The backward pass repeats the forward products but the last, and has two for each of them.
    """
    unit = batch * tokens**2 * DIM / 1e6
    project = 4 * batch * tokens * DIM * DIM / 1e6
    updates = {"MHA": 1, "no couplings": 1, "couplings": 2, "couplings, 3 updates": 3}
    forward = {name: project + 2 * t * unit for name, t in updates.items()}
    both = {name: 3 * project + (2 * t + 2 * t - 1 + 4 * t) * unit for name, t in updates.items()}
    counts: dict[str, float] = {"batch": batch, "tokens": tokens}
    for name in updates:
        counts[f"{name}, forward"] = forward[name]
        counts[f"{name}, forward + backward"] = both[name]
    for name in list(updates)[1:]:
        counts[f"{name}, ratio forward"] = forward[name] / forward["MHA"]
        counts[f"{name}, ratio forward + backward"] = both[name] / both["MHA"]
    return counts
