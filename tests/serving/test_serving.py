"""The API against the library itself; sizes, headers, errors of one line; the queue; starting and ending."""

import asyncio
import dataclasses
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from html.parser import HTMLParser

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'neurogame[serve]'")

import tiny
from starlette.responses import Response
from starlette.testclient import TestClient
from transformers import BertForSequenceClassification
from typer.testing import CliRunner

from neurogame import Explanation
from neurogame.cli import app as command
from neurogame.explanation import METHODS, best, methods_for, what_if
from neurogame.explanation.views.page import page
from neurogame.nli import NLI
from neurogame.serving import schema, server
from neurogame.serving.app import STATIC, create_app
from neurogame.serving.engine import BusyError, Engine
from neurogame.serving.settings import Settings

PAIR = {"premise": "two dogs sleep .", "hypothesis": "the dogs run ."}
TEXTS = tuple(PAIR.values())
BODY = Settings.body


@pytest.fixture(scope="module")
def nli():
    return NLI(tiny.model(), tiny.tokenizer(), name="tiny")


@pytest.fixture(scope="module")
def client(nli):
    with TestClient(create_app(nli)) as client:
        yield client


def without_time(found):
    found["diagnostics"].pop("seconds")
    return found


# --- answers --------------------------------------------------------------------------------------------------------


def test_health_says_what_is_served(client, nli):
    found = client.get("/health").json()
    assert (found["status"], found["model"], found["labels"]) == ("ready", "tiny", list(nli.labels))
    assert [entry["name"] for entry in found["methods"]] == methods_for(nli.model)
    assert [entry["samples"] for entry in found["methods"]] == [
        bool(METHODS[m].samples) for m in methods_for(nli.model)
    ]
    assert [entry["name"] for entry in found["methods"] if entry["recommended"]] == [best(nli.model)]
    assert all(entry["about"] and entry["measured"]["model"] for entry in found["methods"])
    slow = {entry["name"] for entry in found["methods"] if entry["slow"]}
    assert (
        {"presence", "input"}
        <= slow
        <= {"presence", "input", "integrated_gradients", "lime", "kernelshap", "partition"}
    )
    targets = {entry["name"]: entry["has_target"] for entry in found["methods"]}
    assert targets["decision"]
    assert not targets["game"]
    assert found["has_temperature"]
    assert (found["queue"], found["waiting"], found["batch"]) == (0, 64, 32)
    assert {entry["name"] for entry in found["methods"] if entry["follows_temperature"]} == what_if.FOLLOWING


def test_predict_is_the_models_own(client, nli):
    assert client.post("/predict", json=PAIR).json() == nli.predict(*TEXTS).to_dict()


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"method": "game"},
        {"method": "Gradient × input"},
        {"target": "neutral", "contrast": "e"},
        {"level": "token"},
        {"method": "presence"},
        {"method": "presence", "samples": 3},
        {"method": "input", "samples": 40, "seed": 2**32 - 1},
    ],
    ids=str,
)
def test_explain_is_the_librarys_own(client, nli, asked):
    found = client.post("/explain", json={**PAIR, **asked}).json()
    said = found.pop("summary")
    assert without_time(found) == without_time(nli.explain(*TEXTS, **asked).to_dict())
    assert said["poles"][1].startswith("for " if found["target"] else "adds")
    assert all(isinstance(line, str) for line in [said["question"], *said["warnings"], *said["footing"]])


@pytest.mark.parametrize(
    "change",
    [
        {"removed": [1, 6]},
        {"temperature_factor": 0.2},
        {"removed": [1], "method": "input", "samples": 40, "seed": 3},
        {"removed": [1], "temperature_factor": 3.0, "samples": 8, "seed": 1},
    ],
    ids=str,
)
def test_words_are_struck_out_and_the_temperature_turned(client, nli, change):
    found = client.post("/explain", json={**PAIR, **change}).json()
    found.pop("summary")
    assert without_time(found) == without_time(what_if.explain(nli, *TEXTS, **change).to_dict())


