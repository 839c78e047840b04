"""Decoders of series: every step ahead attends to a memory of the past.

    recurrent     d_t = W [known_t] + position_t;   s_t = g(d_t, s_{t−1}), c_t as in `recurrent`;   f_t, its features
    transformer   the same d_t, all at once:  blocks of self-attention, cross-attention to the memory, feed-forward

What is known ahead of a step (calendar, planned prices) and where it stands is all that a decoder is told: it does not
read its own output, so all steps are said at once and no error is fed back (the direct way; for the Transformer as in
Zhou et al. 2020, section 3.3, arXiv:2012.07436).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Memory, Sinusoidal
from regard.decoders.recurrent import RecurrentReader
from regard.layers.dropout import Dropout
from regard.layers.norm import norm
from regard.layers.transformer import Block


class SeriesDecoder(nn.Module):
    """Says all steps ahead at once: features `B T D` from a memory and what is known of each step."""

    def __init__(self, known: int, width: int, start: int, *, dropout: float = 0.0) -> None:
        """`start`: where the first step stands, counted from the first that the encoder read."""
        super().__init__()
        self.start = start
        self.enter = nn.Linear(known, width) if known else None
        self.first = nn.Parameter(torch.zeros(width))
        self.positions = Sinusoidal(width)
        self.dropout = Dropout(dropout)

    def steps(self, known: Float[Tensor, "B T F"]) -> Float[Tensor, "B T D"]:
        x = self.first.expand(*known.shape[:2], -1)
        if self.enter is not None:
            x = x + self.enter(known)
        return self.dropout(self.positions(x, self.start))


class RecurrentSeriesDecoder(SeriesDecoder):
    def __init__(self, known: int, width: int, start: int, reader: RecurrentReader, *, dropout: float = 0.0) -> None:
        super().__init__(known, width, start, dropout=dropout)
        self.reader = reader
        self.feature_width = reader.feature_width

    def forward(self, known: Float[Tensor, "B T F"], memory: Memory) -> Float[Tensor, "B T D"]:
        return self.reader.read(self.steps(known), memory)


class TransformerSeriesDecoder(SeriesDecoder):
    def __init__(self, known: int, width: int, start: int, layers: list[Block], *, dropout: float = 0.0) -> None:
        super().__init__(known, width, start, dropout=dropout)
        self.layers = nn.ModuleList(block.placed("decoder", number) for number, block in enumerate(layers))
        self.norm = norm(width)
        self.feature_width = width

    def forward(self, known: Float[Tensor, "B T F"], memory: Memory) -> Float[Tensor, "B T D"]:
        x = self.steps(known)
        for block in self.layers:
            x = block(x, memory=memory)
        return self.norm(x)
