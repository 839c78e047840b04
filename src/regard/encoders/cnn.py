"""A small convolutional network, and self-attention over its positions.

    stage     x ← relu(norm(conv 4×4, stride 2)),   then  x ← x + relu(norm(conv 3×3))  depth − 1 times
    memory    the C channels at each position of the last stage;   summary: their mean

Four taps at a stride of two are centerd on the two pixels that they replace (three would move each stage's map by half
a pixel, and half of a region after three stages), so that plots of attention place regions correctly.

Channels are normalized in groups of 8 within a picture (Wu and He 2018, arXiv:1803.08494), not over a batch: what a
picture gives then depends on no other picture, however a batch is split over processes. `normalized=False` leaves that
out, so that what a region gives depends on nothing far away, either: tokens of pictures want that.

Self-attention over positions (Zhang et al. 2018, SAGAN, section 3, arXiv:1805.08318):

    o_j = W_v Σ_i softmax_i( cos(W_f x_i, W_g x_j) / τ ) W_h x_i          y = x + γ o,   γ = 0 at first

A 1×1 convolution is a linear map of the channels at each position, so the maps W_f, W_g (to C/8), W_h (to C/2) and
W_v are those of the general attention layer. With γ = 0 the network starts with local features.

Where we differ: the paper has the dot product, and holds its maps small by spectral normalization. Without that the
scores run away (probably because Adam's steps are no shorter for W_f and W_g, whose gradient is small while γ is), and
each attends to one only; dividing by √d is not enough. The cosine stays within ±1/τ, and τ is learned, from 1/4 on.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Cosine, Memory
from regard.attention.layer import Attention
from regard.attention.role import Role
from regard.errors import CallError

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
