"""Explanations by a grounded game: what they claim is tried on the model, what they refine is unbiased."""

import json
import re
from dataclasses import replace
from io import StringIO
from typing import get_args

import pytest
import tiny
import torch
from rich.console import Console
from test_grounding import SMALL, law_of, one_line, texts, theirs

import neurogame
from neurogame import exact
from neurogame.data.removal import Mode
from neurogame.explanation import Explanation, best, collection, methods_for, pipeline, summary, what_if
from neurogame.explanation.methods import grounded
from neurogame.explanation.pipeline import explain_many
from neurogame.explanation.reading import Question, read
from neurogame.explanation.refinement import FOLDS, correlation, draw_coalitions, refine, residual_shapley, singles
from neurogame.explanation.removal import InputGame, evaluate
from neurogame.grounding import draw
from neurogame.modeling import NeuroGameForSequenceClassification, configuration
from neurogame.nli import NLI

SHORT = ("two dogs sleep .", "the dogs run .")  # 8 words
ELEVEN = ("two dogs sleep .", "the dogs run in the garden .")
LONG = ("the old man sees a dog and the girl sees a cat .", "the man is old .")  # 17: values are sampled
PAIRS = [*tiny.PAIRS, *texts(6, seed=9)]
KINDS = ["readout", "explainer"]


def undecided(model, bias):
    """The same model with answers that differ from text to text."""
    with torch.no_grad():
        bias.sub_(NLI(model, tiny.tokenizer()).logits(texts(60)).mean(0))
    return model


def ours(family="bert", **options):
    model = tiny.game_model(family, **options)
    return NLI(undecided(model, model.classifier.base), tiny.tokenizer(family), name="ours")


def with_explainer(seed=1, **options):
    model = theirs(seed=seed)
    with torch.no_grad():
        model.classifier.weight.mul_(4.0)
    undecided(model, model.classifier.bias)
    explainer = neurogame.ground(model, tiny.tokenizer(), texts(60), steps=80, **{**SMALL, **options})
    return NLI(model, tiny.tokenizer(), name="theirs", explainer=explainer)


@pytest.fixture(scope="module")
def systems():
    return {"readout": ours(), "explainer": with_explainer()}


@pytest.fixture(params=KINDS)
def nli(request, systems):
    return systems[request.param]


def only(n, *places):
    """A coalition by the places of its words."""
    C = torch.zeros(n, dtype=torch.bool)
    C[list(places)] = True
    return C


def answers(nli, pair, rows, level="word"):
    """The logits of the model itself with only these words left in."""
    return evaluate(read(nli, *pair, level), torch.stack(list(rows))).double()


def true_table(nli, pair, direction):
    n = len(read(nli, *pair, "word").units.read)
    return answers(nli, pair, exact.all_coalitions(n)) @ direction


def towards(nli, target, contrast=None):
    return Question(target, contrast).direction(nli.labels)


# --- what the game says ---------------------------------------------------------------------------------------------


def test_a_grounded_game_is_the_usual_method(nli):
    assert best(nli.model) == "decision"
    assert "decision" in methods_for(nli.model)
    ex = nli.explain(*SHORT)
    assert (ex.method, ex.target) == ("decision", nli.predict(*SHORT).label)
    assert ex.scores == ex.shapley
    assert ex.diagnostics["grounded"] == ("readout" if nli.explainer is None else "explainer")
    assert ex.diagnostics["exact"] is True
    assert ex.diagnostics["samples"] == 2**8
    assert ex.diagnostics["shapley_se"] == [0.0] * 8
    assert ex.diagnostics["r2"] == (None if nli.explainer is None else nli.explainer.r2)
    assert (ex.field, ex.gate, dict(ex.per_head)) == (None, None, {})


@pytest.mark.parametrize("pair", [SHORT, LONG, ("dogs", "")])
def test_shares_add_up(nli, pair):
    for target in nli.labels:
        ex = nli.explain(*pair, target=target)
        found, size = ex.diagnostics, 1.0 + sum(map(abs, ex.shapley))
        assert found["exact"] == (pair != LONG)
        assert sum(ex.shapley) == pytest.approx(found["total"], abs=1e-5 * size)
        assert found["efficiency_gap"] < 1e-5 * size
        if nli.explainer is None:  # the game is the model
            assert found["logit_error"] < 1e-5 * size
            assert found["origin"] + found["total"] == pytest.approx(ex.prediction.logits[target], abs=1e-5 * size)
            assert found["origin"] == pytest.approx(float(nli.logits([("", "")])[0][nli.labels.index(target)]))


def test_values_are_those_of_the_enumerated_game(nli):
    game = read(nli, *SHORT, "word").game
    table = game.logits(exact.all_coalitions(8)) @ towards(nli, "neutral", "entailment")
    ex = nli.explain(*SHORT, target="neutral", contrast="entailment")
    assert ex.shapley == pytest.approx(exact.shapley(table).tolist(), abs=1e-5)
    assert ex.banzhaf == pytest.approx(exact.banzhaf(table).tolist(), abs=1e-5)
    assert torch.tensor(ex.interactions) == pytest.approx(exact.interactions(table), abs=1e-5)


