"""Steps of a Transformer decoder whose attention is the plain one: the same numbers by fewer and cheaper operations.

A step is one vector a row, and what it costs beside its matrix products decides how fast decoding is. Here, against the
general way of `Block.step`, on a CPU:

    cache     keys and values of all layers lie in one buffer with room to grow, steps first. A step writes its own
              place instead of copying all that was there, and choosing beams is one `index_select`.
    softmax   over a few keys is slow where they are neighbors in memory (ten times, for 15 keys), so the scores
              are turned round for it.

`plain` says which blocks can go this way. The others, and steps through which a gradient flows, go the general way.
"""

from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.memory import Memory
from regard.attention.multihead import MultiHead
from regard.attention.scaled_dot import ScaledDot
from regard.decoders.decoder import share
from regard.layers.transformer import Block

ROOM = 16  # steps by which a full buffer grows
FEW_KEYS = 12  # up to which a product and a sum beat `bmm`, which has no fast kernel for matrices that small


def plain(block: Block) -> bool:
    """Scaled dot product, as many keys as heads, and no positions inside the attention."""
    parts = [block.attention] if block.cross is None else [block.attention, block.cross]
    return all(_is_plain(part) for part in parts)


def _is_plain(part: MultiHead) -> bool:
    return (
        type(part.score) is ScaledDot
        and part.rotary is None
        and part.relative is None
        and part.sizes == (part.width,) * 3
    )


