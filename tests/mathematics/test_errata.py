"""Where the paper is wrong or contradicts itself: each row E1–E22 of docs/paper-vs-here.md that a test can show."""

import pytest
import torch

from neurogame import NeuroGameAttention, exact, ising, values
from neurogame.example import PAPER_COUPLING, PAPER_FIELD, PAPER_SPINS, TABLE

F64 = torch.float64


@pytest.fixture
def printed():
    """The fields and couplings the paper prints for its example."""
    J = torch.zeros(3, 3, dtype=F64)
    for (i, j), value in zip(((0, 1), (0, 2), (1, 2)), PAPER_COUPLING, strict=True):
        J[i, j] = J[j, i] = value
    return torch.tensor(PAPER_FIELD, dtype=F64), J


def test_e1_algorithm1_has_one_limit_for_both_values(random):
    """Shapley and Banzhaf by Algorithm 1 meet at the Gibbs mean, which is not the Shapley value."""
    V = random(0, 6, 4) * 0.4
    table = exact.value_table(V)
    found = values.estimate(V, tilt=0.5, estimator="algorithm1", samples=40_000, couplings="none")
    limit = exact.banzhaf(table, 0.5)
    assert ((found.shapley - limit).abs() < 5 * found.shapley_se).all()
    assert ((found.banzhaf - limit).abs() < 5 * found.banzhaf_se).all()
    assert (exact.shapley(table) - limit).abs().max() > 20 * found.shapley_se.max()


def test_e2_self_normalised_weights_are_biased_at_finite_k(random):
    V = random(1, 6, 4) * 0.4
    limit = exact.banzhaf(exact.value_table(V), 0.25)
    many = V.expand(1, 3000, 6, 4)  # every head has draws of its own
    runs = values.estimate(many, tilt=0.25, estimator="algorithm1", samples=3, couplings="none").banzhaf[0]
    z = (runs.mean(0) - limit) / (runs.std(0) / 3000**0.5)
    assert z.abs().max() > 8


def test_e3_effective_sample_size_collapses(random):
    """About 2 of K = 25 at n = 128, γ = .25; without a tilt `paired` keeps all of its samples.

    Either factor of the weights does harm by itself: 1/p alone leaves about 4 of 25, the Gibbs factor alone
    (the corrected tilt, which has no 1/p) about 3 of 24 for Shapley and 4 of 24 for Banzhaf.
    """
    V = random(2, 4, 4, 128, 64, dtype=torch.float32) * 64**-0.5
    theirs = values.estimate(V, tilt=0.25, estimator="algorithm1", samples=25, couplings="none")
    assert theirs.shapley_ess.mean() < 3
    only_p = values.estimate(V, tilt=1e9, estimator="algorithm1", samples=25, couplings="none")
    assert 3 < only_p.shapley_ess.mean() < 6
    assert (only_p.banzhaf_ess > 24.99).all()  # p is constant there
    only_gibbs = values.estimate(V, tilt=0.25, samples=24, couplings="none")
    assert only_gibbs.shapley_ess.mean() < 4
    assert only_gibbs.banzhaf_ess.mean() < 6
    assert (values.estimate(V, samples=24, couplings="none").shapley_ess == 24).all()


def test_e4_the_constant_of_p_cancels(random):
    """s!(n−1−s)!/(n−1)! instead of …/n!: a factor n in every weight, gone after normalisation."""
    log_w = random(3, 25, 6)
    torch.testing.assert_close(torch.softmax(log_w, 0), torch.softmax(log_w - torch.tensor(6.0).log(), 0))


def test_e5_the_norm_game_is_not_monotone(random):
    table = exact.value_table(torch.tensor([[1.0, 0.0], [1.0, 0.0], [-0.8, 0.0]], dtype=F64))
    assert table[0b101] < table[0b001]
    assert exact.shapley(table)[2] < 0
    positive = exact.value_table(random(4, 6, 3).relu())
    C = exact.all_coalitions(6)
    for i in range(6):
        assert (positive[C[:, i]] >= positive[~C[:, i]] - 1e-12).all()  # monotone when V ≥ 0
    assert exact.value_table(random(5, 6, 3) * 10, "tanh").max() <= 1  # bounded with tanh


