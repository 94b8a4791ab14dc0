"""The Hamiltonian of a decision: against its definition by loops, brute force over coalitions, and least squares."""

from itertools import combinations, product
from math import exp
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neurogame import exact, hamiltonian, ising, spectrum
from neurogame.hamiltonian import Hamiltonian

F64 = torch.float64


def symmetric(J):
    return (J + J.mT) * (1 - torch.eye(len(J), dtype=F64))


def system(seed, n, strength=1.0):
    """A random field, coupling and base."""
    g = torch.Generator().manual_seed(seed)
    J = symmetric(torch.randn(n, n, generator=g, dtype=F64))
    return torch.randn(n, generator=g, dtype=F64), strength * J, float(torch.randn((), generator=g))


def by_loops(field, coupling, base):
    """g of all coalitions as a table, word by word and pair by pair."""
    n = len(field)
    phi, J = field.tolist(), coupling.tolist()

    def terms(s):
        pairs = sum(J[i][j] * s[i] * s[j] for i, j in combinations(range(n), 2))
        return sum(phi[i] * s[i] for i in range(n)) / 2 + pairs / 4

    c0 = base - terms([-1] * n)
    configurations = [bits[::-1] for bits in product([-1, 1], repeat=n)]  # bit i of the index is word i
    return torch.tensor([c0 + terms(s) for s in configurations], dtype=F64)


def best(table, n):
    """The largest value of a table, and of the coalitions that have it the smallest size."""
    ties = exact.all_coalitions(n)[table > table.max() - 1e-9]
    return float(table.max()), int(ties.sum(-1).min())


@pytest.mark.parametrize("n", [1, 2, 5])
def test_value_is_its_definition(n, coalitions):
    field, J, base = system(n, n)
    g = Hamiltonian(field, J, base)
    table = g.value(coalitions(n))
    torch.testing.assert_close(table, by_loops(field, J, base))
    torch.testing.assert_close(table.reshape(2, -1), g.value(coalitions(n).reshape(2, -1, n)))
    assert g.players == n
    assert repr(g) == f"Hamiltonian(players={n}, base={base:g})"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 30), st.floats(0, 10))
def test_both_ends_are_exact(seed, n, strength):
    """g(∅) = base and g(N) = base + Σφ, whatever J."""
    field, J, base = system(seed, n, strength)
    g = Hamiltonian(field, J, base)
    ends = g.value([[False] * n, [True] * n]).tolist()
    assert ends == pytest.approx([base, base + float(field.sum())], abs=1e-9)


def test_energy_is_minus_the_value(coalitions):
    g = Hamiltonian(*system(3, 6))
    C = coalitions(6)
    torch.testing.assert_close(g.energy(torch.where(C, 1, -1)), -g.value(C), rtol=0, atol=0)


def test_energy_between_the_corners_is_the_mean_over_independent_words(coalitions):
    """g is linear in each spin, so at ⟨σ⟩ it is E[g] over words that are in with probability (1 + ⟨σ⟩)/2."""
    g = Hamiltonian(*system(4, 5))
    s = torch.tensor([-1.0, -0.3, 0.0, 0.6, 1.0], dtype=F64)
    C, up = coalitions(5), (1 + s) / 2
    law = torch.where(C, up, 1 - up).prod(-1)
    torch.testing.assert_close(g.energy(s), -(law * g.value(C)).sum())


def test_what_is_given_is_copied():
    field, J, base = system(5, 3)
    g = Hamiltonian(field, J, base)
    before = g.value([True, False, True])
    field[0], J[0, 1] = 9.0, 9.0
    assert g.value([True, False, True]) == before


def test_anything_that_holds_numbers(as_user):
    field, J = [1.0, -0.5], [[0.0, 0.25], [0.25, 0.0]]
    C = [True, False]
    said = Hamiltonian(field, J, 1).value(C)
    for as_ in (tuple, np.array, lambda x: np.array(x, np.float32), torch.tensor):
        assert Hamiltonian(as_(field), as_(J), as_(1.0) if as_ is not tuple else 1.0).value(C) == said
    assert Hamiltonian(field, J, 1).value(np.array(C)) == said
    assert Hamiltonian([1, -1], None).value(C) == Hamiltonian([1, -1], [[0, 0], [0, 0]]).value(C) == 1
    assert not Hamiltonian(torch.ones(2, requires_grad=True), None).value(C).requires_grad


# --- marginals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_marginals_by_brute_force(n, gamma):
    field, J, base = system(10 + n, n)
    weights = [exp(v / gamma) for v in by_loops(field, J, base).tolist()]
    alpha = [sum(w for C, w in enumerate(weights) if C >> i & 1) / sum(weights) for i in range(n)]
    found = Hamiltonian(field, J, base).solve(gamma)
    assert found.alpha.tolist() == pytest.approx(alpha, abs=1e-12)
    assert (found.exact, found.converged, found.residual) == (True, True, 0.0)
    torch.testing.assert_close(Hamiltonian(field, J, base).marginals(gamma), found.alpha)


