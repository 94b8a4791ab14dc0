"""Explainers of classifiers that are not ours: single texts and pairs, every kind of logits and of removal."""

import copy
import io
import json
import random
import sys
from dataclasses import replace

import pytest
import tiny
import torch
from rich.console import Console
from transformers import BertForSequenceClassification

import neurogame
from neurogame import Explanation, exact
from neurogame.classifier import Classifier
from neurogame.data.pairs import DataError
from neurogame.data.words import tokenize, units
from neurogame.explanation import explain, summary
from neurogame.explanation.reading import read
from neurogame.explanation.removal import evaluate
from neurogame.grounding import GroundedGame, fit_games, fit_quality, observe, r_squared
from neurogame.grounding.explainer import CONFIG, Explainer
from neurogame.grounding.texts import as_texts
from neurogame.nli import NLI, ModelError
from neurogame.outputs import Outputs, direction, output_of

SMALL = {"heads": 8, "head_dim": 2, "width": 24}
QUICK = {"steps": 60, "coalitions": 4, **SMALL}
TEXT = "the old man sees a dog and a cat ."
KINDS = {
    "softmax": {"num_labels": 2},
    "sigmoid": {"num_labels": 1},
    "multi_label": {"num_labels": 3, "problem_type": "multi_label_classification"},
    "regression": {"num_labels": 1, "problem_type": "regression"},
}
NAMES = {
    "softmax": ("bad", "good"),
    "sigmoid": ("toxic",),
    "multi_label": ("rude", "long", "sad"),
    "regression": ("score",),
}


def classifier(kind="softmax", seed=0, **options):
    """A random BERT whose answers differ from text to text."""
    torch.manual_seed(seed)
    config = tiny.encoder_config("bert", initializer_range=0.2, **{**KINDS[kind], **options})
    if config.num_labels == len(NAMES[kind]):
        config.id2label = dict(enumerate(NAMES[kind]))
        config.label2id = {name: i for i, name in enumerate(NAMES[kind])}
    return BertForSequenceClassification(config).eval()


def single_texts(count, seed=0):
    draws = random.Random(seed)
    words = [w for w in tiny.WORDS if w != "."]
    return [" ".join(draws.choices(words, k=draws.randint(3, 8))) for _ in range(count)]


@pytest.fixture(scope="module")
def explainers():
    """One of each kind, fitted on single texts."""
    return {kind: neurogame.ground(classifier(kind), tiny.tokenizer(), single_texts(60), **QUICK) for kind in KINDS}


every_kind = pytest.mark.parametrize("kind", list(KINDS))


def one_line(raised):
    text = str(raised.value)
    assert "\n" not in text
    return text


def logits_of(model, text):
    with torch.no_grad():
        return model(**tiny.tokenizer()(text, return_tensors="pt")).logits[0].double()


# --- texts ----------------------------------------------------------------------------------------------------------


def test_texts_are_strings_or_pairs():
    assert as_texts(["a", "b"]) == [("a",), ("b",)]
    assert as_texts([("a", "b"), ["c", "d"]]) == [("a", "b"), ("c", "d")]
    assert as_texts([neurogame.data.Pair("a", "b")]) == [("a", "b")]


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        ("one", TypeError, "texts must be a list of texts, got one string: 'one'"),
        (
            ["a", ("b", "c")],
            TypeError,
            "texts must be all strings or all pairs: text 0 is a single text, text 1 is a pair",
        ),
        (
            [("b", "c"), "a"],
            TypeError,
            "texts must be all strings or all pairs: text 0 is a pair, text 1 is a single text",
        ),
        ([3], TypeError, "text 0 must be a string, or a pair (premise, hypothesis) of strings; got 3"),
        ([("a", 3)], TypeError, "text 0 must be a string, or a pair (premise, hypothesis) of strings; got ('a', 3)"),
        (["a\ud800"], ValueError, "text 0 is not valid Unicode (half of a surrogate pair): 'a\\ud800'"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(texts, error, message):
    with pytest.raises(error) as raised:
        as_texts(texts)
    assert one_line(raised) == message


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "mpnet"])
def test_one_text_is_tokenised_as_the_tokenizer_does(family):
    tok = tiny.tokenizer(family)
    tokens = tokenize(tok, TEXT, None, 40)
    assert tokens.texts == (TEXT,)
    assert tokens.inputs["input_ids"][0].tolist() == tok(TEXT)["input_ids"]
    found = units(tokens, "word")
    assert found.names == tuple(TEXT.split())
    assert set(found.sides) == {"text"}
    short = tokenize(tok, TEXT, None, 6)
    assert len(short.inputs["input_ids"][0]) == 6
    assert units(short, "word").truncated


