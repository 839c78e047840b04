"""Tokens as they are generated.

Decoding feeds each token that it has chosen into the next `step` of the model. So a model whose `step` also tells
what comes in reports every token, one step late, and the output is that of `run.predict` by construction.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from regard.api import Run
from regard.errors import CallError
from regard.job import Output, Prediction, Streams
from regard.outputs.text.translate import Translate
from regard.special_tokens import START


def stream(run: Run, text: str, prefix: str, decoding: dict[str, Any], tell: Callable[[str, str], None]) -> Prediction:
    """`tell(token, text so far)` for every token. It may raise, which ends the work."""
    job = run.job
    if isinstance(job, Streams):
        return _told(run, text, prefix, decoding, tell)
    if not isinstance(job, Translate):
        raise CallError(f"the job {run.recipe.job!r} writes nothing that could be streamed")
    ids: list[int] = []

    def step(tokens: Tensor, state: Any) -> Any:
        token = int(tokens[0])
        if token != START:
            ids.append(token)
            tell(job.target.labels([token])[0], job.target.decode(ids))
        return run.model.step(tokens, state)  # pyright: ignore[reportCallIssue]

    model = copy.copy(run.model)  # its parts are shared; only this copy tells
    object.__setattr__(model, "step", step)
    return replace(run, model=model).predict(text, prefix=prefix, **decoding)


def _told(run: Run, text: str, prefix: str, decoding: dict[str, Any], tell: Callable[[str, str], None]) -> Prediction:
    """A job that tells its text itself, in pieces that are certain."""
    known = run.recipe.model_dump().get("decoding", {})
    given = {name: value for name, value in decoding.items() if name in known}  # a language model has no beam
    said, total = "", 0.0
    for piece, so_far in run.scored_stream(text, prefix=prefix, **given):
        said, total = said + piece, so_far
        if piece:
            tell(piece, said)
    return Prediction(text, [Output(said, total, total)])


def event(name: str, data: str) -> str:
    """One server-sent event. JSON has no line breaks in it, so one `data` line is enough."""
    return f"event: {name}\ndata: {data}\n\n"
