"""Series into a memory: a vector for each step, or for each patch of steps.

    recurrent     x_t = W v_t + b;   memory_t = [→h_t; ←h_t]                  the summary: the last states
    transformer   x_t = W v_t + b + position_t;   blocks                      the summary: the mean
    patch         x_i = W (v_{iS} … v_{iS+P−1}) + position_i;   blocks        one target at a time

v_t are the numbers of a step: targets, other columns, calendar. Patches of P steps, S apart: Nie et al. 2022, section
3.1 (arXiv:2211.14730). The series is lengthened by S repetitions of its last value, as there, so that the last steps
are in as many patches as all others. Windows are of one length, so there is no padding and no mask.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Learned, Memory, Sinusoidal
from regard.layers.dropout import Dropout
from regard.layers.norm import norm
from regard.layers.transformer import Block


class RecurrentSeriesEncoder(nn.Module):
    def __init__(
        self,
        inputs: int,
        width: int,
        *,
        cell: Literal["gru", "lstm"] = "gru",
        depth: int = 1,
        bidirectional: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.memory_width = self.summary_width = width
        kind = nn.GRU if cell == "gru" else nn.LSTM
        self.enter = nn.Linear(inputs, width)
        self.rnn = kind(
            width, width // 2 if bidirectional else width, depth, batch_first=True, bidirectional=bidirectional,
            dropout=dropout if depth > 1 else 0.0,
        )  # fmt: skip
        self.dropout = Dropout(dropout)

    def forward(self, past: Float[Tensor, "B S C"]) -> Memory:
        states, last = self.rnn(self.dropout(self.enter(past)))
        hidden = last[0] if isinstance(last, tuple) else last
        top = hidden[-2:] if self.rnn.bidirectional else hidden[-1:]
        return Memory(self.dropout(states), None, torch.cat(list(top), dim=1))


class TransformerSeriesEncoder(nn.Module):
    def __init__(self, inputs: int, width: int, layers: list[Block], *, dropout: float = 0.0) -> None:
        super().__init__()
        self.memory_width = self.summary_width = width
        self.enter = nn.Linear(inputs, width)
        self.positions = Sinusoidal(width)
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(block.placed("encoder", number) for number, block in enumerate(layers))
        self.norm = norm(width)

    def forward(self, past: Float[Tensor, "B S C"]) -> Memory:
        x = self.dropout(self.positions(self.enter(past)))
        for block in self.layers:
            x = block(x)
        x = self.norm(x)
        return Memory(x, None, x.mean(1))


class PatchEncoder(nn.Module):
    def __init__(
        self, look_back: int, patch: int, stride: int, width: int, layers: list[Block], *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.patch, self.stride = patch, stride
        self.patches = (look_back - patch) // stride + 2
        self.memory_width = self.summary_width = width
        self.enter = nn.Linear(patch, width)
        self.positions = Learned(width, self.patches)
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(block.placed("encoder", number) for number, block in enumerate(layers))
        self.norm = norm(width)

    def forward(self, past: Float[Tensor, "N S"]) -> Memory:
        longer = F.pad(past.unsqueeze(1), (0, self.stride), mode="replicate").squeeze(1)
        x = self.dropout(self.positions(self.enter(longer.unfold(1, self.patch, self.stride))))
        for block in self.layers:
            x = block(x)
        x = self.norm(x)
        return Memory(x, None, x.mean(1))
