"""The application: what each path answers.

Everything that a model does goes through its `Worker`; the event loop only waits. What a client sends is never the path
of a file: models are looked up by name among those that were given, and the files of the page are read at the start.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse

from regard import __version__
from regard.api import Run
from regard.errors import CallError
from regard.look import AttentionRecord
from regard.look.files import as_dict
from regard.look.html import history_document
from regard.serve import bodies
from regard.serve.choosing import chosen
from regard.serve.limits import Limits
from regard.serve.metrics import CONTENT_TYPE, Metrics
from regard.serve.middleware import RequestMiddleware
from regard.serve.pages import description, page_files
from regard.serve.questions import Question, Questions
from regard.serve.refusals import RefusedError, add_handlers
from regard.serve.showing import drawn, outline, part
from regard.serve.streaming import event, stream
from regard.serve.uploads import Uploads
from regard.serve.worker import QueueFullError, Worker

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": bodies.Error, "description": text}
    for status, text in {
        400: "the body is not JSON", 401: "the key is missing or wrong", 404: "no such model",
        408: "the request came too slowly", 413: "the body is too large", 422: "a field is wrong",
        503: "too many requests wait (see Retry-After)", 504: "the model took too long",
    }.items()
}  # fmt: skip
PICTURES = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf", "html": "text/html"}


def create_app(runs: Mapping[str, Run], limits: Limits = Limits()) -> FastAPI:  # noqa: B008  (frozen)
    """The service of these runs, each under its name."""
    metrics, uploads = Metrics(), Uploads()
    questions = Questions(runs, limits, uploads)
    workers = {name: Worker(name, metrics, queue=limits.queue, max_batch=limits.max_batch) for name in runs}

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for worker in workers.values():
            worker.start()
        yield
        for worker in workers.values():
            await asyncio.to_thread(worker.stop)
        uploads.close()

    app = FastAPI(
        title="regard", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        description="Trained attention models: their outputs, and where they look.",
    )  # fmt: skip
    ask = partial(_ask, workers, limits)

    @app.get("/health", summary="Whether the service is up")
    async def health() -> bodies.Health:
        return bodies.Health(status="ok")

    @app.get("/metrics", response_class=PlainTextResponse, summary="Counters for Prometheus")
    async def counters() -> Response:
        text = metrics.text({name: worker.waiting for name, worker in workers.items()})
        return Response(text, headers={"content-type": CONTENT_TYPE})

    @app.get("/api/models", summary="The models that are served")
    async def models() -> bodies.Models:
        return bodies.Models(models=[_about(name, run) for name, run in runs.items()])

    @app.post(
        "/api/predict", response_model=bodies.Predictions, responses=ERRORS, summary="Outputs for a list of inputs"
    )
    async def predict(body: bodies.Predict) -> Response:
        question = questions.predict(body)
        return JSONResponse({"model": question.model, "predictions": await ask(question)})

    @app.post("/api/look", responses=ERRORS, summary="Where a model looks when it writes its output")
    async def look(body: bodies.Look) -> dict[str, Any]:
        question = questions.look(body, lambda record: as_dict(chosen(record, body.kind, body.layer, body.head)))
        return (await ask(question))[0]

    @app.post(
        "/api/picture", responses={**ERRORS, 200: {"content": {kind: {} for kind in PICTURES.values()}}},
        response_class=Response, summary="The same, drawn: PNG, SVG, PDF, or a page that needs no network",
    )  # fmt: skip
    async def picture(body: bodies.Picture) -> Response:
        if body.against is None:
            content = (await ask(questions.look(body, lambda record: drawn(record, body))))[0]
        else:
            record = (await ask(questions.look(body, lambda record: record)))[0]
            again = body.model_copy(
                update={"model": body.against, "output": record.output, "prefix": "", "without": [], "n_best": None}
            )
            content = (await ask(questions.look(again, lambda other: drawn(record, body, other))))[0]
        return Response(content, media_type=PICTURES[body.format])

    @app.post(
        "/api/upload", responses=ERRORS, summary="A picture or a recording, for a model that takes one",
        openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {
            "schema": {"type": "string", "format": "binary"}}}}},
    )  # fmt: skip
    async def upload(request: Request, model: str | None = None) -> bodies.Uploaded:
        content = await request.body()
        return await asyncio.to_thread(questions.upload, model, content)

    @app.post("/api/page", include_in_schema=False)
    async def part_for_page(body: bodies.Part) -> dict[str, Any]:
        def answer(record: AttentionRecord) -> dict[str, Any]:
            return outline(record) if body.part == "outline" else part(record, body)

        return (await ask(questions.remembered_look(body, answer)))[0]

    @app.get("/api/history", include_in_schema=False)
    async def history_for_page(model: str | None = None, number: int = 0) -> dict[str, Any]:
        _, run = questions.find(model)
        return await asyncio.to_thread(lambda: history_document(run.history_of_looks(number)))

    @app.post(
        "/api/stream", responses={**ERRORS, 200: {"content": {"text/event-stream": {}}}}, response_class=Response,
        summary="The output of one input, token by token, as server-sent events",
    )  # fmt: skip
    async def stream_tokens(body: bodies.Stream) -> Response:
        name, run = questions.find(body.model)
        questions.require_short(body.text, "text")
        questions.require_short(body.prefix, "prefix")
        events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        put = partial(asyncio.get_running_loop().call_soon_threadsafe, events.put_nowait)
        left = threading.Event()

        def tell(token: str, text: str) -> None:
            if left.is_set():
                raise CallError("the client has left")
            put(("token", {"token": token, "text": text}))

        def work(inputs: list[str]) -> list[None]:
            found = stream(run, questions.given(run, inputs[0]), body.prefix, body.decoding(), tell)
            put(("end", {"text": found.text, "score": found.score}))
            return [None]

        def ended(future: "Future[list[Any]]") -> None:
            if not future.cancelled() and (error := future.exception()) is not None:
                put(("error", error))

        future = _submit(workers[name], limits, Question(name, [body.text], work))
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
    if limits.hosts is not None:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=_in_header(limits.hosts), www_redirect=False)
    known = {route.path for route in app.routes}  # type: ignore
    app.add_middleware(RequestMiddleware, limits=limits, metrics=metrics, known=known)
    return app


def _in_header(hosts: Iterable[str]) -> list[str]:
    """As a Host header has them: an IPv6 address stands in brackets."""
    return [f"[{host}]" if ":" in host else host for host in hosts]


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


def _submit(worker: Worker, limits: Limits, question: Question) -> "Future[list[Any]]":
    try:
        return worker.submit(question.inputs, question.work, question.group)
    except QueueFullError:
        sentence = f"{limits.queue} requests wait for {worker.name} already: try again in a second"
        raise RefusedError(503, sentence, **{"retry-after": "1"}) from None


async def _ask(workers: Mapping[str, Worker], limits: Limits, question: Question) -> list[Any]:
    """The answers of a model; a request that waits too long leaves the queue."""
    future = _submit(workers[question.model], limits, question)
    try:
        async with asyncio.timeout(limits.timeout):
            return await asyncio.wrap_future(future)
    except TimeoutError:
        raise _too_slow(limits) from None


def _too_slow(limits: Limits) -> RefusedError:
    return RefusedError(504, f"no answer within {limits.timeout:g} seconds: send fewer or shorter inputs, or try again")


def _about(name: str, run: Run) -> bodies.ModelOut:
    return bodies.ModelOut(
        name=name, job=run.recipe.job, about=run.recipe.about, looks=True,
        parameters=sum(parameter.numel() for parameter in run.model.parameters()), takes=list(run.job.input.kinds),
        history=run.has_history_of_looks(),
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