def test_what_is_observed_of_single_texts_is_what_the_model_says():
    model, tok = classifier(), tiny.tokenizer()
    found = observe(model, tok, [TEXT, "", "a dog"], (0, 2), coalitions=4)
    assert len(found) == 2
    whole = torch.stack([logits_of(model, text) for text in (TEXT, "a dog")])
    torch.testing.assert_close(torch.stack([rows[-1] for rows in found.logits]).double(), whole, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found.empty.double(), logits_of(model, ""), atol=1e-4, rtol=1e-4)
    some = found.members[1][0]
    text = " ".join(word for word, stays in zip(("a", "dog"), some.tolist(), strict=True) if stays)
    torch.testing.assert_close(found.logits[1][0].double(), logits_of(model, text), atol=1e-4, rtol=1e-4)


# --- what logits mean -----------------------------------------------------------------------------------------------


def test_kinds_follow_the_configuration():
    assert {kind: output_of(classifier(kind).config) for kind in KINDS} == {kind: kind for kind in KINDS}
    assert output_of(classifier("multi_label", num_labels=1).config) == "sigmoid"  # one label of many is yes or no


def test_labels_decisions_and_margins_by_hand():
    z = torch.tensor([1.0, -2.0, 0.5]).double()
    soft, many = Outputs(("a", "b", "c")), Outputs(("a", "b", "c"), "multi_label")
    one, score = Outputs(("a",), "sigmoid"), Outputs(("a", "b", "c"), "regression")
    assert (soft.label(z), many.label(z), many.label(-z.abs()), score.label(z)) == ("a", "a, c", "none", "a")
    assert (one.label(z[:1]), one.label(-z[:1])) == ("a", "not a")
    assert (many.target(z), many.target(-z.abs()), one.target(-z[:1])) == ("a", "not c", "not a")
    assert float(soft.margin(z, "a")) == 0.5
    assert float(soft.margin(z, "b", "c")) == -2.5
    assert float(many.margin(z, "not b")) == 2.0
    assert float(one.margin(z[:1], "a")) == 1.0
    assert (soft.decision(z, "b"), many.decision(z, "b"), many.decision(z, "not a")) == ("a", "not b", "a")
    assert soft.probabilities(z).sum() == pytest.approx(1.0)
    torch.testing.assert_close(many.probabilities(z, 2.0), (z / 2).sigmoid())
    assert many.targets == ("a", "b", "c", "not a", "not b", "not c")
    assert soft.targets == score.targets == ("a", "b", "c")
    assert soft.centred(z).sum() == pytest.approx(0.0)
    assert torch.equal(many.centred(z), z)
    assert not score.decides


@pytest.mark.parametrize(("labels", "kind"), [(("a",), "softmax"), (("a", "b"), "sigmoid"), (("a", "b"), "logistic")])
def test_kinds_that_do_not_fit_the_labels_are_refused(labels, kind):
    with pytest.raises(ValueError, match="output = "):
        Outputs(labels, kind)


def test_r_squared_of_labels_that_do_not_compete():
    said, shifted = torch.randn(20, 3).double(), torch.ones(20, 1).double()
    assert r_squared(said + shifted, said) == pytest.approx(1.0)  # under a softmax a common shift is nothing
    assert r_squared(said + shifted, said, rivals=False) < 1.0
    assert r_squared(said, said, rivals=False) == 1.0


@every_kind
def test_predictions_of_each_kind(kind):
    model = classifier(kind)
    said = Classifier(model, tiny.tokenizer()).prediction(logits_of(model, TEXT))
    z = logits_of(model, TEXT)
    assert list(said.logits.values()) == pytest.approx(z.tolist())
    if kind == "softmax":
        assert list(said.probabilities.values()) == pytest.approx(z.softmax(-1).tolist())
        assert said.label == NAMES[kind][int(z.argmax())]
    elif kind == "regression":
        assert (said.label, said.probabilities) == ("score", {})
    else:
        assert list(said.probabilities.values()) == pytest.approx(z.sigmoid().tolist())


