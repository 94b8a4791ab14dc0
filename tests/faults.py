"""Faults on purpose: a function that is killed at a moment of our choice, or finds no room to write.

`run(function, …)` calls it in a forked child, which has everything imported already and costs milliseconds, and says
how it ended. A moment is a time, or the k-th operation that changes the file system (`changes` counts them): the
first is what a user's machine does, the second hits the moments that matter, and the same ones in every run.
"""

import os
import random
import select
import signal
import subprocess
import sys
import time
import traceback
import warnings
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True)
class Outcome:
    """How a child ended: its exit code (−9: killed; 1: it raised), what it printed to stderr, how long it took."""

    code: int
    err: str
    seconds: float

    @property
    def killed(self):
        return self.code == -signal.SIGKILL


def run(function, *, after=None, at=None, file_size=None, watch=None):
    """Call `function` in a child of this process.

    Args:
        after: kill it after so many seconds.
        at: kill it just before its k-th change of the file system, counted from 1.
        file_size: no file may become larger than so many bytes (RLIMIT_FSIZE): as on a full disk, writing fails.
        watch: called in the child with the number of each change; used by `changes`.
    """
    read, write = os.pipe()
    start = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # "this process is multi-threaded": the child is not
        pid = os.fork()
    if not pid:
        os.close(read)
        _child(function, write, at, file_size, watch)
    os.close(write)
    said = bytearray()
    left = None
    while True:
        if after is not None:
            left = max(0.0, start + after - time.monotonic())
        if not select.select([read], [], [], left)[0]:
            os.kill(pid, signal.SIGKILL)
            after = left = None
            continue
        chunk = os.read(read, 1 << 16)
        if not chunk:
            break
        said += chunk
    os.close(read)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return Outcome(code, said.decode(errors="replace"), time.monotonic() - start)


def _child(function, write, at, file_size, watch):
    """Never returns. The parent's buffers, captured output and exit handlers are none of its business."""
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.dup2(write, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        if file_size is not None:
            import resource

            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, resource.RLIM_INFINITY))
        if at is not None or watch is not None:
            _count(at, watch)
        function()
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:  # noqa: BLE001 — whatever it is, the parent is told
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _count(at, watch):
    count = 0

    def hook(event, arguments):
        nonlocal count
        if event in _CHANGES or (event == "open" and (arguments[2] or 0) & _WRITES):
            count += 1
            if watch is not None:
                watch(count)
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)  # cannot be taken away: the child ends with it


def changes(function):
    """How many changes of the file system `function` makes in Python; it must succeed."""
    counter = os.memfd_create("changes")
    try:
        outcome = run(function, watch=lambda count: os.pwrite(counter, count.to_bytes(8, "big"), 0))
        assert outcome.code == 0, outcome.err
        return int.from_bytes(os.pread(counter, 8, 0), "big")
    finally:
        os.close(counter)


def moments(seed, count, last):
    """`count` numbers in 1 … `last`, as `at` takes them; times of a run of `last` seconds if that is a float."""
    draw = random.Random(seed)
    return [draw.uniform(0.0, last) if isinstance(last, float) else draw.randint(1, last) for _ in range(count)]


@contextmanager
def small_disk(folder, size):
    """`folder` is a disk of `size` bytes inside; skips the test where nothing can be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"no small disk here: {error}")
    if done.returncode:
        pytest.skip(f"no small disk here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def enlarge(disk, size):
    """Somebody has made room."""
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)
