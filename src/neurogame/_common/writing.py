"""Atomic writes: files and folders that appear under their name only when they are complete.

A process that is killed, or finds the disk full, leaves the old content, never half of a file. Each writer has a
temporary file beside the goal, GOAL.PROCESS.RANDOM.new. The next writer removes temporary files of dead processes.
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

UNWRITABLE = (OSError, RuntimeError, SafetensorError)  # what Python, torch and safetensors raise where the disk is full


@contextmanager
def atomic_file(path: str | Path, *, new: bool = False, durable: bool = True) -> Iterator[Path]:
    """Yields a temporary path; what is written there replaces `path` in one step when the block ends without an error.

    A device or a pipe is written to directly; of a link, the file that it points to is replaced.

    Args:
        path: the file, in a folder that exists.
        new: raise FileExistsError instead of replacing a file, even one that another process has just written.
        durable: fsync; not worth its time for one of thousands of files that can be made again.
    """
    given = Path(path)
    if given.exists() and (not given.is_file() or _is_open_already(given)):
        with naming_errors(given):
            yield given
        return
    goal = Path(os.path.realpath(given))
    fresh = _beside(goal, goal.parent)
    try:
        with naming_errors(given):
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
        with suppress(OSError):  # an invalid name, which has been reported
            fresh.unlink()


def write_text(path: str | Path, text: str, *, new: bool = False, durable: bool = True) -> None:
    """Write a text file in UTF-8, complete or not at all; options are those of `atomic_file`."""
    with atomic_file(path, new=new, durable=durable) as fresh:
        fresh.write_text(text, encoding="utf-8")


@contextmanager
def atomic_folder(path: str | Path, last: str) -> Iterator[Path]:
    """Yields a temporary folder; its files become those of `path` when the block ends without an error.

    Existing files that are not rewritten stay. In an existing folder the files are moved into place one by one, `last`
    as the last: its presence says that the folder is complete.
    """
    goal = Path(path)
    exists = goal.is_dir()
    fresh = _beside(goal, goal if exists else goal.parent)
    try:
        with naming_errors(goal):
            _sweep(goal, fresh.parent)
            fresh.mkdir(parents=True)
            yield fresh
            sync_folder(fresh)
            if exists:
                _move(fresh, goal, last)
                sync(goal)
            else:
                fresh.rename(goal)
            sync(goal.parent)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def figure_format(path: str | Path) -> str:
    """The format of a figure by the suffix of its file: "png" or "svg"; any other is a ValueError."""
    name = Path(path).name
    if not name.lower().endswith((".png", ".svg")):
        raise ValueError(f"a figure is written as .png or .svg, got {name!r}")
    return name[-3:].lower()


def save_figure(figure: Any, path: str | Path, **options: Any) -> None:
    """Write a matplotlib figure as .png or .svg, without a date: the same figure gives the same file.

    A missing folder is created; `options` are those of `Figure.savefig`.
    """
    goal, kind = Path(path), figure_format(path)
    goal.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(goal) as fresh:
        figure.savefig(fresh, format=kind, metadata={"Date": None} if kind == "svg" else None, **options)


@contextmanager
def naming_errors(goal: str | Path) -> Iterator[None]:
    """Errors of writing become an OSError of one line that names the file."""
    try:
        yield
    except (BrokenPipeError, FileExistsError):  # the reader closed the pipe; the file belongs to another process
        raise
    except UNWRITABLE as error:
        raise OSError(f"{goal} cannot be written: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """Why writing failed, in a few words; torch does not pass on the error of the system."""
    message = str(getattr(error, "strerror", None) or " ".join(str(error).split()))[:200]
    vague = isinstance(error, RuntimeError) and "inline_container" in message
    return f"is the disk full, or a quota used up? ({message})" if vague else message


def sync(path: Path) -> None:
    """fsync: a file that has its final name must survive a loss of power."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # a folder, on systems that do not open folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """fsync everything in it."""
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
        if match and not _is_alive(int(match[1])):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _is_alive(process: int) -> bool:
    """Whether a process is alive; on systems other than POSIX, where os.kill would kill it, always True."""
    try:
        if os.name == "posix":
            os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user
        return True
    return True


def _is_open_already(path: Path) -> bool:
    """Whether it names an open file of a process, as /dev/stdout does, which cannot be replaced."""
    return os.name == "posix" and path.absolute().parts[1] in ("dev", "proc")


def _link(fresh: Path, goal: Path) -> None:
    """Move `fresh` to `goal`, unless another process has created it."""
    try:
        goal.hardlink_to(fresh)
    except OSError:  # the file exists, or the file system has no links
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
