"""A socket, a model, and uvicorn between them; ends cleanly on Ctrl-C and SIGTERM, once all who wait are answered."""

import errno
import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

import uvicorn

from neurogame.nli import NLI
from neurogame.serving.access import LOOPBACK
from neurogame.serving.app import create_app
from neurogame.serving.connections import protocol
from neurogame.serving.engine import Engine
from neurogame.serving.logs import to_stderr
from neurogame.serving.settings import Settings

DRAIN = 10  # seconds beyond the timeout, for what has begun when a signal comes
KEEP_ALIVE = 5  # seconds that a connection may idle between two requests


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
        load: gives the model; called once the address is known to be free, and while `/health` answers already.
        host: the address to listen at; 127.0.0.1 is reached from this machine only.
        port: 0 takes a free one.
        announce: told the URL when the model is loaded.
        warn: told what may not have been meant.
        options: those of `Settings`.
    """
    settings = Settings(**options)
    with listening(host, port) as listener, to_stderr(), _signals_are_heard():
        where, here_only = url(listener), reached_from_here_only(listener)
        if here_only or settings.hosts:
            settings = replace(settings, hosts=tuple({*LOOPBACK, host, *settings.hosts}))
        if not here_only and settings.token is None:
            warn(f"whoever can reach {host} can use it and read its /metrics; --token-file FILE asks for a token")
        running = Server(load, settings)
        engine = running.engine
        engine.when_loaded = lambda: running.loaded(lambda: announce(where))
        running.run(sockets=[listener])
    if engine.failure is not None:
        raise engine.failure


class Server(uvicorn.Server):
    """uvicorn, which from a signal on takes no more requests: those that wait or have begun are answered."""

    def __init__(self, source: NLI | Callable[[], NLI], settings: Settings) -> None:
        app = create_app(source, settings)
        self.engine: Engine = app.state.engine
        config = uvicorn.Config(
            app,
            http=protocol(settings.patience),
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
        """The model is there, or there will be none and nothing to serve."""
        if self.engine.failure is None:
            announce()
        else:
            self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal."""
        self.engine.drain()
        super().handle_exit(sig, frame)


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens, or one line on why there is none."""
    if not host.strip():
        raise ValueError("host is empty, which would be every address of this machine; say 0.0.0.0 if that is meant")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family, backlog=1024)
    except OverflowError as error:
        raise ValueError(f"port = {port} is not between 0 and 65535") from error
    except OSError as error:
        raise OSError(_reason(error, host, port)) from error
    with found:
        yield found


def reached_from_here_only(listener: socket.socket) -> bool:
    """Whether the address is a loopback one."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def url(listener: socket.socket) -> str:
    """Where a browser finds it."""
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


@contextmanager
def _signals_are_heard() -> Iterator[None]:
    """uvicorn ends on a signal and then raises it once more, for whoever was there before: that is nobody."""
    heard = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: None) for number in heard]
    try:
        yield
    finally:
        for number, handler in zip(heard, before, strict=True):
            signal.signal(number, handler)
