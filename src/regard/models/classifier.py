"""A classifier: an encoder, pooling of its vectors into one, and a linear layer with a score for each class.

    one label        p(c | x) = softmax(W pool(encoder(x)) + b)_c          L = −w_y log p(y | x)
    several labels   p(c | x) = σ(W pool(encoder(x)) + b)_c                L = −Σ_c w_c y_c log p_c + (1−y_c) log(1−p_c)

The encoder is recurrent, a Transformer, a pretrained one, one of pictures, sound or series: whatever makes a `Memory`.
The recurrent one with attention is that of the lectures (embedding, LSTM, attention over its states, pooling, sigmoid).

The loss, with weights of classes w and smoothed labels: `layers/loss.py`.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.layer import Attention
from regard.attention.score import Role
from regard.layers.feed_forward import Dropout
from regard.layers.loss import OutputLoss, class_loss, share_loss

# What is each word? An encoder reads, and a linear layer weighs the tags of every word, each by its own vector.
#
#     p(c_t | x) = softmax(W h_t + b)_c          with attention over the vectors, h_t ← [h_t; Σ_i α_ti h_i]
#
# Many-to-many with order correspondence: output t belongs to input t, so nothing has to be aligned and no output
# waits for another. A bidirectional recurrent encoder is Huang et al. 2015, section 2.2 (arXiv:1508.01991), without
# their CRF; a Transformer is Devlin et al. 2018, section 5.3 (arXiv:1810.04805): of a word in pieces, the first piece
# is tagged.


@dataclass(frozen=True)
class WordBatch:
    """Tokens of texts, and where the words of each begin; rows with fewer words are filled with 0."""

    tokens: Int[Tensor, "B S"]
    places: Int[Tensor, "B W"]

    def to(self, device: torch.device | str) -> "WordBatch":
        return WordBatch(self.tokens.to(device, non_blocking=True), self.places.to(device, non_blocking=True))


@runtime_checkable
class TaggedWords(Protocol):
    """What a tagger is trained on; a word whose tag is −1 counts nothing."""

    @property
    def source(self) -> WordBatch: ...
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

    def forward(self, batch: TaggedWords) -> OutputLoss:
        logits = self.logits(batch.source)
        target = batch.target.expand(logits.shape[:2]).flatten()  # of a process without a share, it is one unknown tag
        logits = logits.flatten(0, 1)
        if not self.training:
            return class_loss(logits, target)
        return class_loss(logits, target, weights=self.class_weights, smoothing=self.label_smoothing)

    def logits(self, source: WordBatch) -> Float[Tensor, "B W N"]:
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


# Inputs mixed in pairs, and their labels with them.
#
#     x ← λ x + (1 − λ) x'      y ← λ y + (1 − λ) y'      λ ~ Beta(α, α)
#
# Zhang et al. 2017, section 2 (arXiv:1710.09412). As in their code, x' is another input of the batch; where we
# differ, each input has a λ of its own, and λ ≥ ½, so that it stays the larger part of its row.


def mix_up(source: Tensor, labels: Tensor, classes: int, alpha: float) -> tuple[Tensor, Float[Tensor, "B N"]]:
    """`labels`: a class a row, or a row of zeros and ones; what has no known label (−1) is mixed with nothing."""
    shares = F.one_hot(labels.clamp(min=0), classes).float() if labels.ndim == 1 else labels
    known = labels >= 0 if labels.ndim == 1 else (labels >= 0).all(1)
    partner = torch.randperm(len(labels), device=labels.device)
    part = torch.distributions.Beta(alpha, alpha).sample((len(labels),)).to(labels.device)
    part = torch.maximum(part, 1 - part).masked_fill(~(known & known[partner]), 1.0)
    source = source.float()
    both = torch.lerp(source[partner], source, part.view(-1, *[1] * (source.ndim - 1)))
    shares = torch.lerp(shares[partner], shares, part[:, None])
    return both, shares.masked_fill(~known[:, None], -1.0)


@runtime_checkable
class LabeledBatch(Protocol):
    """A training batch of a classifier. See `class_loss` for the target."""

    @property
    def source(self) -> Any: ...
    @property
    def target(self) -> Tensor: ...


class Classifier(nn.Module):
    class_weights: Tensor | None

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
        noise: nn.Module | None = None,
        frozen: bool = False,
        layer_decay: float = 1.0,
        mixup: float = 0.0,
    ) -> None:
        """
        encoder      makes a `Memory` of the inputs
        pooling      makes one vector, of `width`, of the memory
        dropout      of that vector
        noise        applied to the inputs first; it must itself be off outside training
        frozen       the encoder is not trained, and runs without dropout
        layer_decay  how much slower each layer of the encoder learns than the one above it; see `rates`
        mixup        α, by which training mixes inputs and labels of a batch: see `mixup.py`; 0: not at all
        """
        super().__init__()
        self.noise = noise or nn.Identity()
        self.encoder, self.pooling = encoder, pooling
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, classes)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)
        self.label_smoothing, self.mixup = label_smoothing, mixup
        self.frozen, self.layer_decay = frozen, layer_decay
        if frozen:
            encoder.requires_grad_(False)
        self.register_buffer("class_weights", class_weights, persistent=False)  # of the training data, for training

    def forward(self, batch: LabeledBatch) -> OutputLoss:
        source, target, loss = batch.source, batch.target, class_loss
        if not self.training:
            return class_loss(self.logits(source), target)
        if self.mixup:
            loss = share_loss if target.ndim == 1 else class_loss
            source, target = mix_up(source, target, self.output.out_features, self.mixup)
        return loss(self.logits(source), target, weights=self.class_weights, smoothing=self.label_smoothing)

    def logits(self, inputs: Any) -> Float[Tensor, "B N"]:
        return self.output(self.dropout(self.pooling(self.encoder(self.noise(inputs)))))

    def train(self, mode: bool = True) -> "Classifier":
        super().train(mode)
        if self.frozen:
            self.encoder.eval()
        return self

    def rates(self) -> dict[Tensor, float]:
        """Return rates relative to the head's: γ for the encoder's top layer, γ² for the next, …, least for its
        embeddings. Howard and Ruder 2018, section 3.2, "discriminative fine-tuning" (arXiv:1801.06146)."""
        rates: dict[Tensor, float] = dict.fromkeys(self.parameters(), 1.0)
        layers = [module for module in self.encoder.children() if isinstance(module, nn.ModuleList)]
        depth = max((len(stack) for stack in layers), default=0)
        for parameter in self.encoder.parameters():
            rates[parameter] = self.layer_decay ** (depth + 1)
        for stack in layers:
            for number, layer in enumerate(stack):
                for parameter in layer.parameters():
                    rates[parameter] = self.layer_decay ** (depth - number)
        return rates
