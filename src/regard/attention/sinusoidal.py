"""Sinusoidal positions: any length, bounded, nothing to learn.

    PE(t, 2i) = sin(t / 10000^{2i/d})        PE(t, 2i+1) = cos(t / 10000^{2i/d})

Vaswani et al. 2017, section 3.5, arXiv:1706.03762.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.positions import Combine, known_combine, with_positions

_READY = 1024  # positions with precomputed sinusoids; others are computed when needed


def sinusoids(length: int, width: int, *, start: int = 0) -> Float[Tensor, "T D"]:
    """Return PE(t, ·) for t = start … start + length − 1, interleaved. An odd width omits the last cosine."""
    # In float64: the angles of late positions are large, and float32 would lose precision.
    step = torch.arange(start, start + length, dtype=torch.float64)
    even = torch.arange(0, width, 2, dtype=torch.float64)
    angle = step.unsqueeze(1) * 10000 ** (-even / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width].float()


class Sinusoidal(nn.Module):
    """Sinusoids for a sequence of any length."""

    table: Tensor

    def __init__(self, width: int, *, combine: Combine = "add"):
        super().__init__()
        self.width = width
        self.combine: Combine = known_combine(combine)
        self.register_buffer("table", sinusoids(_READY, width), persistent=False)

    def forward(self, x: Float[Tensor, "*b T D"], start: int | Int[Tensor, " N"] = 0) -> Float[Tensor, "*b T E"]:
        """`start`: position of the first of the T vectors (in decoding, the steps so far), for all rows or one
        for each row, with T = 1."""
        if isinstance(start, Tensor):
            last = int(start.max())
            table = self.table if last < _READY else sinusoids(last + 1, self.width).to(x.device)
            return with_positions(x, table[start].unsqueeze(1), self.combine)
        stop = start + x.shape[-2]
        if stop <= _READY:
            table = self.table[start:stop]
        else:
            table = sinusoids(x.shape[-2], self.width, start=start).to(x.device)
        return with_positions(x, table, self.combine)
