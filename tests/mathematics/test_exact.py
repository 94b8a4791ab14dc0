"""The oracles, against independent enumeration, closed forms and the axioms."""

from itertools import combinations, permutations
from math import factorial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neurogame import exact

F64 = torch.float64


def games(n_min=2, n_max=5):
    """Random value tables with v(∅) = 0."""

    def table(n):
        numbers = st.floats(-4, 4, allow_nan=False, width=32)
        return st.lists(numbers, min_size=2**n - 1, max_size=2**n - 1).map(lambda v: torch.tensor([0.0, *v], dtype=F64))

    return st.integers(n_min, n_max).flatmap(table)


def index(C):
    return sum(1 << i for i in C)


def shapley_by_permutations(table):
    """The definition: average over all orders of arrival."""
    n = exact.players_of(table)
    phi = [0.0] * n
    for order in permutations(range(n)):
        for position, i in enumerate(order):
            before = order[:position]
            phi[i] += float(table[index((*before, i))] - table[index(before)]) / factorial(n)
    return torch.tensor(phi, dtype=F64)


def average(table, i, weight, tilt=None):
    """E[v(C∪i) − v(C)] over C ∌ i, with weight(|C|) and an optional Gibbs factor, by plain loops."""
    n = exact.players_of(table)
    others = [j for j in range(n) if j != i]
    total = norm = 0.0
    for size in range(n):
        for C in combinations(others, size):
            w = weight(n, size) * (1.0 if tilt is None else float((table[index(C)] / tilt).exp()))
            total += w * float(table[index((*C, i))] - table[index(C)])
            norm += w
    return total / norm


def shapley_weight(n, s):
    return factorial(s) * factorial(n - 1 - s) / factorial(n)


def banzhaf_weight(n, s):
    return 2.0 ** (1 - n)


@settings(max_examples=25, deadline=None)
@given(games())
def test_shapley_is_the_average_over_permutations(table):
    torch.testing.assert_close(exact.shapley(table), shapley_by_permutations(table), atol=1e-10, rtol=0)


@settings(max_examples=25, deadline=None)
@given(games(), st.sampled_from([None, 0.3, 2.0]))
def test_values_by_plain_loops(table, tilt):
    for found, weight in (
        (exact.shapley(table, tilt), shapley_weight),
        (exact.banzhaf(table, tilt), banzhaf_weight),
    ):
        expected = torch.tensor([average(table, i, weight, tilt) for i in range(len(found))], dtype=F64)
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("which", ["banzhaf", "shapley"])
@pytest.mark.parametrize("tilt", [None, 0.4])
def test_interactions_by_plain_loops(which, tilt, random):
    n, table = 5, random(0, 32)
    J = exact.interactions(table, which, tilt)
    for i, j in combinations(range(n), 2):
        others = [m for m in range(n) if m not in (i, j)]
        total = norm = 0.0
        for size in range(n - 1):
            for C in combinations(others, size):
                law = (
                    2.0 ** (2 - n)
                    if which == "banzhaf"
                    else factorial(size) * factorial(n - 2 - size) / factorial(n - 1)
                )
                w = law * (1.0 if tilt is None else float((table[index(C)] / tilt).exp()))
                v, v_i, v_j, v_ij = (float(table[index(D)]) for D in (C, (*C, i), (*C, j), (*C, i, j)))
                total += w * (v_ij - v_i - v_j + v)
                norm += w
        assert J[i, j].item() == pytest.approx(total / norm, abs=1e-10)
    assert torch.equal(J, J.mT)
    assert not J.diagonal().any()


@settings(max_examples=40, deadline=None)
@given(games())
def test_axiom_efficiency(table):
    torch.testing.assert_close(exact.shapley(table).sum(), table[-1] - table[0], atol=1e-10, rtol=0)


