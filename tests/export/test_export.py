"""Exported models: the numbers of torch for any batch, length and padding; folders that are whole or refused.

An export of a tiny model takes seconds, so the processes of a test run share those that many tests read.
"""

import json
import shutil

import numpy as np
import pytest
import tiny
import torch
from filelock import FileLock
from transformers import BertForSequenceClassification
from typer.testing import CliRunner

import neurogame
from neurogame import embedded, sampling
from neurogame.cli import app
from neurogame.couplings import LinearCoupling
from neurogame.explanation import methods_for
from neurogame.export import ExportError, OnnxNLI, export, exporting
from neurogame.export.graph import Bank
from neurogame.modeling.baselines.dam import DamForSequenceClassification
from neurogame.modeling.baselines.word_tokenizer import build_tokenizer
from neurogame.nli import NLI, ModelError
from neurogame.readout import ReadoutOutput

PARITY = 1e-4
LONG = ("the old man sees a dog and the girl sees a cat . " * 6, "a girl reads a long book in the garden . " * 3)
runner = CliRunner()


def bert():
    torch.manual_seed(1)
    config = tiny.encoder_config(initializer_range=0.2, num_labels=3, num_hidden_layers=1)
    return BertForSequenceClassification(config).eval()


def small(head="neurogame", **options):
    """One layer of an encoder, since each costs seconds of tracing."""
    return tiny.model(head, encoder=tiny.encoder_config(num_hidden_layers=1), **options)


def small_game(**options):
    return tiny.game_model(encoder=tiny.encoder_config(num_hidden_layers=1), **options)


def layer(**options):
    return lambda: small(attention=options)


MODELS = {
    "neurogame": small,
    "words": lambda: small(players="words", special_token_ids=[0, 2, 3]),
    "paper": lambda: small(preset="paper"),
    "pairs": layer(couplings="pairs"),
    "tap": layer(method="tap", damping=0.5),
    "shuffle": layer(shuffle=True, anchor="learned"),
    "uncoupled": layer(couplings="none"),
    "field": layer(spins="field"),
    "tanh": layer(f="tanh"),
    "spins": lambda: small("spins"),
    **{head: lambda head=head: small(head) for head in ("cls", "mean", "softmax", "hopfield", "budget")},
    "game": lambda: small_game(readout_removal="mask", readout_grounded=True, readout_r2=0.5),
    "game, gate": lambda: small_game(readout_spins="gate"),
    "bert": bert,
    "distilbert": lambda: tiny.model(family="distilbert"),
    "roberta": lambda: tiny.model(family="roberta"),
}
EXTRAS = {
    **dict.fromkeys(("neurogame", "words", "paper", "pairs", "tap", "shuffle"), ("values", "couplings")),
    **dict.fromkeys(("spins", "field", "tanh"), ("values",)),
    "game": ("game",),
}
FAST = ("neurogame", "spins", "mean", "game", "bert")


def made(name):
    family = name if name in ("distilbert", "roberta") else "bert"
    return NLI(MODELS[name](), tiny.tokenizer(family), name=name)


@pytest.fixture(scope="session")
def exported(tmp_path_factory, worker_id):
    """The folder of a model in MODELS, exported by whichever process comes first; read only."""
    base = tmp_path_factory.getbasetemp()
    place = (base if worker_id == "master" else base.parent) / "exported"
    place.mkdir(exist_ok=True)

    def folder(name):
        with FileLock(place / f"{name}.lock"):
            if not (place / name).exists():
                export(made(name), place / name, extras=EXTRAS.get(name, ()))
        return place / name

    return folder


@pytest.fixture
def copied(exported, tmp_path):
    """A copy of an exported folder that a test may damage."""
    return shutil.copytree(exported("bert"), tmp_path / "copy")


def batches(family):
    """Pairs together; one alone; padded to the limit; padded on the left and in between."""
    together = dict(tiny.encoded(family))
    length = together["attention_mask"].sum(-1)
    alone = {name: x[1:2, : int(length[1])] for name, x in together.items()}
    longest = dict(tiny.encoded(family, padding="max_length", max_length=40))
    gaps = {name: x.roll(3, dims=1) for name, x in longest.items()}
    return {"together": together, "alone": alone, "longest": longest, "gaps": gaps}


