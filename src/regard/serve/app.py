"""The HTTP application and its paths.

All model work goes through a `Worker`; the event loop only waits. No input of a client is used as a file path: models
are looked up by name, and the files of the page are read at the start.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse

from regard.errors import CallError
from regard.light.session import is_export
from regard.look import AttentionRecord
from regard.look.files import as_dict
from regard.look.value_table import ValueTable
from regard.serve import schemas
from regard.serve.errors import Limits, RefusedError, add_handlers
from regard.serve.libretranslate import add_libretranslate
from regard.serve.middleware import CONTENT_TYPE, RequestMiddleware, bearer, has_key
from regard.serve.openai import add_openai
from regard.serve.pages import RunFolders, add_run_pages, description, page_files
from regard.serve.records import as_json, draw_record, outline, part, select_attentions
from regard.serve.requests import ParsedRequest, once
from regard.serve.service import DRAWING, Service, start_events
from regard.tasks.result import Prediction
from regard.version import __version__

if TYPE_CHECKING:
    from regard.loading import AnyRun

log = logging.getLogger("regard.serve")
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Error, "description": text}
    for status, text in {
        400: "the body is not JSON", 401: "the key is missing or wrong", 404: "no such model",
        408: "the request came too slowly", 413: "the body is too large", 422: "a field is wrong",
        503: "too much is asked or sent at once (see Retry-After)", 504: "the model took too long",
    }.items()
}  # fmt: skip
PICTURES = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf", "html": "text/html"}


def create_app(
    runs: "Mapping[str, AnyRun]",
    limits: Limits = Limits(),  # noqa: B008  (frozen)
    folders: Iterable[Path] = (),
) -> FastAPI:
    """Create the service of these runs, each under its name. The page of runs shows them, and those in `folders`."""
    service = Service(runs, limits)
    questions, ask = service.questions, service.ask

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await asyncio.to_thread(service.stop)

    app = FastAPI(
        title="regard", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        description="Trained attention models: predictions and attention.",
    )  # fmt: skip
    app.state.service = service

    @app.get("/health/live", summary="Return whether the service is running")
    async def live() -> schemas.Live:
        return schemas.Live(status="ok")

    @app.get(
        "/health/ready", summary="Return whether it accepts requests: not during shutdown or with a full queue",
        responses={503: {"model": schemas.Ready, "description": "not now"}},
    )  # fmt: skip
    async def ready(request: Request, response: Response) -> schemas.Ready:
        waiting, stopping = service.waiting, service.stopping or not service.alive
        status = "stopping" if stopping else "busy" if max(waiting.values()) >= limits.queue else "ready"
        response.status_code = 200 if status == "ready" else 503
        known = has_key(limits.api_key, bearer(request.headers.get("authorization", "").encode("latin-1")))
        return schemas.Ready(status=status, waiting=waiting if known else {})

    @app.get("/metrics", response_class=PlainTextResponse, summary="Counters for Prometheus")
    async def counters() -> Response:
        return Response(service.metrics.text(service.waiting), headers={"content-type": CONTENT_TYPE})

    @app.get("/api/models", summary="List the served models")
    async def models() -> schemas.Models:
        return schemas.Models(models=[_about(name, run) for name, run in runs.items()])

    @app.post(
        "/api/predict",
        response_model=schemas.Predictions,
        responses=ERRORS,
        summary="Predict outputs for a list of inputs",
    )
    async def predict(body: schemas.Predict) -> Response:
        question = questions.predict(body)
        return JSONResponse({"model": question.model, "predictions": await ask(question)})

    @app.post(
        "/api/look",
        responses=ERRORS,
        response_class=JSONResponse,
        summary="Return the attention of a model for its output",
    )
    async def look(body: schemas.Look) -> Response:
        record = (await ask(questions.look(body)))[0]
        content = await asyncio.to_thread(
            lambda: as_json(as_dict(select_attentions(record, body.kind, body.layer, body.head)))
        )
        return Response(content, media_type="application/json")

    async def send(table: ValueTable, form: str) -> Response:
        if form != "json":
            content = await ask(ParsedRequest(DRAWING, [""], once(lambda: table.as_bytes(form))))
            return Response(content[0], media_type=PICTURES[form])
        return Response(await asyncio.to_thread(lambda: as_json(table.as_dict())), media_type="application/json")

    @app.post(
        "/api/explain", response_model=schemas.TableOut, responses=ERRORS, response_class=JSONResponse,
        summary="Explain an output: a table of layers, heads or parts of the input",
    )  # fmt: skip
    async def explain(body: schemas.Explain) -> Response:
        return await send((await ask(questions.explain(body)))[0], body.format)

    @app.post(
        "/api/profile", response_model=schemas.TableOut, responses=ERRORS, response_class=JSONResponse,
        summary="Describe each head over validation inputs, and the cost of masking it",
    )  # fmt: skip
    async def profile(body: schemas.Profile) -> Response:
        return await send((await ask(questions.profile(body)))[0], body.format)

    @app.post("/api/weight", response_model=schemas.WeightOut, responses=ERRORS, summary="Explain one of these weights")
    async def weight(body: schemas.WeightOptions) -> Response:
        return JSONResponse((await ask(questions.weight(body)))[0])

    @app.post(
        "/api/picture", responses={**ERRORS, 200: {"content": {kind: {} for kind in PICTURES.values()}}},
        response_class=Response, summary="Draw attention: PNG, SVG, PDF, or a page that needs no network",
    )  # fmt: skip
    async def picture(body: schemas.PictureOptions) -> Response:
        record, other = (await ask(questions.look(body)))[0], None
        if body.against is not None:
            output, prefix = (record.output, "") if body.same_output else (body.output, body.prefix)
            alike = {"model": body.against, "output": output, "prefix": prefix}
            again = body.model_copy(update=alike | {"without": [], "n_best": None, "hypothesis": 0})
            other = (await ask(questions.look(again)))[0]
        content = await ask(ParsedRequest(DRAWING, [""], once(lambda: draw_record(record, body, other))))
        return Response(content[0], media_type=PICTURES[body.format])

    @app.post(
        "/api/upload", responses=ERRORS, summary="Upload a picture, a recording or a table, for a model that takes one",
        openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {
            "schema": {"type": "string", "format": "binary"}}}}},
    )  # fmt: skip
    async def upload(request: Request, model: str | None = None) -> schemas.Uploaded:
        content = await request.body()
        return await asyncio.to_thread(questions.upload, model, content)

    @app.post("/api/page", include_in_schema=False)
    async def part_for_page(body: schemas.PartOut) -> dict[str, Any]:
        def answer(record: AttentionRecord) -> dict[str, Any]:
            return outline(record) if body.part == "outline" else part(record, body)

        return (await ask(questions.remembered_look(body, answer)))[0]

    @app.get("/api/examples", include_in_schema=False)
    async def examples_for_page(model: str | None = None) -> dict[str, Any]:
        name, _ = questions.find(model)
        return {"examples": await asyncio.to_thread(service.examples.described, name, limits.max_length)}

    @app.get("/api/sound", include_in_schema=False)
    async def sound_for_page(name: str, model: str | None = None) -> Response:
        run, _ = questions.find(model)
        content = await asyncio.to_thread(questions.sound, run, name)
        return Response(content, media_type="audio/wav")

    @app.post(
        "/api/stream", responses={**ERRORS, 200: {"content": {"text/event-stream": {}}}}, response_class=Response,
        summary="Stream the output of one input, token by token, as server-sent events",
    )  # fmt: skip
    async def stream_tokens(body: schemas.StreamOptions) -> Response:
        events = await start_events(service.stream(body.model, body.text, body.prefix, body.decoding()))
        return StreamingResponse(_events(events, service), media_type="text/event-stream")

    add_openai(app, service)
    add_libretranslate(app, service)
    trained = {name: run.folder for name, run in runs.items() if not is_export(run.folder)}
    add_run_pages(app, RunFolders(trained, folders), is_first=not runs)
    _add_pages(app)
    add_handlers(app, service.sentence)
    if limits.hosts is not None:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=_in_header(limits.hosts), www_redirect=False)
    known = {route.path for route in app.routes}  # type: ignore
    app.add_middleware(
        RequestMiddleware, limits=limits, metrics=service.metrics, known=known, stopping=lambda: service.stopping
    )
    return app


def _in_header(hosts: Iterable[str]) -> list[str]:
    """Format host names as in a Host header: IPv6 addresses in brackets."""
    return [f"[{host}]" if ":" in host else host for host in hosts]


async def _events(events: AsyncIterator[Any], service: Service) -> AsyncIterator[str]:
    """Format server-sent events. JSON has no line breaks, so one `data` line is enough."""

    def event(name: str, data: Mapping[str, Any]) -> str:
        return f"event: {name}\ndata: {json.dumps(data)}\n\n"

    try:
        async for one in events:
            if isinstance(one, Prediction):
                yield event("end", {"text": one.text, "score": one.score})
            else:
                yield event("token", {"token": one[0], "text": one[1]})
    except (CallError, RefusedError) as error:
        yield event("error", {"error": service.sentence(error), "field": None})
    except Exception:
        log.exception("a stream failed")
        yield event("error", {"error": "the model failed", "field": None})


def _about(name: str, run: "AnyRun") -> schemas.ModelOut:
    return schemas.ModelOut(
        name=name, job=run.recipe.job, about=run.recipe.about, looks=True,
        parameters=run.parameters, takes=list(run.job.input.kinds),
        history=run.has_history_of_looks(), gives=run.job.output.gives, writes_text=run.job.output.writes_text,
        takes_instead=run.job.output.takes_instead, methods=run.methods, scores=run.best_scores(),
        decoding=run.decoding_defaults(), explanations=run.explanations,
    )  # fmt: skip


def _add_pages(app: FastAPI) -> None:
    """Add the page, its files, and the HTML description of the API."""

    def serve(path: str, content: bytes, media_type: str) -> None:
        async def send() -> Response:
            return Response(content, media_type=media_type)

        app.add_api_route(path, send, include_in_schema=False)

    for path, (content, media_type) in page_files().items():
        serve(path, content, media_type)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(description(app.openapi()))
