"""Weights in large pages of memory (2 MB instead of 4 KB), if the system has such.

A step of a language model reads all weights once. In small pages a processor has to look up where each lies every 4 KB,
and what fetches ahead for it stops there.
"""

import mmap
from collections.abc import Sequence
from contextlib import suppress

import torch
from jaxtyping import UInt8
from torch import Tensor, nn

LINE = 64  # bytes that a processor reads at once
WORTH_IT = 2**26  # bytes; what is smaller lies in caches, most of it


def copied(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The same numbers, one tensor after the other. Those of another device than the processor stay as they are."""
    if any(one.device.type != "cpu" for one in tensors):
        return list(tensors)
    sizes = [-(-one.nbytes // LINE) * LINE for one in tensors]
    parts = _room(sum(sizes)).split(sizes)
    return [
        part[: one.nbytes].view(one.dtype).view(one.shape).copy_(one) for one, part in zip(tensors, parts, strict=True)
    ]


def move(model: nn.Module) -> None:
    """All weights of a model that is worth it, in place."""
    weights = list(model.parameters())
    if sum(one.nbytes for one in weights) >= WORTH_IT:
        for one, there in zip(weights, copied([one.detach() for one in weights]), strict=True):
            one.data = there


def _room(size: int) -> UInt8[Tensor, " bytes"]:
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(size, dtype=torch.uint8)
    room = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # of a system that has none
        room.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(room, dtype=torch.uint8)
