"""Processes that torchrun and accelerate start: they share a file of predictions, or train one model."""

import json
import os
import subprocess
import sys

import pytest
from safetensors.torch import load_file
from test_prediction import PAIRS, model, write_csv  # noqa: F401  model: a fixture
from test_training import configure, distance, workshop  # noqa: F401  fixtures
from test_training_run import ALL_ON, history, last_weights, written
from typer.testing import CliRunner

from neurogame.cli import app
from neurogame.prediction import Shard, predict_file
from neurogame.training import train

TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc_per_node", "2")
ACCELERATE = ("accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1")
ROWS = 5000  # five chunks of the command line: three for the first process, two for the second


def launched(*command, **environment):
    """What a command of two processes, one core each, ends with."""
    return subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


# --- prediction -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(model, tmp_path_factory):  # noqa: F811
    """A model, rows, and what one process makes of them."""
    folder = tmp_path_factory.mktemp("place")
    model.save_pretrained(folder / "model")
    write_csv(folder / "rows.csv", [PAIRS[i * i % len(PAIRS)] for i in range(ROWS)])
    predict_file(model, folder / "rows.csv", folder / "alone.jsonl")
    return folder


def arguments(place, out, *more):
    return ("predict", place / "rows.csv", "-m", place / "model", "-o", out, *more)


def check_shared(process, place, folder):
    """One file, in order, and one account of it on stdout; each process says on stderr what it did."""
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["pairs"] == ROWS
    assert f"{ROWS} pairs labelled" in process.stderr
    assert process.stderr.count("the file waits for part") == 1
    assert (folder / "out.jsonl").read_bytes() == (place / "alone.jsonl").read_bytes()
    assert [path.name for path in folder.iterdir()] == ["out.jsonl"]


def test_the_processes_of_torchrun_share_a_file(place, tmp_path):
    out = tmp_path / "out.jsonl"
    check_shared(launched(*TORCHRUN, "-m", "neurogame", *arguments(place, out, "--json")), place, tmp_path)


@pytest.mark.slow
def test_the_processes_of_accelerate_share_a_file(place, tmp_path):
    """`--multi_gpu` is how accelerate starts several; on a machine without GPUs they stay on the CPU."""
    out = tmp_path / "out.jsonl"
    process = launched(*ACCELERATE, "-m", "neurogame", *arguments(place, out, "--json"))
    check_shared(process, place, tmp_path)


KILLED = """
import os, signal, sys
from neurogame.cli import app
from neurogame.jobs import parts
real = parts.Part.write

def write(part, mark, data):
    if os.environ["RANK"] == "1" and mark.chunk == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    real(part, mark, data)

parts.Part.write = write
app(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_process_of_torchrun_is_killed_and_all_go_on(place, tmp_path):
    script, folder = tmp_path / "killed.py", tmp_path / "goal"
    script.write_text(KILLED)
    folder.mkdir()
    out = folder / "out.jsonl"
    died = launched(*TORCHRUN, script, *arguments(place, out))
    assert died.returncode != 0
    assert not out.exists()
    again = launched(*TORCHRUN, "-m", "neurogame", *arguments(place, out, "--resume", "--json"))
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["pairs"] == ROWS
    assert out.read_bytes() == (place / "alone.jsonl").read_bytes()
    assert [path.name for path in folder.iterdir()] == ["out.jsonl"]


def test_a_process_knows_its_part_from_its_environment(place, tmp_path, monkeypatch):
    out, alone = tmp_path / "out.jsonl", CliRunner()
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, code in (("1", 0), ("0", 0)):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert not out.exists()
        result = alone.invoke(app, [str(text) for text in arguments(place, out, "--json")])
        assert result.exit_code == code, result.stderr
        assert (result.stdout == "") == (rank == "1")  # the last one to finish has the result
    assert out.read_bytes() == (place / "alone.jsonl").read_bytes()
    for more, message in (
        ((*arguments(place, out), "--shard", "1/2"), "the 2 processes of this launch share the file by themselves"),
        (("predict", place / "rows.csv", "-m", place / "model"), "--resume and --shard need -o FILE"),
        (("predict", "-", "-m", place / "model", "-o", tmp_path / "new.csv"), "- can be read only once"),
    ):
        result = alone.invoke(app, [str(text) for text in more])
        assert (result.exit_code, result.stdout) == (1, "")
        assert message in result.stderr


def test_parts_by_hand(place, tmp_path):
    """As on machines that know nothing of each other."""
    out = tmp_path / "out.jsonl"
    for part in ("2/2", "1/2"):
        result = CliRunner().invoke(app, [str(text) for text in arguments(place, out, "--shard", part)])
        assert result.exit_code == 0, result.stderr
    assert out.read_bytes() == (place / "alone.jsonl").read_bytes()
    assert Shard.parse("2/2") == Shard(2, 2)


# --- training ---------------------------------------------------------------------------------------------------

WATCHED = """
import os, signal, sys
import neurogame.training.run as runs
from neurogame.cli import app
from neurogame.training.trainer import NeuroGameTrainer

