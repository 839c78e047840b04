"""One thread a model: it takes whatever waits and can be decoded together, and runs it as one call.

A batch costs little more than a sentence. Nothing waits for company: while the model is busy, requests gather by
themselves. The oldest leads, and those of its group (the same settings) go with it, up to a limit; so nobody is
overtaken for ever.
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

Work = Callable[[list[str]], Sequence[Any]]  # one answer an input


class QueueFullError(Exception):
    """As many requests wait as may wait, or the service is about to stop."""


@dataclass(frozen=True, eq=False)
class Request:
    """Inputs of one request. Jobs of equal groups do the same work, so that of the first serves for all of them."""

    group: Hashable
    inputs: list[str]
    work: Work
    future: "Future[list[Any]]" = field(default_factory=Future)


class Worker:
    def __init__(self, name: str, metrics: Metrics, *, queue: int, max_batch: int) -> None:
        self.name = name
        self._metrics, self._queue, self._max_batch = metrics, queue, max_batch
        self._waiting: deque[Request] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._loop, name=f"regard-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more, finish what was taken."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def submit(self, inputs: list[str], work: Work, group: Hashable | None = None) -> "Future[list[Any]]":
        """The answers to come. One without a group runs by itself. Cancelled before its turn, it costs nothing."""
        request = Request(object() if group is None else group, inputs, work)
        with self._changed:
            if len(self._waiting) >= self._queue:  # those that have given up make room
                self._waiting = deque(request for request in self._waiting if not request.future.cancelled())
            if self._stopping or len(self._waiting) >= self._queue:
                raise QueueFullError
            self._waiting.append(request)
            self._changed.notify()
        return request.future

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def _loop(self) -> None:
        while requests := self._take():
            running = [request for request in requests if request.future.set_running_or_notify_cancel()]
            if running:
                self._run(running)

    def _take(self) -> list[Request]:
        """The oldest request and those that can go with it; nothing, once the service has stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopping)
            if not self._waiting:
                return []
            first = self._waiting.popleft()
            taken, left, room = [first], deque[Request](), self._max_batch - len(first.inputs)
            for request in self._waiting:
                if request.group == first.group and len(request.inputs) <= room:
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
            answers = list(requests[0].work(inputs))
        except CallError as error:
            if len(requests) > 1:  # one of them is at fault: let each have its own answer
                for request in requests:
                    self._run([request])
                return
            return requests[0].future.set_exception(error)
        except BaseException as error:
            for request in requests:
                request.future.set_exception(error)
            return
        finally:
            self._metrics.batch(self.name, len(requests), len(inputs), time.perf_counter() - started)
        start = 0
        for request in requests:
            request.future.set_result(answers[start : start + len(request.inputs)])
            start += len(request.inputs)
