"""A recurrent decoder, with four kinds of context from the memory.

    x_t = E[y_{t−1}]          s_0 = tanh(W summary)          f_t = tanh(W_f [s_t; c_t; x_t])    (f_t: the features)

    initial    s_t = g(x_t, s_{t−1})                                           no c_t: the context is s_0
    constant   s_t = g([x_t; c], s_{t−1}),     c = summary                     the same vector at every step
    previous   s_t = g([x_t; c_t], s_{t−1}),   c_t = attend(s_{t−1}, memory)   the query is the state before the step
    current    s_t = g(x_t, s_{t−1}),          c_t = attend(s_t, memory)       the query is the state after it
               s_t = g([x_t; f_{t−1}], s_{t−1})                                with input feeding
    gated      c_t ← σ(w·query + b) c_t                                        for any c_t

initial: Sutskever et al. 2014 (arXiv:1409.3215). constant: Cho et al. 2014, section 2.2 (arXiv:1406.1078). previous:
Bahdanau et al. 2014, section 3.1 and appendix A.2 (arXiv:1409.0473). current, input feeding: Luong et al. 2015,
sections 3.1 and 3.3 (arXiv:1508.04025). gated: Xu et al. 2015, section 4.2.1 (arXiv:1502.03044). Any score of
`regard.attention` serves; the query comes from the top layer.

Where we differ: all contexts have the same first state and the same readout f_t (Bahdanau's output layer, with tanh
for maxout), so that models differ only in the context. Features are as wide as the embedding, so the output layer may
share its table.
"""

from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.masks import masked_heads
from regard.attention.memory import Memory
from regard.attention.score import Recurrence, Role, Score
from regard.attention.trace import tracing
from regard.decoders.decoder import Decoder, share, stack_rows
from regard.errors import CallError
from regard.layers.embedding import Embedding
from regard.layers.feed_forward import Dropout
from regard.layers.packed import linear
from regard.layers.recurrent import recurrent_step

# The state that a recurrent decoder passes from step to step.


@dataclass(frozen=True)
class RecurrentState:
    """State of N = B · copies rows, and the tensors of the memory that they share."""

    hidden: Float[Tensor, "L N D"]
    cell: Float[Tensor, "L N D"] | None  # LSTM
    fed: Float[Tensor, "N E"] | None  # f_{t−1}, with input feeding
    key: Float[Tensor, "B K Dk"] | None  # prepared for the score
    value: Float[Tensor, "B K Dv"] | None
    mask: Bool[Tensor, "B 1 K"] | None
    summary: Float[Tensor, "B S"] | None  # the context of `constant`
    copies: int
    watch: bool
    weights: Float[Tensor, "N K"] | None = None  # attention weights of the last step, if `watch`

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

    @property
    def joins(self) -> bool:
        return not self.watch

    def join(self, other: "RecurrentState") -> "RecurrentState":
        def both(mine: Tensor | None, theirs: Tensor | None, dim: int) -> Tensor | None:
            return None if mine is None or theirs is None else stack_rows(mine, theirs, dim=dim)

        cell = None if self.cell is None or other.cell is None else torch.cat([self.cell, other.cell], 1)
        return replace(
            self,
            hidden=torch.cat([self.hidden, other.hidden], 1),
            cell=cell,
            fed=both(self.fed, other.fed, 1),
            key=both(self.key, other.key, 1),
            value=both(self.value, other.value, 1),
            mask=both(self._real(), other._real(), 2),
            summary=both(self.summary, other.summary, 1),
        )

    def _real(self) -> Bool[Tensor, "B 1 K"] | None:
        """Return the mask; all true if there is none, and None without keys."""
        if self.mask is not None or self.key is None:
            return self.mask
        return torch.ones(len(self.key), 1, self.key.shape[1], dtype=torch.bool, device=self.device)

    def as_hidden_state(self) -> Tensor | tuple[Tensor, Tensor]:
        """Return the state in the form of nn.GRU or nn.LSTM."""
        return self.hidden if self.cell is None else (self.hidden, self.cell)


# The context of a recurrent decoder.
#
#     c = attend(query, memory)        c ← σ(w·query + b) c, with a gate
#
# The gate: Xu et al. 2015, section 4.2.1 (arXiv:1502.03044).


class Gate(nn.Linear):
    """A factor on the context of each step."""

    role = Role("gate")


def look(
    score: Score | None, gate: Gate | None, query: Float[Tensor, "N Q D"], state: RecurrentState
) -> tuple[Float[Tensor, "N Q C"] | None, Float[Tensor, "N K"] | None]:
    """Return the context of each query, and the weights of the last query if the state is watched."""
    if score is None or state.key is None or state.value is None:
        if state.summary is None:
            return None, None
        return state.summary.unsqueeze(1).expand(-1, query.shape[1], -1), None
    trace = tracing()
    # Copies of a memory row are more queries to the same keys: (B·copies, Q, D) → (B, copies·Q, D).
    context, weights = attend(
        score,
        query.reshape(state.key.shape[0], -1, query.shape[2]),
        state.key,
        state.value,
        state.mask,
        prepared=True,
        need_weights=state.watch or trace is not None,
        check_finite=False,
    )
    if masked_heads(score):
        context = torch.zeros_like(context)
    if weights is not None:
        weights = weights.view(*query.shape[:2], -1)
        if trace is not None:
            trace.keep(score, weights.unsqueeze(1), state.value)  # one head
    context = context.view(*query.shape[:2], -1)
    if gate is not None:
        share = torch.sigmoid(gate(query))
        context = context * share
        if trace is not None:
            trace.keep(gate, share.unsqueeze(1))
    return context, None if weights is None else weights[:, -1]


