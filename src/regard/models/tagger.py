"""What is each word? An encoder reads, and a linear layer weighs the tags of every word, each by its own vector.

    p(c_t | x) = softmax(W h_t + b)_c          with attention over the vectors, h_t ← [h_t; Σ_i α_ti h_i]

Many-to-many with order correspondence: output t belongs to input t, so nothing has to be aligned and no output waits
for another. A bidirectional recurrent encoder is Huang et al. 2015, section 2.2 (arXiv:1508.01991), without their CRF;
a Transformer is Devlin et al. 2018, section 5.3 (arXiv:1810.04805): of a word in pieces, the first piece is tagged.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.layer import Attention
from regard.attention.role import Role
from regard.layers.class_loss import class_loss
from regard.layers.dropout import Dropout
from regard.layers.loss import Loss


@dataclass(frozen=True)
class Words:
    """Tokens of texts, and where the words of each begin; rows with fewer words are filled with 0."""

    tokens: Int[Tensor, "B S"]
    places: Int[Tensor, "B W"]

    def to(self, device: torch.device | str) -> "Words":
        return Words(self.tokens.to(device, non_blocking=True), self.places.to(device, non_blocking=True))


@runtime_checkable
class TaggedWords(Protocol):
    """What a tagger is trained on; a word whose tag is −1 counts nothing."""

    @property
    def source(self) -> Words: ...
    @property
    def target(self) -> Int[Tensor, "B W"]: ...


class Tagger(nn.Module):
    class_weights: Tensor | None

    def __init__(
        self,
        encoder: nn.Module,
        width: int,
        tags: int,
        *,
        attention: Attention | None = None,
        dropout: float = 0.0,
        label_smoothing: float = 0.0,
        class_weights: Float[Tensor, " N"] | None = None,
        noise: nn.Module | None = None,
        frozen: bool = False,
    ) -> None:
        """
        encoder      makes a `Memory` of tokens, whose vectors have `width`
        attention    of these vectors over each other; what it brings is put beside each of them
        dropout      of what is weighed
        noise        what is done to the tokens first, in training only
        frozen       the encoder stays as it is, and is read without dropout
        """
        super().__init__()
        self.noise = noise or nn.Identity()
        self.encoder, self.attention, self.frozen = encoder, attention, frozen
        if attention is not None:
            attention.role = Role("encoder")
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width if attention is None else 2 * width, tags)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)
        self.label_smoothing = label_smoothing
        if frozen:
            encoder.requires_grad_(False)
        self.register_buffer("class_weights", class_weights, persistent=False)  # of the training data, for training

    def forward(self, batch: TaggedWords) -> Loss:
        logits = self.logits(batch.source)
        target = batch.target.expand(logits.shape[:2]).flatten()  # of a process without a share, it is one unknown tag
        logits = logits.flatten(0, 1)
        if not self.training:
            return class_loss(logits, target)
        return class_loss(logits, target, weights=self.class_weights, smoothing=self.label_smoothing)

    def logits(self, source: Words) -> Float[Tensor, "B W N"]:
        memory = self.encoder(self.noise(source.tokens))
        vectors = memory.vectors
        if self.attention is not None:
            mask = None if memory.mask is None else memory.mask.unsqueeze(1)
            vectors = torch.cat([vectors, self.attention(vectors, vectors, mask)], dim=-1)
        chosen = vectors.gather(1, source.places.unsqueeze(2).expand(-1, -1, vectors.shape[2]))
        return self.output(self.dropout(chosen))

    def train(self, mode: bool = True) -> "Tagger":
        super().train(mode)
        if self.frozen:
            self.encoder.eval()
        return self
