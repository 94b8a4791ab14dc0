"""Garbage collection in a process of the command line: hardly while libraries are imported, not at the end.

torch and transformers make about 700 000 objects that stay as long as the process. By default Python looks through
them again and again while they are made, and once more before it exits; nothing of it is garbage. Only the entry point
`cli.main` postpones collections: a program that imports this package, or calls `cli.app`, keeps its settings.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_USUAL = gc.get_threshold()
_POSTPONED = 1_000_000  # new objects before a collection: more than all imports make


@contextmanager
def postponed() -> Iterator[None]:
    """Collections wait for `resume`; the one at exit has nothing to look through."""
    gc.set_threshold(_POSTPONED)
    try:
        yield
    finally:
        resume()
        gc.freeze()


def resume() -> None:
    """Collect as usual from now on, without the objects that are there: they stay until the process ends.

    Does nothing where collections are not postponed.
    """
    if gc.get_threshold()[0] == _POSTPONED:
        gc.freeze()
        gc.set_threshold(*_USUAL)