@settings(max_examples=40, deadline=None)
@given(games(3, 5), st.data())
def test_axiom_symmetry(table, data):
    """A game made symmetric in two players gives both the same."""
    n = exact.players_of(table)
    i, j = data.draw(st.permutations(range(n)))[:2]
    swapped = torch.tensor([(c & ~(1 << i | 1 << j)) | (c >> i & 1) << j | (c >> j & 1) << i for c in range(2**n)])
    even = (table + table[swapped]) / 2
    for values in (exact.shapley(even), exact.banzhaf(even), exact.shapley(even, 0.5), exact.banzhaf(even, 0.5)):
        assert values[i].item() == pytest.approx(values[j].item(), abs=1e-10)


@settings(max_examples=40, deadline=None)
@given(games(2, 4), st.sampled_from([None, 0.5]))
def test_axiom_null_player(table, tilt):
    """A player added without any effect gets 0, interacts with nobody, and changes nobody else's value."""
    wider = torch.cat([table, table])
    assert exact.shapley(wider, tilt)[-1].abs() < 1e-12
    assert exact.banzhaf(wider, tilt)[-1].abs() < 1e-12
    assert exact.interactions(wider, tilt=tilt)[-1].abs().max() < 1e-12
    torch.testing.assert_close(exact.banzhaf(wider, tilt)[:-1], exact.banzhaf(table, tilt), atol=1e-10, rtol=0)
    if tilt is None:
        torch.testing.assert_close(exact.shapley(wider)[:-1], exact.shapley(table), atol=1e-10, rtol=0)


@settings(max_examples=40, deadline=None)
@given(games(3, 3), games(3, 3), st.floats(-2, 2))
def test_axiom_linearity(one, two, a):
    for value in (exact.shapley, exact.banzhaf, exact.interactions):
        torch.testing.assert_close(value(one + a * two), value(one) + a * value(two), atol=1e-9, rtol=0)


@pytest.mark.parametrize("T", [(0,), (1, 3), (0, 2, 3), (0, 1, 2, 3)])
def test_unanimity_game(T):
    """v(C) = 1 if T ⊆ C: φ = 1/|T| and β = 2^(1−|T|) inside T, 0 outside; Banzhaf J = 2^(2−|T|) inside."""
    n = 4
    table = torch.tensor([float(all(c >> i & 1 for i in T)) for c in range(2**n)], dtype=F64)
    inside = torch.tensor([float(i in T) for i in range(n)], dtype=F64)
    torch.testing.assert_close(exact.shapley(table), inside / len(T))
    torch.testing.assert_close(exact.banzhaf(table), inside * 2.0 ** (1 - len(T)))
    pairs = torch.outer(inside, inside) * (1 - torch.eye(n, dtype=F64)) * (2.0 ** (2 - len(T)) if len(T) > 1 else 0.0)
    torch.testing.assert_close(exact.interactions(table), pairs)


@pytest.mark.parametrize("anchored", [False, True])
def test_square_game_closed_form(anchored, random):
    """phi = beta = Σ_j G_ij (+ 2 V_i·a), J_ij = 2 G_ij."""
    V = random(1, 2, 6, 3)
    a = random(2, 2, 3) if anchored else None
    table = exact.value_table(V, "square", a)
    G = V @ V.mT
    expected = G.sum(-1) + (2 * (V @ a.unsqueeze(-1)).squeeze(-1) if anchored else 0.0)
    torch.testing.assert_close(exact.shapley(table), expected)
    torch.testing.assert_close(exact.banzhaf(table), expected)
    for which in ("banzhaf", "shapley"):
        torch.testing.assert_close(
            exact.interactions(table, which), 2 * (G - torch.diag_embed(G.diagonal(dim1=-2, dim2=-1)))
        )


def test_toy_of_the_paper(toy):
    torch.testing.assert_close(exact.shapley(toy), torch.tensor([31 / 60, 46 / 60, 31 / 60], dtype=F64))
    torch.testing.assert_close(exact.banzhaf(toy), torch.tensor([0.525, 0.775, 0.525], dtype=F64))
    J = exact.interactions(toy)
    torch.testing.assert_close(torch.stack([J[0, 1], J[0, 2], J[1, 2]]), torch.tensor([0.45, 0.15, 0.05], dtype=F64))


def test_tilt_vanishes_at_high_temperature(random):
    table = exact.value_table(random(3, 5, 4))
    for value in (exact.shapley, exact.banzhaf):
        torch.testing.assert_close(value(table, 1e7), value(table), atol=1e-6, rtol=0)