def test_sampled_values_are_within_their_errors(nli):
    pair = ("the old man sees a dog and the girl", "the man is old .")  # 14 words: enumerable, and yet sampled
    ex = nli.explain(*pair, target="neutral", check=False)
    assert ex.diagnostics["exact"] is False
    game = read(nli, *pair, "word").game
    table = game.logits(exact.all_coalitions(14)) @ towards(nli, "neutral")
    for name, truth in (("shapley", exact.shapley(table)), ("banzhaf", exact.banzhaf(table))):
        error, se = torch.tensor(getattr(ex, name)) - truth, torch.tensor(ex.diagnostics[f"{name}_se"])
        assert error.norm() <= 3 * se.norm()  # of all words: a single one may have met no rare coalition in 64
        if nli.explainer is None:
            assert (error.abs() <= 5 * se + 1e-5).all()
    other = nli.explain(*pair, target="neutral", check=False, seed=1)
    assert other.shapley != ex.shapley
    assert nli.explain(*pair, target="neutral", check=False, seed=1).shapley == other.shapley


def test_a_contrast_is_a_difference(nli):
    both = nli.explain(*SHORT, target="entailment", contrast="neutral")
    one, other = (nli.explain(*SHORT, target=label) for label in ("entailment", "neutral"))
    for name in ("shapley", "banzhaf"):
        difference = [a - b for a, b in zip(getattr(one, name), getattr(other, name), strict=True)]
        assert getattr(both, name) == pytest.approx(difference, abs=1e-5)
    assert both.contrast == "neutral"


@pytest.mark.parametrize("options", [{"readout_spins": "gate"}, {"players": "all", "special_token_ids": None}])
def test_other_readouts(options):
    ex = ours(**options).explain(*SHORT)
    assert sum(ex.shapley) == pytest.approx(ex.diagnostics["total"], abs=1e-5)
    assert ex.diagnostics["logit_error"] < 1e-5


def test_pieces_are_players_too():
    nli = ours("roberta")
    words, pieces = nli.explain(*SHORT), nli.explain(*SHORT, level="token")
    assert pieces.level == "token"
    assert len(pieces.words) > len(words.words)
    assert "".join(pieces.words) == "".join(words.words)
    assert pieces.diagnostics["total"] == pytest.approx(words.diagnostics["total"], abs=1e-4)
    assert sum(pieces.shapley) == pytest.approx(pieces.diagnostics["total"], abs=1e-4)
    check_claims(nli, SHORT, pieces)


def test_a_list_of_pairs(nli):
    together = nli.explain(PAIRS[:3], check=False)
    for found, pair in zip(together, PAIRS, strict=False):
        alone = nli.explain(*pair, check=False)
        assert (found.premise, found.hypothesis) == pair
        assert found.scores == pytest.approx(alone.scores, abs=1e-5)
        assert found.rationale == alone.rationale


def test_words_that_were_not_read_have_nothing(nli):
    pair = (" ".join(["dogs"] * 60), "the dogs run .")
    ex = nli.explain(*pair)
    cut = ex.diagnostics["unread"]
    assert cut
    assert all(ex.shapley[i] == ex.banzhaf[i] == ex.alpha[i] == 0.0 for i in cut)
    assert not set(ex.swing) & set(cut)
    assert not set(ex.rationale or ()) & set(cut)


# --- what it claims, tried on the model -----------------------------------------------------------------------------


def check_claims(nli, pair, ex):
    """Every swing word swings and every rationale keeps the label, by passes of our own; how many there were."""
    read_units = read(nli, *pair, ex.level).units.read
    n, found = len(read_units), ex.diagnostics
    place = {unit: i for i, unit in enumerate(read_units)}
    now = nli.labels[int(answers(nli, pair, [only(n, *range(n))], ex.level)[0].argmax())]
    assert now == ex.prediction.label == ex.target
    assert found["checked"] is True
    for unit, becomes in zip(ex.swing, found["swing_to"], strict=True):
        logits = answers(nli, pair, [~only(n, place[unit])], ex.level)[0]
        assert nli.labels[int(logits.argmax())] == becomes != now
    for unit, probabilities in found["without"].items():
        logits = answers(nli, pair, [~only(n, place[int(unit)])], ex.level)[0]
        assert list(probabilities.values()) == pytest.approx((logits / nli.temperature).softmax(-1).tolist(), abs=1e-5)
        assert (int(unit) in ex.swing) == (
            nli.labels[int(logits.argmax())] != now
        )  # and none of those tried is left out
    if ex.rationale is not None:
        assert ex.rationale == tuple(sorted(set(ex.rationale)))
        logits = answers(nli, pair, [only(n, *(place[unit] for unit in ex.rationale))], ex.level)[0]
        assert nli.labels[int(logits.argmax())] == now
        assert list(found["rationale_alone"].values()) == pytest.approx(logits.softmax(-1).tolist(), abs=1e-5)
    return len(ex.swing), ex.rationale is not None


def test_what_is_claimed_is_true(nli):
    seen = [check_claims(nli, pair, nli.explain(*pair)) for pair in PAIRS]
    assert sum(swing for swing, _ in seen) > 2
    assert sum(has for _, has in seen) > 5


def test_the_shortest_rationale_of_those_that_were_tried(nli):
    """Of at most half of the words if any such set keeps the label, and then one that holds the floor if any does.

    Then one with words of both texts, if any has them.
    """
    for pair in PAIRS:
        ex = nli.explain(*pair)
        reading, question = read(nli, *pair, "word"), Question(ex.target)
        case = grounded.Case.of(reading, question)
        floor, tried = case.floor, case.trials[len(case.singles) :]
        margins = [float(case.margin(answers(nli, pair, [C])[0].double())) for C in tried]
        sides = [reading.units.sides[i] for i in reading.units.read]
        across = [len({side for side, stays in zip(sides, C.tolist(), strict=True) if stays}) == 2 for C in tried]
        kept = [(int(C.sum()), m, both) for C, m, both in zip(tried, margins, across, strict=True) if m > 0]
        few = len(reading.units.read) // 2
        short = [x for x in kept if x[0] <= few and x[1] > floor] or [x for x in kept if x[0] <= few]
        short = [x for x in short if x[2]] or short
        rest = [x for x in kept if x[1] > floor] or kept
        least = min((size for size, _, _ in short or rest), default=None)
        assert (None if ex.rationale is None else len(ex.rationale)) == least


