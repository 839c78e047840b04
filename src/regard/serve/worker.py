"""The work of one model: it takes whatever waits and can be decoded together, and runs it as one call.

A batch costs little more than a sentence. Nothing waits for company: while the model is busy, requests gather by
themselves. The oldest leads, and those of its group (the same settings) go with it, up to a limit; so nobody is
overtaken for ever.

Work that takes long does not keep the model for itself. Each piece of work has a lane, a thread of its own, and lanes
take turns between steps (`turns`). One lane is for groups only, so that predictions go on while looks fill the others.
Work that nobody waits for any more, or that turns out to be more than a request may ask for, ends at its next step.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from regard.errors import CallError
from regard.serve.metrics import Metrics
from regard.serve.turns import Turns
from regard.work import limited

Work = Callable[[list[str]], Sequence[Any]]  # one answer an input
LANES = 3  # pieces of work that may be under way, and one more for groups; six took 100 MB more and gained nothing


class QueueFullError(Exception):
    """As many requests wait as may wait, or the service is about to stop."""


class UnwantedError(Exception):
    """Nobody waits for this any more."""


class Answer(Future[list[Any]]):
    """Cancelled before its turn, it costs nothing; cancelled while it is worked on, the work ends at its next step."""

    def __init__(self) -> None:
        super().__init__()
        self.unwanted = False

    def cancel(self) -> bool:
        self.unwanted = True
        return super().cancel()


@dataclass(frozen=True, eq=False)
class Request:
    """Inputs of one request. Requests of equal groups do the same work, so that of the first serves for all of them."""

    group: Hashable | None
    inputs: list[str]
    work: Work
    answer: Answer = field(default_factory=Answer)


class Worker:
    def __init__(self, name: str, metrics: Metrics, *, queue: int, max_batch: int, max_work: int) -> None:
        self.name = name
        self._metrics, self._queue, self._max_batch, self._max_work = metrics, queue, max_batch, max_work
        self._waiting: deque[Request] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._idle = dict.fromkeys((False, True), 0)  # lanes without work: those for anything, those for groups only
        self._turns = Turns(self._changed, lambda: any(self._first(kind) for kind, idle in self._idle.items() if idle))
        self._threads = [
            threading.Thread(target=self._lane, args=(number == LANES,), name=f"regard-{name}-{number}", daemon=True)
            for number in range(LANES + 1)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Take nothing more, finish what was taken."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    @property
    def alive(self) -> bool:
        return not self._stopping and all(thread.is_alive() for thread in self._threads)

    def submit(self, inputs: list[str], work: Work, group: Hashable | None = None) -> Answer:
        """The answers to come. One without a group runs by itself."""
        request = Request(group, inputs, work)
        with self._changed:
            if len(self._waiting) >= self._queue:  # those that have given up make room
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
        while requests := self._take(groups_only):
            try:
                running = [request for request in requests if request.answer.set_running_or_notify_cancel()]
                if running:
                    self._run(running)
            finally:
                self._turns.end()

    def _first(self, groups_only: bool) -> Request | None:
        """The oldest request that a lane may take."""
        return next((request for request in self._waiting if request.group is not None or not groups_only), None)

    def _take(self, groups_only: bool) -> list[Request]:
        """The oldest request and those that can go with it, and the model; nothing, once the service has stopped."""
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
            if first is None:
                return []
            self._turns.begin()
            taken, left, room = [first], deque[Request](), self._max_batch - len(first.inputs)
            for request in self._waiting:
                if request is first:
                    continue
                if first.group is not None and request.group == first.group and len(request.inputs) <= room:
                    taken.append(request)
                    room -= len(request.inputs)
                else:
                    left.append(request)
            self._waiting = left
            return taken

    def _run(self, requests: list[Request]) -> None:
        started = time.perf_counter()
        inputs = [text for request in requests for text in request.inputs]
        try:
            with limited(self._between(requests)):
                answers = list(requests[0].work(inputs))
        except CallError as error:
            if len(requests) > 1:  # one of them is at fault: let each have its own answer
                for request in requests:
                    self._run([request])
                return
            return requests[0].answer.set_exception(error)
        except BaseException as error:
            for request in requests:
                request.answer.set_exception(error)
            return
        finally:
            self._metrics.batch(self.name, len(requests), len(inputs), time.perf_counter() - started)
        start = 0
        for request in requests:
            request.answer.set_result(answers[start : start + len(request.inputs)])
            start += len(request.inputs)

    def _between(self, requests: list[Request]) -> Callable[[int], None]:
        """What happens between two steps of the work on these requests."""
        spent, most = 0, self._max_work * len(requests)

        def between(vectors: int) -> None:
            nonlocal spent
            if all(request.answer.unwanted for request in requests):
                raise UnwantedError
            spent += vectors
            if spent > most:
                raise CallError(
                    f"this asks the model to work on more than {self._max_work:,} vectors (tokens, regions, frames): "
                    "send fewer or shorter inputs, or ask for a smaller beam, max_length or n_best, or another method"
                )
            self._turns.pause()

        return between
