"""Rotary positions.

    (x'_{2i}, x'_{2i+1}) = (x_{2i}, x_{2i+1}) turned by t / 10000^{2i/d}      so that q'_s · k'_t depends on s − t only

Su et al. 2021, "RoFormer", section 3.2, arXiv:2104.09864. Queries and keys are turned by an angle that grows with
their position; the dot product of two of them then sees only the distance. Pairs are neighbours, as in the paper
(LLaMA's files pair the two halves, which is the same up to an order of the features).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Rotary(nn.Module):
    frequency: Tensor

    def __init__(self, head_width: int, *, base: float = 10000.0):
        super().__init__()
        if head_width % 2:
            raise ValueError(f"head_width={head_width} must be even for rotary positions: features turn in pairs")
        even = torch.arange(0, head_width, 2, dtype=torch.float64)
        self.register_buffer("frequency", (base ** (-even / head_width)).float(), persistent=False)

    def forward(self, x: Float[Tensor, "*b T d"], start: int = 0) -> Float[Tensor, "*b T d"]:
        """Turn T vectors, the first of which is at position `start`."""
        if x.shape[-1] != 2 * len(self.frequency):
            raise ValueError(
                f"vectors have width {x.shape[-1]}, but rotary positions were built for {2 * len(self.frequency)}"
            )
        # Angles in float32 whatever the vectors are: in bfloat16 position 257 does not exist.
        step = torch.arange(start, start + x.shape[-2], device=x.device, dtype=torch.float32)
        angle = step.unsqueeze(1) * self.frequency.float()
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        first, second = x[..., 0::2], x[..., 1::2]
        return torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1).flatten(-2)
