"""What one step of training costs on this machine, for any model and any batch: measured, since a loss says how many
tokens it counted only when it is computed.

    memory   16 bytes a weight that learns (as `cost/estimate.py`), 4 a frozen one, and what autograd keeps of a batch
    time     of a forward and a backward pass; what the optimizer does is small beside them
"""

import time
from typing import Any, NamedTuple

import torch
from torch import nn

from regard.cost.counting import Kept


class StepCost(NamedTuple):
    seconds: float
    weights: int  # bytes: what training keeps for them
    activations: int  # bytes: what it keeps of this batch


def weight_bytes(model: nn.Module) -> int:
    return sum(weight.numel() * (16 if weight.requires_grad else 4) for weight in model.parameters())


def step_cost(model: nn.Module, batch: Any) -> StepCost:
    """`model(batch)` gives a loss with its `total`. The random numbers of others stay as they were."""
    kept = Kept({parameter.untyped_storage()._cdata for parameter in model.parameters()})
    with torch.random.fork_rng([]), torch.enable_grad():
        with torch.autograd.graph.saved_tensors_hooks(kept.add, lambda tensor: tensor), kept:
            model(batch)  # also warms the machine up
        begin = time.perf_counter()
        model(batch).total.backward()
        seconds = time.perf_counter() - begin
    model.zero_grad(set_to_none=True)
    return StepCost(seconds, weight_bytes(model), 4 * kept.numbers + kept.bytes)