@dataclass(frozen=True)
class PlainState:
    """N = B · copies rows."""

    cache: Float[Tensor, "room P N D"] | None  # P: key and value of each layer, in turn; None before the first step
    written: list[int]  # how many steps of the buffer are taken; shared by all states that share the buffer
    memory: tuple[tuple[Tensor, Tensor] | None, ...]  # keys and values of the memory, B·H K d, a layer
    hidden: Float[Tensor, "G 1 K"] | None  # added to the scores, B·H rows: 0, or very low where there is no vector
    heads: int
    length: int
    rows: int
    copies: int
    device: torch.device
    weights: None = field(default=None, init=False)  # to be watched, a decoder goes the general way

    def select(self, rows: Int[Tensor, " M"]) -> "PlainState":
        memory_rows, copies = share(rows, self.rows // self.copies, self.copies)
        memory, hidden, cache = self.memory, self.hidden, self.cache
        if memory_rows is not None:
            heads = torch.arange(self.heads, device=rows.device)
            groups = (memory_rows.unsqueeze(1) * self.heads + heads).flatten()
            memory = tuple(kv and (kv[0].index_select(0, groups), kv[1].index_select(0, groups)) for kv in memory)
            hidden = None if hidden is None else hidden.index_select(0, groups)
        if cache is not None:
            chosen = _with_room(cache, self.length, len(rows))
            torch.index_select(cache[: self.length], 2, rows, out=chosen[: self.length])
            cache = chosen
        return replace(
            self, cache=cache, written=[self.length], memory=memory, hidden=hidden, rows=len(rows), copies=copies
        )

    def with_own_place(self, like: Float[Tensor, "N E"], parts: int) -> Float[Tensor, "room P N D"]:
        """The buffer, with a place for the next step: a larger copy, if there is none or another state took it."""
        cache, length = self.cache, self.length
        if cache is None:
            cache = like.new_empty(ROOM, parts, *like.shape)
        elif length == len(cache) or self.written[0] != length:
            larger = _with_room(cache, length, self.rows)
            larger[:length] = cache[:length]
            return larger
        return cache


def _with_room(cache: Tensor, length: int, rows: int) -> Tensor:
    """An empty buffer for `length` steps and at least one more."""
    return cache.new_empty((length // ROOM + 1) * ROOM, cache.shape[1], rows, cache.shape[3])


@torch.no_grad()
def start(blocks: list[Block], memory: Memory | None, copies: int, device: torch.device) -> PlainState:
    heads = blocks[0].attention.heads
    hidden, projected = None, []
    for block in blocks:
        if memory is None or block.cross is None:
            projected.append(None)
            continue
        key, value = block.cross.project_memory(memory.vectors)
        if memory.mask is not None:
            # A row with nothing to attend to gives zeros: the scores are finite, and the values are zeros.
            value = value.masked_fill(~memory.mask[:, None, :, None], 0.0)
            if hidden is None:
                low = torch.finfo(key.dtype).min / 2
                hidden = key.new_zeros(memory.mask.shape).masked_fill_(~memory.mask, low)
                hidden = hidden.repeat_interleave(heads, 0).unsqueeze(1)
        projected.append((key.flatten(0, 1), value.flatten(0, 1)))
    rows = copies if memory is None else len(memory.vectors) * copies
    return PlainState(None, [0], tuple(projected), hidden, heads, 0, rows, copies, device)


@torch.no_grad()
def step(blocks: list[Block], x: Float[Tensor, "N D"], state: PlainState) -> tuple[Float[Tensor, "N D"], PlainState]:
    """One step through all blocks; x are the embedded tokens."""
    cache, length = state.cache, state.length
    for number, (block, memory) in enumerate(zip(blocks, state.memory, strict=True)):
        y = block.attention_norm(x) if block.norm_first else x
        query, now = block.attention.project(y).split([block.width, 2 * block.width], dim=1)
        if number == 0:
            cache = state.with_own_place(query, 2 * len(blocks))
        assert cache is not None
        cache[length, 2 * number : 2 * number + 2] = now.unflatten(1, (2, -1)).transpose(0, 1)
        context = _attend_to_past(
            query, cache[: length + 1, 2 * number], cache[: length + 1, 2 * number + 1], state.heads
        )
        x = _add(block, block.attention_norm, x, block.attention.out(context))
        if block.cross is not None and block.cross_norm is not None and memory is not None:
            y = block.cross_norm(x) if block.norm_first else x
            # The beams of a sentence are so many queries to the same keys.
            query = block.cross.project(y).view(-1, state.copies, state.heads, block.width // state.heads)
            context = _attend(query.transpose(1, 2).flatten(0, 1), *memory, state.hidden)
            context = context.view(-1, state.heads, state.copies, query.shape[3]).transpose(1, 2).reshape(x.shape)
            x = _add(block, block.cross_norm, x, block.cross.out(context))
        y = block.feed_forward_norm(x) if block.norm_first else x
        x = _add(block, block.feed_forward_norm, x, block.feed_forward(y))
    assert cache is not None
    written = state.written if cache is state.cache else [length]
    written[0] = length + 1
    return x, replace(state, cache=cache, written=written, length=length + 1)


def _add(block: Block, norm: torch.nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return x + y if block.norm_first else norm(x + y)


def _attend_to_past(
    query: Float[Tensor, "N D"], key: Float[Tensor, "K N D"], value: Float[Tensor, "K N D"], heads: int
) -> Float[Tensor, "N D"]:
    """One query a row to its own keys."""
    query = query.reshape(-1, query.shape[1] // heads)
    key, value = (x.unflatten(2, (heads, -1)).flatten(1, 2) for x in (key, value))
    if len(key) <= FEW_KEYS:
        weights = (key * (query * query.shape[1] ** -0.5)).sum(2).softmax(0)
        context = (weights.unsqueeze(2) * value).sum(0)
    else:
        context = _attend(query.unsqueeze(1), key.transpose(0, 1), value.transpose(0, 1), None)
    return context.view(key.shape[1] // heads, -1)


def _attend(
    query: Float[Tensor, "G Q d"],
    key: Float[Tensor, "G K d"],
    value: Float[Tensor, "G K d"],
    hidden: Float[Tensor, "G 1 K"] | None,
) -> Float[Tensor, "G Q d"]:
    """softmax(q kᵀ / √d) v for groups of few queries and few keys."""
    scale = query.shape[2] ** -0.5
    if hidden is None:
        scores = torch.bmm(query * scale, key.mT)
    else:
        scores = torch.baddbmm(hidden, query, key.mT, alpha=scale)
    weights = F.softmax(scores.permute(2, 0, 1), dim=0).permute(1, 2, 0).contiguous()
    return torch.bmm(weights, value)
