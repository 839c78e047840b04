"""A batch under way in the service: the requests in it, what each has been answered, and what it has cost."""

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from regard.arriving import Answers, Arrived, Take
from regard.errors import CallError
from regard.work import limited

Work = Callable[[Take], Answers]


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


@dataclass(eq=False)
class Request:
    """Inputs of one request. Requests of equal groups do the same work, so that of the first serves for all of them."""

    group: Hashable | None
    inputs: list[str]
    work: Work
    answer: Answer = field(default_factory=Answer)
    answers: dict[Arrived, Any] = field(default_factory=dict)  # of the inputs that have been taken
    answered: int = 0
    spent: float = 0.0  # vectors

    def take(self, most: int) -> list[Arrived]:
        """The next of its inputs."""
        begun = len(self.answers)
        some = [Arrived(one, begun + place, self) for place, one in enumerate(self.inputs[begun : begun + most])]
        self.answers.update(dict.fromkeys(some))
        return some

    @property
    def is_taken(self) -> bool:
        return len(self.answers) == len(self.inputs)

    def fail(self, error: BaseException) -> None:
        """An error of one input is the answer to all; the others are not worked on any more."""
        for arrived in self.answers:
            arrived.cancelled = True
        if not self.answer.done():
            self.answer.set_exception(error)


class RunningBatch:
    def __init__(
        self,
        take: Callable[[int], list[tuple[Request, Arrived]]],
        pause: Callable[[], None],
        joined: Callable[[int, int], None],
        *,
        max_batch: int,
        max_work: int,
    ) -> None:
        """`take`: so many inputs that may join, at most; `pause`: lets others have the model, if it is their turn;
        `joined` is told how many requests and inputs there are more."""
        self._take_next, self._pause, self._joined = take, pause, joined
        self._max_batch, self._max_work = max_batch, max_work
        self._open: dict[Arrived, Request] = {}

    def run(self, work: Work) -> bool:
        """Whether there was anything to do."""
        first = [self._take()]  # so that somebody is there to be told of an error
        if not first[0]:
            return False
        try:
            with limited(self._between):
                for arrived, answer in work(lambda: first.pop() if first else self._take()):
                    self._answer(arrived, answer)
        except BaseException as error:
            for request in {*self._open.values()}:
                request.fail(error)
        return True

    def _take(self) -> list[Arrived]:
        self._drop()
        taken = self._take_next(self._max_batch - len(self._open))
        self._open.update({arrived: request for request, arrived in taken})
        self._joined(sum(arrived.number == 0 for _, arrived in taken), len(taken))
        return [arrived for _, arrived in taken]

    def _answer(self, arrived: Arrived, answer: Any) -> None:
        request = self._open.pop(arrived, None)
        if request is None or request.answer.done():
            return
        if isinstance(answer, Exception):
            return request.fail(answer)
        request.answers[arrived] = answer
        request.answered += 1
        if request.answered == len(request.inputs):
            request.answer.set_result(list(request.answers.values()))

    def _between(self, vectors: int) -> None:
        """Each request pays for its share of the inputs that are under way."""
        share = vectors / max(1, len(self._open))
        for request in self._open.values():
            request.spent += share
        self._drop()
        if not self._open:
            raise UnwantedError
        self._pause()

    def _drop(self) -> None:
        """Requests that nobody waits for any more, or that cost too much."""
        for request in {*self._open.values()}:
            if request.answer.unwanted:
                request.fail(UnwantedError())
            elif request.spent > self._max_work:
                request.fail(
                    CallError(
                        f"this asks the model to work on more than {self._max_work:,} vectors (tokens, regions, "
                        "frames): send fewer or shorter inputs, or ask for a smaller beam, max_length or n_best, or "
                        "another method"
                    )
                )
        self._open = {arrived: request for arrived, request in self._open.items() if not arrived.cancelled}
