"""Words struck out and another temperature, against the model run by hand, closed forms and the untouched pair."""

import math

import pytest
import tiny
import torch

from neurogame.explanation import METHODS, methods_for, what_if
from neurogame.explanation.reading import read
from neurogame.explanation.removal import evaluate
from neurogame.nli import NLI

PAIR = ("two dogs sleep .", "the dogs run .")
WORDS = ["two", "dogs", "sleep", ".", "the", "dogs", "run", "."]


def system(head="neurogame", family="bert", **options):
    return NLI(tiny.model(head, family=family, **options), tiny.tokenizer(family), name="tiny")


@pytest.fixture(scope="module")
def nli():
    return system()


# --- without: words struck out ------------------------------------------------------------------------------------


@pytest.mark.parametrize("removed", [[1], [0, 6], [4, 5, 6, 7]])
def test_a_struck_out_pair_is_the_model_on_the_remaining_ids(nli, removed):
    inputs = nli.tokenizer(*PAIR, return_tensors="pt")
    tokens = [1, 2, 3, 4, 6, 7, 8, 9]  # of the words; 0, 5 and 10 are special
    gone = {tokens[i] for i in removed}
    places = [i for i in range(11) if i not in gone]
    with torch.no_grad():
        by_hand = nli.model(**{name: column[:, places] for name, column in inputs.items()}).logits[0]
    reading = read(nli, *PAIR, "word", removed)
    assert list(reading.prediction.logits.values()) == pytest.approx(by_hand.tolist(), abs=1e-5)
    assert reading.tokens.inputs["token_type_ids"].tolist() == inputs["token_type_ids"][:, places].tolist()
    assert reading.units.read == tuple(i for i in range(8) if i not in removed)


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_it_agrees_with_removal(family):
    nli = system(family=family)
    whole = read(nli, *tiny.PAIRS[0], "word")
    keep = torch.ones(1, len(whole.units.read), dtype=torch.bool)
    keep[0, 2] = keep[0, 9] = False
    said = read(nli, *tiny.PAIRS[0], "word", [whole.units.read[2], whole.units.read[9]]).prediction
    assert list(said.logits.values()) == pytest.approx(evaluate(whole, keep)[0].tolist(), abs=1e-5)
    assert said.label == max(said.logits, key=said.logits.get)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "random"])  # drawn from the text as it stands
def test_the_rest_is_explained_as_if_the_word_had_not_been_written(nli, method):
    """Every word here is one token, so that deleting it from the text is deleting it from the ids."""
    if method not in methods_for(nli.model):
        pytest.skip(f"{method} needs {', '.join(METHODS[method].needs)}")
    target = {"target": "neutral"} if METHODS[method].has_target else {}
    struck = what_if.explain(nli, *PAIR, removed=[1], method=method, **target)
    written = nli.explain("two sleep .", PAIR[1], method=method, **target)
    rest = [0, 2, 3, 4, 5, 6, 7]
    for name in ("scores", "shapley", "banzhaf", "alpha", "field", "gate"):
        found = getattr(struck, name)
        if found is None:
            assert getattr(written, name) is None
            continue
        assert [found[i] for i in rest] == pytest.approx(getattr(written, name), abs=1e-5)
        assert found[1] == 0.0
    if written.interactions is not None:
        J = [[struck.interactions[i][j] for j in rest] for i in rest]
        assert torch.tensor(J) == pytest.approx(torch.tensor(written.interactions), abs=1e-5)
    assert struck.prediction.probabilities == pytest.approx(written.prediction.probabilities, abs=1e-5)


def test_the_record_says_what_was_struck_out(nli):
    found = what_if.explain(nli, *PAIR, removed=[6, 1, 6], method="decision")
    assert list(found.words) == WORDS
    assert found.diagnostics["removed"] == [1, 6]
    assert found.diagnostics["unread"] == [1, 6]
    assert found.diagnostics["truncated"] == found.diagnostics["silent"] == []
    assert found.diagnostics["logit_error"] < 1e-4


def test_cut_pairs_stay_cut(nli):
    long = (" ".join(["dogs"] * 60), "the dogs run .")
    whole = nli.explain(*long, method="decision")
    found = what_if.explain(nli, *long, removed=[0, 62], method="decision")
    assert found.diagnostics["truncated"] == whole.diagnostics["truncated"] != []
    assert found.prediction.truncated


def test_pieces_can_be_struck_out_too():
    nli = system(family="roberta")
    whole = nli.explain(*tiny.PAIRS[0], level="token", method="decision")
    found = what_if.explain(nli, *tiny.PAIRS[0], level="token", removed=[0], method="decision")
    assert found.words == whole.words
    assert found.scores[0] == 0.0 != whole.scores[0]


# --- heated: another temperature ------------------------------------------------------------------------------------


def test_without_couplings_alpha_has_a_closed_form():
    nli = system(attention={"couplings": "none"})
    reading = read(nli, *PAIR, "word")
    field, gamma = reading.pooled.game.field, nli.model.pooling.layer.gamma.detach()
    for factor in (0.1, 0.5, 3.0):
        weights = what_if.heated(reading, factor).pooled.weights
        expected = (1.0 + torch.tanh(field / (factor * gamma).unsqueeze(-1))) / 2.0
        assert weights == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("options", [{}, {"preset": "paper"}, {"players": "words", "special_token_ids": [2, 3]}])
