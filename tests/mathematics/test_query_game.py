"""The game of a query: closed forms against enumeration, the mean field against `ising`, blocks against the whole."""

from functools import partial

import pytest
import torch

from neurogame import exact, game, ising, query_game
from neurogame.query_game import QueryGame

F64 = torch.float64
OMEGAS = [0.4, -0.7, 1.3]


@pytest.fixture
def drawn(random):
    """q [queries, dim], G [tokens, dim] in float64."""
    return random(1, 3, 4), random(2, 6, 4)


def table(q, G, omega):
    """v_i(C) of every query by enumeration: (‖q + ω ΣG‖² − ‖q‖²)/ω."""
    return torch.stack([exact.value_table(omega * G, "square", anchor=one) for one in q]) / omega


@pytest.mark.parametrize("omega", OMEGAS)
def test_values_are_those_of_enumeration(drawn, omega):
    """φ = β = 2 q·G_j + ω G_j·ΣG; J = 2ω G_j·G_k for every query, under both indices."""
    q, G = drawn
    v = table(q, G, omega)
    phi, J = query_game.shapley(q, G, omega), query_game.couplings(G, omega)
    torch.testing.assert_close(phi, exact.shapley(v))
    torch.testing.assert_close(phi, exact.banzhaf(v))
    for index in ("banzhaf", "shapley"):
        torch.testing.assert_close(J.expand(3, 6, 6), exact.interactions(v, index))


def test_values_of_fewer_players(drawn):
    """Who does not play has value 0, and the others those of the smaller game."""
    q, G = drawn
    players = torch.tensor([[1, 1, 0, 1, 0, 1]] * 3, dtype=torch.bool)
    phi = query_game.shapley(q, G, 0.4, players)
    torch.testing.assert_close(phi[:, players[0]], query_game.shapley(q, G[players[0]], 0.4))
    assert not phi[:, ~players[0]].any()


@pytest.mark.parametrize("omega", OMEGAS)
def test_the_spins_are_the_gibbs_distribution_of_the_game(drawn, omega):
    """Marginals of exp(v/(2√d) − μ|C|) = those of the Ising model with field φ − 2√d μ, coupling J/2, γ = 4√d."""
    q, G = drawn
    price, root = 1.7, 2.0
    sizes = exact.all_coalitions(6).sum(-1)
    law = game.gibbs(table(q, G, omega) / (2 * root) - price * sizes, 1.0)
    truth = law @ exact.all_coalitions(6).to(F64)
    field = query_game.shapley(q, G, omega) - 2 * root * price
    J = query_game.couplings(G, omega) / 2
    torch.testing.assert_close(exact.marginals(field, J.expand(3, 6, 6), 4 * root), truth)


def fixed_point(q, G, omega, price, iterations):
    strength = torch.tensor([omega], dtype=F64)
    at = torch.full((1, 1, 1), price, dtype=F64)
    return QueryGame(q[None, None], G[None, None], strength, at, iterations=iterations).weights()[0, 0]


@pytest.mark.parametrize("omega", [0.15, -0.15])
def test_the_iteration_ends_where_the_mean_field_equations_hold(drawn, omega):
    """Many updates from the empty coalition and `ising.solve` from m = 0 meet; one update more does not move α."""
    q, G = drawn
    price, root = 1.2, 2.0
    alpha = fixed_point(q, G, omega, price, 300)
    J = (query_game.couplings(G, omega) / 2).expand(3, 6, 6)
    state = ising.solve(query_game.shapley(q, G, omega) - 2 * root * price, J, 4 * root, tol=1e-12, max_iter=500)
    assert (state.spectral_radius < 1).all()  # one solution only
    torch.testing.assert_close(alpha, state.alpha, atol=1e-9, rtol=0)
    torch.testing.assert_close(alpha, fixed_point(q, G, omega, price, 301), atol=1e-12, rtol=0)


def test_an_update_is_the_spin_equation(drawn):
    """α after t + 1 updates = (1 + tanh((φ − μ' + ½ J m)/γ))/2 with the spins m after t."""
    q, G = drawn
    omega, price, root = 0.6, 1.2, 2.0
    field, J = query_game.shapley(q, G, omega) - 2 * root * price, query_game.couplings(G, omega) / 2
    spins = -torch.ones(3, 6, dtype=F64)  # the empty coalition
    for t in range(1, 4):
        spins = torch.tanh((field + spins @ J) / (4 * root))
        torch.testing.assert_close(fixed_point(q, G, omega, price, t), (1 + spins) / 2)