# --- explanations of single texts -----------------------------------------------------------------------------------


@every_kind
def test_an_explanation_of_one_text(explainers, kind):
    why = explainers[kind](TEXT)
    assert (why.text, why.premise, why.hypothesis) == (TEXT, None, None)
    assert why.words == tuple(TEXT.split())
    assert set(why.sides) == {"text"}
    assert why.parts == (("text", TEXT),)
    assert why.method == "decision"
    assert why.diagnostics["grounded"] == "explainer"
    assert why.diagnostics.get("output", "softmax") == kind == explainers[kind].output
    assert sum(why.shapley) == pytest.approx(why.diagnostics["total"], abs=1e-4)
    z = logits_of(explainers[kind].model, TEXT)
    assert list(why.prediction.logits.values()) == pytest.approx(z.tolist(), abs=1e-4)
    assert why.target == Outputs(NAMES[kind], kind).target(z)


@every_kind
def test_json_of_one_text_names_a_text(explainers, kind):
    why = explainers[kind](TEXT)
    found = json.loads(json.dumps(why.to_dict()))
    assert next(iter(found)) == "text"
    assert not {"premise", "hypothesis"} & set(found)
    assert Explanation.from_dict(found) == why


@every_kind
def test_no_view_of_one_text_names_premise_or_hypothesis(explainers, kind, tmp_path):
    why = explainers[kind](TEXT)
    console = Console(file=io.StringIO(), width=110)
    why.show(console)
    drawn = [console.file.getvalue(), why.sentence, why._repr_html_().partition("</style>")[2]]
    drawn.append(why.to_html(tmp_path / "page.html").read_text(encoding="utf-8").partition("</style>")[2])
    for figure in ("sentence", "matrix", "network"):
        why.figure(figure, tmp_path / f"{figure}.svg")
        drawn.append((tmp_path / f"{figure}.svg").read_text(encoding="utf-8"))
    for shown in drawn:
        assert "premise" not in shown.lower()
        assert "hypothesis" not in shown.lower()
        assert "ᴾ" not in shown
        assert "ᴴ" not in shown
        assert " pair," not in shown


def test_a_pair_keeps_its_keys(explainers):
    pairs = [(text, "a man sings") for text in single_texts(20)]
    why = neurogame.ground(classifier(), tiny.tokenizer(), pairs, steps=2, coalitions=2, **SMALL)(*tiny.PAIRS[0])
    assert why.text is None
    assert list(why.to_dict())[:2] == ["premise", "hypothesis"]
    assert "text" not in why.to_dict()
    assert set(why.sides) == {"premise", "hypothesis"}
    assert Explanation.from_dict(why.to_dict()) == why


def test_an_explanation_is_of_a_text_or_of_a_pair(explainers):
    found = explainers["softmax"](TEXT).to_dict()
    with pytest.raises(ValueError, match="an explanation is of a text, or of premise and hypothesis; got"):
        Explanation.from_dict({**found, "premise": "a"})


def test_a_list_of_texts_gives_a_list(explainers):
    explainer = explainers["softmax"]
    texts = single_texts(3, seed=5)
    found = explainer(texts)
    assert [why.text for why in found] == texts
    for why, text in zip(found, texts, strict=True):  # in shared passes: up to rounding
        assert why.scores == pytest.approx(explainer(text).scores, abs=1e-5)


def test_texts_of_the_other_kind_are_refused(explainers):
    with pytest.raises(ValueError) as raised:
        explainers["softmax"]("a dog", "a cat")
    assert "was fitted on single texts, got a pair" in one_line(raised)
    pairs = [(text, "a man sings") for text in single_texts(20)]
    other = neurogame.ground(classifier(), tiny.tokenizer(), pairs, steps=2, coalitions=2, **SMALL)
    with pytest.raises(ValueError) as raised:
        other("a dog")
    assert "was fitted on pairs (premise, hypothesis), got one text" in one_line(raised)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_text_is_refused(explainers, text):
    with pytest.raises(ValueError) as raised:
        explainers["softmax"](text)
    assert one_line(raised) == "text is empty: there is no word to explain"


