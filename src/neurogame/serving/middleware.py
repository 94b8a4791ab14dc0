"""ASGI middleware: `Guard` (security headers, JSON errors), `Access` (host, token), `Limits` (size, time, number).

request ──▶ Telemetry ──▶ Guard ──▶ CORSMiddleware ──▶ Access ──▶ Limits ──▶ route
"""

import asyncio
import hmac
import ipaddress
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi.requests import Request
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neurogame._common.printing import cut
from neurogame.serving.engine import Engine, of_heaviest
from neurogame.serving.settings import Settings
from neurogame.serving.telemetry import places, route

log = logging.getLogger("neurogame.serving")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
OPEN = frozenset({"/", "/health", "/openapi.json", "/report.css"})  # and /static/: need no token
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

    A request with both Transfer-Encoding and Content-Length, which h11 takes, is refused and its connection closed.
    """

    def __init__(self, app: ASGIApp, engine: Engine) -> None:
        self.app, self.engine, self.turn, self.next = app, engine, asyncio.Lock(), 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started = gone = False

        async def send_guarded(message: Message) -> None:
            nonlocal started, gone
            if message["type"] == "http.response.start":
                started = True
                if scope["state"]["notes"].get("refused") in PACED and self.engine.status != "draining":
                    gone = not await self._wait_turn(receive)
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                # browsers may keep the page's files but must revalidate them: a new version has a new page
                headers.setdefault("Cache-Control", "no-cache" if scope["method"] in ("GET", "HEAD") else "no-store")
            if not gone:
                await send(message)

        sent = Headers(scope=scope)
        if "transfer-encoding" in sent and ("content-length" in sent or scope.get("http_version") == "1.0"):
            text = "a request has either Content-Length or, in HTTP/1.1, Transfer-Encoding"
            return await problem(400, text, {"Connection": "close"})(scope, receive, send_guarded)
        try:
            await self.app(scope, receive, send_guarded)
        except asyncio.CancelledError:  # uvicorn's, when the time for a graceful shutdown is over
            if started:
                raise
            scope["state"]["notes"]["refused"] = "draining"
            await problem(503, "stopped, since the server is shutting down", RETRY)(scope, receive, send_guarded)
        except Exception as error:
            if started:
                raise
            fields = {
                "error": type(error).__name__,
                "route": route(scope["path"]),
                "where": places(error.__traceback__),
            }
            log.error("internal error", extra={"fields": fields})  # noqa: TRY400  the message may hold a user's text
            await problem(500, "internal error; the server's log says where")(scope, receive, send_guarded)

    async def _wait_turn(self, receive: Receive) -> bool:
        """Wait for this rejection's turn; False if its client disconnects first."""
        turn, end = asyncio.ensure_future(self._turn()), asyncio.ensure_future(_wait_for_disconnect(receive))
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


async def _wait_for_disconnect(receive: Receive) -> None:
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


@dataclass(eq=False)
class _Slot:
    """A request for the model, from its head to the first byte of its answer."""

    owner: str
    end: float  # when the body must be there
    receiving: bool = True
    timer: asyncio.Timeout | None = None


class Limits:
    """503 beyond `settings.active` requests for the model, 413 for a long body, announced or not, 408 for a slow one.

    Beyond the limit the slowest request that is still being sent makes room, of the address with the most of them.
    Public routes, monitoring and answers that a client does not read are not counted: `server` limits connections.
    Neither Starlette nor uvicorn limits the size of a body or the time it takes.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings
        self.slots: dict[_Slot, None] = {}  # in the order of their arrival

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or is_open(scope["path"]) or scope["path"] == "/metrics":
            return await self.app(scope, receive, send)
        if len(self.slots) >= self.settings.active and not self._make_room():
            scope["state"]["notes"]["refused"] = "active"
            return await problem(503, f"{len(self.slots)} requests are under way already", RETRY)(scope, receive, send)
        slot = _Slot(address(scope.get("client")), asyncio.get_running_loop().time() + self.settings.patience)
        self.slots[slot] = None

        async def send_and_release(message: Message) -> None:
            self.slots.pop(slot, None)
            await send(message)

        try:
            return await self.app(scope, self._limit_body(scope, receive, slot), send_and_release)
        finally:
            self.slots.pop(slot, None)

    def _make_room(self) -> bool:
        """Drop the slowest request that is still being sent; False if all have arrived."""
        slow = of_heaviest([slot for slot in self.slots if slot.receiving], lambda slot: slot.owner)
        if slow:
            del self.slots[slow[0]]
            slow[0].end = 0.0
            if slow[0].timer is not None:
                slow[0].timer.reschedule(0.0)
        return bool(slow)

    def _limit_body(self, scope: Scope, receive: Receive, slot: _Slot) -> Receive:
        """The body, up to the limits of size and time."""
        announced = Headers(scope=scope).get("content-length", "")
        most, seen = self.settings.body, 0

        async def receive_limited() -> Message:
            nonlocal seen
            if announced.isdecimal() and (len(announced) > 18 or int(announced) > most):
                raise HTTPException(413, f"the request has {announced[:18]} bytes; at most {most} are taken")
            if not slot.receiving:  # the handler asks whether the client is still connected
                return await receive()
            try:
                async with asyncio.timeout_at(slot.end) as slot.timer:
                    message = await receive()
            except TimeoutError:
                raise self._too_slow(scope, slot) from None
            finally:
                slot.timer = None
            seen, slot.receiving = seen + len(message.get("body", b"")), message.get("more_body", False)
            if seen > most:
                raise HTTPException(413, f"the request has more than {most} bytes; at most {most} are taken")
            return message

        return receive_limited

    def _too_slow(self, scope: Scope, slot: _Slot) -> HTTPException:
        if slot.end:
            return HTTPException(408, f"the request was not sent within {self.settings.patience:g} s")
        scope["state"]["notes"]["refused"] = "active"
        text = f"still being sent while {self.settings.active} others are under way; try again in a moment"
        return HTTPException(503, text, RETRY)


def address(client: Sequence[Any] | None) -> str:
    """Whose share a request takes: the IP address, of IPv6 the network /64, which one client may have to itself."""
    host = str(client[0]) if client else ""
    return str(ipaddress.ip_network((host.partition("%")[0], 64), strict=False)) if ":" in host else host
