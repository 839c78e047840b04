"""Long work tells of its steps, so that whoever asked for it can end it, bound it or let others go first.

    with limited(between):        # whoever asks: `between(vectors)` is called before every step, and may raise
        run.look(text)

    before_step(vectors)          # the work: before each step of decoding and each pass through a model

`vectors` is how many vectors (tokens, regions, frames) the model is about to be given: what work is counted in.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Between = Callable[[int], None]
_between: ContextVar[Between | None] = ContextVar("regard_between_steps", default=None)


@contextmanager
def limited(between: Between) -> Iterator[None]:
    """In this thread (or async task) only."""
    token = _between.set(between)
    try:
        yield
    finally:
        _between.reset(token)


def before_step(vectors: int) -> None:
    between = _between.get()
    if between is not None:
        between(vectors)
