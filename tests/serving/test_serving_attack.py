"""Clients that mean harm, and a model that fails: others are answered, the server says how it is and ends in time."""

import asyncio
import errno
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'neurogame[serve]'")

import tiny
from sockets import PAIR, SAID, Held, answer, everything, get, request, serving
from starlette.testclient import TestClient

from neurogame.explanation import METHODS, methods_for
from neurogame.explanation.methods import decision
from neurogame.explanation.reading import between_passes
from neurogame.nli import NLI
from neurogame.serving import connection as http
from neurogame.serving import schema, server
from neurogame.serving.app import create_app
from neurogame.serving.engine import BusyError, Engine
from neurogame.serving.settings import Settings

TOKEN = "a-token-of-32-characters-or-more"
HANG = 30  # seconds: generous, only a hang takes longer


@contextmanager
def many(connect, count, sent, **options):
    """Connections that stay open."""
    with ExitStack() as stack:
        yield [stack.enter_context(connect(sent, **options)) for _ in range(count)]


def until(condition):
    """Wait for what must become true soon."""
    end = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def ends(thread):
    """Whether a server ends by itself."""
    thread.join(HANG)
    return not thread.is_alive()


# --- connections that keep the server waiting -----------------------------------------------------------------------

NEVER_READ = {
    "public": get("/openapi.json") * 30,
    "unknown": get("/nothing") * 200,
    "refused": request(body={}) * 200,
}


@pytest.mark.parametrize("kind", NEVER_READ)
def test_clients_that_never_read_leave_room_for_others(kind):
    with serving(Held(), active=2, buffer=4096) as (running, connect, _), many(connect, 3, NEVER_READ[kind]):
        until(lambda: sum(c.flow.write_paused for c in running.server_state.connections) == 3)
        with connect(request()) as other:
            assert answer(other)[0] == 200
        running.force_exit = True


def test_clients_that_never_read_are_cut_off():
    with serving(Held(), patience=0.3, buffer=4096) as (running, connect, _), many(connect, 3, NEVER_READ["public"]):
        until(lambda: any(c.flow.write_paused for c in running.server_state.connections))
        until(lambda: not running.server_state.connections)


def test_clients_that_never_read_do_not_delay_the_end():
    with (
        serving(Held(), buffer=4096, timeout=1000) as (running, connect, thread),
        many(connect, 3, NEVER_READ["public"]),
        connect(request()[:-5]),  # and one that never ends its body
    ):
        until(lambda: sum(c.flow.write_paused for c in running.server_state.connections) == 3)
        running.handle_exit(15, None)
        assert ends(thread)


def test_a_client_that_reads_slowly_gets_all_of_it():
    found = b""
    with serving(Held(), patience=1.0, buffer=4096) as (_, connect, _), connect(get("/openapi.json") * 20) as slow:
        while found.count(b"HTTP/1.1 200 OK") < 20:
            time.sleep(0.02)  # in all longer than the patience
            found += slow.recv(4096)


def test_slow_bodies_leave_room_for_others():
    with serving(Held(), active=4) as (_, connect, _), many(connect, 10, request()[:-5]) as slow:
        for _ in range(3):
            with connect(request()) as other:
                assert answer(other)[0] == 200
            with connect(get("/health")) as other:
                assert answer(other)[0] == 200
        status, headers, body = answer(slow[0])  # the slowest made room
        assert (status, headers["retry-after"]) == (503, "1")
        assert json.loads(body) == {"error": "still being sent while 4 others are under way; try again in a moment"}


def test_what_has_arrived_does_not_make_room():
    model = Held(held=True)
    with serving(model, active=2) as (running, connect, _), connect(request()) as first, connect(request()) as second:
        until(lambda: model.begun.is_set() and len(running.server_state.tasks) == 2)
        with connect(request()) as third:
            assert answer(third)[0] == 503
        model.go.set()
        assert [answer(first)[0], answer(second)[0]] == [200, 200]


def test_without_the_token_nobody_counts():
    with serving(Held(), active=1, token=TOKEN) as (_, connect, _), many(connect, 5, request()[:-5]) as slow:
        with connect(request(Authorization=f"Bearer {TOKEN}")) as other:
            assert answer(other)[0] == 200
        assert [answer(connection)[0] for connection in slow] == [401] * 5


