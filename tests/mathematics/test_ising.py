"""Energy, mean field, TAP: against enumeration, by hand, and by unrolled autograd."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neurogame import exact, ising, spectrum, values

F64 = torch.float64


def system(random, seed, n=6, strength=0.5, batch=()):
    """A field and a symmetric coupling with spectral radius `strength`."""
    J = random(seed, *batch, n, n)
    J = (J + J.mT) * (1 - torch.eye(n, dtype=F64))
    radius = torch.linalg.eigvalsh(J).abs().amax(-1)
    return random(seed + 1, *batch, n) * 0.5, J * strength / radius[..., None, None]


@pytest.fixture(params=["pairs", "linear"])
def norm_system(request, random):
    """Fields and couplings of a norm game, dense or as an operator, scaled to ρ(J) = .6."""
    V = (random(40, 2, 3, 8, 4) * 0.7).requires_grad_()
    mask = torch.ones(2, 1, 8, dtype=torch.bool)
    mask[1, :, 6:] = False

    def build():
        found = values.estimate(V, mask=mask, samples=6, couplings=request.param)
        J = found.coupling
        with torch.no_grad():
            radius = spectrum.spectral_radius(J, found.shapley)
        J = J.scaled(0.6 / radius) if request.param == "linear" else J * (0.6 / radius)[..., None, None]
        return found.shapley - 0.5, J

    return V, mask, build


def test_energy_is_the_hamiltonian(random):
    field, J = system(random, 0, n=5)
    s = torch.where(random(2, 5) > 0, 1.0, -1.0).double()
    H = -sum(field[i] * s[i] for i in range(5)) - sum(J[i, j] * s[i] * s[j] for i in range(5) for j in range(i + 1, 5))
    torch.testing.assert_close(ising.energy(s, field, J), H)
    torch.testing.assert_close(ising.energy(s, field, None), -(field * s).sum())


def test_no_couplings_is_exact(random):
    field = random(3, 2, 6)
    for J in (None, torch.zeros(6, 6, dtype=F64)):
        state = ising.solve(field, J, 0.5, max_iter=100, tol=1e-12)
        torch.testing.assert_close(state.spins, (field / 0.5).tanh())
        torch.testing.assert_close(state.alpha, exact.marginals(field, torch.zeros(6, 6, dtype=F64), 0.5))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.1, 0.95), st.floats(0.2, 1.0))
def test_fixed_point_below_the_critical_temperature(seed, strength, damping):
    """ρ(J)/γ < 1: converges from s = 0, to a solution of the equations, whatever the damping."""
    g = torch.Generator().manual_seed(seed)
    J = torch.randn(7, 7, generator=g, dtype=F64)
    J = (J + J.mT) * (1 - torch.eye(7, dtype=F64))
    J = J * strength / torch.linalg.eigvalsh(J).abs().max()
    field = torch.randn(7, generator=g, dtype=F64)
    state = ising.solve(field, J, 1.0, damping=damping, max_iter=3000, tol=1e-9)
    assert state.converged
    assert (state.spins - (field + J @ state.spins).tanh()).abs().max() < 1e-9
    assert state.spectral_radius == pytest.approx(strength)
    assert state.alpha.min() >= 0
    assert state.alpha.max() <= 1


def test_mean_field_makes_the_free_energy_stationary(random):
    field, J = system(random, 4)
    state = ising.solve(field, J, 1.0, max_iter=500, tol=1e-12)
    s = state.spins.clone().requires_grad_()
    up = (1 + s) / 2
    F = ising.energy(s, field, J) + (up * up.log() + (1 - up) * (1 - up).log()).sum()
    torch.testing.assert_close(state.free_energy, F.detach())
    (gradient,) = torch.autograd.grad(F, s)
    assert gradient.abs().max() < 1e-9


def test_free_energy_is_an_upper_bound(random):
    """Gibbs–Bogoliubov: ⟨H⟩ − γS ≥ −γ log Z for independent spins."""
    field, J = system(random, 5, strength=0.8)
    for gamma in (0.5, 1.0, 3.0):
        state = ising.solve(field, J, gamma, max_iter=2000, tol=1e-10)
        spins = torch.where(exact.all_coalitions(6), 1.0, -1.0).double()
        log_Z = torch.logsumexp(-torch.stack([ising.energy(s, field, J) for s in spins]) / gamma, 0)
        assert state.free_energy >= -gamma * log_Z - 1e-9


def test_tap_is_closer_to_the_truth(random):
    """ρ/γ = .9: Onsager's correction takes most of the error of α away."""
    errors = {"mean_field": [], "tap": []}
    for seed in range(100, 120):
        field, J = system(random, seed, n=10, strength=0.9)
        truth = exact.marginals(field, J, 1.0)
        for method, found in errors.items():
            state = ising.solve(field, J, 1.0, method=method, max_iter=1000, tol=1e-9)
            assert state.converged
            found.append((state.alpha - truth).abs().max())
    mean = {method: torch.stack(found).mean() for method, found in errors.items()}
    assert mean["tap"] < mean["mean_field"] / 3


