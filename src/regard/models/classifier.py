"""A classifier: an encoder, pooling of its vectors into one, and a linear layer with a score for each class.

    one label        p(c | x) = softmax(W pool(encoder(x)) + b)_c          L = −w_y log p(y | x)
    several labels   p(c | x) = σ(W pool(encoder(x)) + b)_c                L = −Σ_c w_c y_c log p_c + (1−y_c) log(1−p_c)

The encoder is recurrent, a Transformer, a pretrained one, one of pictures, sound or series: whatever makes a `Memory`.
The recurrent one with attention is that of the lectures (embedding, LSTM, attention over its states, pooling, sigmoid).

The loss, with weights of classes w and smoothed labels: `layers/class_loss.py`.
"""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.class_loss import class_loss, share_loss
from regard.layers.dropout import Dropout
from regard.layers.loss import Loss
from regard.models.mixup import mixed


@runtime_checkable
class Labeled(Protocol):
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