def expected(model, batch, **options):
    """What torch says: logits, and the game where there is one."""
    ours = hasattr(model, "pooling")
    with torch.no_grad():
        answer = model(**batch, **({"output_game": True, **options} if ours else {}))
    found, game = {"logits": answer.logits}, answer.game if ours else None
    if isinstance(game, ReadoutOutput):
        found |= {"alpha": game.alpha, "V": game.terms.V, "anchor": game.terms.anchor}
    elif game is not None:
        J = getattr(game, "coupling", None)
        found |= {"alpha": getattr(game, "alpha", None), "shapley": game.shapley, "banzhaf": game.banzhaf}
        found["coupling"] = J.to_dense() if isinstance(J, LinearCoupling) else J
    return found


def difference(onnx, batch, wanted):
    found = onnx.model.run(batch)
    return {name: float(np.abs(x - wanted[name].numpy()).max()) for name, x in found.items() if name in wanted}


# --- the same numbers as torch -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in MODELS]
)
def test_every_output_is_that_of_torch_for_any_batch_length_and_padding(exported, name):
    torch_nli, onnx = made(name), neurogame.load(exported(name), backend="onnx")
    for case, batch in batches(name if name in ("distilbert", "roberta") else "bert").items():
        wanted = expected(torch_nli.model, batch)
        assert max(difference(onnx, batch, wanted).values()) <= PARITY, case
        weights = onnx.model.run(batch).get("alpha")
        if weights is not None:
            assert np.abs(weights * (1 - batch["attention_mask"].numpy())[:, None]).max() == 0.0
    extras = {"values": {"shapley", "banzhaf"}, "couplings": {"coupling"}, "game": {"V", "anchor"}}
    asked = set().union(*(extras[extra] for extra in EXTRAS.get(name, ())))
    has_weights = not {"cls", "spins", "bert", "game"} & {name}
    assert set(onnx.manifest.outputs) == {"logits", *asked} | ({"alpha"} if has_weights else set())


def test_what_is_known_of_a_game_is_exported_too(exported):
    """How words are removed, and how good the game is: an explanation by the graph says what torch says."""
    pair = tiny.PAIRS[1]
    wanted, found = (nli.explain(*pair) for nli in (made("game"), neurogame.load(exported("game"), backend="onnx")))
    for name in ("r2", "ungrounded", "grounded"):
        assert found.diagnostics[name] == wanted.diagnostics[name]
    assert found.diagnostics["r2"] == 0.5
    assert found.swing == wanted.swing
    for i, p in wanted.diagnostics["without"].items():  # tried by [MASK]
        assert found.diagnostics["without"][i] == pytest.approx(p, abs=PARITY)


def test_the_weights_of_a_control_are_exported_too(exported):
    onnx = neurogame.load(exported("mean"), backend="onnx")
    batch = batches("bert")["gaps"]
    real = batch["attention_mask"].numpy()[:, None]
    np.testing.assert_allclose(
        onnx.model.run(batch)["alpha"], np.broadcast_to(real / real.sum(-1, keepdims=True), (4, 4, 40)), atol=1e-6
    )


@pytest.mark.slow
def test_another_seed_and_number_of_coalitions_are_those_of_torch(tmp_path):
    found = made("neurogame")
    done = export(found, tmp_path / "onnx", extras=("values",), samples=6, seed=7)
    assert (done.manifest.bank.seed, done.manifest.bank.samples, done.manifest.bank.tokens) == (7, 6, 40)
    onnx, batch = neurogame.load(tmp_path / "onnx", backend="onnx"), batches("bert")["together"]
    assert difference(onnx, batch, expected(found.model, batch))["shapley"] > PARITY  # not the usual draws
    again = small(attention={"samples": 6})
    again.load_state_dict(found.model.state_dict())
    assert max(difference(onnx, batch, expected(again, batch, generator=7)).values()) <= PARITY
    assert found.model.pooling.layer.config.samples == 24  # the model is as it was


