"""Cost of one layer as a function of sequence length (n) and width (d): by the textbook, and counted.

Vaswani et al. 2017 (arXiv:1706.03762), Table 1, for one layer, one sequence:

    layer            operations    sequential   longest path
    self-attention   n² · d        O(1)         O(1)
    recurrent        n · d²        O(n)         O(n)
    convolution      k · n · d²    O(1)         O(log_k n)

The table's first row is the attention *operation*, softmax(QKᵀ/√d)V. A whole self-attention layer also projects
queries, keys, values and outputs: 4 · n · d² more multiplications, the larger part until n passes 2d. Here are both;
`measure_layers` runs them.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import MultiHead, ScaledDot, attend
from regard.cost.hardware import fastest_runs
from regard.cost.picture import Exponents, LayerCost, LayerCosts
from regard.errors import CallError

KERNEL = 3  # the k of the convolution
HEAD_WIDTH = 64  # as in every model of the paper: wider layers have more heads, not wider ones


@dataclass(frozen=True)
class Kind:
    """One kind of layer: its row in the textbook, operation count and constructor.

    `attention` is the operation alone, `self-attention` the whole layer around it.
    """

    name: str
    operations: str
    sequential: str
    path: str
    flops: Callable[[int, int], int]  # (n, d) → floating-point operations of a forward pass, two for each multiply-add
    build: Callable[[int], nn.Module]  # width → module from "1 n d" to something with a gradient


class AttentionOperation(nn.Module):
    """softmax(QKᵀ/√d)V alone, with heads and without projections: the first row of the table."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = _heads(width)
        self.score = ScaledDot()

    def forward(self, x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
        return attend(self.score, heads, heads, heads)[0]


class ConvolutionCost(nn.Module):
    """A convolution over time with kernel size k, batch first."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(width, width, KERNEL, padding="same")

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x.transpose(1, 2))


class RecurrentCost(nn.Module):
    """A GRU: three gates, so 6 · d² multiplications a step."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gru = nn.GRU(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(x)[0]


def _heads(width: int) -> int:
    return max(1, width // HEAD_WIDTH)


KINDS = (
    Kind("attention", "n²d", "O(1)", "O(1)", lambda n, d: 4 * n * n * d, AttentionOperation),
    Kind(
        "self-attention",
        "n²d + 4nd²",
        "O(1)",
        "O(1)",
        lambda n, d: 4 * n * n * d + 8 * n * d * d,
        lambda d: MultiHead(d, _heads(d)),
    ),
    Kind("recurrent", "nd²", "O(n)", "O(n)", lambda n, d: 12 * n * d * d, RecurrentCost),
    Kind("convolution", "knd²", "O(1)", "O(log_k n)", lambda n, d: 2 * KERNEL * n * d * d, ConvolutionCost),
)


# Measure the cost of one layer: seconds by sequence length (n) and width (d), and the exponents of both.
#
#     time ∝ n^p,   p the slope of log time over log n
#
# Each fitted exponent is listed with the exponent of counted operations (`layers`) at the same sizes.

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
