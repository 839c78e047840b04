"""Recordings as their encoders take them, in batches: features, how many frames are real, how many vectors are left.

The encoders: `audio_pyramid` and `audio_convolution`.
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.attention.positions import Learned, Sinusoidal
from regard.encoders.text import masked_mean
from regard.layers.feed_forward import Dropout, NormKind, norm
from regard.layers.recurrent import Cell, Recurrent
from regard.layers.transformer import Block, apply_blocks


@runtime_checkable
class Sounds(Protocol):
    """Features of B recordings, `B S F`, padded at the end, and the number of frames of each."""

    @property
    def values(self) -> Tensor: ...
    @property
    def lengths(self) -> Tensor: ...


def real_frames(source: Sounds) -> Bool[Tensor, "B S"]:
    """Which frames are sound, not padding."""
    place = torch.arange(source.values.shape[1], device=source.values.device)
    return place < source.lengths.unsqueeze(1)


def memory_lengths(memory: Memory) -> Int[Tensor, " B"]:
    """How many vectors of each row are real."""
    if memory.mask is None:
        return torch.full((len(memory.vectors),), memory.vectors.shape[1], device=memory.vectors.device)
    return memory.mask.sum(1)


# Sound into a memory, by convolutions and self-attention: a vector for every four frames.
#
#     two convolutions of stride 2 in time and frequency, then N Transformer blocks
#
# Dong et al. 2018, "Speech-Transformer", ICASSP; as in ESPnet.


class ConvolutionEncoder(nn.Module):
    """Convolutions make four frames one; blocks of self-attention follow. The summary is the mean of the memory."""

    def __init__(
        self,
        bands: int,
        channels: int,
        layers: list[Block],
        *,
        positions: Sinusoidal | Learned | None = None,
        dropout: float = 0.0,
        final_norm: NormKind | None = "layer",
    ) -> None:
        """`final_norm`: blocks with norms first leave their sum without one, so it follows the last of them."""
        super().__init__()
        width = layers[0].width
        self.reduction = 4
        self.frames = nn.Identity()  # what gradients by the input are taken of
        self.memory_width = self.summary_width = width
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, channels, kernel_size=3, stride=2, padding=1) for before in (1, channels)
        )
        self.enter = nn.Linear(channels * -(-bands // 4), width)
        self.positions = nn.Identity() if positions is None else positions
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(block.placed("encoder", number) for number, block in enumerate(layers))
        self.norm = nn.Identity() if final_norm is None else norm(width, final_norm)

    def forward(self, source: Sounds) -> Memory:
        mask = real_frames(source)
        x = self.frames(source.values).unsqueeze(1)  # B 1 S F
        for convolution in self.convolutions:
            # Padding has to be zeros for each convolution, as it is beyond the end of the longest recording.
            x = convolution(x * mask[:, None, :, None]).relu()
            mask = mask[:, ::2]
        x = self.enter(x.transpose(1, 2).flatten(2))
        x = self.dropout(self.positions(x))
        x = self.norm(apply_blocks(self.layers, x, mask))
        return Memory(x, mask, masked_mean(x, mask))


# Sound into a memory, by a pyramid: a vector for every few frames.
#
#     h^j_i = BLSTM(h^j_{i−1}, [h^{j−1}_{2i}; h^{j−1}_{2i+1}])      each layer halves the frames
#
# Chan et al. 2015, "Listen, Attend and Spell", section 3.1 (arXiv:1508.01211): one layer over all frames and three
# that halve them, so that the decoder finds its letters among 8 times fewer vectors. Here the number of layers is
# free, and `stack` frames may be put together before the first (Sak et al. 2015, section 4, arXiv:1507.06947), which
# saves the dearest layer most of its steps. With `positions`, sinusoids are added to the memory: a decoder that knows
# where it looked last can go on from there, which matters when the same sound comes twice in a row. (Chorowski et al.
# 2015, arXiv:1506.07503, let attention see its own last weights to that end.)


class PyramidEncoder(nn.Module):
    """Recurrent layers in both directions. The summary is the last state of each direction of the top layer."""

    def __init__(
        self,
        bands: int,
        width: int,
        *,
        cell: Cell = "lstm",
        depth: int = 1,
        pyramid: int = 3,
        stack: int = 1,
        positions: bool = False,
        dropout: float = 0.0,
    ) -> None:
        """`depth` layers over all frames (or all groups of `stack` frames), then `pyramid` layers that halve them."""
        super().__init__()
        self.stack, self.reduction = stack, stack * 2**pyramid
        self.frames = nn.Identity()  # what gradients by the input are taken of
        self.memory_width = self.summary_width = width
        self.bottom = Recurrent(bands * stack, width, cell=cell, depth=depth, dropout=dropout)
        self.pyramid = nn.ModuleList(Recurrent(2 * width, width, cell=cell) for _ in range(pyramid))
        self.positions = Sinusoidal(width) if positions else nn.Identity()
        self.dropout = Dropout(dropout)

    def forward(self, source: Sounds) -> Memory:
        x, mask = together(self.frames(source.values), real_frames(source), self.stack)
        x, last = self.bottom(x, mask)
        for layer in self.pyramid:
            x, mask = together(self.dropout(x), mask, 2)
            x, last = layer(x, mask)
        return Memory(self.positions(x), mask, last)


def together(
    x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"], count: int
) -> tuple[Float[Tensor, "B M E"], Bool[Tensor, "B M"]]:
    """`count` neighbors as one vector, zeros for those that are missing at the end."""
    if count == 1:
        return x, mask
    x = x.masked_fill(~mask.unsqueeze(2), 0.0)
    rest = -x.shape[1] % count
    x = torch.nn.functional.pad(x, (0, 0, 0, rest)).unflatten(1, (-1, count)).flatten(2)
    return x, mask[:, ::count]
