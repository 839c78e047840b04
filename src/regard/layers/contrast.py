"""Pairs told apart from all others of their batch, both ways.

    L = −½ Σ_i ( Σ_j P_ij log softmax_j(s_ij) + Σ_j Q_ij log softmax_j(s_ji) )
    P_ij = r_ij / Σ_j r_ij,     Q_ij = r_ji / Σ_j r_ji,     r_ij: whether j is right for i

With r the identity, this is the loss of Radford et al. 2021, "CLIP" (arXiv:2103.00020, figure 3). Where several are
right (two pictures of which the same is said), they share, and none is held against the other.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.layers.loss import Loss


def contrast(scores: Float[Tensor, "B B"], right: Bool[Tensor, "B B"]) -> Loss:
    """`right`: which columns belong to each row. A row without any (a process without a share) counts nothing."""
    scores = scores.float()
    total = (_one_way(scores, right) + _one_way(scores.T, right.T)) / 2
    found = right.gather(1, scores.argmax(1, keepdim=True))
    return Loss(total, right.any(1).sum(), found.sum())  # pyright: ignore[reportArgumentType]


def _one_way(scores: Float[Tensor, "B B"], right: Bool[Tensor, "B B"]) -> Float[Tensor, ""]:
    share = right.float() / right.sum(1, keepdim=True).clamp(min=1)
    return -(share * torch.log_softmax(scores, dim=1)).sum()
