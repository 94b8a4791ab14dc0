"""The server against its own description: requests as OpenAPI allows them, and as it forbids them, from schemathesis.

Every answer must have a status, a content type, headers and a body that the description names; what it forbids must be
refused; nothing may be the server's fault.
"""

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'neurogame[serve]'")
pytest.importorskip("schemathesis", reason="schemathesis is not installed: pip install 'neurogame[test]'")

import schemathesis
import tiny
from hypothesis import given
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import positive_data_acceptance
from support import fuzz, inputs

from neurogame.explanation import methods_for
from neurogame.nli import NLI
from neurogame.serving.app import create_app
from neurogame.serving.settings import Settings

ASKING = ["/predict", "/explain", "/explain.html"]
SLOW = {"lime", "kernelshap", "partition", "integrated_gradients"}  # seconds each, and of others
TOKEN = "a-token-that-schemathesis-does-not-know"
TEXTS = st.text(max_size=60) | st.lists(st.sampled_from(tiny.WORDS), max_size=8).map(" ".join)


@pytest.fixture(scope="module")
def nli():
    return NLI(tiny.model(), tiny.tokenizer(), name="tiny")


@pytest.fixture(scope="module")
def described(nli):
    return schemathesis.openapi.from_asgi("/openapi.json", create_app(nli))


def answered(case, target):
    """An answer that is as described; 400 is one, since not every string is a method or a label."""
    inputs[f"serve {target}"] += 1
    return case.call_and_validate(excluded_checks=[positive_data_acceptance])


def shortened(case):
    """The same with little work: a method may ask the model two thousand times."""
    if isinstance(case.body, dict) and isinstance(case.body.get("samples"), int):
        case.body["samples"] = min(case.body["samples"], 20)
    return case


@pytest.mark.parametrize("path", ASKING)
@fuzz(0.5)
@given(data=st.data())
def test_what_is_allowed_is_answered(described, path, data):
    case = data.draw(described[path]["POST"].as_strategy(schemathesis.GenerationMode.POSITIVE))
    assert answered(shortened(case), path).status_code in (200, 400)


@pytest.mark.parametrize("path", ASKING)
@fuzz(0.5)
@given(data=st.data())
def test_what_is_forbidden_is_refused(described, path, data):
    case = data.draw(described[path]["POST"].as_strategy(schemathesis.GenerationMode.NEGATIVE))
    assert answered(case, path).status_code in (400, 413, 422)


@fuzz()
@given(data=st.data())
def test_questions_that_can_be_answered(described, nli, data):
    """Names that exist, so that most requests reach the model."""
    label = st.none() | st.sampled_from(nli.labels)
    question = {
        "premise": TEXTS,
        "hypothesis": TEXTS,
        "method": st.sampled_from([name for name in methods_for(nli.model) if name not in SLOW]),
        "target": label,
        "contrast": label,
        "level": st.sampled_from(["word", "token"]),
        "removed": st.lists(st.integers(0, 9), max_size=3),
        "temperature_factor": st.just(1.0) | st.floats(0.001, 1000),
        "samples": st.none() | st.integers(2, 20),
        "seed": st.integers(0, 2**32 - 1),
    }
    path = data.draw(st.sampled_from(["/explain", "/explain.html"]))
    body = data.draw(
        st.fixed_dictionaries({}, optional=question).map(lambda asked: {"premise": "", "hypothesis": "", **asked})
    )
    case = described[path]["POST"].Case(body=body, media_type="application/json")
    assert answered(case, path).status_code in (200, 400)


def test_how_it_is_is_as_described(described):
    for path in ("/health", "/metrics"):
        assert answered(described[path]["GET"].Case(), path).status_code == 200


@pytest.mark.parametrize("path", ["/predict", "/metrics"])
def test_the_token_is_needed_as_described(nli, path):
    """schemathesis sends no token, and another one, where the description asks for one."""
    found = schemathesis.openapi.from_asgi("/openapi.json", create_app(nli, Settings(token=TOKEN)))
    verb, body = ("GET", {}) if path == "/metrics" else ("POST", {"body": {"premise": "a", "hypothesis": "b"}})
    case = found[path][verb].Case(**body, **({"media_type": "application/json"} if body else {}))
    assert answered(case, path).status_code == 401
    assert case.call_and_validate(headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
