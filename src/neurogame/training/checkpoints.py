"""The checkpoints of a run. A folder `checkpoint-STEP` is always complete, whenever the run is killed.

A checkpoint is written under `unfinished/` and moved out when all of it is on disk; it is moved in again before it is
deleted. So everything to clean up is in one folder.
"""

import shutil
from pathlib import Path

from neurogame._common.writing import sync, sync_folder

UNFINISHED = "unfinished"


def checkpoints(folder: Path) -> list[Path]:
    """All complete checkpoints, the newest last."""
    steps = {path: path.name.removeprefix("checkpoint-") for path in folder.glob("checkpoint-*")}
    return sorted((path for path, step in steps.items() if step.isdecimal()), key=lambda path: int(steps[path]))


def publish(folder: Path, step: int, keep: int) -> None:
    """Move the complete checkpoint of `step` out of `unfinished/`, and only then delete all but the last `keep`."""
    aside, name = folder / UNFINISHED, f"checkpoint-{step}"
    sync_folder(aside / name)
    if (folder / name).exists():
        (folder / name).rename(aside / f"{name}.old")
    (aside / name).rename(folder / name)
    sync(folder)
    for path in checkpoints(folder)[:-keep]:
        path.rename(aside / f"{path.name}.older")  # atomic: no half of it keeps its name
    delete_unfinished(folder)


def delete_unfinished(folder: Path) -> None:
    """Delete checkpoints whose writing or deletion was interrupted."""
    shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
