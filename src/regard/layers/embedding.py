"""Tokens to vectors, with their positions.

    x_t = √D · E[y_t]  (+ or concatenated with)  position_t

The factor √D: Vaswani et al. 2017, section 3.4 (arXiv:1706.03762). There the table is shared with the output layer,
which needs small numbers (standard deviation D^−½), while the sum with positions needs numbers of size 1.
"""

import math
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.grid_positions import LearnedTextAndGrid
from regard.attention.learned import Learned
from regard.attention.sinusoidal import Sinusoidal
from regard.layers.dropout import Dropout
from regard.layers.packed import listened


class Embedding(nn.Module):
    """Token vectors with positions. `width_out` is `width`, or more if positions are concatenated instead of added."""

    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        positions: Sinusoidal | Learned | LearnedTextAndGrid | None = None,
        scaled: bool = True,
        dropout: float = 0.0,
        pad: int | None = 0,
    ) -> None:
        super().__init__()
        self.vocabulary, self.width, self.scaled, self.pad = vocabulary, width, scaled, pad
        self.table = nn.Embedding(vocabulary, width, padding_idx=pad)
        self.positions = positions
        self.dropout = Dropout(dropout)
        with torch.no_grad():
            nn.init.normal_(self.table.weight, std=width**-0.5)
            if pad is not None:
                self.table.weight[pad].zero_()
            beside = self.add_positions(torch.zeros(1, 1, width), 0)
        self.width_out = beside.shape[-1]

    def forward(self, tokens: Int[Tensor, "B T"], start: int | Int[Tensor, " B"] = 0) -> Float[Tensor, "B T D"]:
        """`start`: the position of the first token (for decoding step by step), for all rows, or one for each row,
        which then has one token."""
        return self.dropout(self._placed(self.table(tokens), start))

    def one(self, tokens: Int[Tensor, " N"], place: int | Int[Tensor, " N"]) -> Float[Tensor, "N E"]:
        """Embed one token a row for a decoding step; the caller may modify the result. Avoids calls of modules that do
        nothing."""
        if self.training or listened(self) or listened(self.table):  # hooks may keep the tensor, so it must not change
            return self(tokens.unsqueeze(1), place).squeeze(1).clone()
        return self._placed(F.embedding(tokens.unsqueeze(1), self.table.weight), place).squeeze(1)

    def _placed(self, x: Float[Tensor, "B T D"], start: int | Int[Tensor, " B"]) -> Float[Tensor, "B T E"]:
        return self.add_positions(x * math.sqrt(self.width) if self.scaled else x, start)

    def add_positions(self, x: Float[Tensor, "B T D"], start: int | Int[Tensor, " B"]) -> Float[Tensor, "B T E"]:
        return x if self.positions is None else cast(Tensor, self.positions(x, start))
