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

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from regard.attention import MultiHead, ScaledDot, attend

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


class Convolution(nn.Module):
    """A convolution over time with kernel size k, batch first."""

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
