"""Explanations: the layer's own game, what the record holds, every head, strange texts, every mistake."""

import json
import math
from dataclasses import replace

import pytest
import tiny
import torch

from neurogame import Explanation, ising
from neurogame.explanation.methods.layer import error_of_sums
from neurogame.explanation.reading import read
from neurogame.nli import NLI

SHORT = ("two dogs sleep .", "the dogs run .")
LONG = ("the old man sees a dog and the girl sees a cat .", "the man is old .")
GAMES = ["decision", "game"]  # of the head; the other methods are in test_explanation_methods
SUMS = ["neurogame", "mean", "softmax", "hopfield", "budget"]


def system(head="neurogame", family="bert", **options):
    return NLI(tiny.model(head, family=family, **options), tiny.tokenizer(family), name="tiny")


@pytest.fixture(scope="module")
def nli():
    return system()


def test_the_game_is_the_layers_own(nli):
    ex = nli.explain(*LONG, method="game")
    inputs = nli.tokenizer(*LONG, return_tensors="pt")
    with torch.no_grad():
        game = nli.model(**inputs, output_game=True).game
    words = [i for i, side in enumerate(inputs.sequence_ids()) if side is not None]
    for name in ("alpha", "field", "gate", "shapley", "banzhaf"):
        expected = getattr(game, name)[0][:, words]
        assert torch.tensor(ex.per_head[name]) == pytest.approx(expected, abs=1e-6)
        assert getattr(ex, name) == pytest.approx(expected.mean(0).tolist(), abs=1e-6)
    J = game.values.coupling.to_dense()[0].mean(0)[words][:, words]
    assert torch.tensor(ex.interactions) == pytest.approx(J, abs=1e-5)
    assert (ex.target, ex.contrast, ex.swing) == (None, None, ())
    found = ex.diagnostics
    assert found["total"] == pytest.approx(float(game.values.grand().mean()), abs=1e-5)
    assert abs(sum(ex.shapley) + found["outside"] - found["total"]) == pytest.approx(found["efficiency_gap"], abs=1e-5)
    state = game.spin_state
    assert found["residual"] == pytest.approx(float(state.residual.max()), abs=1e-6)
    assert found["spectral_radius"] == pytest.approx(float(state.spectral_radius.max()), abs=1e-5)
    assert (found["converged"], found["couplings"], found["samples"]) == (True, "linear", 24)
    assert len(found["gamma"]) == 4


@pytest.mark.parametrize("options", [{}, {"preset": "paper"}, {"attention": {"couplings": "none"}}])
def test_the_trajectory_is_that_of_the_mean_field(options):
    """From ½ to α, and after t updates where a solver stops that may make no more."""
    nli = system(**options)
    ex = nli.explain(*LONG, method="decision")
    path = torch.tensor(ex.diagnostics["trajectory"])  # (words, 1 + updates)
    assert path.shape == (18, 1 + ex.diagnostics["iterations"])
    assert (path[:, 0] == 0.5).all()
    assert path[:, -1].tolist() == pytest.approx(ex.alpha, abs=1e-4)
    reading, config = read(nli, *LONG, "word"), nli.model.pooling.layer.config
    problem = reading.pooled.game.spin_state.problem
    for t in range(1, path.shape[1]):
        state = ising.solve(
            problem.field, problem.coupling, problem.gamma, damping=config.damping, max_iter=t, tol=config.tol
        )
        expected = reading.units.mean(state.alpha[0]).mean(0)
        assert path[:, t] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("head", "options"), [("mean", {}), ("spins", {}), ("cls", {}), ("neurogame", {"attention": {"spins": "field"}})]
)
def test_where_no_spins_of_words_are_solved_there_is_no_trajectory(head, options):
    assert system(head, **options).explain(*SHORT, method="random").diagnostics["trajectory"] is None


def test_a_path_that_is_not_the_layers_is_not_told(nli):
    """A reading whose spins were solved in another way: cold, with shorter steps."""
    reading = read(nli, *SHORT, "word")
    pooled = reading.pooled
    state = replace(pooled.game.spin_state, spins=-pooled.game.spin_state.spins)
    other = read(nli, *SHORT, "word")
    vars(other)["pooled"] = replace(pooled, game=replace(pooled.game, spin_state=state))
    assert reading.trajectory is not None
    assert other.trajectory is None


