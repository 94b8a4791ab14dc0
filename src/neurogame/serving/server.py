"""uvicorn with a socket, signals and limits on connections; Ctrl-C and SIGTERM end it once all waiting are answered."""

import asyncio
import errno
import ipaddress
import json
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any, Literal

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from neurogame.nli import NLI
from neurogame.serving.app import create_app
from neurogame.serving.engine import Engine, of_heaviest
from neurogame.serving.middleware import HEADERS, LOOPBACK, address
from neurogame.serving.settings import Settings
from neurogame.serving.telemetry import log_to_stderr

DRAIN = 10  # seconds beyond the timeout, until what has not ended after a signal is given up
HURRY = 2  # seconds that clients may keep a server waiting that shuts down
KEEP_ALIVE = 5  # seconds that a connection may idle between two requests
UNREAD = 1 << 16  # bytes of an answer that the kernel may hold for a client that does not read; else some 700 KB
MOST = 900  # connections; beside the files of the model below the 1024 that many systems allow


def serve(
    load: Callable[[], NLI],
    host: str,
    port: int,
    announce: Callable[[str], object],
    warn: Callable[[str], object] = lambda _: None,
    **options: Any,
) -> None:
    """Serve until a signal comes.

    Args:
        load: loads the model; called once the address is known to be free, while `/health` answers already.
        host: the address to listen at; 127.0.0.1 is reached from this machine only.
        port: 0 takes a free one.
        announce: called with the URL when the model is loaded.
        warn: called with a line on what may not have been meant.
        options: those of `Settings`.

    Raises:
        OSError, ValueError: the address cannot be used, an option is wrong.
        Exception: what `load` raised, or what ended the thread of the model.
    """
    settings = Settings(**options)
    with listening(host, port) as listener, log_to_stderr():
        where, here_only = url(listener), reached_from_here_only(listener)
        if here_only or settings.hosts:
            settings = replace(settings, hosts=tuple({*LOOPBACK, host, *settings.hosts}))
        if not here_only and settings.token is None:
            warn(f"any client that reaches {host} can use it and read its /metrics; --token-file FILE requires a token")
        server = Server(load, settings)
        server.engine.when_loaded = lambda: server.loaded(lambda: announce(where))
        server.run(sockets=[listener])
    if server.engine.failure is not None:
        raise server.engine.failure


class Server(uvicorn.Server):
    """uvicorn's server around `create_app`; from a signal on, only requests that have arrived are answered."""

    def __init__(self, source: NLI | Callable[[], NLI], settings: Settings) -> None:
        app = create_app(source, settings)
        self.engine: Engine = app.state.engine
        config = uvicorn.Config(
            app,
            http=partial(Connection, patience=settings.patience),  # type: ignore[arg-type]  # called, never inspected
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=round(settings.timeout) + DRAIN,
        )
        super().__init__(config)

    def loaded(self, announce: Callable[[], object]) -> None:
        """Announce the server, or end it where the model did not load or its thread has died."""
        if self.engine.failure is None:
            announce()
        else:
            self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002  uvicorn's signature
        """Drain; a second Ctrl-C ends at once. uvicorn's own would raise the signal again after a graceful exit."""
        self.engine.drain()
        self.force_exit |= self.should_exit and sig == signal.SIGINT
        self.should_exit = True


class Connection(H11Protocol):
    """uvicorn's h11 protocol with limits that it lacks: number of connections, seconds without sending or reading.

    A connection without a request under way is closed after `patience` seconds, however many bytes it sends; after an
    answer uvicorn's shorter keep-alive time counts first. So is one whose client does not read its answer. Beyond
    `MOST` connections the oldest that keeps the server waiting is closed, of the address with the most of them, so that
    there is room for a new one. httptools would take a head of any size, h11 takes 64 KiB.
    """

    def __init__(self, *args: Any, patience: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self.patience, self.closing, self.since = patience, False, self.loop.time()
        self.end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Accept a connection; head and body of an answer leave at once (asyncio sets TCP_NODELAY for few sockets)."""
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.connections) > MOST:
            self._make_room()
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Handle what the client sends."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Start to wait for the next request."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Start to wait for the client to read."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        self._watch()

    def shutdown(self) -> None:
        """Finish requests that have arrived; slow clients get `HURRY` seconds."""
        super().shutdown()
        self.patience, self.closing = min(self.patience, HURRY), True
        self._unwatch()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        super().connection_lost(exc)
        self._unwatch()

    @property
    def waits(self) -> Literal["", "idle", "body", "reader"]:
        """What the server waits for: a request, its body, or that the client reads the answer."""
        if self.flow.write_paused:
            return "reader"
        if self.cycle is None or self.cycle.response_complete:
            return "idle"
        return "body" if self.cycle.more_body else ""

    def _make_room(self) -> None:
        waiting = [other for other in self.connections if isinstance(other, Connection) and other.waits]
        waiting.sort(key=lambda other: other.since)
        oldest = of_heaviest(waiting, lambda other: address(other.client))[0]
        self.connections.discard(oldest)
        oldest.transport.abort()

    def _watch(self) -> None:
        """Start the timer while the server waits for the client; `Limits` has that of a body."""
        if not self.waits or (self.waits == "body" and not self.closing):
            self._unwatch()
        elif self.end is None:
            self.end = self.loop.call_later(self.patience, self.transport.abort)

    def _unwatch(self) -> None:
        if self.end is not None:
            self.end.cancel()
            self.end = None

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP with an error in JSON, like any other."""
        body = json.dumps({"error": msg}).encode()
        headers = {**HEADERS, "Content-Type": "application/json", "Content-Length": len(body), "Connection": "close"}
        head = ["HTTP/1.1 400 Bad Request", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        self.transport.write("\r\n".join(head).encode("latin-1") + body)
        self.transport.close()


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A listening socket; raises ValueError or OSError with one line on why there is none."""
    if not host.strip():
        raise ValueError("host is empty, which would be every address of this machine; say 0.0.0.0 if that is meant")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OverflowError as error:
        raise ValueError(f"port = {port} is not between 0 and 65535") from error
    except OSError as error:
        raise OSError(_reason(error, host, port)) from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD)  # its connections inherit it
        yield listener


def reached_from_here_only(listener: socket.socket) -> bool:
    """Whether the address is a loopback one."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def url(listener: socket.socket) -> str:
    """The address for a browser."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  "everywhere" is no address to go to
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _reason(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use, perhaps by another server; choose one with --port, 0 takes a free one"
    if error.errno == errno.EACCES:
        return f"port {port} may not be used: those below 1024 need privileges; choose one with --port"
    if error.errno == errno.EADDRNOTAVAIL or (error.errno or 0) < 0:  # the resolver counts its errors downwards
        return f"host {host!r} is not an address of this machine"
    return f"cannot listen at {host}, port {port}: {error.strerror}"
