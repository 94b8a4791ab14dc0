"""The paper's formulas and claims against independent loops: Algorithm 1, the Hamiltonian, the gate, the settings."""

from itertools import product
from math import exp, factorial, sqrt, tanh
from random import Random
from types import SimpleNamespace

import pytest
import torch

from neurogame import NeuroGameAttention, exact, game, ising, values
from neurogame.example import PAPER_COUPLING, PAPER_FIELD, PAPER_SPINS

F64 = torch.float64

# Algorithm 1, line by line, with nothing of the library in it. V is a list of n lists, one vector per token.


def norm(V, members):
    return sqrt(sum(sum(V[j][c] for j in members) ** 2 for c in range(len(V[0]))))


def weighted_sum(raw, terms):
    """Σ w̄_k M_k with w̄ the raw weights divided by their sum."""
    return sum(w * m for w, m in zip(raw, terms, strict=True)) / sum(raw)


def shapley_loop(V, gamma, K, rng):
    n, phi = len(V), []
    for i in range(n):
        W, M = [], []
        for _ in range(K):
            pi = [j for j in range(n) if j != i]
            rng.shuffle(pi)
            r = rng.randint(0, n - 1)
            P = pi[:r]
            s = len(P)
            p = factorial(s) * factorial(n - 1 - s) / factorial(n - 1)
            v_p = norm(V, P)
            M.append(norm(V, [*P, i]) - v_p)
            W.append(exp(v_p / gamma) / p)
        phi.append(weighted_sum(W, M))
    return phi


def banzhaf_loop(V, gamma, K, rng):
    n, beta = len(V), []
    for i in range(n):
        W, M = [], []
        for _ in range(K):
            C = [j for j in range(n) if j != i and rng.random() < 0.5]
            p = 1 / 2 ** (n - 1)
            v_c = norm(V, C)
            M.append(norm(V, [*C, i]) - v_c)
            W.append(exp(v_c / gamma) / p)
        beta.append(weighted_sum(W, M))
    return beta


def pair_loop(V, gamma, K, rng):
    n = len(V)
    J = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1, n):
            W, D = [], []
            for _ in range(K):
                C = [m for m in range(n) if m not in (i, j) and rng.random() < 0.5]
                p = 1 / 2 ** (n - 2)
                v_c, v_i, v_j, v_ij = norm(V, C), norm(V, [*C, i]), norm(V, [*C, j]), norm(V, [*C, i, j])
                D.append(v_ij - v_i - v_j + v_c)
                W.append(exp(v_c / gamma) / p)
            J[i][j] = J[j][i] = weighted_sum(W, D)
    return J


def gate_loop(X, w, b):
    return [1 / (1 + exp(-(sum(w_c * x_c for w_c, x_c in zip(w, x, strict=True)) + b))) for x in X]


def field_loop(phi, beta, lam):
    phi_l1, beta_l1 = sum(abs(x) for x in phi), sum(abs(x) for x in beta)
    return [g * p / phi_l1 + (1 - g) * q / beta_l1 for g, p, q in zip(lam, phi, beta, strict=True)]


def spin_loop(field, J, gamma, T, epsilon):
    """Spins and the number of steps made; Algorithm 1 makes the step whose size it then judges."""
    n = len(field)
    s = [0.0] * n
    for t in range(1, T + 1):
        old = s
        s = [tanh((field[i] + sum(J[i][j] * old[j] for j in range(n) if j != i)) / gamma) for i in range(n)]
        if max(abs(a - b) for a, b in zip(s, old, strict=True)) < epsilon:
            return s, t
    return s, T


def pool_loop(alpha, V):
    return [sum(a * v[c] for a, v in zip(alpha, V, strict=True)) for c in range(len(V[0]))]


K, GAMMA = 5, 1.0
LITERAL_RUNS, LIBRARY_RUNS = 3000, 30_000


@pytest.fixture(scope="module")
def both():
    """Many independent runs at n = 4, K = 5, γ = 1: of the loops above, and of the library (one head, one run)."""
    V = torch.randn(4, 2, generator=torch.Generator().manual_seed(0), dtype=F64)
    rng, rows = Random(0), V.tolist()
    loops = [
        torch.tensor([loop(rows, GAMMA, K, rng) for _ in range(LITERAL_RUNS)], dtype=F64)
        for loop in (shapley_loop, banzhaf_loop, pair_loop)
    ]
    found = values.estimate(V.expand(1, LIBRARY_RUNS, 4, 2), tilt=GAMMA, estimator="algorithm1", samples=K)
    names = ("shapley", "banzhaf", "coupling")
    library = {name: getattr(found, name)[0] for name in names}
    return SimpleNamespace(V=V, loops=dict(zip(names, loops, strict=True)), library=library)


