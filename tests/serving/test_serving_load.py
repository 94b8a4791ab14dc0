"""Under load and faults: batches, time that is over, slow and endless clients, metrics, log, draining."""

import asyncio
import io
import json
import logging
import socket
import sys
import threading
import time
from itertools import combinations

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'neurogame[serve]'")

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from sockets import PAIR, Held, answer, everything, request, serving
from starlette.testclient import TestClient

from neurogame.serving import engine, middleware, server, telemetry
from neurogame.serving.app import create_app
from neurogame.serving.engine import BusyError, Engine
from neurogame.serving.settings import Settings

# --- batches --------------------------------------------------------------------------------------------------------


def cost(groups, lengths):
    return sum(engine.START + len(group) * max(lengths[i] for i in group) for group in groups)


@given(st.lists(st.integers(0, 3000), max_size=40))
def test_groups_hold_each_text_once(lengths):
    found = engine.groups(lengths)
    assert sorted(i for group in found for i in group) == list(range(len(lengths)))
    assert cost(found, lengths) <= min(
        cost([range(len(lengths))], lengths) if lengths else 0, cost([[i] for i in range(len(lengths))], lengths)
    )


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=7))
def test_no_other_way_to_group_is_cheaper(lengths):
    """Against all ways to cut the sorted list, which hold the best of all partitions."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    cuts = [c for k in range(len(order)) for c in combinations(range(1, len(order)), k)]
    ways = [[order[a:b] for a, b in zip((0, *cut), (*cut, len(order)), strict=True)] for cut in cuts]
    assert cost(engine.groups(lengths), lengths) == min(cost(way, lengths) for way in ways)


def test_a_long_text_does_not_make_short_ones_long():
    assert engine.groups([30, 5000, 40, 35]) == [[2, 3, 0], [1]]
    assert engine.groups([60, 80, 70]) == [[1, 2, 0]]


def run(scenario, **limits):
    """A scenario that starts with one prediction under way, which is the first task."""
    model = Held(held=True)
    working = Engine(model, **limits)
    working.start()

    async def begin():
        first = asyncio.ensure_future(working.predict("0", "x"))
        await asyncio.to_thread(model.begun.wait, 30)
        return await asyncio.wait_for(scenario(working, model, first), 30)

    try:
        return asyncio.run(begin())
    finally:
        model.go.set()
        working.close()


async def queued(*coroutines):
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    await asyncio.sleep(0)
    return tasks


def test_short_and_long_requests_have_forward_passes_of_their_own():
    async def scenario(working, model, first):
        notes = [{} for _ in range(4)]
        texts = ["a b c", "long " * 300, "d e f", "long " * 290]
        others = await queued(*(working.predict(text, "x", note) for text, note in zip(texts, notes, strict=True)))
        model.go.set()
        await asyncio.gather(first, *others)
        return [len(pairs) for pairs in model.asked], [note["batch"] for note in notes]

    assert run(scenario) == ([1, 2, 2], [2, 2, 2, 2])


def test_an_explanation_is_passed_only_once():
    """Or else it would never have its turn while predictions keep coming."""

    async def scenario(working, model, first):
        order = []

        async def ask(name):
            await (working.run(lambda _: order.append(name)) if name == "why" else working.predict(name, "x"))

        waiting = await queued(ask("why"), ask("1"))
        model.go.set()
        while not model.asked or model.asked[-1][0][0] != "1":
            await asyncio.sleep(0.001)
        waiting += await queued(ask("2"))
        await asyncio.gather(first, *waiting)
        return order, [pairs[0][0] for pairs in model.asked]

    order, asked = run(scenario, batch=1)
    assert order == ["why"]
    assert asked == ["0", "1", "2"]


def test_it_lingers_for_those_it_has_just_answered(monkeypatch):
    """Two clients that take turns: each answer is followed by the next request a moment later."""
    monkeypatch.setattr(engine, "LINGER", 1e6)
    monkeypatch.setattr(engine, "LONGEST", 30.0)

    async def scenario(working, model, first):
        pair = await queued(working.predict("1", "x"), working.predict("2", "x"))
        model.go.set()
        await asyncio.gather(first, *pair)
        one = await queued(working.predict("3", "x"))
        await asyncio.sleep(0.05)
        two = await queued(working.predict("4", "x"))
        await asyncio.gather(*one, *two)
        return [len(pairs) for pairs in model.asked]

    assert run(scenario) == [1, 2, 2]


def test_who_waits_too_long_is_turned_away_and_not_computed():
    async def scenario(working, model, first):
        (late,) = await queued(working.predict("late", "x"))
        with pytest.raises(BusyError, match=r"not begun within 0\.05 s") as refused:
            await late
        assert refused.value.reason == "late"
        assert len(working) == 0
        model.go.set()
        await first  # has begun, so it is answered however long it takes
        return model.asked

    assert run(scenario, timeout=0.05) == [[("0", "x")]]


def test_a_model_that_does_not_load_answers_all_who_wait():
    go = threading.Event()

    def load():
        go.wait(30)
        raise OSError("no such folder")

    working = Engine(load)
    loaded = threading.Event()
    working.when_loaded = loaded.set
    working.start()

    async def scenario():
        waiting = await queued(working.predict("1", "x"), working.run(len))
        assert working.status == "loading"
        go.set()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [str(error) for error in found] == ["the model did not load"] * 2
        with pytest.raises(BusyError):
            await working.predict("2", "x")

    asyncio.run(asyncio.wait_for(scenario(), 30))
    assert loaded.wait(30)
    assert isinstance(working.failure, OSError)
    working.close()


# --- limits of a request --------------------------------------------------------------------------------------------


def ask(app, *parts, headers=()):
    """Status and JSON of a POST to /predict, and how many parts of its body were taken; None is never sent."""
    sent, parts, said = len(parts), list(parts), []

    async def receive():
        if not parts or parts[0] is None:
            await asyncio.Event().wait()
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message):
        said.append(message)

    async def scenario():
        async with app.router.lifespan_context(app):
            kinds = [(b"content-type", b"application/json"), *headers]
            scope = {"type": "http", "method": "POST", "path": "/predict", "query_string": b"", "headers": kinds}
            await asyncio.wait_for(app(scope, receive, send), 30)

    asyncio.run(scenario())
    return said[0]["status"], json.loads(b"".join(part.get("body", b"") for part in said[1:])), sent - len(parts)


def test_a_body_that_does_not_come_is_given_up():
    app = create_app(Held(), Settings(patience=0.05))
    for parts in ([None], [b'{"premise": ', None], [b"{", *[b" "] * 50, None]):
        assert ask(app, *parts)[:2] == (408, {"error": "the request was not sent within 0.05 s"})


def test_an_endless_body_is_cut_without_being_kept():
    status, said, taken = ask(create_app(Held(), Settings(body=5000)), *[b" " * 1000] * 100)
    assert (status, taken) == (413, 6)
    assert said == {"error": "the request has more than 5000 bytes; at most 5000 are taken"}


@pytest.mark.parametrize("announced", [b"5001", b"9" * 18, b"9" * 5000])
def test_an_announced_size_is_enough(announced):
    app = create_app(Held(), Settings(body=5000))
    status, said, taken = ask(app, b" ", headers=[(b"content-length", announced)])
    assert (status, taken) == (413, 0)
    assert len(said["error"]) < 100


def test_requests_at_a_time_have_a_limit():
    model = Held(held=True)
    with TestClient(create_app(model, Settings(active=1))) as client:
        first = threading.Thread(target=client.post, args=["/predict"], kwargs={"json": PAIR})
        first.start()
        assert model.begun.wait(30)
        response = client.post("/explain", json=PAIR)
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        assert response.json() == {"error": "1 requests are under way already"}
        for path in ("/metrics", "/", "/openapi.json"):  # need no model
            assert client.get(path).status_code == 200
        model.go.set()
        first.join()
        assert client.post("/predict", json=PAIR).status_code == 200
        assert counted(client)["neurogame_rejected_total", (("reason", "active"),)] == 1


def test_refusals_leave_one_after_another(monkeypatch):
    """Whoever asks again at once does not take the time of those who are answered."""
    pauses, sleep = [], asyncio.sleep

    async def noted(seconds):
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(middleware.asyncio, "sleep", noted)
    monkeypatch.setattr(middleware, "PAUSE", 1000.0)  # longer than the test, so that the clock does not matter
    model = Held(held=True)
    with TestClient(create_app(model, Settings(active=1))) as client:
        first = threading.Thread(target=client.post, args=["/predict"], kwargs={"json": PAIR})
        first.start()
        assert model.begun.wait(30)
        refused = [client.post("/predict", json=PAIR).status_code for _ in range(4)]
        model.go.set()
        first.join()
    assert refused == [503] * 4
    assert pauses[0] == 0.0
    assert pauses[1:] == pytest.approx([1000.0] * 3, abs=900)  # each after the one before it


def test_who_hangs_up_loses_the_turn_of_a_refusal(monkeypatch):
    """Else thousands who are gone would hold up those who wait, and the end of the server."""
    monkeypatch.setattr(middleware, "PAUSE", 1000.0)
    model = Held(held=True)
    with serving(model, active=1) as (running, connect, _):
        first = connect(request())
        assert model.begun.wait(30)
        refused = connect(request())
        assert answer(refused)[0] == 503  # the first refusal does not wait
        for connection in [refused, *(connect(request()) for _ in range(5))]:
            connection.close()
        for _ in range(2000):
            if len(running.server_state.tasks) == 1:
                break
            time.sleep(0.01)
        assert len(running.server_state.tasks) == 1  # the one that is answered
        model.go.set()
        assert answer(first)[0] == 200
        first.close()


# --- what is said of it ---------------------------------------------------------------------------------------------


def counted(client):
    """Every sample of /metrics."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_metrics_count_what_happens():
    model = Held()
    with TestClient(create_app(model, Settings(body=2000))) as client:
        for _ in range(3):
            assert client.post("/predict", json=PAIR).status_code == 200
        assert client.post("/predict", json={}).status_code == 422
        assert client.post("/predict", content=b" " * 3000).status_code == 413
        for path in ("/some/secret", "/other", "/static/app.js"):
            client.get(path)
        found = counted(client)
        text = client.get("/metrics").text
    requests = {
        (dict(labels)["route"], dict(labels)["status"]): value
        for (name, labels), value in found.items()
        if name == "neurogame_requests_total"
    }
    assert requests == {
        ("/predict", "200"): 3,
        ("/predict", "422"): 1,
        ("/predict", "413"): 1,
        ("other", "404"): 2,
        ("/static", "200"): 1,
    }
    assert found["neurogame_request_seconds_count", (("route", "/predict"),)] == 5
    assert found["neurogame_batch_pairs_count", ()] == found["neurogame_batch_pairs_sum", ()] == 3
    assert found["neurogame_model_seconds_count", (("work", "predict"),)] == 3
    assert found["neurogame_rejected_total", (("reason", "size"),)] == 1
    assert (found["neurogame_ready", ()], found["neurogame_queue_length", ()]) == (1, 0)
    assert found["neurogame_active_requests", ()] == 1  # this one
    if sys.platform == "linux":
        assert found["process_resident_memory_bytes", ()] > 0
    assert "secret" not in text