@pytest.mark.parametrize("n", [6, 24])
def test_limits_of_the_temperature(n):
    """γ → 0: the ground state; γ → ∞: ½."""
    g = Hamiltonian(*system(20, n))
    for cold in (1e-4, 1e-300):
        torch.testing.assert_close(g.marginals(cold), g.ground_state().double(), atol=1e-9, rtol=0)
    torch.testing.assert_close(g.marginals(1e9), torch.full((n,), 0.5, dtype=F64), atol=1e-6, rtol=0)


def test_uncoupled_words_are_independent():
    """Any number of them: their marginals and ground state are exact, beside enumerated words too."""
    field, J, base = system(21, 40)
    J[:, 8:] = J[8:] = 0.0
    few = Hamiltonian(field[:8], J[:8, :8], base)
    g = Hamiltonian(field, J, base)
    found = g.solve(0.7)
    assert found.exact
    torch.testing.assert_close(found.alpha[8:], torch.sigmoid(field[8:] / 0.7))
    torch.testing.assert_close(found.alpha[:8], few.marginals(0.7))
    assert g.search().exact
    assert g.ground_state().tolist() == few.ground_state().tolist() + (field[8:] > 0).tolist()
    assert Hamiltonian(field, None).solve(1.0).exact


def test_mean_field_says_so():
    """Above 16 coupled words; at high temperature it is close to the truth, by enumeration."""
    field, J, base = system(22, 18)
    J = J / spectrum.spectral_radius(J, field)
    g = Hamiltonian(field, J, base)
    gamma = 0.25 / 0.4  # ρ(¼J)/γ = .4
    found = g.solve(gamma)
    truth = exact.marginals(field / 2, J / 4, gamma)
    assert (found.exact, found.converged) == (False, True)
    assert found.residual < 1e-5
    assert 0 < (found.alpha - truth).abs().max() < 0.02
    assert Hamiltonian(field[:16], J[:16, :16]).solve(gamma).exact