def test_iterations_are_undamped_steps_from_zero(random):
    field, J = system(random, 6)
    first = ising.solve(field, J, 1.0, damping=1.0, max_iter=1, tol=1e-12)
    torch.testing.assert_close(first.spins, field.tanh())
    second = ising.solve(field, J, 1.0, damping=0.7, max_iter=2, tol=1e-12)
    s = 0.7 * field.tanh()
    torch.testing.assert_close(second.spins, 0.3 * s + 0.7 * (field + J @ s).tanh())
    assert second.iterations == 2
    torch.testing.assert_close(second.residual, ((field + J @ second.spins).tanh() - second.spins).abs().max())


def test_damping_does_not_hide_the_residual(random):
    """A tiny step looks converged; the undamped residual says it is not."""
    field, J = system(random, 7)
    state = ising.solve(field, J, 1.0, damping=1e-6, max_iter=5, tol=1e-4)
    assert not state.converged
    assert state.residual > 0.1


def test_converged_sequences_are_frozen(random):
    """Each sequence of a batch ends as it would alone, with its own number of iterations."""
    field, J = system(random, 8, batch=(5,))
    J = J * torch.tensor([0.1, 0.5, 1.0, 1.5, 1.9], dtype=F64)[:, None, None]
    together = ising.solve(field, J, 1.0, max_iter=200)
    for b in range(5):
        alone = ising.solve(field[b], J[b], 1.0, max_iter=200)
        torch.testing.assert_close(together.spins[b], alone.spins, atol=1e-14, rtol=0)
        assert together.iterations[b] == alone.iterations
    assert len(set(together.iterations.tolist())) > 2


def test_not_converged_is_said():
    """Antiferromagnet at low temperature, undamped: period two, for ever."""
    J = -(torch.ones(4, 4) - torch.eye(4))
    state = ising.solve(torch.full((4,), 0.1), J, 0.2, damping=1.0, max_iter=50)
    assert not state.converged
    assert state.residual > 0.5
    assert state.iterations == 50
    assert state.spectral_radius > 1


def test_temperature_limits(random):
    """γ → ∞ gives α = ½ always; γ → 0 gives the ground state for ferromagnetic couplings."""
    field, J = system(random, 9)
    hot = ising.solve(field, J, 1e7, max_iter=100, tol=1e-10)
    torch.testing.assert_close(hot.alpha, torch.full((6,), 0.5, dtype=F64), atol=1e-6, rtol=0)
    ferro, up = J.abs(), field.abs() + 0.1
    cold = ising.solve(up, ferro, 1e-3, max_iter=100, tol=1e-10)
    torch.testing.assert_close(cold.alpha, torch.ones(6, dtype=F64))
    torch.testing.assert_close(cold.alpha, exact.marginals(up, ferro, 1e-3))


