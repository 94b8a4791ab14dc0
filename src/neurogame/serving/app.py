"""The routes: `/` is the page, `/predict` and `/explain` are JSON, `/openapi.json` says what they take.

    create_app(nli)   a FastAPI application around one model, loaded or to be loaded

    request ──▶ Watch ──▶ Guard ──▶ CORS ──▶ Access ──▶ route ──▶ Engine

An error is `{"error": "one line"}`: 400 for what the model or a method refuses, 401 and 421 for who may not ask, 408,
413 and 422 for what the request has wrong, 503 with Retry-After where too many wait. Whoever hangs up is not computed
for, unless it has begun. No page of documentation is served: FastAPI's own loads scripts from elsewhere.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from fastapi.security import HTTPBearer
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from neurogame import __version__
from neurogame.explanation import METHODS, Explanation, best, methods_for, named, summary, what_if
from neurogame.explanation.page import page
from neurogame.nli import NLI
from neurogame.serving import errors, schema
from neurogame.serving.access import Access
from neurogame.serving.engine import Answer, Engine
from neurogame.serving.guard import Guard
from neurogame.serving.metrics import CONTENT_TYPE, Metrics
from neurogame.serving.settings import DEFAULT, Settings
from neurogame.serving.watch import GONE, ID, Watch

STATIC = Path(str(resources.files("neurogame.serving"))) / "static"
STYLE = Path(str(resources.files("neurogame.explanation"))) / "page.css"  # the look of the report is that of the page
POLL = 0.5  # seconds between two looks at whether whoever asked is still there
MANY = ("forward passes", "steps")  # what `samples` of a slow method counts
Responses = dict[int | str, dict[str, Any]]
_PROBLEMS = {
    400: "Cannot be answered",
    401: "The token is missing or wrong",
    408: "Sent too slowly",
    413: "Too long",
    421: "Addressed under a name that is not this server's",
    422: "Not as it should be",
    500: "The server's fault",
    503: "Too many requests are waiting, or it waited too long",
}
_RETRY = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
_HTML: Responses = {200: {"content": {"text/html": {"schema": {"type": "string"}}}}}
_TEXT: Responses = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


def create_app(source: NLI | Callable[[], NLI], settings: Settings = DEFAULT) -> FastAPI:
    """The application around a model, or around what loads it; `app.state.engine` is what works."""
    metrics = Metrics()
    engine = Engine(
        source,
        waiting=settings.waiting,
        batch=settings.batch,
        timeout=settings.timeout,
        observe=metrics.worked,
    )
    metrics.watch(engine)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        await asyncio.to_thread(engine.close)

    app = FastAPI(
        title="NeuroGame",
        version=__version__,
        summary="Natural-language inference, explained word by word.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=running,
    )
    app.state.engine = engine
    _protect(app, settings, metrics)
    errors.handle(app)
    _answers(app, engine, settings)
    _state(app, engine, metrics, settings)
    _files(app)
    return app


def _protect(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    """The middleware, from the inside to the outside."""
    app.add_middleware(Access, token=settings.token, hosts=settings.hosts)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", ID],
            expose_headers=["Retry-After", ID],
        )
    app.add_middleware(Guard, settings=settings)
    app.add_middleware(Watch, metrics=metrics)


def _described(settings: Settings, *statuses: int) -> dict[str, Any]:
    """What OpenAPI says of a route that is closed to others: its errors, and the token."""
    possible = set(statuses) | ({401} if settings.token else set()) | ({421} if settings.hosts else set())
    found: Responses = {
        status: {"model": schema.Problem, "description": text, **({"headers": _RETRY} if status == 503 else {})}
        for status, text in _PROBLEMS.items()
        if status in possible
    }
    named = [Depends(HTTPBearer(auto_error=False, description="Checked by `Access`."))] if settings.token else []
    return {"responses": found, "dependencies": named}


def _answers(app: FastAPI, engine: Engine, settings: Settings) -> None:
    """The JSON API."""
    described = _described(settings, 400, 408, 413, 422, 500, 503)

    @app.post("/predict", **described)
    async def predict(pair: schema.Pair, request: Request) -> schema.Said:
        """What the model says of a pair."""
        notes = _noted(request, pair, settings)
        said = await _awaited(request, engine.predict(pair.premise, pair.hypothesis, notes))
        return schema.Said(**said.to_dict())

    @app.post("/explain", **described, response_model=schema.Explained)
    async def explain(question: schema.Question, request: Request) -> Response:
        """Why: what each word adds, with words struck out or at another temperature if asked."""
        notes = _noted(request, question, settings)
        return await _awaited(request, engine.run(partial(_explained, question), notes))

    described["responses"] |= _HTML

    @app.post("/explain.html", **described, response_class=Response)
    async def report(question: schema.Question, request: Request) -> Response:
        """The same as one HTML file that needs nothing else."""
        notes = _noted(request, question, settings)
        return await _awaited(request, engine.run(partial(_report, question), notes))


def _state(app: FastAPI, engine: Engine, metrics: Metrics, settings: Settings) -> None:
    """How the server is."""
    not_ready = {"model": schema.NotReady, "description": "Loading the model, or shutting down", "headers": _RETRY}
    misdirected = {k: v for k, v in _described(settings)["responses"].items() if k == 421}

    @app.get("/health", responses={503: not_ready, **misdirected}, response_model=schema.Health)
    async def health() -> Any:
        """Whether requests can be sent, and what is served; open to everybody."""
        status = engine.status
        if status == "ready":
            return _health(engine)
        error = "the model is loading" if status == "loading" else "the server is shutting down"
        found = schema.NotReady(status=status, version=__version__, queue=len(engine), error=error)
        return JSONResponse(found.model_dump(), 503, errors.RETRY)

    app.add_api_route("/health", health, methods=["HEAD"], include_in_schema=False)  # some monitors ask so

    described = _described(settings)
    described["responses"] |= _TEXT

    @app.get("/metrics", **described, response_class=Response)
    async def counted() -> Response:
        """Counts and times for Prometheus."""
        return Response(metrics.text(), media_type=CONTENT_TYPE)


def _noted(request: Request, pair: schema.Pair, settings: Settings) -> dict[str, Any]:
    """What the log will hold of a request; the texts only if that was asked for."""
    notes: dict[str, Any] = request.state.notes
    if isinstance(pair, schema.Question):
        asked = None if pair.method is None else named(pair.method)
        notes["method"] = asked if asked is None or asked in METHODS else "other"
    if settings.log_text:
        notes |= {"premise": pair.premise, "hypothesis": pair.hypothesis}
    return notes


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


def _health(engine: Engine) -> schema.Health:
    nli = engine.nli
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
        queue=len(engine),
        waiting=engine.waiting,
        batch=engine.batch,
    )


def _explanation(question: schema.Question, nli: NLI) -> Explanation:
    words = len(question.premise.split()) + len(question.hypothesis.split())
    if words > schema.WORDS:
        raise HTTPException(413, f"the pair has {words} words; at most {schema.WORDS} are explained")
    method = METHODS.get(best(nli.model) if question.method is None else named(question.method))
    if method is not None and method.samples == "steps" and (question.samples or 0) > schema.STEPS:
        raise ValueError(
            f"samples = {question.samples}: method = {question.method!r} takes at most {schema.STEPS} steps here"
        )
    return what_if.explain(nli, **question.model_dump())


def _explained(question: schema.Question, nli: NLI) -> Response:
    """JSON, made where the model is: a long pair has a large matrix, and the event loop is not to wait for it."""
    found = _explanation(question, nli)
    said = {name: getattr(summary, name)(found) for name in schema.Summary.model_fields}
    return JSONResponse({**found.to_dict(), "summary": said})


def _report(question: schema.Question, nli: NLI) -> Response:
    found = _explanation(question, nli)
    return HTMLResponse(page(found), headers={"Content-Disposition": 'attachment; filename="explanation.html"'})
