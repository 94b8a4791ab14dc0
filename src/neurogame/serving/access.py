"""Who may ask: only who has the token, if there is one, and only under a name of this server.

A page of another site can let its own name point to 127.0.0.1 and then read from here as if it were at home; its
requests still carry that name as their host, and are refused.
"""

import hmac
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from neurogame.printing import cut
from neurogame.serving.errors import problem

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
OPEN = frozenset({"/", "/health", "/openapi.json", "/report.css"})  # and /static/: the page asks for the token itself


class Access:
    """ASGI middleware: 421 for a host that is not among `hosts`, 401 without the token. Nothing of the body is read."""

    def __init__(self, app: ASGIApp, token: str | None, hosts: Sequence[str]) -> None:
        self.app, self.hosts = app, frozenset(map(name, hosts))
        self.token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        host = headers.get("host", "")  # only HTTP/1.0, which no browser speaks, may leave it out
        if host and self.hosts and name(host) not in self.hosts:
            text = f"host {cut(host)} is not this server's; allowed: {', '.join(sorted(self.hosts))} (see --allow-host)"
            await problem(421, text)(scope, receive, send)
        elif self._closed(scope) and not self._known(headers.get("authorization", "")):
            text = "a token is needed, in the header Authorization: Bearer …; the one sent, if any, is not it"
            await problem(401, text, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _closed(self, scope: Scope) -> bool:
        path = scope.get("path", "")
        return scope["type"] == "http" and path not in OPEN and not path.startswith("/static/")

    def _known(self, sent: str) -> bool:
        """Whether the header has the token, found out in a time that does not depend on where they differ."""
        scheme, _, token = sent.partition(" ")
        if self.token is None:
            return True
        return hmac.compare_digest(token.strip().encode("latin-1"), self.token) and scheme.lower() == "bearer"


def name(host: str) -> str:
    """A host header without its port."""
    end = host.find("]") + 1 if host.startswith("[") else host.find(":")
    return (host[:end] if end > 0 else host).lower().rstrip(".")
