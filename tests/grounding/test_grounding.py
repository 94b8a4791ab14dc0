"""Coalitions and their laws, words taken out of batches, games fitted to a classifier, explainers kept in folders."""

import copy
import json
import random as rng
from math import comb

import pytest
import tiny
import torch
from kinds import kept_inputs
from safetensors.torch import load_file, save_file
from transformers import BertForSequenceClassification

import neurogame
from neurogame import exact
from neurogame.data import Pair
from neurogame.data.removal import Removal
from neurogame.data.words import read_words, tokenize, units
from neurogame.explanation.reading import read
from neurogame.explanation.removal import evaluate
from neurogame.grounding import (
    GroundedGame,
    centred,
    draw,
    fit_games,
    fit_quality,
    observe,
    r_squared,
    tokens_of,
)
from neurogame.grounding.explainer import CONFIG, WEIGHTS, Explainer, digest
from neurogame.grounding.fitting import empty_logits
from neurogame.grounding.game import WordGame
from neurogame.grounding.texts import WORDS, CollateWords, as_pairs, players_of, word_rows
from neurogame.nli import NLI, ModelError
from neurogame.readout import NormGames

LABELS = ("entailment", "neutral", "contradiction")
SMALL = {"heads": 8, "head_dim": 2, "width": 24}
STRANGE = [
    ("Nobody's awake, is he?", "a  girl   reads\tthe book ."),
    ("a girl reads, 👨‍👩‍👧 this", "שלום עולם a\u202ebc"),
    ("", "a\n\n\tdog  sees"),
    ("the \u200b\u200d cat \x07", "\ufeff dog zzzz"),
    ("[SEP] [CLS] a man", "[UNK] <s> </s>"),
    ("", ""),
    ("the old man sees a dog " * 4, "a cat sings . " * 3),
]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def one_line(raised):
    text = str(raised.value)
    assert "\n" not in text
    return text


# --- the laws of coalitions -----------------------------------------------------------------------------------------


def law_of(n, law):
    """The probability of each of the 2ⁿ coalitions, by the definition."""
    sizes = exact.all_coalitions(n).sum(-1).tolist()
    weight = {s: 1.0 / (s * (n - s)) for s in range(1, n)}
    total = sum(weight.values())
    shapley = torch.tensor([weight[s] / total / comb(n, s) if 0 < s < n else 0.0 for s in sizes]).double()
    banzhaf = torch.full((2**n,), 0.5**n).double()
    return {"shapley": shapley, "banzhaf": banzhaf, "mixed": (shapley + banzhaf) / 2.0}[law]


every_law = pytest.mark.parametrize("law", ["mixed", "shapley", "banzhaf"])


@every_law
def test_every_coalition_comes_with_its_complement(law):
    players = [5, 0, 1, 3, 2]
    C = draw(players, 40, law, generator=seeded())
    assert C.shape == (5, 40, 5)
    assert C.dtype == torch.bool
    there = (torch.arange(5) < torch.tensor(players).unsqueeze(-1)).unsqueeze(1)
    first, second = C.chunk(2, 1)
    assert torch.equal(first | second, there.expand_as(first))
    assert not (first & second).any()


@every_law
@pytest.mark.parametrize("n", [2, 4])
def test_coalitions_have_their_law(law, n):
    count = 40_000
    C = draw([n, n + 2], count, law, generator=seeded(1))[0]  # a row that is not the longest
    assert not C[:, n:].any()
    code = (C[:, :n].long() << torch.arange(n)).sum(-1)
    p = law_of(n, law)
    assert float(p.sum()) == pytest.approx(1.0)
    for half in code.chunk(2):  # the first are independent of each other; the complements have the same law
        share = torch.bincount(half, minlength=2**n) / len(half)
        assert ((share - p).abs() <= 5 * (p * (1 - p) / len(half)).sqrt()).all()