@pytest.mark.parametrize("sent", [b"", b"GET / HT", request()[:-5]], ids=["silent", "head", "body"])
def test_idle_connections_make_room(monkeypatch, sent):
    monkeypatch.setattr(server, "MOST", 10)
    model = Held(held=True)
    with serving(model) as (running, connect, _), connect(request()) as busy:
        assert model.begun.wait(HANG)
        with many(connect, 25, sent):
            with connect(get("/health")) as other:
                assert answer(other)[0] == 200
            assert len(running.server_state.connections) <= 11
            model.go.set()
            assert answer(busy)[0] == 200
            with connect(request()) as other:
                assert answer(other)[0] == 200


def test_the_address_with_most_connections_makes_room(monkeypatch):
    monkeypatch.setattr(server, "MOST", 10)
    with serving(Held()) as (_, connect, _):
        try:
            other = connect(get("/health"), source="127.0.0.2")
        except OSError:
            pytest.skip("this system has one loopback address")
        with other, many(connect, 30, b""):
            assert answer(other)[0] == 200
            other.sendall(get("/health"))
            assert answer(other)[0] == 200


@contextmanager
def child(script, log):
    """A server in a process of its own, and its port; `script` starts it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    with (
        log.open("wb") as written,
        subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=written) as process,
    ):
        try:
            while not (place := re.search(r"http://127\.0\.0\.1:(\d+)/", log.read_text())):
                assert process.poll() is None, log.read_text()
                time.sleep(0.05)
            yield process, ("127.0.0.1", int(place[1]))
        finally:
            process.kill()


def asked(place, sent):
    with socket.create_connection(place, HANG) as connection:
        connection.sendall(sent)
        return answer(connection)


# The soft limit is below the hard one, to which the server raises it.
FEW_FILES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 256))
from sockets import Held
from neurogame.serving import server
say = lambda line: print(line, file=sys.stderr, flush=True)
server.serve(Held, "127.0.0.1", 0, announce=say, warn=say)
"""


@pytest.mark.skipif(server.resource is None, reason="this system has no limit of open files")
def test_a_burst_of_connections_beyond_the_limit_of_open_files_makes_room(tmp_path):
    log = tmp_path / "log"
    with child(FEW_FILES, log) as (_, place), ExitStack() as stack:
        for _ in range(400):
            burst = stack.enter_context(socket.socket())
            burst.settimeout(0)
            burst.connect_ex(place)
        assert [asked(place, sent)[0] for sent in (get("/health"), request())] == [200, 200]
        until(lambda: log.read_text().count('"event"') == 2)  # an answer leaves before its line is written
    lines = log.read_text().splitlines()
    assert lines[0] == "256 files may be open (ulimit -n): 132 connections instead of 900"
    assert [json.loads(line)["event"] for line in lines[2:]] == ["request"] * 2


def test_where_the_system_has_no_files_left_idle_connections_are_closed(caplog):
    with serving(Held()) as (running, connect, _), many(connect, 40, b""):
        until(lambda: len(running.server_state.connections) == 40)
        loop = next(iter(running.server_state.connections)).loop
        for _ in range(3):  # as asyncio does, for each connection
            refused = {"exception": OSError(errno.EMFILE, "Too many open files")}
            loop.call_soon_threadsafe(running._on_error, loop, refused)
        until(lambda: len(running.server_state.connections) == 8)
        with connect(get("/health")) as other:
            assert answer(other)[0] == 200
    (record,) = [record for record in caplog.records if record.message == "cannot accept connections"]
    assert record.exc_info is None


def test_an_address_fills_the_queue_only_for_itself():
    async def scenario(engine, model):
        first = asyncio.ensure_future(engine.predict("0", "x", owner="many"))
        await asyncio.to_thread(model.begun.wait, HANG)
        asked = [engine.predict(str(i), "x", owner="many") for i in (1, 2, 3)]
        asked += [engine.predict(str(i), "x", owner="few") for i in (4, 5)]
        tasks = [asyncio.ensure_future(one) for one in asked]
        await asyncio.sleep(0.05)
        model.go.set()
        return await asyncio.gather(first, *tasks, return_exceptions=True)

    model = Held(held=True)
    engine = Engine(model, waiting=3)
    engine.start()
    found = asyncio.run(scenario(engine, model))
    engine.close()
    assert [getattr(one, "reason", "answered") for one in found] == [
        "answered",
        "answered",
        "answered",
        "full",
        "answered",
        "full",
    ]


