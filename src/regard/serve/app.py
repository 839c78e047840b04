"""The application: what each path answers.

Everything that a model does goes through its `Worker`; the event loop only waits. What a client sends is never the path
of a file: models are looked up by name among those that were given, and the files of the page are read at the start.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse

from regard import __version__
from regard.api import Run
from regard.errors import CallError, nearest
from regard.look import AttentionRecord
from regard.look.figure import figure_bytes
from regard.look.files import as_dict
from regard.look.html import document, page
from regard.look.views import Shown
from regard.serve import bodies
from regard.serve.choosing import chosen, require_sendable
from regard.serve.guard import Guard
from regard.serve.limits import Limits
from regard.serve.metrics import Metrics
from regard.serve.pages import description, page_files
from regard.serve.refusals import RefusedError, add_handlers
from regard.serve.streaming import event, stream
from regard.serve.worker import QueueFullError, Work, Worker
from regard.settings.translate import TranslateRecipe
from regard.tasks.task import Looks

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": bodies.Error, "description": text}
    for status, text in {
        400: "the body is not JSON", 401: "the key is missing or wrong", 404: "no such model",
        408: "the request came too slowly", 413: "the body is too large", 422: "a field is wrong",
        503: "too many requests wait (see Retry-After)", 504: "the model took too long",
    }.items()
}  # fmt: skip
PICTURES = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf", "html": "text/html"}
DRAWING = threading.Lock()  # matplotlib's settings belong to the whole process


def create_app(runs: Mapping[str, Run], limits: Limits = Limits()) -> FastAPI:  # noqa: B008  (frozen)
    """The service of these runs, each under its name."""
    metrics = Metrics()
    workers = {name: Worker(name, metrics, queue=limits.queue, max_batch=limits.max_batch) for name in runs}

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for worker in workers.values():
            worker.start()
        yield
        for worker in workers.values():
            await asyncio.to_thread(worker.stop)

    app = FastAPI(
        title="regard", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        description="Trained attention models: their outputs, and where they look.",
    )  # fmt: skip
    find = partial(_find, runs)
    ask = partial(_ask, workers, limits)

    @app.get("/health", summary="Whether the service is up")
    async def health() -> bodies.Health:
        return bodies.Health(status="ok")

    @app.get("/metrics", response_class=PlainTextResponse, summary="Counters for Prometheus")
    async def counters() -> PlainTextResponse:
        text = metrics.text({name: worker.waiting for name, worker in workers.items()})
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    @app.get("/api/models", summary="The models that are served")
    async def models() -> bodies.Models:
        return bodies.Models(models=[_about(name, run) for name, run in runs.items()])

    @app.post(
        "/api/predict", response_model=bodies.Predictions, responses=ERRORS, summary="Outputs for a list of inputs"
    )
    async def predict(body: bodies.Predict) -> Response:
        name, run = find(body.model)
        if len(body.inputs) > limits.max_inputs:
            raise RefusedError(422, f"{len(body.inputs)} inputs: send {limits.max_inputs} at most", "inputs")
        for number, text in enumerate(body.inputs):
            _require_short(text, limits, f"inputs.{number}")
        _require_short(body.prefix, limits, "prefix")
        decoding = body.decoding()

        def work(inputs: list[str]) -> list[dict[str, Any]]:
            found = run.predict(inputs, prefix=body.prefix, attention=body.attention, **decoding)
            tables = (table for one in found if one.alignment for table in one.alignment.weights.values())
            require_sendable(tables, "send fewer or shorter inputs")
            return [one.as_dict() for one in found]

        # What is drawn depends on its place in a batch: by itself, the same seed gives the same output.
        drawn = decoding.get("sample", isinstance(run.recipe, TranslateRecipe) and run.recipe.decoding.sample)
        group = None if drawn else ("predict", body.prefix, body.attention, tuple(sorted(decoding.items())))
        return JSONResponse({"model": name, "predictions": await ask(name, body.inputs, work, group)})

    def looking(body: bodies.Look) -> tuple[str, Work]:
        name, run = find(body.model)
        _require_short(body.text, limits, "text")
        _require_short(body.output or "", limits, "output")
        over_source = body.kind in (None, "cross")  # what evidence is about
        about = {"layer": body.layer, "head": "mean" if body.head is None else body.head} if over_source else {}
        seen = partial(run.look, output=body.output, method=body.method, **about, **body.decoding())
        return name, lambda inputs: [seen(text) for text in inputs]

    @app.post("/api/look", responses=ERRORS, summary="Where a model looks when it writes its output")
    async def look(body: bodies.Look) -> dict[str, Any]:
        name, work = looking(body)

        def choose(inputs: list[str]) -> list[dict[str, Any]]:
            return [as_dict(chosen(record, body.kind, body.layer, body.head)) for record in work(inputs)]

        return (await ask(name, [body.text], choose))[0]

    @app.post(
        "/api/picture", responses={**ERRORS, 200: {"content": {kind: {} for kind in PICTURES.values()}}},
        response_class=Response, summary="The same, drawn: PNG, SVG, PDF, or a page that needs no network",
    )  # fmt: skip
    async def picture(body: bodies.Picture) -> Response:
        name, work = looking(body)

        def draw(inputs: list[str]) -> list[bytes]:
            return [_drawn(record, body) for record in work(inputs)]

        content = (await ask(name, [body.text], draw))[0]
        return Response(content, media_type=PICTURES[body.format])

    @app.post("/api/page", include_in_schema=False)
    async def look_for_page(body: bodies.Look) -> dict[str, Any]:
        name, work = looking(body)

        def as_page(inputs: list[str]) -> list[dict[str, Any]]:
            return [document(Shown(chosen(record, body.kind, body.layer, body.head))) for record in work(inputs)]

        return (await ask(name, [body.text], as_page))[0]

    @app.post(
        "/api/stream", responses={**ERRORS, 200: {"content": {"text/event-stream": {}}}}, response_class=Response,
        summary="The output of one input, token by token, as server-sent events",
    )  # fmt: skip
    async def stream_tokens(body: bodies.Stream) -> Response:
        name, run = find(body.model)
        _require_short(body.text, limits, "text")
        _require_short(body.prefix, limits, "prefix")
        events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        put = partial(asyncio.get_running_loop().call_soon_threadsafe, events.put_nowait)
        left = threading.Event()

        def tell(token: str, text: str) -> None:
            if left.is_set():
                raise CallError("the client has left")
            put(("token", {"token": token, "text": text}))

        def work(inputs: list[str]) -> list[None]:
            found = stream(run, inputs[0], body.prefix, body.decoding(), tell)
            put(("end", {"text": found.text, "score": found.score}))
            return [None]

        def ended(future: "Future[list[Any]]") -> None:
            if not future.cancelled() and (error := future.exception()) is not None:
                put(("error", error))

        future = _submit(workers[name], limits, [body.text], work)
        future.add_done_callback(ended)
        try:
            async with asyncio.timeout(limits.timeout):
                first = await events.get()
        except TimeoutError:
            left.set()
            future.cancel()
            raise _too_slow(limits) from None
        if isinstance(first[1], BaseException):
            raise first[1]
        return StreamingResponse(_events(first, events, left, limits), media_type="text/event-stream")

    _add_pages(app)
    add_handlers(app)
    app.add_middleware(Guard, limits=limits, metrics=metrics, known={route.path for route in app.routes})  # type: ignore
    return app


async def _events(
    first: tuple[str, Any], events: "asyncio.Queue[tuple[str, Any]]", left: threading.Event, limits: Limits
) -> AsyncIterator[str]:
    """Until the end, an error, or nothing for too long. If the client leaves, generation ends at its next token."""
    name, data = first
    try:
        while True:
            if isinstance(data, BaseException):
                data = {"error": str(data) if isinstance(data, CallError) else "the model failed", "field": None}
            yield event(name, json.dumps(data))
            if name != "token":
                return
            async with asyncio.timeout(limits.timeout):
                name, data = await events.get()
    except TimeoutError:
        yield event("error", json.dumps({"error": str(_too_slow(limits)), "field": None}))
    finally:
        left.set()


def _find(runs: Mapping[str, Run], name: str | None) -> tuple[str, Run]:
    if name is None and len(runs) == 1:
        return next(iter(runs.items()))
    if name is None:
        raise RefusedError(422, f"say which model: one of {', '.join(runs)}", "model")
    if name not in runs:
        raise RefusedError(404, f"no model {name[:100]!r}{nearest(name[:100], runs)}", "model")
    return name, runs[name]


def _require_short(text: str, limits: Limits, field: str) -> None:
    if len(text) > limits.max_length:
        raise RefusedError(422, f"{len(text)} characters: {limits.max_length} at most", field)


def _submit(worker: Worker, limits: Limits, inputs: list[str], work: Work, group: Any = None) -> "Future[list[Any]]":
    try:
        return worker.submit(inputs, work, group)
    except QueueFullError:
        sentence = f"{limits.queue} requests wait for {worker.name} already: try again in a second"
        raise RefusedError(503, sentence, **{"retry-after": "1"}) from None


async def _ask(
    workers: Mapping[str, Worker], limits: Limits, name: str, inputs: list[str], work: Work, group: Any = None
) -> list[Any]:
    """The answers of a model; a request that waits too long leaves the queue."""
    future = _submit(workers[name], limits, inputs, work, group)
    try:
        async with asyncio.timeout(limits.timeout):
            return await asyncio.wrap_future(future)
    except TimeoutError:
        raise _too_slow(limits) from None


def _drawn(record: AttentionRecord, how: bodies.Picture) -> bytes:
    shown = Shown(record, how.view, how.kind, how.layer, "mean" if how.head is None else how.head, how.log)
    if how.format == "html":
        return page(shown).encode()
    with DRAWING:
        return figure_bytes(shown, how.format)


def _too_slow(limits: Limits) -> RefusedError:
    return RefusedError(504, f"no answer within {limits.timeout:g} seconds: send fewer or shorter inputs, or try again")


def _about(name: str, run: Run) -> bodies.ModelOut:
    return bodies.ModelOut(
        name=name, task=run.recipe.task, about=run.recipe.about, looks=isinstance(run.task, Looks),
        parameters=sum(parameter.numel() for parameter in run.model.parameters()),
    )  # fmt: skip


def _add_pages(app: FastAPI) -> None:
    """The page, its files, and the description of the API for people."""

    def serve(path: str, content: bytes, media_type: str) -> None:
        async def send() -> Response:
            return Response(content, media_type=media_type)

        app.add_api_route(path, send, include_in_schema=False)

    for path, (content, media_type) in page_files().items():
        serve(path, content, media_type)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(description(app.openapi()))