def test_e6_values_can_sum_to_zero():
    V = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=F64)
    phi = exact.shapley(exact.value_table(V))
    assert phi.sum().abs() < 1e-12
    assert values.l1_normalise(phi).isfinite().all()


def test_e7_l1_normalised_fields_give_dead_attention():
    """n = 128, γ = .25, the fields alone: α is within .05 of ½, and within .02 in the mean.

    Multiplied by n the same fields put α more than .3 from ½ in the mean.
    """
    torch.manual_seed(0)
    x = torch.nn.functional.layer_norm(torch.randn(2, 128, 64) + torch.randn(64), (64,))
    options = {"couplings": "none", "anchor": None, "background": False}
    dead = NeuroGameAttention(64, 4, field_scale="none", **options).eval()(x).alpha
    alive = NeuroGameAttention(64, 4, field_scale="tokens", **options).eval()(x).alpha
    assert (dead - 0.5).abs().max() < 0.05
    assert (dead - 0.5).abs().mean() < 0.02
    assert (alive - 0.5).abs().mean() > 0.3


def test_e8_the_toy_does_not_converge_where_the_paper_says(printed):
    field, J = printed
    for steps, tolerance in ((1, 6e-4), (2, 8e-4)):
        state = ising.solve(field, J, 1.0, damping=1.0, max_iter=steps, tol=1e-12)
        torch.testing.assert_close(state.spins, torch.tensor(PAPER_SPINS[steps], dtype=F64), atol=tolerance, rtol=0)
    fixed = ising.solve(field, J, 1.0, max_iter=500, tol=1e-12).spins
    torch.testing.assert_close(fixed, torch.tensor([0.7858, 0.8587, 0.7599], dtype=F64), atol=5e-5, rtol=0)
    assert (fixed - torch.tensor(PAPER_SPINS[5], dtype=F64)).abs().min() > 0.05
    truth = 2 * exact.marginals(field, J, 1.0) - 1
    torch.testing.assert_close(truth, torch.tensor([0.7178, 0.7942, 0.7087], dtype=F64), atol=5e-5, rtol=0)


def test_e9_the_toy_estimate_uses_coalitions_that_contain_the_token(toy):
    """C must not contain t_2: with the contexts the samples really are, C∖t_2, the weights change."""
    sampled = (0b010, 0b101, 0b110)
    printed = torch.tensor([toy[c] for c in sampled]).softmax(0) @ torch.tensor(
        [toy[c | 2] - toy[c & ~2] for c in sampled]
    )
    assert printed.item() == pytest.approx(0.711, abs=2e-3)
    contexts = torch.tensor([toy[c & ~2] for c in sampled])
    proper = contexts.softmax(0) @ torch.tensor([toy[c | 2] - toy[c & ~2] for c in sampled])
    assert abs(proper.item() - printed.item()) > 0.01
    assert exact.shapley(toy)[1].item() == pytest.approx(0.7667, abs=1e-4)


def test_e10_pairs_cost_samples_times_pairs(toy):
    """Evaluations of v: K(n+1) per law, and K n(n−1)/2 more for the couplings."""
    asked = 0

    def v(C):
        nonlocal asked
        asked += C[..., 0].numel()
        return C.double().sum(-1).sqrt()

    values.estimate_game(v, 10, samples=8, couplings="none")
    without, asked = asked, 0
    values.estimate_game(v, 10, samples=8)
    assert without == 2 + 2 * 8 * 11
    assert asked - without == 8 * 45