@every_kind
def test_one_word_is_explained_by_itself(explainers, kind):
    why = explainers[kind]("dog")
    assert len(why.shapley) == 1
    assert why.shapley[0] == pytest.approx(why.diagnostics["total"], abs=1e-5)
    refined = explainers[kind]("dog", samples=10)
    z, nothing = (logits_of(explainers[kind].model, text) for text in ("dog", ""))
    sign = direction(NAMES[kind], why.target)
    assert refined.shapley[0] == pytest.approx(float((z - nothing) @ sign), abs=1e-4)


# --- claims ---------------------------------------------------------------------------------------------------------


@every_kind
def test_swing_words_and_rationale_mean_what_the_model_decides(explainers, kind):
    explainer = explainers[kind]
    outputs = Outputs(NAMES[kind], kind)
    swung = 0
    for text in single_texts(12, seed=9):
        for target in outputs.targets:
            why = explainer(text, target=target)
            if kind == "regression":
                assert why.swing == ()
                assert why.rationale is None
                continue
            now = outputs.decision(logits_of(explainer.model, text), target)
            for i, to in zip(why.swing, why.diagnostics["swing_to"], strict=True):
                left = " ".join(word for j, word in enumerate(why.words) if j != i)
                assert outputs.decision(logits_of(explainer.model, left), target) == to != now
                swung += 1
            if why.rationale is not None:
                alone = " ".join(why.words[i] for i in why.rationale)
                assert outputs.decision(logits_of(explainer.model, alone), target) == now == target
    assert swung > 0 or kind == "regression"


def test_what_a_score_would_be_without_words_is_tried(explainers):
    why = explainers["regression"](TEXT)
    assert why.diagnostics["checked"]
    for i, scores in why.diagnostics["without"].items():
        left = " ".join(word for j, word in enumerate(why.words) if j != int(i))
        assert scores["score"] == pytest.approx(float(logits_of(explainers["regression"].model, left)), abs=1e-4)
    assert explainers["regression"](TEXT, check=False).diagnostics["check_passes"] == 0


def test_not_a_label_is_the_other_side_of_it(explainers):
    explainer = explainers["sigmoid"]
    yes, no = explainer(TEXT, target="toxic"), explainer(TEXT, target="not toxic")
    assert yes.scores == pytest.approx([-x for x in no.scores])
    said = explainer(TEXT)
    assert said.target == said.prediction.label
    assert said.sentence.startswith(f"{said.target[0].upper()}{said.target[1:]} (")
    assert summary.poles(no) == ("for toxic", "for not toxic")


def test_the_sentence_of_a_score_has_its_value(explainers):
    why = explainers["regression"](TEXT)
    assert why.sentence.startswith(f"Score {why.prediction.logits['score']:.2f}: ")
    assert "%" not in why.sentence
    assert summary.question(why) == "How much each word adds to score"


def test_a_label_of_many_is_explained_by_its_own_logit(explainers):
    explainer = explainers["multi_label"]
    for name in NAMES["multi_label"]:
        why = explainer(TEXT, target=name)
        p = why.prediction.probabilities[name]
        share = f"{100 * max(p, 1 - p):.0f} %"
        assert why.sentence.startswith(
            (f"{name.capitalize()} ({share})", f"Not {name} ({share}); what speaks for {name}")
        )
    with pytest.raises(ValueError, match="target = 'kind' is not a label of"):
        explainer(TEXT, target="kind")
    with pytest.raises(ValueError, match="a target that is compared must be a label"):
        explainer(TEXT, target="not rude", contrast="long")


# --- taking words out -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("removal", ["delete", "mask", "pad"])
def test_fitting_checking_and_refining_take_words_out_in_one_way(removal, tmp_path):
    model, tok = classifier(), tiny.tokenizer()
    explainer = neurogame.ground(model, tok, single_texts(30), removal=removal, **QUICK)
    explainer.save_pretrained(tmp_path)
    assert json.loads((tmp_path / CONFIG).read_text())["removal"] == removal
    explainer = Explainer.from_pretrained(tmp_path).bound(model, tok)
    text = "the old man sees a dog"
    refined = explainer(text, target="good", samples=64)
    reading = read(Classifier(model, tok), text, None)
    real = evaluate(reading, exact.all_coalitions(6), removal).double()
    assert refined.diagnostics["exact"]
    assert refined.shapley == pytest.approx(exact.shapley(real[:, 1]).tolist(), abs=1e-5)
    checked = explainer(text, target="good").diagnostics["without"]
    for i, p in checked.items():
        C = torch.ones(1, 6, dtype=torch.bool)
        C[0, int(i)] = False
        assert list(p.values()) == pytest.approx(evaluate(reading, C, removal)[0].softmax(-1).tolist(), abs=1e-5)