def test_whole_numbers_are_whole_however_they_are_written(client):
    """To JSON Schema 2.0 is an integer."""
    asked = {**PAIR, "method": "input", "removed": [1], "samples": 40, "seed": 3}
    other = {**asked, "removed": [1.0], "samples": 40.0, "seed": 3.0}
    found = [without_time(client.post("/explain", json=body).json()) for body in (asked, other)]
    assert all(answer.pop("summary") for answer in found)  # which has the time once more
    assert found[0] == found[1]
    limits = client.get("/openapi.json").json()["components"]["schemas"]["Question"]["properties"]
    assert limits["removed"]["items"] == {"type": "integer", "minimum": 0}
    assert (limits["seed"]["minimum"], limits["seed"]["maximum"]) == (0, 2**32 - 1)


def test_the_answer_is_an_explanation_again(client):
    found = client.post("/explain", json=PAIR).json()
    assert list(found) == [
        *(f.name for f in dataclasses.fields(Explanation) if f.name != "text"),
        "sentence",
        "summary",
    ]
    assert list(schema.Explained.model_fields) == list(found)
    assert schema.Explained.model_validate(found).words == found["words"]
    assert Explanation.from_dict(found).to_dict() == {k: v for k, v in found.items() if k != "summary"}


def test_the_report_is_the_explanations_own_page(client, nli):
    response = client.post("/explain.html", json={**PAIR, "method": "game"})
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "attachment" in response.headers["content-disposition"]
    expected = page(nli.explain(*TEXTS, method="game"))
    number = re.compile(r"[\d.]+(?= ms)|seconds</dt><dd>[^<]+")
    assert number.sub("", response.text) == number.sub("", expected)


def test_models_of_others_are_served_too():
    config = tiny.encoder_config(num_labels=3, id2label={0: "a", 1: "b", 2: "c"}, label2id={"a": 0, "b": 1, "c": 2})
    with TestClient(create_app(NLI(BertForSequenceClassification(config), tiny.tokenizer(), name="bert"))) as client:
        found = client.get("/health").json()
        assert not found["has_temperature"]
        assert "decision" not in [entry["name"] for entry in found["methods"]]
        assert client.post("/predict", json=PAIR).status_code == 200
        refused = client.post("/explain", json={**PAIR, "method": "occlusion", "temperature_factor": 2.0})
        assert refused.status_code == 400


def test_openapi_describes_every_answer(client):
    found = client.get("/openapi.json").json()
    assert set(found["paths"]) == {"/health", "/metrics", "/predict", "/explain", "/explain.html"}
    for path in ("/predict", "/explain", "/explain.html"):
        answers = found["paths"][path]["post"]["responses"]
        assert set(answers) == {"200", "400", "408", "413", "422", "500", "503"}
        for status in set(answers) - {"200"}:
            assert answers[status]["content"]["application/json"]["schema"]["$ref"].endswith("/Problem")
        assert "Retry-After" in answers["503"]["headers"]
    assert set(found["paths"]["/health"]["get"]["responses"]) == {"200", "503"}
    assert "security" not in found["paths"]["/predict"]["post"]
    assert set(found["components"]["schemas"]["Explained"]["required"]) == set(schema.Explained.model_fields)
    for path in ("/docs", "/redoc"):  # FastAPI's own pages load scripts from elsewhere
        assert client.get(path).status_code == 404


# --- mistakes and limits --------------------------------------------------------------------------------------------

