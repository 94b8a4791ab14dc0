"""Files and folders that appear under their name only when they are whole.

Writes are atomic: a process that is killed, or finds the disk full, leaves what was there before, never half of a file.
Until then the new content is in a temporary file beside the goal, GOAL.PROCESS.RANDOM.new, one for each writer.
Temporary files of dead processes are removed by the next writer.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

UNWRITABLE = (OSError, RuntimeError, SafetensorError)  # what Python, torch and safetensors raise where there is no room


@contextmanager
def replaced(path: str | Path, *, new: bool = False, durable: bool = True) -> Iterator[Path]:
    """Yields a path to write a file to, which then takes the place of `path` in one step.

    A device or a pipe cannot be replaced, and is written to as it is; a link stays, and what it leads to is replaced.

    Args:
        path: where the file is to be; in a folder that is there.
        new: refuse to replace a file, even one that another process has just written: FileExistsError.
        durable: wait until it is on the disk; for one of thousands that can be made again it is not worth it.
    """
    given = Path(path)
    if given.exists() and (not given.is_file() or _is_open_already(given)):
        with named(given):
            yield given
        return
    goal = Path(os.path.realpath(given))
    fresh = _beside(goal, goal.parent)
    try:
        with named(given):
            yield fresh
            if goal.exists():
                shutil.copymode(goal, fresh)
            if durable:
                sync(fresh)
            if new:
                _link(fresh, goal)
            else:
                fresh.replace(goal)
            if durable:
                sync(goal.parent)
    finally:
        with suppress(OSError):  # a name that cannot be, which has been said
            fresh.unlink()


def write_text(path: str | Path, text: str, *, new: bool = False, durable: bool = True) -> None:
    """A text file, whole or not at all; options as in `replaced`."""
    with replaced(path, new=new, durable=durable) as fresh:
        fresh.write_text(text, encoding="utf-8")


@contextmanager
def filled(path: str | Path, last: str) -> Iterator[Path]:
    """Yields a folder to write files to, which then are those of `path`, a folder that is new or there already.

    Existing files that are not rewritten stay. In an existing folder the files are moved into place one by one,
    and until all are there the file `last`, which marks the folder as complete, is missing.
    """
    goal = Path(path)
    there = goal.is_dir()
    fresh = _beside(goal, goal if there else goal.parent)
    try:
        with named(goal):
            _sweep(goal, fresh.parent)
            fresh.mkdir(parents=True)
            yield fresh
            sync_folder(fresh)
            if there:
                _move(fresh, goal, last)
                sync(goal)
            else:
                fresh.rename(goal)
            sync(goal.parent)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def save_figure(figure: Any, path: str | Path, **options: Any) -> None:
    """A matplotlib figure as a file of the kind that its suffix says; its folder is made where it is missing."""
    goal = Path(path)
    goal.parent.mkdir(parents=True, exist_ok=True)
    with replaced(goal) as fresh:
        figure.savefig(fresh, format=goal.suffix[1:].lower(), **options)


@contextmanager
def named(goal: str | Path) -> Iterator[None]:
    """What goes wrong inside is one line that says what could not be written."""
    try:
        yield
    except (BrokenPipeError, FileExistsError):  # the reader closed the pipe; the file belongs to another process
        raise
    except UNWRITABLE as error:
        raise OSError(f"{goal} cannot be written: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """Why writing failed, in a few words; torch does not pass on what the system said."""
    said = str(getattr(error, "strerror", None) or " ".join(str(error).split()))[:200]
    vague = isinstance(error, RuntimeError) and "inline_container" in said
    return f"is the disk full, or a quota used up? ({said})" if vague else said


def sync(path: Path) -> None:
    """fsync: a file that has its name must survive a loss of power."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # a folder, on systems that do not open folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Everything in it."""
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def _beside(goal: Path, folder: Path) -> Path:
    """A name in `folder` for the temporary file of `goal`, unique to this call."""
    return folder / f"{goal.name}.{os.getpid()}.{secrets.token_hex(4)}.new"


def _sweep(goal: Path, folder: Path) -> None:
    """Remove temporary files of `goal` whose process has died."""
    ours = re.compile(re.escape(goal.name) + r"\.(\d+)\.[0-9a-f]{8}\.new")
    for path in folder.glob("*.new"):
        match = ours.fullmatch(path.name)
        if match and not _runs(int(match[1])):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _runs(process: int) -> bool:
    if os.name != "posix":  # elsewhere os.kill would kill it: temporary files stay there
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another process
        return True
    return True


def _is_open_already(path: Path) -> bool:
    """Whether it is a name of what a process has open, as /dev/stdout is, and no place to put a file."""
    return os.name == "posix" and path.absolute().parts[1] in ("dev", "proc")


def _link(fresh: Path, goal: Path) -> None:
    """Move `fresh` to `goal`, unless another process has created it."""
    try:
        goal.hardlink_to(fresh)
    except FileExistsError:
        raise FileExistsError(f"{goal} exists already") from None
    except OSError:  # a file system without links
        if goal.exists():
            raise FileExistsError(f"{goal} exists already") from None
        fresh.rename(goal)


def _move(fresh: Path, goal: Path, last: str) -> None:
    (goal / last).unlink(missing_ok=True)
    files = sorted((path for path in fresh.rglob("*") if path.is_file()), key=lambda path: path.name == last)
    for path in files:
        place = goal / path.relative_to(fresh)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.replace(place)
