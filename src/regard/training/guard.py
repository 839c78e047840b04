"""Steps that must not be taken: the loss or its gradient is not a number, or has exploded.

Loss per item and length of the gradient have *exploded* when either is more than ten times its median over the last 64
good steps and more than four times its value at the start. The second condition keeps the late part of a good run
safe, where both are near zero and one hard batch may well be ten times the median.

Everything stays on the device: whether a step is skipped is a tensor that the fused optimiser obeys, so no step
waits for an answer. All inputs have been summed over processes before, so that all of them decide alike.
"""

import torch
from jaxtyping import Float
from torch import Tensor

ABOVE_MEDIAN, ABOVE_START, WINDOW = 10.0, 4.0, 64


class Guard:
    def __init__(self, device: torch.device) -> None:
        self.recent = torch.full((WINDOW, 2), torch.nan, device=device)
        self.start = torch.full((2,), torch.nan, device=device)

    def bad(self, step: int, seen: Float[Tensor, "2"]) -> Float[Tensor, ""]:
        """1 if the step with this (loss, gradient length) must be skipped, else 0. NaN medians compare as False."""
        median = self.recent.nanmedian(dim=0).values
        exploded = (seen > ABOVE_MEDIAN * median) & (seen > ABOVE_START * self.start)
        bad = (exploded | ~seen.isfinite()).any()
        row = self.recent[step % WINDOW]
        row.copy_(torch.where(bad, row, seen))
        self.start.copy_(torch.where(self.start.isnan() & ~bad, seen, self.start))
        return bad.float()

    def tensors(self) -> dict[str, Tensor]:
        return {"guard.recent": self.recent, "guard.start": self.start}
