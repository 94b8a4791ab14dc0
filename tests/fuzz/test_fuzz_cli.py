"""Every verb with any arguments: exit 0, 1 or 2, one line for a mistake, JSON where it was asked for, no traceback."""

import csv
import json
from unicodedata import category

import pytest
import tiny
import yaml
from hypothesis import given
from hypothesis import strategies as st
from kinds import system
from support import HOSTILE, fuzz, inputs
from typer.testing import CliRunner

import neurogame.nli
from neurogame.cli import app
from neurogame.labels import LABELS

runner = CliRunner()
# what a shell can pass: no null; an argument that is not UTF-8 comes as halves of surrogate pairs
arguments = st.one_of(
    st.sampled_from([text for text in HOSTILE if "\0" not in text]),
    st.text(st.characters(exclude_characters="\0"), max_size=20),
    st.sampled_from(["", "-", "--", "0", "-1", "1e9", "nan", "99999999999999999999", "cpu", "\udcff"]),
)
names = arguments.filter(lambda name: not name.startswith(("/", "~")) and ".." not in name)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model, good and bad files of pairs, and run files."""
    place = tmp_path_factory.mktemp("cli")
    system("mean").save_pretrained(place / "model")
    with (place / "pairs.csv").open("w", newline="") as file:
        rows = [(*pair, LABELS[i % 3]) for i, pair in enumerate(tiny.PAIRS)]
        csv.writer(file).writerows([("premise", "hypothesis", "label"), *rows])
    (place / "odd.jsonl").write_text('{"premise": "a", "hypothesis": "b", "label": 7}\nnot json\n')
    (place / "empty.tsv").write_text("")
    (place / "bytes.csv").write_bytes(b"\xff\xfe\x00\x1f\x8b")
    run = {"name": "run", "model": {"encoder": "nothing"}, "data": {"train": "pairs.csv", "dev": "pairs.csv"}}
    (place / "run.yaml").write_text(yaml.safe_dump(run))
    (place / "bad.yaml").write_text("a: [1, 2")
    return place


@pytest.fixture(autouse=True)
def inside(place, monkeypatch):
    """In that folder, without a server, without measuring; the model is loaded once."""
    monkeypatch.chdir(place)
    load, ready = neurogame.nli.load, system("mean")

    def remembered(model=None, **options):
        plain = options.get("label_names") is None and options.get("device") in (None, "cpu")
        plain = plain and options.get("backend", "torch") == "torch"
        return ready if model in (None, "model") and plain else load("model" if model is None else model, **options)

    monkeypatch.setattr(neurogame.nli, "load", remembered)

    def served(*_, **__):
        raise ValueError("what takes long is not done here")

    for place in ("serving.server.serve", "export.export"):
        monkeypatch.setattr(f"neurogame.{place}", served)
    for name in ("attention", "values", "couplings", "throughput", "explanations"):
        monkeypatch.setattr(f"neurogame_bench.{name}.run", served)


files = st.sampled_from(["pairs.csv", "pairs.csv", "odd.jsonl", "empty.tsv", "bytes.csv", "nothing.csv", "model"])
models = st.sampled_from(["model", "model", "nothing", "./nothing", "pairs.csv", ""])
labels = st.sampled_from(LABELS)
whole = st.integers(-2, 40).map(str)
OPTIONS = {
    "ground": {
        "--data": st.sampled_from(["pairs.csv", "nothing.csv", "toy/dev"]),
        "--coalitions": st.sampled_from(["3", "0", "x"]),  # none that fits: fitting takes a minute
        "--removal": st.sampled_from(["delete", "hide"]),
        "--json": None,
    },
    "explain": {
        "--model": models,
        "--method": st.sampled_from(["decision", "occlusion", "random", "game"]),
        "--target": labels,
        "--contrast": labels,
        "--level": st.sampled_from(["word", "token"]),
        "--samples": whole,
        "--seed": whole,
        "--column": st.sampled_from(["premise=premise", "label=x", "premise="]),
        "--limit": whole,
        "--resume": None,
        "--kind": st.sampled_from(["sentence", "matrix"]),
        "--model-labels": st.sampled_from(["a,b,c", "e,n,c", "a"]),
        "--device": st.sampled_from(["cpu", "warp"]),
        "--json": None,
    },
    "predict": {
        "--model": models,
        "--batch-size": whole,
        "--model-labels": st.sampled_from(["a,b,c", "e,n,c", "a"]),
        "--device": st.sampled_from(["cpu", "warp"]),
        "--column": st.sampled_from(["premise=premise", "label=x", "premise="]),
        "--backend": st.sampled_from(["torch", "onnx", "x"]),
        "--shard": st.sampled_from(["1/2", "0/0", "x"]),
        "--strict": None,
        "--resume": None,
        "--json": None,
    },
    "export": {
        "--format": st.sampled_from(["onnx", "tflite"]),
        "--quantize": st.sampled_from(["int8", "int1"]),
        "--with": st.sampled_from(["values", "couplings,values", "x"]),
        "--samples": whole,
        "--seed": whole,
        "--model-labels": st.sampled_from(["a,b,c", "e,n,c", "a"]),
        "--json": None,
    },
    "evaluate": {
        "--data": files,
        "--calibrate": files,
        "--bins": whole,
        "--batch-size": whole,
        "--seed": whole,
        "--limit": whole,
        "--label-names": st.sampled_from(["e,n,c", "a", ""]),
        "--skip-malformed": None,
        "--markdown": None,
        "--json": None,
    },
    "train": {
        "--config": st.sampled_from(["run.yaml", "bad.yaml", "pairs.csv", "nothing.yaml"]),
        "--set": st.sampled_from(["training.epochs=1", "a.b=c", "seed=x", "=", "name=../x"]),
        "--check": None,
        "--resume": None,
        "--json": None,
    },
    "serve": {"--model": models, "--port": whole, "--host": arguments},
    "benchmark": {"--json": None, "--repetitions": whole, "--longest": whole, "--pairs": whole, "--limit": arguments},
    "example": {"--json": None},
    "info": {"--json": None},
}
POSITIONS = {
    "explain": st.one_of(st.tuples(arguments, arguments), st.tuples(files), st.tuples(names)),
    "predict": st.tuples(files | names),
    "evaluate": st.lists(models, max_size=2).map(tuple),
    "export": st.lists(models, max_size=1).map(tuple),
    "benchmark": st.tuples(st.sampled_from(["attention", "values", "couplings", "throughput", "explanations"])),
}


@st.composite
def commands(draw, verb):
    """A command line of a verb: mostly possible, one value in six anything at all."""
    found = [verb, *draw(POSITIONS.get(verb, st.just(())))]
    for option in draw(st.lists(st.sampled_from(sorted(OPTIONS[verb])), max_size=4, unique=True)):
        value = OPTIONS[verb][option]
        found.append(option)
        if value is not None:
            found.append(draw(names if draw(st.integers(0, 5)) == 0 else value))
    if verb == "evaluate" and "--data" not in found:
        found += ["--data", "pairs.csv"]
    if draw(st.integers(0, 9)) == 0:
        found.insert(draw(st.integers(1, len(found))), draw(names))
    return found


def check(command):
    """What holds of every command."""
    inputs[f"cli {command[0] if command[0] in OPTIONS else 'anything'}"] += 1
    result = runner.invoke(app, command)
    assert result.exception is None or isinstance(result.exception, SystemExit), (command, result.exception)
    assert result.exit_code in (0, 1, 2), command
    assert "Traceback" not in result.stderr
    if result.exit_code == 1:
        last = result.stderr.splitlines()[-1]
        assert last.startswith(f"neurogame {command[0]}"), (command, result.stderr)
        assert not any(category(c) == "Cc" for c in last)
    if result.exit_code == 0 and "--json" in command and "--help" not in command and "--" not in command:
        for text in [result.stdout] if result.stdout.startswith("{\n") else result.stdout.splitlines():
            json.loads(text)


def test_every_verb_is_tried():
    groups = {group.name for group in app.registered_groups}
    assert {command.callback.__name__ for command in app.registered_commands} | groups == set(OPTIONS)


@given(commands("explain"))
@fuzz(2)
def test_explain(place, command):
    if len(command) > 2 and command[1] == "pairs.csv":
        return  # files are explained in `test_explain_file`: a folder each
    check(command)


@given(commands("predict"))
@fuzz()
def test_predict(command):
    check(command)


@given(commands("evaluate"))
@fuzz()
def test_evaluate(command):
    check(command)


@given(commands("train"))
@fuzz()
def test_train(command):
    check(command)


@given(commands("serve") | commands("benchmark") | commands("export"))
@fuzz()
def test_what_takes_long(command):
    check(command)


@given(commands("ground"))
@fuzz(0.5)
def test_ground(command):
    check([*command, "--coalitions", "3"])  # which is odd and refused: fitting takes a minute


@given(commands("info") | commands("example") | st.lists(arguments, max_size=4).filter(bool))
@fuzz(0.5)
def test_anything(command):
    if command[0] not in OPTIONS:
        command = ["--", *command] if command[0] in ("--install-completion", "--show-completion") else command
    check(command)
