"""The model that comes with the package: it is whole, opens offline as float32, and knows what it should know."""

import json
import shutil
from pathlib import Path

import pytest
import tiny
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification
from typer.testing import CliRunner

import neurogame
from neurogame import about, embedded
from neurogame.cli import app
from neurogame.labels import LABELS
from neurogame.nli import NLI
from neurogame_bench import shipping

runner = CliRunner()
SHIPPED = embedded.shipped.SUMS_SHA256
OBVIOUS = [
    ("A man is sleeping on a bench in the park.", "A man is sleeping.", "entailment"),
    ("A man is sleeping on a bench in the park.", "Nobody is sleeping.", "contradiction"),
    ("A man is sleeping on a bench in the park.", "The man is a teacher.", "neutral"),
    ("Two girls are playing football outside.", "Some children are outdoors.", "entailment"),
    ("Two girls are playing football outside.", "The girls are asleep in bed.", "contradiction"),
    ("Two girls are playing football outside.", "The girls are sisters.", "neutral"),
    ("A dog runs across the wet grass.", "An animal is running.", "entailment"),
    ("The train was not late.", "The train was late.", "contradiction"),
    ("A woman in a red coat buys apples.", "The apples are for a cake.", "neutral"),
]


@pytest.fixture(scope="module")
def nli():
    return neurogame.load()


@pytest.fixture
def packed(tmp_path):
    """A tiny model, saved and packed as the shipped one is."""
    model = tiny.model()
    NLI(model, tiny.tokenizer()).save_pretrained(tmp_path / "saved")
    shipping.pack(tmp_path / "saved", tmp_path / "packed", {"README.md": "a card\n"})
    return tmp_path / "packed"


@pytest.fixture
def installed(packed, tmp_path, monkeypatch):
    """The packed model as the one of this installation, with the digest of its checksums in the code."""
    monkeypatch.setattr(embedded, "FOLDER", packed)
    monkeypatch.setattr(shipping, "CODE", tmp_path / "shipped.py")
    monkeypatch.setattr(embedded.shipped, "SUMS_SHA256", "")
    shipping.write_sums(packed)
    return packed


def test_obvious_pairs(nli):
    said = nli.predict([pair[:2] for pair in OBVIOUS])
    right = sum(prediction.label == label for prediction, (*_, label) in zip(said, OBVIOUS, strict=True))
    assert right >= len(OBVIOUS) - 1, [(p.label, pair) for p, pair in zip(said, OBVIOUS, strict=True)]


@pytest.mark.attack(point=10)
def test_answers_do_not_depend_on_batch_size_beyond_rounding(nli):
    """The docs say 2.5e-6."""
    pairs = [pair[:2] for pair in OBVIOUS]
    first, *others = ([list(p.probabilities.values()) for p in nli.predict(pairs, batch_size=n)] for n in (1, 4, 32))
    for found in others:
        assert torch.tensor(found).sub(torch.tensor(first)).abs().max() <= 2.5e-6


def test_the_embedded_model(nli):
    assert nli.name == "embedded"
    assert nli.labels == LABELS
    assert nli.max_length == 128
    assert nli.temperature > 0
    assert nli.model.config.head == "neurogame"
    assert nli.model.config.preset == "default"
    assert {p.dtype for p in nli.model.parameters()} == {torch.float32}


def test_verbs_take_it_by_default(nli, tmp_path):
    rows = [{"premise": p, "hypothesis": h, "label": label} for p, h, label in OBVIOUS]
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = [prediction.label for prediction in nli.predict([pair[:2] for pair in OBVIOUS])]
    printed = runner.invoke(app, ["predict", str(file), "--json"])
    assert [json.loads(line)["label"] for line in printed.stdout.splitlines()] == said
    scored = runner.invoke(app, ["evaluate", "-d", str(file), "--json"])
    row = json.loads(scored.stdout)["rows"][0]
    assert row["model"] == "embedded"
    assert row["scores"]["accuracy"] == pytest.approx(
        sum(map(str.__eq__, said, [r["label"] for r in rows])) / len(said)
    )
    about_it = runner.invoke(app, ["info"])
    assert (about_it.exit_code, "neurogame head" in about_it.stdout) == (0, True)


def test_it_explains_itself(nli, tmp_path):
    premise, hypothesis, label = OBVIOUS[1]
    found = nli.explain(premise, hypothesis)
    assert found.prediction.label == found.target == label
    assert len(found.words) == len(premise.split()) + len(hypothesis.split())
    assert (found.method, found.diagnostics["grounded"], found.diagnostics["checked"]) == (
        "decision",
        "readout",
        True,
    )
    assert "Nobody" in [found.words[i] for i in found.swing]
    assert found.words[max(range(len(found.words)), key=lambda i: found.scores[i])] == "Nobody"
    command = ["explain", premise, hypothesis, "--html", str(tmp_path / "report.html"), "--json"]
    printed = runner.invoke(app, command)
    assert printed.exit_code == 0
    assert json.loads(printed.stdout)["scores"] == pytest.approx(found.scores, abs=1e-4)
    assert "Nobody" in (tmp_path / "report.html").read_text()


