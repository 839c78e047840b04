"""Every error in one form: a sentence, and the field it is about."""

import json
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from regard.errors import CallError, nearest
from regard.serve import schemas

FIELDS = {
    "/api/predict": list(schemas.Predict.model_fields),
    "/api/look": list(schemas.Look.model_fields),
    "/api/picture": list(schemas.Picture.model_fields),
    "/api/stream": list(schemas.Stream.model_fields),
    "/api/page": list(schemas.Part.model_fields),
}


class RefusedError(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, sentence: str, field: str | None = None, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.field, self.headers = status, field, headers


def answer(error: RefusedError) -> JSONResponse:
    """Errors have one form everywhere. ASCII only: what a client sent may not be text that can be sent back."""
    return Ascii({"error": str(error), "field": error.field}, error.status, headers=error.headers or None)


class Ascii(JSONResponse):
    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=True, allow_nan=False).encode()


def add_handlers(app: FastAPI) -> None:
    """Every error in one form: a sentence, and the field it is about."""

    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> Response:
        return answer(error)

    @app.exception_handler(CallError)
    async def wrong(_: Request, error: CallError) -> Response:
        return answer(RefusedError(422, str(error)))

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        return answer(RefusedError(error.status_code, str(error.detail), **dict(error.headers or {})))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return answer(RefusedError(400, f"the body is not JSON: {first.get('ctx', {}).get('error', 'broken')}"))
        place = [str(part) for part in first["loc"] if part != "body"]
        sentence = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            sentence = f"there is no such field{nearest(place[-1], FIELDS.get(request.url.path, ()))}"
        return answer(RefusedError(422, sentence, ".".join(place)[:100] or None))
