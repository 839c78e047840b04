"""Two inputs in one memory: the vectors of both are concatenated, and may attend to each other.

    x = [a_1 + u; …; a_K + u; b_1 + v; …; b_S + v]            memory = norm(blocks(x))

a and b are what two encoders made of a picture and a question; u and v are learned to distinguish the vectors of one
from those of the other. As ViLT (Kim et al. 2021, section 3.1, arXiv:2102.03334), whose words come first. Without
blocks the memory is x itself, and what attends to it is the first that sees both.

The summary is the mean of the memory; without blocks, which make one of two, it is both summaries concatenated, so
that a decoder begins with the whole question.

Any decoder can attend to this memory: it makes no difference which vectors are regions and which
are words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.encoders.text import masked_mean
from regard.errors import CallError
from regard.layers.norm import NormKind, norm
from regard.layers.stack import through
from regard.layers.transformer import Block


@dataclass(frozen=True)
class Joint:
    """The inputs of two encoders."""

    first: Any
    second: Any

    def to(self, device: torch.device | str) -> "Joint":
        return Joint(self.first.to(device), self.second.to(device))


class JointEncoder(nn.Module):
    def __init__(
        self, first: Any, second: Any, layers: Sequence[Block] = (), *, final_norm: NormKind | None = None
    ) -> None:
        """`first` and `second` make a `Memory` each, of one width (`memory_width`).

        `final_norm`: blocks with norms first leave their sum without one, so it follows the last of them."""
        super().__init__()
        widths = [encoder.memory_width for encoder in (first, second)]
        if widths[0] != widths[1]:
            raise CallError(f"vectors of width {widths[0]} and of width {widths[1]} do not fit; use the same width")
        self.first, self.second = first, second
        self.memory_width = widths[0]
        self.summary_width = widths[0] if layers else first.summary_width + second.summary_width
        self.kinds = nn.Parameter(torch.randn(2, widths[0]) * 0.02)
        self.vectors = nn.Identity()  # what gradients by the input are taken of
        self.layers = nn.ModuleList(block.placed("encoder", number) for number, block in enumerate(layers))
        self.norm = norm(widths[0], final_norm) if layers and final_norm is not None else nn.Identity()

    def forward(self, source: Joint) -> Memory:
        memories = (self.first(source.first), self.second(source.second))
        x = torch.cat([one.vectors + kind for one, kind in zip(memories, self.kinds, strict=True)], dim=1)
        mask = torch.cat([_mask(one) for one in memories], dim=1)
        if memories[0].mask is not None:  # padding between the two goes to the end, as everywhere
            order = mask.logical_not().int().argsort(dim=1, stable=True)
            x, mask = x.gather(1, order.unsqueeze(2).expand_as(x)), mask.gather(1, order)
        x = self.vectors(x)
        if not self.layers:
            return Memory(x, mask, torch.cat([one.summary for one in memories], dim=1))
        x = self.norm(through(self.layers, x, mask))
        return Memory(x, mask, masked_mean(x, mask))


def _mask(memory: Memory) -> Bool[Tensor, "B K"]:
    return memory.vectors.new_ones(memory.vectors.shape[:2], dtype=torch.bool) if memory.mask is None else memory.mask