def test_its_files():
    folder = embedded.folder()
    assert (folder / embedded.WEIGHTS).stat().st_size <= 70e6
    with safe_open(folder / embedded.WEIGHTS, "pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"F16"}  # noqa: SIM118 — not a dict
    named = {line.split()[1] for line in (folder / embedded.SUMS).read_text().splitlines()}
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert named == there - {embedded.SUMS}
    card = (folder / "README.md").read_text()
    for word in ("SNLI", "MNLI", "licence", "HANS", "E5-small", "float16"):
        assert word in card
    assert "MIT License" in (folder / "NOTICE").read_text()


def test_transformers_opens_it_as_float32(nli):
    """And as `load` does, which copies the weights itself: the same configuration, numbers and buffers."""
    plain = AutoModelForSequenceClassification.from_pretrained(embedded.folder()).eval()
    assert plain.dtype == torch.float32
    assert nli.model.config.to_dict() == plain.config.to_dict()
    assert not any(module.training for module in nli.model.modules())
    for named in ("named_parameters", "named_buffers"):
        ours, theirs = (dict(getattr(model, named)()) for model in (nli.model, plain))
        assert list(ours) == list(theirs)
        for name, tensor in ours.items():
            assert torch.equal(tensor, theirs[name]), name
            assert (tensor.dtype, tensor.requires_grad) == (theirs[name].dtype, theirs[name].requires_grad), name
    batch = nli.tokenizer(*OBVIOUS[0][:2], return_tensors="pt")
    with torch.no_grad():
        torch.testing.assert_close(plain(**batch).logits[0], nli.logits([OBVIOUS[0][:2]])[0], atol=1e-5, rtol=0)


def test_it_is_saved_as_any_model(installed, tmp_path):
    """The same files as of a model that was opened by its folder, which `from_pretrained` reads."""
    neurogame.load().save_pretrained(tmp_path / "embedded")
    neurogame.load(installed).save_pretrained(tmp_path / "named")
    names = sorted(path.name for path in (tmp_path / "named").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "embedded").iterdir())
    for name in names:
        assert (tmp_path / "embedded" / name).read_bytes() == (tmp_path / "named" / name).read_bytes(), name


def test_packing_rounds_and_nothing_else(packed):
    first, second = load_file(packed.parent / "saved" / "model.safetensors"), load_file(packed / embedded.WEIGHTS)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        torch.testing.assert_close(second[name], tensor.half())
    assert json.loads((packed / "config.json").read_text())["dtype"] == "float32"
    pairs = [pair[:2] for pair in OBVIOUS]
    torch.testing.assert_close(
        neurogame.load(packed).logits(pairs), neurogame.load(packed.parent / "saved").logits(pairs), atol=1e-2, rtol=0
    )
    embedded.check(packed)


def test_packing_refuses_what_float16_cannot_hold(packed, tmp_path):
    wide = tmp_path / "wide"
    shutil.copytree(packed.parent / "saved", wide)
    weights = load_file(wide / "model.safetensors")
    name = next(iter(weights))
    save_file({**weights, name: weights[name] + 1e6}, wide / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match="does not fit into float16"):
        shipping.pack(wide, tmp_path / "never", {})
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "README.md"])
def test_a_damaged_installation_says_so(installed, name):
    packed = installed
    neurogame.load()
    whole = (packed / name).read_bytes()
    (packed / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(embedded.DamagedError, match=rf"{name} is damaged"):
        neurogame.load()
    (packed / name).unlink()
    with pytest.raises(embedded.DamagedError, match=rf"lacks {name}"):
        neurogame.load()
    assert name in about.describe()["model"]["problem"]
    (packed / embedded.SUMS).unlink()
    with pytest.raises(embedded.DamagedError, match="not in this installation"):
        neurogame.load()


def without(folder, name):
    sums = folder / embedded.SUMS
    sums.write_text("".join(line for line in sums.read_text().splitlines(keepends=True) if name not in line))


@pytest.mark.attack(point=8)
@pytest.mark.parametrize("named", [False, True])
def test_labels_that_were_swapped(installed, named):
    """Whoever can change a file can change its checksum too, or leave out its line; the code knows both."""
    config = json.loads((installed / "config.json").read_text())
    config["id2label"] = dict(zip(config["id2label"], reversed(config["id2label"].values()), strict=True))
    config["label2id"] = {name: int(i) for i, name in config["id2label"].items()}
    (installed / "config.json").write_text(json.dumps(config))
    digest = embedded.digest(installed / "config.json")
    without(installed, "config.json")
    if named:
        with (installed / embedded.SUMS).open("a") as file:
            file.write(f"{digest}  config.json\n")
    with pytest.raises(embedded.DamagedError, match="SHA256SUMS is not the one shipped with this code"):
        neurogame.load()
    if not named:
        with pytest.raises(embedded.DamagedError, match=r"holds config\.json, which SHA256SUMS does not name"):
            embedded.check(installed)


@pytest.mark.parametrize("name", ["added_tokens.json", "explainer/explainer.json", "model.safetensors.index.json"])
def test_files_that_were_added(installed, name):
    (installed / name).parent.mkdir(exist_ok=True)
    (installed / name).write_text("{}")
    with pytest.raises(embedded.DamagedError, match=f"holds {name}"):
        neurogame.load()
    (installed / name).rename(installed / ".hidden")
    assert embedded.folder() == installed


def test_shipping_writes_the_digest_into_the_code(installed, tmp_path):
    """As the next process will import it; an explainer that is attached changes it."""
    (tmp_path / "explainer").mkdir()
    (tmp_path / "explainer" / "explainer.json").write_text("{}")
    before = (tmp_path / "shipped.py").read_text()
    shipping.attach(tmp_path / "explainer")
    code, space = (tmp_path / "shipped.py").read_text(), {}
    exec(code, space)
    assert code.replace(space["SUMS_SHA256"], "") == Path(embedded.shipped.__file__).read_text().replace(SHIPPED, "")
    assert space["SUMS_SHA256"] == embedded.digest(installed / embedded.SUMS)
    assert before != code
    assert "explainer/explainer.json" in (installed / embedded.SUMS).read_text()
    assert embedded.folder() == installed


def test_about():
    found = about.describe()
    assert found["neurogame"] == neurogame.__version__
    assert found["model"]["labels"] == list(LABELS)
    assert found["model"]["megabytes"] <= 70
    json.dumps(found)
