"""A socket, a model, and uvicorn between them; ends cleanly on Ctrl-C and SIGTERM, after what it is working on."""

import errno
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from neurogame.nli import NLI
from neurogame.serving.app import create_app

DRAIN = 10  # seconds that open requests have to end after a signal


def serve(load: Callable[[], NLI], host: str, port: int, announce: Callable[[str], object]) -> None:
    """Serve until a signal comes.

    Args:
        load: gives the model; called once the address is known to be free.
        host: the address to listen at; 127.0.0.1 is reached from this machine only.
        port: 0 takes a free one.
        announce: told the URL when it can be opened.
    """
    with listening(host, port) as listener:
        app = create_app(load())
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=DRAIN
        )
        with _signals_are_heard():
            announce(url(listener))
            uvicorn.Server(config).run(sockets=[listener])


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens, or one line on why there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family)
    except OverflowError as error:
        raise ValueError(f"port = {port} is not between 0 and 65535") from error
    except OSError as error:
        raise OSError(_reason(error, host, port)) from error
    with found:
        yield found


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