@pytest.mark.slow
def test_the_embedded_model(tmp_path):
    found = neurogame.load()
    export(found, tmp_path / "f32", extras=("values",))
    export(found, tmp_path / "int8", quantize="int8")
    pairs = [
        ("A man in a blue shirt is sleeping on a bench in the park.", "Nobody is asleep."),
        ("Two girls play football.", "Children are outdoors, and it is probably raining a little."),
        ("The train was not late, although snow had fallen all night long in the mountains.", "The train was late."),
    ]
    onnx, small = (neurogame.load(tmp_path / name, backend="onnx") for name in ("f32", "int8"))
    wanted = found.logits(pairs)
    for size in (1, 3):
        assert float((onnx.logits(pairs, batch_size=size) - wanted).abs().max()) <= PARITY
    assert float((small.logits(pairs) - wanted).abs().max()) < 1.0
    assert [p.label for p in small.predict(pairs)] == [p.label for p in found.predict(pairs)]
    size = {name: (tmp_path / name / "model.onnx").stat().st_size for name in ("f32", "int8")}
    assert size["int8"] < 0.3 * size["f32"]


@pytest.mark.parametrize("tokens", [1, 5, 40])
def test_the_bank_holds_what_would_be_drawn(tokens):
    bank, cpu = Bank(11, 40), torch.device("cpu")
    seed = sampling.seed_of(11, cpu)
    for law in ("shapley", "banzhaf"):
        drawn = bank.draw(sampling.paired, cpu, law, 3, 8, tokens)
        assert torch.equal(drawn, sampling.paired(seed, law, 3, 8, tokens))
    drawn = bank.draw(sampling.independent, cpu, 3, 5, tokens)
    assert torch.equal(drawn, sampling.independent(seed, 3, 5, tokens))
    for what, arguments in (
        (sampling.permutations, (3, 5, tokens)),
        (sampling.keys, (3, tokens)),
        (sampling.probes, (3, tokens, 4)),
    ):
        assert torch.equal(bank.draw(what, cpu, *arguments), what(seed, *arguments))
    assert not bank.empty
    assert Bank(0, 4).empty


# --- as a model --------------------------------------------------------------------------------------------------


def test_predictions_are_those_of_torch_in_any_batch(exported):
    found, onnx = made("neurogame"), neurogame.load(exported("neurogame"), backend="onnx")
    assert isinstance(onnx, OnnxNLI)
    assert (onnx.labels, onnx.max_length, onnx.parameters) == (found.labels, found.max_length, found.parameters)
    pairs = [*tiny.PAIRS, LONG]
    wanted = found.predict(pairs)
    assert [p.truncated for p in wanted] == [False] * 4 + [True]
    for size in (1, 2, 5):
        for said, right in zip(onnx.predict(pairs, batch_size=size), wanted, strict=True):
            assert (said.label, said.truncated) == (right.label, right.truncated)
            assert said.logits == pytest.approx(right.logits, abs=PARITY)
            assert said.probabilities == pytest.approx(right.probabilities, abs=PARITY)
    assert onnx.predict(*pairs[0]).logits == pytest.approx(wanted[0].logits, abs=PARITY)
    onnx.temperature = 4.0
    found.temperature = 4.0
    assert onnx.predict(*pairs[0]).probabilities == pytest.approx(found.predict(*pairs[0]).probabilities, abs=PARITY)


def test_no_module_of_torch_is_called(exported, monkeypatch):
    onnx = neurogame.load(exported("neurogame"), backend="onnx")

    def called(*_, **__):
        raise AssertionError("a forward pass of torch")

    monkeypatch.setattr(torch.nn.Module, "__call__", called)
    assert onnx.predict(tiny.PAIRS, batch_size=2)
    assert onnx.attention(*tiny.PAIRS[0]).alpha is not None


