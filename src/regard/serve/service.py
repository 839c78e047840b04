"""The models, their workers, and the calls to them that all paths share."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard.arriving import at_once
from regard.outputs.result import Prediction
from regard.serve.error_responses import RefusedError
from regard.serve.examples import ModelExamples
from regard.serve.limits import Limits
from regard.serve.metrics import Metrics
from regard.serve.requests import Question, Questions
from regard.serve.running import Answer
from regard.serve.uploads import Uploads
from regard.serve.worker import QueueFullError, Worker

if TYPE_CHECKING:
    from regard.loading import AnyRun

T = TypeVar("T")
DRAWING = "/drawing"  # queue for drawing pictures, separate from the models; no folder of a run has this name


class Service:
    def __init__(self, runs: "Mapping[str, AnyRun]", limits: Limits) -> None:
        self.runs, self.limits = runs, limits
        self.metrics, self._uploads = Metrics(), Uploads()
        self.examples = ModelExamples(runs)
        self.questions = Questions(runs, limits, self._uploads, self.examples)
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

    async def ask(self, question: Question) -> list[Any]:
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

        def tell(piece: str, said: str) -> None:
            put((piece, said))

        def work(inputs: list[str]) -> list[Any]:
            return [run.stream(self.questions.given(name, inputs[0]), tell, prefix=prefix, **given)]

        def ended(answer: Future[list[Any]]) -> None:
            if not answer.cancelled():
                put(answer.exception() or answer.result()[0])

        answer = self._submit(Question(name, [text], partial(at_once, work)))
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

    def _submit(self, question: Question) -> Answer:
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


async def begun(events: AsyncGenerator[T, None]) -> AsyncIterator[T]:
    """Return the stream after its first event: errors before it get an HTTP status."""
    first = await anext(events)

    async def all_of_them() -> AsyncIterator[T]:
        async with aclosing(events):
            yield first
            async for event in events:
                yield event

    return all_of_them()
