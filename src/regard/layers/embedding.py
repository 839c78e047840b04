"""Tokens to vectors, with their positions.

    x_t = √D · E[y_t]  (+ or concatenated with)  position_t

The factor √D: Vaswani et al. 2017, section 3.4 (arXiv:1706.03762). There the table is shared with the output layer,
which needs small numbers (standard deviation D^−½), while the sum with positions needs numbers of size 1.
"""

import math
from typing import Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.positions import Learned, LearnedTextAndGrid, Sinusoidal
from regard.errors import CallError
from regard.layers.feed_forward import Dropout
from regard.layers.packed import has_active_hooks


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
        return self.dropout(self._add_positions(self.table(tokens), start))

    def one(self, tokens: Int[Tensor, " N"], place: int | Int[Tensor, " N"]) -> Float[Tensor, "N E"]:
        """Embed one token a row for a decoding step; the caller may modify the result. Avoids calls of modules that do
        nothing."""
        if (
            self.training or has_active_hooks(self) or has_active_hooks(self.table)
        ):  # hooks may keep the tensor, so it must not change
            return self(tokens.unsqueeze(1), place).squeeze(1).clone()
        return self._add_positions(F.embedding(tokens.unsqueeze(1), self.table.weight), place).squeeze(1)

    def _add_positions(self, x: Float[Tensor, "B T D"], start: int | Int[Tensor, " B"]) -> Float[Tensor, "B T E"]:
        return self.add_positions(x * math.sqrt(self.width) if self.scaled else x, start)

    def add_positions(self, x: Float[Tensor, "B T D"], start: int | Int[Tensor, " B"]) -> Float[Tensor, "B T E"]:
        return x if self.positions is None else cast(Tensor, self.positions(x, start))


# Weight tying: one table for output layer and embeddings.
#
# "output": the output layer's matrix is the decoder's embedding table (Press and Wolf 2016, arXiv:1608.05859); "all":
# and the encoder's table, too, which takes one vocabulary for both sides.

Tie = Literal["none", "output", "all"]


def tie_tables(output: nn.Linear, encoder: nn.Module, embedding: Embedding, tie: Tie) -> None:
    """`embedding`: the decoder's."""
    if tie != "none":
        width = output.in_features
        if embedding.width != width:
            raise CallError(f"tie={tie!r} needs features of the embedding's width: {width} is not {embedding.width}")
        output.weight = embedding.table.weight
    if tie == "all":
        source = encoder.embedding
        if not isinstance(source, Embedding):
            raise CallError("tie='all' needs an encoder that embeds tokens")
        if source.table.weight.shape != embedding.table.weight.shape:
            raise CallError(
                f"tie='all' needs one table for both sides: the encoder's is {tuple(source.table.weight.shape)}, "
                f"the decoder's {tuple(embedding.table.weight.shape)}"
            )
        source.table.weight = embedding.table.weight
