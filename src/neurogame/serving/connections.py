"""Connections: how many, and how long one may take to send the head of a request, which uvicorn does not limit.

A connection without a request under way has `patience` seconds until the next one begins; after an answer uvicorn's
own, shorter time counts first. Who sends a byte now and then, or goes on with a body that was refused, is cut off too.
An answer leaves in two pieces, head and body; the second must not wait until the client has acknowledged the first
(TCP_NODELAY), which takes 40 ms and which asyncio sees to only for sockets that name their protocol.
"""

import asyncio
import json
import socket
from functools import partial
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from neurogame.serving.guard import HEADERS

MOST = 1000  # connections; below the 1024 open files that many systems allow


class Connection(H11Protocol):
    """uvicorn's protocol, with a limit on number and patience; what is no HTTP is refused like anything else.

    That of h11 also where httptools is installed, which takes a head of any size; h11 takes 64 KiB.
    """

    def __init__(self, *args: Any, patience: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self.patience = patience
        self.end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Somebody connects."""
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.connections) > MOST:
            transport.abort()
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Something comes."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """An answer is sent."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Let the time run while there is no request, and only then."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._unwatch()
        elif self.end is None:
            self.end = self.loop.call_later(self.patience, self.transport.abort)

    def _unwatch(self) -> None:
        if self.end is not None:
            self.end.cancel()
            self.end = None

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP gets our kind of error, with the headers that every answer has."""
        body = json.dumps({"error": msg}).encode()
        headers = {**HEADERS, "Content-Type": "application/json", "Content-Length": len(body), "Connection": "close"}
        lines = [f"HTTP/1.1 400 {HTTPStatus(400).phrase}", *(f"{name}: {value}" for name, value in headers.items())]
        self.transport.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        self.transport.close()


def protocol(patience: float) -> Any:
    """What uvicorn makes connections with."""
    return partial(Connection, patience=patience)