def test_an_unknown_removal_is_refused():
    with pytest.raises(ValueError, match="removal = 'drop' is unknown; allowed: 'delete', 'mask', 'pad'"):
        neurogame.ground(classifier(), tiny.tokenizer(), single_texts(4), removal="drop")


# --- what can be grounded -------------------------------------------------------------------------------------------


def test_a_classifier_of_ours_brings_its_tokenizer():
    nli = NLI(classifier(), tiny.tokenizer(), name="theirs")
    explainer = neurogame.ground(nli, None, single_texts(10), steps=2, coalitions=2, **SMALL)
    assert explainer("a dog").words == ("a", "dog")
    nli.explainer = explainer
    assert nli.explain("a dog").scores == explainer("a dog").scores
    assert nli.explain(["a dog", "a cat"])[1].text == "a cat"


@pytest.mark.parametrize(("activation", "output"), [("Sigmoid", "sigmoid"), ("Identity", "regression")])
def test_a_cross_encoder_is_taken_as_it_is(activation, output, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model, tok = classifier("sigmoid"), tiny.tokenizer()
    model.save_pretrained(tmp_path)
    tok.save_pretrained(tmp_path)
    cross = sentence_transformers.CrossEncoder(
        str(tmp_path), num_labels=1, activation_fn=getattr(torch.nn, activation)(), device="cpu", local_files_only=True
    )
    pairs = [(text, "a man sings") for text in single_texts(10)]
    explainer = neurogame.ground(cross, None, pairs, steps=2, coalitions=2, **SMALL)
    assert explainer.output == output
    explainer.save_pretrained(tmp_path / "explainer")
    loaded = Explainer.from_pretrained(tmp_path / "explainer").bound(cross)
    why = loaded("a dog", "a man sings")
    expected = float(cross.predict([("a dog", "a man sings")])[0])
    said = why.prediction
    assert (said.logits if output == "regression" else said.probabilities)["toxic"] == pytest.approx(expected, abs=1e-4)


def test_what_is_no_classifier_is_refused():
    with pytest.raises(TypeError) as raised:
        neurogame.ground("bert", tiny.tokenizer(), ["a", "b"])
    assert "model must be a sequence classifier of transformers, a CrossEncoder or an NLI; got str" in one_line(raised)
    with pytest.raises(TypeError, match="tokenizer must be given with a BertForSequenceClassification"):
        neurogame.ground(classifier(), None, ["a", "b"])


def test_other_methods_take_single_texts_too():
    nli = Classifier(classifier("sigmoid"), tiny.tokenizer(), name="theirs")
    text = "the old man sees a dog"
    real = evaluate(read(nli, text, None), exact.all_coalitions(6)).double()
    why = explain(nli, text, None, method="input", target="toxic")
    assert why.shapley == pytest.approx(exact.shapley(real[:, 0]).tolist(), abs=1e-5)
    assert explain(nli, text, None, method="occlusion", target="toxic").text == text


def test_a_pair_model_still_wants_its_hypothesis():
    with pytest.raises(ValueError) as raised:
        NLI(classifier(), tiny.tokenizer()).explain("a dog")
    assert one_line(raised) == "hypothesis must be a string, got None; explain takes one pair, two sentences"


def test_nan_logits_are_an_error():
    model = copy.deepcopy(classifier())
    with torch.no_grad():
        model.classifier.bias.fill_(torch.nan)
    with pytest.raises(ModelError) as raised:
        neurogame.ground(model, tiny.tokenizer(), single_texts(4))
    assert "the logits of BertForSequenceClassification are NaN or infinite" in one_line(raised)


def test_a_tokenizer_of_another_model_is_refused():
    model = classifier(vocab_size=len(tiny.tokenizer()) - 3)
    with pytest.raises(ModelError) as raised:
        neurogame.ground(model, tiny.tokenizer(), single_texts(4))
    assert "does it belong to another model?" in one_line(raised)


# --- what a player is -----------------------------------------------------------------------------------------------

THREE = "a man sings . the dog sleeps ! two cats"


def test_sentences_end_at_full_stops_before_a_space():
    for text, expected in (
        (THREE, ["a man sings .", "the dog sleeps !", "two cats"]),
        ('He said "go." Then 3.5 left...  and', ['He said "go."', "Then 3.5 left...", "and"]),
        ("none", ["none"]),
        ("." * 5000 + "a", ["." * 5000 + "a"]),
    ):
        tokens = tokenize(tiny.tokenizer(), text, None, 40)
        assert list(units(tokens, "sentence").names) == expected


@pytest.mark.parametrize("level", ["word", "token", "sentence"])
def test_explainers_are_fitted_on_what_they_explain(level, tmp_path):
    model, tok = classifier(), tiny.tokenizer()
    found = observe(model, tok, [THREE], (0, 2), coalitions=2, level=level)
    assert found.members[0].shape[-1] == {"word": 10, "token": 10, "sentence": 3}[level]
    explainer = neurogame.ground(model, tok, [THREE, *single_texts(8)], level=level, steps=2, coalitions=2, **SMALL)
    explainer.save_pretrained(tmp_path)
    why = Explainer.from_pretrained(tmp_path).bound(model, tok)(THREE)
    assert why.level == level
    assert len(why.words) == found.members[0].shape[-1]
    assert sum(why.shapley) == pytest.approx(why.diagnostics["total"], abs=1e-4)


def test_sentences_are_taken_out_as_a_whole(explainers):
    explainer = explainers["softmax"]
    why = explainer(THREE, level="sentence", samples=8, target="good")
    assert why.diagnostics["exact"]
    parts = ("a man sings .", "the dog sleeps !", "two cats")
    table = [
        float(logits_of(explainer.model, " ".join(p for p, stays in zip(parts, C, strict=True) if stays))[1])
        for C in exact.all_coalitions(3).tolist()
    ]
    assert why.shapley == pytest.approx(exact.shapley(torch.tensor(table).double()).tolist(), abs=1e-4)
    assert "each sentence adds" in summary.question(why)


def test_spans_are_players_and_the_rest_always_stays(explainers):
    explainer, text = explainers["softmax"], "the old man sees a dog"
    spans = [(4, 11), (17, 22)]
    why = explainer(text, level="span", spans=spans, samples=4, target="good")
    assert why.words == ("old man", "a dog")
    table = [
        float(logits_of(explainer.model, left)[1])
        for left in ("the sees", "the old man sees", "the sees a dog", "the old man sees a dog")
    ]
    assert why.shapley == pytest.approx(exact.shapley(torch.tensor(table).double()).tolist(), abs=1e-4)
    game = explainer(text, level="span", spans=spans, target="good")
    every = explainer(text, target="good")  # the same game of the same whole text
    ends = [
        game.diagnostics["origin"] + game.diagnostics["total"],
        every.diagnostics["origin"] + every.diagnostics["total"],
    ]
    assert ends[0] == pytest.approx(ends[1], abs=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "span"}, "spans are what level = 'span' needs"),
        ({"spans": [(0, 3)]}, "spans are what level = 'span' needs"),
        ({"level": "span", "spans": [(0, 99)]}, "spans has (0, 99); allowed: 0 <= start < end <= 5"),
        ({"level": "span", "spans": [(0, 3), (2, 5)]}, "spans must not overlap; got (0, 3) and (2, 5)"),
        ({"level": "span", "spans": [[(0, 1)], [(0, 1)]]}, "a list of (start, end) in characters for each of 1 texts"),
        ({"level": "clause"}, "level = 'clause' is unknown; allowed: 'word', 'token', 'sentence', 'span'"),
    ],
)
def test_spans_that_make_no_sense_are_refused(explainers, options, message):
    with pytest.raises(ValueError) as raised:
        explainers["softmax"]("a dog", **options)
    assert message in one_line(raised)


