"""The game readout against enumeration and its own definition; models with one, saved, padded, exported."""

import copy
import json

import numpy as np
import pytest
import tiny
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

import neurogame
from neurogame import exact
from neurogame.export import export
from neurogame.modeling import NeuroGameConfig, NeuroGameForSequenceClassification
from neurogame.nli import NLI
from neurogame.readout import GameTerms, LinearReadout, Mixing, NormGames, ReadoutOutput, label_values

families = pytest.mark.parametrize("family", tiny.FAMILIES)
GOLD = torch.tensor([0, 1, 2, 1])


@pytest.fixture
def game(random):
    """`game(n)`: V, anchor and R of three labels, five heads of two numbers, as float64."""

    def draw(n, seed=0):
        return random(seed, 5, n, 2), random(seed + 100, 5, 2), random(seed + 200, 3, 5)

    return draw


def norms(V, anchor, members):
    """v_h(C) by the definition, coalition by coalition: [heads, coalitions]."""
    found = [
        [
            float(torch.linalg.norm(a + sum((x[i] for i in C), torch.zeros_like(a))) - torch.linalg.norm(a))
            for C in members
        ]
        for x, a in zip(V, anchor, strict=True)
    ]
    return torch.tensor(found, dtype=torch.float64)


def table(V, anchor, R):
    """logits(C) − b of every coalition: [labels, 2ⁿ]."""
    n = V.shape[1]
    return R @ norms(V, anchor, [[i for i in range(n) if c >> i & 1] for c in range(2**n)])


# --- label_values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_values_of_labels_are_those_of_the_enumerated_game(game, n):
    V, anchor, R = game(n)
    found, v = label_values(V, anchor, R), table(V, anchor, R)
    assert found.exact
    assert found.samples == 2**n
    torch.testing.assert_close(found.shapley, exact.shapley(v), atol=1e-12, rtol=0)
    torch.testing.assert_close(found.banzhaf, exact.banzhaf(v), atol=1e-12, rtol=0)
    torch.testing.assert_close(found.coupling, exact.interactions(v), atol=1e-12, rtol=0)
    assert not found.shapley_se.any()
    assert not found.banzhaf_se.any()


@pytest.mark.parametrize("n", [1, 7, 12, 18])  # the last is sampled
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_shares_add_up_to_the_logits(game, n, dtype):
    V, anchor, R = (x.to(dtype) for x in game(n))
    found = label_values(V, anchor, R)
    assert found.exact == (n <= 12)
    total = R @ norms(V, anchor, [range(n)])[:, 0].to(R)
    eps = 1e-12 if dtype == torch.float64 else 2e-5
    torch.testing.assert_close(found.shapley.sum(-1), total.double(), atol=eps * float(V.abs().sum()), rtol=0)
    assert found.shapley.dtype == torch.float64


def test_sampled_values_are_within_their_errors(game):
    V, anchor, R = game(14)
    truth = label_values(V, anchor, R, most=14)
    assert truth.exact
    misses = []
    for seed in range(4):
        found = label_values(V, anchor, R, generator=seed)
        assert not found.exact
        assert (found.shapley_se > 0).all()
        assert ((found.shapley - truth.shapley).abs() <= 5 * found.shapley_se).all()
        assert ((found.banzhaf - truth.banzhaf).abs() <= 5 * found.banzhaf_se).all()
        misses.append((found.coupling - truth.coupling).square().mean().sqrt())
    more = label_values(V, anchor, R, samples=2048)
    assert more.samples == 2048
    assert (more.shapley_se < 0.5 * found.shapley_se).all()
    assert (more.coupling - truth.coupling).square().mean().sqrt() < 0.5 * min(misses)


