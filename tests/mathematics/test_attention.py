"""The layer: alive at every length, convergent, differentiable, and independent of padding and batch mates."""

import copy
import pickle
import subprocess
import sys

import pytest
import torch
from scipy.stats import spearmanr

from neurogame import LinearCoupling, NeuroGameAttention, NeuroGameOutput, values

F64 = torch.float64


def bert_like(seed, batch, tokens, dim, *, shared=1.0):
    """Layer-normed tokens with a common direction, as the last layer of a BERT-like encoder has."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, tokens, dim, generator=g) + shared * torch.randn(1, 1, dim, generator=g)
    return torch.nn.functional.layer_norm(x, (dim,))


def layer(*args, seed=0, **options):
    torch.manual_seed(seed)
    return NeuroGameAttention(*args, **options)


def dense(coupling):
    return coupling.to_dense() if isinstance(coupling, LinearCoupling) else coupling


@pytest.mark.parametrize("tokens", [16, 128, 512])
@pytest.mark.parametrize("shared", [0.0, 1.0])
@pytest.mark.parametrize("couplings", ["linear", "pairs"])
def test_a_fresh_layer_is_alive(tokens, shared, couplings):
    """α spreads, follows the field, responds to the couplings; some tokens are off; the solver converges."""
    heads = 4
    module = layer(256, heads, couplings=couplings).eval()
    x = bert_like(tokens, 4, tokens, 256, shared=shared)
    with torch.no_grad():
        found = module(x)
        silent = layer(256, heads, couplings="none").eval()
        silent.load_state_dict({k: v for k, v in module.state_dict().items() if k != "coupling_logit"})
        without = silent(x).alpha
    alpha, field = found.alpha.flatten(0, 1), found.field.flatten(0, 1)
    assert alpha.std(-1).mean() >= 0.05
    assert (alpha < 0.5).any()
    assert (alpha > 0.5).any()
    correlations = [spearmanr(a, f).statistic for a, f in zip(alpha.numpy(), field.numpy(), strict=True)]
    assert min(correlations) > 0.5
    assert (alpha - without.flatten(0, 1)).abs().mean() > 0.002
    assert (found.spin_state.residual < 1e-3).double().mean() >= 0.99
    assert (found.spin_state.spectral_radius < 1).all()


@pytest.mark.parametrize("couplings", ["linear", "pairs"])
@pytest.mark.parametrize("anchor", [None, "learned", "cls"])
def test_gradients_reach_every_parameter(couplings, anchor):
    module = layer(32, 4, couplings=couplings, anchor=anchor)
    module(bert_like(1, 3, 12, 32)).output.square().sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert (parameter.grad.reshape(parameter.grad.shape[0], -1).abs().sum(-1) > 0).all(), name


def test_gradients_reach_every_parameter_of_the_paper():
    module = layer(32, 4, preset="paper", gamma=1.0)
    module(bert_like(2, 3, 12, 32)).output.square().sum().backward()
    assert all((p.grad != 0).any() and p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize(("couplings", "method"), [("linear", "mean_field"), ("pairs", "mean_field"), ("pairs", "tap")])
def test_gradcheck_through_the_whole_layer(couplings, method):
    """estimate → scale → solve → output, in float64, for the input and every parameter."""
    module = (
        layer(4, 2, couplings=couplings, method=method, samples=4, tol=1e-12, max_iter=200, gamma=1.0).double().eval()
    )
    x = bert_like(3, 2, 3, 4).double().requires_grad_()
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    parameters = list(module.parameters())
    assert torch.autograd.gradcheck(lambda x, *_: module(x, mask).output, (x, *parameters), atol=1e-5)


@pytest.mark.parametrize("couplings", ["linear", "pairs"])
def test_implicit_gradient_equals_unrolled(couplings):
    grads = []
    for gradient in ("implicit", "unrolled"):
        module = layer(12, 3, couplings=couplings, gradient=gradient, tol=1e-13, max_iter=300).double().eval()
        module(bert_like(4, 2, 9, 12).double()).output.square().sum().backward()
        grads.append([p.grad for p in module.parameters()])
    for one, two in zip(*grads, strict=True):
        torch.testing.assert_close(one, two, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_record(preset):
    module = layer(24, 3, preset=preset).eval()
    found = module(bert_like(5, 2, 7, 24))
    assert isinstance(found, NeuroGameOutput)
    assert found.output.shape == (2, 24)
    for name in ("alpha", "field", "shapley", "banzhaf", "gate"):
        assert getattr(found, name).shape == (2, 3, 7), name
    assert tuple(found.coupling.shape) == (2, 3, 7, 7)
    assert found.spin_state.residual.shape == (2, 3)
    assert found.values.couplings == ("linear" if preset == "default" else "pairs")
    torch.testing.assert_close(found.alpha, (1 + found.spin_state.spins) / 2)
    with pytest.raises(AttributeError):
        found.alpha = None


def test_output_is_the_weighted_sum():
    module = layer(24, 3).eval()
    x = bert_like(6, 2, 7, 24)
    found = module(x)
    V = module.value(x).view(2, 7, 3, 8)
    z = torch.einsum("bhn,bnhd->bhd", found.alpha, V).reshape(2, 24)
    torch.testing.assert_close(found.output, module.out(z))


def test_paper_preset_is_algorithm_1():
    """J_i = λ φ/‖φ‖₁ + (1−λ) β/‖β‖₁, no background, no anchor, tilt = γ_h, K = 15 in training and 25 after."""
    module = layer(24, 3, preset="paper")
    names = {name.split(".")[0] for name, _ in module.named_parameters()}
    assert names == {"value", "gate", "out", "log_gamma"}
    x = bert_like(7, 2, 9, 24)
    assert module(x).values.samples == 15
    found = module.eval()(x)
    assert found.values.samples == 25
    assert found.values.estimator == "algorithm1"
    phi, beta = (v / v.abs().sum(-1, keepdim=True) for v in (found.shapley, found.banzhaf))
    torch.testing.assert_close(found.field, found.gate * phi + (1 - found.gate) * beta)
    torch.testing.assert_close(module.gamma, torch.full((3,), 0.25))


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (F64, 1e-11)])
def test_padded_equals_unpadded(preset, dtype, tolerance):
    module = layer(16, 2, preset=preset, gamma=2.0).to(dtype).eval()
    x = bert_like(8, 2, 11, 16).to(dtype)
    mask = torch.ones(2, 11, dtype=torch.long)
    mask[1, 7:] = 0
    x[1, 7:] = 1e3  # whatever padding holds
    padded, alone = module(x, mask), module(x[1:, :7])
    torch.testing.assert_close(padded.output[1:], alone.output, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(padded.alpha[1:, :, :7], alone.alpha, atol=tolerance, rtol=tolerance)
    for name in ("alpha", "field", "shapley", "banzhaf"):
        assert not getattr(padded, name)[1, :, 7:].any(), name
    torch.testing.assert_close(padded.spin_state.iterations[1:], alone.spin_state.iterations)


def test_batch_mates_do_not_matter():
    module = layer(16, 2).double().eval()
    x = bert_like(9, 4, 8, 16).double()
    together = module(x)
    for b in range(4):
        torch.testing.assert_close(together.output[b : b + 1], module(x[b : b + 1]).output, atol=1e-12, rtol=0)


def test_randomness():
    module = layer(16, 2)
    x = bert_like(10, 2, 8, 16)
    a, b = (module(x, generator=torch.Generator().manual_seed(1)).output for _ in range(2))
    assert torch.equal(a, b)
    assert torch.equal(module(x, generator=5).output, module(x, generator=torch.tensor(5)).output)
    torch.manual_seed(0)
    one, two = module(x).output, module(x).output  # train mode: new draws each time, from torch's generator
    assert not torch.equal(one, two)
    torch.manual_seed(0)
    assert torch.equal(module(x).output, one)
    module.eval()
    assert torch.equal(module(x).output, module(x).output)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_stays_finite(dtype):
    module = layer(64, 4)
    x = (bert_like(11, 2, 40, 64) * 3).requires_grad_()
    with torch.autocast("cpu", dtype=dtype):
        found = module(x)
        loss = found.output.float().square().mean()
    loss.backward()
    assert found.alpha.dtype == found.shapley.dtype == torch.float32
    for t in (found.output, found.alpha, found.field, x.grad, *(p.grad for p in module.parameters())):
        assert t.isfinite().all()


def test_bfloat16_module():
    module = layer(32, 4).to(torch.bfloat16).eval()
    found = module(bert_like(12, 2, 9, 32).to(torch.bfloat16))
    assert found.output.dtype == torch.bfloat16
    assert found.alpha.dtype == torch.float32
    assert found.output.isfinite().all()


@pytest.mark.parametrize(
    "options",
    [
        {"f": "tanh"},
        {"f": "square"},
        {"tilt": 1.0},
        {"tilt": "gamma"},
        {"anchor": None},
        {"anchor": "learned"},
        {"background": False},
        {"background": 1.5},
        {"couplings": "none"},
        {"method": "tap"},
        {"field_scale": "none"},
        {"coupling_scale": "none"},
        {"estimator": "algorithm1", "tilt": "gamma"},
        {"preset": "paper", "anchor": "cls"},
        {"preset": "paper", "background": True},
    ],
    ids=str,
)
def test_every_switch_runs(options):
    module = layer(24, 3, **options)
    found = module(bert_like(13, 2, 10, 24), torch.ones(2, 10, dtype=torch.bool))
    found.output.sum().backward()
    assert found.output.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())


def test_background_field_switches_tokens_off():
    x = bert_like(14, 2, 40, 32)
    counts = [layer(32, 4, background=mu).eval()(x).alpha.sum(-1).mean().item() for mu in (False, 0.5, 1.0, 2.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < 0.2 * counts[0]


def test_a_large_anchor_is_a_query():
    """‖a‖ → ∞: φ_i → V_i · a/‖a‖."""
    module = layer(16, 2, anchor="learned").double().eval()
    with torch.no_grad():
        module.anchor.mul_(1e6)
    x = bert_like(15, 2, 6, 16).double()
    V = module.value(x).view(2, 6, 2, 8).transpose(1, 2)
    direction = module.anchor / module.anchor.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(module(x).shapley, (V @ direction.unsqueeze(-1)).squeeze(-1), atol=1e-4, rtol=0)


def test_coupling_scale_is_the_learned_strength():
    """ρ(J)/γ is the learned κ, up to the estimate of ρ(J), which errs upwards."""
    x = bert_like(16, 8, 64, 64)
    for couplings in ("linear", "pairs"):
        module = layer(64, 4, coupling_strength=0.7, couplings=couplings).eval()
        radius = module(x).spin_state.spectral_radius
        assert 0.6 < radius.mean() < 0.75
        assert radius.max() < 0.95


def test_linear_and_pairs_agree():
    x = bert_like(17, 2, 96, 64)
    found = [layer(64, 4, couplings=c).eval()(x).alpha for c in ("linear", "pairs")]
    assert (found[0] - found[1]).abs().max() < 0.01


def test_state_dict_round_trip():
    one, two = layer(24, 3, seed=1), layer(24, 3, seed=2)
    two.load_state_dict(one.state_dict())
    x = bert_like(18, 2, 6, 24)
    assert torch.equal(one.eval()(x).output, two.eval()(x).output)


@pytest.mark.parametrize("couplings", ["linear", "pairs"])
def test_vanishing_couplings_are_not_blown_up(couplings):
    """One token, or equal tokens: J is rounding error, and its spectral scale must not turn it into a force."""
    module = layer(16, 2, couplings=couplings, anchor=None).eval()
    silent = layer(16, 2, couplings="none", anchor=None).eval()
    one = bert_like(19, 3, 1, 16)
    for x in (one, one.expand(3, 9, 16)):
        found = module(x)
        assert found.spin_state.converged.all()
        torch.testing.assert_close(found.alpha, silent(x).alpha, atol=5e-3, rtol=0)


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: NeuroGameAttention(10, 3), ValueError, "dim = 10 must be divisible by heads = 3"),
        (lambda: NeuroGameAttention(0, 1), ValueError, "dim must be at least 1"),
        (
            lambda: NeuroGameAttention(8, 2, preset="fast"),
            ValueError,
            "preset = 'fast' is unknown; allowed: 'default', 'paper'",
        ),
        (lambda: NeuroGameAttention(8, 2, K=3), TypeError, "unknown option 'K'; allowed: samples"),
        (lambda: NeuroGameAttention(8, 2, samples=0), ValueError, "samples must be at least 1"),
        (
            lambda: NeuroGameAttention(8, 2, anchor="mean"),
            ValueError,
            "anchor = 'mean' is unknown; allowed: 'learned', 'cls'",
        ),
        (lambda: NeuroGameAttention(8, 2, tilt="cold"), ValueError, "tilt = 'cold' is unknown"),
        (lambda: NeuroGameAttention(8, 2, tilt=-1.0), ValueError, "tilt must be None, 'gamma' or a number > 0"),
        (lambda: NeuroGameAttention(8, 2, damping=1.2), ValueError, "damping must be > 0.0 and ≤ 1.0"),
        (lambda: NeuroGameAttention(8, 2, gamma=0.0), ValueError, "gamma must be > 0"),
        (lambda: NeuroGameAttention(8, 2, coupling_strength=1.0), ValueError, "between 0 and 1"),
        (lambda: NeuroGameAttention(8, 2, estimator="algorithm1"), ValueError, "needs a tilt"),
    ],
)
def test_bad_configuration_is_named(build, error, words, as_user):
    with pytest.raises(error, match=words):
        build()


@pytest.mark.parametrize(
    ("x", "mask", "error", "words"),
    [
        (torch.ones(2, 8), None, ValueError, r"x must be \[batch, tokens, 8\], got \[2, 8\]"),
        (torch.ones(2, 3, 9), None, ValueError, r"x must be \[batch, tokens, 8\], got \[2, 3, 9\]"),
        (torch.ones(2, 3, 8, dtype=torch.long), None, TypeError, "token ids instead of embeddings"),
        (torch.full((2, 3, 8), torch.nan), None, ValueError, "x holds 48 NaN"),
        (torch.ones(2, 3, 8), torch.ones(2, 3), TypeError, "additive mask"),
        (
            torch.ones(2, 3, 8),
            torch.ones(2, 1, 3, dtype=torch.bool),
            ValueError,
            r"mask must be \[batch, tokens\] = \[2, 3\]",
        ),
        (torch.ones(2, 3, 8), torch.tensor([[1, 1, 1], [0, 0, 0]]), ValueError, "at least one real token"),
    ],
)
def test_bad_input_is_named(x, mask, error, words, as_user):
    with pytest.raises(error, match=words):
        NeuroGameAttention(8, 2)(x, mask)


def test_values_are_checked_only_where_that_is_free(as_user):
    x = torch.full((1, 3, 8), torch.nan)
    assert NeuroGameAttention(8, 2, validate=False).eval()(x).output.isnan().any()
    with pytest.raises(ValueError, match="NaN"):
        NeuroGameAttention(8, 2, validate=True)(x)


COMPILE = """
import torch
from neurogame import NeuroGameAttention
torch.manual_seed(0)
x = torch.randn(2, 8, 16)
for options in ({"couplings": "linear"}, {"couplings": "pairs"}, {"preset": "paper"}):
    module = NeuroGameAttention(16, 2, max_iter=4, samples=4, train_samples=4, **options)
    torch._dynamo.reset()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    grads = []
    for run in (compiled, module):
        module.zero_grad()
        found = run(x, generator=3)
        found.output.sum().backward()
        grads.append((found.alpha.detach(), *(p.grad.clone() for p in module.parameters())))
    for one, two in zip(*grads, strict=True):
        torch.testing.assert_close(one, two, atol=1e-4, rtol=1e-3)