log, fatal, folder, rank = sys.argv[1], int(sys.argv[2]), sys.argv[3], os.environ["RANK"]

def note(text):
    with open(f"{log}/{rank}", "a") as file:
        file.write(text + "\\n")

def watched(name):
    real = getattr(runs, name)
    def call(*arguments, **options):
        note(name)
        return real(*arguments, **options)
    setattr(runs, name, call)

for name in ("_claim", "finish", "evaluate", "_write"):
    watched(name)

def opened(event, arguments):
    if event == "open" and str(arguments[0]).startswith(folder) and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
        note("open " + os.path.basename(str(arguments[0])))

sys.addaudithook(opened)
real = NeuroGameTrainer.training_step

def step(trainer, *arguments, **options):
    if rank == "1" and trainer.state.global_step == fatal:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(trainer, *arguments, **options)

NeuroGameTrainer.training_step = step
app(sys.argv[4:])
"""


@pytest.mark.slow
def test_two_processes_one_of_them_killed_train_what_one_trains(configure, workshop, tmp_path):  # noqa: F811
    """The effective batch is the same (two processes, or two micro-batches), so are the weights, within 1e-6.

    The first process evaluates and reports once; the second calls nothing of it, and opens no file there in Python.
    """
    settings = {**ALL_ON, "checkpoint_every": 2, "keep": 9}
    alone = configure(train=workshop.ragged, accumulation=2, **settings)
    shared = configure(train=workshop.ragged, **settings)
    expected = train(alone, show_progress=False)
    script, log, config = tmp_path / "watched.py", tmp_path / "log", written(shared)
    script.write_text(WATCHED)
    log.mkdir()

    died = launched(*TORCHRUN, script, log, 5, shared.folder, "train", "--config", config)
    assert died.returncode != 0
    assert not (shared.folder / "metrics.json").exists()
    again = launched(*TORCHRUN, script, log, -1, shared.folder, "train", "--resume", "--config", config)
    assert again.returncode == 0, again.stderr

    found = json.loads((shared.folder / "metrics.json").read_text())
    assert found["steps"] == expected["steps"] == 9
    assert distance(last_weights(shared), last_weights(alone)) < 1e-6
    models = [load_file(run.folder / "model" / "model.safetensors") for run in (shared, alone)]
    assert distance(*models) < 1e-6
    assert found["temperature"] == pytest.approx(expected["temperature"], abs=1e-3)
    for ours, theirs in zip(history(found), history(expected), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)
    assert sorted(path.name for path in shared.folder.iterdir()) == sorted(path.name for path in alone.folder.iterdir())
    said = (log / "0").read_text().splitlines()
    counts = {name: said.count(name) for name in ("_claim", "finish", "evaluate", "_write")}
    assert counts == {"_claim": 2, "finish": 1, "evaluate": 1, "_write": 1}
    assert any(line.startswith("open ") for line in said)
    assert not (log / "1").exists()


@pytest.mark.slow
def test_two_processes_stop_together(configure, workshop, tmp_path):  # noqa: F811
    """A schedule and a patience that hang on the dev accuracy, which both processes must agree on."""
    settings = {"epochs": 6, "batch_size": 4, "schedule": "plateau", "warmup": 0, "patience": 2, "learning_rate": 0.01}
    alone, shared = configure(accumulation=2, **settings), configure(**settings)
    expected = train(alone, show_progress=False)
    process = launched(*TORCHRUN, "-m", "neurogame", "train", "--config", written(shared), "--json")
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    assert found["steps"] == expected["steps"]
    rates = [
        [entry["learning_rate"] for entry in run["history"] if "learning_rate" in entry] for run in (found, expected)
    ]
    assert rates[0] == pytest.approx(rates[1])
    assert len(set(rates[0])) > 1
    accuracies = [[e["eval_accuracy"] for e in run["history"] if "eval_accuracy" in e] for run in (found, expected)]
    assert accuracies[0] == accuracies[1]


def test_a_second_run_in_a_folder_is_refused_by_the_first_process_alone(configure, monkeypatch):  # noqa: F811
    """The others wait for it to connect, and are ended by torchrun: none of them touches the folder."""
    from neurogame.training import run as runs

    config = configure()
    claimed = []
    monkeypatch.setattr(runs, "_claim", lambda *_, **__: claimed.append(os.environ["RANK"]))

    def fails(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "read_splits", fails)
    config.folder.mkdir()
    (config.folder / "kept").touch()
    for rank, left in (("1", True), ("0", False)):
        monkeypatch.setenv("RANK", rank)
        with pytest.raises(KeyboardInterrupt):
            train(config, show_progress=False)
        assert config.folder.exists() == left
    assert claimed == ["0"]
