"""Step callback for long computations: lets the caller cancel, limit or reschedule them.

    with limited(between):        # the caller: `between(vectors)` is called before every step, and may raise
        run.look(text)

    before_step(vectors)          # the work: before each step of decoding and each pass through a model

`vectors` is the number of vectors (tokens, regions, frames) in the next pass of the model: the unit of work.

A `Deadline` is the time when a whole command has to be done.
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
    """The time `seconds` after `began`, a value of `time.monotonic`. A share is reserved for the end."""

    seconds: float
    began: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        """Return the seconds until the end phase starts; negative if it should have started."""
        return self.began + self.seconds - time.monotonic() - self.end

    @property
    def end(self) -> float:
        """Return the seconds for the end phase."""
        return min(90.0, 1.5 + 0.1 * self.seconds)

    @property
    def scoring(self) -> float:
        """Return the seconds of the end phase for scoring the test data."""
        return self.end / 3


@contextmanager
def limited(between: Between) -> Iterator[None]:
    """Set the callback in this thread (or async task) only."""
    token = _between.set(between)
    try:
        yield
    finally:
        _between.reset(token)


def before_step(vectors: int) -> None:
    between = _between.get()
    if between is not None:
        between(vectors)
