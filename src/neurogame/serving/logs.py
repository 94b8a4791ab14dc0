"""The log: one line of JSON per event on stderr, made for machines; texts of users are not in it unless asked for.

A message is a few fixed words, what varies is in `extra={"fields": {…}}`. Of an exception only its type and the
places it came through are written: its message may repeat what a user wrote.
"""

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

NAMES = {"neurogame.serving": logging.INFO, "uvicorn.error": logging.WARNING}


class JsonLines(logging.Formatter):
    """A record as a line of JSON, all of it ASCII: a terminal obeys nothing in it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        said: dict[str, Any] = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage().strip()}
        said |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            said |= {"error": record.exc_info[0].__name__, "where": places(record.exc_info[2])}
        return json.dumps(said)


def places(trace: TracebackType | None) -> list[str]:
    """Where an exception came through, without its message."""
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(trace)]


@contextmanager
def to_stderr() -> Iterator[None]:
    """Our log and uvicorn's, as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    loggers = {logging.getLogger(name): level for name, level in NAMES.items()}
    before = [(log, log.level, log.propagate) for log in loggers]
    for log, level in loggers.items():
        log.addHandler(handler)
        log.setLevel(level)
        log.propagate = False
    try:
        yield
    finally:
        for log, level, propagate in before:
            log.removeHandler(handler)
            log.setLevel(level)
            log.propagate = propagate
