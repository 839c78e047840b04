"""Which of several ways to the same numbers is the fastest here: they are timed, since it depends on the processor."""

import time
from collections.abc import Callable, Sequence

import torch


def fastest(ways: Sequence[Sequence[Callable[[], object]]], clock: Callable[[], float] | None = None) -> int:
    """The way with the quickest call. A way is a list of calls, one for each round; in a round, ways take turns.

    One thread is timed by its own processor time. Other work on the machine makes calls slower, never quicker: the
    quickest of a few says what a way can do, where their median says who was disturbed.
    """
    if clock is None:
        clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    for way in ways:
        way[0]()  # the first call of anything is slow
    seconds: list[list[float]] = [[] for _ in ways]
    for calls in zip(*ways, strict=True):
        for call, taken in zip(calls, seconds, strict=True):
            start = clock()
            call()
            taken.append(clock() - start)
    best = [min(taken) for taken in seconds]
    return best.index(min(best))
