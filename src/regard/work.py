"""Step callback for long computations: lets the caller cancel, limit or reschedule them.

    with limited(between):        # the caller: `between(vectors)` is called before every step, and may raise
        run.look(text)

    before_step(vectors)          # the work: before each step of decoding and each pass through a model

`vectors` is the number of vectors (tokens, regions, frames) in the next pass of the model: the unit of work.

A `Deadline` is the time when a whole command has to be done.
"""

import gc
import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Generic, TypeVar

from regard.errors import CallError, RegardError

Between = Callable[[int], None]
_between: ContextVar[Between | None] = ContextVar("regard_between_steps", default=None)


@dataclass(frozen=True)
class Deadline:
    """The time `seconds` after `began`, a value of `time.monotonic`. A share is reserved for the end."""

    seconds: float
    began: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        """Return the seconds until the end phase starts; negative if it should have started."""
        return self.began + self.seconds - time.monotonic() - self.end

    @property
    def end(self) -> float:
        """Return the seconds for the end phase."""
        return min(90.0, 1.5 + 0.1 * self.seconds)

    @property
    def scoring(self) -> float:
        """Return the seconds of the end phase for scoring the test data."""
        return self.end / 3


@contextmanager
def on_step(between: Between) -> Iterator[None]:
    """Set the callback in this thread (or async task) only."""
    token = _between.set(between)
    try:
        yield
    finally:
        _between.reset(token)


def before_step(vectors: int) -> None:
    between = _between.get()
    if between is not None:
        between(vectors)


# Continuous batching: inputs that arrive during the work join it, and each result is returned as soon as it is done.
#
#     for arrived, answer in run.predict_arriving(take):      # `take()` returns the waiting inputs; none at the end
#         ...
#
# `take` is called whenever an input can start: between two steps of decoding, or when all earlier inputs are done.


@dataclass(eq=False)
class QueuedInput:
    """An input, its number within its request, and its sender.

    Set `cancelled` to stop the work on it; its result may then never be returned.
    """

    one: Any
    number: int = 0
    sender: Any = None
    cancelled: bool = False


Take = Callable[[], Sequence[QueuedInput]]
Answers = Iterator[tuple[QueuedInput, Any]]  # a result, or the exception that this input caused


def at_once(work: Callable[[list[Any]], Sequence[Any]], take: Take) -> Answers:
    """Run work that new inputs cannot join: one list of inputs after the other."""
    while came := list(take()):
        yield from zip(came, _answers(work, came), strict=True)


def _answers(work: Callable[[list[Any]], Sequence[Any]], came: list[QueuedInput]) -> Sequence[Any]:
    try:
        return work([arrived.one for arrived in came])
    except CallError as error:
        senders = list(dict.fromkeys(arrived.sender for arrived in came))
        if len(senders) == 1:
            return [error] * len(came)
    # One of them caused the error: run each alone.
    own = {sender: iter(_answers(work, [one for one in came if one.sender is sender])) for sender in senders}
    return [next(own[arrived.sender]) for arrived in came]


# Processes that do the same work on parts of a list, and share the parent's memory.
#
#     with Workers(run.predict, 2) as workers:
#         predictions = workers(lines)          # in their order
#
# Products of small matrices gain little from a second thread; a second process has its own core. A worker is a fork:
# it uses the loaded model without a copy of its weights, and one thread. Without `fork` (Windows), or where it is not
# safe (macOS), there is one worker: this process.

T = TypeVar("T")
R = TypeVar("R")
FEWEST = 32  # inputs for each worker: with fewer, the start costs more than it saves


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor_seconds() -> float:
    """Return the processor time of this process and of its ended workers."""
    return sum(os.times()[:4])


