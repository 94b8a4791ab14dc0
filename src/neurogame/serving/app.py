"""The FastAPI application: `/` is the page, `/predict` and `/explain` are JSON, `/openapi.json` describes them.

    create_app(nli)   an ASGI application around one model, loaded or to be loaded

An error is `{"error": "one line"}`: 400 for what the model or a method refuses, 401 and 421 for clients without access,
408, 413 and 422 for what is wrong with the request, 503 with Retry-After where too many wait. Queued work is cancelled
when its client disconnects. FastAPI's documentation pages are off: they load scripts from elsewhere.
"""

import asyncio
import json
import reprlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from neurogame import __version__
from neurogame._common.printing import cut
from neurogame.explanation import METHODS, Explanation, best, methods_for, named, summary, what_if
from neurogame.explanation.measured import about, measured
from neurogame.explanation.views.page import page
from neurogame.modeling.checking import ModelError
from neurogame.nli import NLI
from neurogame.serving import schema
from neurogame.serving.engine import Answer, BusyError, Engine, Notes
from neurogame.serving.middleware import RETRY, Access, Guard, Limits, address, bearer, problem
from neurogame.serving.settings import DEFAULT, Settings
from neurogame.serving.telemetry import GONE, ID, Metrics, Telemetry

STATIC = Path(str(resources.files("neurogame.serving"))) / "static"
STYLE = Path(str(resources.files("neurogame.explanation"))) / "page.css"  # the look of the report is that of the page
POLL = 0.5  # seconds between two checks whether the client is still connected
PIECES = 3 * schema.CHARACTERS + 1000  # brackets and commas of a body: those of two texts, `removed` and the rest
KEYS = 100  # of one object: pydantic reports every unknown one
TEXTS = {"premise", "hypothesis", "text"}  # of a pair or a question
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
_DESCRIBED: Responses = {status: {"model": schema.Problem, "description": text} for status, text in _PROBLEMS.items()}
_RETRY = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
_ERRORS: Responses = {status: response for status, response in _DESCRIBED.items() if status not in (401, 421)}
_ERRORS[503]["headers"] = _RETRY
_HTML: Responses = {200: {"content": {"text/html": {"schema": {"type": "string"}}}}}
_TEXT: Responses = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_LOADING: Responses = {
    503: {"model": schema.NotReady, "description": "Loading the model, or shutting down", "headers": _RETRY}
}


class StrictRequest(Request):
    """A request whose JSON is bounded before it is parsed, and has no key twice."""

    async def json(self) -> Any:
        """The body; 422 for more structure than any valid one has, which would hold up the event loop."""
        body = await self.body()
        if sum(map(body.count, (b"{", b"[", b","))) > PIECES:
            raise HTTPException(422, f"the body has more than {PIECES} brackets and commas")
        return json.loads(body, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; 422 for a key that is given twice, and for more keys than any valid one has."""
    if len(pairs) > KEYS:
        raise HTTPException(422, f"an object has {len(pairs)} keys; at most {KEYS} are taken")
    content: dict[str, Any] = {}
    for name, value in pairs:
        if name in content:
            raise HTTPException(422, f"{cut(name)}: given twice")
        content[name] = value
    return content


class StrictRoute(APIRoute):
    """FastAPI's way to exchange the request: https://fastapi.tiangolo.com/how-to/custom-request-and-route/."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of the route, called with a `StrictRequest`."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return strict


_NOT_READY = {
    "loading": "the model is loading",
    "draining": "the server is shutting down",
    "failed": "the engine has failed or hangs; restart the server",
}

protected = APIRouter(route_class=StrictRoute)  # routes that need the token, where there is one
public = APIRouter()  # routes that never do


def create_app(source: NLI | Callable[[], NLI], settings: Settings = DEFAULT) -> FastAPI:
    """The application around a model.

    Args:
        source: the model, or a function that loads it when the application starts.
        settings: limits and access.

    Returns:
        An ASGI application; `app.state.engine` is the engine that runs the model.

    Example:
        >>> uvicorn.run(create_app(neurogame.load))  # doctest: +SKIP
    """
    engine = Engine(
        source, waiting=settings.waiting, batch=settings.batch, timeout=settings.timeout, deadline=settings.deadline
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
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
        lifespan=lifespan,
        exception_handlers=dict.fromkeys(
            (HTTPException, RequestValidationError, BusyError, ValueError), _error_response
        ),
    )
    app.state.engine, app.state.settings, app.state.metrics = engine, settings, Metrics(engine)
    hosts: Responses = {421: _DESCRIBED[421]} if settings.hosts else {}
    token: Responses = {401: _DESCRIBED[401]} if settings.token else {}
    needed = [Depends(bearer)] if settings.token else []
    app.include_router(protected, responses=hosts | token, dependencies=needed)
    app.include_router(public, responses=hosts)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_middleware(Limits, settings=settings)  # the last one added is the first to see a request
    app.add_middleware(Access, token=settings.token, hosts=settings.hosts)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", ID],
            expose_headers=["Retry-After", ID],
        )
    app.add_middleware(Guard, engine=engine)
    app.add_middleware(Telemetry, metrics=app.state.metrics)
    return app