def test_what_checking_costs(nli):
    for pair in (SHORT, LONG):
        checked, trusted = nli.explain(*pair), nli.explain(*pair, check=False)
        assert trusted.diagnostics["encoder_passes"] == 1
        assert trusted.diagnostics["checked"] is False
        assert trusted.diagnostics["check_passes"] == 0
        assert "without" not in trusted.diagnostics
        cost = checked.diagnostics["encoder_passes"] - 1
        assert 0 < cost <= checked.diagnostics["check_passes"] <= grounded.SINGLES + grounded.SETS
        for name in ("scores", "banzhaf", "interactions", "alpha"):
            assert getattr(checked, name) == getattr(trusted, name)


def test_unchecked_claims_of_a_readout_are_what_its_game_says(systems):
    nli, seen = systems["readout"], 0
    for pair in PAIRS:
        ex = nli.explain(*pair, check=False)
        game = read(nli, *pair, "word").game
        n = game.players
        said = [nli.labels[int(game.logits(~only(n, i)).argmax())] for i in range(n)]
        assert list(ex.swing) == [i for i in range(n) if said[i] != ex.target]
        assert ex.diagnostics["swing_to"] == [said[i] for i in ex.swing]
        if ex.rationale is not None:
            assert nli.labels[int(game.logits(only(n, *ex.rationale)).argmax())] == ex.target
        seen += len(ex.swing)
    assert seen


def test_unchecked_swing_words_of_an_explainer_swing_to_another_label(systems):
    """The game of an explainer misses the logits; it is asked for the change only, also in what it changes to."""
    nli, seen = systems["explainer"], 0
    for pair in PAIRS:
        reading = read(nli, *pair, "word")
        target = reading.prediction.label
        game = reading.game
        game = replace(game, R=5.0 * game.R, base=game.base + 99.0 * towards(nli, target).float())
        swing, _ = grounded.Case(reading, Question(target), game).claims()
        seen += len(swing)
        assert target not in swing.values()
    assert seen


def test_of_another_target_words_that_stand_in_its_way(nli):
    """A swing word is one without which the model does say the target; there is nothing that keeps an answer."""
    seen = 0
    for pair in PAIRS:
        for target in set(nli.labels) - {nli.predict(*pair).label}:
            ex = nli.explain(*pair, target=target)
            n = len(read(nli, *pair, "word").units.read)
            assert ex.target == target != ex.prediction.label
            assert ex.rationale is None
            for i in ex.swing:
                assert nli.labels[int(answers(nli, pair, [~only(n, i)])[0].argmax())] == target
            assert ex.diagnostics["swing_to"] == [target] * len(ex.swing)
            seen += len(ex.swing)
    assert seen


def test_with_a_contrast_only_two_labels_count(nli):
    seen = 0
    for pair in PAIRS:
        for target, contrast in (("entailment", "neutral"), ("neutral", "contradiction")):
            ex = nli.explain(*pair, target=target, contrast=contrast)
            n, direction = len(read(nli, *pair, "word").units.read), towards(nli, target, contrast)
            now = float(answers(nli, pair, [only(n, *range(n))])[0] @ direction) > 0
            for i, becomes in zip(ex.swing, ex.diagnostics["swing_to"], strict=True):
                then = float(answers(nli, pair, [~only(n, i)])[0] @ direction) > 0
                assert then != now
                assert becomes == (target if then else contrast)
            if ex.rationale is not None:
                assert now
                assert float(answers(nli, pair, [only(n, *ex.rationale)])[0] @ direction) > 0
            seen += len(ex.swing)
    assert seen


def test_checks_take_words_out_as_the_explainer_did():
    nli = with_explainer(removal="mask")
    for pair in PAIRS:
        ex = nli.explain(*pair)
        reading = read(nli, *pair, "word")
        n = len(reading.units.read)
        for i, probabilities in ex.diagnostics["without"].items():
            logits = evaluate(reading, (~only(n, int(i))).unsqueeze(0), "mask")[0]
            assert list(probabilities.values()) == pytest.approx(logits.softmax(-1).tolist(), abs=1e-5)


# --- refined by real coalitions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 6, 11])
def test_the_correlation_of_two_words(n):
    s = 2.0 * exact.all_coalitions(n).double() - 1.0
    expected = (law_of(n, "shapley") * s[:, 0] * s[:, -1]).sum()
    assert correlation(n) == pytest.approx(float(expected))


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("n", [4, 5])
def test_pairs_have_their_law(n, inner):
    """That of the coalitions a game is fitted on; with `inner` without single words and their complements."""
    count = 20_000
    C, p = draw_coalitions(n, count, inner=inner, seed=0), law_of(n, "shapley")
    sizes = exact.all_coalitions(n).sum(-1)
    outer = (sizes == 1) | (sizes == n - 1)
    assert singles(n) == pytest.approx(float(p[outer].sum()))
    if inner:
        p = p.masked_fill(outer, 0.0) / (1.0 - singles(n))
    share = torch.bincount((C.long() << torch.arange(n)).sum(-1), minlength=2**n) / count
    assert ((share - p).abs() <= 5 * (p * (1 - p) / count).sqrt()).all()


def residuals(table, pairs, seed):
    """A draw of pairs, and y = r(C) − r(N∖C) of a game given by its table."""
    n = exact.players_of(table)
    C = draw([n], 2 * pairs, "shapley", generator=torch.Generator().manual_seed(seed))[0, :pairs]
    code = (C.long() << torch.arange(n)).sum(-1)
    return C, table[code] - table[2**n - 1 - code]


