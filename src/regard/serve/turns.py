"""Who may use a model now: one lane at a time, and between two steps another.

A lane that runs gives the model up when its slice of time is over and others want it. Those that wait are of two kinds:
lanes whose work is under way, in the order in which they gave up, and work that has not begun. They take turns, so that
new work begins soon and old work ends.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

SLICE = 0.05  # seconds


class Turns:
    """`changed` is the condition that all lanes wait on, and whose lock protects what is here."""

    def __init__(self, changed: threading.Condition, new_work: Callable[[], bool]) -> None:
        """`new_work`: whether there is work that has not begun and a lane that could begin it."""
        self._changed, self._new_work = changed, new_work
        self._free, self._new_is_next = True, True
        self._paused: deque[object] = deque()
        self._began = 0.0

    def new_may_begin(self) -> bool:
        """Called with the lock held."""
        return self._free and self._new_work() and (self._new_is_next or not self._paused)

    def begin(self) -> None:
        """A lane with new work takes the model. Called with the lock held."""
        self._take(new=True)

    def end(self) -> None:
        with self._changed:
            self._give()

    def pause(self) -> None:
        """Between two steps: let others go first, if any of them wants to and the slice is over."""
        if time.perf_counter() - self._began < SLICE:
            return
        with self._changed:
            if not self._paused and not self._new_work():
                return
            me = object()
            self._paused.append(me)
            self._give()
            self._changed.wait_for(lambda: self._free and self._paused[0] is me and not self.new_may_begin())
            self._paused.popleft()
            self._take(new=False)

    def _take(self, *, new: bool) -> None:
        self._free, self._new_is_next, self._began = False, not new, time.perf_counter()

    def _give(self) -> None:
        self._free = True
        self._changed.notify_all()
