"""The Hamiltonian of a decision: a quadratic account of a game, one label's logit as a function of the words left in.

    g(σ) = c₀ + ½ Σ_i φ_i σ_i + ¼ Σ_{i<j} J_ij σ_i σ_j          σ_i = +1: word i is in, −1: it is out

φ are the Shapley or Banzhaf values of the words, J their pair interactions; c₀ is such that g(∅) = base, the logit of
the empty text. Then g(N) = base + Σφ: with Shapley values both ends are those of the game, whatever J. −g is the
paper's Hamiltonian, so the energy of a configuration is minus the logit of the text it leaves.

Up to EXACT coupled words everything is enumerated; words without couplings are independent and do not count. Above,
marginals are mean field and the ground state is a local search; the records say so. How φ and J are
estimated is in `values` and `readout`.
"""

from dataclasses import dataclass
from math import tanh
from typing import Any

import numpy as np
import torch

from neurogame import exact, ising
from neurogame._common.types import Bool, Float, Tensor
from neurogame._common.validation import check_positive
from neurogame.spectrum import spectral_radius

EXACT = 16  # coupled words up to which all configurations are enumerated
_BLOCK = 1 << 12  # configurations evaluated at once
_UPDATES, _SWEEPS = 200, 1000  # of the mean field at most: of all spins at once, and one after the other
_DAMPING = 0.7  # of the updates of all spins at once
_TOL = 1e-6  # the largest residual of a solution
_STAGES, _STAGE_SWEEPS = 12, 20  # of annealing: temperatures, and sweeps at each
_COLD = 0.01  # where annealing ends for the ground state, in units of ρ(J)
_ROWS = 32  # words whose own couplings are a start for the ground state
_ROUNDING = 1e-12  # differences of g below it, relative to the sum of its terms, are ties
_ZERO = 1e-30  # temperatures below it, relative to the same, are 0: far below rounding, and g/γ is still finite
_SYMMETRIC = 1e-6  # |J_ij − J_ji| relative to the largest |J|: float32 sums in another order


@dataclass(frozen=True, eq=False)
class Marginals:
    """α, and how far to trust it."""

    alpha: Float[Tensor, "words"]  # P(σ_i = +1) under exp(g/γ)
    exact: bool  # by enumeration; False: mean field
    converged: bool  # True where exact
    residual: float  # max_i |tanh(h_i/γ) − ⟨σ_i⟩| of the mean field; 0 where exact


@dataclass(frozen=True, eq=False)
class GroundState:
    """The words with the largest g, and whether that is certain."""

    words: Bool[Tensor, "words"]
    value: float  # g(words)
    exact: bool  # by enumeration; False: no single word or pair of words can be flipped to advantage