def test_explainers_are_not_fitted_on_spans():
    with pytest.raises(ValueError, match="level = 'span' is for explaining"):
        neurogame.ground(classifier(), tiny.tokenizer(), single_texts(4), level="span")


# --- how far to trust it --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trusted():
    """With enough texts held out to know how far it is off as a rule."""
    return neurogame.ground(classifier(), tiny.tokenizer(), single_texts(420), steps=60, coalitions=2, **SMALL)


def test_the_error_of_the_check_is_that_of_what_was_tried(trusted):
    why = trusted(TEXT)
    reading = read(trusted.classifier, TEXT, None)
    game, n = reading.game, len(why.words)
    tried = [[j != int(i) for j in range(n)] for i in why.diagnostics["without"]]
    if why.rationale is None:
        assert why.diagnostics["check_passes"] >= len(tried)
    gaps = game.logits(torch.tensor(tried)) - evaluate(reading, torch.tensor(tried)).double()
    gaps = gaps - gaps.mean(-1, keepdim=True)
    alone = float(gaps.square().mean().sqrt())
    sets = why.diagnostics["check_passes"] - len(tried)
    # singles are a part of what was tried: their share of the mean square cannot be more than all of it
    assert alone**2 * len(tried) <= why.diagnostics["check_error"] ** 2 * (len(tried) + sets) * (1 + 1e-6)
    if sets == 0:
        assert why.diagnostics["check_error"] == pytest.approx(alone, rel=1e-4)