def test_an_application_can_be_started_again():
    app = create_app(Held)
    for _ in range(2):
        with TestClient(app) as client:
            assert client.post("/predict", json=PAIR).status_code == 200
        assert app.state.engine.status == "draining"


def test_two_applications_count_for_themselves():
    with TestClient(create_app(Held())) as first, TestClient(create_app(Held())) as second:
        first.post("/predict", json=PAIR)
        assert ("neurogame_batch_pairs_count", ()) in counted(second)
        assert counted(second)["neurogame_batch_pairs_count", ()] == 0


def logged(monkeypatch, settings, *requests):
    """The lines that requests leave in the log."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with telemetry.log_to_stderr(), TestClient(create_app(Held(), settings)) as client:
        for verb, path, options in requests:
            client.request(verb, path, **options)
    lines = sys.stderr.getvalue().splitlines()
    monkeypatch.undo()
    return [json.loads(line) for line in lines]


def test_the_log_is_a_line_of_json_per_request_without_text(monkeypatch):
    secret = {"premise": "my secret \x1b[31m", "hypothesis": "is \u202e safe"}
    asked = [
        ("POST", "/predict", {"json": secret, "headers": {"X-Request-ID": "abc-1"}}),
        ("POST", "/explain", {"json": {**secret, "method": "my secret"}}),
        ("POST", "/predict", {"json": {"my secret": 1}, "headers": {"X-Request-ID": "my secret"}}),
        ("GET", "/my secret?my=secret", {"headers": {"User-Agent": "my secret"}}),
    ]
    found = logged(monkeypatch, Settings(), *asked)
    assert [(line["route"], line["status"]) for line in found] == [
        ("/predict", 200),
        ("/explain", 400),
        ("/predict", 422),
        ("other", 404),
    ]
    assert (found[0]["id"], found[0]["batch"], found[0]["event"]) == ("abc-1", 1, "request")
    assert {"time", "level", "ms", "waited_ms", "model_ms"} <= set(found[0])
    assert found[1]["method"] == "other"
    assert len({line["id"] for line in found}) == 4
    assert "secret" not in json.dumps(found)


def test_the_log_holds_texts_if_asked(monkeypatch):
    (line,) = logged(monkeypatch, Settings(log_text=True), ("POST", "/predict", {"json": PAIR}))
    assert {name: line[name] for name in PAIR} == PAIR


def test_an_exception_is_logged_without_its_message():
    try:
        int("what a user wrote")
    except ValueError:
        record = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, "it failed", (), sys.exc_info())
    line = telemetry.JsonFormatter().format(record)
    found = json.loads(line)
    assert (found["event"], found["error"], found["level"]) == ("it failed", "ValueError", "error")
    assert "test_an_exception_is_logged" in found["where"][-1]
    assert "wrote" not in line


def test_the_id_of_a_request_goes_back_with_the_answer():
    with TestClient(create_app(Held())) as client:
        assert (
            client.get("/none", headers={"X-Request-ID": "from-a-proxy.7"}).headers["x-request-id"] == "from-a-proxy.7"
        )
        for odd in ("a b", "x" * 65, "<script>"):
            given = client.get("/none", headers={"X-Request-ID": odd}).headers["x-request-id"]
            assert len(given) == 32


def test_while_it_loads_it_says_so_and_requests_wait():
    go = threading.Event()

    def load():
        go.wait(30)
        return Held()

    with TestClient(create_app(load)) as client:
        response = client.get("/health")
        assert (response.status_code, response.json()["status"]) == (503, "loading")
        assert response.headers["retry-after"] == "1"
        assert response.json()["error"] == "the model is loading"
        assert counted(client)["neurogame_ready", ()] == 0
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(client.post("/predict", json=PAIR)))
        waiting.start()
        go.set()
        waiting.join(30)
        assert answers[0].json()["label"] == "neutral"


# --- a real socket --------------------------------------------------------------------------------------------------


def test_who_takes_too_long_over_the_head_is_cut_off():
    with serving(Held(), patience=0.2) as (_, connect, _):
        for sent in (b"", b"POST /predict HT", b"POST /predict HTTP/1.1\r\nHost: localhost\r\nX-Slow: "):
            assert everything(connect(sent)) == b""
        connection = connect(request())  # and over the next head on a connection that was used before
        assert answer(connection)[0] == 200
        connection.sendall(b"POST /pre")
        assert everything(connection) == b""


def test_a_slow_body_is_refused_and_the_connection_closed():
    with serving(Held(), patience=0.2) as (_, connect, _):
        found = everything(connect(request()[:-5]))
        assert found.startswith(b"HTTP/1.1 408 ")
        assert b"not sent within 0.2 s" in found


def test_what_is_refused_may_be_sent_to_its_end_but_not_forever():
    with serving(Held(), patience=0.3, body=1000) as (_, connect, _):
        connection = connect(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")

        def go_on():
            for _ in range(100_000):
                connection.sendall(b"3e8\r\n" + b" " * 1000 + b"\r\n")
                time.sleep(0.001)

        with pytest.raises(OSError):
            go_on()
        connection.close()


def test_what_is_no_http_is_refused_like_anything_else():
    with serving(Held()) as (_, connect, _):
        found = everything(connect(b"nonsense\r\n\r\n")).decode()
        assert found.startswith("HTTP/1.1 400 Bad Request\r\n")
        assert "x-content-type-options: nosniff" in found.lower()
        assert json.loads(found.partition("\r\n\r\n")[2]) == {"error": "Invalid HTTP request received."}


def test_connections_have_a_limit(monkeypatch):
    monkeypatch.setattr(server, "MOST", 2)
    with serving(Held()) as (_, connect, _):
        kept = [connect(request()) for _ in range(2)]
        assert [answer(connection)[0] for connection in kept] == [200, 200]
        with connect(request()) as third:
            assert answer(third)[0] == 200
        assert everything(kept[0]) == b""  # the oldest that idles has made room
        kept[1].close()


def test_the_second_piece_of_an_answer_does_not_wait_for_the_first(monkeypatch):
    """asyncio sees to it only where the listener names its protocol; without it an answer takes 40 ms more."""
    found = []

    class Noted(server.Connection):
        def connection_made(self, transport):
            super().connection_made(transport)
            found.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(server, "Connection", Noted)
    with serving(Held()) as (_, connect, _):
        connection = connect(request())
        assert answer(connection)[0] == 200
        connection.close()
    assert found == [1]


def test_a_connection_serves_many_requests():
    with serving(Held()) as (_, connect, _):
        connection = connect()
        for _ in range(5):
            connection.sendall(request())
            status, headers, body = answer(connection)
            assert (status, json.loads(body)["label"]) == (200, "neutral")
            assert "server" not in headers
        connection.close()


def _refused(connect):
    """Whether nobody answers any more: no connection, or one that is closed at once."""
    try:
        return everything(connect(request())) == b""
    except OSError:
        return True


def test_draining_answers_all_who_wait_and_refuses_the_rest():
    model = Held(held=True)
    with serving(model) as (running, connect, thread):
        waiting = [connect(request())]
        assert model.begun.wait(30)
        waiting += [connect(request()) for _ in range(4)]
        idle = connect()
        while len(running.engine) < 4:
            time.sleep(0.005)
        running.handle_exit(15, None)
        assert running.engine.status == "draining"
        assert everything(idle) == b""
        assert _refused(connect)
        model.go.set()
        for connection in waiting:
            status, _, body = answer(connection)
            assert (status, json.loads(body)["label"]) == (200, "neutral")
            connection.close()
        thread.join(30)
        assert not thread.is_alive()
    assert sum(map(len, model.asked)) == 5


def test_from_the_signal_on_nothing_more_is_taken():
    model = Held()
    with TestClient(create_app(model)) as client:
        client.app.state.engine.drain()
        response = client.post("/predict", json=PAIR)
        assert (response.status_code, response.json()) == (503, {"error": "the server is shutting down"})
        health = client.get("/health")
        assert (health.status_code, health.json()["status"]) == (503, "draining")
        assert counted(client)["neurogame_rejected_total", (("reason", "draining"),)] == 1
