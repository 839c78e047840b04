"""What a Transformer decoder carries from step to step: keys and values, as a value of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.cache import KeyValue, PreallocatedCache
from regard.attention.memory import Memory
from regard.decoders import single_steps
from regard.decoders.decoder import share
from regard.layers.transformer import Block


@dataclass(frozen=True)
class TransformerState:
    """Keys and values a layer: of the `length` steps taken (N rows), and of the memory (N / copies rows)."""

    past: tuple[KeyValue | PreallocatedCache | None, ...]
    memory: tuple[KeyValue | None, ...]
    mask: Bool[Tensor, "B K"] | None
    length: int
    rows: int
    copies: int
    device: torch.device
    watch: bool = False
    weights: Float[Tensor, "N K"] | None = None  # where the last step looked, if `watch`
    single: single_steps.Layers | None = None  # for steps of one row, if they can go the quick way
    joins = False  # rows share their positions

    def join(self, other: "TransformerState") -> "TransformerState":
        raise TypeError("rows of this state share their positions: no rows can join them")

    def select(self, rows: Int[Tensor, " M"]) -> "TransformerState":
        memory_rows, copies = share(rows, self.rows // self.copies, self.copies)
        memory, mask = self.memory, self.mask
        if memory_rows is not None:
            memory = tuple(None if kv is None else kv.select(memory_rows) for kv in memory)
            mask = None if mask is None else mask[memory_rows]
        return replace(
            self,
            past=tuple(None if kv is None else kv.select(rows) for kv in self.past),
            memory=memory,
            mask=mask,
            rows=len(rows),
            copies=copies,
            weights=None if self.weights is None else self.weights[rows],
        )


def start(
    blocks: Sequence[Block],
    norm: nn.Module,
    memory: Memory | None,
    copies: int,
    like: Tensor,
    *,
    watch: bool,
    places: int | None,
) -> TransformerState:
    """Before the first step; see `TransformerDecoder.start`. `norm` follows the last block. `like`: a tensor of the
    type and device of the caches."""
    rows = copies if memory is None else len(memory.vectors) * copies
    return TransformerState(
        past=tuple(None if places is None else block.attention.preallocate(like, rows, places) for block in blocks),
        memory=tuple(
            None if memory is None or block.cross is None else block.cross.project_memory(memory.vectors)
            for block in blocks
        ),
        mask=None if memory is None else memory.mask,
        length=0,
        rows=rows,
        copies=copies,
        device=like.device,
        watch=watch,
        single=single_steps.prepare(blocks, norm) if places is not None and rows == 1 and memory is None else None,
    )
