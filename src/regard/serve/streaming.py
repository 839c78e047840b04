"""Tokens as they are generated, as server-sent events."""

from collections.abc import Callable
from typing import Any

from regard.api import Run
from regard.outputs.result import Prediction


def stream(run: Run, text: Any, prefix: str, decoding: dict[str, Any], tell: Callable[[str, str], None]) -> Prediction:
    """`tell(token, text so far)` for every token. It may raise, which ends the work."""
    known = run.recipe.model_dump().get("decoding", {})
    given = {name: value for name, value in decoding.items() if name in known}  # a language model has no beam
    return run.stream(text, tell, prefix=prefix, **given)


def event(name: str, data: str) -> str:
    """One server-sent event. JSON has no line breaks in it, so one `data` line is enough."""
    return f"event: {name}\ndata: {data}\n\n"
