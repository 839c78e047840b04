"""A running average of the weights, which varies less than the weights of single steps.

    θ̄ ← θ̄ + (1 − d_s) (θ − θ̄),      d_s = min(d, (1 + s)/(10 + s))

Polyak & Juditsky 1992; exponential as in Kingma & Ba 2014, section 7.2 (arXiv:1412.6980). d_s is smaller in the first
steps, to forget the random start. The mean of the last checkpoints (Vaswani et al. 2017, section 6.1)
has a similar effect; the running average needs no files, and exact resume needs only two entries of state.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights: list[Tensor] = [weight for weight in model.parameters() if weight.requires_grad]
        self.names = [name for name, weight in model.named_parameters() if weight.requires_grad]
        self.mean = [weight.detach().clone() for weight in self.weights]

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.mean, self.weights, 1 - decay)  # pyright: ignore[reportPrivateImportUsage]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Use the averaged weights for validation and saving; restore the current weights at the end."""
        own = [weight.detach().clone() for weight in self.weights]
        self._put(self.mean)
        try:
            yield
        finally:
            self._put(own)

    @torch.no_grad()
    def _put(self, values: list[Tensor]) -> None:
        for weight, value in zip(self.weights, values, strict=True):
            weight.copy_(value)

    def tensors(self) -> dict[str, Tensor]:
        return dict(zip(self.names, self.mean, strict=True))
