"""Explanations against enumeration: the head run by hand, every coalition, axioms, every head, every mistake."""

import json
import math
from dataclasses import replace

import pytest
import tiny
import torch
from transformers import BertForSequenceClassification

from neurogame import Explanation, exact
from neurogame.explanation import METHODS, decision, methods_for
from neurogame.explanation.intrinsic import summed_error
from neurogame.explanation.reading import read
from neurogame.modeling.dam import DamForSequenceClassification
from neurogame.modeling.words import build_tokenizer
from neurogame.nli import NLI
from neurogame.values import estimate_game

SHORT = ("two dogs sleep .", "the dogs run .")
LONG = ("the old man sees a dog and the girl sees a cat .", "the man is old .")
SUMS = ["neurogame", "mean", "softmax", "hopfield", "budget"]


def system(head="neurogame", family="bert", **options):
    return NLI(tiny.model(head, family=family, **options), tiny.tokenizer(family), name="tiny")


@pytest.fixture(scope="module")
def nli():
    return system()


def by_hand(nli, pair):
    """Σ over any set of words, from the model's own parts: a function from word indices to logits."""
    model = nli.model
    inputs = nli.tokenizer(*pair, return_tensors="pt")
    with torch.no_grad():
        x = model.encoder(**inputs).last_hidden_state
        players = model.players(inputs["input_ids"], inputs["attention_mask"].bool())
        pooled = model.pooling(x, players, record=True)
        layer = getattr(model.pooling, "layer", model.pooling)
        heads = pooled.weights.shape[1]
        V = layer.value(x)[0].unflatten(-1, (heads, -1))  # (tokens, heads, head_dim)
        weighted = (pooled.weights[0].T.unsqueeze(-1) * V).flatten(-2)
    special = [i for i, side in enumerate(inputs.sequence_ids()) if side is None]
    words = [i for i, side in enumerate(inputs.sequence_ids()) if side is not None]  # the vocabulary has whole words

    def logits(members, *, specials=True):
        tokens = [words[i] for i in members] + (special if specials else [])
        with torch.no_grad():
            return model.classifier(layer.out(weighted[tokens].sum(0))[None])[0].double()

    return logits, len(words)


def enumerated(nli, pair, value):
    """The value table of the game, coalition by coalition."""
    logits, n = by_hand(nli, pair)
    members = [[i for i in range(n) if c >> i & 1] for c in range(2**n)]
    return torch.stack([value(logits(C)) for C in members])


@pytest.mark.parametrize("head", SUMS)
@pytest.mark.parametrize("options", [{}, {"classifier_layers": 2, "activation": "relu"}, {"classifier_norm": False}])
def test_the_decision_game_is_what_the_head_computes(head, options):
    nli = system(head, **options)
    ex = nli.explain(*SHORT, target="neutral")
    table = enumerated(nli, SHORT, lambda logits: logits[1])
    scale = float(table.abs().max())
    assert ex.shapley == pytest.approx(exact.shapley(table).tolist(), abs=1e-5 * scale)
    assert ex.banzhaf == pytest.approx(exact.banzhaf(table).tolist(), abs=1e-5 * scale)
    assert torch.tensor(ex.interactions).double() == pytest.approx(exact.interactions(table), abs=2e-5 * scale)
    assert ex.diagnostics["exact"] is True
    assert ex.scores == ex.shapley


@pytest.mark.parametrize(
    ("head", "family"), [*((head, "bert") for head in SUMS), ("neurogame", "roberta"), ("neurogame", "distilbert")]
)
@pytest.mark.parametrize("pair", [SHORT, LONG])
def test_everybody_together_is_the_models_own_logit(head, family, pair):
    nli = system(head, family)
    ex = nli.explain(*pair)
    said = nli.predict(*pair)
    assert ex.prediction == said
    assert ex.target == said.label
    found = ex.diagnostics
    assert found["logit_error"] < 1e-4
    assert found["origin"] + found["total"] == pytest.approx(said.logits[said.label], abs=1e-4)
    assert sum(ex.shapley) + found["outside"] == pytest.approx(found["total"], abs=1e-4)
    assert found["efficiency_gap"] < 1e-4