class Hamiltonian:
    """g(σ) = c₀ + ½ Σ φ_i σ_i + ¼ Σ_{i<j} J_ij σ_i σ_j with g(∅) = base; everything is float64 on the CPU.

    Args:
        field: φ [words], Shapley or Banzhaf values for one label; a tensor, an array or a list.
        coupling: J [words, words], pair interactions, symmetric with zero diagonal; None: no couplings.
        base: g(∅), the logit of the empty text.

    Raises:
        TypeError, ValueError: what was given is not real and finite, or J is not such a matrix.

    >>> g = Hamiltonian([1.0, -0.5, 0.2], [[0, 0.6, 0], [0.6, 0, 0], [0, 0, 0]], base=-0.3)
    >>> g.ground_state().tolist()
    [True, False, True]
    """

    __slots__ = ("_constant", "_coupled", "_scale", "_system", "base", "coupling", "field")

    def __init__(self, field: Any, coupling: Any = None, base: float | Tensor = 0.0) -> None:
        self.field = phi = _numbers("field", field)
        if phi.dim() != 1 or not len(phi):
            raise ValueError(f"field must be [words], the values for one label, got shape {list(phi.shape)}")
        self.coupling = J = _coupling(coupling, len(phi))
        self.base = float(_numbers("base", base, ()))
        self._system = (0.5 * phi, 0.25 * J)  # what `ising` calls field and coupling
        self._constant = self.base + float(ising.energy(-torch.ones_like(phi), *self._system))  # c₀
        self._scale = float(0.5 * phi.abs().sum() + 0.125 * J.abs().sum())  # no |g − c₀| is larger
        coupled = J.any(-1).nonzero().squeeze(-1)
        self._coupled = (coupled, 0.5 * phi[coupled], 0.25 * J[coupled][:, coupled])  # words, and their system

    @classmethod
    def of(cls, explanation: Any) -> "Hamiltonian":
        """From the record of a method that plays a game: its Shapley (else Banzhaf) values and interactions.

        A word that was not read is 0 everywhere, so its α is ½. The base is `origin` plus `outside`, what the special
        tokens hold: they are in every text.

        Args:
            explanation: an `Explanation`, or anything with shapley, banzhaf, interactions and diagnostics.

        Raises:
            ValueError: a method without values.

        Example:
            >>> Hamiltonian.of(explanation).ground_state()  # doctest: +SKIP
        """
        shapley = getattr(explanation, "shapley", None)
        field = getattr(explanation, "banzhaf", None) if shapley is None else shapley
        if field is None:
            method = getattr(explanation, "method", type(explanation).__name__)
            raise ValueError(f"{method!r} has no Shapley or Banzhaf values; explain by a method that plays a game")
        facts = explanation.diagnostics
        base = sum(float(_numbers(name, facts.get(name, 0.0), ())) for name in ("origin", "outside"))
        return cls(field, explanation.interactions, base)

    def __repr__(self) -> str:
        return f"Hamiltonian(players={self.players}, base={self.base:g})"

    @property
    def players(self) -> int:
        """n: the number of words."""
        return len(self.field)

    def value(self, coalition: Any) -> Float[Tensor, "..."]:
        """g(C): the logit of the text with the words of C. `coalition` is bool [..., words], True = the word is in.

        Args:
            coalition: bool [..., words]; a tensor, an array or a list.

        Returns:
            [...], float64.

        Raises:
            TypeError, ValueError: not bool, or not one entry per word.

        Example:
            >>> Hamiltonian([1.0, -0.5], base=0.25).value([True, False])
            tensor(1.2500, dtype=torch.float64)
        """
        C = _tensor("coalition", coalition)
        if C.dtype != torch.bool:
            raise TypeError(f"coalition must be bool, True or False for each word, got {C.dtype}; indices of words?")
        self._check_words("coalition", C)
        return -self.energy(torch.where(C, 1.0, -1.0))

    def energy(self, spins: Any) -> Float[Tensor, "..."]:
        """−g(σ), `spins` [..., words] in [−1, 1].

        Args:
            spins: +1 in, −1 out; between them an expectation.

        Returns:
            [...], float64.

        Raises:
            TypeError, ValueError: outside [−1, 1], or not one entry per word.

        Example:
            >>> Hamiltonian([1.0, -0.5], base=0.25).energy([1.0, -1.0])
            tensor(-1.2500, dtype=torch.float64)
        """
        s = _numbers("spins", spins)
        self._check_words("spins", s)
        outside = s[s.abs() > 1.0]
        if len(outside):
            raise ValueError(f"spins must be in [−1, 1] (+1 in, −1 out), got {float(outside[0]):g}; values or logits?")
        return ising.energy(s, *self._system) - self._constant

    def marginals(self, gamma: float | Tensor) -> Float[Tensor, "words"]:
        """α_i = P(σ_i = +1) under exp(g/γ); `solve` also says whether it is exact.

        Args:
            gamma: temperature > 0, in logits.

        Returns:
            [words].

        Raises:
            ValueError: γ ≤ 0.

        Example:
            >>> Hamiltonian([0.0, 0.0]).marginals(gamma=1.0).tolist()
            [0.5, 0.5]
        """
        return self.solve(gamma).alpha

    def solve(self, gamma: float | Tensor) -> Marginals:
        """α at temperature γ > 0, in units of the logit: enumeration, or mean field above EXACT coupled words.

        Where ρ(J)/γ ≥ 1 mean field may have several solutions. Three are tried: from s = 0, along the temperatures
        from ρ(J) down to γ, and from the ground state. The one with the lowest free energy is taken.

        Args:
            gamma: temperature > 0, in logits.

        Returns:
            α, and whether it is exact.

        Raises:
            ValueError: γ ≤ 0.
        """
        gamma = float(_numbers("gamma", gamma, ()))
        check_positive("gamma", gamma)
        gamma = max(gamma, _ZERO * self._scale)
        alpha = torch.sigmoid(self.field / gamma)  # of words without couplings
        coupled, field, J = self._coupled
        if len(coupled) <= EXACT:
            alpha[coupled] = exact.marginals(field, J, gamma)
            return Marginals(alpha, exact=True, converged=True, residual=0.0)
        state = _relax(field, J, gamma)
        if not bool(state.converged) or _may_branch(field, J, gamma):
            ground = torch.where(self.search().words[coupled], 1.0, -1.0).double()
            starts = (_anneal(field, J, gamma), ground)
            states = (state, *(_sweep(field, J, gamma, start, _SWEEPS) for start in starts))
            state = min(states, key=lambda s: (not bool(s.converged), float(s.free_energy)))
        alpha[coupled] = state.alpha
        return Marginals(alpha, exact=False, converged=bool(state.converged), residual=float(state.residual))

    def ground_state(self) -> Bool[Tensor, "words"]:
        """argmax_C g(C): the words that speak for the label most strongly together. Ties: fewer words."""
        return self.search().words

    def search(self) -> GroundState:
        """The ground state by enumeration, or above EXACT coupled words by local search from several starts.

        The starts are all words, none, those with φ > 0, those that mean field keeps when it is cooled down, and for
        each of the _ROWS most coupled words those that go with it. From each the best flip of one or two words is made
        until none raises g. No start is random.
        """
        tie = _ROUNDING * self._scale
        coupled, field, J = self._coupled
        words, field = self.field > tie, field - 0.5 * tie  # a word costs a little: of equals, the fewer
        if len(coupled) <= EXACT:
            blocks = exact.all_coalitions(len(coupled)).split(_BLOCK)
            E = torch.cat([ising.energy(torch.where(C, 1.0, -1.0).double(), field, J) for C in blocks])
            words[coupled] = torch.cat(blocks)[E.argmin()]
            return GroundState(words, float(self.value(words)), exact=True)
        cooled = _anneal(field, J, _COLD * float(spectral_radius(J, field)))
        rows = J[J.norm(dim=-1).topk(min(_ROWS, len(J))).indices]
        starts = (torch.ones_like(field), -torch.ones_like(field), field, cooled, *rows)
        ends = [_ascend(field, J, torch.where(start > 0, 1.0, -1.0).double(), 0.5 * tie) for start in starts]
        words[coupled] = min(ends, key=lambda s: float(ising.energy(s, field, J))) > 0
        return GroundState(words, float(self.value(words)), exact=False)

    def _check_words(self, name: str, given: Tensor) -> None:
        if not given.dim() or given.shape[-1] != self.players:
            raise ValueError(f"{name} must be [..., {self.players}], one per word, got shape {list(given.shape)}")


