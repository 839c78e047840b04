"""Long work tells of its steps, so that whoever asked for it can end it, bound it or let others go first.

    with limited(between):        # whoever asks: `between(vectors)` is called before every step, and may raise
        run.look(text)

    before_step(vectors)          # the work: before each step of decoding and each pass through a model

`vectors` is how many vectors (tokens, regions, frames) the model is about to be given: what work is counted in.

A `Deadline` says when a whole command has to be done, whatever it still has to do.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

Between = Callable[[int], None]
_between: ContextVar[Between | None] = ContextVar("regard_between_steps", default=None)


@dataclass(frozen=True)
class Deadline:
    """`seconds` after `began`, which is a moment of `time.monotonic`. The end of the work (scores, the report) has a
    share of the time of its own."""

    seconds: float
    began: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        """Seconds until the end begins; negative if it should have begun."""
        return self.began + self.seconds - time.monotonic() - self.end

    @property
    def end(self) -> float:
        """Seconds for the end."""
        return min(90.0, 1.5 + 0.1 * self.seconds)

    @property
    def scoring(self) -> float:
        """Seconds, of those for the end, in which a model answers the test data."""
        return self.end / 3


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
