"""Compiled loops for the CPU: C files beside this one, built by the system's C compiler when first needed.

A build takes a second or two and waits for a call large enough to repay it. It needs nothing but a
compiler (`$CC`, cc, gcc or clang), links no Python and no torch, and is kept in the user's cache folder
under a name that changes with the source, the flags and the processor. Where there is no compiler, or
`NEUROGAME_KERNELS=0` is set, or a tensor is not float32 on the CPU, the same numbers come from plain
PyTorch: callers ask `available` and never depend on the answer.
"""

import atexit
import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import torch

from neurogame._types import Tensor
from neurogame.validation import transformed

_HERE = Path(__file__).parent
# Sums may be reordered (that is what vectorises them); NaN and infinity keep their meaning.
_FLAGS = (
    *("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros"),
    *("-fassociative-math", "-freciprocal-math", "-shared", "-fPIC", "-pthread"),
)
_WORTH_BUILDING = 1 << 18  # numbers: one sentence is not worth a second of compiling, a batch is
_log = logging.getLogger(__name__)
_lock = threading.Lock()


def available(*tensors: Tensor) -> bool:
    """Whether the compiled loops can take these tensors, here and now (not while a graph is being traced)."""
    if transformed() or any(t.device.type != "cpu" or t.dtype != torch.float32 for t in tensors):
        return False
    if not library.cache_info().currsize and sum(t.numel() for t in tensors) < _WORTH_BUILDING and not _built():
        return False
    return library() is not None


def needs_gradient(*tensors: Tensor | None) -> bool:
    """Whether autograd will ask for a backward pass through these tensors."""
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


@cache
def library() -> ctypes.CDLL | None:
    """The compiled loops, built if they are not there yet; None where they cannot be had."""
    if os.environ.get("NEUROGAME_KERNELS", "1") == "0":
        return None
    compiler = next((c for c in (os.environ.get("CC"), "cc", "gcc", "clang") if c and shutil.which(c)), None)
    with _lock:
        for place in (_cached, _private):
            try:
                path = place()
                if not path.exists():
                    if compiler is None:
                        return None
                    _build(compiler, sorted(_HERE.glob("*.c")), path)
                return ctypes.CDLL(str(path))
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                _log.info("kernels: %s", error)
    return None


@cache
def _built() -> bool:
    """Whether an earlier process has left a build behind."""
    try:
        return _cached().exists()
    except RuntimeError:
        return False


def _cached() -> Path:
    """The build in the user's cache folder; RuntimeError if the user has no home."""
    name = f"kernels-{_fingerprint(sorted([*_HERE.glob('*.c'), *_HERE.glob('*.h')]))}.so"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neurogame" / name


def _private() -> Path:
    """A build of this process alone, in a folder nobody else can write to, removed at exit."""
    folder = tempfile.mkdtemp(prefix="neurogame-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder) / "kernels.so"


def _fingerprint(sources: Iterable[Path]) -> str:
    """Changes with the source, the flags and the processor: the code is compiled for the machine it runs on."""
    parts = [path.read_bytes() for path in sources]
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    processor = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    parts += [flag.encode() for flag in (*_FLAGS, platform.machine(), processor)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _build(compiler: str, sources: Iterable[Path], path: Path) -> None:
    """Compile into a file of this process, then move it into place: two builds at once cannot meet half-way."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}.so")
    try:
        command = [compiler, *_FLAGS, "-o", str(fresh), *map(str, sources), "-lm"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)  # noqa: S603 — the user's own compiler
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


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
