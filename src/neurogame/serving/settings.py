"""Settings of a server: limits, access, log."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

TOKEN = "NEUROGAME_TOKEN"  # noqa: S105  the name of a variable of the environment
SHORTEST = 16  # characters of a token
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750
_ORIGIN = re.compile(r"\*|https?://[^\s/?#@]+")
_MAKE = "`openssl rand -hex 32` makes one"


@dataclass(frozen=True)
class Settings:
    """The limits of a server, validated.

    Args:
        waiting: requests that may wait for the model; the next one is rejected with 503.
        batch: pairs per forward pass at most; 1 takes every request alone.
        timeout: seconds that a request may wait in the queue; after that it is rejected with 503.
        deadline: seconds of work on one request; after that it is stopped between two forward passes.
        patience: seconds that a client may take to send a request, or to read on where its answer is held up.
        body: bytes of a request.
        active: requests for the model at a time, those included that are still being sent.
        token: bearer token that requests must send; None: none is needed.
        origins: other sites whose pages may ask, as in "https://example.org".
        hosts: names under which the server may be addressed; none: any.
        log_text: whether the log holds what was asked.
    """

    waiting: int = 64
    batch: int = 32
    timeout: float = 30.0
    deadline: float = 120.0
    patience: float = 20.0
    body: int = 1 << 20  # two texts of the longest kind, every character escaped
    active: int = 256
    token: str | None = field(default=None, repr=False)
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    log_text: bool = False

    def __post_init__(self) -> None:
        for name, least in {"waiting": 0, "batch": 1, "body": 1, "active": 1}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} = {getattr(self, name)} is too small; at least {least}")
        for name in ("timeout", "deadline", "patience"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} = {getattr(self, name)} must be a number of seconds > 0")
        if self.token is not None:  # which no message repeats
            if len(self.token) < SHORTEST:
                raise ValueError(f"the token has {len(self.token)} characters; at least {SHORTEST} are needed: {_MAKE}")
            if not _TOKEN.fullmatch(self.token):
                more = "more than letters, digits and ._~+/-, which a header cannot hold"
                raise ValueError(f"the token holds {more}: {_MAKE}")
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"origin {origin!r:.80} is none; one looks like https://example.org, without a path")


DEFAULT = Settings()


def token_of(file: Path | None) -> str | None:
    """The token in a file, or else in the environment; None where there is neither."""
    if file is None:
        return os.environ.get(TOKEN, "").strip() or None
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            token = opened.read(1 << 16).strip()
    except OSError as error:
        raise ValueError(f"the token in {file} cannot be read: {error.strerror or error}") from None
    if not token:
        raise ValueError(f"{file} holds no token: {_MAKE}")
    return token
