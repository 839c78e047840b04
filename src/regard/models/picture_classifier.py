"""A classifier whose training pictures may be mixed in pairs, and their labels with them.

    L = −Σ_c y_c log p_c,      y = λ onehot(c) + (1 − λ) onehot(c')

Mixup: Zhang et al. 2017, section 2 (arXiv:1710.09412).
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.loss import Loss
from regard.models.classifier import Classifier, Labeled


class PictureClassifier(Classifier):
    def __init__(
        self,
        encoder: nn.Module,
        pooling: nn.Module,
        width: int,
        classes: int,
        *,
        dropout: float = 0.0,
        label_smoothing: float = 0.0,
        class_weights: Float[Tensor, " N"] | None = None,
        mixed: bool = False,
    ) -> None:
        """`mixed`: the labels of training are shares of classes (B N): each picture shows one thing or a mixture."""
        super().__init__(
            encoder, pooling, width, classes,
            dropout=dropout, label_smoothing=label_smoothing, class_weights=class_weights,
        )  # fmt: skip
        self.mixed = mixed

    def forward(self, batch: Labeled) -> Loss:
        if not (self.training and self.mixed and batch.labels.ndim == 2):
            return super().forward(batch)
        logits = self.logits(batch.inputs).float()
        known = (batch.labels >= 0).all(1)
        total = F.cross_entropy(
            logits[known], batch.labels[known],
            weight=self.class_weights, reduction="sum", label_smoothing=self.label_smoothing,
        )  # fmt: skip
        right = (logits.argmax(-1) == batch.labels.argmax(-1)) & known
        return Loss(total, known.sum(), right.sum())  # pyright: ignore[reportArgumentType]
