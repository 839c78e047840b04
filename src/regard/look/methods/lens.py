"""Logit lens: the prediction of each layer.

    p_l = softmax(W norm(x_l) + b)       x_l: the state after layer l,  norm: the last one of the model

nostalgebraist 2020, "Interpreting GPT: the logit lens". The last row is the prediction of the model. Earlier layers
were not trained for this readout and may contain information that it does not show
(Belrose et al. 2023, arXiv:2303.08112). A model
with norms last has none after its layers, and its states are read as they are.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class Lens(NamedTuple):
    """Of each layer (0 is before the first) and step: the probability of the answer, and the token of largest one."""

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
