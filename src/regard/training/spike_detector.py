"""Detection of steps to skip: the loss or its gradient is NaN, infinite or has exploded.

The loss of an item has *exploded* when it is more than ten times its median over the last 64 good steps; the gradient,
when it is more than a hundred times as long. Batches of hard sentences stay well below, and are clipped. Both must also
be more than four times their value at the start: late in a good run, both are near zero.

Everything stays on the device: the skip flag is a tensor for the fused optimizer, so no step waits for the GPU. All
inputs have been summed over processes before, so that all processes decide the same.
"""

import torch
from jaxtyping import Float
from torch import Tensor

ABOVE_MEDIAN = (10.0, 100.0)  # of the loss, of the gradient norm
ABOVE_START, WINDOW = 4.0, 64


class SpikeDetector:
    def __init__(self, device: torch.device) -> None:
        self.recent = torch.full((WINDOW, 2), torch.nan, device=device)
        self.above = torch.tensor(ABOVE_MEDIAN, device=device)
        self.start = torch.full((2,), torch.nan, device=device)

    def bad(self, step: int, seen: Float[Tensor, "2"]) -> Float[Tensor, ""]:
        """Return 1 if a step with this (loss, gradient norm) must be skipped, else 0; NaN medians compare as False."""
        median = self.recent.nanmedian(dim=0).values
        exploded = (seen > self.above * median) & (seen > ABOVE_START * self.start)
        bad = (exploded | ~seen.isfinite()).any()
        row = self.recent[step % WINDOW]
        row.copy_(torch.where(bad, row, seen))
        self.start.copy_(torch.where(self.start.isnan() & ~bad, seen, self.start))
        return bad.float()

    def tensors(self) -> dict[str, Tensor]:
        return {"spikes.recent": self.recent, "spikes.start": self.start}
