"""The layer that stands where nn.MultiheadAttention does: same calls, masks, shapes and names; games behind them."""

import copy
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn

from neurogame import NeuroGameAttention, NeuroGameSelfAttention, exact, query_game

KINDS = {
    "couplings": {"couplings": True, "strength": 0.3},
    "values": {"couplings": False, "strength": 0.3},
    "sigmoid": {"couplings": False, "contribution": False},
}


def layer(kind="couplings", seed=0, dim=16, heads=4, **options):
    torch.manual_seed(seed)
    return NeuroGameSelfAttention(dim, heads, **{"batch_first": True, **KINDS[kind], **options})


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def inputs(random, batch=2, tokens=7, dim=16, dtype=torch.float32, seed=3):
    return random(seed, batch, tokens, dim, dtype=dtype)


def test_sigmoid_attention_is_the_published_formula(random):
    """ω off: σ(QKᵀ/√d − log n) V, with the projections of an nn.MultiheadAttention."""
    module, x = layer("sigmoid"), inputs(random)
    q, k, v = (t.view(2, 7, 4, 4).transpose(1, 2) for t in nn.functional.linear(x, module.in_proj_weight).chunk(3, -1))
    alpha = torch.sigmoid(q @ k.mT / 2.0 - torch.tensor(7.0).log())
    output, weights = module(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(weights, alpha)
    torch.testing.assert_close(output, module.out_proj((alpha @ v).transpose(1, 2).flatten(2)))


def test_a_fresh_layer_is_sigmoid_attention(random):
    """ω starts at 0, for both games; then only the learned ω tells them apart."""
    x = inputs(random)
    found = [layer(kind, strength=0.0)(x, x, x)[0] for kind in ("couplings", "values")]
    for one in found:
        torch.testing.assert_close(one, layer("sigmoid")(x, x, x)[0])


def test_weights_without_couplings_are_shapley_values_of_the_game_of_means(random):
    """α = σ(φ/(2√d) − log n), φ by enumeration of (‖q + (ω/n) ΣG‖² − ‖q‖²)/(ω/n)."""
    module, x = layer("values").double(), inputs(random, batch=1, tokens=5, dtype=torch.float64)
    _, weights = module(x, x, x, average_attn_weights=False)
    q, k, _ = (t.view(5, 4, 4).transpose(0, 1) for t in nn.functional.linear(x[0], module.in_proj_weight).chunk(3, -1))
    omega = 0.3 / 5
    for h in range(4):
        phi = exact.shapley(torch.stack([exact.value_table(omega * k[h], "square", anchor=a) for a in q[h]])) / omega
        torch.testing.assert_close(weights[0, h], torch.sigmoid(phi / 4.0 - torch.tensor(5.0).log()))


def test_games_are_what_the_layer_plays(random, kind):
    """The record's φ and J against enumeration, its Ising system against α where it has converged."""
    module, x = layer(kind, iterations=60).double(), inputs(random, batch=1, tokens=5, dtype=torch.float64)
    mask = torch.tensor([[False, False, True, False, False]])
    found = module.games(x, key_padding_mask=mask)
    _, weights = module(x, x, x, key_padding_mask=mask, average_attn_weights=False)
    torch.testing.assert_close(found.alpha, weights)
    assert found.residual.max() < 1e-6
    state = found.solve(tol=1e-10)
    torch.testing.assert_close(state.alpha, weights, atol=1e-7, rtol=0)
    assert not found.field[..., 2].any()
    if kind == "couplings":
        q, k, _ = (t.view(5, 4, 4)[:, 1] for t in nn.functional.linear(x[0], module.in_proj_weight).chunk(3, -1))
        real = ~mask[0]
        v = torch.stack([exact.value_table(0.3 * k[real], "square", anchor=a) for a in q]) / 0.3
        torch.testing.assert_close(found.shapley[0, 1][:, real], exact.shapley(v))
        torch.testing.assert_close(found.interactions[0, 1, 0][real][:, real], exact.interactions(v)[0])
        assert (state.spectral_radius < 1).all()
    else:
        assert found.interactions is None


@pytest.mark.parametrize("masks", ["slopes", "slopes and padding", "causal", "slopes by head"])
def test_games_have_the_numbers_of_the_masks(random, kind, masks):
    """Numbers that are added to the logits (ALiBi: slopes by distance) are in the field, in its units."""
    module, x = layer(kind, iterations=80).double(), inputs(random, batch=2, tokens=5, dtype=torch.float64)
    distance = (torch.arange(5.0)[:, None] - torch.arange(5.0)).abs().to(x.dtype)
    given = {"attn_mask": -0.5 * distance, "is_causal": masks == "causal"}
    if masks == "slopes by head":
        given["attn_mask"] = -distance * torch.linspace(0.1, 1.0, 8, dtype=x.dtype)[:, None, None]
    if masks == "slopes and padding":
        given["key_padding_mask"] = torch.tensor([[False] * 5, [False, False, True, False, True]])
    found = module.games(x, **given)
    _, weights = module(x, x, x, average_attn_weights=False, **given)
    torch.testing.assert_close(found.solve(tol=1e-10).alpha, weights, atol=1e-7, rtol=0)
    assert found.field.isfinite().all()
    if masks == "slopes and padding":
        closed = given["key_padding_mask"][:, None, None].expand(2, 4, 5, 5)
        for values in (found.alpha, found.shapley, found.field):
            assert not values[closed].any()
        if found.interactions is not None:
            assert not found.interactions[1, ..., [2, 4]].any()
            assert not found.interactions[1, ..., [2, 4], :].any()
            assert found.interactions[0].abs().sum() > 0


def test_updates_that_go_back_and_forth_are_said_not_to_have_converged(random):
    """ω = −3 and large inputs: more updates do not help, the record says so, and damping finds the solution."""
    module, x = layer(strength=-3.0, iterations=20).double(), 20.0 * inputs(random, tokens=12, dtype=torch.float64)
    found = module.games(x)
    assert found.residual.max() > 1.9
    assert not found.converged.all()
    assert not found.solve().converged.all()
    damped = found.solve(damping=0.02, max_iter=4000)
    assert damped.converged.all()
    calm = layer(strength=0.1).games(inputs(random))
    assert calm.converged.all()


def test_padded_equals_unpadded(random, kind):
    module, x = layer(kind).eval(), inputs(random)
    mask = torch.zeros(2, 7, dtype=torch.bool)
    mask[1, 4:] = True
    x[1, 4:] = 1e3
    for need in (True, False):
        output, weights = module(x, x, x, key_padding_mask=mask, need_weights=need)
        alone = x[1:, :4]
        expected, expected_weights = module(alone, alone, alone)
        torch.testing.assert_close(output[1:, :4], expected)
        if need:
            torch.testing.assert_close(weights[1:, :4, :4], expected_weights)
            assert not weights[1, :, 4:].any()


def test_causal_equals_prefixes(random, kind):
    """Query i plays with tokens 0 … i alone, by flag, by boolean mask and by −inf; n_i = i + 1."""
    module, x = layer(kind).eval(), inputs(random, batch=1)
    after = torch.ones(7, 7, dtype=torch.bool).triu(1)
    output = module(x, x, x, is_causal=True, need_weights=False)[0]
    for mask in (after, torch.zeros(7, 7).masked_fill(after, -torch.inf), torch.zeros(7, 7).masked_fill(after, -1e9)):
        torch.testing.assert_close(module(x, x, x, attn_mask=mask)[0], output)
        torch.testing.assert_close(module(x, x, x, attn_mask=mask, is_causal=True)[0], output)
    for n in range(1, 8):
        prefix = x[:, :n]
        torch.testing.assert_close(module(x[:, n - 1 : n], prefix, prefix)[0], output[:, n - 1 : n])


def test_masks_by_head_and_batch(random, kind):
    """[batch·heads, queries, tokens] closes tokens to one head, numbers are added to the logits."""
    module, x = layer(kind).eval(), inputs(random)
    closed = random(5, 8, 7, 7, dtype=torch.float32) > 0.5
    closed[..., 0] = False
    weights = module(x, x, x, attn_mask=closed, average_attn_weights=False)[1]
    assert not weights[closed.view(2, 4, 7, 7)].any()
    assert (weights[~closed.view(2, 4, 7, 7)] > 0).all()
    if kind == "sigmoid":
        shift = random(6, 7, 7, dtype=torch.float32)
        plain, moved = (module(x, x, x, attn_mask=m, average_attn_weights=False)[1] for m in (None, shift))
        torch.testing.assert_close(moved.logit() - plain.logit(), shift.expand(2, 4, 7, 7), atol=1e-4, rtol=0)


@pytest.mark.parametrize("normalise", [False, True])
def test_a_query_without_players_gets_nothing(random, kind, normalise):
    module, x = layer(kind, normalise=normalise), inputs(random, batch=1).requires_grad_()
    output, weights = module(x, x, x, key_padding_mask=torch.ones(1, 7, dtype=torch.bool))
    assert not weights.any()
    torch.testing.assert_close(output, module.out_proj.bias.expand(1, 7, 16))
    output.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("batch_first", [True, False])
def test_layouts_and_shapes_are_those_of_multihead_attention(random, kind, batch_first):
    torch.manual_seed(0)
    reference = nn.MultiheadAttention(16, 4, batch_first=batch_first, kdim=6, vdim=5)
    module = layer(kind, batch_first=batch_first, kdim=6, vdim=5)
    shape = (3, 7) if batch_first else (7, 3)
    other = (3, 9) if batch_first else (9, 3)
    args = [random(k, *of, dtype=torch.float32) for k, of in enumerate(((*shape, 16), (*other, 6), (*other, 5)))]
    single = [
        random(4, 7, 16, dtype=torch.float32),
        *(random(k, 9, w, dtype=torch.float32) for k, w in ((5, 6), (6, 5))),
    ]
    for given in (args, single):
        for options in ({}, {"average_attn_weights": False}, {"need_weights": False}):
            expected, found = reference(*given, **options), module(*given, **options)
            assert [None if t is None else t.shape for t in found] == [None if t is None else t.shape for t in expected]
    first = module(*args)[0] if batch_first else module(*args)[0].transpose(0, 1)
    alone = [a[:1] if batch_first else a[:, :1] for a in args]
    torch.testing.assert_close(module(*alone)[0].flatten(), first[0].flatten())


def test_without_weights_the_output_is_the_same(random, kind):
    module, x = layer(kind), inputs(random, tokens=20)
    torch.testing.assert_close(module(x, x, x, need_weights=False)[0], module(x, x, x)[0])
    assert module(x, x, x, need_weights=False)[1] is None


def test_normalised_outputs_are_weighted_means(random, kind):
    module, x = layer(kind, normalise=True).eval(), inputs(random)
    plain = layer(kind).eval()
    plain.out_proj = module.out_proj = nn.Identity()
    output = module(x, x, x, need_weights=False)[0].unflatten(-1, (4, 4))
    summed, alpha = plain(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(output, summed.unflatten(-1, (4, 4)) / alpha.sum(-1).transpose(1, 2).unsqueeze(-1))


def test_dropout_is_of_weights_and_in_training_only(random):
    module, x = layer(dropout=0.5), inputs(random)
    assert not torch.equal(module(x, x, x)[0], module(x, x, x)[0])
    module.eval()
    assert torch.equal(module(x, x, x)[0], module(x, x, x)[0])
    torch.testing.assert_close(module(x, x, x)[0], layer()(x, x, x)[0])


def test_names_of_parameters_are_kept():
    """A state dict of nn.MultiheadAttention fits, and these names are what saved models hold."""
    ours = layer().state_dict()
    reference = nn.MultiheadAttention(16, 4).state_dict()
    assert {**{k: v.shape for k, v in reference.items()}, "strength": (4,), "background": (4,)} == {
        k: v.shape for k, v in ours.items()
    }
    assert set(layer("sigmoid").state_dict()) == set(reference) | {"background"}
    different = layer(kdim=6, bias=False).state_dict()
    assert set(different) == {
        "q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight", "strength", "background"
    }  # fmt: skip


def test_from_multihead_keeps_the_projections(random):
    torch.manual_seed(1)
    reference = nn.MultiheadAttention(16, 4, batch_first=True, dropout=0.1).eval()
    module = NeuroGameSelfAttention.from_multihead(reference, strength=0.2)
    assert not module.training
    assert module.dropout == 0.1
    for name, tensor in reference.state_dict().items():
        assert torch.equal(module.state_dict()[name], tensor)
    with pytest.raises(ValueError, match="add_bias_kv"):
        NeuroGameSelfAttention.from_multihead(nn.MultiheadAttention(16, 4, add_bias_kv=True))


@pytest.mark.parametrize("widths", [{}, {"kdim": 6, "vdim": 5}, {"bias": False}], ids=str)
def test_one_seed_gives_the_projections_of_multihead_attention(widths):
    """Drawn alike, in torch's order: after either layer the generator is at the same place."""
    drawn = []
    for build in (nn.MultiheadAttention, NeuroGameSelfAttention):
        torch.manual_seed(5)
        drawn.append((build(16, 4, **widths).state_dict(), torch.rand(1)))
    (reference, after), (ours, ours_after) = drawn
    for name, tensor in reference.items():
        assert torch.equal(ours[name], tensor), name
    assert torch.equal(ours_after, after)


def test_arguments_are_in_torchs_order():
    module = NeuroGameSelfAttention(16, 4, 0.1, False, False, False, 6, 5, True)  # noqa: FBT003
    assert (module.dropout, module.in_proj_bias, module.kdim, module.vdim) == (0.1, None, 6, 5)
    assert module.batch_first
    assert NeuroGameSelfAttention(16, 4, add_bias_kv=False, add_zero_attn=False).dropout == 0.0


@pytest.mark.parametrize("need", [True, False])
def test_nothing_to_ask(kind, need):
    """No queries, and no batch: empty outputs, gradients of 0."""
    module = layer(kind)
    for query, key in ((torch.zeros(2, 0, 16), torch.ones(2, 3, 16)), (torch.zeros(0, 3, 16), torch.zeros(0, 3, 16))):
        output, _ = module(query, key, key, need_weights=need)
        assert output.shape == query.shape
        output.sum().backward()
        assert all(p.grad is None or not p.grad.any() for p in module.parameters())


def test_on_the_meta_device(kind):
    module, x = layer(kind, device="meta"), torch.empty(2, 3, 16, device="meta")
    for need in (True, False):
        output = module(x, x, x, is_causal=True, need_weights=need)[0]
        assert output.shape == (2, 3, 16)
        output.sum().backward()


def test_running_means_make_no_matrix(random):
    """Causal `couplings=False`, with padding and with fewer or more queries than tokens: the means by definition."""
    G = random(1, 2, 3, 6, 4)
    real = torch.tensor([[True] * 6, [True, False, True, True, False, False]])[:, None, None]
    for queries in (3, 6, 8):
        before = torch.ones(queries, 6, dtype=torch.bool).tril()
        for players in (None, real):
            everyone = before.expand(2, 1, queries, 6) if players is None else before & players
            weights = everyone.double()
            expected = (weights / weights.sum(-1, keepdim=True)) @ G
            torch.testing.assert_close(query_game.running_mean_key(G, queries, players), expected)
            torch.testing.assert_close(query_game.mean_key(G, everyone), expected)


def test_every_parameter_gets_a_gradient(random, kind):
    """From ω = 0 too: distributed training finds no unused parameter."""
    module, x = layer(kind, **({} if kind == "sigmoid" else {"strength": 0.0})), inputs(random)
    for need in (True, False):
        module.zero_grad(set_to_none=True)
        module(x, x, x, need_weights=need)[0].square().sum().backward()
        for name, parameter in module.named_parameters():
            assert parameter.grad.isfinite().all(), name
            assert parameter.grad.abs().sum() > 0, name


def test_gradcheck_through_the_layer(random, kind):
    module = layer(kind, dim=4, heads=2, iterations=3).double()
    x = random(7, 1, 3, 4).requires_grad_()
    mask = torch.tensor([[False, False, True]])
    parameters = list(module.parameters())
    assert torch.autograd.gradcheck(
        lambda x, *_: module(x, x, x, key_padding_mask=mask, need_weights=False)[0], (x, *parameters)
    )


def test_inside_a_transformer_encoder(random, kind):
    """Trained and in evaluation the layer is what runs: the fused softmax of torch does not take its place."""
    torch.manual_seed(0)
    block = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    block.self_attn = layer(kind)
    encoder = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
    x = inputs(random)
    mask = torch.tensor([[False] * 7, [False] * 5 + [True] * 2])
    trained = encoder(x, src_key_padding_mask=mask)
    trained.sum().backward()
    encoder.eval()
    with torch.no_grad():
        torch.testing.assert_close(encoder(x, src_key_padding_mask=mask), trained.detach())
        torch.testing.assert_close(encoder(x[1:, :5]), trained[1:, :5].detach())
        after = nn.Transformer.generate_square_subsequent_mask(7)
        causal = encoder(x, mask=after, is_causal=True)
        torch.testing.assert_close(encoder(x[:, :3], mask=after[:3, :3]), causal[:, :3])


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("route", ["encoder first", "layer first", "whole transformer"])
def test_swapped_into_an_encoder_that_packs_padding(random, route):
    """Torch decides at construction whether to hand over nested tensors; evaluation equals training either way."""
    torch.manual_seed(0)
    block = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    if route == "layer first":
        block.self_attn = NeuroGameSelfAttention.from_multihead(block.self_attn, strength=0.3)
    encoder = nn.TransformerEncoder(block, 2)
    if route == "whole transformer":
        encoder = nn.Transformer(16, 4, 2, 1, 32, dropout=0.0, batch_first=True).encoder
    for one in encoder.layers if route != "layer first" else ():
        one.self_attn = NeuroGameSelfAttention.from_multihead(one.self_attn, strength=0.3)
    x, mask = inputs(random), torch.tensor([[False] * 7, [False] * 5 + [True] * 2])
    trained = encoder(x, src_key_padding_mask=mask).detach()
    nested = []
    encoder.layers[0].self_attn.register_forward_pre_hook(lambda _, args: nested.append(args[0].is_nested))
    encoder.eval()
    with torch.no_grad():
        found = encoder(x, src_key_padding_mask=mask)
    assert nested == [route != "layer first"]
    torch.testing.assert_close(found[~mask], trained[~mask])


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_nested_tensors_are_played_without_padding(random, kind, layout):
    module, x = layer(kind).eval(), inputs(random)
    packed = torch.nested.nested_tensor([x[0], x[1, :4]], layout=layout)
    output, weights = module(packed, packed, packed)
    assert output.is_nested
    assert output.layout == layout
    for row, alone in zip((output + packed).unbind(), (x[:1], x[1:, :4]), strict=True):
        torch.testing.assert_close(row, (module(alone, alone, alone)[0] + alone)[0])
    assert not weights[1, :, 4:].any()
    memory = module(x, packed, packed, need_weights=False)[0]
    torch.testing.assert_close(memory[1:], module(x[1:], x[1:, :4], x[1:, :4])[0])
    with pytest.raises(ValueError, match="batch_first=True"):
        layer(kind, batch_first=False)(packed, packed, packed)
    with pytest.raises(ValueError, match="key_padding_mask must be None"):
        module(packed, packed, packed, key_padding_mask=torch.zeros(2, 7, dtype=torch.bool))


def test_as_cross_attention_of_a_decoder(random):
    torch.manual_seed(0)
    block = nn.TransformerDecoderLayer(16, 4, 32, dropout=0.0, batch_first=True).eval()
    block.self_attn, block.multihead_attn = layer(seed=1), layer(seed=2)
    text, memory = inputs(random), inputs(random, tokens=5, seed=4)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    output = block(text, memory, memory_key_padding_mask=padding)
    torch.testing.assert_close(block(text[1:], memory[1:, :3]), output[1:])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(random, dtype, kind):
    """As a module of that dtype and under autocast: finite, of the dtype that torch's layer returns, near float32."""
    module, x = layer(kind), inputs(random, tokens=40)
    expected = module(x, x, x)[0]
    half = copy.deepcopy(module).to(dtype)
    y = x.to(dtype)
    output, weights = half(y, y, y)
    assert output.dtype == weights.dtype == dtype
    torch.testing.assert_close(output.float(), expected, atol=0.03, rtol=0.05)
    with torch.autocast("cpu", dtype=dtype):
        output, _ = module(x, x, x, need_weights=False)
        game, *_ = module._play(x, x, x, None, None, is_causal=False)
    assert output.dtype == dtype
    assert game.q.dtype == torch.float32
    torch.testing.assert_close(output.float(), expected, atol=0.03, rtol=0.05)
    output.float().square().sum().backward()
    assert all(p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("create_graph", [False, True], ids=["first derivatives", "create_graph"])
def test_backward_inside_autocast(random, kind, create_graph):
    """The gradient of a call inside an autocast block, with backward() inside it and behind it."""
    module, x = layer(kind), inputs(random, tokens=20)
    found = []
    for inside in (True, False):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = module(x, x, x, need_weights=False)[0].float().square().sum()
            if inside:
                found.append(torch.autograd.grad(loss, list(module.parameters()), create_graph=create_graph))
        if not inside:
            found.append(torch.autograd.grad(loss, list(module.parameters())))
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, atol=0.1 * float(two.abs().max()), rtol=0)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own, in its forward derivatives
def test_torch_func(random, kind):
    """vmap over batches and over models, jacrev, jvp: the numbers of the plain call."""
    module, x = layer(kind).eval(), inputs(random, tokens=4)

    def one(x):
        return module(x, x, x, need_weights=False)[0]

    torch.testing.assert_close(torch.func.vmap(lambda x: one(x[None])[0])(x), one(x))
    jacobian = torch.func.jacrev(lambda x: one(x[None])[0])(x[0])
    assert jacobian.shape == (4, 16, 4, 16)
    tangent = torch.ones_like(x[0])
    _, forward = torch.func.jvp(lambda x: one(x[None])[0], (x[0],), (tangent,))
    torch.testing.assert_close(forward, (jacobian * tangent).sum((2, 3)), atol=1e-4, rtol=1e-4)
    modules = [layer(kind, seed=k) for k in range(2)]
    parameters, buffers = torch.func.stack_module_state(modules)
    base = copy.deepcopy(modules[0])
    found = torch.func.vmap(
        lambda p, b: torch.func.functional_call(base, (p, b), (x, x, x), {"need_weights": False})[0]
    )(parameters, buffers)
    torch.testing.assert_close(found, torch.stack([m(x, x, x)[0] for m in modules]))


COMPILE = """
import sys, torch
from neurogame import NeuroGameSelfAttention
torch.manual_seed(0)
x = torch.randn(2, 8, 16)
mask = torch.zeros(2, 8, dtype=torch.bool)
mask[1, 5:] = True
for options in ({"strength": 0.3}, {"couplings": False, "strength": 0.3}):
    module = NeuroGameSelfAttention(16, 2, batch_first=True, **options)
    compiled = torch.compile(module, fullgraph=True, backend=sys.argv[1])
    found = []
    for run in (compiled, module):
        module.zero_grad()
        out = run(x, x, x, key_padding_mask=mask, need_weights=False, is_causal=True)[0]
        out.square().sum().backward()
        found.append((out.detach(), *(p.grad.clone() for p in module.parameters())))
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-4)
    torch._dynamo.reset()
"""
DISTRIBUTED = """
import sys, torch
from torch import nn, distributed
from neurogame import NeuroGameSelfAttention
rank = int(sys.argv[1])
distributed.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
torch.manual_seed(0)
module = NeuroGameSelfAttention(16, 2, batch_first=True)
x = torch.randn(2, 5, 16)
parallel = nn.parallel.DistributedDataParallel(module)
mine = x[rank : rank + 1]
parallel(mine, mine, mine, need_weights=False)[0].square().sum().backward()
together = [p.grad.clone() for p in module.parameters()]
module.zero_grad()
(module(x, x, x, need_weights=False)[0].square().sum() / 2).backward()
for one, parameter in zip(together, module.parameters(), strict=True):
    torch.testing.assert_close(one, parameter.grad, atol=1e-5, rtol=1e-4)
distributed.destroy_process_group()
"""


def test_nothing_breaks_the_graph():
    """`torch.compile(fullgraph=True)`, forward and backward, in a process without shape checks."""
    compiles("aot_eager")


@pytest.mark.slow
def test_inductor_gives_the_same_numbers():
    compiles("inductor")


def compiles(backend):
    result = subprocess.run([sys.executable, "-c", COMPILE, backend], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_two_processes_get_the_gradient_of_the_whole_batch(tmp_path):
    command = [sys.executable, "-c", DISTRIBUTED]
    started = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store")], stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    for process in started:
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors[-3000:]


def test_modules_travel(random):
    module, x = layer().eval(), inputs(random)
    again = pickle.loads(pickle.dumps(copy.deepcopy(module)))
    assert torch.equal(again(x, x, x)[0], module(x, x, x)[0])
    assert "couplings=True" in repr(module)


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: NeuroGameSelfAttention(10, 3), ValueError, "embed_dim = 10 must be divisible by num_heads = 3"),
        (lambda: NeuroGameSelfAttention(8, 2, iterations=0), ValueError, "iterations must be at least 1"),
        (lambda: NeuroGameSelfAttention(8, 2, contribution=False), ValueError, "couplings=False"),
        (lambda: NeuroGameSelfAttention(8, 2, add_bias_kv=True), ValueError, "no counterpart in a game"),
        (lambda: NeuroGameSelfAttention(8, 2, add_zero_attn=True), ValueError, "no counterpart in a game"),
        (lambda: NeuroGameSelfAttention(8, 2, dropout=1.5), ValueError, r"dropout must be in \[0, 1\)"),
    ],
)
def test_bad_configuration_is_named(build, error, words, as_user):
    with pytest.raises(error, match=words):
        build()