# --- what is parsed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"{" + b",".join(b'"%x":1' % i for i in range(110_000)) + b"}",
        b"[" + b"{}," * 300_000 + b"{}]",
        b'{"premise": "", "hypothesis": "", "removed": [' + b"-1," * 300_000 + b"-1]}",
        b"[" * 300_000,
    ],
    ids=["keys", "objects", "numbers", "brackets"],
)
def test_a_body_of_many_pieces_is_not_parsed(monkeypatch, body):
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("parsed"))
    with TestClient(create_app(Held())) as client:
        response = client.post("/explain", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert b"brackets and commas" in response.content


def test_every_pair_that_fits_is_parsed():
    """Texts of nothing but brackets and commas, and as many numbers as may be struck out."""
    body = {"premise": "[{," * 6666, "hypothesis": "," * 20_000, "removed": [0] * 20_000}
    with TestClient(create_app(Held())) as client:
        assert client.post("/predict", json=body).json()["error"].startswith("removed: Extra inputs")


def test_the_first_wrong_number_is_enough():
    with pytest.raises(ValueError) as refused:
        schema.Question(**PAIR, removed=[-1] * 20_000)
    assert refused.value.error_count() == 1


def test_an_object_of_many_keys_is_not_validated():
    with TestClient(create_app(Held())) as client:
        response = client.post("/predict", json={**PAIR, **dict.fromkeys(map(str, range(50_000)))})
    assert response.json() == {"error": "an object has 50002 keys; at most 100 are taken"}


@pytest.mark.attack(point=10)
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"premise": "a", "hypothesis": "b", "premise": "c"}', "premise: given twice"),
        (b'{"premise": {"a": 1, "a": 2}, "hypothesis": "b"}', "a: given twice"),
        (b'{"\\u0070remise": "a", "premise": "a", "hypothesis": "b"}', "premise: given twice"),
    ],
)
def test_a_key_twice_is_refused(body, message):
    with TestClient(create_app(Held())) as client:
        response = client.post("/predict", content=body, headers={"content-type": "application/json"})
    assert (response.status_code, response.json()) == (422, {"error": message})


@pytest.mark.attack(point=10)
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_two_lengths_of_a_body_are_refused_and_the_connection_closed(version):
    """Else a proxy that believes the other one takes the rest for a request of somebody else."""
    head, _, body = request(**{"Transfer-Encoding": "chunked"}).partition(b"\r\n\r\n")
    sent = head.replace(b"HTTP/1.1", b"HTTP/" + version.encode()) + b"\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with serving(Held()) as (_, connect, _):
        found = everything(connect(sent + request()))
    assert found.startswith(b"HTTP/1.1 400 ")
    assert found.count(b"HTTP/1.1 ") == 1
    assert b"Transfer-Encoding" in found


