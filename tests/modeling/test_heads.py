"""Poolings against oracles: each control's weights by another road, the paper's spins, sizes, and every ablation."""

from math import log

import pytest
import tiny
import torch
from entmax import budget_bisect
from torch.nn.functional import scaled_dot_product_attention
from transformers import AutoConfig

from neurogame.attention import NeuroGameAttention, NeuroGameOutput
from neurogame.couplings import LinearCoupling, permute_tokens
from neurogame.ising import solve
from neurogame.modeling import NeuroGameConfig, NeuroGameForSequenceClassification, overhead
from neurogame.modeling.heads import POOLINGS, SpinsOutput
from neurogame.values import estimate, l1_normalise

BERT_BASE = {"model_type": "bert"}  # transformers' defaults are its sizes
BATCH, TOKENS, DIM, HEADS = 3, 9, 32, 4


@pytest.fixture
def x():
    return torch.randn(BATCH, TOKENS, DIM, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def real():
    """Nine, six and two players; those of the second sequence have a gap."""
    mask = torch.ones(BATCH, TOKENS, dtype=torch.bool)
    mask[1, [2, 7, 8]] = False
    mask[2, 2:] = False
    return mask


def pooling(head, **options):
    config = NeuroGameConfig(encoder=tiny.encoder_config(), head=head, spins=12, **options)
    torch.manual_seed(2)
    made = POOLINGS[head](config)
    made.reset_parameters()
    return made.eval()


def by_head(x):
    return x.unflatten(-1, (HEADS, DIM // HEADS)).transpose(1, 2)  # (batch, heads, tokens, head_dim)


def joined(z):
    return z.transpose(1, 2).flatten(-2)


# --- controls -----------------------------------------------------------------------------------------------------


def test_mean_is_the_mean_of_the_players(x, real):
    pool = pooling("mean")
    expected = torch.stack([pool.out(pool.value(row[mask]).mean(0)) for row, mask in zip(x, real, strict=True)])
    torch.testing.assert_close(pool(x, real).output, expected, atol=1e-6, rtol=1e-5)


def test_softmax_is_scaled_dot_product_attention_from_the_first_token(x, real):
    pool = pooling("softmax")
    query, V = by_head(pool.query(x[:, :1])), by_head(pool.value(x))
    z = scaled_dot_product_attention(query, V, V, attn_mask=real[:, None, None])
    found = pool(x, real)
    torch.testing.assert_close(found.output, pool.out(joined(z)).squeeze(1), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(BATCH, HEADS))
    assert not found.weights.masked_select(~real.unsqueeze(1)).any()


def test_hopfield_with_one_step_is_attention_with_a_learned_query(x, real):
    pool = pooling("hopfield", hopfield_steps=1)
    K, V = by_head(pool.key(pool.norm(x))), by_head(pool.value(x))
    query = pool.state.expand(BATCH, -1, -1).unsqueeze(2)
    z = scaled_dot_product_attention(query, K, V, attn_mask=real[:, None, None])
    torch.testing.assert_close(pool(x, real).output, pool.out(joined(z)).squeeze(1), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("steps", [2, 5])
def test_hopfield_retrieves_step_by_step(steps, x, real):
    pool = pooling("hopfield", hopfield_steps=steps)
    weights = pool(x, real).weights
    for b in range(BATCH):
        K = by_head(pool.key(pool.norm(x[b : b + 1, real[b]])))[0]
        for h in range(HEADS):
            state = pool.state[h]
            for _ in range(steps - 1):
                state = K[h].mT @ torch.softmax(K[h] @ state / (DIM // HEADS) ** 0.5, dim=0)
            expected = torch.softmax(K[h] @ state / (DIM // HEADS) ** 0.5, dim=0)
            torch.testing.assert_close(weights[b, h, real[b]], expected, atol=1e-6, rtol=1e-5)
    assert not torch.allclose(weights, pooling("hopfield", hopfield_steps=1)(x, real).weights, atol=1e-3)


@pytest.mark.parametrize("budget", [0.3, 0.5, 0.8])
def test_budget_is_entmax_on_the_players(budget, x, real):
    pool = pooling("budget", budget=budget)
    x = 4.0 * x  # so that some tokens are fully on and others off
    weights = pool(x, real).weights
    total = budget * real.sum(-1)
    torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH, HEADS), atol=5e-5, rtol=0)
    assert (weights <= 1 / total[:, None, None] + 1e-5).all()
    assert (weights >= 0).all()
    assert not weights.masked_select(~real.unsqueeze(1)).any()
    scores = pool.scores(x, by_head(pool.value(x)))
    for b in range(BATCH):
        alone = budget_bisect(scores[b][:, real[b]], budget=float(total[b]), dim=-1, n_iter=60)
        torch.testing.assert_close(weights[b][:, real[b]], alone / total[b], atol=5e-5, rtol=0)
    on, off = weights[0] * total[0] > 0.999, weights[0] == 0
    assert on.any()
    assert off.any()


def test_cls_reads_the_first_token_alone(x, real):
    pool = pooling("cls")
    other = x.clone()
    other[:, 1:] = 7.0
    found = pool(x, real).output
    assert torch.equal(pool(other, real).output, found)
    torch.testing.assert_close(found, torch.tanh(x[:, 0] @ pool.project.weight.mT + pool.project.bias))
    assert not torch.allclose(pool(x + 1.0, real).output, found)


@pytest.mark.parametrize("head", ["neurogame", "mean", "softmax", "hopfield", "budget"])
def test_the_skeleton_is_shared(head, x, real):
    """pooled = W_O [Σ_i w_i W_v x_i], whatever w is."""
    pool = pooling(head)
    layer = pool.layer if head == "neurogame" else pool
    found = pool(x, real)
    z = torch.einsum("bhi,bhid->bhd", found.weights, by_head(layer.value(x)))
    torch.testing.assert_close(found.output, layer.out(z.flatten(1)), atol=1e-5, rtol=1e-4)


# --- spins --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["cls", "tokens"])
def spins(request):
    pool = pooling("spins", spins_source=request.param)
    with torch.no_grad():
        pool.pairs.copy_(0.02 * torch.randn(12, 12))
        pool.field.copy_(0.1 * torch.randn(12))
    return pool


def test_spins_solve_their_equation(spins, x, real):
    found = spins(x, real, record=True)
    source = torch.stack([r[0] if spins.source == "cls" else r[m].mean(0) for r, m in zip(x, real, strict=True)])
    J = spins.coupling
    assert torch.equal(J, J.mT)
    assert not J.diagonal().any()
    torch.testing.assert_close(J[0, 1], (spins.pairs[0, 1] + spins.pairs[1, 0]) / 2)
    field = spins.field + source @ spins.project.weight.mT + spins.project.bias
    s = found.output
    assert s.shape == (BATCH, 12)
    torch.testing.assert_close(s, torch.tanh((field + s @ J) / 0.25), atol=1e-4, rtol=0)
    game = found.game
    assert isinstance(game, SpinsOutput)
    assert game.spin_state.converged.all()
    assert (game.spin_state.residual < 1e-4).all()
    reference = solve(field, J, 0.25, damping=0.7, max_iter=25, tol=1e-4)
    torch.testing.assert_close(s, reference.spins)
    assert torch.equal(game.spin_state.iterations, reference.iterations)
    torch.testing.assert_close(game.field, field)


def test_spins_start_from_the_projection_alone(x, real):
    pool = pooling("spins")
    assert not pool.coupling.any()
    torch.testing.assert_close(pool(x, real).output, torch.tanh(pool.project(x[:, 0]) / 0.25), atol=1e-4, rtol=0)


def test_gradients_reach_the_couplings_of_spins(spins, x, real):
    spins(x, real).output.square().sum().backward()
    for parameter in (spins.field, spins.pairs, spins.project.weight):
        assert parameter.grad.isfinite().all()
        assert parameter.grad.abs().max() > 1e-4
    step, k = 1e-2, (2, 5)  # float32: against the difference quotient
    expected = spins.pairs.grad[k].item()
    values = []
    for sign in (1, -1):
        with torch.no_grad():
            spins.pairs[k] += sign * step
            field = spins.field + spins.project(x[:, 0] if spins.source == "cls" else _mean(x, real))
            values.append(solve(field.double(), spins.coupling.double(), 0.25, max_iter=500, tol=1e-12).spins)
            spins.pairs[k] -= sign * step
    quotient = (values[0].square().sum() - values[1].square().sum()) / (2 * step)
    assert expected == pytest.approx(float(quotient), rel=0.02, abs=1e-3)


def _mean(x, real):
    return torch.stack([row[mask].mean(0) for row, mask in zip(x, real, strict=True)])


def test_spins_that_do_not_settle_say_so(x, real):
    pool = pooling("spins")
    with torch.no_grad():
        pool.pairs.copy_(-3.0 * torch.ones(12, 12))  # every pair wants to differ, at ρ(J)/γ = 132
    state = pool(0.01 * x, real, record=True).game.spin_state
    assert not state.converged.any()
    assert (state.residual > 1e-4).all()
    assert (state.iterations == 25).all()


def test_token_values_of_spins_are_attributions(spins, x, real):
    game = spins(x, real, record=True).game
    V = (spins.project(x) * real.unsqueeze(-1)).unsqueeze(1)
    expected = estimate(V, mask=real.unsqueeze(1), samples=24, couplings="none")
    torch.testing.assert_close(game.shapley, expected.shapley)
    torch.testing.assert_close(game.banzhaf, expected.banzhaf)
    assert game.shapley.shape == (BATCH, 1, TOKENS)
    assert not game.shapley.masked_select(~real.unsqueeze(1)).any()
    assert spins(x, real).game is None  # estimated only where asked for


# --- sizes --------------------------------------------------------------------------------------------------------


def on_meta(**options):
    """Sizes without weights."""
    with torch.device("meta"):
        return NeuroGameForSequenceClassification(NeuroGameConfig(**options))


@pytest.mark.parametrize(
    ("dim", "heads", "layers", "depth"), [(768, 12, 12, 1), (384, 12, 6, 1), (256, 4, 4, 2), (64, 4, 2, 1)]
)
def test_controls_are_as_large_as_the_head_they_are_held_against(dim, heads, layers, depth):
    encoder = {"model_type": "bert", "hidden_size": dim, "num_attention_heads": heads, "num_hidden_layers": layers}
    options = {"encoder": {**encoder, "vocab_size": 50}, "classifier_layers": depth}
    goal = overhead(on_meta(**options))
    assert on_meta(**options).classifier.hidden[0].out_features == dim
    for head in ("cls", "mean", "softmax", "hopfield", "budget"):
        assert overhead(on_meta(head=head, **options)) == pytest.approx(goal, rel=0.01), head
    assert overhead(on_meta(preset="paper", **options)) == pytest.approx(goal, rel=0.01)
    attention = {"anchor": None, "couplings": "none", "gate": 0.5, "background": None}
    assert overhead(on_meta(attention=attention, **options)) == pytest.approx(goal, rel=0.01)
    if depth == 1:  # as near as whole neurons come
        assert abs(overhead(on_meta(preset="paper", **options)) - goal) <= (dim + 1 + 3) / 2
    small = on_meta(head="mean", equal_size=False, **options)
    assert overhead(small) < 0.85 * goal
    assert small.classifier.hidden[0].out_features == dim


def test_sizes_at_bert_base():
    """The paper counts about 754 000 parameters on top of BERT; 128 spins and one hidden layer are 216 323."""
    spins = on_meta(encoder=BERT_BASE, head="spins", spins=128)
    project, field, pairs = 768 * 128 + 128, 128, 128 * 128
    classifier = 128 * 768 + 768 + 768 * 3 + 3
    assert overhead(spins) == project + field + pairs + classifier == 216_323
    d, h, norm = 768, 12, 2 * 768
    ffn = d * d + d + 3 * d + 3
    scalars = 3 * h  # γ, μ, coupling strength
    default = on_meta(encoder=BERT_BASE)
    assert overhead(default) == 3 * d * d + (d + 1) * h + scalars + norm + ffn == 2_373_171
    paper = on_meta(encoder=BERT_BASE, preset="paper", equal_size=False)
    assert overhead(paper) == 2 * d * d + (d + 1) * h + h + ffn == 1_781_787
    assert sum(p.numel() for p in spins.encoder.parameters()) == 108_891_648  # without its pooler


def test_width_and_activation_are_as_configured():
    model = tiny.model("mean", classifier_layers=3, classifier_width=11, activation="relu")
    assert [layer.out_features for layer in model.classifier.hidden] == [11, 11, 11]
    z = torch.randn(5, 32)
    h = model.classifier.norm(z)
    for layer in model.classifier.hidden:
        h = (h @ layer.weight.mT + layer.bias).clamp(min=0)
    torch.testing.assert_close(model.classifier(z), h @ model.classifier.out.weight.mT + model.classifier.out.bias)
    assert isinstance(tiny.model(preset="paper").classifier.norm, torch.nn.Identity)
    assert isinstance(tiny.model("spins").classifier.norm, torch.nn.Identity)
    assert isinstance(tiny.model(preset="paper", classifier_norm=True).classifier.norm, torch.nn.LayerNorm)


# --- ablations ----------------------------------------------------------------------------------------------------


def layer(**options):
    torch.manual_seed(3)
    return NeuroGameAttention(DIM, HEADS, **options).eval()


@pytest.mark.parametrize("gate", [0.0, 0.5, 1.0])
def test_a_fixed_gate_mixes_as_it_says(gate, x, real):
    attention = layer(gate=gate, background=None, field_scale="none")
    assert attention.gate is None
    assert not any("gate" in name for name, _ in attention.named_parameters())
    found = attention(x, real)
    mixed = gate * l1_normalise(found.shapley) + (1 - gate) * l1_normalise(found.banzhaf)
    torch.testing.assert_close(found.field, mixed)
    assert (found.gate == gate).all()


def test_without_fields_tokens_differ_by_couplings_alone(x, real):
    found = layer(fields=False, couplings="none")(x, real)
    assert torch.equal(found.field, torch.zeros_like(found.field))  # 1 − μ with μ = 1
    assert (found.alpha == 0.5 * real.unsqueeze(1)).all()
    coupled = layer(fields=False, background=None)(x, real)
    torch.testing.assert_close(coupled.field, real.unsqueeze(1).float().expand(-1, HEADS, -1))
    inside = real.unsqueeze(1).expand_as(coupled.alpha)
    assert (coupled.alpha[inside] - layer(fields=False, background=None, couplings="none")(x, real).alpha[inside]).any()


@pytest.mark.parametrize("couplings", ["pairs", "linear"])
def test_shuffled_couplings_have_the_spectrum_and_the_wrong_pairs(couplings, x, real):
    plain, shuffled = (layer(couplings=couplings, shuffle=on)(x, real) for on in (False, True))
    assert isinstance(shuffled.coupling, LinearCoupling) == (couplings == "linear")
    before, after = (J.coupling if couplings == "pairs" else J.coupling.to_dense() for J in (plain, shuffled))
    outside = ~(real.unsqueeze(-1) & real.unsqueeze(-2)).unsqueeze(1).expand_as(after)
    assert not after[outside].any()
    assert not after.diagonal(dim1=-2, dim2=-1).any()
    # The scale is an estimate from random probes, so that spectra agree up to a factor near 1.
    spectra = [torch.linalg.eigvalsh(J.double()) for J in (before, after)]
    factor = spectra[1].abs().amax(-1, keepdim=True) / spectra[0].abs().amax(-1, keepdim=True)
    torch.testing.assert_close(spectra[1], spectra[0] * factor, atol=1e-6, rtol=1e-4)
    assert ((factor > 0.8) & (factor < 1.25)).all()
    assert (before - after)[:2].abs().max() > 1e-2
    assert torch.equal(plain.field, shuffled.field)


@pytest.mark.parametrize("couplings", ["pairs", "linear"])
def test_shuffling_keeps_the_unscaled_spectrum_exactly(couplings, x, real):
    options = {"couplings": couplings, "coupling_scale": "none"}
    plain, shuffled = (layer(shuffle=on, **options)(x, real).coupling for on in (False, True))
    plain, shuffled = (J if torch.is_tensor(J) else J.to_dense() for J in (plain, shuffled))
    spectra = [torch.linalg.eigvalsh(J.double()) for J in (plain, shuffled)]
    torch.testing.assert_close(spectra[1], spectra[0], atol=1e-5, rtol=1e-5)
    assert (plain - shuffled).abs().max() > 1e-2


def test_exchanged_couplings_by_index(random):
    J, order = random(0, 2, 3, 5, 5), torch.tensor([[2, 0, 1, 3, 4], [4, 3, 2, 1, 0]]).unsqueeze(1)
    found = permute_tokens(J, order)
    for b in range(2):
        p = order[b, 0]
        assert torch.equal(found[b], J[b][:, p][:, :, p])


@pytest.mark.parametrize("couplings", ["pairs", "linear"])
def test_shuffling_does_not_depend_on_padding(couplings, x):
    attention = layer(couplings=couplings, shuffle=True)
    short = attention(x[:, :6])
    padded = torch.cat([x[:, :6], torch.full((BATCH, 5, DIM), 9.0)], dim=1)
    mask = torch.arange(11).expand(BATCH, 11) < 6
    found = attention(padded, mask)
    torch.testing.assert_close(found.output, short.output, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.alpha[..., :6], short.alpha, atol=1e-5, rtol=1e-5)


def test_without_mean_field_spins_are_the_cut_field(x, real):
    found = layer(spins="field")(x, real)
    expected = (1 + found.field.clamp(-1, 1)) / 2 * real.unsqueeze(1)
    torch.testing.assert_close(found.alpha, expected)
    assert (found.spin_state.iterations == 0).all()
    assert not found.spin_state.converged.all()
    assert (found.field.abs() > 1).any()


ABLATIONS = {
    "lambda 0": {"gate": 0.0},
    "lambda 1/2": {"gate": 0.5},
    "lambda 1": {"gate": 1.0},
    "no fields": {"fields": False},
    "couplings shuffled": {"shuffle": True},
    "couplings shuffled, pairs": {"shuffle": True, "couplings": "pairs"},
    "no couplings": {"couplings": "none"},
    "mean field off": {"spins": "field"},
    "no background": {"background": None},
    "no anchor": {"anchor": None},
    "learned anchor": {"anchor": "learned"},
    "tap": {"method": "tap"},
}


@pytest.mark.parametrize("name", ABLATIONS)
def test_every_ablation_changes_the_logits_and_can_be_trained(name, tmp_path):
    attention = ABLATIONS[name]
    width = {"classifier_width": 32}  # the same classifier for both
    full, reduced = tiny.model(**width), tiny.model(attention=attention, **width)
    reduced.load_state_dict(full.state_dict(), strict=False)
    with torch.no_grad():  # a gate that has learned something, and fields strong enough to matter
        for model in (full, reduced):
            if model.pooling.layer.gate is not None:
                model.pooling.layer.gate.weight.normal_(generator=torch.Generator().manual_seed(0))
    batch, labels = tiny.encoded(), torch.tensor([0, 1, 2, 1])
    with torch.no_grad():
        change = (full(**batch).logits - reduced(**batch).logits).abs().max()
    assert change > (1e-4 if name == "tap" else 5e-3)
    assert reduced.config.attention == attention
    reduced.train()(**batch, labels=labels, generator=5).loss.backward()
    without = {key for key, p in reduced.named_parameters() if p.grad is None}
    assert without == set()  # what is taken out leaves no parameter behind
    for key, parameter in reduced.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), key
    reduced.save_pretrained(tmp_path)
    loaded = NeuroGameForSequenceClassification.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(loaded(**batch).logits, reduced.eval()(**batch).logits)
    assert AutoConfig.from_pretrained(tmp_path).attention == attention


def test_the_layer_takes_its_options_from_the_configuration():
    options = {"samples": 8, "gamma": 0.5, "coupling_strength": 0.3, "background": 0.25}
    model = tiny.model(attention=options)
    found = model.pooling.layer
    assert found.config.samples == 8
    torch.testing.assert_close(found.gamma, torch.full((4,), 0.5))
    torch.testing.assert_close(found.coupling_logit, torch.full((4,), log(0.3 / 0.7)))
    assert (found.background == 0.25).all()
    paper = tiny.model(preset="paper", heads=8).pooling.layer
    assert (paper.config.estimator, paper.config.samples, paper.config.train_samples) == ("algorithm1", 25, 15)
    assert paper.heads == 8
    with torch.no_grad():
        game = model(**tiny.encoded(), output_game=True).game
    assert isinstance(game, NeuroGameOutput)
    assert game.values.samples == 8
