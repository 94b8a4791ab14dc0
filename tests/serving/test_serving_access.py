"""Who may ask: the token, the names of the server, other sites; and what the settings refuse."""

import hmac
import os

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'neurogame[serve]'")

import tiny
from starlette.testclient import TestClient
from typer.testing import CliRunner

from neurogame.cli import app as command
from neurogame.nli import NLI
from neurogame.serving import middleware, server, settings
from neurogame.serving.app import create_app
from neurogame.serving.middleware import HEADERS, LOOPBACK, OPEN
from neurogame.serving.settings import Settings

PAIR = {"premise": "two dogs sleep .", "hypothesis": "the dogs run ."}
TOKEN = "a-token.of~32+characters/and=".ljust(32, "=")
CLOSED = [("POST", "/predict"), ("POST", "/explain"), ("POST", "/explain.html"), ("GET", "/metrics"), ("GET", "/none")]


@pytest.fixture(scope="module")
def nli():
    return NLI(tiny.model(), tiny.tokenizer(), name="tiny")


@pytest.fixture(scope="module")
def client(nli):
    chosen = Settings(token=TOKEN, origins=("https://example.org",), hosts=(*LOOPBACK, "testserver"))
    with TestClient(create_app(nli, chosen)) as client:
        yield client


# --- the token ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [None, "", "Bearer", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, "Bearer ÿ"],
)
def test_without_the_token_nothing_is_told(client, sent):
    headers = {} if sent is None else {"Authorization": sent.encode("latin-1")}
    for verb, path in CLOSED:
        response = client.request(verb, path, json=PAIR if verb == "POST" else None, headers=headers)
        assert response.status_code == 401
        assert response.json()["error"].startswith("a token is needed")
        assert TOKEN not in response.text
        assert response.headers["www-authenticate"] == "Bearer"
        assert {name: response.headers[name] for name in HEADERS} == HEADERS


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_with_the_token_all_is_as_without_one(client, nli, scheme):
    headers = {"Authorization": f"{scheme} {TOKEN}"}
    assert client.post("/predict", json=PAIR, headers=headers).json() == nli.predict(*PAIR.values()).to_dict()
    assert client.get("/metrics", headers=headers).status_code == 200
    assert client.get("/none", headers=headers).status_code == 404


def test_the_page_and_the_health_stay_open(client):
    for path in (*OPEN, "/static/app.js"):
        assert client.get(path).status_code == 200
    for path in ("/static/../predict", "/static/%2e%2e/predict", "//predict", "/predict/", "/static"):
        assert client.post(path, json=PAIR).status_code in (401, 404, 405)


def test_tokens_are_compared_in_constant_time(client, monkeypatch):
    compared = []
    monkeypatch.setattr(middleware.hmac, "compare_digest", lambda *both: compared.append(both) or False)
    assert client.get("/metrics", headers={"Authorization": "Bearer guess"}).status_code == 401
    assert compared == [(b"guess", TOKEN.encode())]
    assert hmac.compare_digest is middleware.hmac.compare_digest