@protected.post("/predict", responses=_ERRORS)
async def predict(pair: schema.Pair, request: Request) -> schema.Said:
    """What the model says of a pair."""
    prediction = await _answer(request, pair, partial(_engine(request).predict, pair.premise, pair.hypothesis))
    return schema.Said(**prediction.to_dict())


@protected.post("/explain", responses=_ERRORS, response_model=schema.Explained | schema.ExplainedText)
async def explain(question: schema.AnyQuestion, request: Request) -> Response:
    """Why: what each word adds, with words struck out or at another temperature if asked."""
    return await _answer(request, question, partial(_engine(request).run, partial(_explain_json, question)))


@protected.post("/explain.html", responses=_ERRORS | _HTML, response_class=Response)
async def report(question: schema.AnyQuestion, request: Request) -> Response:
    """The same as one HTML file that needs nothing else."""
    return await _answer(request, question, partial(_engine(request).run, partial(_report, question)))


@protected.get("/metrics", responses=_TEXT, response_class=Response)
async def metrics(request: Request) -> Response:
    """Counts and times for Prometheus."""
    return Response(generate_latest(request.app.state.metrics.registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)


@public.head("/health", include_in_schema=False)  # some monitors ask so
@public.get("/health", responses=_LOADING, response_model=schema.Health)
async def health(request: Request) -> Any:
    """Whether requests can be sent, and what is served; needs no token."""
    engine = _engine(request)
    status = engine.status
    if status != "ready":
        facts = schema.NotReady(status=status, version=__version__, queue=len(engine), error=_NOT_READY[status])
        return JSONResponse(facts.model_dump(), 503, RETRY)
    nli, has_temperature = engine.nli, what_if.has_temperature(engine.nli.model)
    return schema.Health(
        version=__version__,
        model=nli.name,
        labels=list(nli.labels),
        max_length=nli.max_length,
        methods=[_method_info(name, nli.model, has_temperature) for name in methods_for(nli.model)],
        has_temperature=has_temperature,
        queue=len(engine),
        waiting=engine.waiting,
        batch=engine.batch,
    )


@public.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
async def index() -> FileResponse:
    """The page."""
    return FileResponse(STATIC / "index.html")


@public.api_route("/report.css", methods=["GET", "HEAD"], include_in_schema=False)
async def style() -> FileResponse:
    """The style sheet that the page shares with reports."""
    return FileResponse(STYLE)


def _engine(request: Request) -> Engine:
    engine: Engine = request.app.state.engine
    return engine


async def _answer(
    request: Request, pair: schema.Pair | schema.TextQuestion, submit: Callable[..., Coroutine[Any, Any, Answer]]
) -> Answer:
    """Submit a job to the engine and wait for it; it is cancelled when the client disconnects.

    The log gets the method, the times of the job and, if the settings say so, the texts.
    """
    notes: Notes = request.state.notes
    if isinstance(pair, schema.Options):
        asked = None if pair.method is None else named(pair.method)
        notes["method"] = asked if asked is None or asked in METHODS else "other"
    if request.app.state.settings.log_text:
        notes |= pair.model_dump(include=TEXTS)
    job = asyncio.ensure_future(submit(notes, address(request.client)))
    try:
        while not (await asyncio.wait([job], timeout=POLL))[0]:
            if await request.is_disconnected():
                raise HTTPException(GONE, "the client has disconnected")
        return job.result()
    finally:
        job.cancel()


def _explanation(question: schema.Question | schema.TextQuestion, nli: NLI) -> Explanation:
    texts = question.model_dump(include=TEXTS)
    words = sum(len(text.split()) for text in texts.values())
    if words > schema.WORDS:
        noun = "text" if "text" in texts else "pair"
        raise HTTPException(413, f"the {noun} has {words} words; at most {schema.WORDS} are explained")
    method = METHODS.get(best(nli.model) if question.method is None else named(question.method))
    if method is not None and method.samples == "steps" and (question.samples or 0) > schema.STEPS:
        raise ValueError(
            f"samples = {question.samples}: method = {question.method!r} takes at most {schema.STEPS} steps here"
        )
    premise, hypothesis = texts["text" if "text" in texts else "premise"], texts.get("hypothesis")
    return what_if.explain(nli, premise=premise, hypothesis=hypothesis, **question.model_dump(exclude=TEXTS))


def _explain_json(question: schema.Question | schema.TextQuestion, nli: NLI) -> Response:
    """JSON, serialised in the engine's thread: the matrix of a long pair would hold up the event loop."""
    explanation = _explanation(question, nli)
    lines = {name: getattr(summary, name)(explanation) for name in schema.Summary.model_fields}
    return JSONResponse({**explanation.to_dict(), "summary": lines})


def _report(question: schema.Question | schema.TextQuestion, nli: NLI) -> Response:
    explanation = _explanation(question, nli)
    return HTMLResponse(page(explanation), headers={"Content-Disposition": 'attachment; filename="explanation.html"'})


def _method_info(name: str, model: Any, has_temperature: bool) -> schema.MethodInfo:
    method, figures = METHODS[name], measured(name, model)
    return schema.MethodInfo(
        name=name,
        recommended=name == best(model),
        about=about(name, model),
        measured=None if figures is None else schema.MeasuredInfo(**figures),
        has_target=method.has_target,
        samples=method.samples is not None,
        slow=method.samples in MANY,
        follows_temperature=has_temperature and name in what_if.FOLLOWING,
    )


async def _error_response(request: Request, error: Any) -> Response:
    """Every error of a route as one line of JSON."""
    if isinstance(error, RequestValidationError):
        return problem(422, _first_mistake(error, request.headers.get("content-type")))
    if isinstance(error, HTTPException):
        if isinstance(error.__cause__, RecursionError):  # FastAPI's own, from JSON in thousands of brackets
            return problem(422, "the body is nested too deeply")
        return problem(error.status_code, error.detail, error.headers)
    if isinstance(error, BusyError):
        request.state.notes["refused"] = error.reason
        return problem(503, error, RETRY)
    return problem(500 if isinstance(error, ModelError) else 400, error)


def _first_mistake(error: RequestValidationError, content_type: str | None) -> str:
    """The first thing that is wrong with a request: where, what is expected, what is there."""
    first = error.errors()[0]
    place, given = first["loc"][1:], first.get("input")  # without "body"
    if place[:1] == ("pair",) or (len(place) > 1 and place[0] == "text"):  # which question it was taken for
        place = place[1:]
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {first['ctx']['error']} at character {place[0]}"
    if not place and given is None:
        return "the body holds nothing; a JSON object is expected, with content-type: application/json"
    if not place and isinstance(given, bytes):
        sent = "no content-type" if content_type is None else f"content-type: {cut(content_type)}"
        return f"the request has {sent}; only content-type: application/json is taken"
    where = ".".join(cut(str(part)) for part in place) or "the body"
    if first["type"] in ("missing", "too_long"):  # nothing is there; the message has the number
        return f"{where}: {first['msg']}"
    got = len(given) if first["type"] == "string_too_long" else cut(reprlib.repr(given))
    return f"{where}: {first['msg']}, got {got}"
