"""Whatever lies in a folder of a model or a run: no code of it is run, and what cannot be used is named in one line."""

import json
import os
import pickle
import shutil
from math import inf, nan

import numpy as np
import pytest
import tiny
import torch
from kinds import system
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from typer.testing import CliRunner

import neurogame
from neurogame import embedded
from neurogame.cli import app
from neurogame.modeling import (
    DamForSequenceClassification,
    EsimForSequenceClassification,
    NeuroGameConfig,
    NeuroGameForSequenceClassification,
)
from neurogame.modeling.baselines.word_vectors import read_vectors
from neurogame.modeling.checking import ModelError
from neurogame.modeling.loading import _is_finite, load_classifier, load_encoder

WEIGHTS = "model.safetensors"
PAIR = tiny.PAIRS[1]
KINDS = {
    "neurogame": NeuroGameForSequenceClassification,
    "dam": DamForSequenceClassification,
    "esim": EsimForSequenceClassification,
}


class Bomb:
    """A pickle of it makes a folder when it is read."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return os.mkdir, (self.mark,)


@pytest.fixture
def mark(tmp_path):
    """Where a bomb that went off leaves its trace; none may have, when the test is over."""
    yield tmp_path / "ran"
    assert not (tmp_path / "ran").exists(), "code of a checkpoint was run"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """One saved model of each kind, and a plain encoder; read only."""
    place = tmp_path_factory.mktemp("models")
    for kind in (*KINDS, "a bert"):
        system(kind).save_pretrained(place / kind)
    tiny.encoder().save_pretrained(place / "encoder")
    tiny.tokenizer().save_pretrained(place / "encoder")
    return place


@pytest.fixture
def copied(folders, tmp_path):
    """A copy of a folder that a test may damage."""
    return lambda kind: shutil.copytree(folders / kind, tmp_path / "copy")


def changed(path, **changes):
    """A JSON file with some keys changed (None: removed)."""
    found = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in found.items() if value is not None}))


def config(**changes):
    return lambda folder: changed(folder / "config.json", **changes)


def refused(what, *arguments, match=None, **options):
    """The one line with which something is refused."""
    with pytest.raises((ValueError, OSError), match=match) as caught:
        what(*arguments, **options)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_the_bomb_is_one(tmp_path):
    pickle.loads(pickle.dumps(Bomb(tmp_path / "first")))
    torch.save(Bomb(tmp_path / "second"), tmp_path / "x.bin")
    torch.load(tmp_path / "x.bin", weights_only=False)
    assert (tmp_path / "first").is_dir()
    assert (tmp_path / "second").is_dir()


# --- code in a folder ---------------------------------------------------------------------------------------------


def planted(folder, mark, name):
    """A bomb in both formats that torch reads."""
    torch.save(Bomb(mark), folder / name)
    (folder / f"old-{name}").write_bytes(pickle.dumps(Bomb(mark)))


def as_pickle(folder, mark):
    planted(folder, mark, "pytorch_model.bin")
    (folder / WEIGHTS).unlink()


def renamed(folder, mark):
    torch.save(Bomb(mark), folder / WEIGHTS)


def indexed(folder, mark, place="pytorch_model.bin"):
    names = list(load_file(folder / WEIGHTS))
    as_pickle(folder, mark)
    index = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(names, place)}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index))


def elsewhere(folder, mark):
    planted(folder.parent, mark, "evil.bin")
    indexed(folder, mark, "../evil.bin")


def other_weights(folder, mark):
    planted(folder, mark, "adapter_model.bin")
    changed(folder / "config.json", transformers_weights="adapter_model.bin")


def adapter(folder, mark):
    planted(folder, mark, "adapter_model.bin")
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": "nobody/nothing"}')


def ranks(folder, mark):
    (folder / ".metadata").write_bytes(pickle.dumps(Bomb(mark)))
    (folder / WEIGHTS).rename(folder / "shard-00001-model-00001-of-00001.safetensors")


def module(folder, mark):
    (folder / "evil.py").write_text(f"import os\nos.mkdir({str(mark)!r})\n")


def custom_model(folder, mark):
    module(folder, mark)
    names = ("AutoConfig", "AutoModel", "AutoModelForSequenceClassification", "AutoTokenizer")
    changed(folder / "config.json", model_type="evil", auto_map={name: f"evil.{name}" for name in names})


def custom_encoder(folder, mark):
    module(folder, mark)
    found = json.loads((folder / "config.json").read_text())
    encoder = {**found.get("encoder", found), "model_type": "evil", "auto_map": {"AutoConfig": "evil.X"}}
    (folder / "config.json").write_text(json.dumps({"model_type": "neurogame", "encoder": encoder}))


def custom_tokenizer(folder, mark):
    module(folder, mark)
    (folder / "tokenizer.json").unlink()
    names = {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}
    changed(folder / "tokenizer_config.json", tokenizer_class="Evil", auto_map=names)


PLANTED = {
    "a pickle alone": (as_pickle, "pickle only|cannot be loaded"),
    "a pickle by another name": (renamed, "damaged or cut short"),
    "an index of pickles": (indexed, "points to 'pytorch_model.bin'"),
    "an index that leaves the folder": (elsewhere, "points to '../evil.bin'"),
    "other weights": (other_weights, "transformers_weights"),
    "an adapter": (adapter, "adapter"),
    "parts of a distributed run": (ranks, "distributed run"),
    "a model of its own": (custom_model, "custom code|model_type|evil"),
    "an encoder of its own": (custom_encoder, "evil"),
    "a tokenizer of its own": (custom_tokenizer, "tokenizer"),
}
ASIDE = ["pytorch_model.bin", "training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth", "tf_model.ckpt"]


@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.parametrize("kind", ["neurogame", "a bert", "dam"])
def test_code_in_the_folder_of_a_model_is_not_run(copied, mark, kind, what):
    folder = copied(kind)
    plant, message = PLANTED[what]
    plant(folder, mark)
    assert str(folder) in refused(neurogame.load, folder, match=message)


@pytest.mark.parametrize("what", PLANTED)
def test_code_beside_an_encoder_is_not_run(copied, mark, what, monkeypatch):
    """Nor is anybody asked whether it may be."""
    monkeypatch.setattr("builtins.input", lambda *_: "yes")
    folder = copied("encoder")
    PLANTED[what][0](folder, mark)
    if what != "a tokenizer of its own":
        refused(NeuroGameForSequenceClassification.from_pretrained, folder)
        refused(load_classifier, folder)
    refused(NeuroGameForSequenceClassification.from_pretrained, folder, players="words")


@pytest.mark.parametrize("kind", KINDS)
def test_our_classes_read_no_pickle_either(copied, mark, kind):
    folder = copied(kind)
    as_pickle(folder, mark)
    refused(KINDS[kind].from_pretrained, folder, match="pickle only")
    refused(KINDS[kind].from_pretrained, folder, use_safetensors=False, match="pickle only")


def test_pickles_beside_the_weights_are_not_looked_at(copied, mark):
    folder = copied("neurogame")
    said = neurogame.load(folder).predict(*PAIR)
    for name in ASIDE:
        planted(folder, mark, name)
    assert neurogame.load(folder).predict(*PAIR) == said
    NeuroGameForSequenceClassification.from_pretrained(folder)


def test_a_model_that_transformers_knows_needs_no_code_of_its_own(copied, mark):
    """Many models on the hub name code that is part of transformers by now; theirs stays unread."""
    folder = copied("a bert")
    said = neurogame.load(folder).predict(*PAIR)
    module(folder, mark)
    changed(folder / "config.json", auto_map={"AutoModelForSequenceClassification": "evil.Evil"})
    changed(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Evil", None]})
    assert neurogame.load(folder).predict(*PAIR) == said


def test_kernels_and_encoders_are_not_fetched(copied):
    folder = copied("neurogame")
    before = (folder / "config.json").read_text()
    for changes, message in (
        ({"attn_implementation": "somebody/attention"}, "code from the hub"),
        ({"encoder": "nobody/nothing"}, "names its encoder"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantised"),
    ):
        config(**changes)(folder)
        refused(neurogame.load, folder, match=message)
        (folder / "config.json").write_text(before)


def test_vectors_with_objects_in_them_are_refused(tmp_path, mark):
    bombs = np.array([Bomb(mark)], dtype=object)
    np.savez(tmp_path / "x.npz", words=np.array(["a"]), vectors=bombs)
    np.save(tmp_path / "x.npy", bombs, allow_pickle=True)
    (tmp_path / "x.json").write_text('["a"]')
    for name in ("x.npz", "x.npy"):
        refused(read_vectors, tmp_path / name, match=r"allow_pickle=False|Python objects")
    (tmp_path / "x.npy").write_bytes(pickle.dumps(Bomb(mark)))
    refused(read_vectors, tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.npz", b""),
        ("x.npz", b"PK\x03\x04 cut short"),
        ("x.npy", b""),
        ("x.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000, 9), }\n"),
        ("x.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 'x'), }\n"),
        ("x.txt.gz", b"\x1f\x8b\x08 cut short"),
        ("x.txt.gz", b"no gzip"),
        ("x.txt", b"99999999999999999999 99999999999999999999\n"),
        ("x.txt", b"\xff\xfe\x00"),
    ],
)
def test_damaged_vectors(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert name in refused(read_vectors, tmp_path / name)


# --- damage -------------------------------------------------------------------------------------------------------


def weights(change):
    """The weights, changed."""

    def harm(folder):
        found = load_file(folder / WEIGHTS)
        change(found)
        save_file(found, folder / WEIGHTS, metadata={"format": "pt"})

    return harm


def text(name, content):
    return lambda folder: (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def head(found):
    return next(name for name in found if "classifier" in name and found[name].dim() == 2)


def header(change):
    """A lie in the header of the weights."""

    def harm(folder):
        raw = (folder / WEIGHTS).read_bytes()
        size = int.from_bytes(raw[:8], "little")
        entries = json.loads(raw[8 : 8 + size])
        change(entries[next(name for name in entries if name != "__metadata__")])
        lied = json.dumps(entries).encode()
        (folder / WEIGHTS).write_bytes(len(lied).to_bytes(8, "little") + lied + raw[8 + size :])

    return harm


def charsmap(content):
    """A normaliser whose table the native code trusts: it panics when it is read, or when a text comes."""
    return {"type": "Precompiled", "precompiled_charsmap": content}


HUGE = 10**12
DAMAGE = {
    "half of the weights": lambda folder: os.truncate(folder / WEIGHTS, (folder / WEIGHTS).stat().st_size // 2),
    "no weights": lambda folder: os.truncate(folder / WEIGHTS, 0),
    "a folder for weights": lambda folder: ((folder / WEIGHTS).unlink(), (folder / WEIGHTS).mkdir()),
    "a header without end": text(WEIGHTS, b"\xff" * 8 + b"{"),
    "a header that is no JSON": text(WEIGHTS, (8).to_bytes(8, "little") + b"not json"),
    "a header with another shape": header(lambda entry: entry.update(shape=[HUGE, 3])),
    "a header beyond the end": header(lambda entry: entry.update(data_offsets=[0, HUGE])),
    "a header of another type": header(lambda entry: entry.update(dtype="F77")),
    "NaN": weights(lambda found: found[head(found)].fill_(torch.nan)),
    "infinity": weights(lambda found: found[head(found)][0].fill_(torch.inf)),
    "a weight less": weights(lambda found: found.pop(head(found))),
    "a weight of another shape": weights(lambda found: found.update({head(found): torch.zeros(2, 5)})),
    "weights of nothing known": weights(lambda found: (found.clear(), found.update(x=torch.zeros(3)))),
    "an index of nothing": lambda folder: ((folder / WEIGHTS).unlink(), text(f"{WEIGHTS}.index.json", "{}")(folder)),
    "an index of the missing": lambda folder: (
        (folder / WEIGHTS).unlink(),
        text(f"{WEIGHTS}.index.json", '{"weight_map": {"a": "b.safetensors"}, "metadata": {}}')(folder),
    ),
    "config cut short": text("config.json", '{"model_type": "neu'),
    "a key given twice": text("config.json", '{"model_type": "bert", "model_type": "neurogame"}'),
    "config of nothing": text("config.json", ""),
    "config that is a list": text("config.json", "[1, 2]"),
    "config that is a number": text("config.json", "7"),
    "config that is no text": text("config.json", b"\xff\xfe\x00\x00"),
    "config without end": text("config.json", '{"a":' * 100_000),
    "config of no model": text("config.json", "{}"),
    "another model": config(model_type="gpt2"),
    "no model": config(model_type=7),
    "labels without numbers": config(id2label={"one": "entailment", "two": "neutral", "three": "contradiction"}),
    "labels that leave a gap": config(id2label={"0": "entailment", "1": "neutral", "7": "contradiction"}),
    "two labels": config(id2label={"0": "entailment", "1": "neutral"}, label2id=None),
    "labels that contradict": config(
        id2label={"0": "entailment", "1": "neutral", "2": "contradiction"},
        label2id={"entailment": 2, "neutral": 1, "contradiction": 0},
    ),
    "labels twice": config(id2label={"0": "entailment", "1": "e", "2": "neutral"}, label2id=None),
    "labels that are no map": config(id2label=["entailment", "neutral", "contradiction"]),
    "ten billion labels": config(id2label=None, label2id=None, num_labels=10**10),
    "tokenizer cut short": lambda folder: os.truncate(folder / "tokenizer.json", 100),
    "tokenizer that is a list": text("tokenizer.json", "[]"),
    "tokenizer of nothing": text("tokenizer.json", "{}"),
    "tokenizer with a part of another kind": lambda folder: changed(folder / "tokenizer.json", post_processor=10),
    "tokenizer config that is a list": text("tokenizer_config.json", "[]"),
    "a length of nothing": lambda folder: changed(folder / "tokenizer_config.json", model_max_length=0),
    "a length of words": lambda folder: changed(folder / "tokenizer_config.json", model_max_length="long"),
    "a tokenizer that gives nothing": lambda folder: changed(folder / "tokenizer_config.json", model_input_names=[]),
    "a tokenizer that panics": lambda folder: changed(folder / "tokenizer.json", normalizer=charsmap("")),
    "a tokenizer that panics later": lambda folder: (
        changed(folder / "tokenizer.json", normalizer=charsmap("AAAAAA==")),
        changed(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast"),
    ),
    "an endless length": lambda folder: changed(folder / "tokenizer_config.json", model_max_length=float("inf")),
}
OURS = {
    "unknown head": (config(head="tail"), "head = 'tail' is unknown"),
    "negative layers": (config(classifier_layers=-1), "classifier_layers"),
    "layers of text": (config(classifier_layers="many"), "classifier_layers"),
    "endless layers": (config(classifier_layers=HUGE), "classifier_layers = 1000000000000"),
    "no heads": (config(heads=0), "heads"),
    "heads that do not divide": (config(heads=7), "heads = 7 must divide"),
    "an option of nothing": (config(attention={"magic": 1}), "'magic' is unknown"),
    "options that are a list": (config(attention=[1]), "attention"),
    "a temperature of nothing": (config(temperature=float("nan")), "temperature"),
    "an encoder of nothing": (config(encoder={}), None),
    "an encoder that is a list": (config(encoder=[]), None),
    "wide": (config(classifier_width=10**9), "classifier_width = 1000000000"),
    "a game of text": (config(attention={"samples": "many"}), "samples"),
    "endless samples": (config(attention={"samples": 10**9}), "samples = 1000000000; allowed: up to 16384"),
    "endless samples in training": (config(attention={"train_samples": 10**9}), "train_samples = 1000000000"),
    "endless iterations": (config(attention={"max_iter": 10**9}), "max_iter = 1000000000; allowed: up to 10000"),
    "endless steps": (config(head="hopfield", hopfield_steps=10**9), "hopfield_steps = 1000000000"),
    "endless mixing": (config(readout="game", readout_mixing=10**9), "readout_mixing = 1000000000"),
}
SIZES = ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"]


def refused_everywhere(folder, match=None):
    """By `load`, and by the command line with exit 1 and one line on stderr."""
    said = refused(neurogame.load, folder, match=match)
    result = CliRunner().invoke(app, ["explain", *PAIR, "--model", str(folder)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("neurogame explain: ")
    assert result.stderr.count("\n") == 1
    return said


@pytest.mark.attack(point=9)
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("kind", ["neurogame", "a bert"])
def test_damage_is_named_in_one_line(copied, kind, damage):
    folder = copied(kind)
    DAMAGE[damage](folder)
    said = refused_everywhere(folder)
    assert str(folder) in said or "copy" in said


@pytest.mark.attack(point=9)
@pytest.mark.parametrize("damage", OURS)
def test_a_configuration_of_ours_that_is_none(copied, damage):
    folder = copied("neurogame")
    harm, message = OURS[damage]
    harm(folder)
    refused_everywhere(folder, message)


@pytest.mark.attack(point=9)
@pytest.mark.parametrize("value", [0, -3, "wide", 10**5, 10**7, HUGE, 10**30])
@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_do_not_fit_cost_no_memory(copied, name, value):
    folder = copied("a bert")
    config(**{name: value})(folder)
    refused(neurogame.load, folder)
    refused(load_classifier, folder)


@pytest.mark.attack(point=9)
def test_a_tokenizer_that_panics_over_a_text_is_named(copied):
    nli = neurogame.load(copied("neurogame"))
    panics = json.loads(nli.tokenizer.backend_tokenizer.to_str()) | {"normalizer": charsmap("AAAAAA==")}
    nli.tokenizer._tokenizer = Tokenizer.from_str(json.dumps(panics))
    refused(nli.predict, *PAIR, match="fails in native code")


def test_layers_are_not_left_out(copied):
    """The rest would load, and answer something else."""
    folder = copied("a bert")
    config(num_hidden_layers=1)(folder)
    refused(neurogame.load, folder, match=r"have no place .* the first is bert\.encoder\.layer\.1\.")


def test_a_wrong_configuration_of_the_baselines(copied):
    folder = copied("dam")
    before = (folder / "config.json").read_text()
    for changes in ({"vocab_size": HUGE}, {"hidden_size": -1}, {"missing_words": HUGE}, {"dropout": 2}):
        config(**changes)(folder)
        refused(neurogame.load, folder)
        (folder / "config.json").write_text(before)
    assert neurogame.load(folder).predict(*PAIR)


def test_an_encoder_with_nan_is_not_trained(copied):
    folder = copied("encoder")
    weights(lambda found: next(iter(found.values())).fill_(torch.nan))(folder)
    refused(NeuroGameForSequenceClassification.from_pretrained, folder, match="NaN or infinite")


def test_shards_load_as_one_file_does(folders, tmp_path):
    whole = neurogame.load(folders / "a bert")
    whole.model.save_pretrained(tmp_path / "parts", max_shard_size="10KB")
    whole.tokenizer.save_pretrained(tmp_path / "parts")
    assert len(list((tmp_path / "parts").glob("*.safetensors"))) > 1
    assert neurogame.load(tmp_path / "parts").predict(*PAIR) == whole.predict(*PAIR)
    encoder, _ = load_encoder(tmp_path / "parts", tiny.encoder_config())
    assert torch.equal(encoder.get_input_embeddings().weight, whole.model.get_input_embeddings().weight)


def test_a_configuration_does_not_name_its_encoder_when_it_is_saved(tmp_path):
    """An encoder by name is for building a model, never for a folder."""
    tiny.encoder_config().save_pretrained(tmp_path / "encoder")
    NeuroGameConfig(encoder=str(tmp_path / "encoder")).save_pretrained(tmp_path / "made")
    assert isinstance(json.loads((tmp_path / "made" / "config.json").read_text())["encoder"], dict)


@pytest.mark.attack(point=8)
def test_the_sums_of_the_embedded_model_are_read_with_care(tmp_path):
    for content in (b"", b"\xff\xfe\n", b"one\n", b"a b c\n", b"\n", b"0  model.safetensors\n"):
        (tmp_path / embedded.SUMS).write_bytes(content)
        refused(embedded.check, tmp_path)


def test_model_error_is_one_class():
    assert neurogame.nli.ModelError is ModelError


@pytest.mark.parametrize(
    ("numbers", "finite"),
    [([1.0, 2.0], True), ([3e38, 3e38], True), ([1.0, nan], False), ([inf, -inf], False), ([3e38, 3e38, inf], False)],
)
def test_weights_are_finite_also_where_their_sum_is_not(numbers, finite):
    assert _is_finite(torch.tensor(numbers)) == finite


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attention": {"samples": 10**9}}, "samples must be at most 16384"),
        ({"attention": {"train_samples": 10**9}}, "train_samples must be at most 16384"),
        ({"attention": {"max_iter": 10**9}}, "max_iter must be at most 10000"),
        ({"head": "hopfield", "hopfield_steps": 10**9}, "hopfield_steps must be at most 1000"),
    ],
)
def test_a_configuration_without_bounds_is_refused_by_whoever_makes_it(tmp_path, changes, said):
    """Also by transformers' own from_pretrained, which no check of the folder precedes."""
    with pytest.raises(ValueError, match=said):
        NeuroGameConfig(**changes)
    tiny.model().save_pretrained(tmp_path)
    changed(tmp_path / "config.json", **changes)
    with pytest.raises(ValueError, match=said):
        NeuroGameForSequenceClassification.from_pretrained(tmp_path)