@pytest.mark.parametrize("pair", [SHORT, LONG])
@pytest.mark.parametrize("method", [*GAMES, "input"])
def test_every_game_says_how_far_to_trust_it(nli, pair, method):
    found = nli.explain(*pair, method=method).diagnostics
    for name in ("shapley_se", "banzhaf_se", "trajectory"):
        assert len(found[name]) == len(pair[0].split()) + len(pair[1].split())
    for name in ("shapley_ess", "banzhaf_ess"):
        assert found[name] > 1
    for name in ("efficiency_gap", "residual", "iterations", "spectral_radius"):
        assert found[name] >= 0
    assert (found["couplings"], found["layer_couplings"]) == ("linear" if method == "game" else "pairs", "linear")


@pytest.mark.parametrize("options", [{}, {"preset": "paper"}, {"attention": {"couplings": "none", "gate": 1.0}}])
def test_words_are_sums_and_means_of_their_pieces(options):
    nli = system(family="roberta", **options)  # its pieces are short
    for method in GAMES:
        word, token = (nli.explain(*SHORT, method=method, level=level) for level in ("word", "token"))
        assert len(token.words) > len(word.words)
        owners = read(nli, *SHORT, "word").units.unit_of
        owners = [i for i in owners.tolist() if i >= 0]
        for name in ("alpha", "field", "gate"):
            pieces = [[x for x, o in zip(getattr(token, name), owners, strict=True) if o == i] for i in range(8)]
            assert getattr(word, name) == pytest.approx([sum(p) / len(p) for p in pieces], abs=1e-5)
        if method == "game":
            pieces = [sum(x for x, o in zip(token.shapley, owners, strict=True) if o == i) for i in range(8)]
            assert word.shapley == pytest.approx(pieces, abs=1e-4)
            assert (word.interactions is None) == (options.get("attention", {}).get("couplings") == "none")
        if word.interactions is not None:
            J = torch.tensor(word.interactions)
            assert torch.equal(J, J.T) or (J - J.T).abs().max() < 1e-6
            assert (J.diagonal() == 0).all()


def test_errors_of_sums_have_the_covariances(nli):
    """Two pieces as one word: the error of a sum of two columns, from the sums themselves."""
    reading = read(nli, *SHORT, "word")
    phi = reading.pooled.game.values.phi
    merged = reading.units.unit_of.clone()
    merged[merged == 1] = 0
    joined = type(reading.units)(("a",) * 8, ("premise",) * 8, merged)
    delta = phi.delta[0, :, :, 1] + phi.delta[0, :, :, 2]  # (heads, samples)
    pairs = sum(delta.chunk(2, -1)) / 2
    expected = float((pairs.var(-1) / pairs.shape[-1]).sum().sqrt() / len(delta))
    assert float(error_of_sums(phi, joined)[0]) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("head", ["spins", "cls", *SUMS])
def test_every_head(head):
    nli = system(head)
    working = {"neurogame": GAMES, "spins": ["game"], "cls": []}.get(head, ["decision"])
    for method in GAMES:
        if method in working:
            ex = nli.explain(*SHORT, method=method)
            assert len(ex.words) == len(ex.scores) == 8
            assert (ex.alpha is None) == (head == "spins")
            assert (ex.field is None) == (head != "neurogame")
        else:
            with pytest.raises(ValueError, match=f"method = '{method}' does not work") as caught:
                nli.explain(*SHORT, method=method)
            assert all(f"'{name}'" in str(caught.value) for name in (*working, "input", head))


def test_weights_of_a_control_are_its_alpha():
    ex = system("mean").explain(*SHORT, method="decision")
    assert ex.alpha == pytest.approx([1 / 11] * 8)  # eight words and three special tokens
    assert ex.diagnostics["outside_alpha"] == pytest.approx(3 / 11)


@pytest.mark.parametrize("method", GAMES)
def test_truncated_words_stay_with_zero(nli, method):
    premise = "the old man sees a dog and a cat " * 400
    ex = nli.explain(premise, "the man is old .", method=method)
    assert ex.words == (*premise.split(), "the", "man", "is", "old", ".")
    n = sum(score != 0 for score in ex.scores)
    assert n == 40 - 3
    assert len(ex.diagnostics["truncated"]) == len(ex.words) - n
    assert all(not any(ex.interactions[i]) for i in ex.diagnostics["unread"])
    assert ex.prediction.truncated
    assert "not read" in str(ex._repr_html_())


