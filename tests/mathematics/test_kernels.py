"""The compiled loops give the numbers of the plain PyTorch path; without a compiler nothing is lost but time."""

import ctypes
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
import torch

from neurogame import NeuroGameAttention, ising, kernels, spectrum, values
from neurogame.couplings import LinearCoupling
from neurogame.marginals import toggle
from neurogame.readout import label_values


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


look = kernels._load.__wrapped__  # as a process does that has not looked yet
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


@pytest.mark.parametrize(("players", "dim", "heads"), [(1, 4, 3), (2, 1, 1), (13, 4, 64), (20, 3, 5), (60, 17, 6)])
@pytest.mark.parametrize("labels", [1, 3])
def test_values_of_labels(players, dim, heads, labels, plain, random):
    V, anchor = random(8, heads, players, dim, dtype=torch.float32), random(9, heads, dim, dtype=torch.float32)
    anchor[0] = 0.0  # a coalition may be empty, and have no length
    R = random(10, labels, heads, dtype=torch.float32)
    with torch.no_grad():
        run = lambda: label_values(V, anchor, R, samples=38, most=0)  # noqa: E731
        found, expected = run(), plain(run)
    assert (found.exact, found.samples) == (expected.exact, expected.samples) == (False, 38)
    for name in ("shapley", "banzhaf", "coupling", "shapley_se", "banzhaf_se"):
        close(getattr(found, name), getattr(expected, name), 1e-5)
    assert not found.coupling.diagonal(dim1=-2, dim2=-1).any()


def test_values_of_labels_do_not_depend_on_threads(random):
    V, anchor, R = (random(i, *shape, dtype=torch.float32) for i, shape in enumerate([(9, 14, 4), (9, 4), (2, 9)]))
    threads, found = torch.get_num_threads(), []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        found.append(label_values(V, anchor, R).shapley)
    torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


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
            return state, spectrum.power_iteration(found.coupling, probes, 5)[0]

    (one, norms), (two, expected) = run(), plain(run)
    close(one.spins, two.spins, 5e-6)
    assert torch.equal(one.iterations, two.iterations)
    assert torch.equal(one.converged, two.converged)
    torch.testing.assert_close(one.residual, two.residual, atol=1e-6, rtol=0)
    close(norms, expected, 2e-5)
    with torch.no_grad():
        three = lambda: spectrum.power_iteration(found.coupling, probes[..., :3], 3)[0]  # noqa: E731
        close(three(), plain(three), 2e-5)
    kept = lambda: spectrum.power_iteration(found.coupling, probes, 4, keep=True)[1]  # noqa: E731
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
    assert look() == (None, "no C compiler")
    assert not list(tmp_path.iterdir())


def test_switched_off(monkeypatch):
    monkeypatch.setenv("NEUROGAME_KERNELS", "0")
    assert look() == (None, "NEUROGAME_KERNELS=0")


def test_a_build_that_fails_is_no_error_but_is_said(monkeypatch, tmp_path, caplog):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'cc: no room\nno room at all' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found, reason = look()
    assert found is None
    assert reason == f"{compiler} failed: cc: no room"
    assert [(entry.levelname, "\n" in entry.getMessage()) for entry in caplog.records] == [("WARNING", False)]
    monkeypatch.setattr(kernels, "_load", lambda: (found, reason))
    assert kernels.state() == f"plain PyTorch ({reason})"
    assert not list(tmp_path.glob("neurogame/*"))


@pytest.fixture
def at_once(monkeypatch):
    """A build takes no time: it is a copy of the one that is there, wherever one may be made."""
    (whole,) = kernels._cache().glob(f"kernels-{kernels._fingerprint()}-*.so")
    monkeypatch.setattr(kernels, "_run", lambda command: shutil.copy(whole, command[command.index("-o") + 1]))
    return whole


def test_an_unwritable_cache_falls_back(monkeypatch, tmp_path, at_once):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert look()[0] is not None


