"""Time several implementations of the same computation and choose the fastest on this processor."""

import time
from collections.abc import Callable, Sequence

import torch


def fastest(ways: Sequence[Sequence[Callable[[], object]]], clock: Callable[[], float] | None = None) -> int:
    """Return the index of the way with the fastest call. A way has one call for each round; in a round, ways alternate.

    A single thread is timed by its processor time. Other work on the machine only makes calls slower, so the minimum
    of a few calls measures the way, where the median would measure the disturbance.
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
