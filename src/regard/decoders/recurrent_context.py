"""The context of a recurrent decoder.

    c = attend(query, memory)        c ← σ(w·query + b) c, with a gate

The gate: Xu et al. 2015, section 4.2.1 (arXiv:1502.03044).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.head_mask import masked_heads
from regard.attention.role import Role
from regard.attention.score import Score
from regard.attention.trace import tracing
from regard.decoders.recurrent_state import RecurrentState


class Gate(nn.Linear):
    """A factor on the context of each step."""

    role = Role("gate")


def look(
    score: Score | None, gate: Gate | None, query: Float[Tensor, "N Q D"], state: RecurrentState
) -> tuple[Float[Tensor, "N Q C"] | None, Float[Tensor, "N K"] | None]:
    """The context of each query. Weights are those of the last query, if the state is watched."""
    if score is None or state.key is None or state.value is None:
        if state.summary is None:
            return None, None
        return state.summary.unsqueeze(1).expand(-1, query.shape[1], -1), None
    trace = tracing()
    # Copies of a memory row are more queries to the same keys: B·copies Q D → B copies·Q D.
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