def test_the_path_is_no_matter_of_history_or_size(monkeypatch, tmp_path):
    """The first call, however small, is computed as all that follow are: a build is made for it, or found."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernels, "_load", cache(look))
    assert kernels.available(torch.zeros(1))
    (build,) = tmp_path.glob("neurogame/*")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CC", "")
    assert kernels._cached_build(tmp_path / "neurogame") == build
    assert look()[0] is not None  # a later process finds it, and needs no compiler


def test_a_torn_build_is_made_again(monkeypatch, tmp_path, at_once):
    """A file cut short by a loss of power may load and crash when it is called: its name tells what it must hold."""
    folder = tmp_path / "neurogame"
    folder.mkdir()
    content = at_once.read_bytes()
    torn = folder / at_once.name
    for damaged in (b"", content[:-4096], content[:5000] + b"\0" * 100 + content[5100:]):
        torn.write_bytes(damaged)
        assert kernels._cached_build(folder) is None
        assert not torn.exists()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    torn.write_bytes(content[:-4096])
    assert look()[0] is not None
    assert torn.read_bytes() == content


@pytest.fixture
def planted(monkeypatch, tmp_path, at_once):
    """A cache folder with a build that someone put there; it is named as ours are, and would load."""
    folder = tmp_path / "cache" / "neurogame"
    folder.mkdir(parents=True)
    content = at_once.read_bytes() + b"planted"
    path = folder / f"kernels-{kernels._fingerprint()}-{kernels._digest(content)}.so"
    path.write_bytes(content)
    path.chmod(0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert look()[0]._name == str(path)  # it is loaded where nobody else could have planted it
    return path


def open_to_all(path):
    path.chmod(0o722)


def of_another(path):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(path.parent, 65534, -1)


def a_file_of_another(path):
    """In a folder of our own that all could write to when it was planted."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path.parent.chmod(0o777)
    os.chown(path, 65534, -1)


def a_link(path):
    away = path.with_name("elsewhere")
    path.rename(away)
    path.symlink_to(away)


def open_above(path):
    path.parents[1].chmod(0o777)


def open_above_to_a_group(path):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another group")
    os.chown(path.parents[1], -1, 65534)
    path.parents[1].chmod(0o775)


@pytest.mark.attack(point=6)
@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users here")
@pytest.mark.parametrize("how", [open_to_all, of_another, a_file_of_another, a_link, open_above, open_above_to_a_group])
def test_code_that_another_user_can_change_is_not_loaded(planted, how):
    how(planted)
    loaded, _ = look()
    assert loaded is not None  # built anew, where the cache cannot be trusted in a folder of this process alone
    assert loaded._name != str(planted)
    assert (Path(loaded._name).parent == planted.parent) == (how in (open_to_all, a_file_of_another, a_link))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root's group is known to be closed")
def test_a_parent_that_the_users_own_group_can_write_to_is_trusted(planted):
    planted.parents[1].chmod(0o775)
    assert look()[0]._name == str(planted)


@pytest.mark.attack(point=6)
@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users here")
def test_the_cache_is_closed_to_others(planted):
    planted.parent.chmod(0o775)  # of a user whose umask is 002
    assert look()[0]._name == str(planted)
    assert planted.parent.stat().st_mode & 0o777 == 0o755
    planted.unlink()
    planted.parent.rmdir()
    made = Path(look()[0]._name)
    assert made.parent == planted.parent
    assert made.parent.stat().st_mode & 0o777 == made.stat().st_mode & 0o777 == 0o700


def test_two_processes_build_at_once(monkeypatch, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(lambda _: kernels._build(compiler, tmp_path), range(2))
    for path in (one, two):
        assert ctypes.CDLL(str(path)).neurogame_toggle
    assert {path.suffix for path in tmp_path.iterdir()} == {".so"}


def test_no_home(monkeypatch, at_once):
    """A user without a home directory still gets a build, or the plain path."""

    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(kernels.Path, "home", home)
    assert look()[0] is not None


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
