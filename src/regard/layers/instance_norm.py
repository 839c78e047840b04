"""Reversible instance norm: each target's mean and deviation over the window are removed before the model and restored
in its output, so that the model can handle levels that were not in the training data.

    window   x' = (x − mean_window) / √(var_window + ε)         ŷ = ŷ' √(var_window + ε) + mean_window
    last     x' = x − x_last                                    ŷ = ŷ' + x_last           (Zeng et al. 2022, NLinear)

Kim et al. 2022, section 2, ICLR; without its affine map. Zeng et al.: arXiv:2205.13504.
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

EPSILON = 1e-5
InstanceNorm = Literal["window", "last", "none"]


class Level(NamedTuple):
    """The mean that is subtracted from each target of a window, and the deviation that divides the rest."""

    mean: Float[Tensor, "B 1 M"]
    deviation: Float[Tensor, "B 1 M"]

    @classmethod
    def of(cls, past: Float[Tensor, "B S M"]) -> "Level":
        variance, mean = torch.var_mean(past, dim=1, keepdim=True, correction=0)
        return cls(mean, (variance + EPSILON).sqrt())

    @classmethod
    def last(cls, past: Float[Tensor, "B S M"]) -> "Level":
        return cls(past[:, -1:], torch.ones_like(past[:, -1:]))