@pytest.mark.parametrize(("pairs", "seeds"), [(2, 1200), (7, 600), (40, 200)])
def test_refined_values_are_unbiased(random, pairs, seeds):
    table = random(5, 2**6) + exact.all_coalitions(6).double() @ (3.0 * random(6, 6))
    truth, total = exact.shapley(table), float(table[-1] - table[0])
    found = torch.stack([residual_shapley(*residuals(table, pairs, seed), total)[0] for seed in range(seeds)])
    error = found.mean(0) - truth
    assert (error.abs() <= 5 * found.std(0) / seeds**0.5).all()
    assert (found.std(0) / seeds**0.5).max() < 0.15
    torch.testing.assert_close(found.sum(-1), torch.full((seeds,), total).double())  # each is efficient


def stratified(table, pairs, seed):
    """The same with all single words evaluated, and the rest drawn."""
    n = exact.players_of(table)
    single = torch.eye(n, dtype=torch.bool)
    C = draw_coalitions(n, pairs, inner=True, seed=seed)
    codes = [(some.long() << torch.arange(n)).sum(-1) for some in (C, single)]
    y, first = (table[code] - table[2**n - 1 - code] for code in codes)
    return residual_shapley(C, y, float(table[-1] - table[0]), single, first)


@pytest.mark.parametrize(("pairs", "seeds"), [(5, 600), (30, 200)])
def test_values_of_two_strata_are_unbiased(random, pairs, seeds):
    table = random(5, 2**6)
    found = torch.stack([stratified(table, pairs, seed)[0] for seed in range(seeds)])
    error = found.mean(0) - exact.shapley(table)
    assert (error.abs() <= 5 * found.std(0) / seeds**0.5).all()
    assert (found.std(0) / seeds**0.5).max() < 0.06
    total = float(table[-1] - table[0])
    plain = torch.stack([residual_shapley(*residuals(table, pairs, seed), total)[0] for seed in range(seeds)])
    assert (found.std(0) < plain.std(0)).all()
    z = torch.stack(
        [(value - exact.shapley(table)) / se for value, se in (stratified(table, 200, s) for s in range(60))]
    )
    assert z.abs().max() < 5
    assert 0.8 < float(z.square().mean().sqrt()) < 1.2


def test_refined_values_are_within_their_errors(random):
    """|error| < 5 se always, and the errors are as large as is said; of few pairs they are said to be smaller."""
    table = random(5, 2**6)
    truth, total = exact.shapley(table), float(table[-1] - table[0])
    z = []
    for seed in range(150):
        value, se = residual_shapley(*residuals(table, 200, seed), total)
        z.append((value - truth) / se)
    z = torch.stack(z)
    assert z.abs().max() < 5
    assert 0.85 < float(z.square().mean().sqrt()) < 1.15


def test_a_linear_rest_costs_little(random):
    """What a linear model explains of the residual is fitted, not sampled: 1/pairs instead of 1/√pairs."""
    x = random(1, 6)
    table = exact.all_coalitions(6).double() @ x
    spread = []
    for pairs in (40, 640):
        value, se = residual_shapley(*residuals(table, pairs, 0), float(x.sum()))
        assert (value - x).abs().max() < 0.5 * x.abs().max() * 40 / pairs
        spread.append(float(se.max()))
    assert spread[1] < spread[0] / 10


def test_two_words_and_a_single_pair(random):
    table = random(0, 4)
    value, se = residual_shapley(*residuals(table, 4, 0), float(table[-1] - table[0]))
    torch.testing.assert_close(value, exact.shapley(table))  # s is ±(1, −1): every pair says the same
    assert se.isfinite().all()
    C, y = residuals(random(0, 8), 1, 0)
    value, se = residual_shapley(C, y, 1.0)
    assert value.isfinite().all()
    assert torch.isinf(se).all()


def test_where_passes_suffice_all_coalitions_are_evaluated(nli):
    ex = nli.explain(*SHORT, target="neutral", samples=256, check=False)
    table = true_table(nli, SHORT, towards(nli, "neutral"))
    assert ex.shapley == pytest.approx(exact.shapley(table).tolist(), abs=1e-6)
    found = ex.diagnostics
    assert found["refined"] is True
    assert found["exact"] is True
    assert found["passes"] == found["samples"] == 256
    assert found["shapley_se"] == [0.0] * 8
    assert found["reached"] is None
    assert found["encoder_passes"] == 1 + 256
    assert found["origin"] == pytest.approx(float(table[0]), abs=1e-6)
    assert found["total"] == pytest.approx(float(table[-1] - table[0]), abs=1e-6)
    assert nli.explain(*SHORT, target="neutral", samples=256, error=0.1).diagnostics["reached"] is True


def test_refined_values_of_the_model_are_within_their_errors(nli):
    direction = towards(nli, "neutral", "contradiction")
    table = true_table(nli, ELEVEN, direction)
    truth = exact.shapley(table)
    for seed in range(3):
        ex = nli.explain(*ELEVEN, target="neutral", contrast="contradiction", samples=300, seed=seed, check=False)
        found = ex.diagnostics
        se = torch.tensor(found["shapley_se"])
        assert ((torch.tensor(ex.shapley) - truth).abs() <= 5 * se + 1e-6).all()
        assert (se > 0).all()
        assert found["exact"] is False
        assert found["passes"] <= 300
        assert found["encoder_passes"] <= 1 + found["passes"]
        assert sum(ex.shapley) == pytest.approx(float(table[-1] - table[0]), abs=1e-4)
        assert found["origin"] + found["total"] == pytest.approx(float(table[-1]), abs=1e-4)
        assert found["efficiency_gap"] < 1e-4
        assert found["logit_error"] == 0.0
    again = nli.explain(*ELEVEN, target="neutral", contrast="contradiction", samples=300, seed=2, check=False)
    assert again.shapley == ex.shapley