def test_the_spins_solve_their_equation(options):
    reading = read(system(**options), *PAIR, "word")
    before = reading.pooled.game
    for factor in (0.05, 0.4, 7.0):
        state = what_if.heated(reading, factor).pooled.game.spin_state
        p = state.problem
        s = state.spins
        J = p.coupling if isinstance(p.coupling, torch.Tensor) else p.coupling.to_dense()
        update = torch.tanh((p.field + (J @ s.unsqueeze(-1)).squeeze(-1)) / p.gamma.unsqueeze(-1))
        update = update if p.mask is None else update * p.mask
        assert bool(state.converged.all())
        assert s == pytest.approx(update, abs=2e-4)
        assert p.gamma == pytest.approx(factor * before.spin_state.problem.gamma)
        assert torch.equal(p.field, before.field)


def test_from_deterministic_to_uniform(nli):
    cold, hot = (
        what_if.explain(nli, *PAIR, temperature_factor=factor, method="decision") for factor in (0.001, 1000.0)
    )
    assert all(min(a, 1.0 - a) < 1e-3 for row in cold.per_head["alpha"] for a in row)
    assert all(abs(a - 0.5) < 1e-2 for row in hot.per_head["alpha"] for a in row)
    assert hot.diagnostics["temperature_factor"] == 1000.0
    assert hot.diagnostics["gamma"] == pytest.approx(
        [1000.0 * g for g in nli.explain(*PAIR, method="decision").diagnostics["gamma"]]
    )


def test_the_prediction_is_that_of_the_new_weights(nli):
    reading = read(nli, *PAIR, "word")
    changed = what_if.heated(reading, 0.3)
    layer, model = nli.model.pooling.layer, nli.model
    with torch.no_grad():
        V = layer.value(reading.states).unflatten(-1, (layer.heads, -1))  # (1, tokens, heads, head_dim)
        z = (changed.pooled.weights.mT.unsqueeze(-1) * V).sum(1).flatten(-2)
        logits = model.classifier(layer.out(z))[0]
    assert list(changed.prediction.logits.values()) == pytest.approx(logits.tolist(), abs=1e-5)
    found = what_if.explain(nli, *PAIR, temperature_factor=0.3, method="decision")
    total = sum(found.scores) + found.diagnostics["outside"] + found.diagnostics["origin"]
    assert total == pytest.approx(float(logits.max()), abs=1e-4)
    assert found.diagnostics["logit_error"] < 1e-4


def test_nothing_of_the_model_changes(nli):
    before, said = {k: v.clone() for k, v in nli.model.state_dict().items()}, nli.predict(*PAIR)
    what_if.explain(nli, *PAIR, removed=[0], temperature_factor=0.2, method="decision")
    assert all(torch.equal(v, before[k]) for k, v in nli.model.state_dict().items())
    assert nli.predict(*PAIR) == said


def test_no_change_is_no_change(nli):
    plain, same = (
        nli.explain(*PAIR, method="decision").to_dict(),
        what_if.explain(nli, *PAIR, removed=[], temperature_factor=1.0, method="decision").to_dict(),
    )
    for found in (plain, same):
        found["diagnostics"].pop("seconds")
    assert same == plain
    reading = read(nli, *PAIR, "word")
    assert what_if.heated(reading, 1.0) is reading


def test_both_at_once(nli):
    """The temperature acts on what the layer makes of the remaining words."""
    both = what_if.explain(nli, *PAIR, removed=[1], temperature_factor=0.4, target="neutral", method="decision")
    rest = what_if.explain(nli, "two sleep .", PAIR[1], temperature_factor=0.4, target="neutral", method="decision")
    assert [a for i, a in enumerate(both.alpha) if i != 1] == pytest.approx(rest.alpha, abs=1e-4)
    assert both.prediction.logits == pytest.approx(rest.prediction.logits, abs=1e-4)


# --- mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0, -1.0, math.nan, math.inf, True, "2"])
def test_a_temperature_is_a_positive_number(nli, factor):
    with pytest.raises(ValueError, match=r"temperature_factor must be a number > 0"):
        what_if.heated(read(nli, *PAIR, "word"), factor)


@pytest.mark.parametrize(("head", "attention"), [("mean", {}), ("spins", {}), ("neurogame", {"spins": "field"})])
def test_models_without_a_temperature_say_so(head, attention):
    nli = system(head, **({"attention": attention} if attention else {}))
    assert not what_if.has_temperature(nli.model)
    with pytest.raises(ValueError, match="tiny has no temperature γ"):
        what_if.heated(read(nli, *PAIR, "word"), 2.0)


@pytest.mark.parametrize("removed", [[8], [-1], [True], ["1"]])
def test_words_are_given_by_number(nli, removed):
    with pytest.raises(ValueError, match="numbered 0 to 7"):
        what_if.explain(nli, *PAIR, removed=removed, method="decision")


def test_what_is_not_read_cannot_be_struck_out(nli):
    """Found by the fuzzer: words of control characters alone, which the tokenizer drops."""
    with pytest.raises(ValueError, match="becomes a token"):
        what_if.explain(nli, "\x89\x01", "\x89\x01", removed=[0], method="decision")


def test_something_must_be_left(nli):
    with pytest.raises(ValueError, match="every word is struck out"):
        what_if.explain(nli, *PAIR, removed=range(8), method="decision")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"method": "nothing"}, "method = 'nothing'"),
        ({"level": "letter"}, "level = 'letter'"),
        ({"target": "perhaps"}, "target = 'perhaps'"),
        ({"method": "game", "target": "neutral"}, "takes none"),
        ({"target": "neutral", "contrast": "neutral"}, "is the target itself"),
    ],
)
def test_other_mistakes_are_those_of_explain(nli, asked, message):
    for change in ({}, {"removed": [1]}, {"temperature_factor": 2.0}):
        with pytest.raises(ValueError, match=message):
            what_if.explain(nli, *PAIR, **asked, **change)
