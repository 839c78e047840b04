"""What makes one vector of an input: an encoder, and a pooling over its memory. Classifiers and towers stand on it."""

from typing import Literal

from torch import Tensor, nn

from regard.encoders.bert import Bert
from regard.encoders.image import VisionTransformer
from regard.encoders.image_input import PictureEncoder
from regard.layers.pooling import Attended, AttentionPooling, Pooling

Reading = Literal["attention", "first", "mean"]


class Pooled(nn.Module):
    def __init__(
        self, encoder: nn.Module, pooling: nn.Module, *, noise: nn.Module | None = None, frozen: bool = False
    ) -> None:
        """
        encoder    makes a `Memory` of the inputs
        pooling    makes one vector of the memory
        noise      what is done to the inputs first, in training only: it has to know its own mode
        frozen     the encoder stays as it is, and is read without dropout
        """
        super().__init__()
        self.noise = noise or nn.Identity()
        self.encoder, self.pooling = encoder, pooling
        self.frozen = frozen
        if frozen:
            encoder.requires_grad_(False)

    def pooled(self, inputs: Tensor) -> Tensor:
        return self.pooling(self.encoder(self.noise(inputs)))

    @property
    def reading(self) -> Reading:
        """How the vector comes about: by attention, from the first vector ([CLS]), or from all of them alike."""
        final = self.pooling.pooling if isinstance(self.pooling, Attended) else self.pooling
        if isinstance(final, AttentionPooling):
            return "attention"
        assert isinstance(final, Pooling)
        by_summary = final.kind in ("last", "summary") and _sums_up_first(self.encoder)
        return "first" if final.kind == "cls" or by_summary else "mean"

    def train(self, mode: bool = True) -> "Pooled":
        super().train(mode)
        if self.frozen:
            self.encoder.eval()
        return self


def _sums_up_first(encoder: nn.Module) -> bool:
    """Whether the summary of an encoder's memory is made of its first vector."""
    if isinstance(encoder, PictureEncoder):
        plain = encoder.project is None and encoder.positions is None
        return plain and isinstance(encoder.body, VisionTransformer)
    return isinstance(encoder, VisionTransformer) or (isinstance(encoder, Bert) and encoder.pooler is not None)
