"""Images into a memory: a vector for each region.

Vision Transformer (Dosovitskiy et al. 2020, section 3.1, arXiv:2010.11929): an image is a text of patches.

    z_0 = [class; x_1 W; …; x_K W] + positions      z = norm(blocks(z_0))      summary = z[class], memory = the others

Hybrid (the same section): convolutions come first, and patches are made of their feature map. Ours are 4×4 of stride 2
(Xiao et al. 2021, arXiv:2106.14881, have 3×3), so that a patch of 8 pixels is 2×2 of what two of them leave.

A patch times W is a convolution whose stride is its size. Positions are learned, but begin as sinusoids of row and
column: the paper's small random numbers take epochs to be noticed beside the patches. The class token is the memory's
summary, so that the K vectors that a decoder attends to, or a picture of attention shows, are exactly the grid of
patches.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Cosine, Learned, Memory
from regard.attention.layer import Attention
from regard.attention.positions import SinusoidalGrid, sinusoids
from regard.attention.score import Role
from regard.encoders.cnn_pretrained import EfficientNetLite0
from regard.encoders.text import Bert
from regard.errors import CallError
from regard.layers.feed_forward import Dropout, norm
from regard.layers.pooling import Attended, Pooling
from regard.layers.transformer import Block, apply_blocks

# A small convolutional network, and self-attention over its positions.
#
#     stage     x ← relu(norm(conv 4×4, stride 2)),   then  x ← x + relu(norm(conv 3×3))  depth − 1 times
#     memory    the C channels at each position of the last stage;   summary: their mean
#
# Four taps at a stride of two are centerd on the two pixels that they replace (three would move each stage's map by
# half a pixel, and half of a region after three stages), so that plots of attention place regions correctly.
#
# Channels are normalized in groups of 8 within a picture (Wu and He 2018, arXiv:1803.08494), not over a batch: what a
# picture gives then depends on no other picture, however a batch is split over processes. `normalized=False` leaves
# that out, so that what a region gives depends on nothing far away, either: tokens of pictures want that.
#
# Self-attention over positions (Zhang et al. 2018, SAGAN, section 3, arXiv:1805.08318):
#
#     o_j = W_v Σ_i softmax_i( cos(W_f x_i, W_g x_j) / τ ) W_h x_i          y = x + γ o,   γ = 0 at first
#
# A 1×1 convolution is a linear map of the channels at each position, so the maps W_f, W_g (to C/8), W_h (to C/2) and
# W_v are those of the general attention layer. With γ = 0 the network starts with local features.
#
# Where we differ: the paper has the dot product, and holds its maps small by spectral normalization. Without that the
# scores run away (probably because Adam's steps are no shorter for W_f and W_g, whose gradient is small while γ is),
# and each attends to one only; dividing by √d is not enough. The cosine stays within ±1/τ, and τ is learned, from 1/4
# on.

GROUP = 8  # channels that are normalized together
TEMPERATURE = 0.25  # of attention over positions, at first


class PositionAttention(nn.Module):
    """Every position of a feature map attends to all positions."""

    def __init__(self, channels: int, layer: int = 0) -> None:
        super().__init__()
        width = max(1, channels // 8)
        self.attention = Attention(Cosine(TEMPERATURE), channels, channels, width, channels // 2)
        self.attention.role = Role("encoder", layer, followed=False)
        self.out = nn.Linear(channels // 2, channels, bias=False)
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x: Float[Tensor, "B C R S"]) -> Float[Tensor, "B C R S"]:
        positions = x.flatten(2).transpose(1, 2)
        seen = self.out(self.attention(positions.unsqueeze(1), positions.unsqueeze(1)).squeeze(1))  # one head
        return x + self.gate * seen.transpose(1, 2).view_as(x)


class Convolution(nn.Module):
    """4×4 of stride 2, or 3×3 around a shortcut; normalized (or with a bias instead), relu."""

    def __init__(self, inputs: int, channels: int, *, stride: int, normalized: bool = True) -> None:
        super().__init__()
        self.convolve = nn.Conv2d(inputs, channels, stride + 2, stride=stride, padding=1, bias=not normalized)
        self.norm = nn.GroupNorm(channels // GROUP, channels) if normalized else nn.Identity()
        self.shortcut = stride == 1
        nn.init.kaiming_normal_(self.convolve.weight, nonlinearity="relu")

    def forward(self, x: Float[Tensor, "B C R S"]) -> Float[Tensor, "B E P Q"]:
        y = torch.relu(self.norm(self.convolve(x)))
        return x + y if self.shortcut else y


class ConvNet(nn.Module):
    def __init__(
        self,
        size: tuple[int, int],
        stages: Sequence[int],
        *,
        depth: int = 1,
        attention: Sequence[int] = (),
        channels: int = 3,
        dropout: float = 0.0,
        normalized: bool = True,
    ) -> None:
        """`size`: rows × columns of the images in pixels; `attention`: the stages that end with `PositionAttention`."""
        super().__init__()
        if normalized and any(width % GROUP for width in stages):
            raise CallError(f"stages={list(stages)} must be multiples of {GROUP}")
        self.size, self.channels = size, channels
        self.grid = (size[0] >> len(stages), size[1] >> len(stages))
        last = max(attention, default=len(stages) - 1) + 1
        self.attended = (size[0] >> last, size[1] >> last)  # the grid of the last stage whose positions look around
        if 0 in self.grid:
            raise CallError(f"{len(stages)} stages halve images of {size[0]}×{size[1]} pixels too often")
        self.memory_width = self.summary_width = stages[-1]
        parts: list[nn.Module] = []
        for number, (inputs, width) in enumerate(zip([channels, *stages], stages, strict=False)):
            parts.append(Convolution(inputs, width, stride=2, normalized=normalized))
            parts += [Convolution(width, width, stride=1, normalized=normalized) for _ in range(depth - 1)]
            if number in attention:
                parts.append(PositionAttention(width, sum(isinstance(part, PositionAttention) for part in parts)))
            parts.append(nn.Dropout2d(dropout))
        self.stages = nn.Sequential(*parts)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Memory:
        x = self.stages(images).flatten(2).transpose(1, 2)
        return Memory(x, None, x.mean(1), self.grid)


class VisionTransformer(nn.Module):
    def __init__(
        self,
        size: tuple[int, int],
        patch: int,
        width: int,
        heads: int,
        layers: int,
        *,
        feed_forward: int | None = None,
        channels: int = 3,
        stem: Sequence[int] = (),
        dropout: float = 0.0,
        norm_eps: float | None = None,
    ) -> None:
        """`size`: rows × columns of the images in pixels; `feed_forward`: 4 · width if not given; `stem`: channels."""
        super().__init__()
        if size[0] % patch or size[1] % patch:
            raise CallError(f"patch={patch} must divide the images' size={size[0]}×{size[1]}")
        if patch % 2 ** len(stem):
            raise CallError(f"stem={list(stem)}: {len(stem)} convolutions halve a patch of {patch} pixels too often")
        self.size, self.channels, self.grid = size, channels, (size[0] // patch, size[1] // patch)
        self.memory_width = self.summary_width = width
        before = [Convolution(n, m, stride=2) for n, m in zip([channels, *stem], stem, strict=False)]
        left = patch // 2 ** len(stem)
        patches = nn.Conv2d(stem[-1] if stem else channels, width, kernel_size=left, stride=left)
        self.patches = nn.Sequential(*before, patches) if stem else patches
        self.summary = nn.Parameter(torch.zeros(width))
        self.positions = Learned(width, 1 + self.grid[0] * self.grid[1])
        with torch.no_grad():
            self.positions.table[1:] += 0.5 * on_grid(self.grid, width).to(self.positions.table)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            Block(
                width, heads, feed_forward or 4 * width, norm_eps=norm_eps, activation="gelu", dropout=dropout
            ).placed("encoder", number)
            for number in range(layers)
        )
        self.norm = norm(width, eps=norm_eps)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Memory:
        if tuple(images.shape[-2:]) != self.size:
            rows, columns = images.shape[-2:]
            raise CallError(f"images of {rows}×{columns} pixels do not fit a model for {self.size[0]}×{self.size[1]}")
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.summary.expand(x.shape[0], 1, -1), x], dim=1)
        x = self.dropout(self.positions(x))
        x = self.norm(apply_blocks(self.layers, x))
        return Memory(x[:, 1:], None, x[:, 0], self.grid)


def on_grid(grid: tuple[int, int], width: int) -> Float[Tensor, "K D"]:
    """Sinusoids of the row beside sinusoids of the column, for each place of a grid, row by row."""
    rows, columns = sinusoids(grid[0], width // 2), sinusoids(grid[1], width - width // 2)
    return torch.cat([rows.repeat_interleave(grid[1], 0), columns.repeat(grid[0], 1)], dim=-1)


# Preparation of pictures: from pixels to a memory.
#
#     x = (pixels/255 − mean) / deviation  →  body  →  [project]  →  [+ positions]  →  [blocks]  →  Memory with its
#     grid
#
# The body is any encoder of `cnn`, `cnn_pretrained` or `image`. A frozen body gives the same features for a picture
# every time: they can be computed once (`features`), stored, and passed instead of pixels.
#
# Positions are sinusoids of row and column (see `attention/positions.py`): a convolution does not depend on the
# position, but "left of" needs it.

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
        x = self.norm(apply_blocks(self.layers, x))
        return Memory(x, None, x.mean(1), self.grid)


def by_class_token(encoder: nn.Module, pooling: nn.Module) -> bool:
    """Whether a pooled vector is that of a class token: [CLS] of BERT, the class token of a ViT."""
    final = pooling.pooling if isinstance(pooling, Attended) else pooling
    if not isinstance(final, Pooling):
        return False
    return final.kind == "cls" or (final.kind == "summary" and _summed_up_by_it(encoder))


def _summed_up_by_it(encoder: nn.Module) -> bool:
    if isinstance(encoder, PictureEncoder):  # what is projected or told its place is summed up by its mean
        return isinstance(encoder.body, VisionTransformer) and encoder.project is None and encoder.positions is None
    return isinstance(encoder, Bert) and encoder.pooler is not None
