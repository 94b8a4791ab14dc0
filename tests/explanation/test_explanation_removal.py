"""Words removed at the input against removal by hand; the game of what is left, and regression, against exact ones."""

import pytest
import torch
from kinds import KINDS, LONG, SHORT, kept_inputs, system

from neurogame import exact
from neurogame.explanation import regression
from neurogame.explanation.methods.inputs import EXACT, PASSES
from neurogame.explanation.reading import Question, read
from neurogame.explanation.removal import InputGame, evaluate
from neurogame.nli import ModelError

MODES = ["delete", "mask", "pad"]


@pytest.fixture(scope="module")
def nli():
    return system()


@pytest.fixture(scope="module")
def bert():
    return system("a bert")


@pytest.fixture(scope="module")
def bag():
    return system("bag")


def some(n, count=12, seed=0):
    """Coalitions: nobody, everyone, each word alone, and some at random."""
    generator = torch.Generator().manual_seed(seed)
    chance = torch.rand(count, n, generator=generator) < 0.5
    return torch.cat([torch.zeros(1, n).bool(), torch.ones(1, n).bool(), torch.eye(n).bool(), chance])


def texts(pair, C):
    """The pair with the words of C alone, as text."""
    sides = [text.split() for text in pair]
    words = [(word, side) for side in (0, 1) for word in sides[side]]
    kept = [w for w, keep in zip(words, C, strict=True) if keep]
    return tuple(" ".join(word for word, side in kept if side == s) for s in (0, 1))


