"""Normalising a vector over its width.

layer   y = γ · (x − mean) / √(variance + ε) + β      Ba et al. 2016 (arXiv:1607.06450)
rms     y = γ · x / √(mean of x² + ε)                 Zhang and Sennrich 2019 (arXiv:1910.07467)
"""

from typing import Literal

from torch import nn

NormKind = Literal["layer", "rms"]


def norm(width: int, kind: NormKind = "layer") -> nn.Module:
    return nn.LayerNorm(width) if kind == "layer" else nn.RMSNorm(width, eps=1e-6)