@pytest.mark.parametrize("method", GAMES)
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_strange_text(method, family):
    nli = system(family=family)
    texts = [
        "a 👨‍👩‍👧 \u200b zzz",
        "שלום \x07 a\u202ebc \x1b[31m",
        "<script>alert(1)</script> & \"q\" 'r' {{x}} ${y}",
        "",
        ".",
    ]
    for premise, hypothesis in zip(texts, [*texts[1:], texts[0]], strict=True):
        ex = nli.explain(premise, hypothesis, method=method)
        assert ex.words == (*premise.split(), *hypothesis.split())
        assert Explanation.from_dict(json.loads(json.dumps(ex.to_dict(), allow_nan=False))) == ex


def test_one_word_is_enough(nli):
    ex = nli.explain("", "dog", method="decision")
    assert (ex.words, ex.sides) == (("dog",), ("hypothesis",))
    assert ex.interactions == ((0.0,),)
    assert sum(ex.shapley) + ex.diagnostics["outside"] == pytest.approx(ex.diagnostics["total"], abs=1e-5)


@pytest.mark.parametrize("method", GAMES)
def test_json_round_trip(nli, method):
    ex = nli.explain(*LONG, method=method)
    found = json.loads(json.dumps(ex.to_dict(), allow_nan=False))
    assert Explanation.from_dict(found) == ex
    for name in (
        "words",
        "sides",
        "shapley",
        "banzhaf",
        "alpha",
        "field",
        "gate",
        "interactions",
        "scores",
        "per_head",
    ):
        assert found[name] is not None
    assert found["prediction"] == nli.predict(*LONG).to_dict()


def test_what_is_not_a_number_is_null():
    nli = system(attention={"samples": 2})  # one pair of coalitions: no error can be estimated
    ex = nli.explain(*SHORT, method="game")
    assert ex.diagnostics["shapley_se"] == [None] * 8
    json.dumps(ex.to_dict(), allow_nan=False)
    ex.show()
    assert math.isfinite(sum(ex.scores))


def test_a_record_that_does_not_fit_is_refused(nli):
    found = nli.explain(*SHORT, method="decision").to_dict()
    with pytest.raises(ValueError, match="scores has 7 entries for 8 words"):
        Explanation.from_dict({**found, "scores": found["scores"][1:]})
    with pytest.raises(ValueError, match="interactions must be 8 × 8, words × words"):
        Explanation.from_dict({**found, "interactions": [[0.0]] * 8})
    with pytest.raises(ValueError, match="words missing"):
        Explanation.from_dict({name: value for name, value in found.items() if name != "words"})


def test_the_same_question_has_the_same_answer(nli):
    one, other = (nli.explain(*LONG, method="decision").to_dict() for _ in range(2))
    for found in (one, other):
        del found["diagnostics"]["seconds"]
    assert one == other


def test_labels_may_be_spelled_as_usual(nli):
    assert nli.explain(*SHORT, target="Contradictory", contrast="e", method="decision").target == "contradiction"


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (SHORT, {"method": "magic"}, "method = 'magic' is unknown; allowed: 'decision', 'game'"),
        (SHORT, {"level": "letter"}, "level = 'letter' is unknown; allowed: 'word', 'token'"),
        (
            SHORT,
            {"target": "yes"},
            "target = 'yes' is not a label of tiny; allowed: entailment, neutral, contradiction",
        ),
        (SHORT, {"contrast": 2}, "contrast = 2 is not a label of tiny; allowed: entailment"),
        (SHORT, {"target": "neutral", "contrast": "neutral"}, "contrast = 'neutral' is the target itself; allowed"),
        (SHORT, {"contrast": "contradiction"}, "is the target itself (the predicted label, since none was given)"),
        (SHORT, {"method": "game", "target": "neutral"}, "method = 'game' is the same for every label and takes none"),
        (SHORT, {"method": "game", "contrast": "neutral"}, "contrast = 'neutral': method = 'game'"),
        (("", " \n"), {}, "both empty"),
        (("\u200b", ""), {}, "becomes a token"),
        ((3, "a"), {}, "premise must be a string, got 3"),
        (("a", None), {}, "hypothesis must be a string, got None"),
        (([SHORT], "a"), {}, "premise must be a string"),
    ],
)
def test_mistakes(nli, arguments, options, said):
    assert nli.predict(*SHORT).label == "contradiction"
    with pytest.raises(ValueError) as caught:
        nli.explain(*arguments, **options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
