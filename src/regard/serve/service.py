"""The models, their workers, and the calls to them that all paths share."""

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard.serve.errors import Limits, RefusedError
from regard.serve.middleware import ServiceMetrics
from regard.serve.requests import ParsedRequest, RequestParser
from regard.serve.running import Request, RequestAnswer, RunningBatch, Work
from regard.serve.uploads import ModelExamples, Uploads
from regard.tasks.result import Prediction
from regard.work import QueuedInput, at_once

if TYPE_CHECKING:
    from regard.loading import AnyRun

# Fair scheduling of one model: one lane runs at a time, and lanes alternate between two steps.
#
# A running lane gives up the model when its time slice is over and others wait. Started lanes, in the order in which
# they gave up, and new work take turns, so that new work starts soon and old work ends.

SLICE = 0.05  # seconds


class FairScheduler:
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


# Continuous batching for one model: waiting requests that can be decoded together form one batch, which others join.
#
# A batch costs little more than one sentence. Nothing waits for company: the oldest request starts, others of its
# group (equal settings) join it up to a limit, and later ones join between two steps (`regard.work`). A batch
# accepts no more requests while older requests of another group wait without a lane, so that every request gets its
# turn.
#
# Long work does not block the model. Each piece of work has a lane (a thread), and lanes take turns between steps
# (`turns`). One lane is for groups only, so that predictions continue while looks fill the others. Work that was
# cancelled or exceeds the limit of a request ends at its next step.

LANES = 3  # concurrent pieces of work, plus one for groups; six took 100 MB more and gained nothing


class QueueFullError(Exception):
    """The queue is full, or the service is about to stop."""


class Worker:
    def __init__(self, name: str, metrics: ServiceMetrics, *, queue: int, max_batch: int, max_work: int) -> None:
        self.name = name
        self._metrics, self._queue, self._max_batch, self._max_work = metrics, queue, max_batch, max_work
        self._waiting: deque[Request] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._running: set[Hashable] = set()  # groups with a running batch
        self._idle = dict.fromkeys((False, True), 0)  # idle lanes: general ones, and those for groups only
        self._turns = FairScheduler(
            self._changed, lambda: any(self._first(kind) for kind, idle in self._idle.items() if idle)
        )
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

    def submit(self, inputs: list[str], work: Work, group: Hashable | None = None) -> RequestAnswer:
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

    def _next(self, lead: Request, groups_only: bool, room: int) -> list[tuple[Request, QueuedInput]]:
        """Return inputs of the leading request and of those that can join it, in order of arrival."""
        taken: list[tuple[Request, QueuedInput]] = []
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


T = TypeVar("T")
DRAWING = "/drawing"  # queue for drawing pictures, separate from the models; no folder of a run has this name


class Service:
    def __init__(self, runs: "Mapping[str, AnyRun]", limits: Limits) -> None:
        self.runs, self.limits = runs, limits
        self.metrics, self._uploads = ServiceMetrics(), Uploads()
        self.examples = ModelExamples(runs)
        self.questions = RequestParser(runs, limits, self._uploads, self.examples)
        self._workers = {
            name: Worker(
                name, self.metrics, queue=limits.queue, max_batch=limits.max_batch, max_work=limits.max_work
            )
            for name in (*runs, DRAWING)
        }  # fmt: skip
        self.stopping, self.began = False, time.time()
        places = {place: name for name, run in runs.items() for place in _places(run)}
        self._places = sorted(((place, name) for place, name in places.items()), key=lambda one: -len(one[0]))

    def start(self) -> None:
        for worker in self._workers.values():
            worker.start()
        self.examples.start()

    def stop(self) -> None:
        """Stop after all accepted work is done."""
        for worker in self._workers.values():
            worker.stop()
        self._uploads.close()

    def sentence(self, error: Exception) -> str:
        """Return the message of an error without the paths of this machine."""
        told = self._uploads.without_paths(str(error))
        for place, name in self._places:
            told = told.replace(place, name)
        return told

    @property
    def alive(self) -> bool:
        return all(worker.alive for worker in self._workers.values())

    @property
    def waiting(self) -> dict[str, int]:
        return {name: worker.waiting for name, worker in self._workers.items()}

    async def ask(self, question: ParsedRequest) -> list[Any]:
        """Return a model's answers. A timeout or a disconnect cancels: started work ends at its next step."""
        answer = self._submit(question)
        try:
            async with asyncio.timeout(self.limits.timeout):
                return await asyncio.wrap_future(answer)
        except TimeoutError:
            raise self._too_slow() from None

    async def stream(
        self, model: str | None, text: str, prefix: str, decoding: dict[str, Any]
    ) -> AsyncGenerator[tuple[str, str] | Prediction, None]:
        """Yield (piece, text so far) during decoding, and the prediction at the end.

        Stops early if no token arrives in time or the client disconnects."""
        name, run = self.questions.find(model)
        self.questions.require_short(text, "text")
        self.questions.require_short(prefix, "prefix")
        known = run.recipe.model_dump().get("decoding", {})
        given = {
            key: value for key, value in decoding.items() if key in known
        }  # for example, a language model has no beam
        events: asyncio.Queue[tuple[str, str] | Prediction | BaseException] = asyncio.Queue()
        put = partial(asyncio.get_running_loop().call_soon_threadsafe, events.put_nowait)

        def tell(piece: str, text: str) -> None:
            put((piece, text))

        def work(inputs: list[str]) -> list[Any]:
            return [run.stream(self.questions.given(name, inputs[0]), tell, prefix=prefix, **given)]

        def ended(answer: Future[list[Any]]) -> None:
            if not answer.cancelled():
                put(answer.exception() or answer.result()[0])

        answer = self._submit(ParsedRequest(name, [text], partial(at_once, work)))
        answer.add_done_callback(ended)
        try:
            while True:
                async with asyncio.timeout(self.limits.timeout):
                    event = await events.get()
                if isinstance(event, BaseException):
                    raise event
                yield event
                if isinstance(event, Prediction):
                    return
        except TimeoutError:
            raise self._too_slow() from None
        finally:
            answer.cancel()

    def _submit(self, question: ParsedRequest) -> RequestAnswer:
        try:
            return self._workers[question.model].submit(question.inputs, question.work, question.group)
        except QueueFullError:
            sentence = f"{self.limits.queue} requests are already waiting for {question.model}: try again in a second"
            raise RefusedError(503, sentence, **{"retry-after": "1"}) from None

    def _too_slow(self) -> RefusedError:
        sentence = f"no answer within {self.limits.timeout:g} seconds: send fewer or shorter inputs, or try again"
        return RefusedError(504, sentence)


def _places(run: "AnyRun") -> Iterator[str]:
    """Yield the folders of a run and of its data, as errors may contain them."""
    data = run.recipe.model_dump().get("data", {})
    named = [Path(value).parent for value in data.values() if isinstance(value, str) and os.sep in value]
    for place in (run.folder, *named):
        yield from (str(one) for one in (place, place.absolute(), place.resolve()) if len(one.parts) > 1)


async def start_events(events: AsyncGenerator[T, None]) -> AsyncIterator[T]:
    """Return the stream after its first event: errors before it get an HTTP status."""
    first = await anext(events)

    async def all_of_them() -> AsyncIterator[T]:
        async with aclosing(events):
            yield first
            async for event in events:
                yield event

    return all_of_them()
