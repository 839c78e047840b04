"""Weights in large pages of memory (2 MB instead of 4 KB), if the system has such.

A step of a language model reads all weights once. In small pages a processor has to look up where each lies every 4 KB,
and what fetches ahead for it stops there.
"""

import mmap
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate

import torch
from torch import Tensor, nn

LINE = 64  # bytes that a processor reads at once
WORTH_IT = 2**26  # bytes; what is smaller lies in caches, most of it


def copied(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The same numbers, one tensor after the other. Those of another device than the processor stay as they are."""
    if any(one.device.type != "cpu" for one in tensors):
        return list(tensors)
    return [place.copy_(one) for one, place in zip(tensors, _places(tensors), strict=True)]


def reserve(model: nn.Module) -> None:
    """Places for all weights of a large model on a processor, before they are read; what they hold is lost."""
    weights = list(model.parameters())
    if sum(one.nbytes for one in weights) >= WORTH_IT:
        for one, place in zip(weights, _places(weights), strict=True):
            one.data = place


def _places(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Of the same types and shapes, each with a storage of its own, as files of weights want it."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return [torch.empty_like(one) for one in tensors]
    starts = [0, *accumulate(-(-one.nbytes // LINE) * LINE for one in tensors)]
    room = mmap.mmap(-1, starts.pop(), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # of a system that has none
        room.madvise(mmap.MADV_HUGEPAGE)
    return [
        torch.frombuffer(room, dtype=one.dtype, count=one.numel(), offset=start).view(one.shape)
        for one, start in zip(tensors, starts, strict=True)
    ]