def test_the_limit_is_what_a_twentieth_of_held_out_texts_is_beyond(trusted, tmp_path):
    held = single_texts(420)[:21]
    errors = torch.tensor([why.diagnostics["check_error"] for why in trusted(held)]).double()
    found = trusted.record["check_error"]
    assert found["texts"] == trusted.record["held_out"] == 21
    assert found["p95"] == trusted.limit == pytest.approx(float(errors.quantile(0.95)), rel=1e-5)
    assert found["median"] == pytest.approx(float(errors.median()), rel=1e-5)
    unlike = [why.diagnostics["unlike"] for why in trusted(held)]
    assert unlike == (errors > trusted.limit).tolist()
    assert 1 <= sum(unlike) <= 2
    trusted.save_pretrained(tmp_path)
    assert Explainer.from_pretrained(tmp_path).limit == trusted.limit


def test_a_text_beyond_the_limit_is_warned_of(trusted):
    record = {**trusted.record, "check_error": {**trusted.record["check_error"], "p95": 1e-9}}
    why = replace(trusted, record=record)(TEXT)
    assert why.diagnostics["unlike"] is True
    (warning,) = [line for line in summary.warnings(why) if "unlike" in line]
    assert warning.startswith("this text is unlike those that the explainer was fitted on: it misses the model by ")
    record["check_error"]["p95"] = 1e9
    why = replace(trusted, record=record)(TEXT)
    assert why.diagnostics["unlike"] is False
    assert not any("unlike" in line for line in summary.warnings(why))
    assert "unlike" not in replace(trusted, record=record)(TEXT, check=False).diagnostics


def test_a_few_texts_give_no_limit(explainers):
    assert explainers["softmax"].record["check_error"]["texts"] == 3
    assert explainers["softmax"].limit is None
    assert explainers["softmax"](TEXT).diagnostics["unlike"] is None


def test_refined_values_of_a_single_text_are_those_of_enumeration(trusted):
    text = "the old man sees a dog and a cat"
    real = evaluate(read(trusted.classifier, text, None), exact.all_coalitions(9)).double()
    true = exact.shapley(real[:, 1] - 0.0)
    why = trusted(text, samples=200, target="good")
    errors = torch.tensor(why.diagnostics["shapley_se"]).double()
    assert not why.diagnostics["exact"]
    assert ((torch.tensor(why.shapley).double() - true).abs() <= 5 * errors + 1e-6).all()


# --- fitting: the best game is kept, passes are kept ------------------------------------------------------------------


def fit(observed, steps, watched=None, **options):
    torch.manual_seed(0)
    game = GroundedGame(observed.states[0].shape[-1], 2, **SMALL)
    return game, fit_games(game, observed, steps=steps, watched=watched, **options)