def test_openapi_says_who_may_ask(client):
    found = client.get("/openapi.json").json()
    assert found["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    for path, verb in {"/predict": "post", "/explain": "post", "/explain.html": "post", "/metrics": "get"}.items():
        described = found["paths"][path][verb]
        assert described["security"] == [{"HTTPBearer": []}]
        assert {"401", "421"} <= set(described["responses"])
    assert "security" not in found["paths"]["/health"]["get"]


def test_a_token_is_read_from_a_file_or_the_environment(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n")
    monkeypatch.delenv(settings.TOKEN, raising=False)
    assert settings.token_of(None) is None
    monkeypatch.setenv(settings.TOKEN, "of-the-environment")
    assert settings.token_of(None) == "of-the-environment"
    assert settings.token_of(file) == TOKEN
    file.write_text("\n")
    with pytest.raises(ValueError, match="holds no token"):
        settings.token_of(file)
    for wrong in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(ValueError, match=r"the token in .* cannot be read: "):
            settings.token_of(wrong)


@pytest.mark.parametrize(
    "token", ["short", "x" * 15, "sixteen letters and a space", "ünicode" * 4, "a\nb" * 9, "=" * 20]
)
def test_a_weak_or_odd_token_is_refused_and_not_repeated(token):
    with pytest.raises(ValueError, match=r"the token (has|holds)") as refused:
        Settings(token=token)
    assert token not in str(refused.value)
    assert "token" not in repr(Settings(token=TOKEN))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch = 0 is too small; at least 1"),
        ({"waiting": -1}, "waiting = -1 is too small; at least 0"),
        ({"timeout": 0}, "timeout = 0 must be a number of seconds > 0"),
        ({"patience": float("nan")}, "patience = nan must be"),
        ({"origins": ("example.org",)}, "origin 'example.org' is none; one looks like https://example.org"),
        ({"origins": ("https://example.org/",)}, "origin 'https://example.org/' is none"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(ValueError) as refused:
        Settings(**options)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--token-file", "missing"], "missing"),
        (["--token-file", os.devnull], "holds no token"),
        (["--allow-origin", "nowhere"], "origin 'nowhere' is none"),
    ],
)
def test_wrong_options_are_one_line(options, message):
    result = CliRunner().invoke(command, ["serve", "--port", "0", *options])
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


# --- names of the server --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8765", "127.0.0.1:80", "[::1]:8765", "[::1]", "localhost."])
def test_its_own_names_are_answered(client, host):
    assert client.get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost@evil.example", "[::2]:80", "[", ":80"],
)
def test_a_name_that_points_here_from_elsewhere_is_refused(client, host):
    for path in ("/health", "/", "/metrics"):
        response = client.get(path, headers={"Host": host, "Authorization": f"Bearer {TOKEN}"})
        assert response.status_code == 421
        assert "is not this server's; allowed: 127.0.0.1, [::1], localhost" in response.json()["error"]
        assert "content-security-policy" in response.headers


def test_where_it_listens_says_who_is_warned():
    for host, here_only in (("127.0.0.1", True), ("127.0.0.5", True), ("localhost", True), ("0.0.0.0", False)):
        with server.listening(host, 0) as listener:
            assert server.is_loopback(listener) == here_only


@pytest.mark.parametrize(
    ("host", "token", "warned"), [("0.0.0.0", None, 1), ("0.0.0.0", TOKEN, 0), ("127.0.0.1", None, 0)]
)
def test_open_to_all_is_said(monkeypatch, host, token, warned):
    made, said = [], []
    monkeypatch.setattr(server.Server, "run", lambda self, sockets: made.append(self))
    monkeypatch.setattr(server, "create_app", lambda source, chosen: made.append(chosen) or create_app(source, chosen))
    server.serve(lambda: None, host, 0, said.append, said.append, token=token)
    assert len(said) == warned
    assert all("any client that reaches 0.0.0.0 can use it" in line for line in said)
    assert set(made[0].hosts) == ({*LOOPBACK} if host == "127.0.0.1" else set())


def test_no_address_is_not_every_address():
    with pytest.raises(ValueError, match=r"host is empty.*0\.0\.0\.0"), server.listening(" ", 0):
        pass


def test_a_name_may_be_allowed_with_its_port(nli):
    with TestClient(create_app(nli, Settings(hosts=("Example.org:443",)))) as client:
        for host, status in (("example.org:443", 200), ("example.org", 200), ("example.com", 421)):
            assert client.get("/health", headers={"Host": host}).status_code == status


def test_monitors_may_ask_for_the_head_alone(client):
    answer = client.head("/health")
    assert (answer.status_code, answer.content) == (200, b"")
    assert "head" not in client.get("/openapi.json").json()["paths"]["/health"]


def test_brackets_without_end(client):
    sent = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    answer = client.post("/predict", content=b"[" * 200_000, headers=sent)
    assert (answer.status_code, len(answer.json()["error"]) < 100) == (422, True)


# --- other sites ----------------------------------------------------------------------------------------------------


def test_a_site_that_was_allowed_may_ask(client):
    asking = {
        "Origin": "https://example.org",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type",
    }
    response = client.options("/predict", headers=asking)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "https://example.org"
    headers = {"Origin": "https://example.org", "Authorization": f"Bearer {TOKEN}"}
    response = client.post("/predict", json=PAIR, headers=headers)
    assert response.headers["access-control-allow-origin"] == "https://example.org"
    assert "access-control-allow-credentials" not in response.headers


def test_any_other_site_may_not(client):
    asking = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for response in (client.options("/predict", headers=asking), client.post("/predict", json=PAIR, headers=asking)):
        assert response.status_code in (400, 401)
        assert "access-control-allow-origin" not in response.headers
        assert "content-security-policy" in response.headers
