"""Weights that are split over processes with torch's FSDP (`fully_shard`), behind four functions."""

from typing import Any

from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor


def shard(model: nn.Module, mesh: Any) -> nn.Module:
    """Shard each block of every list of blocks as a unit, and the rest of the model as one more."""
    for blocks in [module for module in model.modules() if isinstance(module, nn.ModuleList)]:
        for block in blocks:
            fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def exchange_gradients(model: nn.Module, now: bool) -> None:
    """Set whether the next backward pass exchanges gradients or only accumulates them."""
    assert isinstance(model, FSDPModule)
    model.set_requires_gradient_sync(now)


def whole(tensor: Tensor) -> Tensor:
    """Return the whole tensor from parts that may be on several processes."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.detach()


def part(value: Tensor, like: Tensor) -> Tensor:
    """Return the part of a whole tensor that this process has of `like`."""
    return distribute_tensor(value, like.device_mesh, like.placements) if isinstance(like, DTensor) else value
