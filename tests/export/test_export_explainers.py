"""A classifier and its explainer in one ONNX graph: the same answers and reasons as in torch, without torch's model."""

import json
import random
import shutil

import pytest
import tiny
import torch
from transformers import BertForSequenceClassification, RobertaForSequenceClassification
from typer.testing import CliRunner

import neurogame
from neurogame import embedded
from neurogame.cli import app
from neurogame.explanation import methods_for
from neurogame.export import ExportError, export
from neurogame.export.folder import GAME
from neurogame.nli import NLI, ModelError

PARITY = 1e-4
WORDS = [w for w in tiny.WORDS if w != "."]
QUICK = {"steps": 40, "coalitions": 2, "heads": 8, "head_dim": 2, "width": 24}
CASES = {  # family, labels, parts, options of `ground`
    "single": ("bert", ("bad", "good"), 1, {}),
    "pair": ("bert", ("entailment", "neutral", "contradiction"), 2, {}),
    "sigmoid": ("roberta", ("toxic",), 1, {"removal": "mask", "mixing": 0}),
}
every_case = pytest.mark.parametrize("case", CASES)


def some_texts(parts, count, seed=0):
    draws = random.Random(seed)
    texts = [tuple(" ".join(draws.choices(WORDS, k=draws.randint(3, 7))) for _ in range(parts)) for _ in range(count)]
    return [text[0] for text in texts] if parts == 1 else texts


def classifier(case, seed=0):
    family, labels, _, _ = CASES[case]
    torch.manual_seed(seed)
    config = tiny.encoder_config(family, initializer_range=0.2, num_labels=len(labels), num_hidden_layers=1)
    config.id2label, config.label2id = dict(enumerate(labels)), {name: i for i, name in enumerate(labels)}
    kind = BertForSequenceClassification if family == "bert" else RobertaForSequenceClassification
    return kind(config).eval()