def _relax(field: Tensor, J: Tensor, gamma: float) -> ising.SpinState:
    """Mean field from s = 0, all spins at once: the iteration of `ising.solve`, for one system of few words."""
    problem = ising.Problem(field, J, torch.tensor(gamma, dtype=torch.float64), None, "mean_field")
    h, rows, s = field.numpy(), J.numpy(), np.zeros(len(field))  # where NumPy takes microseconds, torch takes tens
    for done in range(_UPDATES + 1):
        step = np.tanh((h + rows @ s) / gamma) - s
        residual = float(np.abs(step).max())
        if residual < _TOL or done == _UPDATES:
            break
        s += _DAMPING * step
    converged = torch.tensor(residual < _TOL)
    return ising.SpinState(torch.from_numpy(s), torch.tensor(residual), torch.tensor(done), converged, problem)


def _may_branch(field: Tensor, J: Tensor, gamma: float) -> bool:
    """Whether ρ(J)/γ ≥ 1; no eigenvalue is larger than the largest row sum of |J|."""
    return float(J.abs().sum(-1).max()) >= gamma and float(spectral_radius(J, field)) >= gamma


def _sweep(field: Tensor, J: Tensor, gamma: float, start: Tensor, sweeps: int) -> ising.SpinState:
    """Mean field, one spin after the other: each update minimises the free energy in s_i, so it cannot oscillate."""
    problem = ising.Problem(field, J, torch.tensor(gamma, dtype=torch.float64), None, "mean_field")
    s, fields, rows = start.clone(), field.tolist(), J.numpy()
    spins = s.numpy()  # the memory of s: single numbers are slow in torch
    for done in range(sweeps + 1):
        residual = (problem.update(s) - s).abs().max()
        if residual < _TOL or done == sweeps:
            break
        for i, row in enumerate(rows):
            spins[i] = tanh((fields[i] + float(row @ spins)) / gamma)
    return ising.SpinState(s, residual, torch.tensor(done), residual < _TOL, problem)