def difference(one, two):
    """Difference of the means over runs, in combined standard errors; 0 where there is none, as on J's diagonal."""
    gap = (one.mean(0) - two.mean(0)).abs()
    return torch.where(gap > 0, gap / (one.var(0) / len(one) + two.var(0) / len(two)).sqrt(), 0.0)


@pytest.mark.parametrize("name", ["shapley", "banzhaf", "coupling"])
def test_estimates_have_the_law_of_algorithm_1(both, name):
    """Means and mean squares over runs, at a K where the estimates are biased and widely spread."""
    literal, library = both.loops[name], both.library[name]
    assert difference(literal, library).max() < 5
    assert difference(literal**2, library**2).max() < 5
    assert literal.std(0).max() > 0.1
    if name == "coupling":
        assert not library.diagonal(dim1=-2, dim2=-1).any()


@pytest.mark.parametrize("wrong", [{"estimator": "paired", "samples": 6}, {"tilt": 1.25}, {"samples": 8}], ids=str)
def test_the_comparison_with_algorithm_1_can_fail(both, wrong):
    """Another estimator, another γ and another K are each told apart by it."""
    V = both.V.expand(1, LIBRARY_RUNS, 4, 2)
    other = values.estimate(V, **{"tilt": GAMMA, "estimator": "algorithm1", "samples": K, **wrong})
    for name, literal in both.loops.items():
        found = getattr(other, name)[0]
        assert max(difference(literal, found).max(), difference(literal**2, found**2).max()) > 5, name


def test_shared_draws_change_the_law_of_alpha(both):
    """Each estimate keeps its law, but tokens that share draws err together, and α depends on all of them."""
    alpha = []
    for runs in (both.loops, both.library):
        field = 0.5 * values.l1_normalise(runs["shapley"]) + 0.5 * values.l1_normalise(runs["banzhaf"])
        alpha.append(ising.solve(field, runs["coupling"], GAMMA, damping=1.0).alpha)
    literal, library = alpha
    assert difference(literal, library).max() > 8
    assert (library.std(0) > 1.5 * literal.std(0)).all()


@pytest.mark.parametrize(("gamma", "ends"), [(0.25, {True, False}), (1.0, {False}), (8.0, {True})])
def test_layer_is_algorithm_1_given_the_values(gamma, ends, random):
    """λ, J_i, spins, α, z and W_O by loops from the record's own φ, β, J_ij; undamped, as Algorithm 1 is."""
    torch.manual_seed(0)
    module = NeuroGameAttention(12, 3, preset="paper", damping=1.0, gamma=gamma).double().eval()
    X = random(1, 1, 10, 12)
    with torch.no_grad():
        module.gate.weight.mul_(20)
        module.gate.bias.copy_(torch.tensor([-0.5, 0.2, 1.0]))
        found = module(X)
    z_cat, ended = [], set()
    for h in range(3):
        W_v = module.value.weight[4 * h : 4 * h + 4].tolist()
        V = [[sum(w * c for w, c in zip(row, x, strict=True)) for row in W_v] for x in X[0].tolist()]
        lam = gate_loop(X[0].tolist(), module.gate.weight[h].tolist(), module.gate.bias[h].item())
        field = field_loop(found.shapley[0, h].tolist(), found.banzhaf[0, h].tolist(), lam)
        s, steps = spin_loop(field, found.coupling[0, h].tolist(), module.gamma[h].item(), 25, 1e-4)
        alpha = [(1 + x) / 2 for x in s]
        state = found.spin_state
        converged = bool(state.converged[0, h])
        ended.add(converged)
        # The library does not make the last step, the one that is known to be below the tolerance.
        assert int(state.iterations[0, h]) == (steps - 1 if converged else 25)
        tolerance = 1e-4 if converged else 1e-10
        torch.testing.assert_close(found.gate[0, h].tolist(), lam, atol=1e-12, rtol=0)
        torch.testing.assert_close(found.field[0, h].tolist(), field, atol=1e-12, rtol=0)
        torch.testing.assert_close(state.spins[0, h].tolist(), s, atol=tolerance, rtol=0)
        torch.testing.assert_close(found.alpha[0, h].tolist(), alpha, atol=tolerance, rtol=0)
        z_cat += pool_loop(found.alpha[0, h].tolist(), V)
    assert ended == ends
    W_O = module.out.weight.tolist()
    output = [sum(w * z for w, z in zip(row, z_cat, strict=True)) for row in W_O]
    torch.testing.assert_close(found.output[0].tolist(), output, atol=1e-12, rtol=0)


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_gate_is_a_sigmoid_of_the_token(preset, random):
    torch.manual_seed(1)
    module = NeuroGameAttention(8, 2, preset=preset).double().eval()
    X = random(2, 2, 5, 8)
    with torch.no_grad():
        module.gate.weight.copy_(random(3, 2, 8))
        module.gate.bias.copy_(random(4, 2))
        gate = module(X).gate
    for b, h in product(range(2), range(2)):
        expected = gate_loop(X[b].tolist(), module.gate.weight[h].tolist(), module.gate.bias[h].item())
        torch.testing.assert_close(gate[b, h].tolist(), expected, atol=1e-12, rtol=0)
    assert gate.min() < 0.2
    assert gate.max() > 0.8


