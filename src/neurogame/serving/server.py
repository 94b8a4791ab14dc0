"""uvicorn with a socket, signals and limits on connections; Ctrl-C and SIGTERM drain the queue, then stop it.

What one connection may do is in `connection`.
"""

import asyncio
import errno
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

import uvicorn

from neurogame.nli import NLI
from neurogame.serving.app import create_app
from neurogame.serving.connection import Connection, make_room
from neurogame.serving.engine import Engine
from neurogame.serving.middleware import LOOPBACK
from neurogame.serving.settings import Settings
from neurogame.serving.telemetry import log_to_stderr

try:
    import resource
except ImportError:  # Windows, which has no such limit
    resource = None  # type: ignore[assignment]

log = logging.getLogger("neurogame.serving")
DRAIN = 10  # seconds beyond the timeout, until what has not ended after a signal is given up
KEEP_ALIVE = 5  # seconds that a connection may idle between two requests
UNREAD = 1 << 16  # bytes of an answer that the kernel may hold for a client that does not read; else some 700 KB
MOST = 900  # connections
OTHERS = 124  # open files beside them: of the process, and connections that are accepted or closed this very moment
FILES = 4096  # open files that the process asks for; the system may allow fewer
AT_ONCE = 16  # connections accepted per turn of the event loop: only a few turns later they count and make room
QUEUE = 1024  # connections that the kernel accepts for us meanwhile
SHORTAGE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


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
        where, here_only = url(listener), is_loopback(listener)
        if here_only or settings.hosts:
            settings = replace(settings, hosts=tuple({*LOOPBACK, host, *settings.hosts}))
        if not here_only and settings.token is None:
            warn(f"any client that reaches {host} can use it and read its /metrics; --token-file FILE requires a token")
        raise_file_limit()
        server = Server(load, settings)
        if server.most < MOST:
            warn(f"{file_limit()} files may be open (ulimit -n): {server.most} connections instead of {MOST}")
        server.engine.when_loaded = lambda: server.loaded(lambda: announce(where))
        server.run(sockets=[listener])
    if server.engine.failure is not None:
        raise server.engine.failure


class Server(uvicorn.Server):
    """uvicorn's server around `create_app`; from a signal on, only requests that have arrived are answered."""

    def __init__(self, source: NLI | Callable[[], NLI], settings: Settings) -> None:
        app = create_app(source, settings)
        self.engine: Engine = app.state.engine
        self.most, self.warned_at = most_connections(), -1.0
        config = uvicorn.Config(
            app,
            http=partial(Connection, patience=settings.patience, most=self.most),  # type: ignore[arg-type]  # called only
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=AT_ONCE,  # asyncio accepts so many in a row
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=round(settings.timeout) + DRAIN,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. asyncio takes its number per turn for the length of the kernel's queue too, so that is set again."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(QUEUE)
        asyncio.get_running_loop().set_exception_handler(self._on_error)

    def _on_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Close idle connections where the system has no more files for new ones; asyncio tries again in a second."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in SHORTAGE:
            loop.default_exception_handler(context)
        elif loop.time() > self.warned_at + 0.5:  # asyncio calls it for every connection that it could not accept
            self.warned_at = loop.time()
            make_room(self.server_state.connections, 2 * AT_ONCE)
            log.warning("cannot accept connections", extra={"fields": {"error": error.strerror}})

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


def file_limit() -> int:
    """How many files, and so connections, the process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if resource else FILES
    return soft if soft >= 0 else FILES  # below 0: no limit


def raise_file_limit() -> None:
    """Raise the soft limit to the hard one, or to FILES, which are enough."""
    if resource and file_limit() < FILES:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        soft = FILES if hard < 0 else min(FILES, hard)
        with suppress(OSError, ValueError):  # a system may refuse: then fewer connections are kept
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def most_connections() -> int:
    """MOST, or as many as the limit of open files leaves."""
    files = file_limit()
    return min(MOST, max(files - OTHERS, files // 4))


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A listening socket; raises ValueError or OSError with one line on why there is none."""
    if not host.strip():
        raise ValueError("host is empty, which would be every address of this machine; say 0.0.0.0 if that is meant")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=QUEUE)
    except OverflowError as error:
        raise ValueError(f"port = {port} is not between 0 and 65535") from error
    except OSError as error:
        raise OSError(_reason(error, host, port)) from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD)  # its connections inherit it
        yield listener


def is_loopback(listener: socket.socket) -> bool:
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
