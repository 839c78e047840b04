"""Texts into vectors: an encoder, one vector of its memory, and a loss that draws pairs together.

    v(x) = pool(encoder(<s> x </s>)) / ‖·‖          s_ij = v(a_i) · v(b_j) / τ
    L = −½ Σ_i ( log softmax_j(s_ij)[i] + log softmax_j(s_ji)[i] )          see `layers/loss.py`

Reimers and Gurevych 2019, "Sentence-BERT", section 3 (arXiv:1908.10084), trained with the other pairs of the batch as
what does not belong together (Henderson et al. 2017, section 4.4, arXiv:1705.00652), in both directions as Radford et
al. 2021 do (arXiv:2103.00020, figure 3). The loss of a pair depends on its batch, so here, unlike elsewhere, a
batch split over processes is not the same as the whole: each process contrasts its own pairs.
"""

import math
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.encoders.text import Bert
from regard.layers.feed_forward import Dropout
from regard.layers.loss import OutputLoss, contrastive_loss
from regard.layers.pooling import Pooling


@runtime_checkable
class TextPairs(Protocol):
    """Two texts a row, as the encoder reads them; padding alone where a process has no share."""

    @property
    def source(self) -> Tensor: ...
    @property
    def target(self) -> Tensor: ...


class Embedder(nn.Module):
    def __init__(self, encoder: Bert, pooling: Pooling, *, normalize: bool = True, temperature: float = 0.05) -> None:
        super().__init__()
        self.encoder, self.pooling = encoder, pooling
        self.normalize, self.temperature = normalize, temperature

    def forward(self, batch: TextPairs) -> OutputLoss:
        there = (batch.target != self.encoder.pad).any(1)
        a, b = (F.normalize(self.vectors(side), dim=-1) for side in (batch.source, batch.target))
        return contrastive_loss((a @ b.T) / self.temperature, torch.diag(there))

    def vectors(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B D"]:
        """One vector for each text."""
        pooled = self.pooling(self.encoder(tokens))
        return F.normalize(pooled, dim=-1) if self.normalize else pooled


# Pictures and texts as vectors in one space, trained so that matching pairs are close.
#
#     I = W_i pool(image encoder(picture)) / ‖·‖          T = W_t pool(text encoder(text)) / ‖·‖
#     s_ij = e^t I_i · T_j,   e^t ≤ 100          L: see `layers/loss.py`
#     p(label | picture) = softmax over labels of e^t I · T(label)              zero-shot: no label was trained on
#
# Radford et al. 2021, "CLIP", sections 2.3 and 2.4 (arXiv:2103.00020): linear projections, a learned temperature that
# begins at 0.07 and is kept from scaling by more than 100. The loss of a pair depends on its batch: under torchrun
# each process contrasts its own share, so a batch split over processes is not the same as the whole.

MOST = math.log(100.0)


@runtime_checkable
class PairBatch(Protocol):
    """Pictures and texts, one of each a row, and whether text j matches picture i."""

    @property
    def source(self) -> Tensor: ...
    @property
    def text(self) -> Tensor: ...
    @property
    def right(self) -> Tensor: ...


class Tower(nn.Module):
    """One side: encoder, pooling, projection; vectors of length 1."""

    def __init__(
        self,
        encoder: nn.Module,
        pooling: nn.Module,
        width: int,
        out: int,
        *,
        dropout: float = 0.0,
        noise: nn.Module | None = None,
        frozen: bool = False,
    ) -> None:
        """
        pooling    makes one vector, of `width`, of the encoder's memory
        dropout    of that vector
        noise      what is done to the inputs first, in training only: it has to know its own mode
        frozen     the encoder stays as it is, and is read without dropout
        """
        super().__init__()
        self.noise = noise or nn.Identity()
        self.encoder, self.pooling = encoder, pooling
        self.dropout = Dropout(dropout)
        self.project = nn.Linear(width, out, bias=False)
        self.width, self.frozen = out, frozen
        nn.init.normal_(self.project.weight, std=width**-0.5)
        if frozen:
            encoder.requires_grad_(False)

    def forward(self, inputs: Tensor) -> Float[Tensor, "B D"]:
        pooled = self.pooling(self.encoder(self.noise(inputs)))
        return F.normalize(self.project(self.dropout(pooled)).float(), dim=-1)

    def train(self, mode: bool = True) -> "Tower":
        super().train(mode)
        if self.frozen:
            self.encoder.eval()
        return self


class TwoTowers(nn.Module):
    def __init__(self, image: Tower, text: Tower, *, temperature: float = 0.07) -> None:
        super().__init__()
        self.image, self.text = image, text
        self.log_scale = nn.Parameter(torch.tensor(-math.log(temperature)))

    @property
    def scale(self) -> Float[Tensor, ""]:
        """e^t, by which cosines are multiplied."""
        return self.log_scale.clamp(max=MOST).exp()

    def forward(self, batch: PairBatch) -> OutputLoss:
        return contrastive_loss(self.scale * self.image(batch.source) @ self.text(batch.text).T, batch.right)