def test_couplings_of_algorithm_1_tend_to_the_tilted_interactions(random):
    """Not to the uniform average by which the paper defines J_ij."""
    V, gamma, runs = random(5, 5, 3), 0.5, 60
    table = exact.value_table(V)
    limit, uniform = exact.interactions(table, tilt=gamma), exact.interactions(table)
    mean, se = {}, {}
    for samples in (20, 2000):
        J = values.estimate(V.expand(1, runs, 5, 3), tilt=gamma, estimator="algorithm1", samples=samples).coupling[0]
        off = ~torch.eye(5, dtype=torch.bool)
        mean[samples], se[samples] = J.mean(0)[off], J.std(0)[off] / runs**0.5
    assert ((mean[2000] - limit[off]).abs() < 5 * se[2000]).all()
    assert se[2000].max() < 0.2 * se[20].max()  # 1/√K would be .1
    assert ((limit - uniform)[off].abs() / se[2000]).max() > 50


def spin_table(field, J, gamma):
    """All configurations, their energies and Gibbs probabilities, by the definitions."""
    S = torch.tensor(list(product((-1.0, 1.0), repeat=len(field))), dtype=F64)
    H = ising.energy(S, field, J)
    return S, H, game.gibbs(-H, gamma)


def bonds(n, **strengths):
    """A symmetric J from J_12=…, J_23=…, numbered as in the paper."""
    J = torch.zeros(n, n, dtype=F64)
    for name, strength in strengths.items():
        i, j = (int(c) - 1 for c in name.removeprefix("J_"))
        J[i, j] = J[j, i] = strength
    return J


@pytest.mark.parametrize("strength", [0.7, -0.7])
def test_the_sign_of_a_coupling_aligns_or_opposes(strength):
    """Ground states of two spins are equal for J_12 > 0, opposite for J_12 < 0; ⟨s_1 s_2⟩ = tanh(J_12/γ)."""
    J, gamma, none = bonds(2, J_12=strength), 0.5, torch.zeros(2, dtype=F64)
    S, H, P = spin_table(none, J, gamma)
    ground = S[H.min() == H]
    assert len(ground) == 2
    assert (ground.prod(-1) == (1 if strength > 0 else -1)).all()
    assert float(P @ S.prod(-1)) == pytest.approx(tanh(strength / gamma), abs=1e-12)
    # One token held up takes the other along, or pushes it down: exactly, and in the mean-field iteration.
    held = torch.tensor([50.0, 0.0], dtype=F64)
    assert float(exact.marginals(held, J, gamma)[1]) == pytest.approx((1 + tanh(strength / gamma)) / 2, abs=1e-12)
    assert (ising.solve(held, J, gamma).alpha[1] > 0.5) == (strength > 0)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 3.0])
def test_no_coupling_does_not_mean_independent(gamma):
    """Spins 1–2–3 in a chain, J_13 = 0: ⟨s_1 s_3⟩ = tanh²(J/γ), while both means are 0."""
    J, none = bonds(3, J_12=1.0, J_23=1.0), torch.zeros(3, dtype=F64)
    S, _, P = spin_table(none, J, gamma)
    correlation = float(P @ (S[:, 0] * S[:, 2]))
    assert J[0, 2] == 0
    assert correlation == pytest.approx(tanh(1 / gamma) ** 2, abs=1e-12)
    torch.testing.assert_close(P @ S, none, atol=1e-12, rtol=0)
    held = torch.tensor([200.0, 0.0, 0.0], dtype=F64)  # what 1 does is felt by 3
    assert float(exact.marginals(held, J, gamma)[2]) == pytest.approx((1 + correlation) / 2, abs=1e-12)