def test_mean_field_is_near_the_truth_where_couplings_are_weak(drawn):
    """The error of mean field against enumeration falls with ω², and is 0 without couplings."""
    q, G = drawn
    price, root, errors = 1.2, 2.0, []
    for omega in (0.2, 0.1, 0.05, 1e-9):
        field = query_game.shapley(q, G, omega) - 2 * root * price
        truth = exact.marginals(field, (query_game.couplings(G, omega) / 2).expand(3, 6, 6), 4 * root)
        errors.append(float((fixed_point(q, G, omega, price, 200) - truth).abs().max()))
    assert errors == sorted(errors, reverse=True)
    assert errors[1] < 0.4 * errors[0]
    assert errors[-1] < 1e-8


def test_no_number_grows_with_the_length(random):
    """Twice the tokens, the new ones closed by their price: the sum over all keys inside φ has cancelled."""
    q, G = random(3, 2, 4), random(4, 9, 4)
    far = torch.cat([G, random(5, 400, 4)])
    bias = torch.zeros(1, 1, 1, 409, dtype=F64)
    bias[..., 9:] = -200.0  # players, but never on
    strength, price = torch.tensor([0.5], dtype=F64), torch.ones(1, 1, 1, dtype=F64)
    short = QueryGame(q[None, None], G[None, None], strength, price, iterations=4).weights()
    long = QueryGame(q[None, None], far[None, None], strength, price, bias, iterations=4).weights()
    torch.testing.assert_close(long[..., :9], short)


@pytest.mark.parametrize("block", [1 << 20, 200, 60, 3], ids=lambda n: f"block {n}")
@pytest.mark.parametrize("iterations", [1, 2, 4])
@pytest.mark.parametrize("coupled", [True, False])
def test_blocks_equal_the_whole(random, monkeypatch, block, iterations, coupled):
    """Outputs and all gradients, whatever the size of a block, with prices and masks of every shape."""
    monkeypatch.setattr(query_game, "_BLOCK", block)
    q, G, V = (random(k, 5, 3, n, d).requires_grad_() for k, (n, d) in enumerate([(5, 4), (6, 4), (6, 7)]))
    strength = random(4, 3).requires_grad_() if coupled else None
    bias = random(5, 5, 1, 5, 6)
    bias[..., 2] = -torch.inf
    for price in (random(6, 1, 3, 1), random(7, 5, 3, 1), random(8, 5, 3, 5)):
        price.requires_grad_()
        inputs = [x for x in (q, G, V, strength, price) if x is not None]
        for given in (None, bias, bias[:1], bias.expand(5, 3, 5, 6), bias[:, :, :1]):
            game = QueryGame(q, G, strength, price, given, iterations)
            whole, (parts, _) = game.weights() @ V, game.attend(V)
            torch.testing.assert_close(parts, whole)
            against = random(9, *whole.shape)
            pairs = (torch.autograd.grad(out, inputs, against) for out in (parts, whole))
            for one, two in zip(*pairs, strict=True):
                torch.testing.assert_close(one, two)


def test_gradients_are_right(random):
    """First and second derivatives by finite differences."""
    q, G, V = (random(k, 1, 2, n, 3).requires_grad_() for k, n in enumerate((2, 3, 3)))
    inputs = (q, G, V, random(4, 2).requires_grad_(), random(5, 1, 2, 1).requires_grad_())

    def attend(q, G, V, strength, price, *, iterations):
        return QueryGame(q, G, strength, price, iterations=iterations).attend(V)[0]

    assert torch.autograd.gradcheck(partial(attend, iterations=3), inputs)
    assert torch.autograd.gradgradcheck(partial(attend, iterations=2), inputs)


def test_a_bias_that_is_learned_gets_its_gradient(random):
    bias = random(1, 1, 1, 4, 4).requires_grad_()
    q, G, V = (random(k, 1, 2, 4, 3) for k in range(3))
    QueryGame(q, G, random(4, 2), random(5, 1, 2, 1), bias).attend(V)[0].sum().backward()
    assert bias.grad.abs().min() > 0
