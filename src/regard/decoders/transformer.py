"""The Transformer decoder: masked self-attention over the output so far, cross-attention to the memory.

    x_t = embedding(y_{t−1}) + position_t;   N blocks;   features = norm(x)

Vaswani et al. 2017, section 3.1 (arXiv:1706.03762). Without cross-attention it is a language model.

A step needs the keys and values of the steps before, which are in its state. Keys and values of the memory are computed
at the start, once for each sentence, and its beams share them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.memory import KeyValue, Memory, PreallocatedCache
from regard.attention.trace import Trace, tracing
from regard.decoders import native_steps, plain_steps, single_steps
from regard.decoders.decoder import Decoder, share
from regard.decoders.native_steps import NativeState
from regard.decoders.plain_steps import PlainState
from regard.errors import CallError
from regard.kernels.inference import apply_norm
from regard.layers.embedding import Embedding
from regard.layers.feed_forward import NormKind, norm
from regard.layers.transformer import Block

# The state that a Transformer decoder passes from step to step: keys and values.


@dataclass(frozen=True)
class TransformerState:
    """Keys and values of each layer: of the `length` steps so far (N rows), and of the memory (N / copies rows)."""

    past: tuple[KeyValue | PreallocatedCache | None, ...]
    memory: tuple[KeyValue | None, ...]
    mask: Bool[Tensor, "B K"] | None
    length: int
    rows: int
    copies: int
    device: torch.device
    watch: bool = False
    weights: Float[Tensor, "N K"] | None = None  # attention weights of the last step, if `watch`
    single: single_steps.Layers | None = None  # for fast steps of one row, if supported
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
    """Return the state before the first step; see `TransformerDecoder.start`.

    `norm` follows the last block. `like` is a tensor of the type and device of the caches.
    """
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


class TransformerDecoder(Decoder):
    def __init__(
        self, embedding: Embedding, layers: list[Block], *, final_norm: NormKind | nn.Module | None = "layer"
    ) -> None:
        """`final_norm`: add a norm after the last block, which blocks with norms first need."""
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(block.placed("decoder", number) for number, block in enumerate(layers))
        self.feature_width = layers[0].width
        self.enter = (
            nn.Linear(embedding.width_out, self.feature_width)
            if embedding.width_out != self.feature_width
            else nn.Identity()
        )
        if isinstance(final_norm, str):
            final_norm = norm(self.feature_width, final_norm)
        self.norm = nn.Identity() if final_norm is None else final_norm

    def forward(self, tokens: Int[Tensor, "B T"], memory: Memory | None = None) -> Float[Tensor, "B T D"]:
        """Return the features of all steps. Padding at the end needs no mask, as attention is causal."""
        x = self.enter(self.embedding(tokens))  # (B, T, D)
        for block in self.layers:
            x = block(x, causal=True, memory=memory)  # (B, T, D)
        return self.norm(x)

    def start(
        self, memory: Memory | None = None, copies: int = 1, *, watch: bool = False, places: int | None = None
    ) -> TransformerState | PlainState | NativeState:
        """Return the state before the first step: `copies` rows for each row of the memory (or in all).

        `places` preallocates keys and values for this number of steps; then `read` takes several tokens at once.
        """
        if watch and (memory is None or self._last_cross() is None):
            raise CallError("watch needs attention to a memory, and this decoder has none")
        blocks, table = list(self._blocks()), self.embedding.table.weight
        quick = places is None and not (watch or torch.is_grad_enabled() or tracing())
        if quick and native_steps.suits(blocks):
            return native_steps.start(blocks, memory, copies)
        if quick and all(map(plain_steps.suits, blocks)):
            return plain_steps.start(blocks, memory, copies, table.device)
        return start(blocks, self.norm, memory, copies, table, watch=watch, places=places)

    def step(
        self, tokens: Int[Tensor, " N"], state: TransformerState | PlainState | NativeState
    ) -> tuple[Float[Tensor, "N D"], TransformerState | PlainState | NativeState]:
        if isinstance(state, NativeState):
            x = self.enter(self.embedding.one(tokens, state.positions))
            x, after = native_steps.step(x, state)
            return apply_norm(self.norm, x), after
        if isinstance(state, PlainState):
            x = self.enter(self.embedding.one(tokens, state.positions))
            x, after = plain_steps.step(list(self._blocks()), x, state)
            return self.norm(x), after
        seen = torch.is_grad_enabled() or tracing()
        if state.single is not None and state.rows == 1 and not seen and single_steps.has_room(state.past):
            x = self.enter(self.embedding.one(tokens, state.length))
            x, rooms = single_steps.step(state.single, x, cast(tuple[PreallocatedCache, ...], state.past))
            return x, replace(state, past=rooms, length=state.length + 1)
        if not state.watch:
            features, after = self.read(tokens.unsqueeze(1), state)
            return features.squeeze(1), after
        with Trace(self) as seen:
            features, after = self.read(tokens.unsqueeze(1), state)
        return features.squeeze(1), replace(
            after, weights=seen[f"layers.{self._last_cross()}.cross"].mean(1).squeeze(1)
        )

    def read(
        self, tokens: Int[Tensor, "N T"], state: TransformerState
    ) -> tuple[Float[Tensor, "N T D"], TransformerState]:
        """Run T steps at once with known tokens; return the features of each."""
        x = self.enter(self.embedding(tokens, state.length))
        past = []
        for block, before, memory in zip(self._blocks(), state.past, state.memory, strict=True):
            x, now = block.step(x, before, memory, state.mask)
            past.append(now)
        return self.norm(x), replace(state, past=tuple(past), length=state.length + tokens.shape[1])

    def _blocks(self) -> Iterator[Block]:
        return (cast(Block, block) for block in self.layers)

    def _last_cross(self) -> int | None:
        """Return the last layer that attends to the memory, whose weights coverage uses."""
        return max((number for number, block in enumerate(self._blocks()) if block.cross is not None), default=None)
