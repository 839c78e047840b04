"""Continuous batching for one model: waiting requests that can be decoded together form one batch, which others join.

A batch costs little more than one sentence. Nothing waits for company: the oldest request starts, others of its group
(equal settings) join it up to a limit, and later ones join between two steps (`regard.arriving`). A batch accepts no
more requests while older requests of another group wait without a lane, so that every request gets its turn.

Long work does not block the model. Each piece of work has a lane (a thread), and lanes take turns between steps
(`turns`). One lane is for groups only, so that predictions continue while looks fill the others. Work that was
cancelled or exceeds the limit of a request ends at its next step.
"""

import threading
import time
from collections import deque
from collections.abc import Hashable
from functools import partial

from regard.arriving import Arrived
from regard.serve.metrics import Metrics
from regard.serve.running import Answer, Request, RunningBatch, Work
from regard.serve.turns import Turns

LANES = 3  # concurrent pieces of work, plus one for groups; six took 100 MB more and gained nothing


class QueueFullError(Exception):
    """The queue is full, or the service is about to stop."""


class Worker:
    def __init__(self, name: str, metrics: Metrics, *, queue: int, max_batch: int, max_work: int) -> None:
        self.name = name
        self._metrics, self._queue, self._max_batch, self._max_work = metrics, queue, max_batch, max_work
        self._waiting: deque[Request] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._running: set[Hashable] = set()  # groups with a running batch
        self._idle = dict.fromkeys((False, True), 0)  # idle lanes: general ones, and those for groups only
        self._turns = Turns(self._changed, lambda: any(self._first(kind) for kind, idle in self._idle.items() if idle))
        self._threads = [
            threading.Thread(target=self._lane, args=(number == LANES,), name=f"regard-{name}-{number}", daemon=True)
            for number in range(LANES + 1)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Accept no more requests, and finish the accepted ones."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    @property
    def alive(self) -> bool:
        return not self._stopping and all(thread.is_alive() for thread in self._threads)

    def submit(self, inputs: list[str], work: Work, group: Hashable | None = None) -> Answer:
        """Queue a request and return its future answer. A request without a group runs alone."""
        request = Request(group, inputs, work)
        with self._changed:
            if len(self._waiting) >= self._queue:  # cancelled requests make room
                self._waiting = deque(request for request in self._waiting if not request.answer.cancelled())
            if self._stopping or len(self._waiting) >= self._queue:
                raise QueueFullError
            self._waiting.append(request)
            self._changed.notify_all()
        return request.answer

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    # ----------------------------------------------------------------------------------------------------------- lanes
    def _lane(self, groups_only: bool) -> None:
        while lead := self._begin(groups_only):
            started = time.perf_counter()
            batch = RunningBatch(
                partial(self._next, lead, groups_only), self._turns.pause, partial(self._metrics.joined, self.name),
                max_batch=self._max_batch, max_work=self._max_work,
            )  # fmt: skip
            try:
                if batch.run(lead.work):
                    self._metrics.ended(self.name, time.perf_counter() - started)
            finally:
                with self._changed:
                    self._running.discard(lead.group)
                self._turns.end()

    def _first(self, groups_only: bool) -> Request | None:
        """Return the oldest request that a lane may start. One that can join a running batch starts no other."""
        return next((request for request in self._waiting if self._may_begin(request, groups_only)), None)

    def _may_begin(self, request: Request, groups_only: bool) -> bool:
        return (request.group is not None or not groups_only) and request.group not in self._running

    def _begin(self, groups_only: bool) -> Request | None:
        """Wait for the oldest request and the model; return None after the service has stopped."""
        with self._changed:
            self._idle[groups_only] += 1
            self._changed.wait_for(
                lambda: (
                    (self._first(groups_only) and self._turns.new_may_begin())
                    or (self._stopping and not self._first(groups_only))
                )
            )
            self._idle[groups_only] -= 1
            first = self._first(groups_only)
            if first is not None:
                self._turns.begin()
                if first.group is not None:
                    self._running.add(first.group)
            return first

    def _next(self, lead: Request, groups_only: bool, room: int) -> list[tuple[Request, Arrived]]:
        """Return inputs of the leading request and of those that can join it, in order of arrival."""
        taken: list[tuple[Request, Arrived]] = []
        with self._changed:
            for request in list(self._waiting):
                if request is not lead and (lead.group is None or request.group != lead.group):
                    if self._may_begin(request, groups_only) and not self._other_lane(request):
                        break  # this request waits for this lane
                    continue
                if request.answer.done() or not (request.answers or request.answer.set_running_or_notify_cancel()):
                    self._waiting.remove(request)
                    continue
                taken += [(request, arrived) for arrived in request.take(room - len(taken))]
                if not request.is_taken:
                    break
                self._waiting.remove(request)
        return taken

    def _other_lane(self, request: Request) -> bool:
        """Return whether another lane is idle and could start this request."""
        return any(idle and self._may_begin(request, kind) for kind, idle in self._idle.items())
