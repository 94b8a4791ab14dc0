"""ASGI middleware: `Guard` (security headers, JSON errors), `Access` (host, token), `Limits` (size, time, number).

request ──▶ Telemetry ──▶ Guard ──▶ CORSMiddleware ──▶ Access ──▶ Limits ──▶ route
"""

import asyncio
import hmac
import logging
from collections.abc import Mapping, Sequence

from fastapi.requests import Request
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neurogame.printing import cut
from neurogame.serving.settings import Settings
from neurogame.serving.telemetry import places, route

log = logging.getLogger("neurogame.serving")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
OPEN = frozenset({"/", "/health", "/openapi.json", "/report.css"})  # and /static/: need no token
UNLIMITED = frozenset({"/health", "/metrics"})  # monitoring must get through when the server is full
PAUSE = 0.02  # seconds between two refusals; the first does not wait
PACED = frozenset({"full", "active"})  # the reasons of refusals that come in crowds
RETRY = {"Retry-After": "1"}  # seconds
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
bearer = HTTPBearer(auto_error=False, description="The token of --token-file.")


def problem(status: int, error: object, headers: Mapping[str, str] | None = None) -> Response:
    """An error as every route answers it: `{"error": "one line"}`."""
    text = " ".join(str(error).split()).encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": text}, status, headers)


class Guard:
    """Security headers on every answer, 500 without details for an unexpected exception, and paced refusals.

    A refusal takes a few milliseconds in which Python runs nothing else. Clients that retry at once would take the time
    of those that are answered, so refusals leave `PAUSE` seconds apart; disconnected clients are skipped. Starlette has
    no security headers, and rate limiters such as slowapi count clients instead of delaying refusals.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.turn, self.next = app, asyncio.Lock(), 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = gone = False

        async def guarded(message: Message) -> None:
            nonlocal started, gone
            if message["type"] == "http.response.start":
                started = True
                if scope["state"]["notes"].get("refused") in PACED:
                    gone = not await self._paced(receive)
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                # browsers may keep the page's files but must revalidate them: a new version has a new page
                headers.setdefault("Cache-Control", "no-cache" if scope["method"] in ("GET", "HEAD") else "no-store")
            if not gone:
                await send(message)

        try:
            await self.app(scope, receive, guarded)
        except Exception as error:
            if started:
                raise
            fields = {
                "error": type(error).__name__,
                "route": route(scope["path"]),
                "where": places(error.__traceback__),
            }
            log.error("internal error", extra={"fields": fields})  # noqa: TRY400  the message may hold a user's text
            await problem(500, "internal error; the server's log says where")(scope, receive, guarded)

    async def _paced(self, receive: Receive) -> bool:
        """Wait until this refusal may leave; False if its client disconnects first."""
        turn, end = asyncio.ensure_future(self._turn()), asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait([turn, end], return_when=asyncio.FIRST_COMPLETED)
            return not end.done()
        finally:
            turn.cancel()
            end.cancel()

    async def _turn(self) -> None:
        clock = asyncio.get_running_loop().time
        async with self.turn:
            await asyncio.sleep(max(0.0, self.next - clock()))
            self.next = clock() + PAUSE


async def _disconnected(receive: Receive) -> None:
    """Return when the client disconnects; the rest of the body is discarded."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Access:
    """421 for a host name that is not among `hosts` (DNS rebinding), 401 without the token; the body is not read.

    FastAPI would read the body before a dependency checks the token, so HTTPBearer parses the header here. Starlette's
    TrustedHostMiddleware answers in plain text, with 400, and takes no trailing dot and no port.
    """

    def __init__(self, app: ASGIApp, token: str | None, hosts: Sequence[str]) -> None:
        self.app, self.hosts = app, frozenset(map(host_name, hosts))
        self.token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http":
            request = Request(scope)
            host = request.headers.get("host", "")  # only HTTP/1.0, which no browser speaks, may leave it out
            if host and self.hosts and host_name(host) not in self.hosts:
                allowed = ", ".join(sorted(self.hosts))
                refusal = problem(421, f"host {cut(host)} is not this server's; allowed: {allowed} (see --allow-host)")
                return await refusal(scope, receive, send)
            if not is_open(scope["path"]) and not await self._has_token(request):
                text = "a token is needed, in the header Authorization: Bearer …; the one sent, if any, is not it"
                return await problem(401, text, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
        return await self.app(scope, receive, send)

    async def _has_token(self, request: Request) -> bool:
        if self.token is None:
            return True
        sent = await bearer(request)
        return sent is not None and hmac.compare_digest(sent.credentials.strip().encode("latin-1"), self.token)


def is_open(path: str) -> bool:
    """Whether a path needs no token: the page, which asks for it, and what describes the server."""
    return path in OPEN or path.startswith("/static/")


def host_name(host: str) -> str:
    """A host header without its port."""
    end = host.find("]") + 1 if host.startswith("[") else host.find(":")
    return (host[:end] if end > 0 else host).lower().rstrip(".")


class Limits:
    """503 beyond `settings.active` requests at a time, 413 for a long body, announced or not, 408 for a slow one.

    Neither Starlette nor uvicorn limits the size of a body or the time it takes.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings, self.active = app, settings, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["path"] in UNLIMITED:
            await self.app(scope, receive, send)
        elif self.active >= self.settings.active:
            scope["state"]["notes"]["refused"] = "active"
            await problem(503, f"{self.active} requests are under way already", RETRY)(scope, receive, send)
        else:
            self.active += 1
            try:
                await self.app(scope, self._limited(scope, receive), send)
            finally:
                self.active -= 1

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """The body, up to the limits of size and time."""
        announced = Headers(scope=scope).get("content-length", "")
        most, patience = self.settings.body, self.settings.patience
        end = asyncio.get_running_loop().time() + patience
        seen, more = 0, True

        async def limited() -> Message:
            nonlocal seen, more
            if announced.isdecimal() and (len(announced) > 18 or int(announced) > most):
                raise HTTPException(413, f"the request has {announced[:18]} bytes; at most {most} are taken")
            if not more:  # the handler asks whether the client is still connected
                return await receive()
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the request was not sent within {patience:g} s") from None
            seen, more = seen + len(message.get("body", b"")), message.get("more_body", False)
            if seen > most:
                raise HTTPException(413, f"the request has more than {most} bytes; at most {most} are taken")
            return message

        return limited