def test_e11_convergence_needs_a_small_spectral_radius(random):
    """Random couplings, 25 damped steps: at ρ(J)/γ = .5 all systems converge, at .8 and at 3 fewer than half do.

    Below 1 convergence is certain, but near 1 it is slow: at .8 all systems get there in 500 steps.
    """
    J = random(6, 40, 20, 20)
    J = (J + J.mT) * (1 - torch.eye(20, dtype=F64))
    J = J / torch.linalg.eigvalsh(J).abs().amax(-1)[:, None, None]
    field = random(7, 40, 20) * 0.1
    assert ising.solve(field, J * 0.5, 1.0).converged.all()
    assert ising.solve(field, J * 0.8, 1.0).converged.double().mean() < 0.5
    assert ising.solve(field, J * 0.8, 1.0, max_iter=500).converged.all()
    assert ising.solve(field, J * 3.0, 1.0).converged.double().mean() < 0.5


def test_e14_the_toy_calls_not_and_good_synergistic(toy):
    """The text says strongly negative; its own example prints +.466, and the exact value is +.45."""
    assert exact.interactions(toy)[0, 1].item() == pytest.approx(0.45)
    assert PAPER_COUPLING[0] > 0


@pytest.mark.parametrize("f", ["identity", "relu", "tanh"])
def test_e15_the_toy_is_no_norm_game(f, random):
    """Norms are subadditive, and f is concave increasing: Δ_ij(∅) ≤ 0 always, +.5 in the toy."""
    V = random(8, 500, 2, 3) * 2
    table = exact.value_table(V, f)
    assert (table[:, 3] - table[:, 1] - table[:, 2] <= 1e-12).all()
    assert TABLE[3] - TABLE[1] - TABLE[2] == pytest.approx(0.5)


def test_e16_the_toy_fields_are_not_normalised(printed):
    assert printed[0].sum().item() == pytest.approx(1.646)


def test_e17_the_corrected_tilt_keeps_shapley_and_banzhaf_apart(random):
    """Weights exp(v/γ) without 1/p: the two tilted values differ, as the two laws do."""
    table = exact.value_table(random(9, 8, 3))
    assert (exact.shapley(table, 1.0) - exact.banzhaf(table, 1.0)).abs().max() > 0.01


def test_e18_mean_field_only_approximates_the_expectations(printed):
    field, J = printed
    truth = 2 * exact.marginals(field, J, 1.0) - 1
    assert ((field + J @ truth).tanh() - truth).abs().max() > 0.03


def test_e19_a_low_positive_field_still_favours_up():
    field = torch.tensor([0.01, 1.0], dtype=F64)
    assert (exact.marginals(field, torch.zeros(2, 2, dtype=F64), 1.0) > 0.5).all()


def test_e21_attention_inherits_no_axiom(random):
    """φ is efficient; neither α nor the field is."""
    V = random(10, 1, 1, 6, 4)
    table = exact.value_table(V)
    field = values.l1_normalise(exact.shapley(table)) * 6
    alpha = ising.solve(field, None, 1.0).alpha
    assert exact.shapley(table).sum().item() == pytest.approx(table[..., -1].item())
    assert abs(alpha.sum().item() - table[..., -1].item()) > 0.1


@pytest.mark.parametrize("estimator", ["paired", "algorithm1"])
def test_e22_error_slope(estimator, random):
    """Each estimator approaches its own limit like 1/√K, or faster (stratification)."""
    V = random(11, 30, 1, 8, 4) * 0.5
    table = exact.value_table(V)
    tilt = None if estimator == "paired" else 1.0
    limit = exact.banzhaf(table, tilt)
    errors = []
    for samples in (16, 64, 256, 1024):
        found = values.estimate(V, samples=samples, tilt=tilt, estimator=estimator, couplings="none").banzhaf
        errors.append(float((found - limit).square().mean().sqrt()))
    slope = (torch.tensor(errors[-1]).log() - torch.tensor(errors[0]).log()) / torch.tensor(1024 / 16).log()
    assert -0.75 < slope < -0.35
