"""Training that is killed again and again, or finds the disk full, and is resumed as a user would, ends as if nothing
had happened: the same parameters to the bit, the same history, the same folder."""

import json
import os
from types import SimpleNamespace

import faults
import pytest
import torch
from safetensors.torch import load_file
from test_training import distance, workshop  # noqa: F401  a fixture
from test_training_run import ALL_ON, history, written

from neurogame.cli import app
from neurogame.training import train
from neurogame.training.checkpoints import checkpoints
from neurogame.training.config import parse_config
from neurogame.training.trainer import TRAINING_WEIGHTS

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="faults are made with what Linux has")
SETTINGS = {**ALL_ON, "epochs": 1, "milestones": [0.5], "checkpoint_every": 2, "evaluate_every": 3, "keep": 2}
LAST = 6  # steps


def command(config):
    """`neurogame train`, with --resume where a run has begun."""
    begun = (config.folder / "config.yaml").exists()
    words = ["train", "--config", written(config), *(["--resume"] if begun else [])]
    return lambda: app(words)


def check_what_is_there(config):
    """Every file that has its name is whole; returns the step of the last checkpoint."""
    whole = checkpoints(config.folder / "checkpoints")
    for folder in whole:
        names = {path.name for path in folder.iterdir()}
        assert {"config.json", "model.safetensors", TRAINING_WEIGHTS, "optimizer.pt", "scheduler.pt"} <= names
        for name in ("model.safetensors", TRAINING_WEIGHTS):
            load_file(folder / name)
        torch.load(folder / "optimizer.pt", weights_only=True)
        step = json.loads((folder / "trainer_state.json").read_text())["global_step"]
        assert folder.name == f"checkpoint-{step}"
    for name in ("best", "model"):
        if (config.folder / name / "config.json").exists():
            load_file(config.folder / name / "model.safetensors")
    if (config.folder / "metrics.json").exists():
        json.loads((config.folder / "metrics.json").read_text())
    return int(whole[-1].name.rpartition("-")[2]) if whole else 0


def outcome(config):
    """What a finished run is: parameters, history, figures, names of files."""
    metrics = json.loads((config.folder / "metrics.json").read_text())
    folder = config.folder / "checkpoints" / f"checkpoint-{LAST}"
    files = (folder / "model.safetensors", folder / TRAINING_WEIGHTS, config.folder / "model" / "model.safetensors")
    names = {str(path.relative_to(config.folder)) for path in config.folder.rglob("*")}
    rows = [(row["scores"], row["calibration"]) for row in metrics["evaluation"]["rows"]]
    said = {"history": history(metrics), "rows": rows, "temperature": metrics["temperature"], "steps": metrics["steps"]}
    return [load_file(file) for file in files], said, names


def same(config, expected):
    weights, said, names = outcome(config)
    assert all(distance(ours, theirs) == 0.0 for ours, theirs in zip(weights, expected[0], strict=True))
    assert said == expected[1]
    assert names == expected[2]


def kill_and_resume(runs, moments):
    """One run after the other, killed at each of these moments in turn and resumed; all must end alike."""
    left, config, step = list(moments), runs.new(), 0
    while True:
        begun = (config.folder / "config.yaml").exists()
        ended = faults.run(command(config), **(left[0] if left else {}))
        over = (config.folder / "metrics.json").exists()
        assert ended.killed or ended.code == 0 or "has ended" in ended.err, ended.err
        found = check_what_is_there(config)
        assert found >= step, "a checkpoint that was there is gone"
        step = found
        fresh = not begun and bool(left) and "at" in left[0]
        assert ended.killed or not fresh, f"a run has ended before change {left[0]['at']}: draw earlier ones"
        if ended.killed:
            left.pop(0)
        if over and not ended.killed:  # at its end, or resumed when everything was done but the tidying
            same(config, runs.expected)
            if not left:
                return
            config, step = runs.new(), 0


@pytest.fixture(scope="module")
def runs(workshop, tmp_path_factory):  # noqa: F811
    """`runs.new()`: a run that has not begun, in a folder of its own; `runs.whole`: one that nobody interrupted."""
    root = tmp_path_factory.mktemp("runs")

    def new(folder=root):
        content = {
            "name": "run",
            "output": str(folder / f"run{len(list(folder.glob('*.yaml')))}"),
            "model": {"encoder": workshop.encoder, "options": {"dropout": 0.2}},
            "data": {"train": workshop.train, "dev": workshop.dev, "max_length": 40},
            "training": {**SETTINGS, "tensorboard": False},
        }
        config = parse_config(content)
        written(config)
        return config

    whole = new()
    train(whole, show_progress=False)
    checkpoint = whole.folder / "checkpoints" / f"checkpoint-{LAST}"
    size = sum(path.stat().st_size for path in checkpoint.iterdir())
    weights = (checkpoint / "model.safetensors").stat().st_size
    return SimpleNamespace(new=new, whole=whole, expected=outcome(whole), size=size, weights=weights)


def test_three_kills(runs):
    """Early, and some time later; a run makes far more changes than that."""
    kill_and_resume(runs, [{"at": at} for at in faults.moments(0, 3, 90)])


@pytest.mark.slow
def test_twenty_kills(runs):
    """Ten before a change of the file system, ten by the clock."""
    config = runs.new()
    count = faults.changes(command(config))
    same(config, runs.expected)
    usual = faults.run(command(runs.new())).seconds
    moments = [{"at": at} for at in faults.moments(1, 10, count)]
    moments += [{"after": seconds} for seconds in faults.moments(2, 10, usual)]
    kill_and_resume(runs, moments)


def fails(config, **limits):
    """In one line, which says what could not be written."""
    failed = faults.run(command(config), **limits)
    assert failed.code == 1, failed.err
    assert "Traceback" not in failed.err
    *_, line = failed.err.splitlines()
    assert line.startswith("neurogame train: ")
    assert "cannot be written" in line
    return line


# The weights do not fit, or they do and what the optimiser has does not.
@pytest.mark.parametrize("part", [0.5, 1.5])
def test_a_full_disk(runs, part):
    config = runs.new()
    line = fails(config, file_size=int(part * runs.weights))
    assert "the checkpoint of step 2" in line
    assert line.endswith("--resume continues from the start")
    assert "File too large" in line or "is the disk full" in line
    assert check_what_is_there(config) == 0


def test_a_disk_that_fills_up(runs, tmp_path):
    """Room for one checkpoint and half of the next: the first stays, and is resumed from when there is more."""
    with faults.small_disk(tmp_path / "disk", int(1.6 * runs.size)) as disk:
        config = runs.new(disk)
        line = fails(config)
        assert "No space left on device" in line
        assert line.endswith("--resume continues from checkpoint-2")
        assert check_what_is_there(config) == 2
        faults.enlarge(disk, 10 * runs.size)
        assert faults.run(command(config)).code == 0
        same(config, runs.expected)