X = torch.ones(2, 3, 8)


@pytest.mark.parametrize(
    ("args", "masks", "error", "words"),
    [
        ((X, X, torch.ones(2, 4, 8)), {}, ValueError, "must have the same tokens"),
        ((X, torch.ones(1, 3, 8), torch.ones(1, 3, 8)), {}, ValueError, "query has 2 and key 1 batch entries"),
        ((torch.ones(2, 3, 9), X, X), {}, ValueError, "query must be .* with dim = 8"),
        ((X, X, X), {"key_padding_mask": torch.ones(3, 2, dtype=torch.bool)}, ValueError, r"= \[2, 3\], got \[3, 2\]"),
        ((X, X, X), {"attn_mask": torch.ones(2, 3, 3, dtype=torch.bool)}, ValueError, r"\[4, 3, 3\], got \[2, 3, 3\]"),
        ((X, X, X), {"key_padding_mask": torch.ones(2, 3, dtype=torch.long)}, TypeError, "attention_mask == 0"),
    ],
)
def test_bad_input_is_named(args, masks, error, words, as_user):
    with pytest.raises(error, match=words):
        NeuroGameSelfAttention(8, 2, batch_first=True)(*args, **masks)


def test_both_layers_make_a_network(random):
    """Tokens attend to each other, then are pooled: two lines of a network."""
    network = nn.Sequential(nn.Linear(8, 16), NeuroGameAttention(16, 4, tensor_only=True), nn.Linear(16, 2))
    assert network(random(1, 3, 5, 8, dtype=torch.float32)).shape == (3, 2)
