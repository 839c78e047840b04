"""Measure the cost of one layer: seconds by sequence length (n) and width (d), and the exponents of both.

    time ∝ n^p,   p the slope of log time over log n

Each fitted exponent is listed with the exponent of counted operations (`layers`) at the same sizes.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence

import torch

from regard.cost.layer_costs import Exponents, LayerCost, LayerCosts
from regard.cost.layers import KINDS, Kind
from regard.cost.timing import fastest_runs
from regard.errors import CallError

LENGTHS = (128, 256, 512, 1024, 2048)
WIDTHS = (64, 128, 256, 512, 1024)
QUICK_LENGTHS = (256, 512, 1024, 2048)
QUICK_WIDTHS = (64, 128, 256, 512)


def measure_layers(
    lengths: Sequence[int] = LENGTHS,
    widths: Sequence[int] = WIDTHS,
    seconds: float = 40.0,
    *,
    backward: bool = False,
    threads: int = 1,
    device: torch.device | str | None = None,
) -> LayerCosts:
    """Measure every kind of layer over all lengths (at a middle width) and all widths (at a middle length).

    One round times every case once, so that disturbances affect all cases equally. Rounds continue for `seconds`, at
    least three. The fastest counts, as disturbances only add time. Exponents are the slope of a least-squares line
    through the larger half of the sizes on log-log axes; at smaller sizes, the fixed cost of a call dominates. One
    thread by default: the table counts work, not parallel efficiency.
    """
    if min(len(lengths), len(widths)) < 3:
        raise CallError(f"lengths={list(lengths)} and widths={list(widths)} need three sizes each to fit an exponent")
    if min(*lengths, *widths) < 1:
        raise CallError(f"lengths={list(lengths)} and widths={list(widths)} must be positive")
    lengths, widths = tuple(sorted(lengths)), tuple(sorted(widths))
    fixed_length, fixed_width = lengths[len(lengths) // 2], widths[len(widths) // 2]
    where = torch.get_default_device() if device is None else torch.device(device)
    sizes = sorted({(n, fixed_width) for n in lengths} | {(fixed_length, d) for d in widths})
    cases = {(kind.name, n, d): _case(kind, n, d, backward, where) for kind in KINDS for n, d in sizes}
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        # For one thread on a CPU, use thread time, which excludes other programs.
        clock = time.thread_time if threads == 1 and where.type == "cpu" else time.perf_counter
        fastest, rounds = fastest_runs(cases, seconds, where, clock)
    finally:
        torch.set_num_threads(before)

    def cost(kind: Kind) -> LayerCost:
        by_length = tuple(fastest[kind.name, n, fixed_width] for n in lengths)
        by_width = tuple(fastest[kind.name, fixed_length, d] for d in widths)
        counted_n = [float(kind.flops(n, fixed_width)) for n in lengths]
        counted_d = [float(kind.flops(fixed_length, d)) for d in widths]
        return LayerCost(
            kind.name,
            kind.operations,
            kind.sequential,
            kind.path,
            by_length,
            by_width,
            Exponents(exponent(lengths, by_length), exponent(lengths, counted_n)),
            Exponents(exponent(widths, by_width), exponent(widths, counted_d)),
        )

    return LayerCosts(
        tuple(cost(kind) for kind in KINDS),
        lengths,
        widths,
        fixed_length,
        fixed_width,
        backward,
        rounds,
        threads,
        str(where),
    )


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """Return the least-squares slope of log cost over log size, for the larger half of the sizes (three at least)."""
    start = min(len(sizes) // 2, len(sizes) - 3)
    xs = [math.log(size) for size in sizes[start:]]
    ys = [math.log(cost) for cost in costs[start:]]
    return statistics.linear_regression(xs, ys).slope


def _case(kind: Kind, n: int, d: int, backward: bool, device: torch.device) -> Callable[[], None]:
    module = kind.build(d).to(device)
    x = torch.randn(1, n, d, device=device, requires_grad=backward)

    def run() -> None:
        with torch.set_grad_enabled(backward):
            y = module(x)
        if backward:
            torch.autograd.backward(y, torch.ones_like(y))
            x.grad = None
            module.zero_grad(set_to_none=True)

    return run