def chunked(body, size, **headers):
    head = request(**headers).partition(b"\r\n\r\n")[0]
    head = b"\r\n".join(line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length"))
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    sent = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return head + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + sent + b"0\r\n\r\n"


LONG = json.dumps(PAIR).encode() + b" " * 300_000


@pytest.mark.parametrize("size", [1, 16])
@pytest.mark.parametrize("token", [None, TOKEN])
def test_a_body_in_small_chunks_is_refused(size, token):
    with serving(Held(), token=token) as (_, connect, _), connect(chunked(LONG, size)) as attacking:
        status, headers, body = answer(attacking)
        assert headers["connection"] == "close"
        assert everything(attacking) == b""
    assert status in ({400} if token is None else {400, 401})
    if status == 400:
        text = "the body comes in more than 1024 chunks and one per 256 bytes; send larger ones"
        assert json.loads(body) == {"error": text}


@pytest.mark.parametrize(("body", "size"), [(LONG[:1000], 1), (LONG, 256), (LONG, 1 << 17)])
def test_a_body_in_chunks_is_answered(body, size):
    with serving(Held()) as (_, connect, _), connect() as asking:
        for _ in range(2):
            asking.sendall(chunked(body, size))
            assert answer(asking)[0] == 200


def test_what_is_parsed_at_once_is_bounded(monkeypatch):
    sizes = []

    class Noted(server.Connection):
        def data_received(self, data):
            sizes.append(len(data))
            super().data_received(data)

    monkeypatch.setattr(server, "Connection", Noted)
    with serving(Held()) as (_, connect, _), connect(chunked(LONG, 1 << 17)) as asking:
        assert answer(asking)[0] == 200
    assert max(sizes) <= http.PIECE < len(LONG)


UNREAD = {
    401: {"Authorization": "Bearer none"},
    413: {"Authorization": f"Bearer {TOKEN}"},
    421: {"Host": "elsewhere.example"},
}


@pytest.mark.parametrize("status", UNREAD)
def test_after_an_answer_that_left_its_body_unread_the_connection_is_closed(status):
    """All of the body can be sent, so that the client reads the answer; what comes after it is not parsed."""
    head = request(**UNREAD[status]).partition(b"\r\n\r\n")[0]
    head = re.sub(rb"Content-Length: \d+", b"Content-Length: 1000000", head) + b"\r\n\r\n"
    if status == 421:
        head = head.replace(b"Host: localhost\r\n", b"")
    with (
        serving(Held(), token=TOKEN, hosts=("localhost",), body=500_000) as (_, connect, _),
        connect(head + b" " * 100_000) as asking,
    ):
        found = answer(asking)
        assert (found[0], found[1]["connection"]) == (status, "close")
        asking.sendall(b" " * 900_000 + get("/health"))
        assert everything(asking) == b""


def test_a_connection_whose_body_nobody_reads_is_cut_off(monkeypatch):
    monkeypatch.setattr(http, "HURRY", 0.3)
    with serving(Held(), token=TOKEN) as (running, connect, _), connect(request()[:-5]) as slow:
        assert answer(slow)[0] == 401
        until(lambda: not running.server_state.connections)


# --- a model that fails ---------------------------------------------------------------------------------------------


class Panic(BaseException):
    """As native code raises them."""


class Fragile(Held):
    def predict(self, premise, hypothesis=None, batch_size=None):
        found = super().predict(premise, hypothesis, batch_size)
        if any("panic" in p for p, _ in self.asked[-1]):
            raise Panic
        if any("stop" in p for p, _ in self.asked[-1]):
            raise StopIteration
        return found


@pytest.mark.attack(point=2)
@pytest.mark.parametrize("text", ["panic", "stop"])
def test_a_panic_fails_one_request(text):
    with TestClient(create_app(Fragile())) as client:
        response = client.post("/predict", json={**PAIR, "premise": text})
        assert (response.status_code, list(response.json())) == (500, ["error"])
        assert client.post("/predict", json=PAIR).status_code == 200
        assert client.get("/health").status_code == 200


@pytest.mark.attack(point=2)
def test_a_panic_fails_no_other_of_its_batch():
    async def scenario():
        asked = [engine.predict(text, "x") for text in ("first", "a", "panic", "b")]
        tasks = [asyncio.ensure_future(one) for one in asked]
        await asyncio.to_thread(model.begun.wait, HANG)
        await asyncio.sleep(0.05)
        model.go.set()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), HANG)

    model = Fragile(held=True)
    engine = Engine(model)
    engine.start()
    found = asyncio.run(scenario())
    engine.close()
    assert [found[0], found[1], found[3]] == [SAID] * 3
    assert isinstance(found[2], RuntimeError)


@pytest.mark.attack(point=2)
def test_a_dead_engine_is_not_ready_and_ends_the_server():
    def broken(*_):
        raise Panic

    with serving(Held()) as (running, connect, thread):
        running.engine.observe = broken  # outside of any request
        running.engine.when_loaded = lambda: running.loaded(lambda: None)
        with connect(request()) as asking:
            status, _, body = answer(asking)
        assert (status, list(json.loads(body))) == (503, ["error"])
        assert running.engine.status == "failed"
        assert ends(thread)
    assert str(running.engine.failure) == "Panic has ended the thread of the model"


# The thread of the model dies after the first prediction, outside of what belongs to a request.
DYING = """
import sys
from sockets import Held
import neurogame.nli
from neurogame.cli import main
from neurogame.serving.engine import Engine

class Panic(BaseException):
    pass

def die(*_):
    raise Panic

neurogame.nli.load = lambda *_, **__: Held()
Engine._record = die
sys.argv = ["neurogame", "serve", "--port", "0"]
main()
"""


@pytest.mark.attack(point=2)
def test_a_dead_engine_ends_the_process_with_1(tmp_path):
    log = tmp_path / "log"
    with child(DYING, log) as (process, place):
        assert asked(place, request())[0] == 503
        assert process.wait(HANG) == 1
    assert log.read_text().splitlines()[-1] == "neurogame serve: Panic has ended the thread of the model"


@pytest.mark.attack(point=2)
def test_a_dead_engine_is_said_by_an_application_of_ones_own():
    with TestClient(create_app(Held())) as client:
        client.app.state.engine.observe = lambda *_: 1 / 0
        assert client.post("/predict", json=PAIR).status_code == 503
        until(lambda: client.get("/health").status_code == 503)
        assert client.get("/health").json()["status"] == "failed"
        assert client.post("/predict", json=PAIR).status_code == 503


# --- work without end -----------------------------------------------------------------------------------------------


