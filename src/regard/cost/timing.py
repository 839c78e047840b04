"""Timing: several cases in interleaved rounds, and the fastest run of each."""

import math
import time
from collections.abc import Callable

import torch


def fastest_runs(
    cases: dict[tuple[str, int, int], Callable[[], None]],
    seconds: float,
    device: torch.device,
    clock: Callable[[], float],
) -> tuple[dict[tuple[str, int, int], float], int]:
    """Return the fastest run of every case, and the number of rounds."""
    best = dict.fromkeys(cases, math.inf)
    for run in cases.values():
        _seconds(run, device, clock)  # first calls allocate and choose kernels
    rounds, end = 0, time.perf_counter() + seconds
    while rounds < 3 or time.perf_counter() < end:
        for case, run in cases.items():
            best[case] = min(best[case], _seconds(run, device, clock))
        rounds += 1
    return best, rounds


def _seconds(run: Callable[[], None], device: torch.device, clock: Callable[[], float]) -> float:
    start = clock()
    run()
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return clock() - start