def test_half_precision_does_not_overflow():
    """Found by the fuzzer."""
    V = torch.full((2, 2), 1000.0, dtype=torch.float16)
    torch.testing.assert_close(exact.value_table(V), exact.value_table(V.float()))


def test_a_row_of_tilts_for_one_game(random):
    """Found by the fuzzer: values took it, interactions did not."""
    table, tilts = random(0, 8), torch.tensor([0.5, 2.0], dtype=torch.float64)
    for index in ("banzhaf", "shapley"):
        found = exact.interactions(table, index, tilts)
        assert torch.equal(found, torch.stack([exact.interactions(table, index, float(tilt)) for tilt in tilts]))


def test_batches_and_tilts_broadcast(random):
    V = random(4, 2, 3, 4, 5)
    tilt = torch.tensor([0.5, 1.0, 2.0], dtype=F64)
    table = exact.value_table(V)
    assert table.shape == (2, 3, 16)
    together = exact.shapley(table, tilt)
    for b in range(2):
        for h in range(3):
            torch.testing.assert_close(together[b, h], exact.shapley(exact.value_table(V[b, h]), float(tilt[h])))
    assert exact.interactions(table, tilt=tilt).shape == (2, 3, 4, 4)


def test_values_are_differentiable(random):
    V = random(5, 4, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda V: exact.shapley(exact.value_table(V), 0.7), V)


def spins_by_loops(field, J, gamma):
    n = len(field)
    Z, up = 0.0, torch.zeros(n, dtype=F64)
    for c in range(2**n):
        s = torch.tensor([1.0 if c >> i & 1 else -1.0 for i in range(n)], dtype=F64)
        H = -(field * s).sum() - sum(J[i, j] * s[i] * s[j] for i in range(n) for j in range(i + 1, n))
        weight = (-H / gamma).exp()
        Z, up = Z + weight, up + weight * (s > 0)
    return up / Z


@pytest.mark.parametrize("gamma", [0.25, 1.0, 5.0])
def test_marginals_by_loops(gamma, random):
    J = random(6, 4, 4)
    J = (J + J.mT) * (1 - torch.eye(4, dtype=F64))
    field = random(7, 4)
    torch.testing.assert_close(exact.marginals(field, J, gamma), spins_by_loops(field, J, gamma))


def test_marginals_of_a_batch_and_of_an_odd_number_of_spins(random):
    J, field, gamma = random(6, 3, 5, 5), random(7, 3, 5), torch.tensor([0.5, 1.0, 2.0], dtype=F64)
    J = (J + J.mT) * (1 - torch.eye(5, dtype=F64))
    found = exact.marginals(field, J, gamma)
    for row in range(3):
        torch.testing.assert_close(found[row], spins_by_loops(field[row], J[row], float(gamma[row])))
    assert exact.marginals(field[:, :1], J[:, :1, :1], 1.0).shape == (3, 1)
    assert exact.marginals(field[0, :0], J[0, :0, :0], 1.0).shape == (0,)


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_all_values_at_once_are_those_one_by_one(n, random):
    table = random(3, 2, 2**n)
    phi, beta, J = exact.all_values(table)
    torch.testing.assert_close(phi, exact.shapley(table), atol=1e-13, rtol=0)
    torch.testing.assert_close(beta, exact.banzhaf(table), atol=1e-13, rtol=0)
    torch.testing.assert_close(J, exact.interactions(table), atol=1e-13, rtol=0)
    votes = table[0] > 0
    torch.testing.assert_close(exact.all_values(votes)[0], exact.shapley(votes))


def test_marginals_have_both_temperature_limits(random):
    J, field = random(8, 5, 5), random(9, 5)
    J = (J + J.mT) * (1 - torch.eye(5, dtype=F64))
    torch.testing.assert_close(exact.marginals(field, J, 1e8), torch.full((5,), 0.5, dtype=F64), atol=1e-6, rtol=0)
    cold = exact.marginals(field, J, 1e-3)
    spins = torch.where(exact.all_coalitions(5), 1.0, -1.0).double()
    H = -(spins * field).sum(-1) - ((spins @ J.triu(1)) * spins).sum(-1)
    torch.testing.assert_close(cold, (spins[H.argmin()] + 1) / 2)


