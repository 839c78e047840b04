"""What one layer costs as sequences get longer (n) and vectors wider (d): measured, counted, and by the textbook.

Vaswani et al. 2017 (arXiv:1706.03762), Table 1, for one layer, one sequence:

    layer            operations    sequential   longest path
    self-attention   n² · d        O(1)         O(1)
    recurrent        n · d²        O(n)         O(n)
    convolution      k · n · d²    O(1)         O(log_k n)

The table's first row is the attention *operation*, softmax(QKᵀ/√d)V. A whole self-attention layer also projects
queries, keys, values and outputs: 4 · n · d² more multiplications, the larger part until n passes 2d. We measure both,
and put beside each fitted exponent the one that counting operations gives for the very same sizes: where measured and
counted agree, the machine does what the arithmetic says.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.attention import MultiHead, ScaledDot, attend
from regard.errors import CallError

if TYPE_CHECKING:
    from rich.table import Table

KERNEL = 3  # the k of the convolution
HEAD_WIDTH = 64  # as in every model of the paper: wider layers have more heads, not wider ones

LENGTHS = (128, 256, 512, 1024, 2048)
WIDTHS = (64, 128, 256, 512, 1024)
QUICK_LENGTHS = (256, 512, 1024, 2048)
QUICK_WIDTHS = (64, 128, 256, 512)


@dataclass(frozen=True)
class Kind:
    """One kind of layer: the textbook's row, how to count it, and how to build it.

    `attention` is the operation alone, `self-attention` the whole layer around it.
    """

    name: str
    operations: str
    sequential: str
    path: str
    flops: Callable[[int, int], int]  # (n, d) → floating-point operations of a forward pass, two for each multiply-add
    build: Callable[[int], nn.Module]  # width → module from "1 n d" to something with a gradient


class AttentionOperation(nn.Module):
    """softmax(QKᵀ/√d)V alone, in heads, without projections: the first row of the table to the letter."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = _heads(width)
        self.score = ScaledDot()

    def forward(self, x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
        return attend(self.score, heads, heads, heads)[0]


class Convolution(nn.Module):
    """A convolution over time that sees k steps at once; batch first, like everything else here."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(width, width, KERNEL, padding="same")

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x.transpose(1, 2))


class Recurrent(nn.Module):
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
    Kind("recurrent", "nd²", "O(n)", "O(n)", lambda n, d: 12 * n * d * d, Recurrent),
    Kind("convolution", "knd²", "O(1)", "O(log_k n)", lambda n, d: 2 * KERNEL * n * d * d, Convolution),
)


@dataclass(frozen=True)
class Exponents:
    """The p of time ∝ size^p, fitted to measured times and to counted operations at the same sizes."""

    measured: float
    counted: float


@dataclass(frozen=True)
class LayerCost:
    """One kind of layer: seconds for each size, and the exponents of n and d."""

    name: str
    operations: str
    sequential: str
    path: str
    by_length: tuple[float, ...]  # seconds for each of LayerCosts.lengths at LayerCosts.fixed_width
    by_width: tuple[float, ...]  # seconds for each of LayerCosts.widths at LayerCosts.fixed_length
    n: Exponents
    d: Exponents


@dataclass(frozen=True)
class LayerCosts:
    """All kinds of layer, measured together in one interleaved run."""

    layers: tuple[LayerCost, ...]
    lengths: tuple[int, ...]
    widths: tuple[int, ...]
    fixed_length: int
    fixed_width: int
    backward: bool
    rounds: int
    threads: int
    device: str

    def as_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings, for JSON."""
        return asdict(self)

    def table(self) -> "Table":
        """The textbook's table with our exponents, and a chart under it, for the terminal."""
        from regard.cost.picture import layers_table

        return layers_table(self)

    def plot(self, path: str | Path) -> Path:
        """The same as a picture; the suffix of the path (.png, .svg, .pdf) decides its format."""
        from regard.cost.picture import layers_plot

        return layers_plot(self, Path(path))


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

    One round times every case once, so that a disturbance of the machine hits all of them alike; rounds go on for
    `seconds`, at least three, and the fastest counts, since what disturbs a run can only add to it. Exponents are the
    slope of a least-squares line through the larger half of the sizes on log-log axes: below that, fixed costs of a
    call hide the arithmetic. One thread by default: the table counts work, not how well it spreads over processors.
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
        # Of one thread on a CPU we can ask for its own time, in which other programs do not count.
        clock = time.thread_time if threads == 1 and where.type == "cpu" else time.perf_counter
        fastest, rounds = _fastest(cases, seconds, where, clock)
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


def _fastest(
    cases: dict[tuple[str, int, int], Callable[[], None]],
    seconds: float,
    device: torch.device,
    clock: Callable[[], float],
) -> tuple[dict[tuple[str, int, int], float], int]:
    """The fastest run of every case, and how many rounds there were."""
    best = dict.fromkeys(cases, math.inf)
    for run in cases.values():
        _seconds(run, device, clock)  # first calls allocate and choose kernels
    rounds, end = 0, time.perf_counter() + seconds
    while rounds < 3 or time.perf_counter() < end:
        for case, run in cases.items():
            best[case] = min(best[case], _seconds(run, device, clock))
        rounds += 1
    return best, rounds


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """The slope of log cost over log size by least squares, through the larger half of the sizes (three at least)."""
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


def _seconds(run: Callable[[], None], device: torch.device, clock: Callable[[], float]) -> float:
    start = clock()
    run()
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return clock() - start