def _anneal(field: Tensor, J: Tensor, gamma: float) -> Float[Tensor, "words"]:
    """Mean-field spins followed from γ = ρ(J), above which there is one solution, down to γ."""
    s, hot = torch.zeros_like(field), max(gamma, float(spectral_radius(J, field)))
    for stage in range(_STAGES + 1):
        s = _sweep(field, J, hot * (gamma / hot) ** (stage / _STAGES), s, _STAGE_SWEEPS).spins
    return s


def _ascend(field: Tensor, J: Tensor, s: Tensor, least: float) -> Float[Tensor, "words"]:
    """Flip the word or the pair of words that raises g most, while it does by more than `least`."""
    n = len(s)
    while True:
        gain = -2.0 * s * (field + J @ s)  # (n,) of flipping one word
        gains = gain.unsqueeze(-1) + gain + 4.0 * J * torch.outer(s, s)  # (n, n): σ_i σ_j stays if both flip
        gains.diagonal().copy_(gain)
        pair = sorted(set(divmod(int(gains.argmax()), n)))
        if float(gains.max()) <= least:
            return s
        s[pair] = -s[pair]


def _tensor(name: str, given: Any) -> Tensor:
    if isinstance(given, Tensor):
        return given.detach().cpu()
    try:
        return torch.as_tensor(np.array(given, order="C"))
    except (TypeError, ValueError, RuntimeError):
        shown = " ".join(repr(given).split())
        raise TypeError(f"{name} must be numeric (a number, a tensor, an array or a list), got {shown:.80}") from None


def _numbers(name: str, given: Any, shape: tuple[int, ...] | None = None) -> Float[Tensor, "..."]:
    """A copy in float64; real and finite numbers only, of that shape if one is asked for."""
    numbers = _tensor(name, given)
    if numbers.is_complex() or numbers.dtype == torch.bool:
        raise TypeError(f"{name} must hold real numbers, got {numbers.dtype}")
    if shape is not None and numbers.shape != shape:
        wanted = list(shape) if shape else "one number"
        raise ValueError(
            f"{name} must be {wanted}, got shape {list(numbers.shape)}; more than one label or temperature?"
        )
    numbers = numbers.to(torch.float64, copy=True)
    finite = numbers.isfinite()
    if not bool(finite.all()):
        bad = float(numbers[~finite][0])
        raise ValueError(f"{name} must be finite, got {bad}; the model has probably diverged")
    return numbers


def _coupling(given: Any, n: int) -> Float[Tensor, "words words"]:
    J = _numbers("coupling", torch.zeros(n, n) if given is None else given, (n, n))
    gap = (J - J.mT).abs()
    if gap.max() > _SYMMETRIC * J.abs().max():
        i, j = divmod(int(gap.argmax()), n)
        both = f"coupling[{i}, {j}] = {float(J[i, j]):g} but coupling[{j}, {i}] = {float(J[j, i]):g}"
        raise ValueError(f"coupling must be symmetric, got {both}; only one triangle filled?")
    if bool(J.diagonal().any()):
        i = int(J.diagonal().abs().argmax())
        entry = f"coupling[{i}, {i}] = {float(J[i, i]):g}"
        raise ValueError(f"coupling must have a zero diagonal, got {entry}; values of words? They are the field")
    return 0.5 * (J + J.mT)
