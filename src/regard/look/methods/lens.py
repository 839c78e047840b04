"""Logit lens: the prediction of each layer.

    p_l = softmax(W norm(x_l) + b)       x_l: the state after layer l,  norm: the last one of the model

nostalgebraist 2020, "Interpreting GPT: the logit lens". The last row is the prediction of the model. Earlier layers
were not trained for this readout and may contain information that it does not show (Belrose et al. 2023,
arXiv:2303.08112). A model with norms last has no final norm, so its states are used directly.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.look.stream import Part, Reading, stream_parts, through


class Lens(NamedTuple):
    """Probability of the answer and most probable token, for each layer (0: before the first) and step."""

    answer: Float[Tensor, "L T"]
    best: Int[Tensor, "L T"]
    probability: Float[Tensor, "L T"]


@torch.no_grad()
def logit_lens(
    states: list[Float[Tensor, "T D"]], norm: nn.Module, output: nn.Linear, answers: Int[Tensor, " T"]
) -> Lens:
    rows = []
    for state in states:
        table = output(norm(state)).softmax(-1, dtype=torch.float32)
        probability, best = table.max(-1)
        rows.append((table.gather(1, answers.unsqueeze(1)).squeeze(1), best, probability))
    answer, best, probability = (torch.stack(column) for column in zip(*rows, strict=True))
    return Lens(answer, best, probability)


# Direct logit attribution: the contribution of each part of a Transformer to the answer.
#
#     logit(y) = w_y · norm(x_0 + Σ_j a_j) + b_y = w_y · S x_0 + Σ_j w_y · S a_j + w_y · β + b_y
#
# a_j is the contribution of head, feed-forward or bias j to the stream (`look/stream.py`), S the norm as a linear map:
# x − mean(x) over the deviation of the whole sum, times γ (RMS norm: no mean, no β). Elhage et al. 2021; Wang et al.
# 2022, section 3.1 (arXiv:2211.00593).
#
# Exact: the parts sum to the logit, with norms first and with norms last. An approximation: S is constant, although a
# part also changes the deviation that divides the others, and the heads after it. With norms first this is one norm,
# the last. With norms last (Vaswani et al. 2017) a part passes every later norm, so numbers of early layers are less
# reliable. Indirect effects through other parts are not included: patching measures these.


@torch.no_grad()
def direct_logits(
    reading: Reading, norm: nn.Module, output: nn.Linear, answers: Int[Tensor, " T"], instead: Int[Tensor, " T"] | None
) -> list[Part]:
    """Return the contribution of each part to the logit of the answer, or to its lead over another; `added` is T."""
    parts, bias = through(norm, reading.states[-1], *stream_parts(reading, len(reading.states) - 1))
    direction = output.weight[answers] - (0.0 if instead is None else output.weight[instead])  # T D
    parts.append(Part("bias", -1, -1, bias))
    found = [part._replace(added=(part.added * direction).sum(-1)) for part in parts]
    if output.bias is not None:
        offset = output.bias[answers] - (0.0 if instead is None else output.bias[instead])
        found[-1] = found[-1]._replace(added=found[-1].added + offset)
    return found
