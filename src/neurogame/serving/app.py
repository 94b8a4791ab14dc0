"""The routes: `/` is the page, `/predict` and `/explain` are JSON, `/openapi.json` says what they take.

    create_app(nli)   a FastAPI application around one loaded model

An error is `{"error": "one line"}`: 400 for what the model or a method refuses, 413 and 422 for what the request has
wrong, 503 with Retry-After where too many wait. Whoever hangs up is not computed for, unless it has begun. No page of
documentation is served: FastAPI's own loads scripts from elsewhere.
"""

import asyncio
import reprlib
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from neurogame import __version__
from neurogame.explanation import METHODS, Explanation, methods_for, named, summary, what_if
from neurogame.explanation.page import page
from neurogame.nli import NLI, ModelError
from neurogame.printing import cut
from neurogame.serving import schema
from neurogame.serving.engine import Answer, BusyError, Engine
from neurogame.serving.guard import Guard

STATIC = Path(str(resources.files("neurogame.serving"))) / "static"
STYLE = Path(str(resources.files("neurogame.explanation"))) / "page.css"  # the look of the report is that of the page
POLL = 0.5  # seconds between two looks at whether whoever asked is still there
GONE = 499  # nobody reads it; nginx's number for a request that was closed
MANY = ("forward passes", "steps")  # what `samples` of a slow method counts
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": schema.Problem, "description": text}
    for status, text in {
        400: "Cannot be answered",
        413: "Too long",
        422: "Not as it should be",
        503: "Too many requests are waiting",
    }.items()
}
_HTML: dict[int | str, dict[str, Any]] = {200: {"content": {"text/html": {"schema": {"type": "string"}}}}}


def create_app(nli: NLI, **limits: Any) -> FastAPI:
    """The application; `limits` are those of `Engine`."""
    engine = Engine(nli, **limits)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        engine.close()

    app = FastAPI(
        title="NeuroGame",
        version=__version__,
        summary="Natural-language inference, explained word by word.",
        docs_url=None,
        redoc_url=None,
        lifespan=running,
    )
    app.add_middleware(Guard)
    _errors(app)
    _answers(app, engine)
    _files(app)
    return app


def _answers(app: FastAPI, engine: Engine) -> None:
    """The JSON API."""

    @app.get("/health")
    async def health() -> schema.Health:
        """The server is up, and what it serves."""
        return _health(engine.nli)

    @app.post("/predict", responses=_PROBLEMS)
    async def predict(pair: schema.Pair, request: Request) -> schema.Said:
        """What the model says of a pair."""
        said = await _awaited(request, engine.predict(pair.premise, pair.hypothesis))
        return schema.Said(**said.to_dict())

    @app.post("/explain", responses=_PROBLEMS, response_model=schema.Explained)
    async def explain(question: schema.Question, request: Request) -> Response:
        """Why: what each word adds, with words struck out or at another temperature if asked."""
        return await _awaited(request, engine.run(partial(_explained, question)))

    @app.post("/explain.html", responses=_PROBLEMS | _HTML, response_class=Response)
    async def report(question: schema.Question, request: Request) -> Response:
        """The same as one HTML file that needs nothing else."""
        return await _awaited(request, engine.run(partial(_report, question)))


async def _awaited(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
    """What the engine answers; the job is given up when whoever asked has gone."""
    job = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([job], timeout=POLL))[0]:
            if await request.is_disconnected():
                raise HTTPException(GONE, "whoever asked has gone")
        return job.result()
    finally:
        job.cancel()


def _files(app: FastAPI) -> None:
    """The page and what it is made of."""

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def index() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.api_route("/report.css", methods=["GET", "HEAD"], include_in_schema=False)
    async def style() -> FileResponse:
        return FileResponse(STYLE)

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def _health(nli: NLI) -> schema.Health:
    hot = what_if.has_temperature(nli.model)
    return schema.Health(
        version=__version__,
        model=nli.name,
        labels=list(nli.labels),
        max_length=nli.max_length,
        methods=[
            schema.MethodInfo(
                name=name,
                has_target=METHODS[name].has_target,
                samples=METHODS[name].samples is not None,
                slow=METHODS[name].samples in MANY,
                follows_temperature=hot and name in what_if.FOLLOWING,
            )
            for name in methods_for(nli.model)
        ],
        has_temperature=hot,
    )


def _explanation(question: schema.Question, nli: NLI) -> Explanation:
    words = len(question.premise.split()) + len(question.hypothesis.split())
    if words > schema.WORDS:
        raise HTTPException(413, f"the pair has {words} words; at most {schema.WORDS} are explained")
    asked = question.model_dump(exclude={"samples", "seed"})
    if question.samples is None and question.seed == 0:
        return what_if.explain(nli, **asked)
    if question.removed or question.temperature_factor != 1:
        raise ValueError("samples and seed are taken for the pair as it is: without removed and temperature_factor")
    method = METHODS.get(named(question.method))
    if method is not None and method.samples == "steps" and (question.samples or 0) > schema.STEPS:
        raise ValueError(
            f"samples = {question.samples}: method = {question.method!r} takes at most {schema.STEPS} steps here"
        )
    del asked["removed"], asked["temperature_factor"]
    return nli.explain(**asked, samples=question.samples, seed=question.seed)


def _explained(question: schema.Question, nli: NLI) -> Response:
    """JSON, made where the model is: a long pair has a large matrix, and the event loop is not to wait for it."""
    found = _explanation(question, nli)
    said = {name: getattr(summary, name)(found) for name in schema.Summary.model_fields}
    return JSONResponse({**found.to_dict(), "summary": said})


def _report(question: schema.Question, nli: NLI) -> Response:
    found = _explanation(question, nli)
    return HTMLResponse(page(found), headers={"Content-Disposition": 'attachment; filename="explanation.html"'})


def _errors(app: FastAPI) -> None:
    """Every error as one line of JSON."""

    @app.exception_handler(HTTPException)
    async def as_it_says(_: Request, error: HTTPException) -> Response:
        return _problem(error.status_code, error.detail, error.headers)

    @app.exception_handler(RequestValidationError)
    async def not_as_it_should_be(request: Request, error: RequestValidationError) -> Response:
        return _problem(422, _wrong(error, request.headers.get("content-type")))

    @app.exception_handler(BusyError)
    async def busy(_: Request, error: BusyError) -> Response:
        return _problem(503, error, {"Retry-After": "1"})

    @app.exception_handler(ModelError)
    async def broken(_: Request, error: ModelError) -> Response:
        return _problem(500, error)

    @app.exception_handler(ValueError)
    async def refused(_: Request, error: ValueError) -> Response:
        return _problem(400, error)


def _problem(status: int, error: object, headers: Mapping[str, str] | None = None) -> Response:
    text = " ".join(str(error).split()).encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": text}, status, headers)


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
