"""A run from its file to its folder: what is in it, who may write there, and that a run can die and be resumed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from test_training import configure, distance, pairs, workshop, write_pairs  # noqa: F401  fixtures
from transformers import BertConfig, BertForSequenceClassification

import neurogame.training.run as runs
from neurogame.data import DataError, Pair
from neurogame.evaluation import fit_temperature
from neurogame.modeling.loading import quiet
from neurogame.nli import load
from neurogame.training import ConfigError, read_config, train
from neurogame.training.build import build, read_splits
from neurogame.training.checkpoints import UNFINISHED
from neurogame.training.config import dump_config, parse_config

ALL_ON = {
    "epochs": 3,
    "batch_size": 4,
    "learning_rate": 0.01,
    "schedule": "multistep",
    "milestones": [2],
    "ema": 0.9,
    "mixup": 0.3,
    "label_smoothing": 0.1,
    "premise_word_dropout": 0.2,
    "head_multiplier": 3.0,
}
CLOCK = re.compile("runtime|per_second|flos|train_loss")  # of this process, not of the run


def history(metrics):
    return [{name: value for name, value in entry.items() if not CLOCK.search(name)} for entry in metrics["history"]]


def without_test(config, **changes):
    return config.model_copy(update={"data": config.data.model_copy(update=changes)})


# What a run leaves behind


@pytest.fixture(scope="module")
def finished(workshop, tmp_path_factory):  # noqa: F811
    """One run with everything on, and what it printed."""
    root = tmp_path_factory.mktemp("finished")
    content = {
        "name": "toads",
        "output": str(root / "toads"),
        "model": {"encoder": workshop.encoder, "options": {"dropout": 0.2}},
        "data": {"train": workshop.ragged, "dev": workshop.dev, "test": workshop.train, "max_length": 40},
        "training": {**ALL_ON, "tensorboard": True, "keep": 20},
    }
    config = parse_config(content)
    return config, train(config, show_progress=False)


def test_the_folder_of_a_run(finished):
    config, metrics = finished
    folder = config.folder
    names = {"config.yaml", "checkpoints", "model", "metrics.json", "report.md", "curves.png", "confusion.png"}
    assert {path.name for path in folder.iterdir()} == names | {"tensorboard"}
    assert read_config(folder / "config.yaml") == config
    assert json.loads((folder / "metrics.json").read_text()) == json.loads(json.dumps(metrics))
    for name in ("curves.png", "confusion.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert next((folder / "tensorboard").glob("events*")).stat().st_size > 500
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {f"checkpoint-{k}" for k in (6, 12, 18)}


def test_the_metrics_of_a_run(finished):
    config, metrics = finished
    assert (metrics["steps"], metrics["seed"]) == (18, 0)
    assert metrics["data"]["train"]["pairs"] == 21
    assert metrics["data"]["dev"]["labels"] == {"entailment": 3, "neutral": 3, "contradiction": 3}
    assert [test["name"] for test in metrics["data"]["test"]] == ["train"]
    assert [entry["step"] for entry in metrics["history"] if "loss" in entry] == list(range(1, 19))
    assert [entry["step"] for entry in metrics["history"] if "eval_accuracy" in entry] == [6, 12, 18]
    assert metrics["parameters"] == load(config.folder / "model").parameters == metrics["trained_parameters"]


def test_no_temperature_is_judged_on_the_pairs_it_was_fitted_on(finished):
    config, metrics = finished
    dev, test = metrics["evaluation"]["rows"]
    assert dev["calibration"]["source"] == "cross-fitted, two halves"
    assert test["calibration"]["source"] == "fitted on dev"
    saved, pairs = load(config.folder / "model"), read_splits(config.data).dev
    assert saved.temperature == metrics["temperature"] == 1.0  # it is in the weights
    logits = saved.logits([(pair.premise, pair.hypothesis) for pair in pairs]).double().numpy()
    gold = np.array([saved.labels.index(pair.label) for pair in pairs])
    assert test["calibration"]["temperatures"] == [pytest.approx(fit_temperature(logits, gold), rel=1e-3)]


def test_the_card_of_a_run(finished):
    config, metrics = finished
    card = (config.folder / "model" / "README.md").read_text()
    head = yaml.safe_load(card.split("---")[1])
    found = {r["dataset"]["name"]: r["metrics"][0]["value"] for r in head["model-index"][0]["results"]}
    rows = metrics["evaluation"]["rows"]
    assert found == {row["data"]: round(row["scores"]["accuracy"], 4) for row in rows}
    assert "base_model" not in head  # it is a folder of this machine
    assert str(config.folder.parent) not in card
    assert str(Path(config.model.encoder).parent) not in card
    assert "| training | ragged | 21 | entailment 7, neutral 7, contradiction 7 | 0 | 0 |" in card
    assert "- ema: 0.9 (not the default)" in card
    assert "- clip: 1.0\n" in card
    assert "- model: dropout: 0.2" in card
    assert f"torch {torch.__version__}" in card
    assert f"{metrics['parameters']:,} parameters" in card


def test_the_model_is_the_average_with_the_best_dev_accuracy(finished):
    config, metrics = finished
    accuracy = {e["step"]: e["eval_accuracy"] for e in metrics["history"] if "eval_accuracy" in e}
    best = max(accuracy, key=accuracy.get)
    assert metrics["evaluation"]["rows"][0]["scores"]["accuracy"] == pytest.approx(accuracy[best])
    checkpoint = config.folder / "checkpoints" / f"checkpoint-{best}"
    saved, kept = (
        load_file(config.folder / "model" / "model.safetensors"),
        load_file(checkpoint / "model.safetensors"),
    )
    last = [name for name in saved if name.startswith("classifier.out.")]
    T = {round(float((kept[name] / saved[name]).mean()), 4) for name in last}
    assert len(T) == 1  # by which the last layer was divided
    scaled = {name: saved[name] * T.copy().pop() if name in last else saved[name] for name in saved}
    assert distance(scaled, kept) < 1e-4


def test_a_folder_belongs_to_one_run(finished):
    config, _ = finished
    before = {path: path.stat().st_mtime_ns for path in config.folder.rglob("*")}
    with pytest.raises(ConfigError, match="already holds a run"):
        train(config, show_progress=False)
    with pytest.raises(ConfigError, match="already holds a run"):
        train(config.model_copy(update={"seed": 5}), show_progress=False)
    with pytest.raises(ConfigError, match="has ended"):
        train(config, resume=True, show_progress=False)
    assert {path: path.stat().st_mtime_ns for path in config.folder.rglob("*")} == before


def test_nothing_but_results_on_stdout(configure, capfd):  # noqa: F811
    quiet()
    config = configure(max_steps=120, batch_size=1, evaluate_every=100, checkpoint_every=120)
    config = without_test(config, train=[config.data.dev[0]])
    metrics = train(config.model_copy(update={"model": config.model.model_copy(update={"head": "mean"})}))
    out, err = capfd.readouterr()
    assert out == ""
    assert "120/120" in err
    assert "{" not in err  # the Trainer's dictionaries
    assert 55 <= sum("loss" in entry for entry in metrics["history"]) <= 110


# Death and resurrection


def launch(*command):
    """A process of its own, on one core."""
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def written(config):
    """The run file of a config."""
    path = config.folder.with_suffix(".yaml")
    path.write_text(dump_config(config))
    return str(path)


def test_killed_and_resumed_is_uninterrupted(configure):  # noqa: F811
    settings = {**ALL_ON, "epochs": 7, "milestones": [4], "checkpoint_every": 5, "evaluate_every": 12}
    whole, killed = configure(**settings), configure(**settings)
    expected = train(whole, show_progress=False)
    process = launch("neurogame", "train", "--config", written(killed))
    folder = killed.folder / "checkpoints"
    while not (folder / "checkpoint-10").exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (killed.folder / "metrics.json").exists()

    with pytest.raises(ConfigError, match="differs from this configuration"):
        train(killed.model_copy(update={"seed": 1}), resume=True, show_progress=False)
    with pytest.raises(ConfigError, match="already holds a run"):
        train(killed, show_progress=False)
    cut = folder / UNFINISHED / "checkpoint-70"  # off, while it was written
    shutil.copytree(folder / "checkpoint-10", cut)
    (cut / "model.safetensors").write_bytes(b"half")

    found = train(killed, resume=True, show_progress=False)
    assert found["steps"] == expected["steps"] == 42
    assert history(found) == history(expected)
    for name in ("model.safetensors", "training_weights.safetensors"):
        ends = [load_file(config.folder / "checkpoints" / "checkpoint-42" / name) for config in (whole, killed)]
        assert distance(*ends) == 0.0
    models = [load_file(config.folder / "model" / "model.safetensors") for config in (whole, killed)]
    assert distance(*models) == 0.0
    assert found["evaluation"]["rows"][0]["scores"] == expected["evaluation"]["rows"][0]["scores"]


def test_two_processes_are_one_that_accumulates(configure, workshop, tmp_path):  # noqa: F811
    """Of 21 rows the last step has 5, one of them in the second process. A run of one process is also gone on with."""
    settings = {**ALL_ON, "checkpoint_every": 2, "keep": 9}
    alone = configure(train=workshop.ragged, accumulation=2, **settings)
    shared, resumed = (configure(train=workshop.ragged, **settings) for _ in range(2))
    expected = train(alone, show_progress=False)
    (resumed.folder / "checkpoints").mkdir(parents=True)
    (resumed.folder / "config.yaml").write_text(dump_config(resumed))
    middle = "checkpoints/checkpoint-4"  # the first step of the second epoch has been done
    shutil.copytree(alone.folder / middle, resumed.folder / middle)
    shutil.copytree(alone.folder / "model", resumed.folder / "best")  # unless a later one is better

    script = tmp_path / "both.py"
    commands = [["train", "--config", written(shared)], ["train", "--resume", "--config", written(resumed)]]
    script.write_text(
        "from neurogame.cli import app\n"
        + "".join(f"assert not app({command}, standalone_mode=False)\n" for command in commands)
    )
    process = launch("torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script))
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.count("accuracy") == 2  # a table for each run: the first process alone has results
    for config, steps in ((shared, 9), (resumed, 9)):
        found = json.loads((config.folder / "metrics.json").read_text())
        assert found["steps"] == steps
        assert distance(last_weights(config), last_weights(alone)) < 1e-6
        best = [load_file(c.folder / "model" / "model.safetensors") for c in (config, alone)]
        assert distance(*best) < 1e-6
        for ours, theirs in zip(history(found), history(expected), strict=True):
            assert ours == pytest.approx(theirs, abs=1e-5)


def last_weights(config):
    return load_file(config.folder / "checkpoints" / "checkpoint-9" / "training_weights.safetensors")


def test_a_run_that_stopped_for_want_of_patience_stays_stopped(configure, monkeypatch):  # noqa: F811
    config = configure(epochs=9, patience=1)
    values = iter((0.5, 0.6, 0.5, 0.9, 0.9))
    monkeypatch.setattr(runs, "measure", lambda _: {"accuracy": next(values), "loss": 1.0})

    def die(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(runs, "finish", die)
        with pytest.raises(KeyboardInterrupt):
            train(config, show_progress=False)
    metrics = train(config, resume=True, show_progress=False)
    assert metrics["steps"] == 9
    assert [e["eval_accuracy"] for e in metrics["history"] if "eval_accuracy" in e] == [0.5, 0.6, 0.5]


def test_a_run_can_be_ended_at_its_last_checkpoint(configure, monkeypatch):  # noqa: F811
    config = configure(epochs=9)
    values = iter((0.6, 0.5))  # and then it is interrupted

    def measured(_):
        for value in values:
            return {"accuracy": value, "loss": 1.0}
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(runs, "measure", measured)
        with pytest.raises(KeyboardInterrupt):
            train(config, show_progress=False)
    best = load_file(config.folder / "best" / "model.safetensors")
    metrics = train(config, resume=True, end=True, show_progress=False)
    assert metrics["steps"] == 6
    assert [e["eval_accuracy"] for e in metrics["history"] if "eval_accuracy" in e] == [0.6, 0.5]
    model = load_file(config.folder / "model" / "model.safetensors")
    assert all(torch.equal(best[name], model[name]) for name in best if not name.startswith("classifier.out."))


def test_nothing_to_end(configure):  # noqa: F811
    config = configure()
    for resume in (False, True):
        with pytest.raises(ConfigError, match=r"nothing to end: .* holds no checkpoint"):
            train(config, resume=resume, end=True, show_progress=False)
    assert not config.folder.exists()


def test_nothing_to_resume(configure):  # noqa: F811
    config = configure()
    with pytest.raises(ConfigError, match="holds no run"):
        train(config, resume=True, show_progress=False)
    assert not config.folder.exists()


# Other models


@pytest.mark.parametrize("kind", ["dam", "esim"])
def test_models_of_words(kind, configure, workshop, tmp_path):  # noqa: F811
    torch.manual_seed(0)
    vectors = tmp_path / "vectors.txt"
    words = ["a", "no", "is", "fox", "heron", "sleeps", "waits", "under", "nowhere"]
    vectors.write_text("".join(f"{w} {' '.join(f'{x:.3f}' for x in torch.randn(6).tolist())}\n" for w in words))
    model = {"kind": kind, "encoder": None, "vectors": str(vectors), "options": {"hidden_size": 8}}
    model["options"]["embeddings_trainable"] = "missing"
    config = configure(kind=kind, model=model, freeze="nothing", optimizer="adagrad", mixup=0.2, weight_decay=0.3)
    metrics = train(config, show_progress=False)
    nli = load(config.folder / "model")
    vocabulary = nli.tokenizer.get_vocab()
    assert "nowhere" not in vocabulary  # not in the data
    given = dict(line.split(" ", 1) for line in vectors.read_text().splitlines())
    for word in ("fox", "under"):
        row = nli.model.embedding(torch.tensor(vocabulary[word])).tolist()
        assert row == pytest.approx([float(x) for x in given[word].split()])  # frozen, whatever the decay
    assert metrics["trained_parameters"] < metrics["parameters"]
    card = (config.folder / "model" / "README.md").read_text()
    assert "word vectors: vectors.txt" in card
    assert str(tmp_path) not in card


def test_words_of_dev_count_only_with_a_vector(configure, workshop, tmp_path):  # noqa: F811
    dev = [Pair("a newt sleeps", "a stoat sleeps", "neutral"), Pair("a fox waits", "a fox waits", "entailment")]
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("newt 1 2\nfox 3 4\n")
    model = {"kind": "dam", "encoder": None, "vectors": str(vectors), "options": {"hidden_size": 4}}
    config = configure(kind="dam", model=model)
    config = without_test(config, dev=[write_pairs(tmp_path / "other.jsonl", dev)])
    _, tokenizer = build(config, read_splits(config.data))
    assert {"newt", "fox", "heron"} <= set(tokenizer.get_vocab())
    assert "stoat" not in tokenizer.get_vocab()


def test_a_classifier_trained_for_nli_keeps_its_order_of_labels(configure, workshop, tmp_path):  # noqa: F811
    names = ["CONTRADICTION", "ENTAILMENT", "NEUTRAL"]
    config = BertConfig.from_pretrained(workshop.encoder, id2label=dict(enumerate(names)))
    config.label2id = {name: i for i, name in enumerate(names)}
    BertForSequenceClassification(config).save_pretrained(tmp_path / "theirs")
    shutil.copy(Path(workshop.encoder) / "tokenizer.json", tmp_path / "theirs")
    shutil.copy(Path(workshop.encoder) / "tokenizer_config.json", tmp_path / "theirs")
    kept = configure(kind="transformers", model={"encoder": str(tmp_path / "theirs")})
    trainer = make(kept)
    assert trainer.model.config.id2label[0] == "CONTRADICTION"
    first = read_splits(kept.data).train[0]
    assert trainer.train_dataset[0]["labels"] == names.index(first.label.upper())
    new = make(configure(kind="transformers"))
    assert new.model.config.id2label[0] == "entailment"


def make(config):
    splits = read_splits(config.data)
    return runs.make_trainer(config, *build(config, splits), splits, show_progress=False)


# What cannot be run


def fails(config, error, *parts):
    """One line, and no folder left behind."""
    with pytest.raises(error) as caught:
        train(config, show_progress=False)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message
    assert not config.folder.exists()


def test_data_that_cannot_be_trained_on(configure, workshop, tmp_path):  # noqa: F811
    config = configure()
    (tmp_path / "empty.jsonl").write_text("")
    fails(without_test(config, train=[str(tmp_path / "empty.jsonl")]), DataError, "empty")
    fails(without_test(config, train=[str(tmp_path / "none.jsonl")]), DataError, "none.jsonl")
    fails(without_test(config, dev=["snlii/dev"]), DataError, "snlii/dev")
    odd = write_pairs(tmp_path / "odd.jsonl", [Pair("a fox", "a fox", "maybe")])
    fails(without_test(config, train=[odd]), DataError, "odd.jsonl:1", "'maybe'", "entailment")
    bare = write_pairs(tmp_path / "bare.jsonl", [Pair("a fox", "a fox", "-")])
    fails(without_test(config, dev=[bare]), DataError, "bare.jsonl", "without gold label")
    (tmp_path / "unlabelled.csv").write_text("premise,hypothesis\na fox,a fox\n")
    fails(without_test(config, dev=[str(tmp_path / "unlabelled.csv")]), DataError, "no column for label")
    two = write_pairs(tmp_path / "two.jsonl", [Pair("a fox", "a fox", "non-entailment")])
    fails(without_test(config, train=[two]), ConfigError, "data.train", "non-entailment")
    fails(without_test(config, dev=[two]), ConfigError, "data.dev", "non-entailment")
    (tmp_path / "twin").mkdir()
    twin = write_pairs(tmp_path / "twin" / "dev.jsonl", pairs(3))
    fails(without_test(config, test=[twin]), DataError, "'dev'")


def test_models_that_cannot_be_built(configure, workshop, tmp_path):  # noqa: F811
    hollow = tmp_path / "hollow"
    shutil.copytree(workshop.encoder, hollow)
    (hollow / "model.safetensors").unlink()
    fails(configure(model={"encoder": str(hollow)}), ConfigError, "hollow", "model.safetensors")
    fails(configure(model={"encoder": str(tmp_path / "nowhere")}), ConfigError, "no model folder at")
    fails(without_test(configure(), max_length=41), ConfigError, "max_length = 41", "40 positions")
    options = {"hidden_dropuot_prob": 0.1}
    fails(configure(kind="transformers", model={"options": options}), ConfigError, "hidden_dropuot_prob")
    vectors = {"kind": "dam", "encoder": None, "vectors": str(tmp_path / "glove.txt")}
    fails(configure(kind="dam", model=vectors), ConfigError, "glove.txt")
    fails(configure(model={"options": {"heads": 5}}), ConfigError, "heads = 5")


def test_another_head_than_the_saved_one(configure, finished):  # noqa: F811
    config, _ = finished
    saved = str(config.folder / "model")
    fails(configure(model={"encoder": saved, "head": "mean"}), ConfigError, "model.head", "'neurogame'")


def test_a_run_that_fails_in_the_middle_keeps_its_folder(configure):  # noqa: F811
    config = configure(kind="transformers", learning_rate=1e30, clip=0.0, warmup=0.0)
    with pytest.raises(ValueError, match="at step"):
        train(config, show_progress=False)
    assert (config.folder / "config.yaml").exists()
