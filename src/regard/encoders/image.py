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

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Learned, Memory
from regard.attention.sinusoidal import sinusoids
from regard.encoders.cnn import Convolution
from regard.errors import CallError
from regard.layers.norm import norm
from regard.layers.stack import through
from regard.layers.transformer import Block


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
        x = self.norm(through(self.layers, x))
        return Memory(x[:, 1:], None, x[:, 0], self.grid)


def on_grid(grid: tuple[int, int], width: int) -> Float[Tensor, "K D"]:
    """Sinusoids of the row beside sinusoids of the column, for each place of a grid, row by row."""
    rows, columns = sinusoids(grid[0], width // 2), sinusoids(grid[1], width - width // 2)
    return torch.cat([rows.repeat_interleave(grid[1], 0), columns.repeat(grid[0], 1)], dim=-1)