def test_attention_has_a_column_for_each_token(exported):
    found, onnx = made("neurogame"), neurogame.load(exported("neurogame"), backend="onnx")
    seen = onnx.attention(*tiny.PAIRS[2])
    assert seen.tokens == ("[CLS]", "nobody", "sings", ".", "[SEP]", "a", "man", "sings", "a", "song", ".", "[SEP]")
    batch = dict(tiny.encoded(pairs=tiny.PAIRS[2:3]))
    wanted = expected(found.model, batch)
    for name in ("alpha", "shapley", "banzhaf", "coupling"):
        np.testing.assert_allclose(getattr(seen, name), wanted[name][0].numpy(), atol=PARITY)
    assert json.loads(json.dumps(seen.to_dict()))["alpha"] == seen.alpha.tolist()
    assert neurogame.load(exported("mean"), backend="onnx").attention(*tiny.PAIRS[0]).shapley is None
    with pytest.raises(ValueError, match="logits alone"):
        neurogame.load(exported("bert"), backend="onnx").attention(*tiny.PAIRS[0])


def test_explaining_by_removal_works_and_the_rest_says_what_does(exported, as_user):
    found, onnx = made("neurogame"), neurogame.load(exported("neurogame"), backend="onnx")
    wanted = found.explain(*tiny.PAIRS[1], method="occlusion")
    assert onnx.explain(*tiny.PAIRS[1], method="occlusion").scores == pytest.approx(wanted.scores, abs=PARITY)
    assert {"input", "occlusion", "random"} <= set(methods_for(onnx.model))
    for method in ("decision", "presence", "gradient", "attention", "game"):
        with pytest.raises(ValueError, match=r"looks into the model.*backend='torch'.*'occlusion'") as raised:
            onnx.explain(*tiny.PAIRS[1], method=method)
        assert "\n" not in str(raised.value)
    with pytest.raises(ValueError, match="unknown"):
        onnx.explain(*tiny.PAIRS[1], method="nonsense")


def test_names_of_the_logits_can_be_given(exported):
    names = ["neutral", "contradiction", "entailment"]
    assert neurogame.load(exported("bert"), backend="onnx", label_names=names).labels == tuple(names)
    with pytest.raises(ModelError, match="2 label names for 3 logits"):
        neurogame.load(exported("bert"), backend="onnx", label_names=["a", "b"])


# --- folders -----------------------------------------------------------------------------------------------------


def test_each_backend_points_to_the_other(exported, tmp_path):
    found = made("bert")
    found.save_pretrained(tmp_path / "torch")
    with pytest.raises(ModelError, match="backend='onnx'"):
        neurogame.load(exported("bert"))
    with pytest.raises(ModelError, match="is a torch model"):
        neurogame.load(tmp_path / "torch", backend="onnx")
    with pytest.raises(ModelError, match="neurogame export"):
        neurogame.load(backend="onnx")
    with pytest.raises(ModelError, match="no folder"):
        neurogame.load(tmp_path / "nowhere", backend="onnx")
    with pytest.raises(ModelError, match="CPU"):
        neurogame.load(exported("bert"), backend="onnx", device="cuda")
    with pytest.raises(ModelError, match="device 'toaster' cannot be used"):  # found by the fuzzer
        neurogame.load(exported("bert"), backend="onnx", device="toaster")
    with pytest.raises(ValueError, match="'torch', 'onnx'"):
        neurogame.load(exported("bert"), backend="tensorflow")
    onnx = neurogame.load(exported("bert"), backend="onnx")
    with pytest.raises(ModelError, match="copy"):
        onnx.save_pretrained(tmp_path / "again")
    with pytest.raises(ExportError, match="already"):
        export(onnx, tmp_path / "again")


def damaged(folder, name, change):
    path = folder / name
    path.write_bytes(change(path.read_bytes()))


