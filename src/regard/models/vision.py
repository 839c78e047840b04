"""What is in the picture: an image encoder, and a linear layer on its summary.

    p(class | image) = softmax(W summary + b)

Dosovitskiy et al. 2020, section 3.1 (arXiv:2010.11929), with the linear head that the paper fine-tunes with.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layers.loss import Loss


@dataclass(frozen=True)
class ImageBatch:
    """Images, and which class each of them shows."""

    images: Float[Tensor, "B C H W"]
    labels: Int[Tensor, " B"]

    def to(self, device: torch.device | str) -> "ImageBatch":
        return ImageBatch(self.images.to(device, non_blocking=True), self.labels.to(device, non_blocking=True))


class ImageClassifier(nn.Module):
    def __init__(self, encoder: nn.Module, summary_width: int, classes: int, *, label_smoothing: float = 0.0) -> None:
        """`encoder` makes a `Memory` of images; its summary has `summary_width`."""
        super().__init__()
        self.encoder = encoder
        self.output = nn.Linear(summary_width, classes)
        self.label_smoothing = label_smoothing
        nn.init.zeros_(self.output.weight)  # all classes alike at first, as in the paper
        nn.init.zeros_(self.output.bias)

    def forward(self, batch: ImageBatch) -> Loss:
        logits = self.logits(batch.images)
        smoothing = self.label_smoothing if self.training else 0.0
        total = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=smoothing)
        return Loss(total, len(batch.labels), (logits.argmax(-1) == batch.labels).sum())

    def logits(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B N"]:
        return self.output(self.encoder(images).summary)
