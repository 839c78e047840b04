"""A recurrent decoder, and four ways in which the memory reaches it.

    x_t = E[y_{t−1}]          s_0 = tanh(W summary)          f_t = tanh(W_f [s_t; c_t; x_t])    (f_t: the features)

    initial    s_t = g(x_t, s_{t−1})                                           no c_t: s_0 is all it is told
    constant   s_t = g([x_t; c], s_{t−1}),     c = summary                     the same vector at every step
    previous   s_t = g([x_t; c_t], s_{t−1}),   c_t = attend(s_{t−1}, memory)   the query is the state before the step
    current    s_t = g(x_t, s_{t−1}),          c_t = attend(s_t, memory)       the query is the state after it
               s_t = g([x_t; f_{t−1}], s_{t−1})                                with input feeding
    gated      c_t ← σ(w·query + b) c_t                                        a decoder that can look away

initial: Sutskever et al. 2014 (arXiv:1409.3215). constant: Cho et al. 2014, section 2.2 (arXiv:1406.1078). previous:
Bahdanau et al. 2014, section 3.1 and appendix A.2 (arXiv:1409.0473). current, input feeding: Luong et al. 2015,
sections 3.1 and 3.3 (arXiv:1508.04025). gated: Xu et al. 2015, section 4.2.1 (arXiv:1502.03044). Any score of
`regard.attention` serves; the query comes from the top layer.

Where we differ: every way has the same first state and the same readout f_t (Bahdanau's output layer, with tanh for
maxout), so that what is compared is the context and nothing else. The features are as wide as the embedding, so that
the output layer may share its table.
"""

from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.head_mask import masked_heads
from regard.attention.memory import Memory
from regard.attention.role import Role
from regard.attention.score import Score
from regard.attention.trace import tracing
from regard.decoders.decoder import Decoder, share
from regard.errors import CallError
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding

Context = Literal["initial", "constant", "previous", "current"]


