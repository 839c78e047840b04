"""Error responses in one form: a sentence, and the field it refers to."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from regard.errors import CallError, nearest
from regard.serve import openai_schemas, schemas

FIELDS = {
    "/api/predict": list(schemas.Predict.model_fields),
    "/api/look": list(schemas.Look.model_fields),
    "/api/explain": list(schemas.Explain.model_fields),
    "/api/profile": list(schemas.Profile.model_fields),
    "/api/picture": list(schemas.PictureOptions.model_fields),
    "/api/stream": list(schemas.StreamOptions.model_fields),
    "/api/page": list(schemas.PartOut.model_fields),
    "/v1/completions": list(openai_schemas.Completion.model_fields),
    "/v1/chat/completions": list(openai_schemas.ChatCompletion.model_fields),
    "/v1/embeddings": list(openai_schemas.Embeddings.model_fields),
}


class RefusedError(Exception):
    """A rejected request."""

    def __init__(self, status: int, sentence: str, field: str | None = None, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.field, self.headers = status, field, headers


def answer(error: RefusedError, path: str = "") -> JSONResponse:
    """Return the response for an error: one form everywhere, except OpenAI's form on OpenAI's paths.

    ASCII only: a client's text may not be encodable in a response.
    """
    tree: dict[str, Any] = {"error": str(error), "field": error.field}
    if path.startswith("/v1/"):
        tree = openai_error(str(error), error.field, error.status)
    return Ascii(tree, error.status, headers=error.headers or None)


def openai_error(sentence: str, field: str | None, status: int) -> dict[str, Any]:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": sentence, "type": kind, "param": field, "code": None}}


class Ascii(JSONResponse):
    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=True, allow_nan=False).encode()


def add_handlers(app: FastAPI, sentence: Callable[[Exception], str]) -> None:
    """Handle all errors in one form: a sentence and its field. `sentence` removes paths of this machine."""

    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> Response:
        return answer(error, request.url.path)

    @app.exception_handler(CallError)
    async def wrong(request: Request, error: CallError) -> Response:
        return answer(RefusedError(422, sentence(error)), request.url.path)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        refused = RefusedError(error.status_code, str(error.detail), **dict(error.headers or {}))
        return answer(refused, request.url.path)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first, path = error.errors()[0], request.url.path
        if first["type"] == "json_invalid":
            told = first.get("ctx", {}).get("error", "broken")
            return answer(RefusedError(400, f"the body is not JSON: {told}"), path)
        place = [str(part) for part in first["loc"] if part != "body"]
        wrong = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            wrong = f"no such field{nearest(place[-1], FIELDS.get(path, ()))}"
        return answer(RefusedError(422, wrong, ".".join(place)[:100] or None), path)


#: Host names for a service on this machine only. Any other name in a Host header may be a web site that points its
#: own name here (DNS rebinding) to read from a visitor's machine.
LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))


@dataclass(frozen=True)
class Limits:
    """Limits of the service, and the accepted host names. Needs no web extra."""

    max_length: int = 1000  # characters of an input, a prefix or a forced output
    max_inputs: int = 64  # inputs of a request
    max_batch: int = 64  # inputs decoded in one call
    max_work: int = 1_000_000  # vectors that a model processes for one request, over all steps and passes
    max_body: int = 1 << 20  # bytes of a request
    max_upload: int = 16 << 20  # bytes of a picture or a recording
    max_uploads: int = 4  # uploads that may arrive at the same time
    max_held: int = 64 << 20  # bytes of requests that may arrive at the same time
    max_connections: int = 512  # open at the same time
    queue: int = 256  # requests that may wait for a model
    timeout: float = 30.0  # seconds until a request that has no answer gets 504
    idle_timeout: float = 10.0  # seconds that a connection may wait with no request, a part of one, or an unread answer
    api_key: str | None = None  # required on /api, /v1 and /metrics
    hosts: frozenset[str] | None = LOOPBACK  # accepted Host names; None: any
