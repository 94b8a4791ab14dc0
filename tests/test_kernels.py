"""The compiled loops give the numbers of the plain PyTorch path; without a compiler nothing is lost but time."""

from functools import cache

import pytest
import torch

from neurogame import NeuroGameAttention, ising, kernels, values
from neurogame.couplings import LinearCoupling
from neurogame.marginals import toggle


@pytest.fixture
def plain(monkeypatch):
    """Run a function on the plain path."""

    def run(function):
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "available", lambda *_: False)
            return function()

    return run


@pytest.fixture(autouse=True)
def compiled():
    if kernels.library() is None:
        pytest.skip("no C compiler on this machine: the plain path is all there is")


def close(one, two, tolerance=2e-6):
    """Within a few ulp of the largest entry (or of 1: with a single token everything cancels)."""
    torch.testing.assert_close(one, two, atol=tolerance * max(float(two.abs().max()), 1.0), rtol=0)


CASES = [(1, 4), (2, 4), (3, 1), (5, 3), (17, 20), (40, 16), (33, 64)]


@pytest.mark.parametrize(("tokens", "dim"), CASES)
@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_toggles(tokens, dim, anchored, masked, plain, random):
    V = random(0, 3, 2, tokens, dim, dtype=torch.float32)
    real = None
    if masked:
        real = torch.ones(3, 1, tokens, dtype=torch.bool)
        real[1, :, (tokens + 1) // 2 :] = False
        V = V * real.unsqueeze(-1)
    a = random(1, 3, 2, dim, dtype=torch.float32) if anchored else None
    members = random(2, 2, 6, tokens) > 0
    with torch.no_grad():
        found = toggle(V, members, real, a)
        expected = plain(lambda: toggle(V, members, real, a))
    for name in ("norm", "toggled", "delta", "origin"):
        close(getattr(found, name), getattr(expected, name), 5e-6)
    torch.testing.assert_close(found.sign, expected.sign.expand_as(found.sign))
    torch.testing.assert_close(found.size, expected.size.expand_as(found.size))


@pytest.mark.parametrize(("tokens", "dim"), CASES)
@pytest.mark.parametrize("anchored", [False, True])
def test_pairs_and_their_gradient(tokens, dim, anchored, plain, random):
    weight = random(3, tokens, tokens, dtype=torch.float32)

    def run():
        V = random(4, 2, 2, tokens, dim, dtype=torch.float32).requires_grad_()
        a = random(5, 2, dim, dtype=torch.float32).requires_grad_() if anchored else None
        J = values.estimate(V, anchor=a, samples=8).coupling
        (J * weight).sum().backward()
        return [J.detach(), V.grad, *([] if a is None else [a.grad])]

    for one, two in zip(run(), plain(run), strict=True):
        close(one, two, 5e-6)


@pytest.mark.parametrize(("tokens", "dim"), CASES)
@pytest.mark.parametrize("couplings", ["pairs", "linear"])
@pytest.mark.parametrize("masked", [False, True])
def test_spins_and_power_iterations(tokens, dim, couplings, masked, plain, random):
    mask = torch.ones(3, 1, tokens, dtype=torch.bool)
    if masked:
        mask[2, :, (tokens + 1) // 2 :] = False
    found = values.estimate(
        random(6, 3, 2, tokens, dim, dtype=torch.float32), mask=mask, samples=6, couplings=couplings
    )
    gamma = torch.tensor([2.0, 5.0]) * dim**0.5
    probes = torch.where(random(7, 2, tokens, 4) > 0, 1.0, -1.0).float() * mask.unsqueeze(-1)

    def run():
        with torch.no_grad():
            state = ising.solve(found.shapley, found.coupling, gamma, mask=mask, max_iter=30, tol=1e-3)
            return state, ising.power_norms(found.coupling, probes, 5)

    (one, norms), (two, expected) = run(), plain(run)
    close(one.spins, two.spins, 5e-6)
    assert torch.equal(one.iterations, two.iterations)
    assert torch.equal(one.converged, two.converged)
    torch.testing.assert_close(one.residual, two.residual, atol=1e-6, rtol=0)
    close(norms, expected, 2e-5)
    with torch.no_grad():
        three = lambda: ising.power_norms(found.coupling, probes[..., :3], 3)  # noqa: E731
        close(three(), plain(three), 2e-5)
    kept = lambda: ising._power(found.coupling, probes, 4, keep=True)[1]  # noqa: E731
    alive = (expected[:4] > 1e-3).all(0)  # where J vanishes, its direction is rounding
    torch.testing.assert_close(kept()[:, alive], plain(kept)[:, alive], atol=2e-5, rtol=0)


@pytest.mark.parametrize("couplings", ["linear", "pairs"])
def test_the_whole_layer(couplings, plain):
    torch.manual_seed(0)
    module = NeuroGameAttention(64, 4, couplings=couplings).eval()
    x = torch.nn.functional.layer_norm(torch.randn(3, 30, 64) + torch.randn(64), (64,))
    mask = torch.arange(30).expand(3, 30) < torch.tensor([[30], [11], [1]])
    with torch.no_grad():
        found, expected = module(x, mask), plain(lambda: module(x, mask))
    for name in ("alpha", "field", "shapley", "output"):
        close(getattr(found, name), getattr(expected, name), 1e-5)
    with_gradient = module(x, mask)  # compiled only where no gradient is asked for, but for the pairs
    close(with_gradient.alpha.detach(), found.alpha, 1e-5)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads(threads, random):
    V = random(8, 2, 3, 12, 8, dtype=torch.float32)
    expected = values.estimate(V).coupling
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        assert torch.equal(values.estimate(V).coupling, expected)
    finally:
        torch.set_num_threads(before)


def test_nan_is_not_swallowed():
    V = torch.ones(1, 1, 6, 4)
    V[..., 3, 2] = torch.nan
    with torch.no_grad():
        for couplings in ("pairs", "linear"):
            found = values.estimate(V, couplings=couplings, validate=False)
            J = found.coupling.to_dense() if isinstance(found.coupling, LinearCoupling) else found.coupling
            assert found.shapley.isnan().any()
            assert J.isnan().any()
        state = ising.solve(torch.full((1, 6), torch.nan), torch.zeros(6, 6), 1.0, validate=False)
    assert not state.converged.any()
    assert state.residual.isnan().all()


def test_float64_and_traced_graphs_stay_on_the_plain_path(random):
    assert not kernels.available(random(9, 3))
    assert kernels.available(random(9, 3).float())


def test_no_compiler(monkeypatch, tmp_path):
    """An empty PATH, an empty cache: no library, no error."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CC", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kernels.library.__wrapped__() is None


def test_switched_off(monkeypatch):
    monkeypatch.setenv("NEUROGAME_KERNELS", "0")
    assert kernels.library.__wrapped__() is None


def test_a_build_that_fails_is_no_error(monkeypatch, tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kernels.library.__wrapped__() is None
    assert not list(tmp_path.glob("neurogame/*.so"))


def test_an_unwritable_cache_falls_back(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert kernels.library.__wrapped__() is not None


def test_one_sentence_is_not_made_to_wait(monkeypatch, tmp_path):
    """With nothing built, a small call takes the plain path; a large one builds, and from then on all use it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernels, "library", cache(kernels.library.__wrapped__))
    monkeypatch.setattr(kernels, "_built", kernels._built.__wrapped__)
    small, large = torch.zeros(10), torch.zeros(1 << 18)
    assert not kernels.available(small)
    assert not list(tmp_path.iterdir())
    assert kernels.available(large)
    assert kernels.available(small)
    monkeypatch.setattr(kernels, "library", cache(kernels.library.__wrapped__))
    assert kernels.available(small)  # a later process finds the build


def test_no_home(monkeypatch):
    """A user without a home directory still gets a build, or the plain path."""

    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(kernels.Path, "home", home)
    assert not kernels._built.__wrapped__()
    assert kernels.library.__wrapped__() is not None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.func itself uses torch.jit
def test_transformed_code_stays_on_the_plain_path(random):
    """Tracing, forward-mode AD and torch.func see through the estimate; compiled loops would hide it from them."""
    V = random(10, 5, 3, dtype=torch.float32)
    phi = lambda V: values.estimate(V, couplings="none").shapley  # noqa: E731
    tangent = torch.func.jvp(phi, (V,), (torch.ones_like(V),))[1]
    step = (phi(V.double() + 1e-6) - phi(V.double() - 1e-6)) / 2e-6
    torch.testing.assert_close(tangent.double(), step, atol=1e-4, rtol=1e-3)
    both = torch.func.vmap(phi)(torch.stack([V, 2 * V]))
    torch.testing.assert_close(both[0], phi(V))
