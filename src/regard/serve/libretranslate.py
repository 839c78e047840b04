"""LibreTranslate's API, for programs that use it: `POST /translate` and `GET /languages`.

https://docs.libretranslate.com/api/operations/translate. Every text-to-text model is treated as a translator. Its
languages come from the name of its folder (`opus-en-es`: from en to es); any other name is itself the target language,
with any source. A request is JSON or a form, as libretranslatepy sends it, and may contain the key (`api_key`).
"""

import json
import re
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import Field, ValidationError

from regard.serve import schemas
from regard.serve.errors import RefusedError
from regard.serve.middleware import bearer, require_key
from regard.serve.service import Service

if TYPE_CHECKING:
    from regard.loading import AnyRun

PAIR = re.compile(r"(?:^|[-_.])([a-z]{2,3})[-_]([a-z]{2,3})$")
ANY = "auto"
FORM = "application/x-www-form-urlencoded"


class Translate(schemas.Body):
    """`q` is a text or a list of them; `source` and `target` are codes from /languages."""

    q: schemas.Text | Annotated[list[schemas.Text], Field(min_length=1)]
    source: str = ANY
    target: str
    format: Annotated[str, Field(pattern="^text$", description="only text")] = "text"
    alternatives: int = Field(0, ge=0, lt=schemas.MOST, description="number of other translations besides the best")
    api_key: str = ""


def add_libretranslate(app: FastAPI, service: Service) -> None:
    pairs = {name: _languages(name) for name, run in service.runs.items() if _translates(run)}

    @app.get("/languages", summary="List the language pairs, in LibreTranslate's form")
    async def languages(request: Request, api_key: str = "") -> list[dict[str, Any]]:
        form = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))  # libretranslatepy sends one with GET
        _require_key(service, request, api_key or form.get("api_key", ""))
        sources = sorted({source for source, _ in pairs.values()})
        return [
            {"code": code, "name": code, "targets": sorted(to for source, to in pairs.values() if source == code)}
            for code in sources
        ]

    forms = {name: {"schema": Translate.model_json_schema()} for name in ("application/json", FORM)}

    @app.post(
        "/translate", summary="Translate texts, in LibreTranslate's form",
        openapi_extra={"requestBody": {"content": forms, "required": True}},
    )  # fmt: skip
    async def translate(request: Request) -> dict[str, Any]:
        body = await _parse_request(request)
        _require_key(service, request, body.api_key)
        found = [
            name for name, (source, target) in pairs.items()
            if target == body.target and (source == body.source or ANY in (source, body.source))
        ]  # fmt: skip
        if not found:
            known = ", ".join(f"{source} to {target}" for source, target in pairs.values()) or "nothing"
            raise RefusedError(
                400, f"no model translates from {body.source} to {body.target}; available: {known}", "target"
            )
        texts = [body.q] if isinstance(body.q, str) else body.q
        wish = schemas.Predict(
            inputs=texts, model=found[0], **_beam_settings(service.runs[found[0]], body.alternatives)
        )
        answers = await service.ask(service.questions.predict(wish))
        best = [one["text"] for one in answers]
        others = [[other["text"] for other in one["n_best"][1:]] for one in answers]
        one_text = isinstance(body.q, str)
        tree: dict[str, Any] = {"translatedText": best[0] if one_text else best}
        return tree | ({"alternatives": others[0] if one_text else others} if body.alternatives else {})


def _require_key(service: Service, request: Request, text: str) -> None:
    """Require the service's key, if it has one: in the header, or where LibreTranslate's client sends it."""
    header = request.headers.get("authorization", "").encode("latin-1")
    require_key(service.limits.api_key, bearer(header) or text.encode())


async def _parse_request(request: Request) -> Translate:
    sent = await request.body()
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM:
        tree: Any = dict(parse_qsl(sent.decode("utf-8", "replace"), keep_blank_values=True))
    else:
        try:
            tree = json.loads(sent)
        except ValueError as error:  # also invalid UTF-8
            raise RefusedError(400, f"the body is not JSON: {error}") from None
    try:
        return Translate.model_validate(tree)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None


def _translates(run: "AnyRun") -> bool:
    output = run.job.output
    return output.writes_text and not output.takes_prompt and run.job.input.kinds == ("text",)


def _languages(name: str) -> tuple[str, str]:
    match = PAIR.search(name)
    return (match[1], match[2]) if match else (ANY, name)


def _beam_settings(run: "AnyRun", alternatives: int) -> dict[str, Any]:
    """Return decoding settings with this many hypotheses and a large enough beam."""
    if not alternatives:
        return {}
    own = run.recipe.model_dump().get("decoding", {}).get("beam", 1)
    return {"n_best": alternatives + 1, "beam": min(schemas.MOST, max(own, alternatives + 1))}
