"""Which of several ways to the same numbers is the fastest here: they are timed, since it depends on the processor."""

import statistics
import time
from collections.abc import Callable, Sequence


def fastest(ways: Sequence[Sequence[Callable[[], object]]], clock: Callable[[], float] = time.perf_counter) -> int:
    """The way with the smallest median. A way is a list of calls, one for each round; in a round, ways take turns."""
    for way in ways:
        way[0]()  # the first call of anything is slow
    seconds: list[list[float]] = [[] for _ in ways]
    for calls in zip(*ways, strict=True):
        for call, taken in zip(calls, seconds, strict=True):
            start = clock()
            call()
            taken.append(clock() - start)
    medians = [statistics.median(taken) for taken in seconds]
    return medians.index(min(medians))