def test_the_game_is_a_control_variate(systems):
    """The better it predicts the model, the smaller the errors of as many passes; a perfect one leaves none."""
    nli = systems["explainer"]
    reading = read(nli, *ELEVEN, "word")
    question = Question("neutral", samples=200)
    v, direction = InputGame.of(reading, question), towards(nli, "neutral")

    class Blend:
        """The model itself, and noise of that size."""

        def __init__(self, noise):
            self.noise = noise * torch.randn(2**11, 3, generator=torch.Generator().manual_seed(0)).double()

        def logits(self, C):
            return v.logits(C) + self.noise[(C.long() << torch.arange(11)).sum(-1)]

    errors = []
    for noise in (0.0, 0.1, 1.0):
        game = Blend(noise)
        phi = exact.shapley(game.logits(exact.all_coalitions(11)) @ direction)
        found = refine(v, game, direction, phi, torch.zeros(11).double(), question)
        errors.append(float(found.se.max()))
        assert ((found.shapley - exact.shapley(v(exact.all_coalitions(11)))).abs() <= 5 * found.se + 1e-6).all()
    assert errors[0] < 1e-5
    assert errors[1] == pytest.approx(errors[2] / 10, rel=0.05)


def test_refining_stops_at_an_error(nli):
    soon = nli.explain(*LONG, samples=600, error=1e3, check=False)
    assert soon.diagnostics["reached"] is True
    assert 2 * FOLDS * 2 < soon.diagnostics["passes"] < 100
    never = nli.explain(*LONG, samples=120, error=1e-6, check=False)
    assert never.diagnostics["reached"] is False
    assert 100 < never.diagnostics["passes"] <= 120
    between = nli.explain(*LONG, samples=2000, error=0.7 * max(never.diagnostics["shapley_se"]), check=False)
    assert between.diagnostics["reached"] is True
    assert max(between.diagnostics["shapley_se"]) <= 0.7 * max(never.diagnostics["shapley_se"])
    assert never.diagnostics["passes"] < between.diagnostics["passes"] < 2000


def test_no_more_passes_than_allowed(systems):
    for samples in (6, 7, 40):
        ex = systems["readout"].explain(*SHORT, samples=samples, check=False)
        assert ex.diagnostics["passes"] <= samples
    with pytest.raises(ValueError, match="samples = 4: refining needs at least 6 forward passes"):
        systems["readout"].explain(*SHORT, samples=4, check=False)


# --- the record -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"check": False}, {"samples": 40}, {"target": "neutral", "contrast": "entailment"}]
)
def test_a_record_survives_json(nli, options):
    for pair in (SHORT, LONG):
        options = {name: value for name, value in options.items() if value != nli.predict(*pair).label}
        ex = nli.explain(*pair, **options)
        found = json.loads(json.dumps(ex.to_dict()))
        assert Explanation.from_dict(found) == ex
        assert found["rationale"] == (None if ex.rationale is None else list(ex.rationale))
        assert found["sentence"] == ex.sentence
        assert "\n" not in ex.sentence
        assert ex.sentence.startswith(ex.prediction.label.capitalize())
    found.pop("rationale")  # as records were before it was looked for
    found.pop("sentence")
    assert Explanation.from_dict(found) == replace(ex, rationale=None)


def test_the_sentence_says_what_was_tried(nli):
    for pair in PAIRS:
        ex = nli.explain(*pair)
        if ex.swing:
            said = ex.sentence.split(" the model would say ")
            then = max((ex.diagnostics["without"][str(i)] for i in ex.swing), key=lambda p: max(p.values()))
            label = max(then, key=then.get)
            assert said[1] == f"{label} ({100 * then[label]:.0f} %)."
        else:
            assert " the model would say " not in ex.sentence
        assert " the model would say " not in nli.explain(*pair, check=False).sentence


def test_the_sentence_names_the_word_that_answers(nli):
    """The strongest word, with the word of the other text whose interaction adds most to it.

    A weak word is not named, nor one that speaks against the label, unless that is a contradiction.
    """
    named = 0
    for pair in PAIRS:
        ex = nli.explain(*pair, check=False)
        top = max(range(len(ex.words)), key=lambda i: ex.scores[i])
        contradicts = ex.prediction.label == "contradiction"
        others = [j for j in range(len(ex.words)) if ex.sides[j] != ex.sides[top]]
        J = {j: ex.interactions[top][j] for j in others if contradicts or ex.scores[j] >= 0}
        loud = ex.scores[top] >= 0.25 * max(map(abs, ex.scores))
        best = max(J, key=J.get, default=None)
        quoted = re.findall("“(.*?)”", ex.sentence)
        if best is not None and J[best] >= 0.1 * ex.scores[top] > 0 and loud:
            named += 1
            words = [ex.words[top].strip(".,"), ex.words[best].strip(".,")]
            if words[0] == words[1] and not contradicts:
                assert (quoted, "in both texts" in ex.sentence) == (words[:1], True)
            else:
                assert quoted == words
                assert f"” {'against' if contradicts else 'with'} “" in ex.sentence
        else:
            assert " against " not in ex.sentence
    assert named


