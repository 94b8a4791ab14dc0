"""The estimators against enumeration, with tolerances from their own standard errors."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neurogame import exact, values
from neurogame.couplings import LinearCoupling

F64 = torch.float64
EVERY_F = ("identity", "relu", "tanh", "square")


def repeats(V, count):
    """The same game `count` times: each head has draws of its own, so this is `count` independent runs."""
    return V.expand(1, count, *V.shape)


@pytest.mark.parametrize("f", EVERY_F)
@pytest.mark.parametrize("anchored", [False, True])
def test_paired_is_unbiased(f, anchored, random):
    """With K as small as 4 the mean over independent runs is the exact value."""
    V, a = random(0, 5, 3) * 0.5, random(1, 3) * 0.5 if anchored else None
    table = exact.value_table(V, f, a)
    runs = values.estimate(repeats(V, 2000), f=f, anchor=a, samples=4)
    for name, truth in (
        ("shapley", exact.shapley(table)),
        ("banzhaf", exact.banzhaf(table)),
        ("coupling", exact.interactions(table)),
    ):
        found = getattr(runs, name)[0]
        assert ((found.mean(0) - truth).abs() <= 5 * found.std(0) / 2000**0.5 + 1e-12).all(), name


def test_seeds_are_independent_runs_too(random):
    """The mean over seeds, not only over heads, is within five standard errors."""
    V = random(30, 6, 4)
    truth = exact.shapley(exact.value_table(V))
    found = torch.stack([values.estimate(V, samples=8, couplings="none", generator=s).shapley for s in range(200)])
    assert ((found.mean(0) - truth).abs() <= 5 * found.std(0) / 200**0.5).all()


@pytest.mark.parametrize("estimator", ["paired", "algorithm1"])
@pytest.mark.parametrize("kind", ["shapley", "banzhaf"])
def test_reported_errors_are_honest(estimator, kind, random):
    """The spread over runs is what the standard error says; stratification may only make it smaller."""
    tilt = 2.0 if estimator == "algorithm1" else None
    runs = values.estimate(repeats(random(2, 8, 4), 400), samples=64, tilt=tilt, estimator=estimator, couplings="none")
    spread = getattr(runs, kind)[0].std(0)
    reported = getattr(runs, f"{kind}_se")[0].square().mean(0).sqrt()
    assert (spread < 1.3 * reported).all()
    stratified = estimator == "paired" and kind == "shapley"
    assert (spread > (0.2 if stratified else 0.7) * reported).all()


@pytest.mark.parametrize("f", EVERY_F)
def test_corrected_tilt_converges_to_the_tilted_values(f, random):
    V, a = random(3, 5, 3) * 0.5, random(4, 3) * 0.5
    table = exact.value_table(V, f, a)
    found = values.estimate(V, f=f, anchor=a, tilt=0.5, samples=40_000)
    for kind, truth in (("shapley", exact.shapley(table, 0.5)), ("banzhaf", exact.banzhaf(table, 0.5))):
        error = (getattr(found, kind) - truth).abs()
        assert (error <= 5 * getattr(found, f"{kind}_se") + 1e-9).all()
    J = exact.interactions(table, tilt=0.5)
    torch.testing.assert_close(found.coupling, J, atol=0.02 * float(J.abs().max()), rtol=0)


def test_tilt_vanishes_at_high_temperature(random):
    V = random(5, 7, 4)
    cold, hot = values.estimate(V, samples=16), values.estimate(V, samples=16, tilt=1e8)
    for kind in ("shapley", "banzhaf", "coupling"):
        torch.testing.assert_close(getattr(hot, kind), getattr(cold, kind), atol=1e-6, rtol=0)


@pytest.mark.parametrize("f", EVERY_F)
@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize(("estimator", "tilt"), [("paired", None), ("paired", 0.7), ("algorithm1", 0.7)])
def test_fast_path_equals_evaluation_of_the_game(f, anchored, estimator, tilt, random):
    """`estimate` is the fast special case of `estimate_game`: same draws, same numbers, for both estimators."""
    V, a = random(6, 6, 3) * 0.6, random(7, 3) * 0.6 if anchored else None
    options = {"samples": 10, "tilt": tilt, "estimator": estimator}
    fast = values.estimate(V, f=f, anchor=a, **options)
    slow = values.estimate_game(exact.value_table(V, f, a), 6, **options)
    for name in (
        "shapley",
        "banzhaf",
        "coupling",
        "shapley_se",
        "banzhaf_se",
        "shapley_ess",
        "banzhaf_ess",
        "efficiency_gap",
    ):
        torch.testing.assert_close(getattr(fast, name), getattr(slow, name), atol=1e-9, rtol=1e-9, msg=name)


def test_a_function_and_its_table_are_one_game(toy):
    powers = torch.tensor([1, 2, 4])
    seen = []

    def v(C):
        seen.append(C.shape)
        return toy[(C * powers).sum(-1)]

    one, two = values.estimate_game(v, 3, samples=6), values.estimate_game(toy, 3, samples=6)
    for name in ("shapley", "banzhaf", "coupling"):
        torch.testing.assert_close(getattr(one, name), getattr(two, name))
    assert all(shape[-1] == 3 for shape in seen)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.integers(0, 10_000), st.sampled_from([2, 4, 10]))
def test_paired_is_exact_for_every_2_additive_game(n, seed, samples):
    """v(C) = Σ a_i + Σ_{i<j} b_ij, at any budget."""
    g = torch.Generator().manual_seed(seed)
    a, b = torch.randn(n, generator=g, dtype=F64), torch.randn(n, n, generator=g, dtype=F64).triu(1)
    v = lambda C: C.double() @ a + ((C.double() @ b) * C.double()).sum(-1)  # noqa: E731
    found = values.estimate_game(v, n, samples=samples, generator=seed)
    expected = a + (b + b.mT).sum(-1) / 2
    for value in (found.shapley, found.banzhaf):
        torch.testing.assert_close(value, expected, atol=1e-9, rtol=0)
    torch.testing.assert_close(found.coupling, b + b.mT, atol=1e-9, rtol=0)
    assert found.efficiency_gap < 1e-9


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_axioms_hold_on_the_draws(seed):
    """Null player and linearity hold for every draw, not only on average."""
    g = torch.Generator().manual_seed(seed)
    one, two = torch.randn(2, 16, generator=g, dtype=F64)
    values_of = lambda t: values.estimate_game(t, 4, samples=6, generator=seed)  # noqa: E731
    both, first, second = values_of(one + 2 * two), values_of(one), values_of(two)
    torch.testing.assert_close(both.shapley, first.shapley + 2 * second.shapley, atol=1e-9, rtol=0)
    wider = values.estimate_game(torch.cat([one, one]), 5, samples=6, generator=seed)
    assert wider.shapley[-1] == wider.banzhaf[-1] == 0
    assert not wider.coupling[-1].any()


def test_efficiency_gap_is_against_the_grand_coalition(random):
    V, a = random(8, 3, 6, 4), random(9, 4)
    found = values.estimate(V, anchor=a, samples=8)
    grand = (a + V.sum(-2)).norm(dim=-1) - a.norm()
    torch.testing.assert_close(found.efficiency_gap, (found.shapley.sum(-1) - grand).abs())
    constant = values.estimate_game(exact.value_table(V[0]) + 5.0, 6, samples=8)  # v(∅) = 5
    plain = values.estimate_game(exact.value_table(V[0]), 6, samples=8)
    torch.testing.assert_close(constant.efficiency_gap, plain.efficiency_gap)


def test_odd_samples_are_rounded_up_and_the_record_says_so(random):
    V = random(10, 5, 3)
    found = values.estimate(V, samples=7)
    assert (found.samples, found.requested_samples) == (8, 7)
    torch.testing.assert_close(found.shapley, values.estimate(V, samples=8).shapley)
    assert values.estimate(V, samples=7, estimator="algorithm1", tilt=1.0).samples == 7


def test_one_pair_has_no_error_bar(random):
    assert values.estimate(random(11, 5, 3), samples=1).shapley_se.isinf().all()
    assert values.estimate(random(11, 5, 3), samples=1, estimator="algorithm1", tilt=1.0).banzhaf_se.isinf().all()
    assert values.estimate(random(11, 5, 3), samples=4).shapley_se.isfinite().all()


def test_effective_sample_size(random):
    V = random(12, 6, 3)
    assert (values.estimate(V, samples=10).shapley_ess == 10).all()
    tilted = values.estimate(V, samples=10, tilt=0.3)
    assert (tilted.shapley_ess < 10).all()
    assert (tilted.shapley_ess >= 1).all()


# --- the estimators compared -------------------------------------------------------------------------------------


def relative_error(found, truth):
    return ((found - truth).norm(dim=-1) / truth.norm(dim=-1)).mean().item()


def test_paired_beats_algorithm1_threefold(random):
    """Equal budget, γ = .25, error against the classical Shapley value."""
    V = random(13, 40, 1, 12, 8)
    truth = exact.shapley(exact.value_table(V))
    ours = values.estimate(V, samples=24, couplings="none")
    theirs = values.estimate(V, samples=24, tilt=0.25, estimator="algorithm1", couplings="none")
    assert 3 * relative_error(ours.shapley, truth) < relative_error(theirs.shapley, truth)
    assert 3 * relative_error(ours.banzhaf, exact.banzhaf(exact.value_table(V))) < relative_error(
        theirs.banzhaf, exact.banzhaf(exact.value_table(V))
    )


def test_paired_beats_permutation_sampling_of_shapiq(random):
    """The same games, at least as many evaluations for shapiq."""
    import numpy as np
    from shapiq.approximator import PermutationSamplingSV

    n, K = 12, 24
    V = random(14, 12, n, 8)
    tables = exact.value_table(V)
    truth = exact.shapley(tables)
    ours = torch.stack([values.estimate_game(t, n, samples=K, couplings="none").shapley for t in tables])
    theirs = []
    for seed, table in enumerate(tables.numpy()):
        game = lambda C, table=table: np.atleast_1d(table[(np.asarray(C, dtype=np.int64) << np.arange(n)).sum(-1)])  # noqa: E731
        found = PermutationSamplingSV(n=n, random_state=seed).approximate(budget=K * (n + 1), game=game)
        theirs.append([float(found[(i,)]) for i in range(n)])
    assert relative_error(ours, truth) < relative_error(torch.tensor(theirs, dtype=F64), truth)


@pytest.mark.parametrize("anchored", [False, True])
def test_linear_couplings_improve_with_n(anchored, random):
    """Against exact pairs on the same draws, on anisotropic tokens."""
    errors = []
    for n in (12, 48, 192):
        V = random(15, 2, 3, n, 16) + 0.5
        a = random(16, 16) if anchored else None
        pairs = values.estimate(V, anchor=a, couplings="pairs").coupling
        linear = values.estimate(V, anchor=a, couplings="linear").coupling
        assert isinstance(linear, LinearCoupling)
        errors.append(float((linear.to_dense() - pairs).norm() / pairs.norm()))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.02


# --- invariances -------------------------------------------------------------------------------------------------

OPTIONS = [
    {"couplings": "pairs"},
    {"couplings": "linear"},
    {"couplings": "pairs", "tilt": 0.5},
    {"couplings": "linear", "tilt": 0.5},
    {"couplings": "pairs", "tilt": 0.5, "estimator": "algorithm1"},
    {"couplings": "pairs", "f": "tanh"},
    {"couplings": "linear", "f": "tanh"},
    {"couplings": "linear", "f": "square"},
]
NAMES = ("shapley", "banzhaf", "shapley_se", "banzhaf_se", "shapley_ess")


def dense(coupling):
    return coupling.to_dense() if isinstance(coupling, LinearCoupling) else coupling


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (F64, 1e-12)])
def test_padded_equals_unpadded(options, dtype, tolerance, random):
    V = random(17, 2, 3, 9, 4).to(dtype)
    mask = torch.ones(2, 1, 9, dtype=torch.long)
    mask[1, :, 6:] = 0
    padded = values.estimate(V, mask=mask, samples=8, **options)
    alone = values.estimate(V[1:, :, :6], samples=8, **options)
    scale = float(dense(alone.coupling).abs().max())
    for name in NAMES:
        found, expected = getattr(padded, name)[1:], getattr(alone, name)
        torch.testing.assert_close(
            found[..., :6], expected, atol=tolerance * max(1.0, scale), rtol=10 * tolerance, msg=name
        )
    for name in ("shapley", "banzhaf"):
        assert not getattr(padded, name)[1, :, 6:].any()
    J = dense(padded.coupling)[1:]
    torch.testing.assert_close(J[..., :6, :6], dense(alone.coupling), atol=10 * tolerance * scale, rtol=10 * tolerance)
    assert not J[..., 6:, :].any()
    assert not J[..., 6:].any()
    torch.testing.assert_close(padded.efficiency_gap[1:], alone.efficiency_gap, atol=20 * tolerance, rtol=0)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_batch_mates_and_chunks_do_not_matter(options, random):
    V = random(18, 4, 2, 7, 3)
    together = values.estimate(V, samples=8, **options)
    for b in range(4):
        alone = values.estimate(V[b : b + 1], samples=8, **options)
        torch.testing.assert_close(together.shapley[b : b + 1], alone.shapley, atol=1e-12, rtol=0)
        torch.testing.assert_close(dense(together.coupling)[b : b + 1], dense(alone.coupling), atol=1e-12, rtol=0)
    for chunk in (1, 3, 8, 100):
        again = values.estimate(V, samples=8, chunk=chunk, **options)
        torch.testing.assert_close(dense(again.coupling), dense(together.coupling), atol=1e-12, rtol=0)


def test_axes_are_tokens_batch_and_heads(random):
    """[n, d] and [batch, n, d] use the draws of head 0; with four axes each head has its own."""
    V = random(19, 5, 4)
    one = values.estimate(V, samples=4)
    batch = values.estimate(V.expand(3, 5, 4), samples=4)
    heads = values.estimate(V.expand(2, 3, 5, 4), samples=4)
    assert torch.equal(batch.shapley, one.shapley.expand(3, 5))
    torch.testing.assert_close(heads.shapley[:, 0], one.shapley.expand(2, 5))
    assert torch.equal(heads.shapley[0], heads.shapley[1])
    assert not torch.equal(heads.shapley[:, 0], heads.shapley[:, 1])


def test_same_generator_same_result(random):
    V = random(20, 6, 3)
    run = lambda: values.estimate(V, samples=6, generator=torch.Generator().manual_seed(5))  # noqa: E731
    assert torch.equal(run().shapley, run().shapley)
    assert not torch.equal(run().shapley, values.estimate(V, samples=6).shapley)


# --- gradients and precision -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("anchored", [False, True])
def test_gradcheck(options, anchored, random):
    V, a = (random(21, 2, 2, 4, 3) * 0.7).requires_grad_(), random(22, 2, 3).requires_grad_() if anchored else None
    mask = torch.tensor([[[True] * 4], [[True] * 3 + [False]]])
    tilt = torch.tensor([0.6, 0.9], dtype=F64, requires_grad=True) if "tilt" in options else None
    options = {**options, "tilt": tilt}

    def run(*_):
        found = values.estimate(V, anchor=a, mask=mask, samples=4, chunk=3, **options)
        return found.shapley, found.banzhaf, dense(found.coupling)

    assert torch.autograd.gradcheck(run, [t for t in (V, a, tilt) if t is not None])


@pytest.mark.parametrize("f", EVERY_F)
@pytest.mark.parametrize("couplings", ["pairs", "linear"])
@pytest.mark.parametrize("anchor", [None, 0.0, 1.0])
@pytest.mark.parametrize("V", ["zeros", "one token", "a zero token", "opposites", "equal", "parallel"])
def test_finite_at_the_singular_points(f, couplings, anchor, V, random):
    """Empty coalitions, singletons, zero vectors, tokens that cancel: values and gradients stay finite."""
    V = {
        "zeros": torch.zeros(3, 4),
        "one token": random(23, 1, 4, dtype=torch.float32),
        "a zero token": torch.cat([random(23, 2, 4, dtype=torch.float32), torch.zeros(1, 4)]),
        "opposites": torch.tensor([[1.0, 2.0], [-1.0, -2.0], [3.0, 1.0]]),
        "equal": torch.ones(3, 4),
        "parallel": torch.arange(1.0, 4.0).unsqueeze(-1) * torch.ones(4),
    }[V].requires_grad_()
    a = None if anchor is None else torch.full((V.shape[-1],), anchor, requires_grad=True)
    found = values.estimate(V, f=f, anchor=a, couplings=couplings, samples=16)
    J = dense(found.coupling)
    (found.shapley.sum() + found.banzhaf.square().sum() + (J * torch.arange(J.numel()).view_as(J)).sum()).backward()
    for t in (found.shapley, found.banzhaf, J, V.grad, *([] if a is None else [a.grad])):
        assert t.isfinite().all()


@pytest.mark.parametrize("V", ["opposites", "parallel", "equal"])
def test_pairs_are_exact_where_the_stable_form_divides_by_zero(V):
    V = {
        "opposites": torch.tensor([[1.0, 2.0], [-1.0, -2.0], [3.0, 1.0]]),
        "equal": torch.ones(3, 4),
        "parallel": torch.arange(1.0, 4.0).unsqueeze(-1) * torch.ones(4),
    }[V]
    slow = values.estimate_game(exact.value_table(V.double()), 3, samples=16)
    torch.testing.assert_close(values.estimate(V, samples=16).coupling.double(), slow.coupling, atol=1e-5, rtol=0)


def test_emptied_coalitions_are_worth_exactly_nothing():
    """In float32 ‖S − V_i‖² from the identity is ±3e-5 for a singleton {i}; it must be 0, by its size."""
    V = torch.randn(6, 2, 300, generator=torch.Generator().manual_seed(0)) * 30
    found = values.estimate(V, samples=64, couplings="none")
    truth = values.estimate(V.double(), samples=64, couplings="none")
    torch.testing.assert_close(found.shapley.double(), truth.shapley, rtol=2e-6, atol=0)


def test_stable_form_in_float32(random):
    """Anisotropic tokens, n = 256: the plain difference of norms loses per cents, the stable form 1e-4."""
    V = random(24, 1, 1, 256, 16) + 3.0
    double, single = (values.estimate(v, samples=4, couplings="pairs").coupling for v in (V, V.float()))
    error = float((single.double() - double).norm() / double.norm())
    assert error < 1e-4


def test_stable_gradient_in_float32(random):
    V, weight = random(25, 1, 1, 128, 16) + 3.0, random(26, 128, 128)
    grads = []
    for dtype in (F64, torch.float32):
        leaf = V.clone().to(dtype).requires_grad_()
        (values.estimate(leaf, samples=4, couplings="pairs").coupling * weight.to(dtype)).sum().backward()
        grads.append(leaf.grad.double())
    assert float((grads[1] - grads[0]).norm() / grads[0].norm()) < 1e-3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype, random):
    V = random(27, 2, 2, 10, 8).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = values.estimate(V, samples=8)
    assert found.shapley.dtype == found.coupling.dtype == torch.float32
    torch.testing.assert_close(found.shapley, values.estimate(V.float(), samples=8).shapley)


@pytest.mark.parametrize("couplings", ["pairs", "linear"])
def test_memory_never_holds_samples_by_pairs(couplings, random):
    """The largest tensor of forward and backward is far below batch·heads·K·n²."""
    from torch.utils._python_dispatch import TorchDispatchMode

    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                largest = max(largest, out.untyped_storage().nbytes() // out.element_size())
            return out

    B, H, K, n = 4, 3, 32, 96
    V = random(28, B, H, n, 8, dtype=torch.float32).requires_grad_()
    with Watch():
        found = values.estimate(V, samples=K, couplings=couplings)
        J = found.coupling if couplings == "pairs" else found.coupling @ torch.ones(B, H, n)
        (J.sum() + found.shapley.sum()).backward()
    assert largest <= B * H * K * n * n // 8


# --- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"V": torch.zeros(3)}, ValueError, r"\[\.\.\., tokens, dim\]"),
        ({"V": torch.zeros(0, 3)}, ValueError, "at least one token"),
        ({"V": torch.zeros(3, 2, dtype=torch.long)}, TypeError, "token ids instead of embeddings"),
        ({"V": [[1.0]]}, TypeError, "must be a torch.Tensor, got list"),
        ({"V": torch.tensor([[float("nan"), 1.0]])}, ValueError, "1 NaN or infinite"),
        ({"samples": 0}, ValueError, "samples must be at least 1, got 0"),
        ({"samples": 2.5}, TypeError, "samples must be a whole number, got 2.5"),
        ({"f": "cube"}, ValueError, "f = 'cube' is unknown; allowed: 'identity', 'relu', 'tanh', 'square'"),
        ({"estimator": "magic"}, ValueError, "estimator = 'magic' is unknown; allowed: 'paired', 'algorithm1'"),
        ({"couplings": "all"}, ValueError, "couplings = 'all' is unknown; allowed: 'pairs', 'linear', 'auto', 'none'"),
        ({"estimator": "algorithm1"}, ValueError, "needs a tilt"),
        ({"estimator": "algorithm1", "tilt": 1.0, "couplings": "linear"}, ValueError, "not part of algorithm1"),
        ({"tilt": 0.0}, ValueError, "tilt must be > 0, got 0.0"),
        ({"tilt": "warm"}, TypeError, "tilt must be a number or a tensor, got 'warm'"),
        ({"tilt": torch.tensor([1.0, -2.0])}, ValueError, "smallest entry is -2"),
        ({"tilt": torch.ones(7)}, ValueError, "does not broadcast"),
        ({"anchor": torch.ones(7)}, ValueError, "anchor of shape"),
        ({"chunk": 0}, ValueError, "chunk must be at least 1"),
        ({"mask": torch.ones(2, 4)}, TypeError, "additive mask of 0 and -inf is the likely cause"),
        ({"mask": torch.full((2, 4), 2)}, ValueError, "only 0 and 1"),
        ({"mask": torch.ones(2, 3, dtype=torch.bool)}, ValueError, r"does not fit the tokens, which are \[2, 4\]"),
        ({"mask": torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0]])}, ValueError, r"at least one real token.*\[\[1\]\]"),
        ({"mask": [[True]]}, TypeError, "mask must be a torch.Tensor, got list"),
    ],
    ids=lambda x: str(x) if isinstance(x, dict) else "",
)
def test_bad_input_is_named(options, error, words, as_user):
    arguments = {"V": torch.ones(2, 4, 3), **options}
    with pytest.raises(error, match=words):
        values.estimate(**arguments)


@pytest.mark.parametrize(
    ("v", "n", "options", "error", "words"),
    [
        (torch.zeros(8), 4, {}, ValueError, r"2\*\*3 entries, n = 4 players need 2\*\*4"),
        (torch.zeros(8), 3, {"couplings": "linear"}, ValueError, "identity of norm games"),
        (torch.zeros(8), 0, {}, ValueError, "n must be at least 1"),
        (lambda C: C.sum(), 3, {}, ValueError, r"v returned \[\] for coalitions"),
        (lambda C: 1.0, 3, {}, ValueError, "v returned float"),
        ("v", 3, {}, TypeError, "map coalitions to values or be a value table, got str"),
    ],
)
def test_bad_games_are_named(v, n, options, error, words, as_user):
    with pytest.raises(error, match=words):
        values.estimate_game(v, n, **options)


def test_values_are_not_read_when_told_so(as_user):
    V = torch.tensor([[float("nan"), 1.0], [1.0, 1.0]])
    assert values.estimate(V, validate=False).shapley.isnan().any()


def test_auto_says_what_it_chose(random):
    V = random(29, 5, 3)
    for options, expected in (
        ({}, "linear"),
        ({"f": "square"}, "linear"),
        ({"f": "tanh"}, "pairs"),
        ({"tilt": 1.0}, "pairs"),
        ({"tilt": 1.0, "estimator": "algorithm1"}, "pairs"),
    ):
        assert values.estimate(V, couplings="auto", **options).couplings == expected
    assert values.estimate_game(exact.value_table(V), 5, couplings="auto").couplings == "pairs"
    nothing = values.estimate(V, couplings="none")
    assert nothing.coupling is None
    assert nothing.couplings == "none"


def test_l1_normalise():
    x = torch.tensor([[1.0, -3.0], [0.0, 0.0]])
    assert values.l1_normalise(x).tolist() == [[0.25, -0.75], [0.0, 0.0]]


def test_whatever_padding_holds(random):
    """NaN or infinity behind the mask, as an overflowing half-precision layer may leave them, changes nothing."""
    V = random(31, 2, 1, 6, 4, dtype=torch.float32)
    mask = torch.tensor([[[True] * 6], [[True] * 4 + [False] * 2]])
    dirty = V.clone()
    dirty[1, :, 4:] = torch.tensor([torch.nan, torch.inf])[:, None]
    clean, found = (values.estimate(v, mask=mask, validate=False) for v in (V, dirty))
    torch.testing.assert_close(found.shapley, clean.shapley)
    torch.testing.assert_close(found.coupling, clean.coupling)


def test_masks_say_which_axis_is_the_batch(random, as_user):
    """[batch, tokens] against [batch, heads, tokens] would be taken for heads where the two are equal."""
    with pytest.raises(ValueError, match=r"\[batch, 1, tokens\] is one mask for all heads"):
        values.estimate(random(32, 2, 2, 5, 4), mask=torch.ones(2, 5, dtype=torch.bool))


def test_empty_batches():
    for options in OPTIONS:
        assert values.estimate(torch.zeros(0, 2, 3, 4), **options).shapley.shape == (0, 2, 3)


def test_integer_tables_are_games_too():
    found = values.estimate_game(torch.tensor([0, 0, 0, 1, 0, 1, 1, 1]), 3, samples=4000)
    assert ((found.shapley - 1 / 3).abs() < 5 * found.shapley_se).all()
