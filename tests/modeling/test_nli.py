"""`load` and `NLI.predict`: labels by name, order and batches, truncation, and folders that are not what they seem."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    BertTokenizer,
    MPNetConfig,
    MPNetForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
)

import neurogame
from neurogame import NeuroGameConfig, NeuroGameForSequenceClassification, nli, opening
from neurogame.labels import LABELS
from neurogame.modeling.baselines.dam import DamForSequenceClassification
from neurogame.modeling.baselines.word_tokenizer import build_tokenizer
from neurogame.nli import NLI, ModelError, Prediction

PAIRS = [
    ("Two gardeners water the tall roses behind the old house .", "Roses get water ."),
    ("A baker sleeps .", "Nobody sleeps ."),
    ("The old baker carries bread to the market and two children follow .", "Children follow a baker ."),
    ("Children sing .", "The house is old ."),
    ("A grey cat watches the market from a roof .", "A cat sleeps behind the house ."),
    ("Nobody carries water .", "Two gardeners carry water to the roof ."),
    ("A child follows the cat .", "The cat sings ."),
]
WORDS = sorted({word.lower() for pair in PAIRS for text in pair for word in text.split()})
TINY = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "initializer_range": 0.2,  # so that pairs are told apart
    "hidden_dropout_prob": 0.3,  # so that a model that is left in training mode is noticed
}
MODELS = ["neurogame", "dam", "bert"]


def bert_tokenizer(max_length=32, specials=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), words=WORDS):
    tokenizer = BertTokenizer(vocab={word: i for i, word in enumerate((*specials, *words))})
    if max_length is not None:
        tokenizer.model_max_length = max_length
    return tokenizer


def bert_config(**options):
    return BertConfig(**{"vocab_size": len(WORDS) + 5, "max_position_embeddings": 32, **TINY, **options})


def spread(model, tokenizer):
    """Random weights answer the same to every pair: let the logits have mean 0 over the pairs, and vary."""
    inputs = tokenizer([p for p, _ in PAIRS], [h for _, h in PAIRS], padding=True, return_tensors="pt")
    last = getattr(model.classifier, "out", model.classifier)
    with torch.no_grad():
        logits = model.eval()(**inputs).logits
        scale = logits.std(0).mean()
        last.bias.copy_((last.bias - logits.mean(0)) / scale)
        last.weight.div_(scale)
    return model


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """One saved model of each kind; read only."""
    place = tmp_path_factory.mktemp("models")
    torch.manual_seed(3)
    foreign = {"id2label": {0: "CONTRADICTION", 1: "ENTAILMENT", 2: "NEUTRAL"}}
    foreign["label2id"] = {name: i for i, name in foreign["id2label"].items()}
    words = build_tokenizer([text for pair in PAIRS for text in pair], max_length=32)
    made = {
        "neurogame": (NeuroGameForSequenceClassification(NeuroGameConfig(encoder=bert_config())), bert_tokenizer()),
        "dam": (DamForSequenceClassification.from_words(words, embedding_size=24, hidden_size=32, seed=1), words),
        "bert": (BertForSequenceClassification(bert_config(**foreign)), bert_tokenizer()),
        "unnamed": (BertForSequenceClassification(bert_config(num_labels=3)), bert_tokenizer()),
        "encoder": (BertModel(bert_config()), bert_tokenizer()),
    }
    for name, (model, tokenizer) in made.items():
        (model if name == "encoder" else spread(model, tokenizer)).save_pretrained(place / name)
        tokenizer.save_pretrained(place / name)
    return place


@pytest.fixture
def copied(folders, tmp_path):
    """A copy of a folder that a test may damage."""

    def copy(name):
        return shutil.copytree(folders / name, tmp_path / "copy")

    return copy


def config_of(folder, **changes):
    path = folder / "config.json"
    found = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in found.items() if value is not None}))


def close(a: Prediction, b: Prediction):
    return all(
        abs(getattr(a, part)[name] - getattr(b, part)[name]) <= 1e-5
        for part in ("logits", "probabilities")
        for name in a.logits
    ) and (a.label, a.truncated) == (b.label, b.truncated)


# --- predict ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_the_logits_by_name_are_those_of_the_plain_model(folders, name):
    found = neurogame.load(folders / name)
    model = AutoModelForSequenceClassification.from_pretrained(folders / name).eval()
    tokenizer = AutoTokenizer.from_pretrained(folders / name)
    seen = set()
    for premise, hypothesis in PAIRS:
        with torch.no_grad():
            raw = model(**tokenizer(premise, hypothesis, return_tensors="pt")).logits[0]
        said = found.predict(premise, hypothesis)
        by_name = {model.config.id2label[i].lower(): float(z) for i, z in enumerate(raw)}
        assert said.logits == pytest.approx(by_name, abs=1e-5)
        assert said.label == max(by_name, key=by_name.get)
        assert said.probabilities == pytest.approx(
            {key: float(p) for key, p in zip(by_name, raw.softmax(-1), strict=True)}, abs=1e-5
        )
        seen.add(said.label)
    assert sorted(found.labels) == sorted(LABELS)
    assert len(seen) > 1  # the pairs are told apart, or the test shows little


@pytest.mark.parametrize("name", MODELS)
def test_order_batch_size_and_batch_mates_do_not_matter(folders, name):
    found = neurogame.load(folders / name)
    alone = [found.predict(*pair) for pair in PAIRS]
    for batch_size in (1, 2, 3, 64):
        assert all(map(close, found.predict(PAIRS, batch_size=batch_size), alone))
    turned = found.predict(PAIRS[::-1] + PAIRS[:1], batch_size=4)
    assert all(map(close, turned, alone[::-1] + alone[:1]))
    logits = found.logits(PAIRS, batch_size=2)
    assert torch.allclose(logits, torch.tensor([list(p.logits.values()) for p in alone]), atol=1e-5)


def test_what_is_longer_than_the_model_reads_is_cut_and_said(folders):
    found = neurogame.load(folders / "neurogame")
    special = 3  # [CLS] … [SEP] … [SEP]
    for extra in (-1, 0, 1, 9):
        premise = " ".join(["cat"] * (found.max_length - special - 2 + extra))
        said = found.predict([("The cat sings .", "A cat ."), (premise, "a cat")])
        assert [p.truncated for p in said] == [False, extra > 0]
    cut = found.predict(" ".join(["cat"] * 50), "a cat")
    kept = found.predict(" ".join(["cat"] * (found.max_length - special - 2)), "a cat")
    assert cut.logits == pytest.approx(kept.logits, abs=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_temperature_enters_the_probabilities_alone(folders, tmp_path, name):
    first = neurogame.load(folders / name)
    plain = first.predict(PAIRS)
    assert first.temperature == 1.0
    first.temperature = 2.5
    first.save_pretrained(tmp_path / "warm")
    found = neurogame.load(tmp_path / "warm")
    assert found.temperature == 2.5
    for said, before in zip(found.predict(PAIRS), plain, strict=True):
        assert said.logits == before.logits
        assert said.label == before.label
        logits = torch.tensor(list(said.logits.values()))
        assert list(said.probabilities.values()) == pytest.approx((logits / 2.5).softmax(-1).tolist(), abs=1e-6)
    for bad in (0, -1.0, float("nan"), float("inf"), "warm", True):
        with pytest.raises(ModelError, match="temperature"):
            found.temperature = bad
    assert found.temperature == 2.5


def test_a_temperature_that_is_none(folders, copied):
    folder = copied("bert")
    config_of(folder, label_temperature="hot")
    with pytest.raises(ModelError, match="temperature of copy must be a number > 0, got 'hot'"):
        neurogame.load(folder).predict(*PAIRS[0])


def test_any_iterable_of_pairs_will_do_and_nothing_gives_nothing(folders):
    found = neurogame.load(folders / "dam")
    assert found.predict([]) == []
    assert found.logits([]).shape == (0, 3)
    assert all(map(close, found.predict(pair for pair in PAIRS), found.predict([list(pair) for pair in PAIRS])))
    assert found.predict("", "").label in LABELS


def test_dropout_is_off_whatever_the_model_did_before(folders):
    found = neurogame.load(folders / "bert")
    said = found.predict(PAIRS)
    found.model.train()
    assert found.predict(PAIRS) == said
    assert not NLI(found.model.train(), found.tokenizer).model.training


def test_logits_are_a_plain_tensor(folders):
    found = neurogame.load(folders / "dam").logits(PAIRS)
    assert not found.is_inference()
    found.add_(1).requires_grad_().sum().backward()  # an inference tensor allows neither


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("A cat sleeps .",), "hypothesis must be a sentence"),
        (("A cat sleeps .", 3), "hypothesis must be a sentence"),
        ((["A cat ."], ["A dog ."]), "zip"),
        ((7,), "two sentences"),
        ((None,), "two sentences"),
        ((["A cat .", "A dog ."],), r"pair 0 must be .* got 'A cat \.'"),
        ((["ab"],), "pair 0 must be"),
        (([PAIRS[0], ("A cat .", None)],), "pair 1 must be"),
        (([("A cat .", "A dog .", "neutral")],), "pair 0 must be"),
        (([("A cat .",)],), "pair 0 must be"),
        (([5],), "pair 0 must be"),
        (([{"premise": "A cat .", "hypothesis": "A dog ."}],), "pair 0 must be"),  # would be read as its two keys
        (([{"A cat .", "A dog ."}],), "pair 0 must be"),  # has no order
        (([(b"A cat .", b"A dog .")],), "pair 0 must be"),
    ],
)
def test_wrong_arguments(folders, arguments, message):
    with pytest.raises(TypeError, match=message):
        neurogame.load(folders / "dam").predict(*arguments)


def test_wrong_batch_size_and_broken_text(folders):
    found = neurogame.load(folders / "dam")
    for bad, error in ((0, ValueError), (-3, ValueError), ("8", TypeError), (2.5, TypeError)):
        with pytest.raises(error, match="batch_size"):
            found.predict(PAIRS, batch_size=bad)
    with pytest.raises(ValueError, match="pair 1 is not valid Unicode"):
        found.predict([PAIRS[0], ("a \ud83d cat", "a dog")])


def test_a_bar_on_stderr_when_the_list_is_long(folders, capsys, monkeypatch):
    found = neurogame.load(folders / "dam")
    capsys.readouterr()
    found.predict(PAIRS)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(nli, "_LONG", len(PAIRS))
    found.predict(PAIRS)
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{len(PAIRS)}/{len(PAIRS)}" in err
    found.predict(PAIRS, show_progress=False)
    told = []
    found.predict(PAIRS, batch_size=3, progress=told.append)
    assert told == [3, 3, 1]
    assert capsys.readouterr() == ("", "")


# --- names of labels --------------------------------------------------------------------------------------------


def test_names_come_from_the_configuration_in_its_own_order(folders):
    assert neurogame.load(folders / "bert").labels == ("contradiction", "entailment", "neutral")
    assert neurogame.load(folders / "neurogame").labels == LABELS


def test_a_model_that_does_not_know_its_labels(folders, tmp_path):
    found = neurogame.load(folders / "unnamed")
    assert found.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    said = found.predict(*PAIRS[0])
    names = ["Neutral", "contradictory", "E"]
    named = neurogame.load(folders / "unnamed", label_names=names)
    assert named.labels == ("neutral", "contradiction", "entailment")
    again = named.predict(*PAIRS[0])
    assert list(again.logits.values()) == list(said.logits.values())
    assert again.label == named.labels[found.labels.index(said.label)]
    named.save_pretrained(tmp_path / "named")  # names that were given are not lost
    assert neurogame.load(tmp_path / "named").predict(*PAIRS[0]) == again


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (["entailment", "neutral"], ModelError, "2 label names for 3 logits"),
        (["e", "entailment", "neutral"], ModelError, "must differ"),
        ("enc", TypeError, "list of names"),
    ],
)
def test_wrong_label_names(folders, names, error, message):
    with pytest.raises(error, match=message):
        neurogame.load(folders / "unnamed", label_names=names)


# --- how long a pair may be -------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, 512, 24])
def test_the_positions_of_a_nested_encoder_count(limit):
    model = NeuroGameForSequenceClassification(NeuroGameConfig(encoder=bert_config(max_position_embeddings=28)))
    found = NLI(model, bert_tokenizer(limit))
    assert found.max_length == (24 if limit == 24 else 28)
    assert found.predict("cat " * 60, "a cat").truncated


@pytest.mark.parametrize("kind", ["roberta", "mpnet"])
def test_positions_that_begin_behind_the_padding(kind):
    specials = ("[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]")  # these models have padding at 1
    tokenizer = bert_tokenizer(None, specials)
    made = {
        "roberta": (RobertaConfig, RobertaForSequenceClassification),
        "mpnet": (MPNetConfig, MPNetForSequenceClassification),
    }
    config, model = made[kind]
    size = {"vocab_size": len(WORDS) + 5, "max_position_embeddings": 30, "pad_token_id": 1, "type_vocab_size": 2}
    found = NLI(model(config(**size, **TINY, num_labels=3)), tokenizer)
    assert found.max_length == 28
    assert found.predict("cat " * 60, "a cat").truncated
    found.max_length = 29  # one more is one too many: the number above is the largest
    with pytest.raises(ModelError, match="no embedding"):
        found.predict("cat " * 60, "a cat")


def test_no_limit_known_at_all(folders):
    found = neurogame.load(folders / "dam")
    assert found.max_length == 32
    found.tokenizer.model_max_length = int(1e30)
    assert NLI(found.model, found.tokenizer).max_length == nli.MAX_LENGTH


# --- folders ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_save_and_load_change_nothing(folders, tmp_path, name):
    first = neurogame.load(folders / name)
    said = first.predict(PAIRS)
    first.save_pretrained(tmp_path / "again")
    second = neurogame.load(str(tmp_path / "again"))
    assert second.predict(PAIRS) == said
    assert (second.labels, second.max_length, second.parameters) == (first.labels, first.max_length, first.parameters)
    assert all(map(torch.equal, first.model.state_dict().values(), second.model.state_dict().values()))
    second.save_pretrained(tmp_path / "once more")
    for file in ("config.json", "tokenizer.json"):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "once more" / file).read_bytes()


def test_a_model_is_not_saved_onto_a_file(folders, tmp_path):
    (tmp_path / "taken").write_text("notes")
    with pytest.raises(FileExistsError, match="is a file"):
        neurogame.load(folders / "dam").save_pretrained(tmp_path / "taken")


def test_names(folders, tmp_path, monkeypatch):
    run = tmp_path / "first-run"
    shutil.copytree(folders / "dam", run / "model")
    assert neurogame.load(run / "model").name == "first-run"
    assert neurogame.load(folders / "dam").name == "dam"
    monkeypatch.chdir(run / "model")
    assert neurogame.load(".").name == "first-run"
    monkeypatch.setenv("HOME", str(folders))
    assert neurogame.load("~/dam").name == "dam"


def test_devices(folders):
    assert neurogame.load(folders / "dam", device=torch.device("cpu")).model.device.type == "cpu"
    with pytest.raises(ModelError, match="device 'warp' cannot be used here"):
        neurogame.load(folders / "dam", device="warp")
    if not torch.cuda.is_available():
        with pytest.raises(ModelError, match="device 'cuda' cannot be used here"):
            neurogame.load(folders / "dam", device="cuda")


def pickle_only(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def cut_short(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def with_nan(folder):
    path = folder / "model.safetensors"
    weights = load_file(path)
    weights["classifier.bias"][1] = float("nan")
    save_file(weights, path, metadata={"format": "pt"})


def without_tokenizer(folder):
    for path in folder.glob("tokenizer*"):
        path.unlink()


DAMAGE = {
    "pickle only": (pickle_only, "pickle only .pytorch_model.bin."),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors is missing"),
    "cut short": (cut_short, "damaged or cut short"),
    "empty weights": (lambda folder: (folder / "model.safetensors").write_bytes(b""), "damaged or cut short"),
    "nan": (with_nan, "classifier.bias holds NaN"),
    "unknown kind": (lambda folder: config_of(folder, model_type="abacus"), "abacus"),
    "no kind": (lambda folder: config_of(folder, model_type=None), "model_type"),
    "no json": (lambda folder: (folder / "config.json").write_text("{"), "not a valid JSON"),
    "other shape": (lambda folder: config_of(folder, intermediate_size=20), "another shape, the first is bert"),
    "more layers": (lambda folder: config_of(folder, num_hidden_layers=3), "missing, the first is bert"),
    "no tokenizer": (without_tokenizer, "tokenizer.json"),
    "no vocabulary": (lambda folder: (folder / "tokenizer.json").unlink(), "no words"),
    "torn vocabulary": (lambda folder: (folder / "tokenizer.json").write_text('{"version"'), "tokenizer.json"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_folder_that_is_not_whole_is_refused_in_one_line(copied, damage):
    folder = copied("bert")
    harm, message = DAMAGE[damage]
    harm(folder)
    with pytest.raises(ModelError, match=message) as caught:
        neurogame.load(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_code_in_a_folder_is_not_run(copied):
    folder = copied("bert")
    classes = {"AutoConfig": "abacus.AbacusConfig", "AutoModelForSequenceClassification": "abacus.Abacus"}
    config_of(folder, model_type="abacus", auto_map=classes)
    (folder / "abacus.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\n")
    with pytest.raises(ModelError, match="custom code"):
        neurogame.load(folder)
    assert not (folder / "ran").exists()


def test_our_own_folder_without_a_tokenizer(copied):
    folder = copied("neurogame")
    without_tokenizer(folder)
    with pytest.raises(ModelError, match=r"tokenizer\.json is missing"):
        neurogame.load(folder)


def test_an_encoder_does_not_answer_at_random(folders):
    with pytest.raises(ModelError, match="never trained to classify"):
        neurogame.load(folders / "encoder")


def test_logits_that_are_not_finite_are_no_answer(folders):
    found = neurogame.load(folders / "bert")
    found.model.classifier.register_forward_hook(lambda module, inputs, logits: logits * 1e39)
    with pytest.raises(ModelError, match=r"of bert are NaN or infinite for 7 of 7 pairs \(first: pair 0\)"):
        found.predict(PAIRS)


def test_a_tokenizer_of_another_model(folders, copied):
    folder = copied("bert")
    bert_tokenizer(words=[f"w{i}" for i in range(200)] + WORDS).save_pretrained(folder)
    with pytest.raises(ModelError, match="belong to another model"):
        neurogame.load(folder).predict(*PAIRS[0])


@pytest.fixture
def offline(monkeypatch):
    """Whoever asks transformers for a model fails the test."""

    def refuse(*arguments, **options):
        raise AssertionError(f"transformers was asked for {arguments}")

    monkeypatch.setattr(AutoModelForSequenceClassification, "from_pretrained", refuse)


def test_what_looks_like_a_path_is_never_looked_for_on_the_hub(offline, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "notes.txt").write_text("notes")
    for name in (
        "./x",
        "../x",
        "/no/such/x",
        "~/no-such-x",
        "a/b/c",
        "runs/",
        "x/",
        "runs\\x",
        tmp_path / "x",
        "",
        " ",
    ):
        with pytest.raises(FileNotFoundError):
            neurogame.load(name)
    with pytest.raises(FileNotFoundError, match=r"no model folder at a\\u000ab/c/d"):  # found by the fuzzer
        neurogame.load("a\nb/c/d")
    with pytest.raises(FileNotFoundError, match="no model folder at runs/frist; runs has first"):
        neurogame.load("runs/frist")
    with pytest.raises(NotADirectoryError, match="is a file"):
        neurogame.load("notes.txt")


def test_a_run_folder_hints_at_its_model(offline, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    with pytest.raises(FileNotFoundError, match=r"config\.json is missing$"):
        neurogame.load(run)
    for part in ("best", "model"):
        (run / part).mkdir()
        (run / part / "config.json").write_text("{}")
        with pytest.raises(FileNotFoundError, match=f"did you mean .*{part}"):
            neurogame.load(run)


def test_a_name_while_the_hub_is_out_of_reach(monkeypatch, tmp_path):
    """Said at once, and not after half a minute of trying; what is in the cache is opened without asking."""

    def fail(*arguments, **options):
        raise ConnectionError("no route to host")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "first-model").mkdir()
    (tmp_path / "first-model" / "config.json").write_text("{}")
    monkeypatch.setattr(opening.HfApi, "model_info", fail)
    with pytest.raises(ModelError, match=r"^frist-model is .*: no route to host; there is a folder first-model$"):
        neurogame.load("frist-model")
    monkeypatch.setattr(opening, "try_to_load_from_cache", lambda *_: "config.json")
    monkeypatch.setattr(AutoModelForSequenceClassification, "from_pretrained", fail)
    with pytest.raises(ModelError, match=r"could not be loaded from the hub: no route to host$"):
        neurogame.load("frist-model")


def test_a_name_the_hub_does_not_have(monkeypatch):
    def fail(*arguments, **options):
        raise OSError("We could not connect\nto the hub.\n\nSee the manual.")

    monkeypatch.setattr(opening.HfApi, "model_info", lambda *_, **__: None)
    monkeypatch.setattr(AutoModelForSequenceClassification, "from_pretrained", fail)
    with pytest.raises(ModelError) as caught:
        neurogame.load("nobody/nothing")
    assert str(caught.value) == (
        "nobody/nothing is no folder here and could not be loaded from the hub: We could not connect to the hub."
    )