def test_the_same_draws_every_time_unless_another_seed(game):
    V, anchor, R = game(14)
    first, again, other = (label_values(V, anchor, R, generator=seed).shapley for seed in (None, None, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_values_are_linear_in_the_readout(game):
    V, anchor, R = game(8)
    A, B = label_values(V, anchor, R), label_values(V, anchor, 2.0 * R.roll(1, 0))
    both = label_values(V, anchor, R + 2.0 * R.roll(1, 0))
    for name in ("shapley", "banzhaf", "coupling"):
        torch.testing.assert_close(getattr(both, name), getattr(A, name) + getattr(B, name), atol=1e-12, rtol=0)
        torch.testing.assert_close(getattr(B, name), 2.0 * getattr(A, name).roll(1, 0), atol=1e-12, rtol=0)
    V, anchor, R = game(18)  # sampled with the same draws: everything but the balance of φ is linear
    A, B, both = (label_values(V, anchor, readout) for readout in (R, R.flip(0), R + R.flip(0)))
    for name in ("banzhaf", "coupling"):
        torch.testing.assert_close(getattr(both, name), getattr(A, name) + getattr(B, name), atol=1e-12, rtol=0)
    torch.testing.assert_close(label_values(V, anchor, -3.0 * R).shapley, -3.0 * A.shapley, atol=1e-12, rtol=0)
    gap = (both.shapley - A.shapley - B.shapley).abs()
    assert (gap <= 5 * (both.shapley_se + A.shapley_se + B.shapley_se)).all()


@pytest.mark.parametrize("n", [6, 18])
def test_a_player_that_brings_nothing_gets_nothing(game, n):
    V, anchor, R = game(n)
    V[:, 2] = 0.0
    found = label_values(V, anchor, R)
    assert not found.shapley[:, 2].any()
    assert not found.banzhaf[:, 2].any()
    assert float(found.coupling[:, 2].abs().max()) < 1e-12


@pytest.mark.parametrize("n", [6, 18])
def test_values_are_symmetric_in_players_that_are_the_same(game, n):
    V, anchor, R = game(n)
    V[:, 4] = V[:, 1]
    found = label_values(V, anchor, R)
    error = 5 * (found.shapley_se[:, 1] + found.shapley_se[:, 4]) + 1e-12
    assert ((found.shapley[:, 1] - found.shapley[:, 4]).abs() <= error).all()
    torch.testing.assert_close(found.coupling, found.coupling.mT, atol=1e-12, rtol=0)
    assert not found.coupling.diagonal(dim1=-2, dim2=-1).any()


def test_nobody_and_one_alone(game):
    V, anchor, R = game(1)
    found = label_values(V, anchor, R)
    torch.testing.assert_close(found.shapley[:, 0], R @ norms(V, anchor, [[0]])[:, 0])
    assert torch.equal(found.shapley, found.banzhaf)
    nobody = label_values(V[:, :0], anchor, R)
    assert nobody.exact
    assert (nobody.shapley.shape, nobody.banzhaf.shape, nobody.coupling.shape) == ((3, 0), (3, 0), (3, 0, 0))


def test_too_few_samples_are_refused(game):
    with pytest.raises(ValueError, match="samples must be at least 4, got 2"):
        label_values(*game(18), samples=2)


# --- GameTerms ------------------------------------------------------------------------------------------------------


def test_values_of_coalitions_are_the_definition(random):
    V, anchor = random(0, 2, 5, 7, 3), random(1, 2, 5, 3)
    members = random(2, 2, 9, 7) > 0
    terms = GameTerms(V, anchor)
    found = terms.of(members)
    assert found.shape == (2, 9, 5)
    for row in range(2):
        sets = [C.nonzero().flatten().tolist() for C in members[row]]
        torch.testing.assert_close(found[row].mT, norms(V[row], anchor[row], sets))
        torch.testing.assert_close(terms.whole()[row], norms(V[row], anchor[row], [range(7)])[:, 0])
    torch.testing.assert_close(terms.of(members.double()), found)
    assert not terms.of(torch.zeros(2, 1, 7)).any()  # v(∅) = 0


def test_merged_players_play_together(random):
    V, anchor = random(0, 2, 5, 7, 3), random(1, 2, 5, 3)
    units = torch.zeros(3, 7)
    for unit, tokens in enumerate(([0, 3], [1], [2, 4, 5])):  # token 6 belongs to none
        units[unit, tokens] = 1.0
    merged = GameTerms(units.double() @ V, anchor)
    assert merged.V.shape == (2, 5, 3, 3)
    C = exact.all_coalitions(3)
    tokens = (C.double() @ units.double()).expand(2, -1, -1)
    torch.testing.assert_close(merged.of(C.expand(2, -1, -1)), GameTerms(V, anchor).of(tokens))


def test_gradients_are_those_of_finite_differences(random):
    V, anchor = random(0, 1, 2, 3, 2).requires_grad_(), random(1, 1, 2, 2).requires_grad_()
    members = (random(2, 1, 4, 3) > 0).double()
    assert torch.autograd.gradcheck(lambda x, a: GameTerms(x, a).of(members), (V, anchor))
    assert torch.autograd.gradcheck(lambda x, a: GameTerms(x, a).whole(), (V, anchor))


@pytest.mark.parametrize(("of_V", "of_anchor"), [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0)])
def test_gradients_are_finite_where_norms_vanish(random, of_V, of_anchor):
    V = (of_V * random(0, 1, 4, 3, 2)).requires_grad_()
    anchor = (of_anchor * random(1, 1, 4, 2)).requires_grad_()
    terms = GameTerms(V, anchor)
    members = torch.tensor([[[0, 0, 0], [1, 0, 1]]])
    (terms.of(members).sum() + terms.whole().sum()).backward()
    assert V.grad.isfinite().all()
    assert anchor.grad.isfinite().all()


# --- NormGames ------------------------------------------------------------------------------------------------------


def norm_games(spins="none", seed=0, **options):
    torch.manual_seed(seed)
    games = NormGames(6, **{"heads": 4, "head_dim": 2, "width": 8, **options}, spins=spins).double().eval()
    with torch.no_grad():
        games.value.weight.mul_(20.0)
    return games


@pytest.mark.parametrize("spins", ["none", "gate"])
@pytest.mark.parametrize("mixing", [0, 2])
def test_padding_and_batch_mates_do_not_matter(random, spins, mixing):
    games = norm_games(spins, mixing=mixing)
    states, n = random(0, 3, 9, 6), (9, 4, 6)
    real = torch.arange(9) < torch.tensor(n).unsqueeze(-1)
    players = real.clone()
    players[:, 0] = players[:, 3] = False  # special tokens
    with torch.no_grad():
        together = games.terms(states, players, real=real)
        noisy = games.terms(torch.where(real.unsqueeze(-1), states, 7.0), players, real=real)
        for row, length in enumerate(n):
            alone = games.terms(states[row : row + 1, :length], players[row : row + 1, :length])
            for found in (together, noisy):
                torch.testing.assert_close(found.V[row, :, :length], alone.V[0])
                torch.testing.assert_close(found.anchor[row], alone.anchor[0])
                assert not found.V[row][:, ~players[row]].any()
                if spins == "gate":
                    torch.testing.assert_close(found.alpha[row, :, :length], alone.alpha[0])
            torch.testing.assert_close(games(states, players, real)[row], alone.whole()[0])
    assert together.V[0][:, players[0]].all()


def test_a_row_of_nothing_but_padding_is_finite(random):
    games, nobody = norm_games(), torch.zeros(2, 5, dtype=torch.bool)
    with torch.no_grad():
        found = games.terms(random(0, 2, 5, 6), nobody, real=nobody)
    assert found.anchor.isfinite().all()
    assert not found.whole().any()


def test_mixing_is_a_transformer_layer(random):
    """Against torch's own, with the same weights."""
    torch.manual_seed(0)
    ours = Mixing(128).double()
    ours.reset_parameters()
    theirs = torch.nn.TransformerEncoderLayer(128, 2, 256, 0.0, "gelu", batch_first=True, norm_first=True).double()
    names = {
        "self_attn.in_proj_weight": ours.query_key_value.weight,
        "self_attn.in_proj_bias": ours.query_key_value.bias,
        "self_attn.out_proj.weight": ours.out.weight,
        "self_attn.out_proj.bias": ours.out.bias,
        "linear1.weight": ours.up.weight,
        "linear1.bias": ours.up.bias,
        "linear2.weight": ours.down.weight,
        "linear2.bias": ours.down.bias,
    }
    theirs.load_state_dict({name: x.detach() for name, x in names.items()}, strict=False)
    u, real = random(0, 3, 7, 128), torch.arange(7) < torch.tensor([[7], [2], [5]])
    found, wanted = ours(u, real), theirs(u, src_key_padding_mask=~real)
    torch.testing.assert_close(found[real], wanted[real])
    assert not torch.allclose(found[0], ours(u, real.roll(1, 0))[0])


def test_a_token_sees_the_others_only_where_they_are_mixed(random):
    states, changed = random(0, 1, 5, 6), random(0, 1, 5, 6)
    changed[0, 4] += 1.0
    players = torch.ones(1, 5, dtype=torch.bool)
    with torch.no_grad():
        for mixing, same in ((0, True), (1, False)):
            games = norm_games(mixing=mixing)
            first, second = games.terms(states, players).V, games.terms(changed, players).V
            assert torch.equal(first[:, :, 1], second[:, :, 1]) == same


def test_the_maps_are_those_of_the_docstring(random):
    games, states = norm_games(mixing=0), random(0, 2, 5, 6)
    games.standardise(random(1, 50, 6) * 3.0 + 1.0)
    players = torch.tensor([[False, True, True, False, True]] * 2)
    with torch.no_grad():
        found = games.terms(states, players)
        x = (states - games.mean) / games.scale * 0.2
        u = torch.nn.functional.gelu(x @ games.token.weight.T + games.token.bias + x[:, :1] @ games.context.weight.T)
        V = (u @ games.value.weight.T).reshape(2, 5, 4, 2).transpose(1, 2)
        anchor = games.anchor + (u[:, 0] @ games.lean.weight.T).reshape(2, 4, 2)
    torch.testing.assert_close(found.V, V * players[:, None, :, None])
    torch.testing.assert_close(found.anchor, anchor)
    assert found.alpha is None


def test_standardised_states_have_mean_zero_and_spread_one(random):
    games, states = norm_games(), random(0, 400, 6) * torch.arange(6) + 5.0  # the first number never varies
    games.standardise(states)
    x = (states - games.mean) / games.scale
    torch.testing.assert_close(x.mean(0), torch.zeros(6).double(), atol=1e-9, rtol=0)
    torch.testing.assert_close(x.std(0)[1:], torch.ones(5).double())
    assert x.isfinite().all()
    assert {"mean", "scale"} <= set(games.state_dict())


def test_spins_weigh_what_the_tokens_bring(random):
    games, states = norm_games("gate"), random(0, 2, 5, 6)
    plain = norm_games()
    plain.load_state_dict({k: v for k, v in games.state_dict().items() if k in plain.state_dict()})
    players = torch.tensor([[False, True, True, True, True], [False, True, False, True, True]])
    with torch.no_grad():
        found, again, free = games.terms(states, players), games.terms(states, players), plain.terms(states, players)
        alpha = found.alpha.transpose(0, 1)[:, players]  # (heads, players of both rows)
        assert ((alpha > 0) & (alpha < 1)).all()
        assert float(alpha.std()) > 0.01
        assert not found.alpha.transpose(0, 1)[:, ~players].any()
        torch.testing.assert_close(found.V, found.alpha.unsqueeze(-1) * free.V)
        assert torch.equal(found.V, again.V)  # in evaluation
        nobody = games.terms(states, torch.zeros_like(players))
    assert not nobody.whole().any()
    games.train()
    with torch.no_grad():
        drawn = [games.terms(states, players, generator=seed).V for seed in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize("spins", ["none", "gate"])
def test_every_parameter_of_the_games_learns(random, spins):
    games = norm_games(spins).train()  # one layer of mixing among them
    players = torch.tensor([[False, True, True, True, True]] * 3)
    games(random(0, 3, 5, 6), players).square().sum().backward()
    assert all(p.grad.isfinite().all() for p in games.parameters())
    assert all(p.grad.any() for p in games.parameters())


BAD = [
    ({"heads": 0}, ValueError, "heads must be at least 1, got 0"),
    ({"head_dim": 2.5}, TypeError, "head_dim must be a whole number, got 2.5"),
    ({"width": 0}, ValueError, "width must be at least 1, got 0"),
    ({"mixing": -1}, ValueError, "mixing must be at least 0, got -1"),
    ({"spins": "solved"}, ValueError, "spins = 'solved' is unknown; allowed: 'none', 'gate'"),
]


@pytest.mark.parametrize(("options", "kind", "message"), BAD, ids=[next(iter(case[0])) for case in BAD])
def test_bad_options_are_refused_in_one_line(options, kind, message, as_user):
    with pytest.raises(kind) as raised:
        NormGames(6, **options)
    assert str(raised.value) == message


@pytest.mark.parametrize("shape", [(2, 5, 7), (5, 6)])
def test_states_of_another_width_are_refused(random, shape, as_user):
    with pytest.raises(ValueError) as raised:
        norm_games().terms(random(0, *shape), torch.ones(2, 5, dtype=torch.bool))
    assert str(raised.value) == f"states must be [batch, tokens, 6], got {list(shape)}"


# --- models ---------------------------------------------------------------------------------------------------------


def said(model, batch, **options):
    with torch.no_grad():
        return model(**batch, **options)


@families
def test_saved_and_loaded_is_the_same_to_the_last_bit(family, tmp_path):
    model, batch = tiny.game_model(family), tiny.encoded(family)
    assert float(model.pooling.games.mean.abs().max()) > 0.01  # buffers, which must not come back at their start
    model.save_pretrained(tmp_path)
    loaded, report = NeuroGameForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert loaded.config.readout == "game"
    assert loaded.config.read_layers == model.config.read_layers
    assert {n: x.tolist() for n, x in loaded.state_dict().items()} == {
        n: x.tolist() for n, x in model.state_dict().items()
    }
    assert torch.equal(said(loaded, batch).logits, said(model, batch).logits)


@families
def test_padding_does_not_matter(family):
    model = tiny.game_model(family)
    alone = torch.cat([said(model, tiny.encoded(family, [pair])).logits for pair in tiny.PAIRS])
    size = float(alone.abs().max())
    right = dict(tiny.encoded(family, pad_to_multiple_of=32))
    torch.testing.assert_close(said(model, right).logits, alone, atol=1e-5 * size, rtol=0)
    left = dict(tiny.encoded(family, pad_to_multiple_of=32, padding_side="left"))
    assert not left["attention_mask"][:, 0].any()
    if family in ("bert", "albert", "electra"):  # positions count from the first column; RoBERTa and MPNet see padding
        left["position_ids"] = (left["attention_mask"].cumsum(1) - 1).clamp(min=0)
    if family == "distilbert":  # takes no positions
        return
    found, expected = said(model, left, output_game=True), said(model, right, output_game=True)
    torch.testing.assert_close(found.logits, alone, atol=1e-5 * size, rtol=0)
    for row, n in enumerate(right["attention_mask"].sum(1).tolist()):
        here, there = slice(32 - n, 32), slice(0, n)
        same = (found.game.label_shapley[row, :, here], expected.game.label_shapley[row, :, there])
        torch.testing.assert_close(*same, atol=1e-5 * size, rtol=0)
        assert torch.equal(found.game.real[row, here], expected.game.real[row, there])
        assert not found.game.terms.V[row][:, : 32 - n].any()


@families
@pytest.mark.parametrize("spins", ["none", "gate"])
def test_without_words_the_logits_are_the_base(family, spins):
    model = tiny.game_model(family, readout_spins=spins)
    found = said(model, tiny.encoded(family, [("", ""), tiny.PAIRS[1]]), output_game=True)
    assert torch.equal(found.logits[0], model.classifier.base.detach())
    assert not torch.equal(found.logits[1], model.classifier.base.detach())
    assert not found.game.label_shapley[0].any()
    assert not found.game.label_coupling[0].any()


@families
@pytest.mark.parametrize("spins", ["none", "gate"])
def test_the_record_decomposes_the_logits(family, spins):
    model, batch = tiny.game_model(family, readout_spins=spins), tiny.encoded(family)
    plain, found = said(model, batch), said(model, batch, output_game=True)
    assert plain.game is None
    assert torch.equal(found.logits, plain.logits)
    game, tokens = found.game, batch["input_ids"].shape[1]
    assert isinstance(game, ReadoutOutput)
    special = torch.isin(batch["input_ids"], torch.tensor(tiny.special_ids(family)))
    assert torch.equal(game.real, ~special)
    assert game.label_shapley.shape == game.label_banzhaf.shape == (4, 3, tokens)
    assert game.label_coupling.shape == (4, 3, tokens, tokens)
    for values in (game.label_shapley, game.label_banzhaf):
        assert not values.masked_select(special.unsqueeze(1)).any()
    assert not game.label_coupling.mT.masked_select(special[:, None, :, None]).any()
    size = float(found.logits.abs().max())
    total = (found.logits - game.base).double()
    torch.testing.assert_close(game.label_shapley.sum(-1), total, atol=1e-5 * size, rtol=0)
    torch.testing.assert_close(game.base + game.output @ game.weight.T, found.logits, atol=1e-5 * size, rtol=0)
    assert (game.alpha is None) == (spins == "none")
    row = game.labels[1]  # of a text with few words, against the table of all its coalitions
    at = game.real[1].nonzero().flatten()
    if len(at) <= 9:
        V, a = game.terms.V[1, :, at].double(), game.terms.anchor[1].double()
        v = table(V, a, game.weight.double())
        torch.testing.assert_close(row.shapley, exact.shapley(v), atol=1e-5 * size, rtol=0)


def test_values_follow_the_order_of_the_labels():
    model, batch = tiny.game_model(), tiny.encoded()
    names, order = ("label_shapley", "label_banzhaf", "label_coupling"), [2, 0, 1]
    before = said(model, batch, output_game=True)
    expected = {name: getattr(before.game, name) for name in names}  # computed now: R is the model's own
    with torch.no_grad():
        for parameter in (model.classifier.out.weight, model.classifier.out.bias):
            parameter.copy_(parameter[order].clone())
    found = said(model, batch, output_game=True)
    torch.testing.assert_close(found.logits, before.logits[:, order])
    for name in names:
        torch.testing.assert_close(getattr(found.game, name), expected[name][:, order])


def test_logits_do_not_depend_on_what_counts_as_a_word():
    """V is summed over pieces: one player or several, N is the same."""
    model, batch = tiny.game_model("roberta"), tiny.encoded("roberta")
    terms = said(model, batch, output_game=True).game.terms
    tokens = terms.V.shape[2]
    pairs = torch.zeros(tokens // 2 + 1, tokens)
    pairs[torch.arange(tokens) // 2, torch.arange(tokens)] = 1.0
    merged = GameTerms(pairs @ terms.V, terms.anchor)
    torch.testing.assert_close(merged.whole(), terms.whole(), atol=1e-5, rtol=1e-5)


def test_all_tokens_may_play():
    model = tiny.game_model(players="all", special_token_ids=None)
    batch = tiny.encoded()
    found = said(model, batch, output_game=True)
    assert torch.equal(found.game.real, batch["attention_mask"].bool())
    torch.testing.assert_close(
        found.game.label_shapley.sum(-1), (found.logits - found.game.base).double(), atol=1e-4, rtol=0
    )


@pytest.mark.parametrize(("layers", "expected"), [(None, (0, 1, 2)), ([2], (2,)), ([1, 0, 1], (0, 1))])
def test_the_layers_that_are_read(layers, expected):
    model, batch = tiny.game_model(readout_layers=layers), tiny.encoded()
    assert model.config.read_layers == expected
    hidden = said(model, batch, output_hidden_states=True).hidden_states
    wide = model.side_by_side(hidden)
    assert wide.shape[-1] == 32 * len(expected) == model.pooling.games.dim
    assert torch.equal(wide[..., -32:], hidden[expected[-1]])
    with torch.no_grad():
        real = batch["attention_mask"].bool()
        by_hand = model.classifier(model.pooling(wide, model.players(batch["input_ids"], real), seen=real).output)
    torch.testing.assert_close(by_hand, said(model, batch).logits)


def test_outputs_are_those_of_transformers():
    model, batch = tiny.game_model(), tiny.encoded()
    found = model(**batch, labels=GOLD)
    assert list(found.keys()) == ["loss", "logits"]  # states are read inside, and returned only where asked for
    torch.testing.assert_close(found.loss, cross_entropy(found.logits, GOLD))
    found.loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert all(p.grad.any() for p in (*model.pooling.parameters(), *model.classifier.parameters()))
    states = said(model, batch, output_hidden_states=True).hidden_states
    assert len(states) == 3
    assert len(model(**batch, labels=GOLD, return_dict=False)) == 2


def test_a_feed_forward_model_is_as_it_was():
    model, batch = tiny.model(), tiny.encoded()
    assert model.config.readout == "ffn"
    assert list(said(model, batch).keys()) == ["logits"]
    assert not any(isinstance(module, NormGames | LinearReadout) for module in model.modules())
    assert len(said(model, batch, output_hidden_states=True).hidden_states) == 3


def test_an_old_configuration_has_the_feed_forward_readout(tmp_path):
    model, batch = tiny.model(), tiny.encoded()
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    old = {name: value for name, value in config.items() if not name.startswith("readout")}
    assert len(old) < len(config)
    (tmp_path / "config.json").write_text(json.dumps(old))
    loaded = NeuroGameForSequenceClassification.from_pretrained(tmp_path)
    assert loaded.config.readout == "ffn"
    assert torch.equal(said(loaded, batch).logits, said(model, batch).logits)


def test_a_game_on_a_plain_encoder_starts_where_it_should(tmp_path):
    tiny.encoder().save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    model = NeuroGameForSequenceClassification.from_pretrained(tmp_path, readout="game", players="words")
    assert set(model.config.special_token_ids) == set(tiny.special_ids())
    games = model.pooling.games
    assert torch.equal(games.mean, torch.zeros(96))
    assert torch.equal(games.scale, torch.ones(96))
    assert 1.5 < float(games.anchor.detach().norm(dim=-1).mean()) < 2.5
    assert float(games.value.weight.detach().std()) == pytest.approx(0.02, rel=0.1)
    assert not model.classifier.base.any()
    assert said(model, tiny.encoded()).logits.isfinite().all()


WRONG = [
    ({"readout": "mlp"}, ValueError, "readout = 'mlp' is unknown; allowed: 'ffn', 'game'"),
    ({"readout_spins": "solved"}, ValueError, "readout_spins = 'solved' is unknown; allowed: 'none', 'gate'"),
    ({"readout_heads": 0}, ValueError, "readout_heads must be at least 1, got 0"),
    ({"readout_layers": [3]}, ValueError, "readout_layers names layer 3; the encoder has 0 to 2"),
    ({"readout_layers": [-1]}, ValueError, "readout_layers must be at least 0, got -1"),
]


@pytest.mark.parametrize(("options", "kind", "message"), WRONG, ids=[str(case[0]) for case in WRONG])
def test_wrong_options_of_the_readout_are_refused(options, kind, message, as_user):
    with pytest.raises(kind) as raised:
        NeuroGameConfig(encoder=tiny.encoder_config(), **{"readout": "game", **options})
    assert message in str(raised.value)


def test_games_stay_in_single_precision(tmp_path):
    full = tiny.game_model()
    full.save_pretrained(tmp_path)
    half = NeuroGameForSequenceClassification.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert {p.dtype for p in half.encoder.parameters()} == {torch.bfloat16}
    assert {x.dtype for x in (*half.pooling.state_dict().values(), *half.classifier.parameters())} == {torch.float32}
    expected, found = said(full, tiny.encoded()).logits, said(half, tiny.encoded()).logits
    assert (found - expected).abs().max() < 0.15 * expected.abs().max()
    with torch.autocast("cpu", torch.bfloat16):
        mixed = full(**tiny.encoded(), labels=GOLD)
    mixed.loss.backward()
    assert all(p.grad.isfinite().all() for p in full.parameters())
    assert (mixed.logits - expected).abs().max() < 0.15 * expected.abs().max()


# --- export ---------------------------------------------------------------------------------------------------------


def test_an_exported_game_says_what_torch_says(tmp_path):
    model = tiny.game_model(encoder=tiny.encoder_config(num_hidden_layers=1))
    torch_nli = NLI(model, tiny.tokenizer(), name="tiny")
    export(torch_nli, tmp_path / "onnx")
    onnx = neurogame.load(tmp_path / "onnx", backend="onnx")
    longest = dict(tiny.encoded(padding="max_length", max_length=40))
    batches = {
        "together": dict(tiny.encoded()),
        "one": dict(tiny.encoded(pairs=tiny.PAIRS[1:2])),
        "longest": longest,
        "padding in between": {name: x.roll(3, dims=1) for name, x in longest.items()},
        "no words": dict(tiny.encoded(pairs=[("", ""), tiny.PAIRS[0]])),
    }
    for case, batch in batches.items():
        wanted = said(model, batch).logits.numpy()
        assert np.abs(onnx.model.run(batch)["logits"] - wanted).max() <= 1e-4, case
    found, expected = onnx.predict(tiny.PAIRS), torch_nli.predict(tiny.PAIRS)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.label == theirs.label
        assert ours.probabilities == pytest.approx(theirs.probabilities, abs=1e-4)


# --- whatever the batch ---------------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None, derandomize=True, phases=(Phase.generate, Phase.shrink))
@given(data=st.data())
def test_batch_padding_length_and_order_of_labels_are_nobodys_business(data):
    """Texts of any length, padded on either side, in batches of any size, labels in any order: the same logits."""
    words = st.lists(st.sampled_from(tiny.WORDS), max_size=5).map(" ".join)
    pairs = data.draw(st.lists(st.tuples(words, words), min_size=1, max_size=4))
    side, size = data.draw(st.sampled_from(["right", "left"])), data.draw(st.integers(1, 4))
    order = list(data.draw(st.permutations(range(3))))
    family = data.draw(st.sampled_from(["roberta", "mpnet"])) if side == "left" else "bert"  # BERT counts padding
    tokenizer = copy.deepcopy(tiny.tokenizer(family))
    model = tiny.game_model(family)
    with torch.no_grad():
        alone = [model(**tokenizer([p], [h], return_tensors="pt"), output_game=True) for p, h in pairs]
        shares = [answer.game.label_shapley[0] for answer in alone]  # before R changes: it is read when asked for
        out = model.classifier.out
        out.weight.copy_(out.weight[order].clone())
        out.bias.copy_(out.bias[order].clone())
        tokenizer.padding_side = side
        for start in range(0, len(pairs), size):
            some = pairs[start : start + size]
            batch = tokenizer(*map(list, zip(*some, strict=True)), padding=True, return_tensors="pt")
            found = model(**batch, output_game=True)
            for row, there in enumerate(batch["attention_mask"].bool()):
                wanted = alone[start + row]
                torch.testing.assert_close(found.logits[row], wanted.logits[0][order], atol=1e-5, rtol=0)
                torch.testing.assert_close(
                    found.game.label_shapley[row][:, there], shares[start + row][order], atol=1e-4, rtol=0
                )


def waves(model):
    """Weights that no generator draws: sines, so that numbers of today are those of any version."""
    with torch.no_grad():
        for k, parameter in enumerate(model.parameters()):
            i = torch.arange(parameter.numel(), dtype=torch.float64)
            wave = torch.sin(0.7 * i * i + 0.9 * k).reshape(parameter.shape)
            parameter.copy_(0.25 * wave + (parameter.dim() == 1) * 0.5)
    return model


OLD = {
    "mean": [
        [2.050150, 1.949130, 0.147572],
        [2.025372, 1.885643, 0.182786],
        [2.040721, 1.908195, 0.173059],
        [2.049744, 1.950398, 0.150502],
    ],
    "cls": [
        [3.027755, 1.475036, 2.959624],
        [2.925736, 1.494263, 2.980758],
        [2.924095, 1.487603, 2.971847],
        [3.086866, 1.509192, 2.960603],
    ],
    "neurogame": [
        [1.834503, 0.730547, -0.092772],
        [1.764665, 0.756215, -0.034394],
        [1.802564, 0.743144, -0.066768],
        [1.832834, 0.716316, -0.087819],
    ],
}


@pytest.mark.parametrize("head", OLD)
def test_folders_from_before_there_was_a_readout_say_what_they_said(head, tmp_path):
    """Literals of the code that first had the readout: whoever changes old folders notices."""
    NLI(waves(tiny.model(head)), tiny.tokenizer()).save_pretrained(tmp_path / "old")
    path = tmp_path / "old" / "config.json"
    kept = {name: value for name, value in json.loads(path.read_text()).items() if not name.startswith("readout")}
    path.write_text(json.dumps(kept))
    found = neurogame.load(tmp_path / "old").logits(tiny.PAIRS)
    torch.testing.assert_close(found, torch.tensor(OLD[head]), atol=5e-5, rtol=0)
    assert float(found.std(0).max()) > 1e-2  # they depend on the text


@pytest.mark.parametrize("std", [0.3, 0.02])
def test_the_readout_starts_as_large_as_configured(std):
    sizes = {"readout_heads": 512, "readout_dim": 3, "readout_width": 16}
    model = tiny.game_model(readout_std=std, **sizes)
    assert float(model.classifier.weight.detach().std()) == pytest.approx(std, rel=0.1)
    with pytest.raises(ValueError, match="readout_std must be > 0"):
        tiny.game_model(readout_std=0.0)