# --- removal ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["neurogame", "mean", "a bert", "a distilbert", "a mpnet", "a electra", "dam", "esim"])
def test_deleted_words_are_as_if_never_written(kind):
    """Where words are whole tokens, and none is needed for the next to be read as it is."""
    nli = system(kind)
    keep = some(8)
    expected = nli.logits([texts(SHORT, C) for C in keep.tolist()])
    assert evaluate(read(nli, *SHORT, "word"), keep) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_special_tokens_and_segments_stay(family, mode):
    nli = system(f"a {family}")
    reading = read(nli, *SHORT, "word")
    keep, owner = some(8), reading.units.unit_of.tolist()
    given = {name: value[0].tolist() for name, value in reading.tokens.inputs.items()}
    seen = []
    for rows, inputs in kept_inputs(reading, keep, mode, batch_size=5):
        assert len(rows) <= 5
        for place, row in enumerate(rows.tolist()):
            stays = [i < 0 or bool(keep[row][i]) for i in owner]
            real = inputs["attention_mask"][place].bool()
            ids = inputs["input_ids"][place]
            if mode == "delete":
                assert ids[real].tolist() == [
                    token for token, stay in zip(given["input_ids"], stays, strict=True) if stay
                ]
                assert (ids[~real] == nli.tokenizer.pad_token_id).all()
                assert real.tolist() == sorted(real.tolist(), reverse=True)
                if "token_type_ids" in given:
                    segments = [s for s, stay in zip(given["token_type_ids"], stays, strict=True) if stay]
                    assert inputs["token_type_ids"][place][real].tolist() == segments
            else:
                hidden = nli.tokenizer.mask_token_id
                expected = [
                    token if stay or mode == "pad" else hidden
                    for token, stay in zip(given["input_ids"], stays, strict=True)
                ]
                assert ids.tolist() == expected
                assert real.tolist() == ([True] * len(stays) if mode == "mask" else stays)
                if "token_type_ids" in given:
                    assert inputs["token_type_ids"][place].tolist() == given["token_type_ids"]
        seen += rows.tolist()
    assert sorted(seen) == list(range(len(keep)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_without_words_is_an_input(kind, mode):
    nli = system(kind)
    reading = read(nli, *SHORT, "word")
    nothing = torch.zeros(1, 8, dtype=torch.bool)
    if mode == "mask" and nli.tokenizer.mask_token_id is None:
        with pytest.raises(ValueError, match="tokenizer of tiny does not have; allowed: 'delete', 'pad'"):
            evaluate(reading, nothing, mode)
    else:
        found = evaluate(reading, torch.cat([nothing, ~nothing]), mode)
        assert found.isfinite().all()
        said = torch.tensor(list(reading.prediction.logits.values()))
        assert found[1] == pytest.approx(said, abs=1e-5)


def test_batches_come_longest_first_and_do_not_matter(nli):
    reading = read(nli, *LONG, "word")
    keep = some(18)
    widths = [inputs["input_ids"].shape[1] for _, inputs in kept_inputs(reading, keep, batch_size=3)]
    assert widths == sorted(widths, reverse=True)
    for mode in MODES:
        assert evaluate(reading, keep, mode, batch_size=3) == pytest.approx(evaluate(reading, keep, mode), abs=1e-5)


def test_the_same_coalition_is_evaluated_once(nli):
    reading = read(nli, *SHORT, "word")
    keep = some(8)
    once = evaluate(reading, keep)
    before = reading.passes.encoder
    assert torch.equal(evaluate(reading, keep.repeat(3, 1)), once.repeat(3, 1))
    assert reading.passes.encoder - before == len(keep.unique(dim=0))
    game = InputGame.of(reading, Question("neutral"))
    assert torch.equal(game(keep.reshape(2, -1, 8)), game(keep).reshape(2, -1))
    assert game.logits(keep) == pytest.approx(once.double())
    assert reading.passes.encoder - before == 2 * len(keep.unique(dim=0))
    assert evaluate(reading, keep[:0]).shape == (0, 3)


def test_padding_is_on_the_right_whatever_the_tokenizer_says(bert, monkeypatch):
    """BERT counts padding on the left as positions."""
    reading = read(bert, *SHORT, "word")
    keep = some(8)
    right = {i: inputs["input_ids"][k] for r, inputs in kept_inputs(reading, keep) for k, i in enumerate(r.tolist())}
    monkeypatch.setattr(bert.tokenizer, "padding_side", "left")
    for rows, inputs in kept_inputs(reading, keep):
        for place, row in enumerate(rows.tolist()):
            real = inputs["attention_mask"][place].bool()
            assert real.tolist() == sorted(real.tolist(), reverse=True)
            assert inputs["input_ids"][place][real].tolist() == right[row][: int(real.sum())].tolist()


def test_a_word_goes_with_all_its_pieces():
    nli = system("a roberta")
    reading = read(nli, *SHORT, "word")
    pieces = reading.units.members.sum(-1)
    assert pieces.max() > 1
    (_, inputs), *_ = kept_inputs(reading, ~torch.eye(8, dtype=torch.bool), batch_size=8)
    length = reading.tokens.inputs["input_ids"].shape[1]
    assert sorted(inputs["attention_mask"].sum(-1).tolist()) == sorted((length - pieces).long().tolist())


def test_words_that_were_cut_do_not_come_back(nli):
    reading = read(nli, "the old man sees a dog and a cat " * 9, "the man is old .", "word")
    n = len(reading.units.read)
    assert n == 37 < len(reading.units.names)
    (_, inputs), *_ = kept_inputs(reading, torch.eye(n, dtype=torch.bool))
    assert inputs["attention_mask"].sum(-1).tolist() == [4] * n


def test_wrong_questions_to_removal(nli, as_user):
    reading = read(nli, *SHORT, "word")
    for keep in (torch.ones(2, 7).bool(), torch.ones(8).bool(), torch.ones(2, 8)):
        with pytest.raises(ValueError, match=r"keep must be bool \[coalitions, 8\]"):
            evaluate(reading, keep)
    with pytest.raises(ValueError, match="mode = 'erase' is unknown; allowed: 'delete', 'mask', 'pad'"):
        evaluate(reading, torch.ones(1, 8).bool(), "erase")
    with pytest.raises(ValueError, match="batch_size"):
        evaluate(reading, torch.ones(1, 8).bool(), batch_size=0)


def test_logits_that_are_no_numbers(bag):
    reading = read(bag, *SHORT, "word")
    with torch.no_grad():
        kept = bag.model.table.weight.clone()
        bag.model.table.weight[bag.tokenizer.cls_token_id] = torch.nan
        with pytest.raises(ModelError, match="NaN or infinite where words are removed"):
            evaluate(reading, torch.ones(1, 8).bool())
        with pytest.raises(ModelError, match="NaN or infinite for this pair"):
            bag.explain(*SHORT, method="occlusion")
        bag.model.table.weight.copy_(kept)


# --- the game of the input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["neurogame", "cls", "a bert", "dam", "esim"])
@pytest.mark.parametrize("contrast", [None, "entailment"])
def test_input_is_what_enumeration_finds(kind, contrast):
    nli = system(kind)
    logits = nli.logits([texts(SHORT, C) for C in exact.all_coalitions(8).tolist()]).double()
    table = logits[:, 1] - (0 if contrast is None else logits[:, 0])
    ex = nli.explain(*SHORT, method="input", target="neutral", contrast=contrast)
    scale = float(table.abs().max())
    assert ex.shapley == pytest.approx(exact.shapley(table).tolist(), abs=1e-5 * scale)
    assert ex.banzhaf == pytest.approx(exact.banzhaf(table).tolist(), abs=1e-5 * scale)
    assert torch.tensor(ex.interactions).double() == pytest.approx(exact.interactions(table), abs=1e-5 * scale)
    assert ex.scores == ex.shapley
    found = ex.diagnostics
    assert (found["exact"], found["samples"], found["explains"]) == (True, 256, "logit")
    assert found["origin"] == pytest.approx(float(table[0]), abs=1e-5)
    assert sum(ex.shapley) + found["outside"] == pytest.approx(found["total"], abs=1e-5)
    assert found["origin"] + found["total"] == pytest.approx(float(table[-1]), abs=1e-5)
    assert found["logit_error"] < 1e-5
    without = [logits[255 - 2**i] for i in range(8)]
    says = [int(row.argmax()) if contrast is None else int(row[0] > row[1]) for row in (logits[-1], *without)]
    assert list(ex.swing) == [i for i in range(8) if says[1 + i] != says[0]]


def test_sampled_input_is_within_its_errors(bert):
    """200 passes where enumeration takes 256."""
    for seed in range(3):
        ex = bert.explain(*SHORT, method="input", target="neutral", samples=200, seed=seed)
        truth = bert.explain(*SHORT, method="input", target="neutral")
        assert (ex.diagnostics["exact"], truth.diagnostics["exact"]) == (False, True)
        assert ex.diagnostics["encoder_passes"] <= 200 + 1  # and the prediction
        for name in ("shapley", "banzhaf"):
            error = torch.tensor(getattr(ex, name)) - torch.tensor(getattr(truth, name))
            assert (error.abs() <= 5 * torch.tensor(ex.diagnostics[f"{name}_se"]) + 1e-6).all()
        error = (torch.tensor(ex.interactions) - torch.tensor(truth.interactions)).square().mean().sqrt()
        assert error < 2 * ex.diagnostics["interactions_se"] + 1e-6
        assert ex.diagnostics["efficiency_gap"] < 1e-6
        assert ex.swing == truth.swing


def test_long_pairs_stay_within_the_default_passes(nli):
    ex = nli.explain(*LONG, method="input")
    found = ex.diagnostics
    assert len(ex.words) > EXACT
    assert not found["exact"]
    assert found["coalitions"] <= PASSES
    assert found["encoder_passes"] <= PASSES + 1
    assert found["efficiency_gap"] < 1e-6
    J = torch.tensor(ex.interactions)
    assert torch.equal(J, J.T)
    assert (J.diagonal() == 0).all()
    assert 0 < found["interactions_se"] < 1


def test_too_few_passes_are_refused(nli):
    with pytest.raises(
        ValueError, match="samples = 20: method = 'input' needs at least 38 forward passes for 18 words"
    ):
        nli.explain(*LONG, method="input", samples=20)
    assert nli.explain(*LONG, method="input", samples=38).diagnostics["encoder_passes"] == 38 + 1
    with pytest.raises(ValueError, match="samples = 3: method = 'input' needs at least 4 forward passes for 2 words"):
        nli.explain("dogs", "sleep", method="input", samples=3)
    assert nli.explain("dogs", "sleep", method="input", samples=4).diagnostics["exact"]


@pytest.mark.parametrize("kind", ["neurogame", "a roberta", "dam"])
def test_occlusion_leaves_one_word_out(kind):
    nli = system(kind)
    ex = nli.explain(*SHORT, method="occlusion", target="neutral", contrast="entailment")
    whole = nli.predict(*SHORT).logits
    reading = read(nli, *SHORT, "word")
    for i in range(8):
        keep = torch.tensor([[j != i for j in range(8)]])
        (_, inputs), *_ = kept_inputs(reading, keep)
        with torch.no_grad():
            rest = nli.model(**inputs).logits[0].tolist()
        expected = whole["neutral"] - whole["entailment"] - (rest[1] - rest[0])
        assert ex.scores[i] == pytest.approx(expected, abs=1e-5)
    assert ex.shapley is None
    assert ex.interactions is None
    assert ex.diagnostics["encoder_passes"] == 1 + 9


# --- regression ---------------------------------------------------------------------------------------------------


def half(n):
    """One of each pair (C, N∖C): the one that has player 0."""
    C = exact.all_coalitions(n)
    return C[C[:, 0]]


def test_least_squares_over_all_coalitions_is_exact(random):
    """Any game: Shapley's kernel gives φ, equal weights give β and the Banzhaf interactions."""
    n, table = 6, random(1, 64)
    C = half(n)
    index = (C * 2 ** torch.arange(n)).sum(-1)
    inside, outside = table[index], table[63 - index]
    s, k = torch.where(C, 1.0, -1.0).double(), C.sum(-1)
    binomial = torch.tensor([1.0, 6, 15, 20, 15, 6, 1]).double()
    kernel = torch.where((k > 0) & (k < n), 1 / (binomial[k] * (k * (n - k)).clamp(min=1)), 0.0)
    order = torch.arange(31, -1, -1)  # N first
    s, k, inside, outside, kernel = (x[order] for x in (s, k, inside, outside, kernel))
    some = torch.full((32,), 0.5).double()
    phi = regression._efficient(s, inside - outside, kernel, some)
    assert phi.value == pytest.approx(exact.shapley(table), abs=1e-6)
    beta = regression.fit(s, inside - outside, torch.ones(32).double(), some)
    assert beta.value == pytest.approx(exact.banzhaf(table), abs=1e-6)
    i, j = torch.triu_indices(n, n, offset=1)
    x = s[:, i] * s[:, j] / 4
    pairs = regression.fit(x, (inside + outside) / 2, torch.ones(32).double(), some, intercept=True)
    assert pairs.value == pytest.approx(exact.interactions(table)[i, j], abs=1e-6)


def test_weights_are_the_targets_over_the_chance_of_being_drawn():
    n, k, draws = 7, torch.arange(8), 50
    binomial = torch.tensor([1.0, 7, 21, 35, 35, 21, 7, 1]).double()
    mixture = 0.5 / (8 * binomial) + 0.5 * 2.0**-7
    found = torch.where((k > 1) & (k < n - 1), 1 - (1 - 2 * mixture) ** draws, 1.0)
    kernel = torch.where((k > 0) & (k < n), 1 / (binomial * (k * (n - k)).clamp(min=1)), 0.0) / found
    shapley, banzhaf, chance = regression.weights(k, n, draws)
    assert chance == pytest.approx(found, abs=1e-12)
    assert shapley == pytest.approx(kernel / kernel.max(), abs=1e-12)
    assert banzhaf == pytest.approx(found.min() / found, abs=1e-12)
    for n in (60, 900):  # nothing overflows
        assert all(w.isfinite().all() and w.max() == 1 for w in regression.weights(torch.arange(n + 1), n, draws))


def test_coalitions_are_drawn_by_both_laws():
    """How often each pair is among them, over seeds."""
    n, times = 6, torch.zeros(32, dtype=torch.float64)
    expected = torch.zeros_like(times)
    for seed in range(120):
        C, draws = regression.draw_pairs(n, 16, seed)
        assert C[0].all()
        assert torch.equal(C[1:7], ~torch.eye(6, dtype=torch.bool))
        assert len(C) <= 1 + 16
        assert len((C[7:] ^ ~C[7:, :1]).unique(dim=0)) == len(C) - 7
        inner = C[7:]
        assert ((inner.sum(-1) > 1) & (inner.sum(-1) < 5) & inner[:, 0]).all()
        times[(inner[:, 1:] * 2 ** torch.arange(5)).sum(-1)] += 1
        size = half(n).sum(-1)
        binomial = torch.tensor([1.0, 6, 15, 20, 15, 6, 1]).double()[size]
        found = 1 - (1 - 2 * (0.5 / (7 * binomial) + 0.5 / 64)) ** draws
        expected += torch.where((size > 1) & (size < 5), found, 0.0)
    assert ((times - expected).abs() <= 6 * expected.clamp(min=1).sqrt()).all()


def test_all_pairs_are_found_where_there_is_room(random):
    """Then nothing is left to chance, whatever the game."""
    table = random(5, 64)
    found = regression.estimate(lambda C: table[(C * 2 ** torch.arange(6)).sum(-1)], 6, pairs=31, seed=0)
    assert found.coalitions == 64
    assert found.shapley.value == pytest.approx(exact.shapley(table), abs=1e-3)
    assert found.banzhaf.value == pytest.approx(exact.banzhaf(table), abs=1e-3)
    assert found.interactions == pytest.approx(exact.interactions(table), abs=1e-3)
    assert found.shapley.se.max() < 1e-2  # nothing is missing, so there is no error
    assert found.banzhaf.ess == pytest.approx(32)  # every pair has the same weight
    assert 0 < found.shapley.ess < 31


def test_regression_is_exact_for_games_of_pairs(random):
    """v(C) = a·C + C Q C: φ = β = a + ½ Σ_j J_ij, J = 2Q."""
    n, a = 12, random(1, 12)
    J = random(2, 12, 12)
    J = (J + J.T) - 2 * torch.diag(J.diagonal())

    def v(C):
        x = C.double()
        return 1.5 + x @ a + ((x @ J) * x).sum(-1) / 2

    found = regression.estimate(v, n, pairs=150, seed=0)
    value = a + J.sum(-1) / 2
    assert found.shapley.value == pytest.approx(value, abs=1e-5)
    assert found.banzhaf.value == pytest.approx(value, abs=1e-5)
    assert found.interactions == pytest.approx(J, abs=1e-4)
    assert found.shapley.se.max() < 1e-3
    assert found.coalitions <= 2 * 150 + 2


@pytest.mark.parametrize("pairs", [40, 150])  # fewer than there are interactions, and more
def test_regression_knows_its_errors(random, pairs):
    n = 11
    C = exact.all_coalitions(n)
    a, Q = random(1, n), random(2, n, 5)
    table = torch.tanh(C.double() @ a) + torch.relu(C.double() @ Q).prod(-1).clamp(max=2.0)

    def v(C):
        return table[(C * 2 ** torch.arange(n)).sum(-1)]

    ratios = []
    for seed in range(4):
        found = regression.estimate(v, n, pairs=pairs, seed=seed)
        for fitted, truth in ((found.shapley, exact.shapley(table)), (found.banzhaf, exact.banzhaf(table))):
            assert ((fitted.value - truth).abs() <= 5 * fitted.se).all()
        assert float(found.shapley.value.sum()) == pytest.approx(float(table[-1] - table[0]), abs=1e-9)
        ratios.append(
            float((found.interactions - exact.interactions(table)).square().mean().sqrt()) / found.interactions_se
        )
    assert max(ratios) < 2


def test_too_many_pairs_are_left_out(monkeypatch):
    monkeypatch.setattr(regression, "LARGEST", 10)
    found = regression.estimate(lambda C: C.sum(-1).double(), 5, pairs=8, seed=0)
    assert (found.interactions, found.interactions_se) == (None, None)
