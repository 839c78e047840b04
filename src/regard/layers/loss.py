"""Cross-entropy over a vocabulary, without storing the table of logits.

    L = Σ_n  −(1 − ε) log p_n[y_n] − (ε/V) Σ_v log p_n[v],      p_n = softmax(W f_n + b)
    ∂L/∂logits_n = p_n − (1 − ε) onehot(y_n) − ε/V

Label smoothing: Szegedy et al. 2015, section 7 (arXiv:1512.00567), as in `F.cross_entropy(label_smoothing=ε)`.

The logits of a batch (tokens × V) are by far the largest table of a text model, and autograd would keep two or three
of them. But the gradient of this loss needs only one factor from outside. So it is computed in the forward pass, one
block of rows at a time, while the block is in the processor's cache; then the block is discarded. Rows that are padding
are not computed at all. Compiled kernels (`native`) do the same on a CPU, in one pass over the block between its three
products.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels import training

BLOCK_ELEMENTS = 2**22  # logits of a block: 16 MB in float32
GPU_BLOCK_ELEMENTS = 2**27  # GPUs need large matrices; 512 MB in float32


class OutputLoss(NamedTuple):
    """The *sum* of the loss over `count` real items, so that any split of a batch gives the same gradient.

    `correct`, if known: how many of the `count` were predicted right (a tensor without gradient).
    """

    total: Float[Tensor, ""]
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]
    correct: Tensor | None = None


def fused_cross_entropy(
    features: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
    *,
    smoothing: float = 0.0,
    pad: int = 0,
    block_rows: int | None = None,
) -> OutputLoss:
    """Return the loss of `targets` under `softmax(features weightᵀ + bias)`, without rows whose target is `pad`.

    Under autocast the matrix products run in its type, while softmax, loss and the sum of the gradients stay in
    float32. If the weight is also the embedding, autograd adds the two gradients.
    """
    real = (targets != pad).nonzero().squeeze(1)
    if len(real) < len(targets):
        features, targets = features.index_select(0, real), targets.index_select(0, real)
    given = (features, weight) if bias is None else (features, weight, bias)
    native = features.numel() * len(weight) >= training.WORTH and training.suits(*given)
    if block_rows is None:
        elements = BLOCK_ELEMENTS if features.device.type == "cpu" else GPU_BLOCK_ELEMENTS
        block_rows = min(max(1, elements // len(weight)), training.SUMMED if native else len(targets) + 1)
    total, correct = _FusedCrossEntropy.apply(
        features, weight, bias, targets, smoothing, block_rows, torch.is_grad_enabled(), native
    )
    return OutputLoss(total, len(targets), correct)


class _FusedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        block_rows: int,
        learning: bool,
        native: bool,
    ) -> tuple[Tensor, Tensor]:
        device = features.device.type
        work = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else features.dtype
        exact = torch.promote_types(work, torch.float32)  # float64 stays float64
        vocabulary = len(weight)
        total = features.new_zeros((), dtype=exact)
        correct = targets.new_zeros(())
        grad_features = torch.empty_like(features) if learning else None
        grad_weight = torch.zeros_like(weight, dtype=exact) if learning else None
        grad_bias = torch.zeros_like(bias, dtype=exact) if learning and bias is not None else None
        with torch.autocast(device, enabled=False):
            matrix = weight.to(work)
            offset = None if bias is None else bias.to(work)
            panels = [training.pack_matrix(w) for w in (weight.T, weight)] if native else []  # for all blocks
            room = features.new_empty(
                min(block_rows, len(targets)) if native else 0, vocabulary
            )  # of one after the other
            for start in range(0, len(targets), block_rows):
                rows = slice(start, start + block_rows)
                if native and grad_features is not None and grad_weight is not None:
                    table = training.product(features[rows], panels[0], bias, out=room[: len(targets[rows])])
                    losses, right = training.entropy(table, targets[rows], smoothing)
                    total += losses.sum()
                    correct += right.sum()
                    training.product(table, panels[1], out=grad_features[rows])
                    training.transposed_product(table, features[rows], grad_bias, add_to=grad_weight)
                    continue
                x, y = features[rows].to(work), targets[rows].unsqueeze(1)
                table = F.linear(x, matrix, offset).to(exact)
                highest, right = table.amax(1, keepdim=True), table.gather(1, y)
                correct += (right >= highest).sum()
                torch.softmax(table, 1, out=table)
                log_norm = -table.amax(1, keepdim=True).log()  # the highest has exp(0) / norm
                total += (highest + log_norm - (1.0 - smoothing) * right).sum()
                if grad_features is None or grad_weight is None:
                    continue
                # From here on the table is the gradient of the logits, except for the −ε/V that all of them share.
                table.scatter_add_(1, y, table.new_full((1, 1), smoothing - 1.0).expand_as(y))
                if grad_bias is not None:
                    grad_bias += table.sum(0)
                table = table.to(work)
                grad_features[rows] = table @ matrix
                if work == exact:
                    grad_weight.addmm_(table.T, x)
                else:
                    grad_weight += table.T @ x
            if smoothing > 0.0:
                # The term of all words, ε/V Σ_v logit_v: the sum of the logits is a product with sums.
                share = smoothing / vocabulary
                words, texts = matrix.sum(0, dtype=exact), features.sum(0, dtype=exact)
                total -= share * (words @ texts)
                if offset is not None:
                    total -= share * len(targets) * offset.sum(dtype=exact)
                if grad_features is not None and grad_weight is not None:
                    grad_features -= (share * words).to(grad_features.dtype)
                    grad_weight -= share * texts
                if grad_bias is not None:
                    grad_bias -= share * len(targets)
        if learning:
            ctx.save_for_backward(grad_features, grad_weight, grad_bias)
            ctx.weight_type, ctx.bias_type = weight.dtype, None if bias is None else bias.dtype
        ctx.mark_non_differentiable(correct)
        return total, correct

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  (once_differentiable hides the names)
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        grad_total = grad_outputs[0]
        features, weight, bias = ctx.saved_tensors
        return (
            features * grad_total.to(features.dtype),
            (weight * grad_total).to(ctx.weight_type),
            None if bias is None else (bias * grad_total).to(ctx.bias_type),
            None,
            None,
            None,
            None,
            None,
        )


# The loss of a classifier.
#
#     one label        L = −w_y log p_y
#     several labels   L = −Σ_c w_c y_c log p_c + (1−y_c) log(1−p_c)
#     in parts         L = −Σ_c w_c y_c log p_c,   Σ_c y_c = 1
#
# Class weights w are relative: they do not change the count of the loss, so their mean over the data should be one.
# Label smoothing ε: Szegedy et al. 2015, section 7 (arXiv:1512.00567); for several labels y ← y (1−ε) + ε/2.


def class_loss(
    logits: Float[Tensor, "B N"], labels: Tensor, *, weights: Float[Tensor, " N"] | None = None, smoothing: float = 0.0
) -> OutputLoss:
    """`labels`: a class a row (B), or zeros and ones (B N). Rows of −1 have no known label and are skipped."""
    logits = logits.float()
    if labels.ndim == 1:
        known = labels >= 0
        total = F.cross_entropy(
            logits, labels, weight=weights, reduction="sum", label_smoothing=smoothing, ignore_index=-1
        )
        return OutputLoss(total, known.sum(), ((logits.argmax(-1) == labels) & known).sum())  # pyright: ignore[reportArgumentType]
    known = (labels >= 0).all(1)
    soft = labels * (1 - smoothing) + smoothing / 2
    total = F.binary_cross_entropy_with_logits(logits, soft, pos_weight=weights, reduction="none")
    right = ((logits > 0) == (labels > 0.5)) & known.unsqueeze(1)
    return OutputLoss((total * known.unsqueeze(1)).sum(), known.sum() * labels.shape[1], right.sum())  # pyright: ignore[reportArgumentType]


def share_loss(
    logits: Float[Tensor, "B N"],
    shares: Float[Tensor, "B N"],
    *,
    weights: Float[Tensor, " N"] | None = None,
    smoothing: float = 0.0,
) -> OutputLoss:
    """Return −Σ_c y_c log p_c for class shares y that sum to one in each row; rows of −1 are skipped."""
    known = (shares >= 0).all(1)
    total = F.cross_entropy(
        logits[known].float(), shares[known], weight=weights, reduction="sum", label_smoothing=smoothing
    )
    right = (logits.argmax(-1) == shares.argmax(-1)) & known
    return OutputLoss(total, known.sum(), right.sum())  # pyright: ignore[reportArgumentType]


# Contrastive loss: each pair against all others of its batch, in both directions.
#
#     L = −½ Σ_i ( Σ_j P_ij log softmax_j(s_ij) + Σ_j Q_ij log softmax_j(s_ji) )
#     P_ij = r_ij / Σ_j r_ij,     Q_ij = r_ji / Σ_j r_ji,     r_ij: whether j is right for i
#
# With r the identity, this is the loss of Radford et al. 2021, "CLIP" (arXiv:2103.00020, figure 3). Where several are
# right (two pictures with the same caption), they share the probability, and are not negatives of each other.


def contrastive_loss(scores: Float[Tensor, "B B"], right: Bool[Tensor, "B B"]) -> OutputLoss:
    """Return the loss. `right`: the columns that belong to each row. Rows without any (no share) do not count."""
    scores = scores.float()
    total = (_one_way(scores, right) + _one_way(scores.T, right.T)) / 2
    found = right.gather(1, scores.argmax(1, keepdim=True))
    return OutputLoss(total, right.any(1).sum(), found.sum())  # pyright: ignore[reportArgumentType]


def _one_way(scores: Float[Tensor, "B B"], right: Bool[Tensor, "B B"]) -> Float[Tensor, ""]:
    share = right.float() / right.sum(1, keepdim=True).clamp(min=1)
    return -(share * torch.log_softmax(scores, dim=1)).sum()
