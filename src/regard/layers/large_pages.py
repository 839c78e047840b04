"""Weights in large pages of memory (2 MB instead of 4 KB), if the system supports them.

A step of a language model reads all weights once. With small pages a processor must look up an address every 4 KB,
where prefetching stops.
"""

import mmap
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate

import torch
from torch import Tensor, nn

LINE = 64  # bytes that a processor reads at once
WORTH_IT = 2**26  # bytes; smaller models mostly fit into caches


def copied(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return copies of the tensors in large pages. Tensors on other devices are not copied."""
    if any(one.device.type != "cpu" for one in tensors):
        return list(tensors)
    return [place.copy_(one) for one, place in zip(tensors, _places(tensors), strict=True)]


def reserve(model: nn.Module) -> None:
    """Allocate all weights of a large CPU model in large pages, before they are loaded; their content is lost."""
    weights = list(model.parameters())
    if sum(one.nbytes for one in weights) >= WORTH_IT:
        for one, place in zip(weights, _places(weights), strict=True):
            one.data = place


def _places(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return tensors of the same types and shapes, each with its own storage, as weight files require."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return [torch.empty_like(one) for one in tensors]
    starts = [0, *accumulate(-(-one.nbytes // LINE) * LINE for one in tensors)]
    room = mmap.mmap(-1, starts.pop(), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # on systems without large pages
        room.madvise(mmap.MADV_HUGEPAGE)
    return [
        torch.frombuffer(room, dtype=one.dtype, count=one.numel(), offset=start).view(one.shape)
        for one, start in zip(tensors, starts, strict=True)
    ]
