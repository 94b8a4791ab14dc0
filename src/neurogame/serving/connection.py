"""One HTTP connection: uvicorn's h11 protocol with the limits that it lacks."""

import asyncio
import socket
from collections.abc import Iterable
from typing import Any, Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from neurogame.serving.engine import of_heaviest
from neurogame.serving.middleware import HEADERS, address, problem

HURRY = 2  # seconds that clients may keep a server waiting that shuts down, or that has answered before it read all
PIECE = 1 << 14  # bytes that are read and parsed per turn of the event loop
CHUNKS = 1024  # that a body may come in, and one more per MEAN bytes
MEAN = 256


class Parser(h11.Connection):
    """h11 with a limit on chunks; answers that leave a body unread say that the connection closes.

    h11 parses one chunk in some 5 µs of Python, however small it is: a body of 1 MiB could hold the event loop for
    seconds. A connection with an unread body cannot be used again, since that body would have to be parsed.
    """

    chunks = received = 0

    def next_event(self) -> Any:
        """The next event; too many chunks are an error of the client."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.chunks = self.received = 0
        elif isinstance(event, h11.Data):
            self.chunks, self.received = self.chunks + event.chunk_start, self.received + len(event.data)
            if self.has_too_many_chunks:
                raise h11.RemoteProtocolError("too many chunks")
        return event

    @property
    def has_too_many_chunks(self) -> bool:
        """Whether the body of the request comes in too small pieces."""
        return self.chunks > CHUNKS + self.received // MEAN

    @property
    def has_unread_body(self) -> bool:
        """Whether the client has not sent its whole request, or not all of it was parsed."""
        return self.their_state is h11.SEND_BODY

    def send(self, event: Any) -> Any:
        """The bytes of an event. "Connection: close" is added behind h11's back, so that uvicorn does not close.

        A socket that is closed while bytes arrive is reset, and the client may never see its answer: see
        `Connection._linger`.
        """
        sent = super().send(event)
        announced = isinstance(event, h11.Response) and any(name.lower() == b"connection" for name, _ in event.headers)
        if isinstance(event, h11.Response) and self.has_unread_body and not announced:
            return sent[:-2] + b"Connection: close\r\n\r\n"
        return sent


class Connection(H11Protocol, asyncio.BufferedProtocol):
    """uvicorn's h11 protocol with limits on connections, on what is parsed at once, on seconds without a byte.

    A connection without a request under way is closed after `patience` seconds, however many bytes it sends; after an
    answer uvicorn's shorter keep-alive time counts first. So is one whose client does not read its answer. Beyond
    `most` connections the oldest that keep the server waiting are closed, of the address with the most of them, so that
    there is room for new ones. httptools would take a head of any size, h11 takes 64 KiB.
    """

    def __init__(self, *args: Any, patience: float, most: int, **options: Any) -> None:
        super().__init__(*args, **options)
        self.patience, self.most, self.closing, self.since = patience, most, False, self.loop.time()
        self.end: asyncio.TimerHandle | None = None
        self.conn: Parser = Parser(h11.SERVER)
        self.owner, self.lingers, self.buffer = "", False, bytearray()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Accept a connection; head and body of an answer leave at once (asyncio sets TCP_NODELAY for few sockets)."""
        super().connection_made(transport)
        self.owner = address(self.client)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.connections) > self.most:
            make_room(self.connections, 1 + self.most // 50)  # some more, since counting them takes its time
        self._watch()

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002  asyncio's signature
        """Where asyncio puts what it reads: a small piece, so that other connections have their turn."""
        self.buffer = bytearray(PIECE)
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Handle what was read."""
        data, self.buffer = bytes(memoryview(self.buffer)[:nbytes]), bytearray()
        self.data_received(data)

    def data_received(self, data: bytes) -> None:
        """Handle what the client sends; the rest of a body that nobody reads is thrown away as it is."""
        if not self.lingers:
            super().data_received(data)
            self._watch()

    def on_response_complete(self) -> None:
        """Start to wait for the next request, or for the client to notice that there can be none."""
        unread = self.conn.has_unread_body
        super().on_response_complete()
        if unread and not self.transport.is_closing():
            self._linger()
        else:
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
        if not self.lingers:
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

    def _linger(self) -> None:
        """Say that no more is written, and let the client close within HURRY seconds; nginx: a lingering close."""
        self._unset_keepalive_if_required()
        self._unwatch()
        self.end, self.lingers = self.loop.call_later(HURRY, self.transport.abort), True
        self.transport.write_eof()
        self.flow.resume_reading()

    def _watch(self) -> None:
        """Start the timer while the server waits for the client; `Limits` has that of a body."""
        if self.lingers:
            return
        if not self.waits or (self.waits == "body" and not self.closing):
            self._unwatch()
        elif self.end is None:
            self.end = self.loop.call_later(self.patience, self.transport.abort)

    def _unwatch(self) -> None:
        if self.end is not None:
            self.end.cancel()
            self.end = None

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP with an error in JSON, like any other, and tell the application to give up."""
        if self.conn.has_too_many_chunks:
            msg = f"the body comes in more than {CHUNKS} chunks and one per {MEAN} bytes; send larger ones"
        response = problem(400, msg, {**HEADERS, "Connection": "close"})
        head = [b"HTTP/1.1 400 Bad Request", *map(b": ".join, response.raw_headers), b"", b""]
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:  # another answer is half sent
                return self.transport.abort()
        self.transport.write(b"\r\n".join(head) + bytes(response.body))
        return self._linger()


def make_room(connections: Iterable[asyncio.Protocol], count: int) -> None:
    """Close the `count` oldest connections that keep the server waiting, of the address with the most of them."""
    waiting = [other for other in connections if isinstance(other, Connection) and other.waits]
    waiting.sort(key=lambda other: other.since)
    for oldest in of_heaviest(waiting, lambda other: other.owner)[:count]:
        oldest.connections.discard(oldest)
        oldest.transport.abort()
