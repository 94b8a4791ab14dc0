"""What every request and every answer goes through: a limit on sizes, headers that keep a browser safe, no traceback.

The page runs scripts from this server only and none inline, so a text that got into its markup could still do nothing.
There are no CORS headers: pages of other sites cannot read the answers.
"""

import logging
import traceback
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("neurogame.serving")
BODY = 1 << 20  # bytes: two texts of the longest kind, every character escaped
_POLICY = {
    "default-src": "'self'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """ASGI middleware: bodies of at most `body` bytes, `HEADERS` on every answer, one line for what went wrong here."""

    def __init__(self, app: ASGIApp, body: int = BODY) -> None:
        self.app, self.body = app, body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                # files may be kept but are asked for again, so that an upgraded server has an upgraded page
                headers.setdefault("Cache-Control", "no-cache" if scope["method"] in ("GET", "HEAD") else "no-store")
            await send(message)

        try:
            await self.app(scope, self._counted(scope, receive), guarded)
        except Exception as error:
            if started:
                raise
            frames = "".join(traceback.format_tb(error.__traceback__))
            log.error("%s at %s\n%s", type(error).__name__, scope["path"], frames)  # noqa: TRY400  texts may be in it
            answer = JSONResponse({"error": "internal error; the server's log says where"}, HTTPStatus(500))
            await answer(scope, receive, guarded)

    def _counted(self, scope: Scope, receive: Receive) -> Receive:
        """The body, up to the limit, whether its size was announced or not."""
        announced = Headers(scope=scope).get("content-length", "")
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = {} if announced.isdecimal() and int(announced) > self.body else await receive()
            seen += len(message.get("body", b""))
            if not message or seen > self.body:
                size = f"{announced} bytes" if not message else f"more than {self.body} bytes"
                raise HTTPException(HTTPStatus(413), f"the request has {size}; at most {self.body} are taken")
            return message

        return counted