@pytest.mark.parametrize("method", ["mean_field", "tap"])
def test_implicit_gradient_equals_unrolled(method, norm_system):
    V, mask, build = norm_system
    gamma = torch.tensor([0.8, 1.0, 1.3], dtype=F64, requires_grad=True)
    grads = {}
    for gradient in ("implicit", "unrolled"):
        field, J = build()
        state = ising.solve(field, J, gamma, method=method, mask=mask, max_iter=400, tol=1e-13, gradient=gradient)
        assert state.converged.all()
        loss = (state.spins * torch.linspace(-1, 1, 8, dtype=F64)).sum()
        grads[gradient] = torch.autograd.grad(loss, (V, gamma))
    for one, two in zip(grads["implicit"], grads["unrolled"], strict=True):
        torch.testing.assert_close(one, two, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("method", ["mean_field", "tap"])
def test_gradcheck_of_the_solver(method, random):
    field, J = system(random, 10, n=4, strength=0.6, batch=(2,))
    leaves = (field.requires_grad_(), J.requires_grad_(), torch.tensor([0.9, 1.2], dtype=F64, requires_grad=True))

    def run(field, J, gamma):
        J = (J + J.mT) / 2 * (1 - torch.eye(4, dtype=F64))
        return ising.solve(field, J, gamma, method=method, max_iter=500, tol=1e-13).spins

    assert torch.autograd.gradcheck(run, leaves)


def test_implicit_gradient_keeps_no_iterations(norm_system):
    """The graph has the same size whatever max_iter is."""

    def depth(max_iter):
        field, J = build()
        node, seen = [ising.solve(field, J, 1.0, mask=mask, max_iter=max_iter, tol=1e-15).spins.grad_fn], set()
        while node:
            here = node.pop()
            if here is not None and here not in seen:
                seen.add(here)
                node += [parent for parent, _ in here.next_functions]
        return len(seen)

    _, mask, build = norm_system
    assert depth(1) == depth(60)


def test_padding(norm_system):
    _, mask, build = norm_system
    field, J = build()
    state = ising.solve(field, J, 1.0, mask=mask, max_iter=100, tol=1e-10)
    assert not state.spins[1, :, 6:].any()
    assert not state.alpha[1, :, 6:].any()
    short = J.to_dense()[1:, :, :6, :6] if not isinstance(J, torch.Tensor) else J[1:, :, :6, :6]
    alone = ising.solve(field[1:, :, :6], short, 1.0, max_iter=100, tol=1e-10)
    torch.testing.assert_close(state.spins[1:, :, :6], alone.spins, atol=1e-9, rtol=0)
    torch.testing.assert_close(state.free_energy[1:], alone.free_energy, atol=1e-9, rtol=0)
    torch.testing.assert_close(state.spectral_radius[1:], alone.spectral_radius, atol=1e-8, rtol=0)


def test_spectral_radius_of_long_operators(random, monkeypatch):
    """Above the dense limit a power iteration gives the same number."""
    J = values.estimate(random(11, 2, 1, 40, 5), couplings="linear").coupling
    like = torch.zeros(2, 1, 40, dtype=F64)
    dense = spectrum.spectral_radius(J, like)
    monkeypatch.setattr(spectrum, "_DENSE_EIGENVALUES", 1)
    torch.testing.assert_close(spectrum.spectral_radius(J, like), dense, rtol=1e-3, atol=0)


@pytest.mark.parametrize("couplings", ["pairs", "linear"])
def test_gradient_of_the_radius(couplings, random):
    """The closed form (iterates beyond the last norm) is the derivative of the estimate."""
    V = random(16, 2, 7, 3).requires_grad_()
    probes = torch.where(random(17, 2, 7, 4) > 0, 1.0, -1.0).double()
    probes[1, 5:] = 0.0

    def radius(V):
        J = values.estimate(V, samples=8, couplings=couplings, validate=False).coupling
        return spectrum.schatten_radius(J, probes, torch.tensor([7, 5]), 6)

    assert torch.autograd.gradcheck(radius, (V,))
    with torch.no_grad():
        plain = radius(V)
    torch.testing.assert_close(radius(V).detach(), plain, rtol=1e-12, atol=0)


def test_no_couplings_have_no_radius_and_no_gradient():
    J = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    radius = spectrum.schatten_radius(J, torch.ones(3, 4, dtype=torch.float64), 3, 6)
    radius.backward()
    assert float(radius.detach()) == 0.0
    assert torch.equal(J.grad, torch.zeros(3, 3, dtype=torch.float64))


def test_power_iteration_gets_to_the_radius(random):
    _, J = system(random, 12, n=30, strength=1.0)
    norms = spectrum.power_iteration(J, random(15, 30, 1), 200)[0]
    assert max(norms).item() <= 1 + 1e-12
    assert norms[-1].item() == pytest.approx(1.0, abs=1e-3)


def test_schatten_radius_is_the_2m_norm_on_average(random):
    _, J = system(random, 12, n=30, strength=1.0, batch=(2,))
    steps = 3
    signs = torch.where(random(15, 400, 1, 30, 4) > 0, 1.0, -1.0).double()
    found = spectrum.schatten_radius(J, signs, 30, steps).pow(2 * steps)
    truth = torch.linalg.eigvalsh(J).pow(2 * steps).sum(-1)
    assert ((found.mean(0) - truth).abs() < 5 * found.std(0) / 400**0.5).all()
    assert (truth.pow(1 / (2 * steps)) > 1.0).all()


def test_schatten_radius_of_nothing_is_zero_with_zero_gradient(random):
    J = torch.zeros(5, 5, dtype=F64, requires_grad=True)
    radius = spectrum.schatten_radius(J, torch.ones(5, 2, dtype=F64), 5, 4)
    radius.backward()
    assert radius == 0
    assert not J.grad.any()


def test_spectral_radius_is_computed_only_when_asked(random, monkeypatch):
    field, J = system(random, 13)
    monkeypatch.setattr(ising, "spectral_radius", lambda *_: pytest.fail("computed without being asked for"))
    ising.solve(field, J, 1.0)


def test_half_precision_is_solved_in_float32():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        state = ising.solve(torch.ones(3, dtype=torch.bfloat16), torch.zeros(3, 3, dtype=torch.bfloat16), 0.5)
    assert state.spins.dtype == torch.float32
    assert state.spins.isfinite().all()


def test_couplings_broadcast(random):
    field, J = system(random, 14)
    state = ising.solve(field.expand(2, 3, 6), J, torch.tensor([0.8, 1.0, 1.2], dtype=F64))
    assert state.spins.shape == (2, 3, 6)
    torch.testing.assert_close(state.spins[1, 2], ising.solve(field, J, 1.2).spins)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"gamma": 0.0}, ValueError, "gamma must be > 0, got 0.0"),
        ({"gamma": -1}, ValueError, "gamma must be > 0, got -1"),
        ({"gamma": torch.tensor([1.0, 0.0])}, ValueError, "smallest entry is 0"),
        ({"method": "bethe"}, ValueError, "method = 'bethe' is unknown; allowed: 'mean_field', 'tap'"),
        ({"gradient": "none"}, ValueError, "allowed: 'implicit', 'unrolled'"),
        ({"damping": 0.0}, ValueError, r"damping must be in \(0, 1\]"),
        ({"damping": 1.5}, ValueError, r"damping must be in \(0, 1\]"),
        ({"max_iter": 0}, ValueError, "max_iter must be at least 1"),
        ({"tol": 0.0}, ValueError, "tol must be > 0"),
        ({"coupling": torch.zeros(2, 2)}, ValueError, r"\[\.\.\., 3, 3\] to fit the field"),
        ({"field": torch.tensor([1, 2, 3])}, TypeError, "floating"),
        ({"field": torch.full((3,), torch.nan)}, ValueError, "field holds NaN"),
        ({"coupling": torch.full((3, 3), torch.inf)}, ValueError, "coupling holds NaN or infinite"),
        ({"mask": torch.zeros(3)}, TypeError, "additive mask"),
        ({"mask": torch.zeros(3, dtype=torch.bool)}, ValueError, "at least one real token"),
        # found by the fuzzer
        ({"coupling": [0.0]}, TypeError, "coupling must be a tensor, a LinearCoupling or None, got list"),
        ({"coupling": torch.zeros(3, 3) * 1j}, TypeError, "coupling must hold real numbers"),
        ({"field": torch.ones(2, 3), "gamma": torch.ones(5)}, ValueError, r"field \[2\], coupling \[\], gamma \[5\]"),
    ],
    ids=str,
)
def test_bad_input_is_named(options, error, words, as_user):
    arguments = {"field": torch.ones(3), "coupling": torch.zeros(3, 3), "gamma": 1.0, **options}
    with pytest.raises(error, match=words):
        ising.solve(**arguments)


