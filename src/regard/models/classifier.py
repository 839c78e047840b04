"""What is it? An encoder reads, its vectors are pooled into one, and a linear layer weighs the classes.

    one label        p(c | x) = softmax(W pool(encoder(x)) + b)_c          L = −w_y log p(y | x)
    several labels   p(c | x) = σ(W pool(encoder(x)) + b)_c                L = −Σ_c w_c y_c log p_c + (1−y_c) log(1−p_c)

The encoder is recurrent, a Transformer, a pretrained one, one of pictures, sound or series: whatever makes a `Memory`.
The recurrent one with attention is that of the lectures (embedding, LSTM, attention over its states, pooling, sigmoid).

Weights of classes w are relative: they leave the count of the loss as it is, so their mean over the data should be
one. Label smoothing ε: Szegedy et al. 2015, section 7 (arXiv:1512.00567); for several labels y ← y (1−ε) + ε/2.
"""

from typing import Any, Protocol, runtime_checkable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.dropout import Dropout
from regard.layers.loss import Loss
from regard.models.mixup import mixed


@runtime_checkable
class Labeled(Protocol):
    """What a classifier is trained on: any batch with these two. See `class_loss` for the target."""

    @property
    def source(self) -> Any: ...
    @property
    def target(self) -> Tensor: ...


def class_loss(
    logits: Float[Tensor, "B N"], labels: Tensor, *, weights: Float[Tensor, " N"] | None = None, smoothing: float = 0.0
) -> Loss:
    """`labels`: a class a row (B), or zeros and ones (B N). Rows of −1 are left out: they have no known label."""
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
    """−Σ_c y_c log p_c, where an input is of several classes in parts y that sum to one; rows of −1 are left out."""
    known = (shares >= 0).all(1)
    total = F.cross_entropy(
        logits[known].float(), shares[known], weight=weights, reduction="sum", label_smoothing=smoothing
    )
    right = (logits.argmax(-1) == shares.argmax(-1)) & known
    return Loss(total, known.sum(), right.sum())  # pyright: ignore[reportArgumentType]


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
        noise        what is done to the inputs first, in training only: it has to know its own mode
        frozen       the encoder stays as it is, and is read without dropout
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

    def forward(self, batch: Labeled) -> Loss:
        source, target, loss = batch.source, batch.target, class_loss
        if not self.training:
            return class_loss(self.logits(source), target)
        if self.mixup:
            loss = share_loss if target.ndim == 1 else class_loss
            source, target = mixed(source, target, self.output.out_features, self.mixup)
        return loss(self.logits(source), target, weights=self.class_weights, smoothing=self.label_smoothing)

    def logits(self, inputs: Any) -> Float[Tensor, "B N"]:
        return self.output(self.dropout(self.pooling(self.encoder(self.noise(inputs)))))

    def train(self, mode: bool = True) -> "Classifier":
        super().train(mode)
        if self.frozen:
            self.encoder.eval()
        return self

    def rates(self) -> dict[Tensor, float]:
        """Learning rates relative to the head's: γ for the encoder's top layer, γ² for the next, …, the least for its
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
