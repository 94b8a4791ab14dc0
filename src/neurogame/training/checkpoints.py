"""The checkpoints of a run, `checkpoint-STEP`: one that has its name is whole.

It is written under `unfinished/` and moved out when all of it is on the disk; one that is deleted is moved in first. So
a run can be killed at any moment, and what is in the way of the next is in one folder.
"""

import shutil
from pathlib import Path

from neurogame.writing import sync, sync_folder

UNFINISHED = "unfinished"


def checkpoints(folder: Path) -> list[Path]:
    """The newest last."""
    steps = {path: path.name.removeprefix("checkpoint-") for path in folder.glob("checkpoint-*")}
    return sorted((path for path, step in steps.items() if step.isdecimal()), key=lambda path: int(steps[path]))


def finished(folder: Path, step: int, keep: int) -> None:
    """Everything of a checkpoint has been written: give it its name, and only then delete all but the last `keep`."""
    aside, name = folder / UNFINISHED, f"checkpoint-{step}"
    sync_folder(aside / name)
    if (folder / name).exists():
        (folder / name).rename(aside / f"{name}.old")
    (aside / name).rename(folder / name)
    sync(folder)
    for path in checkpoints(folder)[:-keep]:
        path.rename(aside / f"{path.name}.older")  # gone in one step, as far as anybody can see
    delete_unfinished(folder)


def delete_unfinished(folder: Path) -> None:
    """What was cut off while it was written or deleted."""
    shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