def test_sizes_of_a_long_text_have_their_law():
    n, count = 23, 40_000
    sizes = draw([n], count, "shapley", generator=seeded(2))[0, : count // 2].sum(-1)
    s = torch.arange(1.0, n)
    p = 1.0 / (s * (n - s))
    p = p / p.sum()
    share = torch.bincount(sizes, minlength=n + 1) / len(sizes)
    assert share[0] == share[n] == 0.0
    assert ((share[1:n] - p).abs() <= 5 * (p * (1 - p) / len(sizes)).sqrt()).all()


def test_half_of_the_law_of_deletion_takes_one_or_two_words_out_of_the_whole_text():
    n, count = 12, 40_000
    taken = n - draw([n, n + 1], count, "deletion", generator=seeded(4))[0, : count // 2].sum(-1)
    share = torch.bincount(taken, minlength=n + 1) / len(taken)
    by_size = torch.zeros(n + 1).double()
    by_size.index_add_(0, torch.tensor([s.bit_count() for s in range(2**n)]), law_of(n, "mixed"))
    p = by_size / 2
    p[1:3] += 0.25
    assert ((share - p).abs() <= 5 * (p * (1 - p) / len(taken)).sqrt()).all()
    alone = draw([1, 2], 40, "deletion", generator=seeded(5))
    assert torch.equal(alone.sum(1), torch.tensor([[20, 0], [20, 20]]))  # fewer words than two: still complements


@every_law
def test_one_player_is_in_or_out(law):
    C = draw([1], 4000, law, generator=seeded(3))[0, :2000, 0]
    assert abs(float(C.float().mean()) - 0.5) <= 5 * (0.25 / 2000) ** 0.5


def test_draws_come_from_the_generator():
    first, again, other = (draw([6, 4], 8, generator=seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("count", "law", "message"),
    [
        (3, "mixed", "count must be even, since every coalition comes with its complement; got 3"),
        (0, "mixed", "count must be at least 2, got 0"),
        (2, "fair", "law = 'fair' is unknown; allowed: 'mixed', 'shapley', 'banzhaf', 'deletion'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(count, law, message, as_user):
    with pytest.raises(ValueError) as raised:
        draw([3], count, law, generator=seeded())
    assert one_line(raised) == message


def least_squares(X, v, w):
    """argmin_x Σ_C w(C) (v(C) − X(C)·x)²."""
    root = w.sqrt().unsqueeze(-1)
    return torch.linalg.lstsq(root * X, (root[:, 0] * v).unsqueeze(-1)).solution[:, 0]


def test_least_squares_under_the_shapley_law_gives_shapley_values(random):
    """With both ends exact: x_n = v(N) − v(∅) − Σ others leaves n − 1 free shares."""
    n = 5
    v, C = random(0, 2**n), exact.all_coalitions(n).double()
    total = v[-1] - v[0]
    free = least_squares(C[:, :-1] - C[:, -1:], v - v[0] - total * C[:, -1], law_of(n, "shapley"))
    x = torch.cat([free, (total - free.sum()).unsqueeze(0)])
    torch.testing.assert_close(x, exact.shapley(v))
    fair = least_squares(C[:, :-1] - C[:, -1:], v - v[0] - total * C[:, -1], law_of(n, "banzhaf"))
    assert (fair - x[:-1]).abs().max() > 0.01  # another law gives something else


def test_least_squares_under_fair_coins_gives_banzhaf_values_and_interactions(random):
    n = 5
    v, C = random(0, 2**n), exact.all_coalitions(n).double()
    spins, one = 2.0 * C - 1.0, torch.ones(2**n, 1).double()
    linear = least_squares(torch.cat([one, C], 1), v, law_of(n, "banzhaf"))
    torch.testing.assert_close(linear[1:], exact.banzhaf(v))
    i, j = torch.triu_indices(n, n, offset=1)
    quadratic = least_squares(torch.cat([one, spins, spins[:, i] * spins[:, j]], 1), v, law_of(n, "banzhaf"))
    torch.testing.assert_close(2.0 * quadratic[1 : n + 1], exact.banzhaf(v))
    torch.testing.assert_close(4.0 * quadratic[n + 1 :], exact.interactions(v)[i, j])


# --- tokens of coalitions, and judging ------------------------------------------------------------------------------


def test_tokens_of_coalitions():
    word_of = torch.tensor([[-1, 0, 0, 1, -1, 2, -1], [-1, 0, -1, 1, -1, -1, -1]])
    members = torch.tensor([[[True, False, True], [False, True, False]], [[True, False, False], [False, True, False]]])
    found = tokens_of(members, word_of)
    expected = [["1110111", "1001101"], ["1110111", "1011111"]]
    assert [["".join(str(int(x)) for x in row) for row in rows] for rows in found] == expected


def test_a_batch_without_any_word_keeps_its_special_tokens():
    word_of = torch.full((2, 3), -1)
    assert tokens_of(draw(players_of(word_of), 2, generator=seeded()), word_of).all()


def test_logits_are_centred_over_the_labels():
    assert centred(torch.tensor([[1.0, 2.0, 6.0]])).tolist() == [[-2.0, -1.0, 3.0]]
    assert centred(torch.tensor([[4.0], [2.0]])).tolist() == [[4.0], [2.0]]


def test_r_squared_by_hand():
    said = torch.tensor([[1.0, -1.0], [3.0, 1.0], [0.0, 4.0]])  # centred: ±1, ±1, ∓2
    predicted = torch.tensor([[2.0, 0.0], [0.0, 0.0], [0.0, 4.0]])  # centred: ±1, 0, ∓2
    # misses: 0, 2·1², 0
    assert r_squared(predicted, said, torch.zeros(2)) == pytest.approx(1 - 2 / (2 + 2 + 8))
    assert r_squared(predicted, said, torch.tensor([3.0, 1.0])) == pytest.approx(1 - 2 / (0 + 0 + 18))  # base ±1
    assert r_squared(predicted, said) == pytest.approx(1 - 2 / 12)  # the mean of what was said is (0, 0)
    shifted = said + torch.tensor([[5.0], [-2.0], [1.0]])  # of each row alike: no probability changes
    assert r_squared(predicted, shifted) == pytest.approx(1 - 2 / 12)
    assert r_squared(said, said) == 1.0
    assert r_squared(torch.zeros(3, 2), said, torch.zeros(2)) == 0.0  # a game that gives nobody anything
    assert r_squared(-said, said) < 0.0
    assert r_squared(predicted, torch.ones(3, 2)) != r_squared(predicted, torch.ones(3, 2))  # NaN


def test_about_the_mean_is_stricter(random):
    said = random(0, 50, 3) + torch.tensor([3.0, 0.0, -3.0])
    predicted = said + random(1, 50, 3)
    assert r_squared(predicted, said) < r_squared(predicted, said, torch.zeros(3))
    mean = r_squared(said.mean(0).expand(50, 3), said)
    assert mean == pytest.approx(0.0, abs=1e-12)


# --- words taken out of batches -------------------------------------------------------------------------------------


def sided(family, side):
    tok = copy.deepcopy(tiny.tokenizer(family))
    tok.padding_side = side
    return tok


def batch_of(tok, pairs=tiny.PAIRS):
    rows = word_rows(pairs, tok, 40)
    batch = CollateWords(tok)([rows[i] for i in range(len(rows))])
    return batch, batch.pop(WORDS)


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("mode", ["delete", "mask", "pad"])
def test_removing_from_a_batch_is_removing_from_each_text(family, side, mode):
    tok = sided(family, side)
    removal = Removal.of(tok, mode)
    batch, word_of = batch_of(tok)
    real = batch["attention_mask"].bool()
    assert not real.all()
    members = draw(players_of(word_of), 4, generator=seeded())
    nli = NLI(tiny.model("mean", family=family), tok, name="tiny")
    for c in range(4):
        stays = tokens_of(members, word_of)[:, c] & real
        found = removal.remove(batch, stays, real)
        there = found["attention_mask"].bool()
        width = there.shape[1]
        for row, pair in enumerate(tiny.PAIRS):
            alone = {name: column[row : row + 1, real[row]] for name, column in batch.items()}
            by_itself = removal.remove(alone, stays[row : row + 1, real[row]])
            reading = read(nli, *pair, "word")
            n = len(reading.units.read)
            (_, explained), *others = kept_inputs(reading, members[row, c : c + 1, :n], mode)
            assert not others
            assert by_itself.keys() == explained.keys() == found.keys()
            length = by_itself["input_ids"].shape[1]
            if mode == "delete":
                padded = width - length
                here = slice(padded, width) if side == "left" else slice(0, length)
            else:
                here = real[row]
            for name, column in by_itself.items():
                assert torch.equal(column, explained[name]), name
                assert torch.equal(found[name][row, here], column[0]), name
            rest = torch.ones(width, dtype=torch.bool)
            rest[here] = False
            assert not found["attention_mask"][row, rest].any()
            assert (found["input_ids"][row, rest] == tok.pad_token_id).all()
    assert torch.equal(batch["attention_mask"].bool(), real)  # what came in is as it was


def test_what_is_deleted_masked_and_padded():
    tok = tiny.tokenizer()
    batch, word_of = batch_of(tok, [("two dogs sleep .", "the dogs run .")])
    stays = torch.isin(word_of, torch.tensor([-1, 0, 2, 5, 6]))
    written = {
        mode: " ".join(tok.convert_ids_to_tokens(Removal.of(tok, mode).remove(batch, stays)["input_ids"][0].tolist()))
        for mode in ("delete", "mask", "pad")
    }
    assert written["delete"] == "[CLS] two sleep [SEP] dogs run [SEP]"
    assert written["mask"] == "[CLS] two [MASK] sleep [MASK] [SEP] [MASK] dogs run [MASK] [SEP]"
    assert written["pad"] == "[CLS] two dogs sleep . [SEP] the dogs run . [SEP]"
    assert Removal.of(tok, "pad").remove(batch, stays)["attention_mask"][0].tolist() == stays[0].long().tolist()
    assert Removal.of(tok, "mask").remove(batch, stays)["attention_mask"].all()
    assert Removal.of(tok).remove(batch, stays)["token_type_ids"].tolist() == [[0, 0, 0, 0, 1, 1, 1]]


def test_a_mask_needs_a_mask_token():
    tok = copy.deepcopy(tiny.tokenizer())
    tok.mask_token = None
    with pytest.raises(ValueError) as raised:
        Removal.of(tok, "mask", name="theirs")
    assert "the tokenizer of theirs does not have; allowed: 'delete', 'pad'" in one_line(raised)


# --- words of texts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "mpnet"])
@pytest.mark.parametrize("pair", STRANGE, ids=range(len(STRANGE)))
@pytest.mark.parametrize("length", [40, 9])
def test_words_are_read_as_explanations_have_them(family, pair, length):
    tok = tiny.tokenizer(family)
    inputs, word_of = read_words(tok, *pair, length)
    tokens = tokenize(tok, *pair, length)
    found = units(tokens, "word")
    assert {name: [column] for name, column in inputs.items()} == {n: x.tolist() for n, x in tokens.inputs.items()}
    assert len(word_of) == len(inputs["input_ids"]) <= length
    place = {word: i for i, word in enumerate(found.read)}
    assert word_of == [place.get(word, -1) for word in found.unit_of.tolist()]
    assert sorted({w for w in word_of if w >= 0}) == list(range(len(found.read)))  # counted without gaps


@pytest.mark.parametrize("side", ["right", "left"])
def test_batches_know_their_words(side):
    tok = sided("bert", side)
    batch, word_of = batch_of(tok, [*tiny.PAIRS, ("", "")])
    real = batch["attention_mask"].bool()
    assert word_of.shape == real.shape
    assert (word_of[~real] == -1).all()
    assert players_of(word_of) == [len(f"{p} {h}".split()) for p, h in [*tiny.PAIRS, ("", "")]]
    for row, pair in zip((words[there] for words, there in zip(word_of, real, strict=True)), tiny.PAIRS, strict=False):
        assert row.tolist() == read_words(tok, *pair, 40)[1]
    rows = word_rows(tiny.PAIRS, tok, 40, labels=[0, 1, 2, 1])
    assert CollateWords(tok)([rows[0], rows[2]])["labels"].tolist() == [0, 2]
    assert WORDS not in CollateWords(tok)([{k: v for k, v in rows[0].items() if k != WORDS}])


def test_texts_are_pairs_or_have_their_names():
    assert as_pairs([("a", "b"), ["c", "d"], Pair("e", "f", "neutral")]) == [("a", "b"), ("c", "d"), ("e", "f")]


def test_a_slow_tokenizer_is_refused(as_user):
    class Slow:
        is_fast = False

    with pytest.raises(ValueError, match="Slow does not say where its tokens come from; a fast tokenizer does"):
        read_words(Slow(), "a", "b", 40)


# --- games of words -------------------------------------------------------------------------------------------------


def test_the_game_of_words_is_the_game_of_their_pieces(random):
    """Tokens 0, 4 and 6 belong to no word: 0 does not play, the others always do."""
    torch.manual_seed(0)
    games = NormGames(5, heads=4, head_dim=3, width=8)
    with torch.no_grad():
        games.value.weight.mul_(20.0)
        players = torch.tensor([[False, True, True, True, True, True, True]])
        terms = games.terms(random(0, 1, 7, 5, dtype=torch.float32), players)
    members = torch.zeros(3, 7)
    for word, tokens in enumerate(([1, 2], [3], [5])):
        members[word, tokens] = 1.0
    R, b = random(1, 3, 4, dtype=torch.float32), random(2, 3, dtype=torch.float32)
    game = WordGame.of(terms, members, R, b)
    C = exact.all_coalitions(3)
    stays = (C.float() @ members).bool() | torch.tensor([0, 0, 0, 0, 1, 0, 1]).bool()
    expected = b + terms.of(stays.float().unsqueeze(0))[0] @ R.T
    torch.testing.assert_close(game.logits(C).float(), expected, atol=1e-5, rtol=0)
    assert game.players == 3
    torch.testing.assert_close(game.logits(C[5]), game.logits(C)[5])
    torch.testing.assert_close(game.base.double(), game.logits(torch.zeros(3).bool()), atol=1e-6, rtol=0)
    direction = torch.tensor([[1.0, 0.0, -1.0]]).double()
    values = game.values(direction)
    table = game.logits(C) @ direction[0]
    torch.testing.assert_close(values.shapley[0], exact.shapley(table), atol=1e-5, rtol=0)
    torch.testing.assert_close(values.coupling[0], exact.interactions(table), atol=1e-5, rtol=0)
    assert game.values().shapley.shape == (3, 3)


# --- fitting --------------------------------------------------------------------------------------------------------


def theirs(family="bert", seed=0):
    """A plain classifier of transformers whose random answers differ from text to text."""
    torch.manual_seed(seed)
    config = tiny.encoder_config(family, num_labels=3, initializer_range=0.2)
    config.id2label, config.label2id = dict(enumerate(LABELS)), {name: i for i, name in enumerate(LABELS)}
    return BertForSequenceClassification(config).eval()


def texts(count, seed=0):
    """Pairs of two to five and one to three words."""
    draws = rng.Random(seed)
    words = [w for w in tiny.WORDS if w != "."]
    return [
        (" ".join(draws.choices(words, k=draws.randint(2, 5))), " ".join(draws.choices(words, k=draws.randint(1, 3))))
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def model():
    return theirs()


@pytest.fixture(scope="module")
def observed(model):
    return observe(model, tiny.tokenizer(), texts(120), (0, 1, 2), coalitions=4)


def fitted_game(observed, steps=250, seed=0, **options):
    torch.manual_seed(3)
    game = GroundedGame(observed.states[0].shape[-1], 3, **{**SMALL, **options})
    fit_games(game, observed, steps=steps, seed=seed)
    return game


def test_what_is_observed_is_what_the_model_says(model):
    tok = tiny.tokenizer()
    pairs = [tiny.PAIRS[0], ("", ""), tiny.PAIRS[1], ("a girl", "")]
    passes = []
    found = observe(model, tok, pairs, (0, 2), coalitions=6, progress=passes.append)
    assert len(found) == 3  # a text without words is no game
    assert sum(passes) == 3 * 7
    nli = NLI(model, tok, name="theirs")
    for i, pair in enumerate((pairs[0], pairs[2], pairs[3])):
        reading = read(nli, *pair, "word")
        assert found.members[i].shape == (7, len(reading.units.read))
        assert found.members[i][-1].all()
        torch.testing.assert_close(found.logits[i], evaluate(reading, found.members[i]), atol=1e-5, rtol=1e-5)
        with torch.no_grad():
            hidden = model(**reading.inputs, output_hidden_states=True).hidden_states
        states = torch.cat([hidden[0], hidden[2]], -1)[0]
        assert torch.equal(found.word_of[i], reading.units.unit_of)
        torch.testing.assert_close(found.states[i].float(), states, atol=2e-3, rtol=2e-3)  # float16
    with torch.no_grad():
        nothing = model(**tok("", "", return_tensors="pt")).logits[0]
    torch.testing.assert_close(found.empty, nothing)
    torch.testing.assert_close(empty_logits(model, tok), nothing)
    (states, inside, players, real), logits = found.batch([2, 0])
    assert real.sum(-1).tolist() == [len(found.states[2]), len(found.states[0])]
    assert states.shape[:2] == players.shape == (2, len(found.states[0]))
    assert inside.shape == (2, 7, states.shape[1])
    assert torch.equal(inside[:, -1], players)
    assert not inside[0, :, len(found.states[2]) :].any()
    assert torch.equal(logits[1], found.logits[0])
    again = observe(model, tok, pairs, (0, 2), coalitions=6)
    assert all(torch.equal(a, b) for a, b in zip(again.members, found.members, strict=True))
    other = observe(model, tok, pairs, (0, 2), coalitions=6, seed=1)
    assert any(not torch.equal(a, b) for a, b in zip(other.members, found.members, strict=True))


def test_a_fitted_game_predicts_the_model(observed):
    game = fitted_game(observed)
    found = fit_quality(game, observed)
    assert set(found) == {"r2", "r2_about_mean", "r2_whole"}
    assert found["r2_about_mean"] > 0.5
    assert found["r2"] > 0.9
    assert found["r2_whole"] > 0.9
    start = fit_quality(fitted_game(observed, steps=1), observed)
    assert start["r2"] < 0.3
    predicted, said = [], []
    for i in range(len(observed)):
        (states, inside, players, _), logits = observed.batch([i])
        with torch.no_grad():
            predicted.append(game(states, inside, players)[0, :-1])
        said.append(logits[0, :-1])
    both = torch.cat(predicted), torch.cat(said)
    assert found["r2"] == pytest.approx(r_squared(*both, observed.empty), abs=1e-5)
    assert torch.equal(game.readout.base.detach(), observed.empty)  # b is known, and is not learned
    assert game.readout.base.requires_grad


def test_the_same_seed_fits_the_same_game(observed):
    first, again, other = (fitted_game(observed, steps=20, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(x, again[name]) for name, x in first.items())
    assert any(not torch.equal(x, other[name]) for name, x in first.items())


# --- explainers -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def explainer(model):
    return neurogame.ground(model, tiny.tokenizer(), texts(80), steps=120, coalitions=4, **SMALL)


def game_of(explainer, model, pair=tiny.PAIRS[1]):
    reading = read(NLI(model, tiny.tokenizer(), name="theirs", explainer=explainer), *pair, "word")
    return explainer.play(reading.hidden, reading.units.members)


def test_the_papers_of_an_explainer(explainer, model):
    assert explainer.layers == (0, 1, 2)
    assert explainer.removal == "delete"
    assert dict(explainer.options) == {**SMALL, "mixing": 1, "spins": "none"}
    found = explainer.record
    assert (found["texts"], found["held_out"], found["coalitions"], found["steps"]) == (76, 4, 4, 120)
    assert explainer.r2 == found["r2"] <= 1.0
    assert found["r2"] > 0.7  # on texts it has not seen
    assert repr(explainer) == f"Explainer(layers=(0, 1, 2), removal='delete', r2={explainer.r2:.3f})"
    assert explainer.digest == digest(model)
    game = game_of(explainer, model)
    assert (game.source, game.r2) == ("explainer", explainer.r2)


def test_grounding_leaves_the_model_and_the_random_numbers_alone(model):
    weights = {name: x.clone() for name, x in model.state_dict().items()}
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    told = []
    found = neurogame.ground(
        model, tiny.tokenizer(), [Pair(p, h) for p, h in texts(6)], steps=3, coalitions=2, progress=told.append, **SMALL
    )
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(x, model.state_dict()[name]) for name, x in weights.items())
    assert sum(told) == 5 * 3 + 1 * 9 + 3
    again = neurogame.ground(model, tiny.tokenizer(), texts(6), steps=3, coalitions=2, **SMALL)
    assert all(torch.equal(x, again.game.state_dict()[name]) for name, x in found.game.state_dict().items())


def test_a_saved_explainer_plays_the_same_game(explainer, model, tmp_path):
    explainer.save_pretrained(tmp_path / "explainer")
    assert {path.name for path in (tmp_path / "explainer").iterdir()} == {CONFIG, WEIGHTS}
    loaded = Explainer.from_pretrained(tmp_path / "explainer")
    for name in ("layers", "removal", "digest", "options", "record"):
        assert getattr(loaded, name) == getattr(explainer, name), name
    for pair in tiny.PAIRS:
        ours, theirs = game_of(explainer, model, pair), game_of(loaded, model, pair)
        C = torch.rand(40, ours.players, generator=seeded()) < 0.5
        assert torch.equal(ours.logits(C), theirs.logits(C))
    assert loaded.model is None
    with pytest.raises(ValueError) as raised:
        loaded(*tiny.PAIRS[0])
    assert one_line(raised) == "this explainer is not bound to its model: explainer.bound(model, tokenizer)"
    bound = loaded.bound(model, tiny.tokenizer())
    found, expected = bound(*tiny.PAIRS[0]), explainer(*tiny.PAIRS[0])
    assert found.method == "decision"
    assert found.diagnostics["grounded"] == "explainer"
    assert found.scores == expected.scores


def test_a_model_is_saved_with_its_explainer(explainer, model, tmp_path):
    nli = NLI(model, tiny.tokenizer(), name="theirs", explainer=explainer)
    nli.save_pretrained(tmp_path / "model")
    loaded = neurogame.load(tmp_path / "model")
    assert loaded.explainer is not None
    assert loaded.explain(*tiny.PAIRS[1]).scores == nli.explain(*tiny.PAIRS[1]).scores
    explainer.save_pretrained(tmp_path / "beside")
    (tmp_path / "model" / "explainer").rename(tmp_path / "elsewhere")
    assert neurogame.load(tmp_path / "model").explainer is None
    assert neurogame.load(tmp_path / "model", explainer=tmp_path / "beside").explainer is not None


def test_the_weights_of_another_model_are_refused(explainer, model, tmp_path):
    other = theirs(seed=1)
    tok = tiny.tokenizer()
    for refused in (
        lambda: explainer.check(other),
        lambda: explainer.bound(other, tok),
        lambda: NLI(other, tok, explainer=explainer),
    ):
        with pytest.raises(ModelError) as raised:
            refused()
        text = one_line(raised)
        assert "was not fitted to" in text
        assert explainer.digest[:12] in text
        assert digest(other)[:12] in text
    NLI(other, tok).save_pretrained(tmp_path / "other")
    explainer.save_pretrained(tmp_path / "explainer")
    with pytest.raises(ModelError, match="was not fitted to other: the weights differ"):
        neurogame.load(tmp_path / "other", explainer=tmp_path / "explainer")
    slightly = theirs()
    explainer.check(slightly)
    with torch.no_grad():
        slightly.classifier.bias[1] += 1e-3
    with pytest.raises(ModelError):
        explainer.check(slightly)


def test_the_digest_is_of_numbers_not_of_their_precision():
    one = theirs()
    rounded = copy.deepcopy(one).half().float()
    assert digest(rounded) != digest(one)  # a rounded model is another model
    assert digest(copy.deepcopy(rounded).half()) == digest(rounded)  # the same numbers in half the bytes
    assert digest(copy.deepcopy(rounded).double()) == digest(rounded)
    assert digest(theirs()) == digest(one)


def test_a_folder_that_is_no_explainer_is_one_line(explainer, tmp_path):
    def folder(name):
        explainer.save_pretrained(tmp_path / name)
        return tmp_path / name

    with pytest.raises(FileNotFoundError) as raised:
        Explainer.from_pretrained(tmp_path / "nowhere")
    assert f"holds no explainer: {CONFIG} is missing" in one_line(raised)

    def papers(change):
        place = folder("papers")
        found = json.loads((place / CONFIG).read_text())
        (place / CONFIG).write_text(json.dumps(change(found)))
        return place

    def weights(change):
        place = folder("weights")
        save_file(change(load_file(place / WEIGHTS)), place / WEIGHTS)
        return place

    def raw(name, content):
        place = folder("raw")
        (place / name).unlink() if content is None else (place / name).write_bytes(content)
        return place

    damaged = [
        lambda: raw(CONFIG, b"{"),
        lambda: raw(CONFIG, b"[]"),
        lambda: raw(CONFIG, b"\xff\xfe"),
        lambda: raw(WEIGHTS, None),
        lambda: raw(WEIGHTS, b"half"),
        lambda: papers(lambda found: {k: v for k, v in found.items() if k != "digest"}),
        lambda: papers(lambda found: {**found, "layers": 3}),
        lambda: papers(lambda found: {**found, "options": {**found["options"], "heads": 9}}),
        lambda: papers(lambda found: {**found, "options": {"colour": "red"}}),
        *(
            lambda name=name: papers(lambda found: {**found, "options": {**found["options"], name: 10**10}})
            for name in ("heads", "width", "mixing")  # no memory, and no end
        ),
        lambda: papers(lambda found: {**found, "record": {}}),
        lambda: papers(lambda found: {**found, "record": {**found["record"], "r2": "good"}}),
        lambda: weights(lambda found: {k: v for k, v in found.items() if k != "games.mean"}),
        lambda: weights(lambda found: {**found, "readout.out.bias": torch.zeros(2)}),
    ]
    for damage in damaged:
        place = damage()
        with pytest.raises(ModelError) as raised:
            Explainer.from_pretrained(place)
        assert f"{place} is no explainer that can be read: " in one_line(raised)


REFUSED = [
    ({"texts": 1}, "1 texts are too few to fit a game on; some thousands are usual, 2 the least"),
    ({"texts": 0}, "0 texts are too few"),
    ({"coalitions": 3}, "count must be even"),
    ({"steps": 0}, "steps must be at least 1, got 0"),
    ({"most": 1}, "most must be at least 2, got 1"),
    ({"law": "fair"}, "law = 'fair' is unknown"),
    ({"removal": "hide"}, "removal = 'hide' is unknown"),
    ({"heads": 0}, "heads must be at least 1, got 0"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=[str(case[0]) for case in REFUSED])
def test_what_cannot_be_grounded(model, options, message, as_user):
    options = {"texts": 4, "steps": 1, **options}
    pairs = texts(options.pop("texts"))
    with pytest.raises(ValueError) as raised:
        neurogame.ground(model, tiny.tokenizer(), pairs, **options)
    assert message in one_line(raised)


@pytest.mark.parametrize("removal", ["mask", "pad"])
def test_other_ways_to_take_words_out(model, removal):
    found = neurogame.ground(model, tiny.tokenizer(), texts(8), steps=2, removal=removal, layers=[2], **SMALL)
    assert (found.removal, found.layers) == (removal, (2,))
    by_deletion = neurogame.ground(model, tiny.tokenizer(), texts(8), steps=2, layers=[2], **SMALL)
    assert found.r2 != by_deletion.r2


def test_a_word_taken_out_of_a_sum_is_the_sum_without_it(random):
    game = WordGame(random(0, 8, 6, 3), random(1, 8, 3), random(2, 3, 8), random(3, 3))
    torch.testing.assert_close(game.without, game.logits(~torch.eye(6, dtype=torch.bool)))
    torch.testing.assert_close(game.whole, game.logits(torch.ones(6, dtype=torch.bool)))


@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize("rows", [1, 2])
def test_words_go_in_the_order_in_which_the_answer_misses_them_least(random, n, rows):
    """Step by step, by the definition: of all sets with one word less, the one with the largest margin."""
    game = WordGame(*(random(i, *shape).float() for i, shape in enumerate(((8, n, 3), (8, 3), (3, 8), (3,)))))
    rivals = torch.tensor([[1.0, -1.0, 0.0], [1.0, 0.0, -1.0]]).double()[:rows]

    def margin(C):
        return float((game.logits(C) @ rivals.mT).min())

    order, margins = game.removal_order(rivals)
    assert sorted(order) == list(range(n))
    C = torch.ones(n, dtype=torch.bool)
    assert len(margins) == n
    for word, said in zip(order, margins, strict=True):
        assert said == pytest.approx(margin(C), abs=1e-4)
        smaller = [C & (torch.arange(n) != i) for i in C.nonzero().flatten()]
        C = C & (torch.arange(n) != word)
        assert not C.any() or margin(C) == pytest.approx(max(map(margin, smaller)), abs=1e-4)
