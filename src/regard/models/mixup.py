"""Inputs mixed in pairs, and their labels with them.

    x ← λ x + (1 − λ) x'      y ← λ y + (1 − λ) y'      λ ~ Beta(α, α)

Zhang et al. 2017, section 2 (arXiv:1710.09412). As in their code, x' is another input of the batch; where we differ,
each input has a λ of its own, and λ ≥ ½, so that it stays the larger part of its row.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def mixed(source: Tensor, labels: Tensor, classes: int, alpha: float) -> tuple[Tensor, Float[Tensor, "B N"]]:
    """`labels`: a class a row, or a row of zeros and ones; what has no known label (−1) is mixed with nothing."""
    shares = F.one_hot(labels.clamp(min=0), classes).float() if labels.ndim == 1 else labels
    known = labels >= 0 if labels.ndim == 1 else (labels >= 0).all(1)
    partner = torch.randperm(len(labels), device=labels.device)
    part = torch.distributions.Beta(alpha, alpha).sample((len(labels),)).to(labels.device)
    part = torch.maximum(part, 1 - part).masked_fill(~(known & known[partner]), 1.0)
    source = source.float()
    both = torch.lerp(source[partner], source, part.view(-1, *[1] * (source.ndim - 1)))
    shares = torch.lerp(shares[partner], shares, part[:, None])
    return both, shares.masked_fill(~known[:, None], -1.0)
