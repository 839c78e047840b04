"""Measure the cost of one training step on this machine, for any model and batch.

It is measured because the number of counted tokens is known only when the loss is computed.

    memory   16 bytes per trained weight (as `cost/estimate.py`), 4 per frozen weight, and the activations of a batch
    time     of a forward and a backward pass; the optimizer needs little time in comparison
"""

import time
from typing import Any, NamedTuple

import torch
from torch import nn

from regard.cost.counting import Kept


class StepCost(NamedTuple):
    seconds: float
    weights: int  # bytes that training keeps for weights
    activations: int  # bytes that it keeps for this batch


def weight_bytes(model: nn.Module) -> int:
    return sum(weight.numel() * (16 if weight.requires_grad else 4) for weight in model.parameters())


def step_cost(model: nn.Module, batch: Any) -> StepCost:
    """Measure a step; `model(batch)` returns a loss with `total`. The random state is restored."""
    kept = Kept({parameter.untyped_storage()._cdata for parameter in model.parameters()})
    with torch.random.fork_rng([]), torch.enable_grad():
        with torch.autograd.graph.saved_tensors_hooks(kept.add, lambda tensor: tensor), kept:
            model(batch)  # also a warm-up
        begin = time.perf_counter()
        model(batch).total.backward()
        seconds = time.perf_counter() - begin
    model.zero_grad(set_to_none=True)
    return StepCost(seconds, weight_bytes(model), 4 * kept.numbers + kept.bytes)
