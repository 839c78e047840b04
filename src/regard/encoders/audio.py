"""Recordings as their encoders take them, in batches: features, how many frames are real, how many vectors are left.

The encoders: `audio_pyramid` and `audio_convolution`.
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.memory import Memory


@runtime_checkable
class Sounds(Protocol):
    """Features of B recordings, `B S F`, padded at the end, and the number of frames of each."""

    @property
    def values(self) -> Tensor: ...
    @property
    def lengths(self) -> Tensor: ...


def real_frames(source: Sounds) -> Bool[Tensor, "B S"]:
    """Which frames are sound, not padding."""
    place = torch.arange(source.values.shape[1], device=source.values.device)
    return place < source.lengths.unsqueeze(1)


def memory_lengths(memory: Memory) -> Int[Tensor, " B"]:
    """How many vectors of each row are real."""
    if memory.mask is None:
        return torch.full((len(memory.vectors),), memory.vectors.shape[1], device=memory.vectors.device)
    return memory.mask.sum(1)
