"""Rotary positions.

    (x'_{2i}, x'_{2i+1}) = (x_{2i}, x_{2i+1}) turned by t / 10000^{2i/d}      so that q'_s · k'_t depends on s − t only

Su et al. 2021, "RoFormer", section 3.2, arXiv:2104.09864. Queries and keys are rotated by an angle that grows with
their position; the dot product of two then depends on the distance only. Pairs are neighbors, as in the paper, or
with `halves` feature i and feature i + d/2, as in LLaMA files: the same up to the order of features.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

_READY = 2048  # positions with precomputed rotations; others are computed when needed


class Rotary(nn.Module):
    frequency: Tensor
    turns: Tensor

    def __init__(self, head_width: int, *, base: float = 10000.0, halves: bool = False):
        super().__init__()
        self.halves = halves
        if head_width % 2:
            raise ValueError(f"head_width={head_width} must be even for rotary positions: features turn in pairs")
        even = torch.arange(0, head_width, 2, dtype=torch.float64)
        self.register_buffer("frequency", (base ** (-even / head_width)).float(), persistent=False)
        self.register_buffer("turns", self._turns(0, _READY), persistent=False)

    def _turns(self, start: int, stop: int) -> Float[Tensor, "2 T h"]:
        """Return cosines and sines. Angles are float32 for any vectors: bfloat16 cannot represent position 257."""
        step = torch.arange(start, stop, device=self.frequency.device, dtype=torch.float32)
        angle = step.unsqueeze(1) * self.frequency.float()
        return torch.stack([angle.cos(), angle.sin()])

    def at(self, place: int) -> Float[Tensor, "2 h"]:
        """Return cosines and sines of one position."""
        turns, row = self.row(place)
        return turns[:, row]

    def row(self, place: int) -> tuple[Float[Tensor, "2 T h"], int]:
        """Return a table that contains the position, and its index there."""
        return (self.turns, place) if place < _READY else (self._turns(place, place + 1), 0)

    def forward(self, x: Float[Tensor, "*b T d"], start: int = 0) -> Float[Tensor, "*b T d"]:
        """Rotate T vectors, the first of which is at position `start`."""
        if x.shape[-1] != 2 * len(self.frequency):
            raise ValueError(
                f"vectors have width {x.shape[-1]}, but rotary positions were built for {2 * len(self.frequency)}"
            )
        stop = start + x.shape[-2]
        turns = self.turns[:, start:stop] if stop <= _READY else self._turns(start, stop)
        cos, sin = turns.to(x.dtype).unbind()
        if self.halves:
            first, second = x.chunk(2, dim=-1)
            return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)
        first, second = x[..., 0::2], x[..., 1::2]
        return torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1).flatten(-2)
