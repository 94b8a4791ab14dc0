"""Compiled loops for the CPU: C files beside this one, built by the system's C compiler when first needed.

A build takes a second or two and is cached in the user's cache folder, under a name that changes with the source, the
flags, the processor and its own content. A cache folder that another user could write to is not used: code loaded from
there runs with all rights of this process. A build needs a compiler (`$CC`, cc, gcc or clang), and links neither Python
nor torch. Without a compiler, with `NEUROGAME_KERNELS=0`, or for tensors that are not float32 on the CPU, plain PyTorch
computes the same numbers within rounding. Which of the two computes a call depends on its tensors and on the machine
(see `state`), never on earlier calls or on the batch size, so results are reproducible.
"""

import atexit
import ctypes
import hashlib
import logging
import os
import platform
import shutil
import stat
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path

import torch

from neurogame._common.types import Tensor
from neurogame._common.validation import transformed
from neurogame._common.writing import atomic_file

_HERE = Path(__file__).parent
# Sums may be reordered (that is what vectorises them); NaN and infinity keep their meaning.
_FLAGS = (
    *("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros"),
    *("-fassociative-math", "-freciprocal-math", "-fPIC", "-pthread"),
)
_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_TIMEOUT = 120  # seconds for the compiler, on a busy machine
_log = logging.getLogger(__name__)
_lock = threading.Lock()


def available(*tensors: Tensor) -> bool:
    """Whether the compiled loops can take these tensors (not while a graph is being traced)."""
    if transformed() or any(t.device.type != "cpu" or t.dtype != torch.float32 for t in tensors):
        return False
    return library() is not None


def needs_gradient(*tensors: Tensor | None) -> bool:
    """Whether autograd will ask for a backward pass through these tensors."""
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def library() -> ctypes.CDLL | None:
    """The compiled loops, built if the cache does not have them; None where they are not available."""
    return _load()[0]


def state() -> str:
    """Which code runs: "compiled", or "plain PyTorch" with the reason; one line for `neurogame info`."""
    loaded, reason = _load()
    return "compiled" if loaded is not None else f"plain PyTorch ({reason})"


@cache
def _load() -> tuple[ctypes.CDLL | None, str]:
    """The library, or None and the reason."""
    if os.environ.get("NEUROGAME_KERNELS", "1") == "0":
        return None, "NEUROGAME_KERNELS=0"
    compiler = next((c for c in (os.environ.get("CC"), "cc", "gcc", "clang") if c and shutil.which(c)), None)
    reason = "no C compiler"
    with _lock:
        for place in (_cache, _private):
            try:
                folder = place()
                path = _cached_build(folder)
                if path is None and compiler is None:
                    break
                return ctypes.CDLL(str(path or _build(str(compiler), folder))), ""
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                reason = f"{' '.join(str(error).split()):.300}"
                _log.info("kernels: %s", reason)
    if compiler is not None:
        _log.warning("compiled loops are not available (%s): plain PyTorch is used, which is slower", reason)
    return None, reason


def _cache() -> Path:
    """The user's cache folder; RuntimeError if the user has no home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neurogame"


def _private() -> Path:
    """A folder that only this user can write to, removed at exit."""
    folder = tempfile.mkdtemp(prefix="neurogame-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _cached_build(folder: Path) -> Path | None:
    """The cached build; one that is corrupt (its name has another digest) or writable by others is deleted."""
    if not folder.exists():
        return None
    _check_private(folder)
    for path in sorted(folder.glob(f"kernels-{_fingerprint()}-*.so")):
        if _is_own(path) and path.stem.endswith(_digest(path.read_bytes())):
            return path
        path.unlink()
    return None


def _build(compiler: str, folder: Path) -> Path:
    """Compile, then write the library atomically, so that concurrent builds do not interfere."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_private(folder)
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder} is read-only")
    with tempfile.TemporaryDirectory(prefix="neurogame-") as scratch:
        library = Path(scratch) / "kernels.so"
        _run([compiler, *_FLAGS, "-shared", "-o", str(library), *map(str, sorted(_HERE.glob("*.c"))), "-lm"])
        content = library.read_bytes()
    path = folder / f"kernels-{_fingerprint()}-{_digest(content)}.so"
    with atomic_file(path) as fresh:
        fresh.write_bytes(content)
        fresh.chmod(0o700)
    return path


def _check_private(folder: Path) -> None:
    """PermissionError if another user could put a file into this folder, or another folder in its place.

    Write permission of the group on a folder of our own (umask 002) is removed. A parent folder that others may write
    to must be sticky, as /tmp is: then only the owner of an entry can rename it. A group whose only member is this
    user, as many systems create one per user, does not count as others.
    """
    if not hasattr(os, "geteuid"):
        return
    resolved = folder.resolve()
    if resolved.stat().st_uid == os.geteuid() and resolved.stat().st_mode & _BY_OTHERS:
        resolved.chmod(stat.S_IMODE(resolved.stat().st_mode) & ~_BY_OTHERS)
    if not _is_own(resolved):
        raise PermissionError(f"{folder} belongs to another user: no code is loaded from there")
    for parent in resolved.parents:
        status = parent.stat()
        foreign = status.st_uid not in (0, os.geteuid())
        others = stat.S_IWOTH if _is_own_group(status.st_gid) else _BY_OTHERS
        if foreign or (status.st_mode & others and not status.st_mode & stat.S_ISVTX):
            raise PermissionError(f"{parent} can be changed by other users: no code is loaded from {folder}")


def _is_own_group(gid: int) -> bool:
    """Whether a group has the name of this user, or root's, and no other member."""
    import grp  # neither is there on Windows
    import pwd

    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a number without a name, as in a container
        return gid == os.getegid() == os.geteuid()
    return group.gr_name in (user, "root") and {*group.gr_mem} <= {user, "root"}


def _is_own(path: Path) -> bool:
    """A file or folder of this user that others cannot write to, and no link."""
    status = path.lstat()
    user = os.geteuid() if hasattr(os, "geteuid") else status.st_uid
    return status.st_uid == user and not status.st_mode & _BY_OTHERS and not stat.S_ISLNK(status.st_mode)


def _run(command: list[str]) -> None:
    """Run the compiler; RuntimeError with the first line of its messages."""
    done = subprocess.run(command, check=False, capture_output=True, timeout=_TIMEOUT)  # noqa: S603 — the user's own
    if done.returncode:
        message = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise RuntimeError(f"{command[0]} failed: {message or f'exit status {done.returncode}'}")


@cache
def _fingerprint() -> str:
    """Changes with the source, the flags and the processor: the code is compiled for the machine it runs on."""
    parts = [path.read_bytes() for path in sorted([*_HERE.glob("*.c"), *_HERE.glob("*.h")])]
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    processor = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    parts += [flag.encode() for flag in (*_FLAGS, platform.machine(), processor)]
    return _digest(b"\0".join(parts))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def call(name: str, *arguments: int | Tensor) -> None:
    """Call one of the loops: numbers as C longs, tensors (contiguous, float32) by their address."""
    loaded = library()
    assert loaded is not None
    converted: list[ctypes.c_long | ctypes.c_void_p] = []
    for argument in arguments:
        if isinstance(argument, Tensor):
            assert argument.is_contiguous()
            converted.append(ctypes.c_void_p(argument.data_ptr()))
        else:
            converted.append(ctypes.c_long(argument))
    if getattr(loaded, name)(*converted):
        raise MemoryError(f"{name}: no memory for its work space")
