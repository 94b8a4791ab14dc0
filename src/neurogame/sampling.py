"""How coalitions are drawn: counter-based hashing, the p-law with complement pairing, the paper's permutations.

A draw is a pure function of (seed, stream, head, sample, token). So it does not change when a
sequence is padded, batched with others, split over processes or evaluated in chunks; there is no
generator state to carry, and every step is a tensor operation that compiles and exports.

The p-law: draw p, then put each token into C with probability p, independently. With p ~ U(0,1),
C∖{i} follows the Shapley law for *every* token i at once; with p = ½ it follows the Banzhaf law.
Pairing C with its complement makes the estimates exact for 2-additive games, and taking p from
equal strata of (0, ½) — the complements cover (½, 1) — removes most of the variance that p brings.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import torch

from neurogame._common.types import Bool, Float, Int, Tensor

Law = Literal["shapley", "banzhaf"]


class Drawing:
    """A source of stored draws, in place of a seed; see `export.graph`."""

    def draw(self, what: Callable[..., Tensor], device: torch.device, *arguments: Any) -> Tensor:
        """The draw of `what(seed, *arguments)`, see `draw`."""
        raise NotImplementedError


Randomness = torch.Generator | Tensor | int | Drawing | None
Source = Tensor | Drawing | None  # what `draw` takes: a seed, stored draws, or None for the fixed seed

FIXED_SEED = 20260325  # evaluation without a generator: the same draws in every process
_STREAMS = {"strata": 1, "shapley": 2, "banzhaf": 3, "permutations": 4, "probes": 5, "exchange": 6}
_SHARED = 64  # draws of the fixed seed are cached for multiples of so many tokens
_LOW = 0xFFFFFFFF
_ODD = 0x45D9F3B  # an odd 27-bit multiplier: products of 32-bit words stay below 2**63, so nothing overflows
_STEP = 0x1E3779B1  # spreads consecutive counters over the word before they are mixed in


def seed_of(source: torch.Generator | Tensor | int | None, device: torch.device) -> Int[Tensor, ""]:
    """The seed of a call, as a tensor so that nothing synchronises.

    None is the fixed seed; a `torch.Generator` is asked for one; a number (or an int64 tensor) is one.
    """
    if isinstance(source, torch.Generator):
        return torch.randint(1 << 62, (), generator=source, device=source.device).to(device)
    if isinstance(source, Tensor):
        return source.to(device)
    return torch.full((), FIXED_SEED if source is None else source, dtype=torch.int64, device=device)


def source_of(generator: Randomness, device: torch.device) -> Source:
    """What the draws of a call come from: one seed for all of them, None (the fixed seed), or a `Drawing`."""
    return generator if generator is None or isinstance(generator, Drawing) else seed_of(generator, device)


def draw(what: Callable[..., Tensor], source: Source, device: torch.device, *arguments: Any) -> Tensor:
    """`what(seed, *arguments)`; cached for the fixed seed (`source` None), which every evaluation uses.

    Args:
        what: `paired`, `independent`, `permutations`, `probes` or `keys`.
        source: a seed, a `Drawing`, or None for the fixed seed.
        device: of the draw.
        arguments: of `what`, without the seed.
    """
    if isinstance(source, Drawing):
        return source.draw(what, device, *arguments)
    if source is not None or torch.compiler.is_compiling():
        return what(seed_of(source, device), *arguments)
    if what is paired:  # a draw does not depend on how many tokens follow: texts of all lengths share one
        *rest, tokens = arguments
        return _cached(what, device, *rest, -(-tokens // _SHARED) * _SHARED)[..., :tokens]
    return _cached(what, device, *arguments)


@lru_cache(maxsize=16)
def _cached(what: Callable[..., Tensor], device: torch.device, *arguments: Any) -> Tensor:
    with torch.inference_mode(mode=False):  # or the draws could never take part in a backward pass
        return what(seed_of(None, device), *arguments)


def _mix(x: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """A 32-bit avalanche: multiply by an odd constant and fold the high half back, twice."""
    x = ((x ^ (x >> 16)) * _ODD) & _LOW
    x = ((x ^ (x >> 16)) * _ODD) & _LOW
    return x ^ (x >> 16)


def words(seed: Int[Tensor, ""], stream: str, *shape: int) -> Int[Tensor, "..."]:
    """One 32-bit word per index of `shape`, a hash of (seed, stream, index_0, index_1, …); streams are independent.

    Axis by axis: only the last of the mixing steps runs at the full size.
    """
    state = _mix(_mix(seed & _LOW) ^ (seed >> 32) ^ (_STREAMS[stream] * _STEP & _LOW))
    for axis, size in enumerate(shape):
        counter = torch.arange(1, size + 1, device=seed.device) * _STEP & _LOW
        state = _mix(state.unsqueeze(-1) ^ counter) if axis else _mix(state ^ counter)
    return state


def uniforms(seed: Int[Tensor, ""], stream: str, *shape: int) -> Float[Tensor, "..."]:
    """Numbers in [0, 1) on a grid of 2^−24, exact in float32."""
    return (words(seed, stream, *shape) >> 8).to(torch.float32) * 2.0**-24


def paired(
    seed: Int[Tensor, ""], law: Law, heads: int, samples: int, tokens: int
) -> Bool[Tensor, "heads samples tokens"]:
    """Coalitions of the p-law, each with its complement: sample k + samples/2 is the complement of sample k.

    Each head has its own coalitions; `samples` is even and counts the complements.

    Example:
        >>> members = paired(seed_of(0, torch.device("cpu")), "shapley", heads=1, samples=4, tokens=3)
        >>> bool((members[0, 2:] == ~members[0, :2]).all())
        True
    """
    half = samples // 2
    uniform = uniforms(seed, law, heads, half, tokens)
    if law == "banzhaf":
        first = uniform < 0.5
    else:
        stratum = torch.arange(half, device=seed.device)
        p = (stratum + uniforms(seed, "strata", heads, half)) / (2 * half)  # in (0, ½)
        first = uniform < p.unsqueeze(-1)
    return torch.cat([first, ~first], dim=-2)


def independent(seed: Int[Tensor, ""], heads: int, samples: int, tokens: int) -> Bool[Tensor, "heads samples tokens"]:
    """Algorithm 1, Banzhaf and pairs: each token in with probability ½, no pairing."""
    return uniforms(seed, "banzhaf", heads, samples, tokens) < 0.5


def permutations(seed: Int[Tensor, ""], heads: int, samples: int, tokens: int) -> Int[Tensor, "heads samples tokens"]:
    """Algorithm 1, Shapley: uniformly random orders of arrival.

    Algorithm 1 draws, for each token anew, an order of the others and a uniform position r; the
    predecessors of i in one random order of *all* tokens have the same law, so one order serves
    every token. Each estimate keeps its distribution; only estimates of different tokens become
    dependent. Padding keeps the relative order of the real tokens.
    """
    return words(seed, "permutations", heads, samples, tokens).argsort(dim=-1, stable=True)


def probes(seed: Int[Tensor, ""], heads: int, tokens: int, count: int) -> Float[Tensor, "heads tokens probes"]:
    """Start vectors of ±1 for power iterations, stable under padding like every draw."""
    return torch.where(uniforms(seed, "probes", heads, tokens, count) < 0.5, -1.0, 1.0)


def keys(seed: Int[Tensor, ""], heads: int, tokens: int) -> Int[Tensor, "heads tokens"]:
    """One random number per token and head, to order them by."""
    return words(seed, "exchange", heads, tokens)


def exchange(
    keys: Int[Tensor, "heads tokens"], real: Bool[Tensor, "... tokens"] | None
) -> Int[Tensor, "... heads tokens"]:
    """A permutation of the real tokens that padding does not change: r-th real token ↦ the one with the r-th key."""
    if real is None:
        return keys.argsort(dim=-1, stable=True)
    keys = keys.expand(torch.broadcast_shapes(keys.shape, real.shape))
    real = real.expand(keys.shape)
    order = keys.masked_fill(~real, _LOW + 1).argsort(dim=-1, stable=True)
    place = (~real).to(torch.uint8).argsort(dim=-1, stable=True)
    return torch.empty_like(order).scatter(-1, place, order)