def test_the_sum_of_alpha_is_the_expected_number_of_active_tokens(random):
    field, J, gamma = random(6, 5), random(7, 5, 5), 0.8
    J = (J + J.mT) * (1 - torch.eye(5, dtype=F64))
    S, _, P = spin_table(field, J, gamma)
    active = P @ (S > 0).sum(-1).to(F64)
    torch.testing.assert_close(exact.marginals(field, J, gamma).sum(), active, atol=1e-12, rtol=0)
    assert abs(active - 1) > 0.5
    # The layer's own Σα is this number where mean field is exact, and approximates it elsewhere.
    _, _, P = spin_table(field, None, gamma)
    free = P @ (S > 0).sum(-1).to(F64)
    torch.testing.assert_close(ising.solve(field, None, gamma, tol=1e-14).alpha.sum(), free, atol=1e-12, rtol=0)
    assert (ising.solve(field, J, gamma, max_iter=500).alpha.sum() - active).abs() > 0.01


def test_the_slip_in_the_example_s_third_interaction(toy):
    """C_3 = {2,3} without t_1 and t_2 is {3}, as C_2 = {1,3} is: Δ_12 = .4, not .5, and Ĵ_12 = .425, not .466."""
    one, two = 0b001, 0b010
    found = []
    for sampled in (0b010, 0b101, 0b110):
        C = sampled & ~(one | two)
        found.append(float(toy[C | one | two] - toy[C | one] - toy[C | two] + toy[C]))
    assert found == pytest.approx([0.5, 0.4, 0.4])
    weights = (0.25, 0.34, 0.41)
    assert weighted_sum(weights, found) == pytest.approx(0.425)
    assert weighted_sum(weights, (0.5, 0.4, 0.5)) == pytest.approx(PAPER_COUPLING[0])
    assert exact.interactions(toy)[0, 1].item() == pytest.approx(0.45)


def test_the_example_s_attention_weights():
    """The printed α are (1 + s)/2 of the printed spins, not of the fixed point; the order of the words is right."""
    field = torch.tensor(PAPER_FIELD, dtype=F64)
    J = bonds(3, **dict(zip(("J_12", "J_13", "J_23"), PAPER_COUPLING, strict=True)))
    printed = torch.tensor([0.861, 0.899, 0.852], dtype=F64)
    fixed = ising.solve(field, J, 1.0, max_iter=500, tol=1e-12).alpha
    truth = exact.marginals(field, J, 1.0)
    spins = torch.tensor(PAPER_SPINS[5], dtype=F64)
    torch.testing.assert_close((1 + spins) / 2, printed, atol=6e-4, rtol=0)
    torch.testing.assert_close(fixed, torch.tensor([0.893, 0.929, 0.880], dtype=F64), atol=6e-4, rtol=0)
    torch.testing.assert_close(truth, torch.tensor([0.859, 0.897, 0.854], dtype=F64), atol=6e-4, rtol=0)
    assert (fixed - printed).abs().min() > 0.02
    for alpha in (printed, fixed, truth):
        assert alpha.argsort(descending=True).tolist() == [1, 0, 2]  # good, not, movie


def test_settings_of_the_paper_preset(random):
    """γ = .25, K = 15/25, damping .7, 25 steps, tolerance 10⁻⁴, tilt γ, nothing added: named, and as the layer acts."""
    torch.manual_seed(2)
    module = NeuroGameAttention(24, 3, preset="paper")
    config = module.config
    assert (config.gamma, config.train_samples, config.samples) == (0.25, 15, 25)
    assert (config.damping, config.max_iter, config.tol, config.method) == (0.7, 25, 1e-4, "mean_field")
    assert (config.estimator, config.tilt, config.couplings, config.f) == ("algorithm1", "gamma", "pairs", "identity")
    assert (config.anchor, config.background) == (None, None)
    assert (config.field_scale, config.coupling_scale) == ("none", "none")
    X = random(8, 2, 9, 24, dtype=torch.float32)
    with torch.no_grad():
        V = module.value(X).view(2, 9, 3, 8).transpose(1, 2)
        trained = module(X, generator=3)
        found = module.eval()(X, generator=3)
        for record, samples in ((trained, 15), (found, 25)):
            again = values.estimate(V, tilt=0.25, estimator="algorithm1", samples=samples, generator=3)
            for name in ("shapley", "banzhaf", "coupling"):
                torch.testing.assert_close(getattr(record, name), getattr(again, name), atol=1e-5, rtol=1e-5)
        state = ising.solve(found.field, found.coupling, 0.25, damping=0.7, max_iter=25, tol=1e-4)
        torch.testing.assert_close(found.spin_state.spins, state.spins, atol=1e-5, rtol=0)
        torch.testing.assert_close(found.spin_state.iterations, state.iterations)
    assert (trained.shapley - found.shapley).abs().max() > 1e-3


