"""Sound into a memory, by a pyramid: a vector for every few frames.

    h^j_i = BLSTM(h^j_{i−1}, [h^{j−1}_{2i}; h^{j−1}_{2i+1}])      each layer halves the frames

Chan et al. 2015, "Listen, Attend and Spell", section 3.1 (arXiv:1508.01211): one layer over all frames and
three that halve them, so that the decoder finds its letters among 8 times fewer vectors. Here the number of layers is
free, and `stack` frames may be put together before the first (Sak et al. 2015, section 4, arXiv:1507.06947), which
saves the dearest layer most of its steps. With `positions`, sinusoids are added to the memory: a decoder that knows
where it looked last can go on from there, which matters when the same sound comes twice in a row. (Chorowski et al.
2015, arXiv:1506.07503, let attention see its own last weights to that end.)
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.attention.sinusoidal import Sinusoidal
from regard.encoders.audio import Sounds, real_frames
from regard.layers.dropout import Dropout
from regard.layers.recurrent import Cell, Recurrent


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
