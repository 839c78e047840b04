"""A batch of the service in progress: its requests, their answers so far, and their cost."""

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from regard.errors import CallError
from regard.work import Answers, QueuedInput, Take, on_step

Work = Callable[[Take], Answers]


class CancelledRequestError(Exception):
    """The request was cancelled by its client."""


class RequestAnswer(Future[list[Any]]):
    """The answer to a request. Cancelling it before its start is free; later, the work ends at its next step."""

    def __init__(self) -> None:
        super().__init__()
        self.unwanted = False

    def cancel(self) -> bool:
        self.unwanted = True
        return super().cancel()


@dataclass(eq=False)
class Request:
    """Inputs of one request. Requests of equal groups share the work function of the first."""

    group: Hashable | None
    inputs: list[str]
    work: Work
    answer: RequestAnswer = field(default_factory=RequestAnswer)
    answers: dict[QueuedInput, Any] = field(default_factory=dict)  # of inputs that have been started
    answered: int = 0
    spent: float = 0.0  # vectors

    def take(self, most: int) -> list[QueuedInput]:
        """Return the next inputs, at most `most`."""
        begun = len(self.answers)
        some = [QueuedInput(one, begun + place, self) for place, one in enumerate(self.inputs[begun : begun + most])]
        self.answers.update(dict.fromkeys(some))
        return some

    @property
    def is_taken(self) -> bool:
        return len(self.answers) == len(self.inputs)

    def fail(self, error: BaseException) -> None:
        """Fail the whole request with an error of one input; the others are cancelled."""
        for arrived in self.answers:
            arrived.cancelled = True
        if not self.answer.done():
            self.answer.set_exception(error)


class RunningBatch:
    def __init__(
        self,
        take: Callable[[int], list[tuple[Request, QueuedInput]]],
        pause: Callable[[], None],
        joined: Callable[[int, int], None],
        *,
        max_batch: int,
        max_work: int,
    ) -> None:
        """Create a batch. `take`: returns at most this many inputs that may join. `pause`: lets others use the model.

        `joined` is called with the numbers of new requests and inputs."""
        self._take_next, self._pause, self._joined = take, pause, joined
        self._max_batch, self._max_work = max_batch, max_work
        self._open: dict[QueuedInput, Request] = {}

    def run(self, work: Work) -> bool:
        """Run a batch; return whether there was work."""
        first = [self._take()]  # so that an error has a receiver
        if not first[0]:
            return False
        try:
            with on_step(self._share_cost):
                for arrived, answer in work(lambda: first.pop() if first else self._take()):
                    self._answer(arrived, answer)
        except BaseException as error:
            for request in {*self._open.values()}:
                request.fail(error)
        return True

    def _take(self) -> list[QueuedInput]:
        self._drop()
        taken = self._take_next(self._max_batch - len(self._open))
        self._open.update({arrived: request for request, arrived in taken})
        self._joined(sum(arrived.number == 0 for _, arrived in taken), len(taken))
        return [arrived for _, arrived in taken]

    def _answer(self, queued: QueuedInput, answer: Any) -> None:
        request = self._open.pop(queued, None)
        if request is None or request.answer.done():
            return
        if isinstance(answer, Exception):
            return request.fail(answer)
        request.answers[queued] = answer
        request.answered += 1
        if request.answered == len(request.inputs):
            request.answer.set_result(list(request.answers.values()))

    def _share_cost(self, vectors: int) -> None:
        """Charge each request for its share of the inputs in progress."""
        share = vectors / max(1, len(self._open))
        for request in self._open.values():
            request.spent += share
        self._drop()
        if not self._open:
            raise CancelledRequestError
        self._pause()

    def _drop(self) -> None:
        """Drop requests that were cancelled or that cost too much."""
        for request in {*self._open.values()}:
            if request.answer.unwanted:
                request.fail(CancelledRequestError())
            elif request.spent > self._max_work:
                request.fail(
                    CallError(
                        f"this request needs more than {self._max_work:,} vectors (tokens, regions, "
                        "frames): send fewer or shorter inputs, or use a smaller beam, max_length or n_best, or "
                        "another method"
                    )
                )
        self._open = {arrived: request for arrived, request in self._open.items() if not arrived.cancelled}