MISTAKES = [
    ({"premise": "a dog"}, 422, "hypothesis: Field required"),
    ({**PAIR, "premise": 3}, 422, "premise: Input should be a valid string, got 3"),
    ({**PAIR, "premise": "\ud800"}, 422, "premise: "),
    ({**PAIR, "premise": ["a\u202e\n"]}, 422, "premise: Input should be a valid string, got ['a\\u202e\\n']"),
    ({**PAIR, "extra": 1}, 422, "extra: Extra inputs are not permitted, got 1"),
    ({**PAIR, "\u202e\x1b": 1}, 422, "\\u202e\\u001b: Extra inputs are not permitted, got 1"),
    ([PAIR["premise"]], 422, "the body: Input should be a valid dictionary"),
    ({**PAIR, "premise": "a" * 20_001}, 422, "premise: String should have at most 20000 characters, got 20001"),
    ({**PAIR, "hypothesis": "a " * 50_000}, 422, "hypothesis: String should have at most 20000 characters, got 100000"),
    (
        {**PAIR, "temperature_factor": 0},
        422,
        "temperature_factor: Input should be greater than or equal to 0.001, got 0",
    ),
    ({**PAIR, "temperature_factor": "1.5"}, 422, "temperature_factor: Input should be a valid number, got '1.5'"),
    ({**PAIR, "temperature_factor": float("nan")}, 422, "temperature_factor: Input should be a finite number, got nan"),
    ({**PAIR, "temperature_factor": 10**400}, 422, "temperature_factor: Input should be "),
    ({**PAIR, "removed": ["1"]}, 422, "removed.0: Input should be a valid integer, got '1'"),
    ({**PAIR, "removed": [10**30]}, 400, "removed has 10000000000000000000; the words of this pair"),
    ({**PAIR, "removed": [-1]}, 422, "removed.0: Input should be greater than or equal to 0, got -1"),
    ({**PAIR, "level": "letter"}, 422, "level: Input should be 'word' or 'token', got 'letter'"),
    ({**PAIR, "samples": 2001}, 422, "samples: Input should be less than or equal to 2000, got 2001"),
    ({**PAIR, "samples": 1}, 422, "samples: Input should be greater than or equal to 2, got 1"),
    ({**PAIR, "samples": True}, 422, "samples: Input should be a valid integer, got True"),
    ({**PAIR, "seed": -1}, 422, "seed: Input should be greater than or equal to 0, got -1"),
    ({**PAIR, "method": "game", "samples": 9}, 400, "samples = 9: method = 'game' takes none"),
    ({**PAIR, "method": "presence", "samples": 65}, 400, "samples = 65: method = 'presence' takes at most 64 steps"),
    ({**PAIR, "method": "nothing"}, 400, "method = 'nothing'"),
    ({**PAIR, "target": "perhaps"}, 400, "target = 'perhaps'"),
    ({**PAIR, "contrast": "perhaps"}, 400, "contrast = 'perhaps'"),
    ({**PAIR, "removed": [99]}, 400, "removed has 99; the words of this pair are numbered 0 to 7"),
    ({**PAIR, "removed": list(range(8))}, 400, "every word is struck out"),
    ({**PAIR, "method": "occlusion", "temperature_factor": 2.0}, 400, "temperature_factor = 2.0: method = 'occlusion'"),
    ({"premise": " ", "hypothesis": ""}, 400, "premise and hypothesis are both empty"),
    ({"premise": "a " * 400, "hypothesis": "a " * 201}, 413, "the pair has 601 words; at most 600 are explained"),
]


@pytest.mark.parametrize(("body", "status", "message"), MISTAKES, ids=[m for _, _, m in MISTAKES])
@pytest.mark.parametrize("path", ["/explain", "/explain.html"])
def test_a_mistake_is_one_line(client, path, body, status, message):
    response = client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
    assert response.status_code == status
    assert list(response.json()) == ["error"]
    assert response.json()["error"].startswith(message)
    assert "\n" not in response.json()["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"premise": ' * 2000])
@pytest.mark.parametrize("path", ["/predict", "/explain"])
def test_what_is_no_json_is_refused(client, path, body):
    response = client.post(path, content=body, headers={"content-type": "application/json"})
    assert response.status_code in (400, 422)
    assert list(response.json()) == ["error"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the body is not JSON: Expecting property name enclosed in double quotes at character 1"),
        (b"nothing", "the body is not JSON: Expecting value at character 0"),
        (b"", "the body holds nothing; a JSON object is expected, with content-type: application/json"),
    ],
)
def test_what_is_no_json_is_told_where(client, body, message):
    response = client.post("/predict", content=body, headers={"content-type": "application/json"})
    assert (response.status_code, response.json()) == (422, {"error": message})


