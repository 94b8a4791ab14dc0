"""A run that is resumed: no code in its files is run, and a checkpoint that is not whole is named in one line."""

import os
import pickle
import shutil

import pytest
import torch
from test_safe_loading import DAMAGE, WEIGHTS, Bomb, changed, mark, text, weights  # noqa: F401  mark is a fixture
from test_training import workshop  # noqa: F401  a fixture

from neurogame.training import TrainingError, read_config, train
from neurogame.training.config import dump_config, parse_config


@pytest.fixture(scope="module")
def interrupted(workshop, tmp_path_factory):  # noqa: F811
    """A run with one whole checkpoint, as a kill leaves it."""

    def configured(output):
        return parse_config(
            {
                "name": "run",
                "output": str(output),
                "model": {"encoder": workshop.still, "head": "mean"},
                "data": {"train": workshop.train, "dev": workshop.dev, "max_length": 40},
                "training": {"batch_size": 8, "epochs": 2, "tensorboard": False, "ema": 0.9},
            }
        )

    output = tmp_path_factory.mktemp("run") / "whole"
    train(configured(output), show_progress=False)
    (output / "metrics.json").unlink()
    shutil.rmtree(output / "checkpoints" / "checkpoint-6")
    shutil.copytree(output / "model", output / "best")
    return output


@pytest.fixture
def run(interrupted, tmp_path):
    """A copy of it, with its configuration and its checkpoint."""
    output = shutil.copytree(interrupted, tmp_path / "run")
    found = read_config(output / "config.yaml")
    found = found.model_copy(update={"output": str(output)})
    (output / "config.yaml").write_text(dump_config(found))
    return found, output / "checkpoints" / "checkpoint-3"


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth", "scaler.pt"])
@pytest.mark.parametrize("form", ["torch", "plain"])
def test_code_in_the_files_of_a_run_is_not_run(run, mark, name, form):  # noqa: F811
    found, folder = run
    if form == "torch":
        torch.save({"state": Bomb(mark)}, folder / name)
    else:
        (folder / name).write_bytes(pickle.dumps(Bomb(mark), protocol=2))
    # without a scaler, a scaler's file is found out later
    message = "a pickle of other than tensors, which was not run" if name != "scaler.pt" else "cannot be resumed from"
    with pytest.raises(TrainingError, match=message) as caught:
        train(found, resume=True, show_progress=False)
    assert "\n" not in str(caught.value)


def test_arguments_and_pickled_weights_of_a_run_are_not_read(run, mark):  # noqa: F811
    found, folder = run
    for name in ("training_args.bin", "pytorch_model.bin", "model.bin"):
        torch.save(Bomb(mark), folder / name)
    assert train(found, resume=True, show_progress=False)["steps"] == 6


RESUMED = {
    "weights as a pickle": lambda folder: (folder / WEIGHTS).rename(folder / "pytorch_model.bin"),
    "half of the weights": DAMAGE["half of the weights"],
    "a weight less": weights(lambda found: found.pop("classifier.out.bias")),
    "a weight of another shape": weights(lambda found: found.update({"classifier.out.bias": torch.zeros(2)})),
    "no training weights": lambda folder: (folder / "training_weights.safetensors").unlink(),
    "optimizer cut short": lambda folder: os.truncate(folder / "optimizer.pt", 100),
    "optimizer of nothing": lambda folder: os.truncate(folder / "optimizer.pt", 0),
    "optimizer of another model": lambda folder: torch.save({"state": {}, "param_groups": []}, folder / "optimizer.pt"),
    "optimizer that is a list": lambda folder: torch.save([1], folder / "optimizer.pt"),
    "rng of nothing": lambda folder: torch.save({}, folder / "rng_state.pth"),
    "state cut short": lambda folder: os.truncate(folder / "trainer_state.json", 40),
    "state that is a list": text("trainer_state.json", "[]"),
    "state with a key too many": lambda folder: changed(folder / "trainer_state.json", magic=1),
    "no state": lambda folder: (folder / "trainer_state.json").unlink(),
}


@pytest.mark.parametrize("damage", RESUMED)
def test_a_damaged_checkpoint_ends_a_resumed_run_in_one_line(run, damage):
    found, folder = run
    RESUMED[damage](folder)
    with pytest.raises(TrainingError, match="cannot be resumed from") as caught:
        train(found, resume=True, show_progress=False)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)
