"""Contrastive loss: each pair against all others of its batch, in both directions.

    L = −½ Σ_i ( Σ_j P_ij log softmax_j(s_ij) + Σ_j Q_ij log softmax_j(s_ji) )
    P_ij = r_ij / Σ_j r_ij,     Q_ij = r_ji / Σ_j r_ji,     r_ij: whether j is right for i

With r the identity, this is the loss of Radford et al. 2021, "CLIP" (arXiv:2103.00020, figure 3). Where several are
right (two pictures with the same caption), they share the probability, and are not negatives of each other.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.layers.loss import Loss


def contrast(scores: Float[Tensor, "B B"], right: Bool[Tensor, "B B"]) -> Loss:
    """Return the loss. `right`: the columns that belong to each row. Rows without any (no share) do not count."""
    scores = scores.float()
    total = (_one_way(scores, right) + _one_way(scores.T, right.T)) / 2
    found = right.gather(1, scores.argmax(1, keepdim=True))
    return Loss(total, right.any(1).sum(), found.sum())  # pyright: ignore[reportArgumentType]


def _one_way(scores: Float[Tensor, "B B"], right: Bool[Tensor, "B B"]) -> Float[Tensor, ""]:
    share = right.float() / right.sum(1, keepdim=True).clamp(min=1)
    return -(share * torch.log_softmax(scores, dim=1)).sum()