@dataclass(frozen=True)
class RecurrentState:
    """N = B · copies rows, and what they share of the memory."""

    hidden: Float[Tensor, "L N D"]
    cell: Float[Tensor, "L N D"] | None  # LSTM
    fed: Float[Tensor, "N E"] | None  # f_{t−1}, with input feeding
    key: Float[Tensor, "B K Dk"] | None  # prepared for the score
    value: Float[Tensor, "B K Dv"] | None
    mask: Bool[Tensor, "B 1 K"] | None
    summary: Float[Tensor, "B S"] | None  # the context of `constant`
    copies: int
    watch: bool
    weights: Float[Tensor, "N K"] | None = None  # where the last step looked, if `watch`

    @property
    def rows(self) -> int:
        return self.hidden.shape[1]

    @property
    def device(self) -> torch.device:
        return self.hidden.device

    def select(self, rows: Int[Tensor, " M"]) -> "RecurrentState":
        memory_rows, copies = share(rows, self.rows // self.copies, self.copies)

        def of_memory(x: Tensor | None) -> Tensor | None:
            return x if x is None or memory_rows is None else x[memory_rows]

        return RecurrentState(
            hidden=self.hidden[:, rows],
            cell=None if self.cell is None else self.cell[:, rows],
            fed=None if self.fed is None else self.fed[rows],
            key=of_memory(self.key),
            value=of_memory(self.value),
            mask=of_memory(self.mask),
            summary=of_memory(self.summary),
            copies=copies,
            watch=self.watch,
            weights=None if self.weights is None else self.weights[rows],
        )


class Gate(nn.Linear):
    """How much of what was looked at is let through, for each step."""

    role = Role("gate")


class RecurrentReader(nn.Module):
    """The recurrence with its contexts, over vectors x_t: embedded tokens, or what is known of a series' steps."""

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
        self.rnn = kind(inputs + fed_width, width, depth, batch_first=True, dropout=dropout if depth > 1 else 0.0)
        self.begin = nn.Linear(summary_width, depth * width * (1 if cell == "gru" else 2))
        self.readout = nn.Linear(width + context_width + inputs, self.feature_width)

    def read(self, x: Float[Tensor, "B T E"], memory: Memory) -> Float[Tensor, "B T F"]:
        """The features of every step at once, where all x_t are known."""
        state = self.start(memory)
        if self.context == "previous" or self.input_feeding:
            return self._one_by_one(x, state)
        inputs = x
        if state.summary is not None:
            inputs = torch.cat([x, state.summary.unsqueeze(1).expand(-1, x.shape[1], -1)], dim=2)
        states, _ = self.rnn(inputs, _packed(state))
        return self._read(states, self._look(states, state)[0], x)

    def start(self, memory: Memory, copies: int = 1, *, watch: bool = False) -> RecurrentState:
        if watch and self.attention is None:
            raise CallError(f"there is nothing to watch: context={self.context!r} does not attend")
        first = torch.tanh(self.begin(memory.summary)).repeat_interleave(copies, 0)
        # Rows × (layers · width), once for h and once for an LSTM's c, into layers × rows × width each.
        hidden, *cell = first.view(len(first), -1, self.depth, self.width).permute(1, 2, 0, 3).contiguous()
        attends = self.attention is not None
        return RecurrentState(
            hidden=hidden,
            cell=cell[0] if cell else None,
            fed=first.new_zeros(len(first), self.feature_width) if self.input_feeding else None,
            key=self.attention.prepare(memory.vectors) if self.attention is not None else None,
            value=memory.vectors if attends else None,
            mask=memory.mask.unsqueeze(1) if attends and memory.mask is not None else None,
            summary=memory.summary if self.context == "constant" else None,
            copies=copies,
            watch=watch,
        )

    def step_with(self, x: Float[Tensor, "N 1 E"], state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """One step with the vectors x, to features `N F`."""
        top, context, state = self._advance(x, state)
        features = self._read(top, context, x).squeeze(1)
        return features, replace(state, fed=features) if self.input_feeding else state

    def _one_by_one(self, x: Float[Tensor, "B T E"], state: RecurrentState) -> Float[Tensor, "B T F"]:
        """Where a step's input depends on the step before."""
        tops, contexts, features = [], [], []
        for now in x.split(1, dim=1):
            top, context, state = self._advance(now, state)
            if self.input_feeding:
                features.append(self._read(top, context, now))
                state = replace(state, fed=features[-1].squeeze(1))
            else:  # nothing waits for the readout, so it is done for all steps together
                tops.append(top)
                contexts.append(context)
        if self.input_feeding:
            return torch.cat(features, dim=1)
        return self._read(torch.cat(tops, dim=1), torch.cat(contexts, dim=1), x)

    def _advance(
        self, x: Float[Tensor, "N 1 E"], state: RecurrentState
    ) -> tuple[Float[Tensor, "N 1 D"], Float[Tensor, "N 1 C"] | None, RecurrentState]:
        """One step of the recurrence, and the context that belongs to it."""
        context, weights, inputs = None, None, [x]
        if self.context == "previous":
            context, weights = self._look(state.hidden[-1].unsqueeze(1), state)
            inputs.append(cast(Tensor, context))
        elif state.summary is not None:
            context = state.summary.repeat_interleave(state.copies, 0).unsqueeze(1)
            inputs.append(context)
        elif state.fed is not None:
            inputs.append(state.fed.unsqueeze(1))
        top, after = self.rnn(torch.cat(inputs, dim=2), _packed(state))
        hidden, cell = after if isinstance(after, tuple) else (after, None)
        if self.context == "current":
            context, weights = self._look(top, state)
        return top, context, replace(state, hidden=hidden, cell=cell, weights=weights)

    def _look(
        self, query: Float[Tensor, "N Q D"], state: RecurrentState
    ) -> tuple[Float[Tensor, "N Q C"] | None, Float[Tensor, "N K"] | None]:
        """The context of each query. Weights are those of the last query, if the state is watched."""
        if self.attention is None or state.key is None or state.value is None:
            if state.summary is None:
                return None, None
            return state.summary.unsqueeze(1).expand(-1, query.shape[1], -1), None
        trace = tracing()
        # Copies of a memory row are more queries to the same keys: B·copies Q D → B copies·Q D.
        context, weights = attend(
            self.attention,
            query.reshape(len(state.key), -1, query.shape[2]),
            state.key,
            state.value,
            state.mask,
            prepared=True,
            need_weights=state.watch or trace is not None,
            check_finite=False,
        )
        if masked_heads(self.attention):
            context = torch.zeros_like(context)
        if weights is not None:
            weights = weights.view(*query.shape[:2], -1)
            if trace is not None:
                trace.keep(self.attention, weights.unsqueeze(1))  # one head
        context = context.view(*query.shape[:2], -1)
        if self.gate is not None:
            gate = torch.sigmoid(self.gate(query))
            context = context * gate
            if trace is not None:
                trace.keep(self.gate, gate.unsqueeze(1))
        return context, None if weights is None else weights[:, -1]

    def _read(
        self, top: Float[Tensor, "B T D"], context: Float[Tensor, "B T C"] | None, x: Float[Tensor, "B T E"]
    ) -> Float[Tensor, "B T F"]:
        parts = [top, x] if context is None else [top, context, x]
        return self.dropout(torch.tanh(self.readout(self.dropout(torch.cat(parts, dim=2)))))


class RecurrentDecoder(RecurrentReader, Decoder):
    """The same over tokens."""

    def __init__(
        self,
        embedding: Embedding,
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
        super().__init__(
            embedding.width_out, embedding.width, width, memory_width=memory_width, summary_width=summary_width,
            context=context, score=score, input_feeding=input_feeding, gated=gated, cell=cell, depth=depth,
            dropout=dropout,
        )  # fmt: skip
        self.embedding = embedding

    def forward(self, tokens: Int[Tensor, "B T"], memory: Memory) -> Float[Tensor, "B T E"]:
        return self.read(self.embedding(tokens), memory)

    def step(self, tokens: Int[Tensor, " N"], state: RecurrentState) -> tuple[Float[Tensor, "N E"], RecurrentState]:
        return self.step_with(self.embedding(tokens.unsqueeze(1), 0), state)


def _packed(state: RecurrentState) -> Tensor | tuple[Tensor, Tensor]:
    """As nn.GRU and nn.LSTM want it."""
    return state.hidden if state.cell is None else (state.hidden, state.cell)
