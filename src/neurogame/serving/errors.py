"""Every error as one line of JSON, `{"error": "…"}`, with the status that says whose fault it is."""

import reprlib
from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from neurogame.modeling.checking import ModelError
from neurogame.printing import cut
from neurogame.serving.engine import BusyError

RETRY = {"Retry-After": "1"}  # seconds


def problem(status: int, error: object, headers: Mapping[str, str] | None = None) -> Response:
    """The answer where there is none."""
    text = " ".join(str(error).split()).encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": text}, status, headers)


def handle(app: FastAPI) -> None:
    """Teach an application to answer errors so."""

    @app.exception_handler(HTTPException)
    async def as_it_says(_: Request, error: HTTPException) -> Response:
        if isinstance(error.__cause__, RecursionError):  # FastAPI's own, from JSON in thousands of brackets
            return problem(422, "the body is nested too deeply")
        return problem(error.status_code, error.detail, error.headers)

    @app.exception_handler(RequestValidationError)
    async def not_as_it_should_be(request: Request, error: RequestValidationError) -> Response:
        return problem(422, _wrong(error, request.headers.get("content-type")))

    @app.exception_handler(BusyError)
    async def busy(request: Request, error: BusyError) -> Response:
        request.state.notes["refused"] = error.reason
        return problem(503, error, RETRY)

    @app.exception_handler(ModelError)
    async def broken(_: Request, error: ModelError) -> Response:
        return problem(500, error)

    @app.exception_handler(ValueError)
    async def refused(_: Request, error: ValueError) -> Response:
        return problem(400, error)


def _wrong(error: RequestValidationError, kind: str | None) -> str:
    """The first thing that is wrong with a request of this content type: where, what is expected, what is there."""
    first = error.errors()[0]
    place, found = first["loc"][1:], first.get("input")  # without "body"
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {first['ctx']['error']} at character {place[0]}"
    if not place and found is None:
        return "the body holds nothing; a JSON object is expected, with content-type: application/json"
    if not place and isinstance(found, bytes):
        sent = "no content-type" if kind is None else f"content-type: {cut(kind)}"
        return f"the request has {sent}; only content-type: application/json is taken"
    where = ".".join(cut(str(part)) for part in place) or "the body"
    if first["type"] in ("missing", "too_long"):  # nothing is there; the message has the number
        return f"{where}: {first['msg']}"
    got = len(found) if first["type"] == "string_too_long" else cut(reprlib.repr(found))
    return f"{where}: {first['msg']}, got {got}"