"""


def test_nothing_breaks_the_graph():
    """`torch.compile(fullgraph=True)` takes forward and backward; in a process of its own, without shape checks."""
    result = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]


def test_modules_and_records_travel():
    """Copied, pickled, sent to another process: the same numbers."""
    module, x = layer(16, 2).eval(), bert_like(21, 2, 6, 16)
    again = pickle.loads(pickle.dumps(copy.deepcopy(module)))
    with torch.no_grad():
        found, twice = module(x), again(x)
    assert torch.equal(found.output, twice.output)
    record = pickle.loads(pickle.dumps(found))
    assert torch.equal(record.alpha, found.alpha)
    assert torch.equal(record.values.efficiency_gap, found.values.efficiency_gap)
    assert torch.equal(record.spin_state.spectral_radius, found.spin_state.spectral_radius)


@pytest.mark.attack(point=10)
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_norms_that_overflow_are_an_error(preset):
    """From 1e19 on they were infinite, and every α ½, without a word."""
    module = layer(16, 2, preset=preset).eval()
    x = bert_like(1, 2, 5, 16)
    for size in (1e19, 1e25, 1e38):
        with pytest.raises(ValueError, match=r"V holds numbers up to .*overflow torch\.float32"):
            module(size * x)
        with pytest.raises(ValueError, match="overflow"):
            values.estimate(size * x)


@pytest.mark.parametrize("size", [1e20, 1e25, -1e38])
def test_an_anchor_whose_norm_overflows_is_an_error(size):
    """φ was 0 everywhere."""
    x = bert_like(1, 2, 5, 16)
    for anchor in (torch.full((16,), size), torch.cat([torch.zeros(1, 16), torch.full((1, 16), size)])):
        with pytest.raises(ValueError, match=r"anchor holds numbers up to .*overflow torch\.float32"):
            values.estimate(x, anchor=anchor)
    assert values.estimate(x, anchor=torch.full((16,), 1e3)).shapley.abs().sum() > 0


def test_large_numbers_that_fit_are_played_as_small_ones():
    module, x = layer(16, 2).eval(), bert_like(1, 2, 5, 16)
    with torch.no_grad():
        expected = module(x).shapley
        found = module(1e15 * x).shapley
        torch.testing.assert_close(found / 1e15, expected, rtol=1e-4, atol=1e-5)
        far = module.double()(1e25 * x.double()).shapley
        torch.testing.assert_close((far / 1e25).float(), expected, rtol=1e-4, atol=1e-5)
        padded = torch.cat([x, torch.full((2, 1, 16), 1e30)], 1)  # of no consequence behind the mask
        mask = torch.tensor([[True] * 5 + [False]] * 2)
        torch.testing.assert_close(module.float()(padded, mask).shapley[..., :5], expected)


def test_tensor_only_is_the_output_of_the_record():
    """What nn.Sequential passes on; the parameters are the same."""
    x = bert_like(22, 2, 6, 16)
    record, alone = layer(16, 2).eval(), layer(16, 2, tensor_only=True).eval()
    assert torch.equal(alone(x), record(x).output)
    assert list(alone.state_dict()) == list(record.state_dict())
    network = torch.nn.Sequential(torch.nn.LayerNorm(16), alone, torch.nn.Linear(16, 3))
    assert network(x).shape == (2, 3)


def test_key_padding_mask_is_the_mask_the_other_way_round():
    module, x = layer(16, 2).eval(), bert_like(23, 2, 6, 16)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
    assert torch.equal(module(x, key_padding_mask=mask == 0).output, module(x, mask).output)
    with pytest.raises(ValueError, match="give one of them"):
        module(x, mask, key_padding_mask=mask == 0)
    for wrong in (mask, torch.zeros(2, 6).masked_fill(mask == 0, -torch.inf)):
        with pytest.raises(TypeError, match="key_padding_mask < 0 makes one of an additive mask"):
            module(x, key_padding_mask=wrong)
    with pytest.raises(TypeError, match=r"pass mask == 0, or mask.bool\(\)"):
        module(x, mask.float())


@pytest.mark.parametrize("couplings", ["linear", "pairs", "none"])
def test_torch_func(couplings):
    """vmap over sequences and jacrev give the numbers of plain calls; the gradient is that of the iterations."""
    module = layer(8, 2, couplings=couplings, tensor_only=True, samples=4, tol=1e-10, max_iter=60).double().eval()
    x = bert_like(24, 3, 4, 8).double()
    torch.testing.assert_close(torch.func.vmap(lambda x: module(x[None])[0])(x), module(x))
    jacobian = torch.func.jacrev(lambda x: module(x[None])[0])(x[0])
    y = x[:1].clone().requires_grad_()
    rows = [torch.autograd.grad(module(y)[0, i], y)[0][0] for i in range(8)]
    torch.testing.assert_close(jacobian, torch.stack(rows), atol=1e-6, rtol=1e-5)
