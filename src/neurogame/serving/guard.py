"""What every request and every answer goes through: limits of size, time and number, headers that keep a browser safe.

The page runs scripts from this server only and none inline, so a text that got into its markup could still do nothing.
There are no CORS headers unless a site was allowed: pages of others cannot read the answers.

Turning away takes time from those who are answered: a few milliseconds each, in which Python runs nothing else. Who
asks again at once, whatever Retry-After says, would have all of it; so refusals leave one after another, `PAUSE` apart,
and whoever has hung up meanwhile loses the turn.
"""

import asyncio
import logging

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neurogame.serving.errors import RETRY, problem
from neurogame.serving.logs import places
from neurogame.serving.settings import Settings
from neurogame.serving.watch import route

log = logging.getLogger("neurogame.serving")
PAUSE = 0.02  # seconds between two refusals; the first does not wait
WATCHING = frozenset({"/health", "/metrics"})  # answered however many there are: who watches must see in then above all
PACED = frozenset({"full", "active"})  # the reasons that come in crowds
_POLICY = {
    "default-src": "'self'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
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
    """ASGI middleware: the limits of `settings`, `HEADERS` on every answer, one line for what went wrong here."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings, self.active = app, settings, 0
        self.turn, self.next = asyncio.Lock(), 0.0  # of refusals: who is next, and when

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = gone = False

        async def guarded(message: Message) -> None:
            nonlocal started, gone
            if message["type"] == "http.response.start":
                started = True
                if scope["state"]["notes"].get("refused") in PACED:
                    gone = not await self._is_next(receive)
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                # files may be kept but are asked for again, so that an upgraded server has an upgraded page
                headers.setdefault("Cache-Control", "no-cache" if scope["method"] in ("GET", "HEAD") else "no-store")
            if not gone:
                await send(message)

        if self.active >= self.settings.active and scope["path"] not in WATCHING:
            scope["state"]["notes"]["refused"] = "active"
            await problem(503, f"{self.active} requests are under way already", RETRY)(scope, receive, guarded)
            return
        self.active += 1
        try:
            await self.app(scope, self._counted(scope, receive), guarded)
        except Exception as error:
            if started:
                raise
            said = {"error": type(error).__name__, "route": route(scope["path"]), "where": places(error.__traceback__)}
            log.error("internal error", extra={"fields": said})  # noqa: TRY400  a text may be in the error itself
            await problem(500, "internal error; the server's log says where")(scope, receive, guarded)
        finally:
            self.active -= 1

    async def _is_next(self, receive: Receive) -> bool:
        """Wait until a refusal may leave; False: there is nobody any more to read it."""
        turn, end = asyncio.ensure_future(self._turn()), asyncio.ensure_future(_hung_up(receive))
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

    def _counted(self, scope: Scope, receive: Receive) -> Receive:
        """The body, up to the limits, whether its size was announced or not."""
        announced = Headers(scope=scope).get("content-length", "")
        most, patience = self.settings.body, self.settings.patience
        end = asyncio.get_running_loop().time() + patience
        seen, more = 0, True

        async def counted() -> Message:
            nonlocal seen, more
            if announced.isdecimal() and (len(announced) > 18 or int(announced) > most):
                raise HTTPException(413, f"the request has {announced[:18]} bytes; at most {most} are taken")
            if not more:  # whether whoever asked is still there
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

        return counted


async def _hung_up(receive: Receive) -> None:
    """Returns when whoever asked has gone; what still comes of the body is not kept."""
    while (await receive())["type"] != "http.disconnect":
        pass
