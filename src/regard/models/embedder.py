"""Texts into vectors: an encoder, one vector of its memory, and a loss that draws pairs together.

    v(x) = pool(encoder(<s> x </s>)) / ‖·‖          s_ij = v(a_i) · v(b_j) / τ
    L = −½ Σ_i ( log softmax_j(s_ij)[i] + log softmax_j(s_ji)[i] )          see `layers/contrast.py`

Reimers and Gurevych 2019, "Sentence-BERT", section 3 (arXiv:1908.10084), trained with the other pairs of the batch as
what does not belong together (Henderson et al. 2017, section 4.4, arXiv:1705.00652), in both directions as Radford et
al. 2021 do (arXiv:2103.00020, figure 3). The loss of a pair depends on its batch, so here, unlike elsewhere, a
batch split over processes is not the same as the whole: each process contrasts its own pairs.
"""

from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.encoders.bert import Bert
from regard.layers.contrast import contrast
from regard.layers.loss import Loss
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

    def forward(self, batch: TextPairs) -> Loss:
        there = (batch.target != self.encoder.pad).any(1)
        a, b = (F.normalize(self.vectors(side), dim=-1) for side in (batch.source, batch.target))
        return contrast((a @ b.T) / self.temperature, torch.diag(there))

    def vectors(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B D"]:
        """One vector for each text."""
        pooled = self.pooling(self.encoder(tokens))
        return F.normalize(pooled, dim=-1) if self.normalize else pooled