def changed(**fields):
    return lambda text: json.dumps(json.loads(text) | fields).encode()


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("model.onnx", lambda data: data[:-10], "model.onnx is damaged"),
        ("model.onnx", lambda data: bytes([data[0] ^ 1]) + data[1:], "model.onnx is damaged"),
        ("tokenizer.json", lambda data: data.replace(b"garden", b"market"), "tokenizer.json is damaged"),
        ("config.json", lambda data: data[:50], "no JSON"),
        ("config.json", lambda _: b"[]", "neurogame export"),
        ("config.json", changed(format="other"), "neurogame export"),
        ("config.json", changed(version=99), "version 99"),
        ("config.json", changed(temperature=0), "temperature"),
        ("config.json", changed(temperature="hot"), "temperature"),
        ("config.json", changed(labels=["one"]), "labels"),
        ("config.json", changed(labels=3), "damaged"),
        ("config.json", changed(max_length=None), "max_length"),
        ("config.json", changed(outputs=["logits", "alpha"]), "the graph has"),
        ("config.json", changed(inputs=["attention_mask"]), "inputs"),
        ("config.json", changed(bank={"seed": 1}), "damaged"),
        ("config.json", changed(labels="entailment"), "labels"),  # found by the fuzzer
        ("config.json", changed(sha256=[]), "sha256"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(copied, name, change, said):
    damaged(copied, name, change)
    with pytest.raises(ModelError, match=said) as raised:
        neurogame.load(copied, backend="onnx")
    assert "\n" not in str(raised.value)


def test_a_folder_that_lacks_a_file_is_refused(copied):
    (copied / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"tokenizer\.json is missing"):
        neurogame.load(copied, backend="onnx")
    (copied / "model.onnx").unlink()
    with pytest.raises(ModelError, match=r"holds no model\.onnx"):
        neurogame.load(copied, backend="onnx")


def test_a_folder_holds_what_its_manifest_lists(copied):
    config = json.loads((copied / "config.json").read_text())
    (copied / "README.md").write_text("What it is for.")
    (copied / ".gitattributes").write_text("*.onnx filter=lfs")
    neurogame.load(copied, backend="onnx")
    for name in ("added_tokens.json", "vocab.txt", "game.json"):
        (copied / name).write_text("{}")
        with pytest.raises(ModelError, match=f"{name} is none of the files that config.json lists"):
            neurogame.load(copied, backend="onnx")
        (copied / name).unlink()
    del config["sha256"]["tokenizer.json"]
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"sha256 has no line for tokenizer\.json"):
        neurogame.load(copied, backend="onnx")


def test_a_graph_that_is_no_graph_is_one_line(copied):
    (copied / "model.onnx").write_bytes(b"nothing")
    config = json.loads((copied / "config.json").read_text())
    config["sha256"]["model.onnx"] = embedded.digest(copied / "model.onnx")
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="cannot open it") as raised:
        neurogame.load(copied, backend="onnx")
    assert "\n" not in str(raised.value)


def test_a_token_without_an_embedding_is_one_line(exported):
    onnx = neurogame.load(exported("bert"), backend="onnx")
    batch = {name: x.clone() for name, x in tiny.encoded().items()}
    batch["input_ids"][0, 1] = 10_000
    with pytest.raises(ModelError, match="cannot run") as raised:
        onnx.model.run(batch)
    assert "\n" not in str(raised.value)


# --- what is refused before anything is computed, and what is left of a failure ----------------------------------


def test_what_cannot_be_exported_is_said_at_once(tmp_path, monkeypatch):
    def computed(*_):
        raise AssertionError("too late")

    monkeypatch.setattr(exporting, "program", computed)
    (tmp_path / "there").mkdir()
    refused = [
        (made("bert"), "there", {}, FileExistsError, "never overwrites"),
        (made("bert"), "no/where", {}, FileNotFoundError, "does not exist"),
        (made("bert"), "no/wh\nere", {}, FileNotFoundError, r"wh\\u000aere: its folder"),  # found by the fuzzer
        (made("bert"), "x", {"extras": ("values",)}, ExportError, "it has: none"),
        (made("spins"), "x", {"extras": ("couplings",)}, ExportError, "it has: values"),
        (made("uncoupled"), "x", {"extras": ("couplings",)}, ExportError, "it has: values"),
        (made("neurogame"), "x", {"extras": ("everything",)}, ExportError, "values, couplings"),
        (made("neurogame"), "x", {"quantize": "int4"}, ValueError, "'int8'"),
        (made("neurogame"), "x", {"samples": 0}, ValueError, "samples"),
        (made("neurogame"), "x", {"seed": -1}, ValueError, "seed"),
        (made("neurogame"), "x", {"seed": 2**70}, ValueError, "at most"),
        (made("bert"), "x", {"samples": 8}, ExportError, "draws no coalitions"),
    ]
    for nli, name, options, kind, said in refused:
        with pytest.raises(kind, match=said):
            export(nli, tmp_path / name, **options)
    words = build_tokenizer([text for pair in tiny.PAIRS for text in pair], max_length=32)
    dam = NLI(DamForSequenceClassification.from_words(words, embedding_size=8, hidden_size=8), words)
    with pytest.raises(ExportError, match="cannot be exported"):
        export(dam, tmp_path / "x")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


