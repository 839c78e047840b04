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

from dataclasses import replace
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoders.recurrent_context import look
from regard.decoders.recurrent_parts import RecurrentParts
from regard.decoders.recurrent_state import RecurrentState
from regard.layers.packed import linear
from regard.layers.recurrent_step import recurrent_step


class RecurrentReader(RecurrentParts):
    """The recurrence with its contexts, over vectors x_t: embedded tokens, or what is known of a series' steps.

    Built with the arguments of `RecurrentParts`.
    """

    def read(self, x: Float[Tensor, "B T E"], memory: Memory) -> Float[Tensor, "B T F"]:
        """The features of every step at once, where all x_t are known."""
        state = self.start(memory)
        if self.context == "previous" or self.input_feeding:
            return self._one_by_one(x, state)
        inputs = x
        if state.summary is not None:
            inputs = torch.cat([x, state.summary.unsqueeze(1).expand(-1, x.shape[1], -1)], dim=2)
        states, _ = self.rnn(inputs, state.packed())
        return self._read(states, look(self.attention, self.gate, states, state)[0], x)

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
            context, weights = look(self.attention, self.gate, state.hidden[-1].unsqueeze(1), state)
            inputs.append(cast(Tensor, context))
        elif state.summary is not None:
            context = state.summary.repeat_interleave(state.copies, 0).unsqueeze(1)
            inputs.append(context)
        elif state.fed is not None:
            inputs.append(state.fed.unsqueeze(1))
        top, after = recurrent_step(self.rnn, torch.cat(inputs, dim=2), state.packed())
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