@pytest.mark.parametrize("gamma", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("sign", [-1, 1])
def test_mean_field_converges_where_parallel_updates_do_not(sign, gamma):
    """Words that all replace (or need) each other: ρ(J)/γ far above 1. The equations hold at what is returned."""
    n = 30
    J = sign * symmetric(torch.ones(n, n, dtype=F64))
    field = torch.linspace(-0.7, 1.3, n, dtype=F64)
    if sign < 0:
        for damping in (0.7, 1.0):
            assert not ising.solve(field / 2, J / 4, gamma, damping=damping, max_iter=200).converged
    found = Hamiltonian(field, J).solve(gamma)
    s = 2 * found.alpha - 1
    residual = (torch.tanh((field / 2 + J @ s / 4) / gamma) - s).abs().max()
    assert found.converged
    assert found.residual == pytest.approx(float(residual), abs=1e-9)
    assert residual < 1e-5


def test_of_several_solutions_the_one_with_the_lowest_free_energy():
    """Strong couplings: never worse than mean field from s = 0, and often better."""
    gained = []
    for seed in range(3):
        field, J, _ = system(30 + seed, 20, strength=2.0)
        plain = ising.solve(field / 2, J / 4, 0.3, max_iter=1000, tol=1e-6)
        s = 2 * Hamiltonian(field, J).marginals(0.3) - 1
        up = (1 + s) / 2
        entropy = -(torch.special.xlogy(up, up) + torch.special.xlogy(1 - up, 1 - up)).sum()
        F = ising.energy(s, field / 2, J / 4) - 0.3 * entropy
        gained.append(float(plain.free_energy - F))
    assert min(gained) > -1e-6
    assert max(gained) > 0.1


def test_failure_to_converge_is_reported(monkeypatch):
    monkeypatch.setattr(hamiltonian, "_SWEEPS", 1)
    monkeypatch.setattr(hamiltonian, "_STAGE_SWEEPS", 1)
    J = -symmetric(torch.ones(30, 30, dtype=F64))
    field = torch.linspace(-0.7, 1.3, 30, dtype=F64)
    found = Hamiltonian(field, J).solve(1.0)
    s = 2 * found.alpha - 1
    assert (found.exact, found.converged) == (False, False)
    assert found.residual == pytest.approx(float((torch.tanh(field / 2 + J @ s / 4) - s).abs().max()))
    assert found.residual > 1e-3


# --- the ground state ---------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8), st.booleans())
def test_ground_state_by_brute_force(seed, n, whole):
    """Also with whole numbers, which tie: of equals the fewer words."""
    field, J, base = system(seed, n)
    if whole:
        field, J = field.round(), J.round()
    g = Hamiltonian(field, J, base)
    value, size = best(by_loops(field, J, base), n)
    found = g.search()
    assert found.exact
    assert found.value == pytest.approx(value)
    assert float(g.value(found.words)) == found.value
    assert int(found.words.sum()) == size
    assert g.ground_state().equal(found.words)


@pytest.mark.parametrize("whole", [False, True])
def test_local_search_where_the_truth_is_known(whole, monkeypatch):
    """The search that is made above 16 words, on ten. It is a heuristic, so the seeds are fixed."""
    monkeypatch.setattr(hamiltonian, "EXACT", 3)
    for seed in range(8):
        field, J, base = system(seed, 10)
        if whole:
            field, J = field.round(), J.round()
        g = Hamiltonian(field, J, base)
        found = g.search()
        assert not found.exact
        assert (found.value, int(found.words.sum())) == pytest.approx(best(g.value(exact.all_coalitions(10)), 10))


@pytest.mark.parametrize("n", [24, 30])
@pytest.mark.parametrize("seed", range(3))
def test_no_neighbour_is_better(n, seed):
    g = Hamiltonian(*system(50 + seed, n))
    found = g.search()
    assert not found.exact
    flips = torch.eye(n, dtype=torch.bool)
    pairs = flips.unsqueeze(0) ^ flips.unsqueeze(1)
    for neighbours in (found.words ^ flips, found.words ^ pairs):
        assert g.value(neighbours).max() < found.value + 1e-9
    assert g.search().words.equal(found.words)


def test_planted_optimum():
    """All terms favour one configuration, so it is the optimum."""
    for seed in range(3):
        field, J, _ = system(60 + seed, 28)
        planted = torch.where(system(70 + seed, 28)[0] > 0, 1.0, -1.0).double()
        g = Hamiltonian(field.abs() * planted * 0.1, J.abs() * torch.outer(planted, planted))
        assert g.ground_state().equal(planted > 0)


def test_blocks_are_solved_as_if_alone():
    """24 words in three groups without couplings between them: brute force group by group."""
    parts = [system(80 + k, 8) for k in range(3)]
    g = Hamiltonian(torch.cat([p[0] for p in parts]), torch.block_diag(*(p[1] for p in parts)))
    alone = torch.cat([Hamiltonian(*p).ground_state() for p in parts])
    assert not g.search().exact
    assert g.ground_state().equal(alone)


# --- what it has to do with the game ------------------------------------------------------------------------------


def test_banzhaf_is_the_best_quadratic_fit(random, coalitions):
    """Under fair coins, with a free constant: against least squares on 1, σ_i, σ_i σ_j."""
    n, table = 6, random(90, 64)
    s = torch.where(coalitions(n), 1.0, -1.0).double()
    pairs = [s[:, i] * s[:, j] for i, j in combinations(range(n), 2)]
    X = torch.stack([torch.ones(64, dtype=F64), *s.unbind(-1), *pairs], -1)
    fit = X @ torch.linalg.lstsq(X, table.unsqueeze(-1)).solution.squeeze(-1)
    found = Hamiltonian(exact.banzhaf(table), exact.interactions(table), table[0]).value(coalitions(n))
    torch.testing.assert_close(found - found.mean(), fit - fit.mean())
    torch.testing.assert_close(fit.mean(), table.mean())


def test_a_quadratic_game_is_its_own_hamiltonian(random, coalitions):
    """v(C) = b + Σ a_i + Σ_{i<j} J_ij over C: Shapley values and Banzhaf interactions give it back."""
    n, a, J = 6, random(91, 6), symmetric(random(92, 6, 6))
    C = coalitions(n).double()
    table = 0.3 + C @ a + ((C @ J) * C).sum(-1) / 2
    g = Hamiltonian(exact.shapley(table), exact.interactions(table), table[0])
    torch.testing.assert_close(g.value(coalitions(n)), table)


def test_ends_of_any_game(random):
    table = random(93, 64)
    g = Hamiltonian(exact.shapley(table), exact.interactions(table), table[0])
    torch.testing.assert_close(g.value([[False] * 6, [True] * 6]), table[[0, -1]])


def test_of_an_explanation():
    record = SimpleNamespace(
        shapley=(1.0, 0.0, -0.5),
        banzhaf=(9.0, 9.0, 9.0),
        interactions=((0.0, 0.0, 0.25), (0.0, 0.0, 0.0), (0.25, 0.0, 0.0)),
        diagnostics={"origin": 0.5, "outside": 0.25},
    )
    g = Hamiltonian.of(record)
    assert g.value([[False] * 3, [True] * 3]).tolist() == [0.75, 1.25]
    assert g.coupling.tolist() == [list(row) for row in record.interactions]
    assert g.marginals(1.0)[1] == 0.5  # was not read
    assert not g.ground_state()[1]
    other = Hamiltonian.of(SimpleNamespace(banzhaf=(1.0, 2.0), interactions=None, diagnostics={}))
    assert (other.field.tolist(), other.base, bool(other.coupling.any())) == ([1.0, 2.0], 0.0, False)
    with pytest.raises(
        ValueError, match="'attention' has no Shapley or Banzhaf values; explain by a method that plays"
    ):
        Hamiltonian.of(SimpleNamespace(method="attention", shapley=None, banzhaf=None, diagnostics={}))
    record.diagnostics = {"origin": None}  # not finite, so not in JSON
    with pytest.raises(TypeError, match=r"origin must be numeric .*, got None"):
        Hamiltonian.of(record)


# --- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"field": [1.0, float("nan")]}, ValueError, "field must be finite, got nan; the model has probably diverged"),
        ({"coupling": [[0, np.inf], [np.inf, 0]]}, ValueError, "coupling must be finite, got inf"),
        ({"base": float("inf")}, ValueError, "base must be finite, got inf"),
        ({"base": [1.0, 2.0, 3.0]}, ValueError, r"base must be one number, got shape \[3\]; more than one label"),
        ({"base": None}, TypeError, r"base must be numeric .*, got None"),
        ({"field": [[1.0, 2.0]]}, ValueError, r"field must be \[words\], the values for one label, got shape \[1, 2\]"),
        ({"field": []}, ValueError, r"field must be \[words\], .*, got shape \[0\]"),
        ({"field": ["not", "good"]}, TypeError, r"field must be numeric .*, got \['not', 'good'\]"),
        ({"field": [[1.0], [1.0, 2.0]]}, TypeError, r"field must be numeric .*, got \[\[1.0\], \[1.0, 2.0\]\]"),
        ({"field": [True, False]}, TypeError, "field must hold real numbers, got torch.bool"),
        ({"field": torch.ones(2) * 1j}, TypeError, "field must hold real numbers, got torch.complex64"),
        ({"coupling": [0.0, 0.0]}, ValueError, r"coupling must be \[2, 2\], got shape \[2\]"),
        ({"coupling": torch.zeros(3, 3)}, ValueError, r"coupling must be \[2, 2\], got shape \[3, 3\]"),
        (
            {"coupling": [[0, 0.5], [0, 0]]},
            ValueError,
            r"symmetric, got coupling\[0, 1\] = 0.5 but coupling\[1, 0\] = 0; only one triangle filled\?",
        ),
        (
            {"coupling": [[0, 1], [1, 0.5]]},
            ValueError,
            r"coupling must have a zero diagonal, got coupling\[1, 1\] = 0.5; values of words\?",
        ),
    ],
    ids=str,
)
def test_bad_systems_are_named(options, error, words, as_user):
    with pytest.raises(error, match=words) as raised:
        Hamiltonian(**{"field": [1.0, 2.0], "coupling": None, **options})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda g: g.marginals(0), ValueError, r"gamma must be > 0, got 0\.0"),
        (lambda g: g.solve(-1.0), ValueError, r"gamma must be > 0, got -1\.0"),
        (lambda g: g.solve(float("nan")), ValueError, "gamma must be finite, got nan"),
        (lambda g: g.solve(float("inf")), ValueError, "gamma must be finite, got inf"),
        (lambda g: g.solve("cold"), TypeError, "gamma must be numeric .*, got 'cold'"),
        (lambda g: g.solve(torch.ones(2)), ValueError, r"gamma must be one number, got shape \[2\]; more than one"),
        (lambda g: g.energy([0.0, 1.5]), ValueError, r"spins must be in \[−1, 1\] \(\+1 in, −1 out\), got 1.5"),
        (lambda g: g.energy([0.0, float("nan")]), ValueError, "spins must be finite, got nan"),
        (lambda g: g.energy([True, False]), TypeError, "spins must hold real numbers, got torch.bool"),
        (lambda g: g.energy(1.0), ValueError, r"spins must be \[..., 2\], one per word, got shape \[\]"),
        (lambda g: g.value([0, 1]), TypeError, r"coalition must be bool, .*, got torch.int64; indices of words\?"),
        (lambda g: g.value([True] * 3), ValueError, r"coalition must be \[..., 2\], one per word, got shape \[3\]"),
    ],
)
def test_bad_questions_are_named(call, error, words, as_user):
    with pytest.raises(error, match=words) as raised:
        call(Hamiltonian([1.0, 2.0], None))
    assert "\n" not in str(raised.value)


def test_float32_sums_in_another_order_are_symmetric():
    g = Hamiltonian([1.0, 2.0], [[0.0, 1.0], [1.0 + 1e-7, 0.0]])
    assert g.coupling.equal(g.coupling.mT)