@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_e7_with_couplings_the_paper_preset_is_neither_dead_nor_settled(shared):
    """n = 128, γ = .25: ρ(J)/γ is above 1.5, fewer than half of the systems converge in 25 steps, α is far from ½.

    The fields of the same layer alone leave α within .1 of ½, .02 in the mean: what moves α is the couplings.
    """
    torch.manual_seed(0)
    x = torch.nn.functional.layer_norm(torch.randn(2, 128, 64) + shared * torch.randn(64), (64,))
    module = NeuroGameAttention(64, 4, preset="paper").eval()
    converged = []
    for seed in range(3):
        with torch.no_grad():
            found = module(x, generator=seed)
            alone = ising.solve(found.field, None, module.gamma).alpha
        assert (found.spin_state.spectral_radius > 1.5).all()
        assert ((found.alpha - 0.5).abs().mean(-1) > 0.2).all()
        assert (alone - 0.5).abs().max() < 0.1
        assert (alone - 0.5).abs().mean() < 0.02
        converged.append(found.spin_state.converged.double().mean())
    assert sum(converged) / 3 < 0.5


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("parameter", ["value", "gate", "gamma"])
def test_a_head_depends_on_its_own_parameters_only(preset, parameter, random):
    torch.manual_seed(3)
    module = NeuroGameAttention(12, 3, preset=preset).eval()
    X = random(9, 2, 10, 12, dtype=torch.float32)
    with torch.no_grad():
        before = module(X)
        if parameter == "value":
            module.value.weight[4:8] += random(10, 4, 12, dtype=torch.float32)
        elif parameter == "gate":
            module.gate.weight[1] += 5 * random(11, 12, dtype=torch.float32)
            module.gate.bias[1] += 1.0
        else:
            module.log_gamma[1] += 0.7
        after = module(X)
    for name in ("alpha", "field", "shapley", "banzhaf", "gate"):
        one, two = getattr(before, name), getattr(after, name)
        torch.testing.assert_close(one[:, [0, 2]], two[:, [0, 2]], atol=1e-6, rtol=0)
    assert (before.alpha[:, 1] - after.alpha[:, 1]).abs().max() > 1e-3


@pytest.mark.parametrize("couplings", ["none", "pairs"])
def test_high_temperature_leaves_every_token_half_active(couplings, random):
    """|J_i| ≤ 1, so without couplings |α_i − ½| ≤ 1/(2γ); with them the bound holds with |J_i| + Σ_j |J_ij|."""
    torch.manual_seed(4)
    module = NeuroGameAttention(12, 3, preset="paper", couplings=couplings).double().eval()
    X = random(12, 2, 8, 12)
    distance = []
    for gamma in (0.25, 10.0, 1000.0):
        with torch.no_grad():
            module.log_gamma.fill_(gamma).log_()
            found = module(X)
        force = found.field.abs()
        if couplings == "none":
            assert force.max() <= 1
        else:
            force = force + found.coupling.abs().sum(-1)
        assert ((found.alpha - 0.5).abs() <= force / (2 * gamma) + 1e-12).all()
        distance.append((found.alpha - 0.5).abs().max().item())
    assert distance[0] > 0.1
    assert distance[-1] < 0.002


def test_low_temperature_decides_every_token(random):
    """Without couplings γ → 0 leaves α_i = 1 where J_i > 0 and 0 where J_i < 0."""
    torch.manual_seed(5)
    module = NeuroGameAttention(12, 3, preset="paper", couplings="none", gamma=1e-6).double().eval()
    with torch.no_grad():
        found = module(random(13, 2, 8, 12))
    assert found.field.abs().min() > 1e-5
    torch.testing.assert_close(found.alpha, (found.field > 0).to(F64), atol=1e-4, rtol=0)
    assert 0 < found.alpha.mean() < 1
