"""Series into a memory: a vector for each step, or for each patch of steps.

    recurrent     x_t = W v_t + b;   memory_t = [→h_t; ←h_t]                  the summary: the last states
    transformer   x_t = W v_t + b + position_t;   blocks                      the summary: the mean
    patch         x_i = W (v_{iS} … v_{iS+P−1}) + position_i;   blocks        one target at a time

v_t are the numbers of a step: targets, other columns, calendar. Patches of P steps, S apart: Nie et al. 2022, section
3.1 (arXiv:2211.14730). The series is lengthened by S repetitions of its last value, as there, so that the last steps
are in as many patches as all others. Windows are of one length, so there is no padding and no mask; whole series are of
any length, and bring it (`Steps`).
"""

from typing import Literal, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention import Learned, Memory, Sinusoidal
from regard.encoders.text import masked_mean
from regard.layers.feed_forward import Dropout, norm
from regard.layers.recurrent import Recurrent
from regard.layers.transformer import Block, apply_blocks


@runtime_checkable
class StepEmbedding(Protocol):
    """Numbers of B series, `B S C`, padded at the end, and the number of steps of each."""

    @property
    def values(self) -> Tensor: ...
    @property
    def lengths(self) -> Tensor: ...


def steps(source: Tensor | StepEmbedding) -> tuple[Float[Tensor, "B S C"], Bool[Tensor, "B S"] | None]:
    """Return the numbers and the mask of real steps: None for windows, where all steps are real."""
    if isinstance(source, Tensor):
        return source, None
    place = torch.arange(source.values.shape[1], device=source.values.device)
    return source.values, place < source.lengths.unsqueeze(1)


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
        self.numbers = nn.Identity()  # what gradients by the input are taken of
        self.enter = nn.Linear(inputs, width)
        self.rnn = Recurrent(width, width, cell=cell, depth=depth, bidirectional=bidirectional, dropout=dropout)
        self.dropout = Dropout(dropout)

    def forward(self, source: Tensor | StepEmbedding) -> Memory:
        values, mask = steps(source)
        x = self.dropout(self.enter(self.numbers(values)))
        states, last = self.rnn(x, torch.ones_like(x[..., 0], dtype=torch.bool) if mask is None else mask)
        return Memory(self.dropout(states), mask, last)


class TransformerSeriesEncoder(nn.Module):
    def __init__(self, inputs: int, width: int, layers: list[Block], *, dropout: float = 0.0) -> None:
        super().__init__()
        self.memory_width = self.summary_width = width
        self.numbers = nn.Identity()  # what gradients by the input are taken of
        self.enter = nn.Linear(inputs, width)
        self.positions = Sinusoidal(width)
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(block.placed("encoder", number) for number, block in enumerate(layers))
        self.norm = norm(width)

    def forward(self, source: Tensor | StepEmbedding) -> Memory:
        values, mask = steps(source)
        x = self.dropout(self.positions(self.enter(self.numbers(values))))
        x = self.norm(apply_blocks(self.layers, x, mask))
        return Memory(x, mask, x.mean(1) if mask is None else masked_mean(x, mask))


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
        x = self.norm(apply_blocks(self.layers, x))
        return Memory(x, None, x.mean(1))