def fitted(case):
    family, _, parts, options = CASES[case]
    return neurogame.ground(classifier(case), tiny.tokenizer(family), some_texts(parts, 60), **{**QUICK, **options})


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Of a case, the explainer in torch and the folder of its export; made when they are asked for."""
    place, made = tmp_path_factory.mktemp("exported"), {}

    def of(case):
        if case not in made:
            explainer = fitted(case)
            made[case] = explainer, export(explainer.classifier, place / case)
        return made[case]

    return of


def arguments(text):
    return (text,) if isinstance(text, str) else text


def assert_same(found, wanted):
    """Two explanations, by all their numbers."""
    assert (found.words, found.target, found.method) == (wanted.words, wanted.target, wanted.method)
    for name in ("scores", "shapley", "banzhaf", "interactions", "alpha"):
        ours, theirs = (torch.tensor(getattr(why, name)).double() for why in (found, wanted))
        assert float((ours - theirs).abs().max()) <= PARITY, name
    logits = torch.tensor([list(why.prediction.logits.values()) for why in (found, wanted)])
    assert float((logits[0] - logits[1]).abs().max()) <= PARITY
    assert (found.swing, found.rationale) == (wanted.swing, wanted.rationale)
    facts, others = found.diagnostics, wanted.diagnostics
    for name in ("checked", "check_passes", "encoder_passes", "grounded", "exact", "r2", "check_limit", "unlike"):
        assert facts.get(name) == others.get(name), name
    for name in ("origin", "total", "logit_error", "check_error"):
        assert facts.get(name) == pytest.approx(others.get(name), abs=PARITY), name


@every_case
def test_the_graph_gives_the_logits_and_the_reasons_of_torch(both, case):
    explainer, done = both(case)
    onnx = neurogame.load(done.folder, backend="onnx")
    assert done.manifest.outputs == ["logits", "V", "anchor"]
    assert done.manifest.logit_error <= PARITY
    assert methods_for(onnx.model)[0] == "decision"
    assert onnx.outputs == explainer.classifier.outputs
    for text in some_texts(CASES[case][2], 3, seed=7):
        wanted = explainer(*arguments(text))
        assert wanted.diagnostics["checked"]
        assert_same(onnx.explain(*arguments(text)), wanted)


@every_case
def test_lists_share_padded_batches(both, case):
    explainer, done = both(case)
    texts = some_texts(CASES[case][2], 5, seed=8)
    for found, wanted in zip(neurogame.load(done.folder, backend="onnx").explain(texts), explainer(texts), strict=True):
        assert_same(found, wanted)


@pytest.mark.parametrize(
    "options",
    [
        {"level": "token"},
        {"level": "span", "spans": [[(0, 7), (8, 15)]]},
        {"check": False},
        {"samples": 20},
        {"target": "bad", "contrast": "good"},
    ],
    ids=str,
)
def test_every_question_is_answered_as_in_torch(both, options):
    explainer, done = both("single")
    text = "the old man sees a dog and a cat"
    onnx = neurogame.load(done.folder, backend="onnx")
    assert_same(onnx.explain(text, **options), explainer(text, **options))


def test_the_game_of_a_readout_is_exported_where_it_is_asked_for(tmp_path):
    nli = NLI(tiny.game_model(), tiny.tokenizer())
    export(nli, tmp_path / "game", extras=["game"])
    onnx = neurogame.load(tmp_path / "game", backend="onnx")
    assert {"V", "anchor"} <= set(onnx.manifest.outputs)
    for pair in tiny.PAIRS[:2]:
        assert_same(onnx.explain(*pair), nli.explain(*pair))


def test_an_explainer_of_another_model_is_refused(tmp_path):
    explainer = fitted("single")
    nli = explainer.classifier
    nli.model.classifier.weight.data += 1.0
    with pytest.raises(ModelError, match="was not fitted to model: the weights differ"):
        export(nli, tmp_path / "other")
    assert not list(tmp_path.iterdir())


def test_what_has_no_game_that_can_be_exported_is_refused(tmp_path):
    with pytest.raises(ExportError, match="cannot give 'game'; of values, couplings, game it has: none"):
        export(NLI(classifier("pair"), tiny.tokenizer()), tmp_path / "none", extras=["game"])
    gated = neurogame.ground(
        classifier("pair"), tiny.tokenizer(), some_texts(2, 20), **{**QUICK, "steps": 2}, spins="gate"
    )
    with pytest.raises(ExportError, match="its spins depend on who plays"):
        export(gated.classifier, tmp_path / "gated")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda papers: {**papers, "base": [0.0]}, r"game.json is damaged: readout \[2, 8\], base \[1\]"),
        (lambda papers: {**papers, "removal": "burn"}, "game.json is damaged: removal"),
        (lambda papers: {**papers, "more": 1}, "game.json is missing or damaged"),
        (lambda papers: {**papers, "parts": 3}, "parts 3"),
    ],
)
def test_papers_that_are_not_possible_are_refused(both, tmp_path, monkeypatch, change, message):
    place = shutil.copytree(both("single")[1].folder, tmp_path / "copy")
    papers = json.loads((place / GAME).read_text(encoding="utf-8"))
    (place / GAME).write_text(json.dumps(change(papers)), encoding="utf-8")
    with pytest.raises(ModelError, match=r"game\.json is damaged: its SHA-256"):
        neurogame.load(place, backend="onnx")
    config = json.loads((place / "config.json").read_text(encoding="utf-8"))
    digest = config["sha256"].pop(GAME)
    (place / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelError, match=r"sha256 has no line for game\.json"):
        neurogame.load(place, backend="onnx")
    config["sha256"][GAME] = embedded.digest(place / GAME)
    assert config["sha256"][GAME] != digest
    (place / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelError, match=message) as raised:
        neurogame.load(place, backend="onnx")
    assert "\n" not in str(raised.value)


def test_the_command_exports_and_explains_single_texts(both, tmp_path):
    explainer, _ = both("single")
    explainer.model.save_pretrained(tmp_path / "model")
    explainer.tokenizer.save_pretrained(tmp_path / "model")
    explainer.save_pretrained(tmp_path / "explainer")

    def run(*given):
        return CliRunner().invoke(app, [str(one) for one in given])

    missing = run("export", tmp_path / "model", "--explainer", tmp_path / "nowhere", "-o", tmp_path / "onnx")
    assert (missing.exit_code, "no such folder" in missing.stderr) == (1, True)
    done = run("export", tmp_path / "model", "--explainer", tmp_path / "explainer", "-o", tmp_path / "onnx")
    assert done.exit_code == 0, done.output
    assert "logits V anchor" in done.stdout
    assert "of torch on 3 texts" in done.stdout
    text = "the old man sees a dog"
    said = run("explain", text, "--model", tmp_path / "onnx", "--backend", "onnx", "--json")
    assert said.exit_code == 0, said.output
    assert "an ONNX graph gives no game" not in said.stderr
    record, wanted = json.loads(said.stdout), explainer(text).to_dict()
    assert record["text"] == text
    assert record["shapley"] == pytest.approx(wanted["shapley"], abs=PARITY)
    classifier("single", seed=5).save_pretrained(tmp_path / "model")
    other = run("export", tmp_path / "model", "--explainer", tmp_path / "explainer", "-o", tmp_path / "other")
    assert (other.exit_code, "this explainer was not fitted to" in other.stderr) == (1, True)
    assert not (tmp_path / "other").exists()
