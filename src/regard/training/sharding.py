"""Weights that are shared out over processes: torch's FSDP (`fully_shard`), behind the four calls that we need."""

from typing import Any

from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor


def shard(model: nn.Module, mesh: Any) -> nn.Module:
    """Each block of a list of blocks is gathered when it is needed; the rest of the model is one more."""
    for blocks in [module for module in model.modules() if isinstance(module, nn.ModuleList)]:
        for block in blocks:
            fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def exchange_gradients(model: nn.Module, now: bool) -> None:
    """Whether the next backward pass exchanges gradients, or only adds them up."""
    assert isinstance(model, FSDPModule)
    model.set_requires_gradient_sync(now)


def whole(tensor: Tensor) -> Tensor:
    """A tensor whose parts may lie on several processes."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.detach()


def part(value: Tensor, like: Tensor) -> Tensor:
    """Of a whole tensor, what this process holds of `like`."""
    return distribute_tensor(value, like.device_mesh, like.placements) if isinstance(like, DTensor) else value
