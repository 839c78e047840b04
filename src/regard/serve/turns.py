"""Fair scheduling of one model: one lane runs at a time, and lanes alternate between two steps.

A running lane gives up the model when its time slice is over and others wait. Started lanes, in the order in which they
gave up, and new work take turns, so that new work starts soon and old work ends.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

SLICE = 0.05  # seconds


class Turns:
    """The scheduler. All lanes wait on the condition `changed`; its lock protects the state here."""

    def __init__(self, changed: threading.Condition, new_work: Callable[[], bool]) -> None:
        """Create a scheduler. `new_work` returns whether new work and a lane for it are waiting."""
        self._changed, self._new_work = changed, new_work
        self._free, self._new_is_next = True, True
        self._paused: deque[object] = deque()
        self._began = 0.0

    def new_may_begin(self) -> bool:
        """Return whether new work may start. Call it with the lock held."""
        return self._free and self._new_work() and (self._new_is_next or not self._paused)

    def begin(self) -> None:
        """Take the model for a lane with new work. Call it with the lock held."""
        self._take(new=True)

    def end(self) -> None:
        with self._changed:
            self._give()

    def pause(self) -> None:
        """Between two steps, let other lanes run if any wants to and the time slice is over."""
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
