"""A model that answers when told to, a server in a thread, and what talks to it over plain sockets."""

import json
import socket
import threading
import time
from contextlib import contextmanager

import tiny

from neurogame.nli import Prediction
from neurogame.serving import server
from neurogame.serving.settings import Settings

PAIR = {"premise": "two dogs sleep .", "hypothesis": "the dogs run ."}
SAID = Prediction("neutral", {"neutral": 1.0}, {"neutral": 0.0})


class Held:
    """A model that answers once it is let go, and keeps which pairs it was asked together."""

    name, labels, max_length, model = "held", ("neutral",), 8, tiny.model()

    def __init__(self, *, held=False):
        self.begun, self.go, self.asked = threading.Event(), threading.Event(), []
        if not held:
            self.go.set()

    def predict(self, premise, hypothesis=None, batch_size=None):
        self.begun.set()
        self.go.wait(60)
        pairs = premise if hypothesis is None else [(premise, hypothesis)]
        self.asked.append(list(pairs))
        return [SAID] * len(pairs) if hypothesis is None else SAID


@contextmanager
def serving(source, *, buffer=None, **options):
    """A server in a thread: itself, and what connects to it; `buffer` bytes of an answer may wait in the kernel."""
    with server.listening("127.0.0.1", 0) as listener:
        if buffer is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)  # what is accepted has it too
        port = listener.getsockname()[1]
        running = server.Server(source, Settings(**options))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        while not running.started and thread.is_alive():
            time.sleep(0.005)

        def connect(sent=b"", source="127.0.0.1"):
            found = socket.socket()
            found.settimeout(30)
            if buffer is not None:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            try:
                found.bind((source, 0))
                found.connect(("127.0.0.1", port))
                found.sendall(sent)
            except OSError:
                found.close()
                raise
            return found

        try:
            yield running, connect, thread
        finally:
            running.should_exit = True
            thread.join()


def request(path="/predict", body=PAIR, **headers):
    sent = json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(sent)}",
    ]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + sent


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def everything(connection):
    """What comes until the other side closes, or resets."""
    found = b""
    with connection:
        try:
            while part := connection.recv(1 << 16):
                found += part
        except ConnectionResetError:
            pass
    return found


def answer(connection):
    """Status, headers and body of one answer on an open connection."""
    file = connection.makefile("rb")
    status = int(file.readline().split()[1])
    headers = {}
    while line := file.readline().strip():
        name, _, value = line.decode().partition(": ")
        headers[name.lower()] = value
    return status, headers, file.read(int(headers["content-length"]))