class Program:
    """Saves a graph that was exported before, so that a failure costs no tracing."""

    def __init__(self, folder):
        self.folder = folder

    def save(self, path):
        shutil.copy(self.folder / "model.onnx", path)


def test_nothing_is_left_of_an_export_that_fails(exported, tmp_path, monkeypatch):
    nli, folder = made("bert"), exported("bert")
    monkeypatch.setattr(exporting, "program", lambda *_: (Program(folder), ["logits"]))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting.folders, "write", full)
    with pytest.raises(OSError, match="cannot be written: No space left"):
        export(nli, tmp_path / "x")
    with torch.no_grad():
        nli.model.classifier.bias.add_(1.0)  # another model than the graph's
    with pytest.raises(ExportError, match="logits is off by 1"):
        export(nli, tmp_path / "x")
    assert not list(tmp_path.iterdir())


# --- the command line --------------------------------------------------------------------------------------------


def test_the_verb_explain_falls_back_and_says_so(exported):
    """Without a method: the best that a graph of logits allows, named in the record and on stderr."""
    place, pair = str(exported("neurogame")), tiny.PAIRS[1]
    said = runner.invoke(app, ["explain", *pair, "--model", place, "--backend", "onnx", "--json"])
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout)["method"] == "input"
    assert "an ONNX graph gives no game, so the method is input" in said.stderr
    chosen = runner.invoke(app, ["explain", *pair, "--model", place, "--backend", "onnx", "--method", "occlusion"])
    assert chosen.exit_code == 0
    assert "so the method is" not in chosen.stderr
    refused = runner.invoke(app, ["explain", *pair, "--model", place, "--backend", "onnx", "--method", "decision"])
    assert refused.exit_code == 1
    assert "--backend torch" in refused.stderr  # the option, not the keyword
    assert "backend=" not in refused.stderr


@pytest.fixture
def quick(exported, monkeypatch):
    """Exports of the tiny BERT without tracing."""
    folder = exported("bert")
    monkeypatch.setattr(exporting, "program", lambda *_: (Program(folder), ["logits"]))


