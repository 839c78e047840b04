"""The parts of a recurrent decoder: layers, sizes, and the first state.

    s_0 = tanh(W summary)

See `recurrent` for the equations.
"""

from typing import Literal

import torch
from torch import nn

from regard.attention.memory import Memory
from regard.attention.role import Recurrence, Role
from regard.attention.score import Score
from regard.decoders.recurrent_context import Gate
from regard.decoders.recurrent_state import RecurrentState
from regard.errors import CallError
from regard.layers.dropout import Dropout

Context = Literal["initial", "constant", "previous", "current"]


class RecurrentParts(nn.Module):
    def __init__(
        self,
        inputs: int,
        features: int,
        width: int,
        *,
        memory_width: int,
        summary_width: int,
        context: Context = "previous",
        score: Score | None = None,
        input_feeding: bool = False,
        gated: bool = False,
        cell: Literal["gru", "lstm"] = "gru",
        depth: int = 1,
        dropout: float = 0.0,
    ) -> None:
        """`inputs`, `features`: widths of x_t and f_t. `score` compares states (`width`) with the memory's vectors
        (`memory_width`); only attention has one, and only attention can be `gated`."""
        super().__init__()
        attends = context in ("previous", "current")
        if attends != (score is not None):
            raise CallError(f"context={context!r} {'needs a score' if attends else 'has no use for a score'}")
        if input_feeding and context != "current":
            raise CallError(f"input_feeding belongs to context='current', not to context={context!r}")
        if gated and not attends:
            raise CallError(f"there is nothing to gate: context={context!r} does not attend")
        self.context, self.attention = context, score
        self.gate = Gate(width, 1) if gated else None
        if score is not None:
            score.role = Role("cross")
        self.width, self.depth, self.feature_width, self.input_feeding = width, depth, features, input_feeding
        self.dropout = Dropout(dropout)
        context_width = {"initial": 0, "constant": summary_width}.get(context, memory_width)
        fed_width = self.feature_width if input_feeding else context_width if context != "current" else 0
        kind = nn.GRU if cell == "gru" else nn.LSTM
        rnn = kind(inputs + fed_width, width, depth, batch_first=True, dropout=dropout if depth > 1 else 0.0)
        self.rnn = Recurrence("decoder").of(rnn)
        self.begin = nn.Linear(summary_width, depth * width * (1 if cell == "gru" else 2))
        self.readout = nn.Linear(width + context_width + inputs, self.feature_width)

    def start(self, memory: Memory, copies: int = 1, *, watch: bool = False) -> RecurrentState:
        if watch and self.attention is None:
            raise CallError(f"there is nothing to watch: context={self.context!r} does not attend")
        first = torch.tanh(self.begin(memory.summary)).repeat_interleave(copies, 0)
        # Rows × (layers · width), once for h and once for an LSTM's c, into layers × rows × width each.
        hidden, *cell = first.view(first.shape[0], -1, self.depth, self.width).permute(1, 2, 0, 3).contiguous()
        attends = self.attention is not None
        return RecurrentState(
            hidden=hidden,
            cell=cell[0] if cell else None,
            fed=first.new_zeros(first.shape[0], self.feature_width) if self.input_feeding else None,
            key=self.attention.prepare(memory.vectors) if self.attention is not None else None,
            value=memory.vectors if attends else None,
            mask=memory.mask.unsqueeze(1) if attends and memory.mask is not None else None,
            summary=memory.summary if self.context == "constant" else None,
            copies=copies,
            watch=watch,
        )
