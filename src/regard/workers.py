"""Several processes that do the same work on parts of a list, and share the memory of whoever starts them.

    with Workers(run.predict, 2) as workers:
        predictions = workers(lines)          # in their order

Products of small matrices gain little from a second thread; a second process has a core for itself. A worker is a fork:
it has the model that is loaded already, no copy of its weights, and one thread. Where there is no `fork` (Windows), or
it is not safe (macOS), there is one worker, which is this process.
"""

import gc
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable, Sequence, Sized
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Generic, TypeVar

from regard.errors import RegardError

T = TypeVar("T")
R = TypeVar("R")
FEWEST = 32  # inputs for each worker: for fewer, starting one does not pay


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fitting(inputs: int | None) -> int:
    """How many workers suit so many inputs (None: nobody knows)."""
    return 1 if inputs is None else max(1, min(cores(), inputs // FEWEST))


class Workers(Generic[T, R]):
    """`work` takes a list and gives a list of as many results, each of which depends on its own input alone. `size`
    says about how much work an input is, beside others."""

    def __init__(
        self, work: Callable[[list[T]], Sequence[R]], count: int, size: Callable[[T], int] | None = None
    ) -> None:
        self._work, self._size = work, size or length
        self.count = count if sys.platform == "linux" else 1
        self._processes: list[tuple[Any, Connection]] = []

    def __enter__(self) -> "Workers[T, R]":
        if self.count > 1:
            context = multiprocessing.get_context("fork")
            for _ in range(self.count):
                ours, theirs = context.Pipe()
                others = [ours, *(connection for _, connection in self._processes)]
                process = context.Process(target=_serve, args=(self._work, theirs, others), daemon=True)
                process.start()
                theirs.close()
                self._processes.append((process, ours))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process, connection in self._processes:
            connection.close()
            if kind is not None:
                process.terminate()
            process.join()

    def __call__(self, inputs: Sequence[T]) -> list[R]:
        if not self._processes:
            return list(self._work(list(inputs)))
        shares = dealt([self._size(one) for one in inputs], self.count)
        for share, (_, connection) in zip(shares, self._processes, strict=True):
            connection.send([inputs[number] for number in share])
        results: list[Any] = [None] * len(inputs)
        for share, (process, connection) in zip(shares, self._processes, strict=True):
            try:
                found, error = connection.recv()
            except EOFError:
                process.join()
                raise RegardError(
                    f"a worker process ended (exit code {process.exitcode}): was it killed, or out of memory? "
                    "--workers 1 needs the least"
                ) from None
            if error is not None:
                raise error
            for number, one in zip(share, found, strict=True):
                results[number] = one
        return results


def dealt(sizes: Sequence[int], count: int) -> list[list[int]]:
    """The numbers of all inputs in `count` shares of about the same size, each in order: the longest are dealt first,
    forth and back. Dealt in turn, one of two workers has all the work of a file where every second line is long."""
    longest = sorted(range(len(sizes)), key=lambda number: -sizes[number])
    shares: list[list[int]] = [[] for _ in range(count)]
    for place, number in enumerate(longest):
        turn, card = divmod(place, count)
        shares[card if turn % 2 == 0 else -1 - card].append(number)
    return [sorted(share) for share in shares]


def length(one: Any) -> int:
    return len(one) if isinstance(one, Sized) else 0


def _serve(work: Callable[[list[Any]], Sequence[Any]], connection: Connection, others: list[Connection]) -> None:
    """In the worker: results of each list that comes, until nobody sends any more."""
    for other in others:  # a fork has them all, and while one is open anywhere, nobody sees that the sender is gone
        other.close()
    gc.freeze()  # what the parent has stays: looking for garbage in it would take time, and write to shared memory
    import torch

    torch.set_num_threads(1)  # more would wait for threads of OpenMP, which a fork does not have
    while True:
        try:
            inputs = connection.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            answer = (list(work(inputs)), None)
        except KeyboardInterrupt:
            return
        except RegardError as error:
            answer = (None, error)
        except Exception as error:
            answer = (None, RuntimeError(f"in a worker process: {error}\n{traceback.format_exc()}"))
        try:
            connection.send(answer)
        except BrokenPipeError:
            return