def test_the_verb_writes_a_folder_and_says_what_it_is(quick, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made("bert").save_pretrained("mine")
    said = runner.invoke(app, ["export", "mine", "--quantize", "int8", "--json"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert (found["folder"], found["quantized"], found["bank"]) == ("mine-onnx-int8", "int8", None)
    assert found["outputs"] == ["logits"]
    assert (tmp_path / "mine-onnx-int8" / "model.onnx").stat().st_size < 1e6 * found["megabytes"] + 1e5
    small, right = neurogame.load("mine-onnx-int8", backend="onnx"), made("bert")
    error = float((small.logits(tiny.PAIRS) - right.logits(tiny.PAIRS)).abs().max())
    assert 0.0 < error < 0.5  # rounded, and not to nonsense
    assert 0.0 < found["logit_error"] < 0.5
    said = runner.invoke(app, ["export", "mine", "-o", "plain"])
    assert said.exit_code == 0, said.output
    assert said.stdout.startswith("plain: ")
    assert "logits within" in said.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["mine", "-o", "mine"], 1, "exists already"),
        (["mine", "--with", "values"], 1, "it has: none"),
        (["mine", "--with", "values,nonsense"], 1, "cannot give"),
        (["nowhere/at/all"], 1, "no model folder"),
        (["mine", "--format", "tflite"], 2, "onnx"),
        (["mine", "--quantize", "int4"], 2, "int8"),
        (["mine", "--samples", "0"], 2, "samples"),
    ],
)
def test_mistakes_are_one_line(quick, tmp_path, monkeypatch, arguments, code, said):
    monkeypatch.chdir(tmp_path)
    made("bert").save_pretrained("mine")
    found = runner.invoke(app, ["export", *arguments])
    assert found.exit_code == code
    assert said in found.stderr
    if code == 1:
        assert len(found.stderr.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_every_verb_that_opens_a_model_opens_an_export(exported, tmp_path):
    """With the numbers of the library, from predict to explain, and one line where torch is needed."""
    folder = str(exported("neurogame"))
    onnx = neurogame.load(folder, backend="onnx")
    file = tmp_path / "pairs.jsonl"
    rows = [{"premise": p, "hypothesis": h, "label": "neutral"} for p, h in tiny.PAIRS]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    here = ["--model", folder, "--backend", "onnx", "--json"]

    said = runner.invoke(app, ["predict", str(file), *here])
    assert said.exit_code == 0, said.output
    labels = [said.label for said in onnx.predict(tiny.PAIRS)]
    assert [json.loads(line)["label"] for line in said.stdout.splitlines()] == labels

    said = runner.invoke(app, ["evaluate", folder, "--data", str(file), "--backend", "onnx", "--json"])
    assert said.exit_code == 0, said.output
    (row,) = json.loads(said.stdout)["rows"]
    assert row["scores"]["accuracy"] == pytest.approx(labels.count("neutral") / len(labels))

    said = runner.invoke(app, ["explain", *tiny.PAIRS[0], *here, "--method", "occlusion"])
    assert said.exit_code == 0, said.output
    wanted = onnx.explain(*tiny.PAIRS[0], method="occlusion").scores
    assert json.loads(said.stdout)["scores"] == pytest.approx(wanted, abs=1e-5)

    for verb in (["explain", *tiny.PAIRS[0]], ["predict", str(file)]):
        said = runner.invoke(app, [*verb, "--model", folder])
        assert (said.exit_code, said.stderr.count("\n")) == (1, 1)
        assert "--backend onnx" in said.stderr
    said = runner.invoke(app, ["explain", *tiny.PAIRS[0], *here])
    assert (said.exit_code, json.loads(said.stdout)["method"]) == (0, "input")  # the best that needs logits alone
    assert "the method is input" in said.stderr
    said = runner.invoke(app, ["explain", *tiny.PAIRS[0], *here, "--method", "decision"])
    assert (said.exit_code, said.stderr.count("\n")) == (1, 1)
    assert "looks into the model" in said.stderr


def test_an_export_is_served(exported):
    pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'neurogame[serve]'")
    from starlette.testclient import TestClient

    from neurogame.serving.app import create_app

    onnx = neurogame.load(exported("neurogame"), backend="onnx")
    premise, hypothesis = tiny.PAIRS[0]
    pair = {"premise": premise, "hypothesis": hypothesis}
    with TestClient(create_app(onnx)) as client:
        state = client.get("/health").json()
        assert state["model"] == onnx.name
        assert not state["has_temperature"]
        methods = [method["name"] for method in state["methods"]]
        assert "occlusion" in methods
        assert "decision" not in methods
        assert [method["name"] for method in state["methods"] if method["recommended"]] == ["input"]
        said = client.post("/predict", json=pair).json()
        assert said["logits"] == pytest.approx(onnx.predict(premise, hypothesis).logits)
        found = client.post("/explain", json={**pair, "method": methods[0]})
        assert found.status_code == 200, found.text
        refused = client.post("/explain", json={**pair, "method": "decision"})
        assert (refused.status_code, "looks into the model" in refused.json()["error"]) == (400, True)