def test_the_sentence_of_a_contrast_does_not_tell_of_what_has_not_changed(systems):
    for nli in systems.values():
        for pair in PAIRS:
            said = nli.predict(*pair).label
            target, contrast = (label for label in nli.labels if label != said)
            ex = nli.explain(*pair, target=target, contrast=contrast)
            assert f"the model would say {said}" not in ex.sentence


def test_the_hamiltonian_has_both_ends(nli):
    for options in ({}, {"samples": 64}, {"samples": 256}):
        ex = nli.explain(*SHORT, **options)
        g, found = ex.hamiltonian, ex.diagnostics
        everyone = torch.ones(8, dtype=torch.bool)
        assert float(g.value(everyone)) == pytest.approx(found["origin"] + found["total"], abs=1e-5)
        assert float(g.value(~everyone)) == pytest.approx(found["origin"], abs=1e-6)
        torch.testing.assert_close(g.marginals(1.0), torch.tensor(ex.alpha).double(), atol=1e-6, rtol=0)
        assert all(0.0 < a < 1.0 for a in ex.alpha)
        assert found["gamma"] == [1.0]
        assert found["alpha_exact"] is True


def test_answers_are_between_the_texts(nli):
    ex = nli.explain(*SHORT)
    found = ex.answers(100)
    assert len(found) == 4 * 4
    for i, j, J in found:
        assert (ex.sides[i], ex.sides[j]) == ("premise", "hypothesis")
        assert ex.interactions[i][j] == J
    sizes = [abs(J) for *_, J in found]
    assert sizes == sorted(sizes, reverse=True)
    assert ex.answers() == found[:3]
    assert ex.answers(1) == found[:1]
    assert nli.explain("two dogs sleep .", "").answers() == []


def test_involvement_is_what_depends_on_the_other_text(nli):
    ex = nli.explain(*SHORT)
    J, premise = torch.tensor(ex.interactions), torch.tensor([side == "premise" for side in ex.sides])
    across = J.abs() * (premise.unsqueeze(0) != premise.unsqueeze(1))
    torch.testing.assert_close(torch.tensor(ex.involvement), across.sum(1))
    assert max(ex.involvement) > 0
    assert set(nli.explain("two dogs sleep .", "").involvement) == {0}
    assert nli.explain(*SHORT, method="occlusion").involvement is None


def test_it_can_be_shown(nli, tmp_path):
    for pair in (SHORT, LONG):
        ex = nli.explain(*pair)
        out = StringIO()
        ex.show(Console(file=out, width=100))
        page = ex.to_html(tmp_path / "page.html").read_text()
        for word in ("dog", ex.target):
            assert word in out.getvalue()
            assert word in page
    loaded = Explanation.from_dict(ex.to_dict())
    loaded.show(Console(file=StringIO()))


BAD = [
    ({"error": 0.1}, ValueError, "error = 0.1: needs samples = N, the forward passes that may be spent to reach it"),
    ({"error": 0, "samples": 50}, ValueError, "error must be a number > 0, a standard error in logits; got 0"),
    ({"error": -1.0, "samples": 50}, ValueError, "error must be a number > 0"),
    ({"error": float("nan"), "samples": 50}, ValueError, "error must be a number > 0"),
    ({"error": True, "samples": 50}, ValueError, "error must be a number > 0"),
    ({"error": "small", "samples": 50}, ValueError, "error must be a number > 0"),
    ({"error": 0.1, "samples": 50, "method": "input"}, ValueError, "only method = 'decision' on a grounded game"),
    ({"check": 1}, TypeError, "check must be True or False, got 1"),
    ({"check": None}, TypeError, "check must be True or False, got None"),
    ({"samples": 1}, ValueError, "samples must be at least 2, got 1"),
    ({"samples": 2.5}, TypeError, "samples must be a whole number, got 2.5"),
    ({"target": "maybe"}, ValueError, "target = 'maybe' is not a label of"),
]


@pytest.mark.parametrize(("options", "kind", "message"), BAD, ids=[str(case[0]) for case in BAD])
def test_bad_questions_are_one_line(nli, options, kind, message, as_user):
    with pytest.raises(kind) as raised:
        nli.explain(*SHORT, **options)
    assert message in one_line(raised)


# --- models without a grounded game ---------------------------------------------------------------------------------


def test_models_without_a_game_keep_their_methods():
    sums, cls, plain = tiny.model(), tiny.model("cls"), theirs()
    assert (best(sums), best(cls), best(plain)) == ("presence", "input", "input")
    assert {"decision", "game", "presence", "input", "attention"} <= set(methods_for(sums))
    assert not {"decision", "game", "presence"} & set(methods_for(plain))
    nli = NLI(sums, tiny.tokenizer(), name="sums")
    ex = nli.explain(*SHORT, method="decision")
    assert "grounded" not in ex.diagnostics
    assert "checked" not in ex.diagnostics
    assert ex.rationale is None
    assert ex.alpha is not None
    with pytest.raises(ValueError, match="only method = 'decision' on a grounded game is refined until an error"):
        nli.explain(*SHORT, method="decision", samples=50, error=0.1)
    with pytest.raises(ValueError, match=r"method = 'decision' does not work for plain, a BertForSequenceClass"):
        NLI(plain, tiny.tokenizer(), name="plain").explain(*SHORT, method="decision")


def test_other_methods_work_beside_the_game(nli):
    names = ["input", "occlusion", "gradient", "random"]
    assert set(names) <= set(methods_for(nli.model))
    for name in names:
        ex = nli.explain(*SHORT, method=name)
        assert len(ex.scores) == 8
        assert "grounded" not in ex.diagnostics
    whole = nli.explain(*SHORT, method="input", target="neutral")
    refined = nli.explain(*SHORT, target="neutral", samples=256)
    assert refined.shapley == pytest.approx(whole.shapley, abs=1e-6)  # the same game, by either way


