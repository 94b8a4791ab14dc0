"""JSON log, Prometheus metrics and request ids: one line and one count per request.

Prometheus' client does the counting. prometheus-fastapi-instrumentator and asgi-correlation-id would bring metric names
and a middleware of their own: the names here are older, and one middleware that has timed a request can log it as well.
"""

import asyncio
import json
import logging
import re
import sys
import time
import traceback
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neurogame import __version__
from neurogame.serving.engine import Engine

log = logging.getLogger("neurogame.serving")
ID = "X-Request-ID"
GONE = 499  # nginx's status for a client that has disconnected; only the log shows it
ROUTES = {"/", "/explain", "/explain.html", "/health", "/metrics", "/openapi.json", "/predict", "/report.css"}
REASONS = {401: "token", 408: "slow", 413: "size", 421: "host"}  # why requests are rejected; a 503 brings its own
_PROXY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_PAIRS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The metrics of one application, in a registry of their own."""

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        times = partial(Histogram, registry=self.registry)
        self.requests = counter("neurogame_requests", "Requests answered.", ["route", "status"])
        self.seconds = times("neurogame_request_seconds", "From head to last byte.", ["route"], buckets=_SECONDS)
        self.rejected = counter("neurogame_rejected", "Requests turned away before the model saw them.", ["reason"])
        self.model_seconds = times("neurogame_model_seconds", "Per piece of work.", ["work"], buckets=_SECONDS)
        self.batch = times("neurogame_batch_pairs", "Pairs per forward pass.", buckets=_PAIRS)
        self.active = gauge("neurogame_active_requests", "Requests under way.")
        gauge("neurogame_queue_length", "Requests that wait for the model.").set_function(lambda: len(engine))
        ready = gauge("neurogame_ready", "1 while requests are welcome: loaded, not draining.")
        ready.set_function(lambda: engine.status == "ready")
        gauge("neurogame_info", "Always 1.", ["version"]).labels(__version__).set(1)
        ProcessCollector(registry=self.registry)
        engine.observe = self.worked

    def worked(self, work: str, jobs: int, seconds: float) -> None:
        """Count a piece of work of the engine: "predict" or "explain"."""
        self.model_seconds.labels(work).observe(seconds)
        if work == "predict":
            self.batch.observe(jobs)


class Telemetry:
    """ASGI middleware, the outermost: sets the request id, counts and logs the request.

    Handlers add to the log line through `request.state.notes`.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        sent_id = Headers(scope=scope).get(ID, "")
        notes: dict[str, Any] = {"id": sent_id if _PROXY_ID.fullmatch(sent_id) else uuid.uuid4().hex}
        scope.setdefault("state", {})["notes"] = notes
        start, status = time.perf_counter(), 500

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[ID] = notes["id"]
            await send(message)

        with self.metrics.active.track_inprogress():
            try:
                await self.app(scope, receive, send_with_id)
            except asyncio.CancelledError:
                status = GONE
                raise
            finally:
                self._record(route(scope["path"]), status, time.perf_counter() - start, notes)

    def _record(self, path: str, status: int, seconds: float, notes: dict[str, Any]) -> None:
        reason = notes.pop("refused", REASONS.get(status))
        self.metrics.requests.labels(path, str(status)).inc()
        self.metrics.seconds.labels(path).observe(seconds)
        fields = {"route": path, "status": status, "ms": round(1e3 * seconds, 1), **notes}
        if reason is not None:
            self.metrics.rejected.labels(reason).inc()
            fields["refused"] = reason
        log.info("request", extra={"fields": fields})


def route(path: str) -> str:
    """The route of a path, as logged and counted; "other" for any other path, which may hold a user's text."""
    return path if path in ROUTES else "/static" if path.startswith("/static/") else "other"


class JsonFormatter(logging.Formatter):
    """A record as one line of ASCII JSON: message, `extra={"fields": {…}}`, and of an exception no message.

    Messages of exceptions may repeat what a user wrote, so only the type and the places are logged.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage().strip()}
        if record.exc_info and record.exc_info[0] is not None:
            line |= {"error": record.exc_info[0].__name__, "where": places(record.exc_info[2])}
        return json.dumps(line | getattr(record, "fields", {}))


def places(trace: TracebackType | None) -> list[str]:
    """The frames of a traceback, without the message of its exception."""
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(trace)]


@contextmanager
def log_to_stderr() -> Iterator[None]:
    """Write our log and uvicorn's warnings to stderr as JSON lines; the loggers are restored afterwards."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    with ExitStack() as undo:
        for logger, level in ((log, logging.INFO), (logging.getLogger("uvicorn.error"), logging.WARNING)):
            undo.callback(setattr, logger, "propagate", logger.propagate)
            undo.callback(logger.setLevel, logger.level)
            undo.callback(logger.removeHandler, handler)
            logger.addHandler(handler)
            logger.setLevel(level)
            logger.propagate = False
        yield
