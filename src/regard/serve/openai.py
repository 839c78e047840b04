"""The part of OpenAI's API that models here support, so that programs written for it work unchanged.

    GET /v1/models    POST /v1/completions    POST /v1/chat/completions    POST /v1/embeddings

https://platform.openai.com/docs/api-reference. Language models complete and chat; encoders return embeddings. A chat is
passed to a model as the text of a play, with the names of the speakers (`User: ...`).
"""

import base64
import json
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response, StreamingResponse

from regard.errors import CallError
from regard.files.lines import ENDS, REPLY, as_play
from regard.serve import openai_schemas as asked
from regard.serve import schemas
from regard.serve.errors import RefusedError, openai_error
from regard.serve.service import Service, start_events
from regard.tasks.result import Prediction

if TYPE_CHECKING:
    from regard.loading import AnyRun


def add_openai(app: FastAPI, service: Service) -> None:
    @app.get("/v1/models", summary="List the served models, in OpenAI's form")
    async def models() -> dict[str, Any]:
        made = {"object": "model", "created": int(service.began), "owned_by": "regard"}
        return {"object": "list", "data": [{"id": name, **made} for name in service.runs]}

    @app.post("/v1/completions", response_class=Response, summary="Complete texts, in OpenAI's form")
    async def completions(body: asked.Completion) -> Response:
        run = _writer(service, body.model)
        prompts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
        form = _Form(run, body.model, "cmpl-", "text_completion", lambda text: {"text": text, "logprobs": None})
        return await _generate(service, body, prompts, _sampling_settings(run, body, body.max_tokens, []), form)

    @app.post("/v1/chat/completions", response_class=Response, summary="Complete a chat, in OpenAI's form")
    async def chat(body: asked.ChatCompletion) -> Response:
        run = _writer(service, body.model)
        prompt, stops = _chat(body.messages)
        key = "delta" if body.stream else "message"
        kind = "chat.completion.chunk" if body.stream else "chat.completion"
        form = _Form(
            run, body.model, "chatcmpl-", kind,
            lambda text: {key: {"role": "assistant", "content": text}, "logprobs": None},
        )  # fmt: skip
        most = body.max_completion_tokens or body.max_tokens
        return await _generate(service, body, [prompt], _sampling_settings(run, body, most, stops), form)

    @app.post("/v1/embeddings", response_class=Response, summary="Embed texts, in OpenAI's form")
    async def embeddings(body: asked.Embeddings) -> Response:
        _, run = service.questions.find(body.model)
        if not run.job.output.gives_vectors:
            raise RefusedError(422, f"{body.model} does not embed texts: use an encoder", "model")
        texts = [body.input] if isinstance(body.input, str) else body.input
        wish = schemas.Predict.model_validate({"inputs": texts, "model": body.model})
        found = await service.ask(service.questions.predict(wish))
        data = [
            {"object": "embedding", "index": number, "embedding": _vector(one["vector"], body.encoding_format)}
            for number, one in enumerate(found)
        ]
        tokens = _tokens(run, texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return JSONResponse({"object": "list", "data": data, "model": body.model, "usage": usage})


class _Form:
    """The response format of one of the two kinds."""

    def __init__(self, run: "AnyRun", model: str, prefix: str, kind: str, choice: Any) -> None:
        self.run, self._choice = run, choice
        name, now = prefix + secrets.token_hex(12), int(time.time())
        self._about = {"id": name, "object": kind, "created": now, "model": model}

    def answer(self, texts: Sequence[str], finished: Sequence[str | None], **more: Any) -> dict[str, Any]:
        choices = [
            {"index": number, **self._choice(text), "finish_reason": why}
            for number, (text, why) in enumerate(zip(texts, finished, strict=True))
        ]
        return {**self._about, "choices": choices, **more}

    def why_ended(self, text: str, most: int) -> str:
        return "length" if _tokens(self.run, [text]) >= most else "stop"


async def _generate(
    service: Service, body: asked.Sampled, prompts: list[str], decoding: dict[str, Any], form: _Form
) -> Response:
    if body.stream:
        if len(prompts) > 1 or body.n > 1:
            raise RefusedError(422, "only one text can be streamed: send one prompt, and n=1", "stream")
        events = await start_events(service.stream(body.model, prompts[0], "", decoding))
        return StreamingResponse(_chunks(events, decoding, form, service), media_type="text/event-stream")
    wish = schemas.Predict.model_validate({"inputs": prompts, "model": body.model, **decoding})
    found = await service.ask(service.questions.predict(wish))
    texts = [one["text"] for prediction in found for one in prediction["n_best"]]
    read, wrote = _tokens(form.run, prompts), _tokens(form.run, texts)
    usage = {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}
    finished = [form.why_ended(text, decoding["max_length"]) for text in texts]
    return JSONResponse(form.answer(texts, finished, usage=usage))


async def _chunks(
    events: AsyncIterator[Any], decoding: dict[str, Any], form: _Form, service: Service
) -> AsyncIterator[str]:
    try:
        async for one in events:
            if isinstance(one, Prediction):
                tree = form.answer([""], [form.why_ended(one.text, decoding["max_length"])])
            else:
                tree = form.answer([one[0]], [None])
            yield f"data: {json.dumps(tree)}\n\n"
    except (CallError, RefusedError) as error:
        yield f"data: {json.dumps(openai_error(service.sentence(error), None, 422))}\n\n"
    yield "data: [DONE]\n\n"


def _writer(service: Service, model: str) -> "AnyRun":
    _, run = service.questions.find(model)
    if not run.job.output.takes_prompt:
        raise RefusedError(422, f"{model} does not continue texts: use a language model", "model")
    return run


def _sampling_settings(run: "AnyRun", body: asked.Sampled, most: int | None, stops: list[str]) -> dict[str, Any]:
    """Return decoding settings. Without a seed, each request is sampled differently."""
    own = run.recipe.model_dump()["decoding"]["max_length"]
    return {"seed": secrets.randbelow(1 << 31), "max_length": min(own, 1000), **body.sampling(most, stops)}


def _chat(messages: Sequence[asked.Message]) -> tuple[str, list[str]]:
    """Return the prompt text of a chat, and the texts that end the assistant's turn."""
    return as_play((message.role, message.text) for message in messages) + REPLY, ENDS


def _tokens(run: "AnyRun", texts: Sequence[str]) -> int:
    return sum(run.job.input.length(run.job.input.read(text)) for text in texts)


def _vector(values: Sequence[float], form: str) -> Any:
    if form == "float":
        return list(values)
    return base64.b64encode(np.asarray(values, "<f4").tobytes()).decode()
