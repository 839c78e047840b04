"""Preparation of pictures: from pixels to a memory.

    x = (pixels/255 − mean) / deviation  →  body  →  [project]  →  [+ positions]  →  [blocks]  →  Memory with its grid

The body is any encoder of `cnn`, `cnn_pretrained` or `image`. A frozen body gives the same features for a picture every
time: they can be computed once (`features`), stored, and passed instead of pixels.

Positions are sinusoids of row and column (see `attention/grid_positions.py`): a convolution does not depend on
the position, but "left of" needs it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Memory
from regard.attention.grid_positions import SinusoidalGrid
from regard.encoders.cnn import ConvNet
from regard.encoders.cnn_pretrained import EfficientNetLite0
from regard.encoders.image import VisionTransformer
from regard.layers.dropout import Dropout
from regard.layers.norm import norm
from regard.layers.stack import through
from regard.layers.transformer import Block

Body = ConvNet | VisionTransformer | EfficientNetLite0


class Colors(NamedTuple):
    """Mean and standard deviation of each channel, of pixels between 0 and 1."""

    mean: Sequence[float]
    deviation: Sequence[float]


class PictureEncoder(nn.Module):
    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        body: Body,
        *,
        colors: Colors,
        frozen: bool = False,
        width: int | None = None,
        positions: bool = False,
        layers: Sequence[Block] = (),
        dropout: float = 0.0,
    ) -> None:
        """
        colors           what pixels are normalized by; saved with the weights
        width             to project the regions to; None leaves them and the body's summary as they are
        layers            blocks of self-attention over the projected regions
        """
        super().__init__()
        self.body, self.frozen = body, frozen
        self.pixels = nn.Identity()  # what gradients by the input are taken of
        self.size, self.channels, self.grid = body.size, body.channels, body.grid
        self.memory_width = self.summary_width = width or body.memory_width
        for name, values in (("mean", colors.mean), ("deviation", colors.deviation)):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float32).view(-1, 1, 1))
        self.project = None if width is None else nn.Sequential(nn.Linear(body.memory_width, width), norm(width))
        self.positions = SinusoidalGrid(self.memory_width) if positions else None
        self.dropout = Dropout(dropout)
        above = len(body.layers) if isinstance(body, VisionTransformer) else 0
        self.layers = nn.ModuleList(block.placed("encoder", above + number) for number, block in enumerate(layers))
        self.norm = norm(self.memory_width) if layers else nn.Identity()
        if frozen:
            body.requires_grad_(False)

    def train(self, mode: bool = True) -> "PictureEncoder":
        super().train(mode)
        if self.frozen:
            self.body.eval()
        return self

    def features(self, pixels: Tensor) -> Memory:
        """Return the body's features of pixels between 0 and 255, `B C H W`, of any type."""
        x = self.pixels((pixels.to(self.mean.dtype) / 255 - self.mean) / self.deviation)
        if not self.frozen or x.requires_grad:  # gradients by the pixels are requested
            return self.body(x)
        with torch.no_grad():
            return self.body(x)

    def forward(self, source: Tensor) -> Memory:
        """Encode pixels, `B C H W`, or features of a frozen body, `B K D`."""
        if source.ndim == 4:
            memory = self.features(source)
        else:
            vectors = source.to(self.mean.dtype)
            memory = Memory(vectors, None, vectors.mean(1), self.grid)
        if self.project is None and self.positions is None:
            return memory
        x: Float[Tensor, "B K D"] = memory.vectors if self.project is None else self.project(memory.vectors)
        x = self.dropout(x if self.positions is None else self.positions(x, self.grid))
        x = self.norm(through(self.layers, x))
        return Memory(x, None, x.mean(1), self.grid)
