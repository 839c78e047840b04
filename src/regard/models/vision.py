"""What is in the picture: an image encoder, and a linear layer on its summary or a decoder over its regions.

    p(class | image) = softmax(W summary + b)

Dosovitskiy et al. 2020, section 3.1 (arXiv:2010.11929), with the linear head that the paper fine-tunes with.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.decoders.decoder import Decoder
from regard.layers.loss import Loss, fused_cross_entropy
from regard.models.seq2seq import START, Seq2Seq, SourceTarget, Tie


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


class Captioner(Seq2Seq):
    """What a picture shows, in words. A recurrent decoder that attends may be asked to look at all regions alike:

        L = Σ_t −log p(y_t | y_<t, image)  +  λ Σ_i (1 − Σ_t α_{t,i})²

    "Doubly stochastic attention" (Xu et al. 2015, section 4.2.1, equation 14, arXiv:1502.03044): a decoder's weights
    sum to one over regions; the penalty asks that they sum to one over words, too. It is there in training only.
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: Decoder,
        *,
        tie: Tie = "none",
        bias: bool = False,
        label_smoothing: float = 0.0,
        doubly_stochastic: float = 0.0,
    ) -> None:
        super().__init__(encoder, decoder, tie=tie, bias=bias, label_smoothing=label_smoothing)
        self.doubly_stochastic = doubly_stochastic

    def forward(self, batch: SourceTarget) -> Loss:
        if not (self.training and self.doubly_stochastic):
            return super().forward(batch)
        features, weights = self._watched(self.encode(batch.source), batch.target)
        loss = fused_cross_entropy(
            features.flatten(0, 1), self.output.weight, self.output.bias, batch.target.flatten(),
            smoothing=self.label_smoothing, pad=self.pad,
        )  # fmt: skip
        written = (batch.target != self.pad).unsqueeze(2)
        penalty = ((1 - (weights * written).sum(1)) ** 2)[written.any(1).squeeze(1)].sum()
        return Loss(loss.total + self.doubly_stochastic * penalty, loss.count, loss.correct)

    def _watched(self, memory: Memory, target: Int[Tensor, "B T"]) -> tuple[Float[Tensor, "B T D"], Tensor]:
        """Features, and the weights of every step with their gradient: `B T K`."""
        state = self.start(memory, watch=True)
        features, weights = [], []
        for tokens in torch.cat([torch.full_like(target[:, :1], START), target[:, :-1]], dim=1).unbind(1):
            feature, state = self.step(tokens, state)
            features.append(feature)
            weights.append(state.weights)
        return torch.stack(features, dim=1), torch.stack(weights, dim=1)