# --- what if --------------------------------------------------------------------------------------------------------


def test_words_struck_out_of_a_grounded_model(nli):
    struck = what_if.explain(nli, *SHORT, removed=[1, 6], target="neutral")
    written = nli.explain("two sleep .", "the dogs .", target="neutral")
    rest = [0, 2, 3, 4, 5, 7]
    assert (struck.method, struck.diagnostics["grounded"]) == ("decision", written.diagnostics["grounded"])
    for name in ("scores", "shapley", "banzhaf", "alpha"):
        assert [getattr(struck, name)[i] for i in rest] == pytest.approx(getattr(written, name), abs=1e-5)
        assert getattr(struck, name)[1] == getattr(struck, name)[6] == 0.0
    assert struck.prediction.logits == pytest.approx(written.prediction.logits, abs=1e-5)
    assert [rest.index(i) for i in struck.swing] == list(written.swing)
    assert (struck.rationale is None) == (written.rationale is None)
    assert struck.diagnostics["removed"] == struck.diagnostics["unread"] == [1, 6]


def test_another_temperature_of_a_grounded_model(nli):
    usual = what_if.explain(nli, *SHORT)
    cold, hot, twice = (what_if.explain(nli, *SHORT, temperature_factor=t) for t in (1e-6, 1e9, 2.0))
    assert usual.alpha == nli.explain(*SHORT).alpha
    ground = usual.hamiltonian.ground_state()
    assert cold.alpha == pytest.approx(ground.double().tolist(), abs=1e-6)
    assert hot.alpha == pytest.approx([0.5] * 8, abs=1e-6)
    assert twice.alpha == pytest.approx(usual.hamiltonian.marginals(2.0).tolist(), abs=1e-6)
    for ex, factor in ((cold, 1e-6), (hot, 1e9), (twice, 2.0)):
        assert ex.prediction.logits == usual.prediction.logits
        assert ex.shapley == usual.shapley
        assert ex.swing == usual.swing
        assert ex.diagnostics["gamma"] == [factor]
        assert ex.diagnostics["temperature_factor"] == factor
    assert what_if.has_temperature(nli.model)


@pytest.mark.parametrize("factor", [0, -1.0, float("inf"), "warm", True])
def test_what_is_no_temperature_is_refused(nli, factor, as_user):
    if factor is True:
        assert what_if.explain(nli, *SHORT, temperature_factor=factor).diagnostics["gamma"] == [1.0]
        return
    with pytest.raises(ValueError) as raised:
        what_if.explain(nli, *SHORT, temperature_factor=factor)
    assert "temperature_factor must be a number > 0" in one_line(raised)


# --- several pairs at once ------------------------------------------------------------------------------------------

MANY = [
    *PAIRS,
    ("a dog", ""),
    ("a xylophone sings .", "nobody sings ."),  # an unknown word
    ("the old man sees a dog and " * 6 + ".", "the man is old ."),  # cut at 40 tokens
]


def same(ex, other):
    """All numbers and words of two records, up to rounding; but for the time they took."""
    first, second = (one.to_dict() for one in (ex, other))
    for found in (first, second):
        found["diagnostics"].pop("seconds")
    assert_close(first, second)


def assert_close(first, second, at=""):
    if isinstance(first, dict):
        assert first.keys() == second.keys(), at
        for name in first:
            assert_close(first[name], second[name], f"{at}.{name}")
    elif isinstance(first, list):
        assert len(first) == len(second), at
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            assert_close(a, b, f"{at}[{i}]")
    elif isinstance(first, float):
        assert first == pytest.approx(second, abs=2e-4), at
    else:
        assert first == second, at


@pytest.mark.parametrize("question", [{}, {"check": False, "level": "token"}, {"target": "neutral", "seed": 3}])
def test_a_list_is_explained_as_its_pairs_are(nli, question):
    found = nli.explain(MANY, **question)
    for pair, ex in zip(MANY, found, strict=True):
        alone = nli.explain(*pair, **question)
        same(ex, alone)
        assert summary.warnings(ex) == summary.warnings(alone)
    assert found[-1].diagnostics["truncated"]
    assert len(found[-2].diagnostics["unknown"]) == 1


def test_a_list_takes_few_passes_through_the_model(nli, monkeypatch):
    batches = []
    forward = type(nli.model).forward

    def counted(self, input_ids=None, **inputs):
        batches.append(len(input_ids))
        return forward(self, input_ids=input_ids, **inputs)

    encode = getattr(type(nli.model), "encode", None)
    with monkeypatch.context() as patched:
        patched.setattr(type(nli.model), "forward", counted)
        found = nli.explain(MANY)
    tried = sum(ex.diagnostics["check_passes"] for ex in found)
    assert len(batches) <= 2 + tried // 32
    assert sum(batches) <= tried + (len(MANY) if encode is None else 0)  # a readout is read in its steps


def test_a_pair_that_fails_leaves_the_others(nli):
    labels = [nli.predict(*pair).label for pair in PAIRS]
    assert len(set(labels)) > 1
    pairs = [*PAIRS[:3], ("", " "), *PAIRS[3:]]
    found = explain_many(nli, pairs, contrast=labels[0])
    assert "both empty" in str(found.pop(3))
    for pair, label, ex in zip(PAIRS, labels, found, strict=True):
        if label == labels[0]:
            with pytest.raises(ValueError, match="the predicted label") as caught:
                nli.explain(*pair, contrast=label)
            assert str(ex) == str(caught.value)
        else:
            same(ex, nli.explain(*pair, contrast=labels[0]))
    with pytest.raises(ValueError, match="both empty"):
        nli.explain(pairs)
    assert [str(error) for error in explain_many(nli, PAIRS[:2], method="guess")] == [
        str(error) for error in explain_many(nli, PAIRS[:1], method="guess") * 2
    ]