Context = Literal["initial", "constant", "previous", "current"]


class RecurrentParts(nn.Module):
    """The parts of a recurrent decoder: layers, sizes, and the first state.

        s_0 = tanh(W summary)

    See `recurrent` for the equations.
    """

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
        """`inputs`, `features`: widths of x_t and f_t. `score` compares states (`width`) with vectors of the memory
        (`memory_width`); contexts without attention have no score and no gate."""
        super().__init__()
        attends = context in ("previous", "current")
        if attends != (score is not None):
            raise CallError(f"context={context!r} {'needs a score' if attends else 'takes no score'}")
        if input_feeding and context != "current":
            raise CallError(f"input_feeding needs context='current', not context={context!r}")
        if gated and not attends:
            raise CallError(f"gated needs attention, and context={context!r} has none")
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
            raise CallError(f"watch needs attention, and context={self.context!r} has none")
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


class RecurrentReader(RecurrentParts):
    """The recurrence with its contexts over vectors x_t: embedded tokens, or known features of the steps of a series.

    Built with the arguments of `RecurrentParts`.
    """

    def read(self, x: Float[Tensor, "B T E"], memory: Memory) -> Float[Tensor, "B T F"]:
        """Return the features of all steps at once, if all x_t are known."""
        state = self.start(memory)
        if self.context == "previous" or self.input_feeding:
            return self._one_by_one(x, state)
        inputs = x
        if state.summary is not None:
            inputs = torch.cat([x, state.summary.unsqueeze(1).expand(-1, x.shape[1], -1)], dim=2)  # (B, T, E + S)
        states, _ = self.rnn(inputs, state.as_hidden_state())  # (B, T, D)
        return self._read(states, look(self.attention, self.gate, states, state)[0], x)

    def step_with(self, x: Float[Tensor, "N 1 E"], state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Run one step with the vectors x; return the features (N, F) and the state."""
        top, context, state = self._advance(x, state)
        features = self._read(top, context, x).squeeze(1)
        return features, replace(state, fed=features) if self.input_feeding else state

    def _one_by_one(self, x: Float[Tensor, "B T E"], state: RecurrentState) -> Float[Tensor, "B T F"]:
        """Run step by step, as the input of a step depends on the step before."""
        tops, contexts, features = [], [], []
        for now in x.split(1, dim=1):
            top, context, state = self._advance(now, state)
            if self.input_feeding:
                features.append(self._read(top, context, now))
                state = replace(state, fed=features[-1].squeeze(1))
            else:  # no step needs the readout, so it is computed for all steps together
                tops.append(top)
                contexts.append(context)
        if self.input_feeding:
            return torch.cat(features, dim=1)
        return self._read(torch.cat(tops, dim=1), torch.cat(contexts, dim=1), x)

    def _advance(
        self, x: Float[Tensor, "N 1 E"], state: RecurrentState
    ) -> tuple[Float[Tensor, "N 1 D"], Float[Tensor, "N 1 C"] | None, RecurrentState]:
        """Run one step of the recurrence; return its output and context."""
        context, weights, inputs = None, None, [x]
        if self.context == "previous":
            context, weights = look(self.attention, self.gate, state.hidden[-1].unsqueeze(1), state)  # query (N, 1, D)
            inputs.append(cast(Tensor, context))
        elif state.summary is not None:
            context = state.summary.repeat_interleave(state.copies, 0).unsqueeze(1)  # (N, 1, S)
            inputs.append(context)
        elif state.fed is not None:
            inputs.append(state.fed.unsqueeze(1))
        top, after = recurrent_step(self.rnn, torch.cat(inputs, dim=2), state.as_hidden_state())
        hidden, cell = after if isinstance(after, tuple) else (after, None)
        if self.context == "current":
            context, weights = look(self.attention, self.gate, top, state)
        return top, context, replace(state, hidden=hidden, cell=cell, weights=weights)

    def _read(
        self, top: Float[Tensor, "B T D"], context: Float[Tensor, "B T C"] | None, x: Float[Tensor, "B T E"]
    ) -> Float[Tensor, "B T F"]:
        parts = self.dropout(torch.cat([top, x] if context is None else [top, context, x], dim=2))
        features = linear(self.readout, parts.flatten(0, 1)).unflatten(0, parts.shape[:2])
        return self.dropout(torch.tanh(features))


# The recurrent decoder over tokens: a language model conditioned on a memory.
#
#     p(y_t | y_<t, x) = softmax(W f_t)[y_t],      x_t = E[y_{t−1}],  f_t as in `recurrent`
#
# It starts from <s>, and each output token is the next input.


class RecurrentDecoder(RecurrentReader, Decoder):
    """A recurrent decoder with token inputs."""

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
