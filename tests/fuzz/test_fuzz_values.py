"""The mathematics on any numbers: finite and of the right shape, or refused in one line."""

import json

import torch
from huggingface_hub.errors import StrictDataclassError
from hypothesis import given
from hypothesis import strategies as st
from support import ERRORS, fuzz, scraps, tried

import neurogame
from neurogame import exact, game, ising, sampling
from neurogame.attention import AttentionConfig, NeuroGameAttention
from neurogame.self_attention import NeuroGameSelfAttention

names = st.sampled_from(["identity", "relu", "tanh", "square", "", "norm", None, 3])
SCALES = [0.0, 1e-30, 1e-3, 1.0, 30.0, 1e4]


@st.composite
def tensors(draw, *shape, least=0):
    """Numbers of one size, some of them 0; now and then another type, a NaN, an infinity, or no tensor at all."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    found = torch.randn(shape, generator=generator, dtype=draw(st.sampled_from([torch.float32, torch.float64])))
    found = found * draw(st.sampled_from(SCALES)) * (torch.rand(shape, generator=generator) < 0.8)
    oddity = draw(st.integers(0, 15))
    if oddity == 1 and found.numel():
        found.view(-1)[0] = draw(st.sampled_from([torch.nan, torch.inf, -torch.inf]))
    if oddity == 2:
        return found.to(
            draw(st.sampled_from([torch.int64, torch.bool, torch.float16, torch.bfloat16, torch.complex64]))
        )
    return draw(scraps) if oddity == 3 else found


@st.composite
def vectors(draw):
    """V, with or without leading axes."""
    lead = draw(st.sampled_from([(), (2,), (2, 3), (0,), (1, 1, 2)]))
    return draw(tensors(*lead, draw(st.integers(0, 6)), draw(st.integers(0, 4))))


gammas = st.one_of(
    st.sampled_from([None, 0.1, 1.0, 5.0, 0.0, -1.0, float("nan"), float("inf"), "warm", True]),
    tensors(3),
    tensors(2, 3),
)
counts = st.sampled_from([1, 2, 3, 7, 24, 0, -4, 2.5, "many", True, None])


def fine(*found):
    """All of them finite; results of numbers up to 1e4 have no excuse."""
    return all(bool(torch.as_tensor(one).isfinite().all()) for one in found)


@given(
    V=vectors(),
    mask=st.none() | tensors(2, 3) | st.lists(st.booleans(), min_size=1, max_size=6).map(torch.tensor),
    samples=counts,
    f=names,
    anchor=st.none() | tensors(3),
    tilt=gammas,
    estimator=st.sampled_from(["paired", "algorithm1", "guess"]),
    couplings=st.sampled_from(["pairs", "linear", "auto", "none", "all"]),
    chunk=st.sampled_from([None, 1, 3, 0, "x"]),
    generator=st.sampled_from([None, 0, 5, 2**40]),
)
@fuzz(4)
def test_estimate(V, **options):
    with tried("estimate"):
        found = neurogame.estimate(V, **options)
        assert found.shapley.shape == found.banzhaf.shape == V.shape[:-1]
        assert fine(found.shapley, found.banzhaf, found.efficiency_gap)
        assert (found.shapley_se >= 0).all()
        if found.coupling is not None:
            dense = found.coupling if isinstance(found.coupling, torch.Tensor) else found.coupling.to_dense()
            assert fine(dense)
            size = float(V.abs().max()) if V.numel() else 0.0
            assert torch.allclose(dense, dense.mT, rtol=1e-3, atol=1e-5 * max(size, size**2))


def games(n):
    return tensors(1 << n if 0 <= n < 7 else 3)


@given(
    data=st.data(),
    n=st.sampled_from([1, 2, 3, 5, 0, -1, 2.5, "two"]),
    samples=counts,
    tilt=gammas,
    estimator=st.sampled_from(["paired", "algorithm1", "guess"]),
    couplings=st.sampled_from(["pairs", "linear", "auto", "none"]),
)
@fuzz(3)
def test_estimate_game(data, n, **options):
    table = data.draw(games(n if isinstance(n, int) else 2) | tensors(3))
    with tried("estimate_game"):
        found = neurogame.estimate_game(table, n, **options)
        assert found.shapley.shape == (n,)
        assert fine(found.shapley, found.banzhaf)


@given(
    table=st.integers(1, 6).flatmap(games) | vectors() | scraps,
    tilt=gammas,
    index=st.sampled_from(["banzhaf", "shapley", "x"]),
)
@fuzz(3)
def test_exact(table, tilt, index):
    with tried("exact.shapley") as outcome:
        phi = exact.shapley(table, tilt)
        if tilt is None and table.is_floating_point() and table.isfinite().all():
            size = table.abs().max() if table.numel() else 0.0
            gain = table[..., -1] - table[..., 0]
            assert torch.allclose(phi.sum(-1), gain, rtol=1e-4, atol=1e-4 * float(size) + 1e-12)
    with tried("exact.banzhaf"):
        assert exact.banzhaf(table, tilt).shape == phi.shape or outcome.refused
    with tried("exact.interactions"):
        J = exact.interactions(table, index, tilt)
        assert torch.equal(J, J.mT) or not fine(J)


@given(V=vectors(), f=names, anchor=st.none() | tensors(3))
@fuzz(2)
def test_value_table(V, f, anchor):
    with tried("exact.value_table"):
        table = exact.value_table(V, f, anchor)
        assert table.shape == (*V.shape[:-2], 1 << V.shape[-2])
        assert fine(table)


@given(values=tensors(4) | tensors(2, 4) | scraps, gamma=gammas)
@fuzz(2)
def test_gibbs(values, gamma):
    with tried("game.gibbs"):
        p = game.gibbs(values, gamma)
        if values.isfinite().all():
            assert torch.allclose(p.sum(-1), torch.ones((), dtype=p.dtype), atol=1e-5)
            assert (p >= 0).all()


@given(
    data=st.data(),
    n=st.integers(1, 6),
    gamma=gammas,
    method=st.sampled_from(["mean_field", "tap", "magic"]),
    damping=st.sampled_from([0.7, 1.0, 0.0, -1.0, float("nan"), "x"]),
    max_iter=counts,
    tol=st.sampled_from([1e-4, 0.0, float("nan"), None]),
    gradient=st.sampled_from(["implicit", "unrolled", "none"]),
)
@fuzz(4)
def test_solve(data, n, gamma, **options):
    field = data.draw(tensors(n) | tensors(2, n))
    coupling = data.draw(st.none() | tensors(n, n) | tensors(2, n, n) | tensors(n))
    if isinstance(coupling, torch.Tensor) and coupling.dim() > 1 and coupling.is_floating_point():
        coupling = (coupling + coupling.mT) / 2
        coupling = coupling - torch.diag_embed(coupling.diagonal(dim1=-2, dim2=-1))
    with tried("ising.solve"):
        found = neurogame.solve(field, coupling, gamma, **options)
        assert (found.spins.abs() <= 1).all()
        assert (found.residual >= 0).all()
        assert fine(found.free_energy) or gamma == float("inf")
        assert ((found.alpha >= 0) & (found.alpha <= 1)).all()
    with tried("ising.energy"):
        spins = torch.ones(n)
        found = ising.energy(spins, field, coupling)
        assert fine(found) or not fine(field) or (coupling is not None and not fine(coupling))


@given(data=st.data(), n=st.integers(1, 5), gamma=gammas)
@fuzz(2)
def test_marginals(data, n, gamma):
    field, coupling = data.draw(tensors(n)), data.draw(tensors(n, n) | tensors(3))
    with tried("exact.marginals"):
        p = exact.marginals(field, coupling, gamma)
        if fine(field, coupling):
            assert ((p >= -1e-5) & (p <= 1 + 1e-5)).all()


@given(seed=st.integers(0, 2**62), heads=st.integers(1, 3), pairs=st.integers(1, 4), tokens=st.integers(1, 9))
@fuzz(2)
def test_draws(seed, heads, pairs, tokens):
    with tried("sampling"):
        start = sampling.seed_of(seed, torch.device("cpu"))
        for law in ("shapley", "banzhaf"):
            members = sampling.paired(start, law, heads, 2 * pairs, tokens)
            assert members.shape == (heads, 2 * pairs, tokens)
            assert torch.equal(members[:, :pairs], ~members[:, pairs:])
        order = sampling.permutations(start, heads, pairs, tokens)
        assert torch.equal(order.sort(-1).values, torch.arange(tokens).expand(heads, pairs, tokens))
        uniform = sampling.uniforms(start, "strata", heads, tokens)
        assert ((uniform >= 0) & (uniform < 1)).all()


settings_of_a_layer = st.fixed_dictionaries(
    {},
    optional={
        name: st.one_of(scraps, choice)
        for name, choice in {
            "samples": st.sampled_from([2, 8]),
            "f": names,
            "tilt": st.sampled_from([None, "gamma", 0.5, 0.0, -1.0, float("nan")]),
            "couplings": st.sampled_from(["pairs", "linear", "none"]),
            "method": st.sampled_from(["mean_field", "tap"]),
            "damping": st.sampled_from([0.7, 1.0]),
            "max_iter": st.sampled_from([3, 25]),
            "tol": st.sampled_from([1e-4]),
            "anchor": st.sampled_from([None, "learned", "cls"]),
            "background": st.booleans(),
        }.items()
    },
)


@given(settings_of_a_layer)
@fuzz(2)
def test_the_options_of_a_layer(options):
    with tried("AttentionConfig"):
        found = AttentionConfig(**options)
        assert found == AttentionConfig(**{name: getattr(found, name) for name in found.__dataclass_fields__})


@given(
    x=tensors(2, 4, 8) | vectors(),
    mask=st.none() | st.lists(st.booleans(), min_size=8, max_size=8).map(lambda flags: torch.tensor(flags).view(2, 4)),
    preset=st.sampled_from(["default", "paper", "none"]),
    heads=st.sampled_from([1, 2, 3, 0]),
)
@fuzz(2)
def test_attention(x, mask, preset, heads):
    with tried("NeuroGameAttention"):
        found = NeuroGameAttention(8, heads, preset=preset).eval()(x, mask)
        assert found.output.shape == (len(x), 8)
        assert fine(found.output, found.alpha, found.shapley)
        assert ((found.alpha >= 0) & (found.alpha <= 1)).all()
        if mask is not None:
            assert (found.alpha.masked_select(~mask.unsqueeze(1)) == 0).all()


@given(
    x=tensors(2, 4, 8) | vectors(),
    padding=st.none()
    | st.lists(st.booleans(), min_size=8, max_size=8).map(lambda flags: torch.tensor(flags).view(2, 4)),
    heads=st.sampled_from([1, 2, 3, 0]),
    iterations=st.sampled_from([1, 2, 0, 2.5]),
    causal=st.booleans(),
)
@fuzz(2)
def test_self_attention(x, padding, heads, iterations, causal):
    with tried("NeuroGameSelfAttention"):
        layer = NeuroGameSelfAttention(8, heads, iterations=iterations, batch_first=True).eval()
        output, alpha = layer(x, x, x, key_padding_mask=padding, is_causal=causal)
        assert output.shape == x.shape
        if x.isfinite().all() and float(x.abs().max()) < 1e3:
            assert fine(output, alpha)
            assert ((alpha >= 0) & (alpha <= 1)).all()


FIELDS = [
    "head",
    "preset",
    "heads",
    "attention",
    "players",
    "classifier_layers",
    "classifier_width",
    "activation",
    "dropout",
    "equal_size",
    "spins",
    "budget",
    "temperature",
    "id2label",
    "label2id",
    "num_labels",
    "vocab_size",
    "hidden_size",
    "embeddings_trainable",
    "special_token_ids",
    "encoder",
]
configurations = st.dictionaries(
    st.sampled_from(FIELDS),
    st.one_of(scraps, st.sampled_from(["mean", "paper", "words", "relu", {}, {0: "a", 1: "b"}, {"a": 1}, 1, 2, 0.5])),
    max_size=4,
)


@given(st.sampled_from(["NeuroGameConfig", "DamConfig", "EsimConfig"]), configurations)
@fuzz(2)
def test_configurations(kind, options):
    """transformers checks types itself, in two lines of its own."""
    try:
        with tried(kind, (*ERRORS, AttributeError)):
            found = getattr(neurogame, kind)(**options)
            again = type(found).from_dict(json.loads(found.to_json_string(use_diff=False)))
            assert (again.id2label, again.label2id) == (found.id2label, found.label2id)
    except StrictDataclassError:
        pass