def is_busy() -> bool:
    """Return whether more programs want to run than there are cores."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > cores()


def fitting(inputs: int | None) -> int:
    """Return the number of workers for this many inputs (None: unknown)."""
    return 1 if inputs is None else max(1, min(cores(), inputs // FEWEST))


class Workers(Generic[T, R]):
    """Worker processes. `work` maps a list to a list of equal length, where each result depends on its own input alone.

    `size` estimates the relative work for an input.
    """

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
    """Divide all inputs into `count` shares of similar size, each in order; return their indices.

    The longest are dealt first, back and forth. Dealt in turn, one of two workers would have all the work of a file in
    which every second line is long.
    """
    longest = sorted(range(len(sizes)), key=lambda number: -sizes[number])
    shares: list[list[int]] = [[] for _ in range(count)]
    for place, number in enumerate(longest):
        turn, card = divmod(place, count)
        shares[card if turn % 2 == 0 else -1 - card].append(number)
    return [sorted(share) for share in shares]


def length(one: Any) -> int:
    return len(one) if isinstance(one, Sized) else 0


def _serve(work: Callable[[list[Any]], Sequence[Any]], connection: Connection, others: list[Connection]) -> None:
    """Run in the worker: send the results of each list that arrives, until the connection closes."""
    for other in others:  # a fork inherits all; the end of the sender is only visible when every copy is closed
        other.close()
    gc.freeze()  # the parent's objects stay: collecting them would take time and write to shared memory
    import torch

    torch.set_num_threads(1)  # more threads would wait for OpenMP threads, which a fork does not have
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


# Progress of long work on standard error, with an estimate of the remaining time.
#
#     for row in with_progress(rows, "reading train.tsv", total=1000): ...     # work on a known list or file
#     with showing_progress("fitting baselines", seconds=20): ...              # work that reports nothing itself
#
# Work of less than `PATIENCE` seconds prints nothing.

U = TypeVar("U")
PATIENCE = 2.0  # seconds before the first progress message
EVERY = 2.0  # seconds between progress messages on a terminal; every 10 s in a log file
EVERY_IN_FILES = 10.0
_latest = [0.0]  # when `with_progress` last had an item: the work around it is then silent


def with_progress(items: Iterable[U], doing: str, every: int = 256, total: int = 0) -> Iterator[U]:
    """Yield the same items, and report progress, such as "reading train.tsv" with their number, if they take long.

    `every`: items between checks of the clock. `total`: their approximate number, if known, to estimate the remaining
    seconds.
    """
    terminal = sys.stderr.isatty()
    begin = _latest[0] = time.monotonic()
    due, spoken, number = begin + PATIENCE, False, 0
    try:
        for number, item in enumerate(items, start=1):
            yield item
            if number % every == 0:
                now = _latest[0] = time.monotonic()
                if now >= due:
                    spoken, due = True, now + (EVERY if terminal else EVERY_IN_FILES)
                    of, left = f" of about {total:,}", f", about {(now - begin) * (total - number) / number:.0f} s left"
                    known = total > number
                    _print_progress(f"{doing}: {number:,}{of * known} in {now - begin:.0f} s{left * known}", terminal)
    finally:  # also if the caller needs no more items: a line of a terminal has to end
        if spoken:
            _print_progress(f"{doing}: {number:,} in {time.monotonic() - begin:.0f} s", terminal, last=True)


@contextmanager
def showing_progress(doing: str, seconds: float = 0.0) -> Iterator[None]:
    """Report the time of the work in this block if it takes long. `seconds`: how long it takes about, if known.

    While `with_progress` counts items inside the block, only its messages are printed.
    """
    terminal, ended, spoken = sys.stderr.isatty(), threading.Event(), list[float]()
    begin = time.monotonic()

    def report() -> None:
        wait = PATIENCE
        while not ended.wait(wait):
            now = time.monotonic()
            if now - _latest[0] < min(wait, PATIENCE):  # items are counted
                wait = PATIENCE
                continue
            left = f", about {seconds - (now - begin):.0f} s left" if seconds > now - begin else ""
            _print_progress(f"{doing}: {now - begin:.0f} s{left}", terminal)
            spoken.append(now)
            wait = EVERY if terminal else EVERY_IN_FILES

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if spoken:
            _print_progress(f"{doing}: took {time.monotonic() - begin:.0f} s", terminal, last=True)


def _print_progress(text: str, terminal: bool, *, last: bool = False) -> None:
    line = f"\r\x1b[K{text}" if terminal else text
    print(line, end="\n" if last or not terminal else "", file=sys.stderr, flush=True)