@pytest.mark.parametrize("method", ["mean_field", "tap"])
def test_one_operator_serves_a_batch_of_temperatures(method, random):
    """Fewer leading axes on the coupling than on the spins, also when the batch is as long as the sequence."""
    n = 6
    J = values.estimate(random(20, n, 8), couplings="linear").coupling.scaled(torch.tensor(0.1, dtype=F64))
    for batch in (3, n):
        grads = []
        for coupling in (J, J.to_dense()):
            field = random(21, n).requires_grad_()
            state = ising.solve(
                field, coupling, torch.linspace(0.5, 2, batch, dtype=F64), method=method, tol=1e-10, max_iter=300
            )
            (state.spins * random(22, batch, n)).sum().backward()
            grads.append((state.spins.detach(), state.free_energy.detach(), field.grad))
        for one, two in zip(*grads, strict=True):
            torch.testing.assert_close(one, two, atol=1e-8, rtol=0)


@pytest.mark.parametrize("method", ["mean_field", "tap"])
def test_padding_exerts_no_force(method, random):
    field, J = system(random, 23, n=6, strength=0.6)
    mask = torch.tensor([1, 1, 1, 1, 0, 0])
    padded = ising.solve(field, J, 1.0, mask=mask, method=method, tol=1e-10, max_iter=300)
    alone = ising.solve(field[:4], J[:4, :4], 1.0, method=method, tol=1e-10, max_iter=300)
    torch.testing.assert_close(padded.spins[:4], alone.spins, atol=1e-9, rtol=0)
    torch.testing.assert_close(padded.spectral_radius, alone.spectral_radius, atol=1e-9, rtol=0)


def test_operators_follow_the_dtype_of_the_field(random):
    J = values.estimate(random(24, 5, 3, dtype=torch.float32) * 0.1, couplings="linear").coupling
    assert ising.solve(random(25, 5), J, 1.0).spins.dtype == F64


# found by the fuzzer
def test_an_energy_is_of_tensors(as_user):
    with pytest.raises(TypeError, match="field must be a torch"):
        ising.energy(torch.ones(1), -(2**63) - 1, None)
