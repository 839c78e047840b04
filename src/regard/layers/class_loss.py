"""The loss of a classifier.

    one label        L = −w_y log p_y
    several labels   L = −Σ_c w_c y_c log p_c + (1−y_c) log(1−p_c)
    in parts         L = −Σ_c w_c y_c log p_c,   Σ_c y_c = 1

Class weights w are relative: they do not change the count of the loss, so their mean over the data should be
one. Label smoothing ε: Szegedy et al. 2015, section 7 (arXiv:1512.00567); for several labels y ← y (1−ε) + ε/2.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.layers.loss import Loss


def class_loss(
    logits: Float[Tensor, "B N"], labels: Tensor, *, weights: Float[Tensor, " N"] | None = None, smoothing: float = 0.0
) -> Loss:
    """`labels`: a class a row (B), or zeros and ones (B N). Rows of −1 have no known label and are skipped."""
    logits = logits.float()
    if labels.ndim == 1:
        known = labels >= 0
        total = F.cross_entropy(
            logits, labels, weight=weights, reduction="sum", label_smoothing=smoothing, ignore_index=-1
        )
        return Loss(total, known.sum(), ((logits.argmax(-1) == labels) & known).sum())  # pyright: ignore[reportArgumentType]
    known = (labels >= 0).all(1)
    soft = labels * (1 - smoothing) + smoothing / 2
    total = F.binary_cross_entropy_with_logits(logits, soft, pos_weight=weights, reduction="none")
    right = ((logits > 0) == (labels > 0.5)) & known.unsqueeze(1)
    return Loss((total * known.unsqueeze(1)).sum(), known.sum() * labels.shape[1], right.sum())  # pyright: ignore[reportArgumentType]


def share_loss(
    logits: Float[Tensor, "B N"],
    shares: Float[Tensor, "B N"],
    *,
    weights: Float[Tensor, " N"] | None = None,
    smoothing: float = 0.0,
) -> Loss:
    """Return −Σ_c y_c log p_c for class shares y that sum to one in each row; rows of −1 are skipped."""
    known = (shares >= 0).all(1)
    total = F.cross_entropy(
        logits[known].float(), shares[known], weight=weights, reduction="sum", label_smoothing=smoothing
    )
    right = (logits.argmax(-1) == shares.argmax(-1)) & known
    return Loss(total, known.sum(), right.sum())  # pyright: ignore[reportArgumentType]