def test_a_refused_value_is_never_repeated_at_length(client):
    for body in (
        {**PAIR, "level": "a" * 100_000},
        {**PAIR, "a" * 100_000: 1},
        {**PAIR, "seed": [[[["a" * 99]] * 99] * 99]},
    ):
        response = client.post("/explain", json=body)
        assert response.status_code == 422
        assert len(response.json()["error"]) < 200
    deep = b'{"premise": ' + b"[" * 900 + b"]" * 900 + b', "hypothesis": ""}'
    response = client.post("/predict", content=deep, headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert response.json()["error"].startswith("premise: Input should be a valid string, got [[[")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_a_form_of_another_site_is_refused(client, kind):
    """A page elsewhere can send a form or plain text without asking; JSON it cannot."""
    response = client.post("/predict", content=json.dumps(PAIR), headers={} if kind is None else {"content-type": kind})
    sent = "no content-type" if kind is None else f"content-type: {kind}"
    assert response.status_code == 422
    assert response.json() == {"error": f"the request has {sent}; only content-type: application/json is taken"}


def test_long_pairs_are_predicted_even_if_not_explained(client):
    said = client.post("/predict", json={"premise": "dogs " * 4000, "hypothesis": "a" * 20_000})
    assert said.status_code == 200
    assert said.json()["truncated"]


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_has_a_limit(client, announced):
    body = b"x" * (BODY + 1)
    content = body if announced else iter([body[: BODY // 2], body[BODY // 2 :]])
    response = client.post("/predict", content=content, headers={"content-type": "application/json"})
    assert response.status_code == 413
    assert f"at most {BODY} are taken" in response.json()["error"]


def test_the_longest_pair_fits_into_a_body(client):
    """Every character as two escapes of six bytes."""
    texts = {"premise": "😀" * 20_000, "hypothesis": "😀" * 20_000}
    assert len(json.dumps(texts)) < BODY
    assert client.post("/predict", json=texts).status_code == 200


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }} ${7*7} <%= 7 %>",
    "\x00\x01\x1b[31m\r\n",
    "\u202eabc\u2066 \u200b",
    "שלום עולם",
    "👩‍👩‍👧‍👧 🏳️‍🌈",
    "e\u0301" * 50,
    "' OR 1=1; --",
    "dog",
    "",
    "…" * 3000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_text_is_answered_or_refused_in_one_line(client, text):
    for path in ("/predict", "/explain", "/explain.html"):
        for body in ({"premise": text, "hypothesis": "a dog"}, {"premise": "", "hypothesis": text}):
            response = client.post(path, json=body)
            assert response.status_code in (200, 400)
            if response.status_code == 400:
                assert list(response.json()) == ["error"]
            elif path == "/explain":
                assert response.json()["hypothesis"] == body["hypothesis"]
            elif path == "/explain.html":
                assert "<script" not in response.text
                assert "<img" not in response.text


def test_unknown_paths_and_verbs_are_json_too(client):
    assert client.get("/nothing").json() == {"error": "Not Found"}
    assert client.get("/predict").status_code == 405
    assert client.get("/static/../app.py").status_code == 404
    assert client.get("/static/%2e%2e/app.py").json() == {"error": "Not Found"}


def test_what_goes_wrong_inside_stays_inside(nli, caplog, monkeypatch):
    def broken(_, premise, **__):
        raise RuntimeError(premise.upper())

    monkeypatch.setattr(what_if, "explain", broken)
    with TestClient(create_app(nli)) as client:
        response = client.post("/explain", json=PAIR)
    assert response.status_code == 500
    assert response.json() == {"error": "internal error; the server's log says where"}
    assert "content-security-policy" in response.headers
    (record,) = [found for found in caplog.records if found.levelname == "ERROR"]
    assert (record.fields["error"], record.fields["route"]) == ("RuntimeError", "/explain")
    assert any("test_serving.py" in place for place in record.fields["where"])
    assert PAIR["premise"].upper() not in str(record.fields) + caplog.text


# --- the page and its headers ---------------------------------------------------------------------------------------


def test_every_answer_is_guarded(client):
    answers = [client.get(path) for path in ("/", "/health", "/static/app.js", "/report.css", "/nothing")]
    answers += [client.post("/explain", json=PAIR), client.post("/explain", json={})]
    for response in answers:
        policy = response.headers["content-security-policy"]
        assert "default-src 'self'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["cache-control"] == ("no-cache" if response.request.method == "GET" else "no-store")


@pytest.mark.parametrize("path", ["/", "/report.css", "/static/app.js"])
def test_the_head_of_a_file_is_that_of_the_file(client, path):
    head, whole = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-length", "content-type", "cache-control", "content-security-policy"):
        assert head.headers[name] == whole.headers[name]


def test_other_sites_get_no_permission(client):
    asking = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "POST"}
    for response in (client.options("/predict", headers=asking), client.post("/predict", json=PAIR, headers=asking)):
        assert not [name for name in response.headers if name.startswith("access-control")]


class _Markup(HTMLParser):
    """Every attribute of every element, and the text of scripts and styles."""

    def __init__(self):
        super().__init__()
        self.found, self.inline, self.within = [], "", None

    def handle_starttag(self, tag, attrs):
        self.found += [(tag, name, value or "") for name, value in attrs]
        self.within = tag

    def handle_endtag(self, tag):
        self.within = None

    def handle_data(self, data):
        if self.within in ("script", "style"):
            self.inline += data


def test_the_page_needs_nothing_from_elsewhere(client):
    markup = _Markup()
    markup.feed(client.get("/").text)
    assert not markup.inline.strip()
    assert not [entry for entry in markup.found if entry[1] == "style" or entry[1].startswith("on")]
    linked = [value for _, name, value in markup.found if name in ("src", "href") and not value.startswith("#")]
    assert {"static/app.js", "static/style.css", "report.css"} <= set(linked)
    for link in linked:
        assert client.get("/" + link).status_code == 200
    for file in STATIC.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|@import|url\(", text), file.name
        for module in re.findall(r'from "\./([^"]+)"', text):
            assert (STATIC / module).is_file(), module


def test_no_script_makes_markup_of_text():
    makers = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|srcdoc"
    for file in STATIC.glob("*.js"):
        assert not re.search(makers, file.read_text(encoding="utf-8")), file.name


# --- the queue ------------------------------------------------------------------------------------------------------


class _Slow:
    """A model that answers when it is told to, and counts."""

    def __init__(self):
        self.begun, self.go, self.asked = threading.Event(), threading.Event(), []

    def predict(self, premise, hypothesis=None, batch_size=None):
        self.begun.set()
        self.go.wait(30)
        pairs = premise if hypothesis is None else [(premise, hypothesis)]
        self.asked.append(len(pairs))
        if ("bad", "pair") in pairs:
            raise ValueError("a bad pair")
        said = [f"{p} {h}" for p, h in pairs]
        return said if hypothesis is None else said[0]


def run(scenario, **limits):
    """A scenario that starts with one prediction under way, which is the first task."""
    model = _Slow()
    engine = Engine(model, **limits)
    engine.start()

    async def begin():
        first = asyncio.ensure_future(engine.predict("0", "x"))
        await asyncio.to_thread(model.begun.wait, 30)
        return await asyncio.wait_for(scenario(engine, model, first), 30)

    try:
        return asyncio.run(begin())
    finally:
        model.go.set()
        engine.close()


async def queued(*coroutines):
    """Tasks that have come as far as the queue."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    await asyncio.sleep(0)
    return tasks


def test_predictions_that_wait_share_a_forward_pass():
    async def scenario(engine, model, first):
        others = await queued(*(engine.predict(str(i), "x") for i in range(1, 10)))
        model.go.set()
        return await asyncio.gather(first, *others), model.asked

    answers, asked = run(scenario, batch=4)
    assert answers == [f"{i} x" for i in range(10)]
    assert asked == [1, 4, 4, 1]


def test_predictions_pass_explanations_which_keep_their_order():
    async def scenario(engine, model, first):
        def explain(name):
            return lambda _: model.asked.append(name) or list(model.asked)

        jobs = [engine.run(explain("a")), engine.predict("1", "x"), engine.run(explain("b")), engine.predict("2", "x")]
        others = await queued(*jobs)
        model.go.set()
        return await asyncio.gather(first, *others)

    assert run(scenario) == ["0 x", [1, 2, "a"], "1 x", [1, 2, "a", "b"], "2 x"]


def test_one_bad_pair_spoils_no_other():
    async def scenario(engine, model, first):
        others = await queued(*(engine.predict(*pair) for pair in [("1", "x"), ("bad", "pair"), ("2", "x")]))
        model.go.set()
        return await asyncio.gather(*others, return_exceptions=True)

    before, bad, after = run(scenario)
    assert (before, after) == ("1 x", "2 x")
    assert isinstance(bad, ValueError)


def test_a_full_queue_turns_requests_away():
    async def scenario(engine, model, first):
        others = await queued(engine.predict("1", "x"), engine.predict("2", "x"))
        with pytest.raises(BusyError, match="2 requests are waiting already"):
            await engine.predict("3", "x")
        model.go.set()
        return await asyncio.gather(first, *others)

    assert run(scenario, waiting=2) == ["0 x", "1 x", "2 x"]


def test_what_nobody_waits_for_is_not_computed():
    async def scenario(engine, model, first):
        (given_up,) = await queued(engine.run(lambda _: model.asked.append("too much")))
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        model.go.set()
        await first
        return await engine.run(lambda _: list(model.asked))

    assert run(scenario) == [1]


def test_what_is_given_up_makes_room():
    async def scenario(engine, model, first):
        (given_up,) = await queued(engine.predict("1", "x"))
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        others = await queued(engine.predict("2", "x"))
        model.go.set()
        return await asyncio.gather(first, *others)

    assert run(scenario, waiting=1) == ["0 x", "2 x"]


async def post(app, path, body, *, leaves):
    """The status of a request to an application; a client that `leaves` disconnects once the request is sent."""
    messages = [{"type": "http.request", "body": json.dumps(body).encode()}]
    status = []

    async def receive():
        if messages:
            return messages.pop()
        if not leaves:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message):
        status.append(message.get("status"))

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    await app(scope, receive, send)
    return status[0]


@pytest.mark.parametrize("leaves", [True, False])
def test_who_hangs_up_is_not_computed_for(monkeypatch, leaves):
    explained, model = [], _Slow()
    monkeypatch.setattr("neurogame.serving.app.POLL", 0.01)
    monkeypatch.setattr("neurogame.serving.app._explain_json", lambda *_: explained.append(1) or Response())

    async def scenario():
        app = create_app(model)
        async with app.router.lifespan_context(app):
            first = asyncio.ensure_future(post(app, "/predict", PAIR, leaves=False))
            await asyncio.to_thread(model.begun.wait, 30)
            second = asyncio.ensure_future(post(app, "/explain", PAIR, leaves=leaves))
            await asyncio.wait([second], timeout=30 if leaves else 0.1)
            assert second.done() == leaves
            model.go.set()
            await first
            return await second

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == (499 if leaves else 200)
    assert explained == ([] if leaves else [1])


def test_closing_finishes_what_waits_and_takes_no_more():
    async def scenario(engine, model, first):
        others = await queued(engine.predict("1", "x"))
        model.go.set()
        await asyncio.to_thread(engine.close)
        with pytest.raises(BusyError, match="shutting down"):
            await engine.predict("2", "x")
        return await asyncio.gather(first, *others)

    assert run(scenario) == ["0 x", "1 x"]


def test_a_busy_server_says_when_to_come_back(nli):
    with TestClient(create_app(nli, Settings(waiting=0))) as client:
        response = client.post("/predict", json=PAIR)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert "try again" in response.json()["error"]


# --- starting and ending --------------------------------------------------------------------------------------------


def test_a_port_in_use_is_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(command, ["serve", "--port", str(port)])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"neurogame serve: port {port} of 127.0.0.1 is in use")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("host", ["192.0.2.7", "no.such.host.invalid"])
def test_a_host_that_is_not_here_is_one_line(host):
    result = CliRunner().invoke(command, ["serve", "--host", host, "--port", "0"])
    assert result.exit_code == 1
    assert result.stderr.startswith("neurogame serve: host")
    assert result.stderr.count("\n") == 1


def test_a_model_that_is_not_there_is_one_line(tmp_path):
    result = CliRunner().invoke(command, ["serve", "--model", str(tmp_path / "none"), "--port", "0"])
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1


def test_where_a_browser_finds_it():
    for host, start in (("127.0.0.1", "http://127.0.0.1:"), ("0.0.0.0", "http://127.0.0.1:")):
        with server.listening(host, 0) as listener:
            assert server.url(listener).startswith(start)


@pytest.fixture(scope="module")
def folder(nli, tmp_path_factory):
    found = tmp_path_factory.mktemp("served") / "model"
    nli.save_pretrained(found)
    return found


@pytest.fixture
def process(folder):
    """`neurogame serve` itself: the process and its address."""
    verb = [sys.executable, "-m", "neurogame", "serve", "--model", str(folder), "--port", "0", "--timeout", "300"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(verb, env={**os.environ, "OMP_NUM_THREADS": "1"}, **pipes) as started:
        try:
            line = started.stderr.readline()
            found = re.fullmatch(r"neurogame serve: (http://127\.0\.0\.1:\d+/) \(Ctrl-C ends it\)\n", line)
            assert found, line
            yield started, found[1]
        finally:
            started.kill()


def lines_of(process):
    """What it has logged, once it has ended well."""
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (0, "")
    return [json.loads(line) for line in err.splitlines()]


def test_it_says_where_it_is_and_ends_cleanly(process):
    running, address = process
    with urllib.request.urlopen(address + "health", timeout=300) as response:
        assert json.load(response)["status"] == "ready"
    named = urllib.request.Request(address + "health", headers={"Host": "elsewhere.example"})
    with pytest.raises(urllib.error.HTTPError, match="421"):
        urllib.request.urlopen(named, timeout=300)
    running.send_signal(signal.SIGINT)
    assert [(line["route"], line["status"]) for line in lines_of(running)] == [("/health", 200), ("/health", 421)]


def test_a_signal_lets_all_who_wait_be_answered(process):
    """One slow explanation has begun and eight more wait when SIGTERM comes."""
    running, address = process
    place = urllib.parse.urlsplit(address)

    def ask(samples):
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=300)
        body = json.dumps({**PAIR, "method": "input", "samples": samples})
        connection.request("POST", "/explain", body, {"Content-Type": "application/json"})
        return connection

    asked = [ask(2000), *(ask(20) for _ in range(8))]
    while "neurogame_queue_length 8.0" not in urllib.request.urlopen(address + "metrics", timeout=300).read().decode():
        pass
    running.send_signal(signal.SIGTERM)
    for connection in asked:
        response = connection.getresponse()
        assert (response.status, json.load(response)["method"]) == (200, "input")
        connection.close()
    found = lines_of(running)
    assert sum(line["status"] == 200 and line["route"] == "/explain" for line in found) == 9