def test_the_best_game_is_kept_and_a_hopeless_fit_is_over():
    observed = observe(classifier(), tiny.tokenizer(), single_texts(40), (0, 2), coalitions=4)
    others = observe(classifier(seed=1), tiny.tokenizer(), single_texts(10, seed=1), (0, 2), coalitions=4)
    told = []
    _, step = fit(observed, 100, others, patience=2, progress=told.append)  # texts of another model: hopeless
    assert step < 100
    assert sum(told) == 100
    last, end = fit(observed, 100)
    assert end == 100
    game, _ = fit(observed, 100, others, patience=100)
    assert fit_quality(game, others)["r2"] >= fit_quality(last, others)["r2"] - 1e-6
    own, watched = observed.split(5)
    assert (len(own), len(watched)) == (35, 5)
    assert torch.equal(watched.logits[0], observed.logits[35])
    kept, step = fit(own, 100, watched, patience=20)
    assert fit_quality(kept, watched)["r2"] >= fit_quality(fit(own, 100)[0], watched)["r2"] - 1e-6
    assert 1 <= step <= 100


def test_an_interrupted_fit_goes_on_with_the_passes_it_has(tmp_path):
    model, tok, texts = classifier(), tiny.tokenizer(), single_texts(300)
    options = {"steps": 3, "coalitions": 2, **SMALL}
    expected = neurogame.ground(model, tok, texts, **options)
    place, told = tmp_path / "explainer.passes", []

    def stop(passes):
        told.append(passes)
        if len(told) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        neurogame.ground(model, tok, texts, keep=place, progress=stop, **options)
    assert {path.name for path in tmp_path.iterdir()} == {"explainer.passes.part", "explainer.passes.part.journal"}
    with pytest.raises(DataError) as raised:  # another job
        neurogame.ground(model, tok, texts, keep=place, removal="mask", **options)
    assert "was begun with" in one_line(raised)
    rows = []
    handle = model.register_forward_pre_hook(
        lambda _, args, given: rows.append(len(given["input_ids"])), with_kwargs=True
    )
    found = neurogame.ground(model, tok, texts, keep=place, **options)
    resumed = sum(rows)
    rows.clear()
    neurogame.ground(model, tok, texts, **options)
    handle.remove()
    assert sum(rows) - resumed == 3 * 3 * 64  # three batches of 64 texts, each with two coalitions and the whole
    assert all(torch.equal(x, found.game.state_dict()[name]) for name, x in expected.game.state_dict().items())
    assert found.record == expected.record
    assert not list(tmp_path.iterdir())


# --- other libraries ------------------------------------------------------------------------------------------------


def test_values_as_shap_has_them(explainers):
    pytest.importorskip("shap")
    explainer = explainers["softmax"]
    why = explainer(TEXT, target="good")
    found = why.to_shap()
    assert found.values.tolist() == list(why.shapley)
    assert float(found.base_values) == why.diagnostics["origin"]
    assert [word.strip() for word in found.data] == list(why.words)
    assert found.values.sum() + found.base_values == pytest.approx(
        why.diagnostics["origin"] + why.diagnostics["total"], abs=1e-4
    )
    many = explainer.to_shap([TEXT, "a dog"], target="good")
    assert many.values[0].tolist() == pytest.approx(why.shapley, abs=1e-5)  # read in a batch
    assert len(many.values[1]) == 2
    origin = explainer("a dog", target="good").diagnostics["origin"]
    assert float(many[1].base_values) == pytest.approx(origin, abs=1e-5)


def test_values_as_shapiq_has_them(explainers):
    pytest.importorskip("shapiq")
    explainer = explainers["softmax"]
    why = explainer(TEXT)
    found = why.to_shapiq()
    for i in range(len(why.words)):
        assert found[(i,)] == pytest.approx(why.shapley[i])
        for j in range(i):
            assert found[(j, i)] == pytest.approx(why.interactions[i][j])
    assert (found.n_players, found.max_order) == (len(why.words), 2)
    assert float(found.baseline_value) == pytest.approx(why.diagnostics["origin"])
    assert len(explainer.to_shapiq(["a dog", "a cat"])) == 2


def test_what_cannot_be_converted_is_refused(explainers, monkeypatch):
    nli = Classifier(classifier(), tiny.tokenizer())
    with pytest.raises(ValueError, match="method = 'occlusion' has no Shapley values to convert"):
        explain(nli, "a dog", None, method="occlusion").to_shap()
    with pytest.raises(ValueError, match="there is no explanation to convert"):
        explainers["softmax"].to_shap([])
    for name, convert in (("shap", "to_shap"), ("shapiq", "to_shapiq")):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError) as raised:
            getattr(explainers["softmax"]("a dog"), convert)()
        assert one_line(raised).startswith(f"this needs {name}: pip install ")