class Endless:
    """Work that goes on until it is stopped between two passes."""

    def __init__(self):
        self.begun, self.stopped = threading.Event(), threading.Event()

    def __call__(self, *_):
        self.begun.set()
        try:
            while True:
                between_passes.get()()
                time.sleep(0.001)
        finally:
            self.stopped.set()


def ask(engine, work, then):
    async def scenario():
        task = asyncio.ensure_future(engine.run(work))
        await asyncio.to_thread(work.begun.wait, HANG)
        then(task)
        await asyncio.wait([task], timeout=HANG)
        assert await asyncio.to_thread(work.stopped.wait, HANG)
        return task

    engine.start()
    try:
        return asyncio.run(scenario())
    finally:
        engine.close()


def test_work_has_a_deadline():
    task = ask(Engine(Held(), deadline=0.1), Endless(), lambda _: None)
    with pytest.raises(BusyError, match=r"not done within 0\.1 s") as refused:
        task.result()
    assert refused.value.reason == "late"


def test_work_whose_client_is_gone_is_stopped():
    assert ask(Engine(Held()), Endless(), lambda task: task.cancel()).cancelled()


def test_work_is_stopped_some_time_after_the_signal():
    engine = Engine(Held(), timeout=0.1)
    with pytest.raises(BusyError, match="shutting down"):
        ask(engine, Endless(), lambda _: engine.drain()).result()
    assert engine.failure is None


def test_work_that_does_not_stop_does_not_hold_the_caller(monkeypatch):
    monkeypatch.setattr("neurogame.serving.engine.GRACE", 0.2)
    model = Held(held=True)
    engine = Engine(model, timeout=0.05, deadline=0.05)
    engine.start()
    with pytest.raises(BusyError, match="not done within"):
        asyncio.run(asyncio.wait_for(engine.predict("0", "x"), HANG))
    until(lambda: engine.status == "failed")
    model.go.set()
    until(lambda: engine.status == "ready")
    engine.close()


@pytest.mark.parametrize("stops", [True, False])
def test_a_signal_ends_a_long_explanation_with_json(monkeypatch, stops):
    """Between two passes; one that never comes to its next pass is left behind, and the exit code says so."""
    work, go = Endless(), threading.Event()

    def stuck(*_):
        work.begun.set()
        go.wait(HANG)

    monkeypatch.setattr("neurogame.serving.app._explain_json", work if stops else stuck)
    monkeypatch.setattr(server, "DRAIN", 0.2)
    monkeypatch.setattr("neurogame.serving.engine.GRACE", 0.2)
    with serving(Held(), timeout=0.2) as (running, connect, thread), connect(request("/explain")) as asking:
        with connect(request("/explain")) as waiting:
            assert work.begun.wait(HANG)
            running.handle_exit(15, None)
            for connection in (asking, waiting):
                status, _, body = answer(connection)
                assert (status, list(json.loads(body))) == (503, ["error"])
        assert ends(thread)
        go.set()
    assert (running.engine.failure is None) == stops


@pytest.fixture(scope="module")
def nli():
    return NLI(tiny.model(), tiny.tokenizer(), name="tiny")


# Methods of one pass, or one forward and one backward pass.
AT_ONCE = {"game", "attention", "random"}


@pytest.mark.parametrize("method", METHODS)
def test_methods_of_many_passes_can_be_stopped(nli, method):
    """At the second pass already; a new method counts its passes by `Passes`, or belongs to AT_ONCE."""
    if method not in methods_for(nli.model):
        pytest.skip(f"needs {' and '.join(METHODS[method].needs)}")
    seen = []

    def stop():
        seen.append(1)
        if len(seen) == 2:
            raise BusyError("late", "stop")

    token = between_passes.set(stop)
    try:
        if method in AT_ONCE:
            nli.explain(*PAIR.values(), method=method)
        else:
            with pytest.raises(BusyError, match="stop"):
                nli.explain(*PAIR.values(), method=method)
    finally:
        between_passes.reset(token)


@pytest.mark.parametrize("samples", [None, 40])
def test_the_decision_game_on_the_head_can_be_stopped_in_every_block(nli, monkeypatch, samples):
    monkeypatch.setattr(decision, "_BLOCK", 16)
    seen, words = [], "two dogs sleep . " * 4
    token = between_passes.set(lambda: seen.append(1))
    try:
        found = nli.explain(words, "the dogs run .", method="decision", samples=samples)
    finally:
        between_passes.reset(token)
    assert len(seen) >= found.diagnostics["head_passes"] / 16


def test_settings_have_a_deadline():
    with pytest.raises(ValueError, match=r"deadline = 0 must be a number of seconds > 0"):
        Settings(deadline=0)