def test_what_special_tokens_hold_is_the_value_of_no_word(nli):
    ex = nli.explain(*SHORT, target="contradiction")
    logits, _ = by_hand(nli, SHORT)
    nothing = float(logits([], specials=False)[2])
    assert ex.diagnostics["origin"] == pytest.approx(nothing, abs=1e-6)
    assert ex.diagnostics["outside"] == pytest.approx(float(logits([])[2]) - nothing, abs=1e-5)


def test_special_tokens_that_do_not_play_hold_nothing():
    tok = tiny.tokenizer()
    ids = [tok.cls_token_id, tok.sep_token_id, tok.pad_token_id]
    ex = system(players="words", special_token_ids=ids).explain(*SHORT)
    assert ex.diagnostics["outside"] == 0.0
    assert ex.diagnostics["outside_alpha"] == 0.0
    assert sum(ex.shapley) == pytest.approx(ex.diagnostics["total"], abs=1e-5)


@pytest.mark.parametrize("pair", [SHORT, LONG])  # enumerated, and sampled with the same draws
def test_a_contrast_is_a_difference(nli, pair):
    both = nli.explain(*pair, target="entailment", contrast="neutral")
    one, other = (nli.explain(*pair, target=label) for label in ("entailment", "neutral"))
    for name in ("shapley", "banzhaf"):
        difference = [a - b for a, b in zip(getattr(one, name), getattr(other, name), strict=True)]
        assert getattr(both, name) == pytest.approx(difference, abs=1e-5)
    difference = torch.tensor(one.interactions) - torch.tensor(other.interactions)
    assert torch.tensor(both.interactions) == pytest.approx(difference, abs=1e-5)


def test_sampled_values_are_within_their_errors(nli):
    pair = ("the old man sees a dog and the girl sees", "the man is old .")  # 15 words: sampled, and yet enumerable
    ex = nli.explain(*pair, target="neutral")
    assert ex.diagnostics["exact"] is False
    game = decision.game_of(read(nli, *pair, "word"), "neutral", None)
    table = game(exact.all_coalitions(15))
    for name, truth in (("shapley", exact.shapley(table)), ("banzhaf", exact.banzhaf(table))):
        error = torch.tensor(getattr(ex, name)) - truth
        assert (error.abs() <= 5 * torch.tensor(ex.diagnostics[f"{name}_se"]) + 1e-6).all()
    error = (torch.tensor(ex.interactions) - exact.interactions(table)).square().mean().sqrt()
    assert error < 2 * ex.diagnostics["interactions_se"]


def test_balanced_shares_are_efficient(nli):
    v = decision.game_of(read(nli, *LONG, "word"), "neutral", None)
    found = estimate_game(v, v.players, samples=64, couplings="none")
    size = torch.arange(v.players).double()
    balanced = decision.balanced(found.phi, found.grand(), size)
    gap = found.shapley.sum() - found.grand()
    assert float(balanced.value.sum()) == pytest.approx(float(found.grand()), abs=1e-6)
    assert balanced.value == pytest.approx(found.shapley - gap * size / size.sum(), abs=1e-9)
    assert float(balanced.value[0]) == float(found.shapley[0])


def test_a_word_that_adds_nothing_has_nothing(nli):
    v = decision.game_of(read(nli, *LONG, "word"), "neutral", None)
    v = replace(v, terms=v.terms * (torch.arange(len(v.terms)) != 3).unsqueeze(-1))
    found = decision._sampled(v, v.players)
    assert (float(found.shapley[3]), float(found.banzhaf[3])) == (0.0, 0.0)
    assert float(found.interactions[3].abs().max()) < 1e-5


@pytest.mark.parametrize("options", [{}, {"classifier_layers": 3}, {"classifier_norm": False, "activation": "relu"}])
def test_logits_of_sums_are_those_of_the_classifier(random, options):
    classifier = tiny.model(**options).classifier
    terms, members = random(1, 9, 32, dtype=torch.float32), (random(2, 50, 9) > 0).float()
    with torch.no_grad():
        expected = classifier(members @ terms)
        assert classifier.of_sums(members, terms) == pytest.approx(expected, abs=1e-4 * float(expected.abs().max()))


