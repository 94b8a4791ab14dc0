"""The command line: results on stdout alone, one line for a mistake, exit 0, 1 or 2."""

import csv
import errno
import json
import os
import pty
import subprocess
import sys

import pytest
import tiny
from typer.testing import CliRunner

import neurogame
from neurogame.cli import app, common
from neurogame.labels import LABELS
from neurogame.modeling.baselines.dam import DamForSequenceClassification
from neurogame.modeling.baselines.word_tokenizer import build_tokenizer
from neurogame.nli import NLI

runner = CliRunner()


def test_example_prints_the_tables():
    result = runner.invoke(app, ["example"])
    assert result.exit_code == 0
    for words in ("Shapley", "algorithm1", "paired", "TAP", "0.7667", "0.711", "0.7858", "0.721"):
        assert words in result.stdout


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_json_is_not_printed_as_json(number):
    with pytest.raises(ValueError, match="not JSON compliant"):
        common.safe_json({"share": number})


def test_example_as_json():
    result = runner.invoke(app, ["example", "--json"])
    found = json.loads(result.stdout)
    assert found["exact"]["shapley"] == pytest.approx([31 / 60, 46 / 60, 31 / 60])
    assert [(row["estimator"], row["requested_samples"]) for row in found["estimates"]] == [
        (name, K) for name in ("algorithm1", "paired") for K in (3, 25, 1000)
    ]
    last = {row["estimator"]: row for row in found["estimates"] if row["requested_samples"] == 1000}
    assert last["paired"]["shapley_error"] < 0.01 < 0.05 < last["algorithm1"]["shapley_error"]


