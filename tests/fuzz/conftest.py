"""The fuzzers run without run-time shape checks, as for a user, and offline, and say how many inputs they tried."""

import pytest
from jaxtyping import config
from support import write_counts


@pytest.fixture(autouse=True, scope="module")
def unchecked():
    """Shape checking off: what is raised is the library's own error."""
    config.update("jaxtyping_disable", value=True)
    yield
    config.update("jaxtyping_disable", value=False)


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """No made-up name is asked for on the hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def pytest_sessionfinish():
    write_counts()