@pytest.mark.parametrize("compared", [False, True])
def test_swing_words_turn_the_decision(compared):
    """A word is one if and only if the head without it says something else."""
    nli, seen = system(), 0
    for pair in tiny.PAIRS:
        logits, n = by_hand(nli, pair)
        first, second = logits(range(n)).topk(2).indices.tolist()
        with torch.no_grad():  # a close call
            nli.model.classifier.out.bias[second] += float(logits(range(n))[first] - logits(range(n))[second]) - 0.01
        names = [nli.labels[first], nli.labels[second]] if compared else list(nli.labels)
        ex = nli.explain(*pair, contrast=names[1] if compared else None)
        assert ex.target == nli.labels[first]
        places = [nli.labels.index(name) for name in names]
        without = [names[int(logits([j for j in range(n) if j != i])[places].argmax())] for i in range(n)]
        assert list(ex.swing) == [i for i in range(n) if without[i] != ex.target]
        assert ex.diagnostics["swing_to"] == [without[i] for i in ex.swing]
        seen += len(ex.swing)
    assert seen


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


@pytest.mark.parametrize("options", [{}, {"preset": "paper"}, {"attention": {"couplings": "none", "gate": 1.0}}])
def test_words_are_sums_and_means_of_their_pieces(options):
    nli = system(family="roberta", **options)  # its pieces are short
    for method in METHODS:
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
    assert float(summed_error(phi, joined)[0]) == pytest.approx(expected, rel=1e-4)


def test_every_head():
    for head in ("neurogame", "spins", "cls", *SUMS[1:]):
        nli = system(head)
        working = methods_for(nli.model)
        assert working == {"neurogame": ["decision", "game"], "spins": ["game"], "cls": []}.get(head, ["decision"])
        for method in METHODS:
            if method in working:
                ex = nli.explain(*SHORT, method=method)
                assert len(ex.words) == len(ex.scores) == 8
                assert (ex.alpha is None) == (head == "spins")
                assert (ex.field is None) == (head != "neurogame")
            else:
                with pytest.raises(ValueError, match=f"method = '{method}' does not work") as caught:
                    nli.explain(*SHORT, method=method)
                assert all(f"'{name}'" in str(caught.value) for name in (*working, head))


def test_weights_of_a_control_are_its_alpha():
    ex = system("mean").explain(*SHORT)
    assert ex.alpha == pytest.approx([1 / 11] * 8)  # eight words and three special tokens
    assert ex.diagnostics["outside_alpha"] == pytest.approx(3 / 11)


def test_foreign_models_say_that_nothing_works():
    bert = BertForSequenceClassification(tiny.encoder_config(num_labels=3))
    tok = build_tokenizer(tiny.WORDS)
    dam = DamForSequenceClassification(DamForSequenceClassification.config_class(vocab_size=len(tok)))
    for model, tokenizer in ((bert, tiny.tokenizer()), (dam, tok)):
        with pytest.raises(ValueError, match=f"{type(model).__name__}; methods that do: none") as caught:
            NLI(model, tokenizer).explain(*SHORT)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", METHODS)
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


@pytest.mark.parametrize("method", METHODS)
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
    ex = nli.explain("", "dog")
    assert (ex.words, ex.sides) == (("dog",), ("hypothesis",))
    assert ex.interactions == ((0.0,),)
    assert sum(ex.shapley) + ex.diagnostics["outside"] == pytest.approx(ex.diagnostics["total"], abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
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
    found = nli.explain(*SHORT).to_dict()
    with pytest.raises(ValueError, match="scores has 7 entries for 8 words"):
        Explanation.from_dict({**found, "scores": found["scores"][1:]})
    with pytest.raises(ValueError, match="words missing"):
        Explanation.from_dict({name: value for name, value in found.items() if name != "words"})


def test_the_same_question_has_the_same_answer(nli):
    one, other = (nli.explain(*LONG).to_dict() for _ in range(2))
    for found in (one, other):
        del found["diagnostics"]["seconds"]
    assert one == other


def test_labels_may_be_spelled_as_usual(nli):
    assert nli.explain(*SHORT, target="Contradictory", contrast="e").target == "contradiction"


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
