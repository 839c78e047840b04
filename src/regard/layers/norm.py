"""Norms of a vector over its width.

layer   y = γ · (x − mean) / √(variance + ε) + β      Ba et al. 2016 (arXiv:1607.06450)
rms     y = γ · x / √(mean of x² + ε)                 Zhang and Sennrich 2019 (arXiv:1910.07467)
"""

from typing import Literal

from torch import nn

NormKind = Literal["layer", "rms"]


def norm(width: int, kind: NormKind = "layer", *, eps: float | None = None, bias: bool = True) -> nn.Module:
    """Return a norm; ε is 1e-5 for layer and 1e-6 for rms by default; `bias=False` omits β of layer norm."""
    if kind == "layer":
        return nn.LayerNorm(width, eps=1e-5 if eps is None else eps, bias=bias)
    return nn.RMSNorm(width, eps=1e-6 if eps is None else eps)
