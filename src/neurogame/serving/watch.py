"""Every request leaves a line in the log and a count in the metrics; its id goes back with the answer."""

import asyncio
import logging
import re
import time
import uuid
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neurogame.serving.metrics import Metrics

log = logging.getLogger("neurogame.serving")
ID = "X-Request-ID"
GONE = 499  # nobody reads it; nginx's number for a request that was closed
ROUTES = frozenset(
    {"/", "/explain", "/explain.html", "/health", "/metrics", "/openapi.json", "/predict", "/report.css"}
)
REASONS = {401: "token", 408: "slow", 413: "size", 421: "host"}  # a 503 says itself why
_GIVEN = re.compile(r"[A-Za-z0-9._-]{1,64}")  # an id that a proxy may have given


class Watch:
    """ASGI middleware, the outermost. What is in `request.state.notes` at the end is in the line."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get(ID, "")
        notes: dict[str, Any] = {"id": given if _GIVEN.fullmatch(given) else uuid.uuid4().hex}
        scope.setdefault("state", {})["notes"] = notes
        start, status = time.perf_counter(), 500

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[ID] = notes["id"]
            await send(message)

        with self.metrics.active.track_inprogress():
            try:
                await self.app(scope, receive, told)
            except asyncio.CancelledError:  # the time of shutting down is over
                status = GONE
                raise
            finally:
                seconds = time.perf_counter() - start
                where, reason = route(scope["path"]), notes.pop("refused", REASONS.get(status))
                self.metrics.answered(where, status, seconds, reason)
                said = {"route": where, "status": status, "ms": round(1e3 * seconds, 1), **notes}
                log.info("request", extra={"fields": said | ({"refused": reason} if reason else {})})


def route(path: str) -> str:
    """The route of a path; what is no route is "other", since a path can be any text."""
    return path if path in ROUTES else "/static" if path.startswith("/static/") else "other"