def test_too_many_players_says_how_many_evaluations():
    with pytest.raises(ValueError, match=r"n = 21 players need 2\*\*21 = 2,097,152 evaluations"):
        exact.value_table(torch.zeros(21, 2))
    with pytest.raises(ValueError, match="2,097,152"):
        exact.marginals(torch.zeros(21), torch.zeros(21, 21), 1.0)


def test_twenty_players_are_enough_rope(random):
    """The largest n that is allowed runs, and is efficient."""
    table = exact.value_table(random(10, 20, 2, dtype=torch.float32))
    assert exact.shapley(table).sum().item() == pytest.approx(table[-1].item(), rel=1e-4)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: exact.shapley(torch.zeros(6)), ValueError, r"2\*\*n entries"),
        (lambda: exact.shapley(torch.zeros(1)), ValueError, r"2\*\*n entries"),
        (lambda: exact.value_table(torch.zeros(3, 2), "cube"), ValueError, "'cube' is unknown; allowed: 'identity'"),
        (
            lambda: exact.interactions(torch.zeros(8), "owen"),
            ValueError,
            "'owen' is unknown; allowed: 'banzhaf', 'shapley'",
        ),
        (lambda: exact.banzhaf(torch.zeros(8), -1.0), ValueError, "tilt must be > 0"),
        (lambda: exact.marginals(torch.zeros(3), torch.zeros(2, 2), 1.0), ValueError, r"\[\.\.\., 3, 3\]"),
        (lambda: exact.marginals(torch.zeros(3), torch.zeros(3, 3), 0.0), ValueError, "gamma must be > 0"),
        (lambda: exact.value_table(torch.full((3, 2), torch.nan)), ValueError, "6 NaN"),
        # found by the fuzzer
        (lambda: exact.shapley([0.0, 1.0]), TypeError, "must be a torch.Tensor, got list"),
        (lambda: exact.value_table(torch.ones(2, 3, 4), anchor=torch.ones(3)), ValueError, r"anchor of shape \[3\]"),
        (lambda: exact.value_table(torch.ones(3, 4), anchor=1.0), TypeError, "anchor must be a torch.Tensor"),
        (lambda: exact.banzhaf(torch.ones(2, 8), torch.ones(3)), ValueError, r"tilt of shape \[3\] does not"),
        (lambda: exact.interactions(torch.ones(2, 8), tilt=torch.ones(3)), ValueError, r"tilt of shape \[3\]"),
        (lambda: exact.gibbs(torch.ones(2, 8), torch.ones(3)), ValueError, r"gamma of shape \[3\] does not"),
        (lambda: exact.gibbs([1.0], 1.0), TypeError, "values must be a torch.Tensor"),
        (lambda: exact.marginals(None, torch.zeros(3, 3), 1.0), TypeError, "field must be"),
        (lambda: exact.marginals(torch.zeros(3), 0.5, 1.0), TypeError, "coupling must be"),
        (lambda: exact.shapley(torch.zeros(4, dtype=torch.complex64)), TypeError, "real numbers, got torch.complex64"),
        (lambda: exact.value_table(torch.ones(3, 4), anchor=torch.ones(4) * 1j), TypeError, "anchor must hold real"),
        (
            lambda: exact.value_table(torch.ones(3, 1), anchor=torch.tensor([torch.nan])),
            ValueError,
            "anchor holds 1 NaN",
        ),
    ],
)
def test_bad_input_is_named(call, error, words, as_user):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_integer_games(dtype):
    """The majority game of three voters, as a table of votes."""
    table = torch.tensor([0, 0, 0, 1, 0, 1, 1, 1]).to(dtype)
    torch.testing.assert_close(exact.shapley(table), torch.full((3,), 1 / 3))
    torch.testing.assert_close(exact.banzhaf(table), torch.full((3,), 1 / 2))
    assert exact.interactions(table).abs().max() == 0