def test_a_batch_that_fails_is_explained_pair_by_pair(nli, monkeypatch):
    def fails(*_):
        raise RuntimeError("out of memory")

    expected = nli.explain(PAIRS)
    monkeypatch.setattr(pipeline, "read_games", fails)
    for ex, other in zip(nli.explain(PAIRS), expected, strict=True):
        same(ex, other)


def test_a_file_is_written_in_chunks_and_resumed_behind_the_last(systems, tmp_path, monkeypatch):
    nli, source = systems["readout"], tmp_path / "pairs.jsonl"
    rows = [json.dumps({"premise": p, "hypothesis": h}) for p, h in PAIRS[:5]]
    rows.insert(2, '{"premise": "no hypothesis"}')
    source.write_text("\n".join(rows) + "\n")
    whole, folder, told = tmp_path / "whole", tmp_path / "out", []
    collection.explain_file(nli, source, whole)
    together, calls = pipeline.read_games, []

    def stop(*given):
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return together(*given)

    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "read_games", stop)
        with pytest.raises(KeyboardInterrupt):
            collection.explain_file(nli, source, folder, together=2)
    part = folder / f"{collection.LINES}.part"
    assert [json.loads(line)["row"] for line in part.read_text().splitlines()] == [1, 2, 3, 4]  # the third has one pair
    done = collection.explain_file(nli, source, folder, resume=True, together=2, progress=told.append)
    assert (done.explained, done.failed, done.resumed, told) == (5, 1, 4, [2])
    assert done.first_failure.startswith("row 3: line 3:")
    for one, other in zip(
        *((place / collection.LINES).read_text().splitlines() for place in (folder, whole)), strict=True
    ):
        first, second = json.loads(one), json.loads(other)
        for found in (first, second):
            found.get("diagnostics", {}).pop("seconds", None)
        assert_close(first, second)


# --- what is known of the game ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["delete", "mask", "pad"])
def test_a_readout_is_checked_and_refined_by_the_removal_of_its_training(mode):
    encoder = tiny.encoder_config(initializer_range=0.2)  # in which words depend on each other
    model = tiny.game_model(encoder=encoder, readout_removal=mode)
    nli = NLI(model, tiny.tokenizer(), name="tiny")
    reading = read(nli, *SHORT, "word")
    C = ~torch.eye(8, dtype=torch.bool)
    said = {other: evaluate(reading, C, other).double() for other in ("delete", "mask", "pad")}
    assert all(
        float((said[mode] - logits).abs().max()) > 1e-3 for other, logits in said.items() if other != mode
    )  # or the test shows little
    tried = nli.explain(*SHORT).diagnostics["without"]
    for i, row in enumerate(said[mode].softmax(-1)):
        assert list(tried[str(i)].values()) == pytest.approx(row.tolist(), abs=1e-6)
    table = evaluate(reading, exact.all_coalitions(8), mode).double() @ towards(nli, "neutral")
    refined = nli.explain(*SHORT, target="neutral", samples=300)
    assert refined.diagnostics["exact"] is True
    assert refined.shapley == pytest.approx(exact.shapley(table).tolist(), abs=1e-5)


def _terminal(ex):
    """What the terminal shows."""
    out = StringIO()
    ex.show(Console(file=out, width=100))
    return out.getvalue()


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({}, None),  # an old folder
        ({"readout_grounded": True}, None),
        ({"readout_grounded": True, "readout_r2": 0.9}, None),
        ({"readout_grounded": True, "readout_r2": 0.2}, "less than half of what it says of incomplete texts (R² 0.20)"),
        ({"readout_grounded": False}, "was never grounded"),
    ],
)
def test_a_game_says_how_far_it_can_be_trusted(known, said, tmp_path):
    ex = ours(**known).explain(*SHORT)
    assert ex.diagnostics["r2"] == known.get("readout_r2")
    assert ex.diagnostics["ungrounded"] == (known.get("readout_grounded") is False)
    found = [line for line in summary.warnings(ex) if "game of this model" in line]
    assert len(found) == (said is not None)
    assert said is None or said in found[0]
    shown = [" ".join(text.split()) for text in (ex.to_html(tmp_path / "page.html").read_text(), _terminal(ex))]
    assert [("never grounded" in text) for text in shown] == [known.get("readout_grounded") is False] * 2


def test_a_new_readout_was_never_grounded(tmp_path):
    tiny.encoder().save_pretrained(tmp_path / "encoder")
    tiny.tokenizer().save_pretrained(tmp_path / "encoder")
    options = {"readout": "game", "players": "words"}
    model = NeuroGameForSequenceClassification.from_pretrained(tmp_path / "encoder", **options)
    NLI(model, tiny.tokenizer()).save_pretrained(tmp_path / "model")
    nli = neurogame.load(tmp_path / "model")
    assert nli.model.config.readout_grounded is False
    assert nli.explain(*SHORT).diagnostics["ungrounded"] is True
    assert neurogame.load().model.config.readout_grounded is True


@pytest.mark.parametrize("mode", ["remove", None, 3])
def test_an_unknown_removal_is_refused(mode):
    with pytest.raises((TypeError, ValueError)):
        tiny.game_model(readout_removal=mode)
    with pytest.raises((TypeError, ValueError)):
        tiny.game_model(readout_r2=1.5)
    assert set(get_args(configuration.Removal)) == set(get_args(Mode))