def test_narrow_terminals(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert runner.invoke(app, ["example"]).exit_code == 0


def test_usage():
    assert runner.invoke(app, ["--version"]).stdout.strip() == f"neurogame {neurogame.__version__}"
    assert runner.invoke(app, ["nothing"]).exit_code == 2
    assert runner.invoke(app, ["example", "--nothing"]).exit_code == 2
    assert "example" in runner.invoke(app, ["--help"]).stdout


def test_the_command_is_installed():
    result = subprocess.run(
        [sys.executable, "-W", "error", "-m", "neurogame", "--version"], capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_import_is_light():
    """Nothing of the test or benchmark extras is imported."""
    heavy = ("shapiq", "matplotlib", "pydantic", "datasets", "sklearn", "entmax", "tensorboard", "typer")
    code = f"import sys, neurogame; print(*[m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


# --- train, evaluate, predict: two tiny models and two small files ------------------------------------------------

ROWS = [
    (premise, hypothesis, label)
    for premise, *hypotheses in [
        ("A potter shapes a bowl.", "Someone shapes a bowl.", "The bowl is a gift.", "Nobody shapes a bowl."),
        ("Two ducks cross a road.", "Ducks cross a road.", "The ducks are tired.", "The ducks stay where they are."),
        ("A judge reads a letter.", "A letter is read.", "The letter is from home.", "The judge has no letter."),
        ("Snow covers the field.", "The field is covered.", "It snowed at night.", "The field is bare."),
    ]
    for hypothesis, label in zip(hypotheses, LABELS, strict=True)
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Models `one`, `two` and `unnamed`; first.csv, second.jsonl; read only."""
    place = tmp_path_factory.mktemp("cli")
    words = build_tokenizer([text for premise, hypothesis, _ in ROWS for text in (premise, hypothesis)], max_length=32)
    for seed, name in enumerate(("one", "two", "unnamed")):
        options = {"id2label": {i: f"LABEL_{i}" for i in range(3)}} if name == "unnamed" else {}
        model = DamForSequenceClassification.from_words(words, embedding_size=16, hidden_size=16, seed=seed, **options)
        NLI(model, words).save_pretrained(place / name / "model" if name == "one" else place / name)
    with (place / "first.csv").open("w", newline="") as file:
        rows = [("id", "premise", "hypothesis", "label"), *((i, *row) for i, row in enumerate(ROWS))]
        csv.writer(file).writerows(rows)
    names = ("sentence1", "sentence2", "gold_label")
    (place / "second.jsonl").write_text(
        "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in ROWS[:9])
    )
    return place


def run(*arguments, code=0, **options):
    """The result of a command that must end with `code`, without a traceback."""
    result = runner.invoke(app, [str(argument) for argument in arguments], **options)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.stderr
    assert "Traceback" not in result.stderr
    return result


def fails(*arguments):
    """The one line that a failing command prints; on stderr, with nothing on stdout."""
    result = run(*arguments, code=1)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"neurogame {arguments[0]}: ")
    return result.stderr


@pytest.fixture
def evaluated(place):
    """`evaluate` of the first model on the first file, with more arguments."""
    return lambda *more, **options: run(
        "evaluate", place / "one" / "model", "-d", place / "first.csv", *more, **options
    )


def test_evaluate_several_models_on_several_sets(place):
    result = run(
        "evaluate",
        place / "one" / "model",
        place / "two",
        "-d",
        place / "first.csv",
        "-d",
        place / "second.jsonl",
        "--json",
    )
    rows = json.loads(result.stdout)["rows"]  # nothing else is on stdout
    assert [(row["model"], row["data"], row["n"]) for row in rows] == [
        ("one", "first", 12),
        ("one", "second", 9),
        ("two", "first", 12),
        ("two", "second", 9),
    ]
    for row in rows:
        path = place / "one" / "model" if row["model"] == "one" else place / "two"
        pairs = ROWS if row["data"] == "first" else ROWS[:9]
        said = neurogame.load(path).predict([(premise, hypothesis) for premise, hypothesis, _ in pairs])
        right = sum(p.label == label for p, (_, _, label) in zip(said, pairs, strict=True))
        assert row["scores"]["accuracy"] == pytest.approx(right / len(pairs))
    assert [[comparison["against"] for comparison in row["comparisons"]] for row in rows] == [[], [], ["one"], ["one"]]


def test_evaluate_as_table_and_markdown(evaluated):
    for more, mark in (((), "━"), (("--markdown",), "|")):
        result = evaluated(*more)
        assert all(word in result.stdout for word in ("one", "first", "accuracy", mark))
        assert result.stderr == ""
    evaluated("--markdown", "--json", code=2)


def compared(*arguments):
    """Whom each row of an evaluation is compared with."""
    rows = json.loads(run("evaluate", *arguments, "--json").stdout)["rows"]
    return [[comparison["against"] for comparison in row["comparisons"]] for row in rows]


def test_evaluate_saves_and_compares_with_what_was_saved(place, tmp_path):
    data, folder = ("-d", place / "first.csv"), tmp_path / "saved"
    named = place / "unnamed", "--model-labels", ",".join(LABELS), *data
    saved = run("evaluate", *named, "-o", folder, "--figure", tmp_path / "report.png", "--json")
    assert json.loads(saved.stdout)["rows"][0]["model"] == "unnamed"
    assert str(folder) in saved.stderr
    files = ["predictions-first.jsonl", "report.json", "report.md"]
    assert sorted(path.name for path in folder.iterdir()) == files
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
    assert compared(place / "two", *data, "--against", folder) == [["unnamed"]]
    both = place / "two", place / "one" / "model"
    assert compared(*both, *data, "--against", folder) == [["unnamed"], ["unnamed", "two"]]
    assert "already holds" in fails("evaluate", place / "two", *data, "-o", folder)
    (tmp_path / "third").symlink_to(place / "two")
    assert compared(*both, tmp_path / "third", *data) == [[], ["two"], ["two"]]  # each with the first


def test_evaluate_reads_as_it_is_told(place, tmp_path):
    model = place / "one" / "model"
    path = tmp_path / "odd.csv"
    numbers = {"contradiction": 0, "entailment": 1, "neutral": 2}
    rows = [(premise, hypothesis, numbers[label]) for premise, hypothesis, label in ROWS]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("a", "b", "c"), *rows, ("too", "short")])
    columns = [part for option in ("premise=a", "hypothesis=b", "label=c") for part in ("--column", option)]
    names = "--label-names", "contradiction, entailment,neutral"
    assert "3: " not in fails("evaluate", model, "-d", path, *columns, *names)  # the line that is named is the last
    odd = run("evaluate", model, "-d", path, *columns, *names, "--skip-malformed", "--json")
    assert odd.stderr.endswith("1 malformed row skipped\n")
    plain = run("evaluate", model, "-d", place / "first.csv", "--json")
    (row,), (same,) = json.loads(odd.stdout)["rows"], json.loads(plain.stdout)["rows"]
    assert (row["n"], row["malformed"]) == (12, 1)
    assert row["scores"] == same["scores"]
    assert row["fingerprint"] == same["fingerprint"]
    first = run("evaluate", model, "-d", path, *columns, *names, "--limit", "5", "--json")
    assert json.loads(first.stdout)["rows"][0]["n"] == 5


def test_evaluate_calibrates(place, evaluated):
    row = json.loads(evaluated("--calibrate", place / "second.jsonl", "--bins", "5", "--json").stdout)["rows"][0]
    assert row["calibration"]["source"] == "fitted on second"
    assert row["scores"]["bins"] == 5


def test_files_of_the_same_name_are_told_apart(place, tmp_path):
    again = tmp_path / "first.csv"
    again.write_text("".join((place / "first.csv").read_text().splitlines(keepends=True)[:7]))
    result = run("evaluate", place / "two", "-d", place / "first.csv", "-d", again, "--json")
    assert [(row["data"], row["n"]) for row in json.loads(result.stdout)["rows"]] == [
        (str(place / "first.csv"), 12),
        (str(again), 6),
    ]


def test_models_of_the_same_name_are_told_apart(place, tmp_path):
    (tmp_path / "two").symlink_to(place / "two")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "model").symlink_to(place / "two")
    models = place / "two", tmp_path / "two"
    result = run("evaluate", *models, "-d", place / "first.csv", "--json")
    assert [row["model"] for row in json.loads(result.stdout)["rows"]] == ["two", str(tmp_path / "two")]
    run("evaluate", place / "two", place / "two", "-d", place / "first.csv", code=2)


def test_evaluate_mistakes(place, tmp_path):
    model, data = place / "two", place / "first.csv"
    (tmp_path / "file").write_text("")
    (tmp_path / "file.png").write_text("")
    for arguments, message in [
        ((model, "-d", tmp_path / "absent.csv"), "absent.csv does not exist"),
        ((model, "-d", "snli/tset"), "snli/test"),
        ((model, "-d", "snli/dev", "--root", tmp_path), "snli/dev was not found"),
        ((tmp_path / "absent", "-d", data), "no model folder at"),
        ((place / "one", "-d", data), "did you mean"),
        ((place / "unnamed", "-d", data), "LABEL_0"),
        ((model, "--model-labels", "yes,no", "-d", data), "2 label names for 3 logits"),
        ((model, "-d", data, "--column", "premise=nothing"), "nothing"),
        ((model, "-d", data, "--figure", tmp_path / "report.pdf"), ".png or .svg"),
        ((model, "-d", data, "--figure", tmp_path / "file.png"), "exists already"),
        ((model, "-d", data, "-o", tmp_path / "file"), "is a file"),
        ((model, "-d", data, "--against", tmp_path), "no report.json"),
        ((model, "-d", data, "--calibrate", tmp_path / "absent.csv"), "does not exist"),
        ((model, "-d", data, "--device", "warp"), "device 'warp'"),
    ]:
        assert message in fails("evaluate", *arguments)
    for arguments in (
        (model,),
        (model, "-d", data, "--limit", "0"),
        (model, place / "unnamed", "-d", data, "--model-labels", "e,n,c"),  # which of them, and in whose order?
        (model, "-d", data, "--column", "premise"),
        (model, "-d", data, "--column", "text=premise"),
        (model, "-d", data, "--column", "premise=a", "--column", "premise=b"),
    ):
        assert run("evaluate", *arguments, code=2).stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "file.png"]


def test_predict(place, tmp_path):
    said = neurogame.load(place / "two").predict([row[:2] for row in ROWS])
    data = place / "first.csv", "-m", place / "two"
    text = run("predict", *data)
    assert [line.split("\t")[0] for line in text.stdout.splitlines()] == [p.label for p in said]
    assert text.stderr == "12 pairs labelled\n"
    rows = [json.loads(line) for line in run("predict", *data, "--json").stdout.splitlines()]
    assert [(row["id"], row["gold"], row["label"]) for row in rows] == [
        (str(i), row[2], p.label) for i, (row, p) in enumerate(zip(ROWS, said, strict=True))
    ]
    piped = run("predict", "-", "-m", place / "two", "--json", input=(place / "first.csv").read_text())
    assert [json.loads(line) for line in piped.stdout.splitlines()] == rows

    written = run("predict", *data, "-o", tmp_path / "out.csv")
    assert (written.stdout, written.stderr) == ("", "12 pairs labelled\n")
    with (tmp_path / "out.csv").open(newline="") as file:
        assert [row["label"] for row in csv.DictReader(file)] == [p.label for p in said]
    counted = run("predict", *data, "-o", tmp_path / "out.jsonl", "--json")
    assert json.loads(counted.stdout)["pairs"] == 12
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == rows


def test_predict_malformed_rows(place, tmp_path):
    path = tmp_path / "spoilt.jsonl"
    path.write_text('{"a": "Ducks.", "b": "A road."}\n{"a": "Ducks."}\n')
    columns = "--column", "premise=a", "--column", "hypothesis=b"
    result = run("predict", path, "-m", place / "two", *columns, "--json")
    assert json.loads(result.stdout)["premise"] == "Ducks."
    first, second = result.stderr.splitlines()
    assert first == "1 pair labelled, 1 malformed row skipped"
    assert second.startswith(f"{path}:2: ")
    strict = run("predict", path, "-m", place / "two", *columns, "--strict", code=1)
    assert f"neurogame predict: {path}:2: " in strict.stderr


def test_predict_names_the_labels_of_a_model_that_cannot(place):
    data = place / "first.csv", "-m", place / "unnamed"
    plain = run("predict", *data).stdout.splitlines()
    named = run("predict", *data, "--model-labels", "neutral,c,e").stdout.splitlines()
    names = dict(zip(("LABEL_0", "LABEL_1", "LABEL_2"), ("neutral", "contradiction", "entailment"), strict=True))
    assert named == [names[line.partition("\t")[0]] + line[len("LABEL_0") :] for line in plain]


def test_predict_mistakes(place, tmp_path):
    model, data = place / "two", place / "first.csv"
    (tmp_path / "there.csv").write_text("mine")
    (tmp_path / "text.csv").write_text("one,two\na,b\n")
    for arguments, message in [
        ((tmp_path / "absent.csv", "-m", model), "does not exist"),
        ((data, "-m", tmp_path / "absent"), "no model folder"),
        ((data, "-m", place / "one"), "did you mean"),
        ((data, "-m", model, "-o", tmp_path / "there.csv"), "exists already"),
        ((data, "-m", model, "-o", tmp_path / "out.txt"), "'.txt'"),
        ((data, "-m", model, "-o", tmp_path / "absent" / "out.csv"), "does not exist"),
        ((tmp_path / "text.csv", "-m", model, "-o", tmp_path / "out.csv"), "no column for premise and hypothesis"),
        ((tmp_path / "text.csv", "-m", model, "--json"), "no column for premise and hypothesis"),
    ]:
        assert message in fails("predict", *arguments)
    for arguments in (("-m", model), (data, "-m", model, "--column", "x"), (data, "-m", model, "--bogus")):
        assert run("predict", *arguments, code=2).stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.csv", "there.csv"]


def test_train_checks(place, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(
        f"name: tiny\noutput: {tmp_path / 'runs'}\nmodel: {{kind: dam}}\n"
        f"data: {{train: {place / 'first.csv'}, dev: {place / 'second.jsonl'}}}\n"
    )
    result = run("train", "-c", path, "--check")
    assert result.stdout.splitlines() == [
        "first: 12 pairs (entailment 4, neutral 4, contradiction 4)",
        "second: 9 pairs (entailment 3, neutral 3, contradiction 3)",
    ]
    assert result.stderr == ""
    found = json.loads(run("train", "-c", path, "--check", "--json", "--set", "data.limit=5").stdout)
    assert (found["first"]["pairs"], found["second"]["pairs"]) == (5, 9)
    assert not (tmp_path / "runs").exists()
    for arguments, message in [
        (("-c", tmp_path / "absent.yaml"), "absent.yaml"),
        (("-c", path, "--check", "--set", "training.epoch=2"), "training.epoch"),
        (("-c", path, "--check", "--set", "data.train=absent.csv"), "absent.csv does not exist"),
        (("-c", path, "--check", "--set", "nonsense"), "expected key=value"),
        (("-c", path, "--resume"), "nothing to resume"),
    ]:
        assert message in fails("train", *arguments)
    run("train", "--check", code=2)


@pytest.mark.parametrize("verb", ["train", "evaluate", "predict"])
def test_help_names_every_option(verb):
    result = run(verb, "--help", env={"COLUMNS": "200", "TERM": "dumb"})
    command = next(command for command in app.registered_commands if command.callback.__name__ == verb)
    assert command.callback.__doc__.splitlines()[0] in result.stdout
    options = [line for line in result.stdout.splitlines() if " --" in line]
    assert len(options) >= 5
    assert all(line.rstrip(" │").endswith((".", "]", "…", "exit.")) for line in options)  # each is explained


def test_results_do_not_follow_the_progress_bar_to_a_terminal(place):
    """With stderr a terminal, a live display is on; stdout is a pipe, and gets the results none the less."""
    terminal, side = pty.openpty()
    command = [sys.executable, "-m", "neurogame", "predict", "-", "-m", str(place / "two"), "--json"]
    capable = {**os.environ, "TERM": "xterm"}  # a dumb one gets no live display
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": side, "env": capable}
    with subprocess.Popen(command, **pipes) as process:
        os.close(side)
        out, _ = process.communicate((place / "first.csv").read_bytes(), timeout=300)
        shown = b""
        while True:
            try:
                chunk = os.read(terminal, 4096)
            except OSError:  # how Linux says that the other side has been closed
                break
            if not chunk:
                break
            shown += chunk
    os.close(terminal)
    assert process.returncode == 0
    assert [json.loads(line)["premise"] for line in out.decode().splitlines()] == [premise for premise, _, _ in ROWS]
    assert b"predict" in shown  # the bar
    assert b"12 pairs labelled" in shown
    assert b"premise" not in shown


def test_a_reader_that_has_seen_enough_is_no_error(place, monkeypatch):
    """`neurogame predict … | head`: no traceback, no complaint."""

    def closed(*arguments):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("neurogame.prediction._text_lines", closed)
    assert run("predict", place / "first.csv", "-m", place / "two", code=1).stderr == ""


def test_interrupted(place, monkeypatch):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(NLI, "predict", stop)
    assert (
        run("predict", place / "first.csv", "-m", place / "two", code=130).stderr == "neurogame predict: interrupted\n"
    )


# --- grounded games -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grounded(tmp_path_factory):
    """A folder whose classifier is a game."""
    folder = tmp_path_factory.mktemp("grounded") / "game"
    NLI(tiny.game_model(), tiny.tokenizer()).save_pretrained(folder)
    return folder


def test_no_check_leaves_it_at_one_pass(grounded):
    command = ("explain", *tiny.PAIRS[1], "--model", grounded, "--json")
    checked, alone = (json.loads(run(*command, *more).stdout)["diagnostics"] for more in ((), ("--no-check",)))
    assert (alone["checked"], alone["check_passes"], alone["encoder_passes"]) == (False, 0, 1)
    assert checked["checked"] is True
    assert checked["encoder_passes"] == 1 + checked["check_passes"] > 1


def test_error_stops_refining(grounded):
    command = ("explain", *tiny.PAIRS[3], "--model", grounded, "--json", "--no-check", "--samples", 400)
    whole, early = (json.loads(run(*command, *more).stdout)["diagnostics"] for more in ((), ("--error", 10)))
    assert whole["refined"] is early["refined"] is True
    assert early["passes"] < whole["passes"] <= 400
    assert early["reached"] is True
    assert max(early["shapley_se"]) <= 10
    assert "error must be a number > 0" in fails("explain", *tiny.PAIRS[3], "--model", grounded, "--error", -1)
