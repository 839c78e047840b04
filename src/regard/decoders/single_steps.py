"""Steps of a single text through a decoder on its own: the same numbers, with little beside reading the weights.

With one row, every matrix is read from memory for one vector. That is all the work there is to a step, and whatever
else is done makes it slower. Against the general way of `Block.step`:

    positions   one angle for all layers, computed once a step
    cache       a step writes its key and value to their place in the buffers
    heads       that share a key are so many queries to it: one call of the fused kernel, no copies, no masks, no checks

`suits` says which blocks can go this way. Steps through which a gradient flows, or at which somebody looks, cannot.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention.cache import Room
from regard.attention.multihead import MultiHead
from regard.attention.rotary import Rotary
from regard.attention.scaled_dot import ScaledDot
from regard.layers.transformer import Block


def suits(block: Block) -> bool:
    """Norms first, no memory, scaled dot product, positions that are rotary or outside of attention."""
    part = block.attention
    return (
        block.norm_first
        and block.cross is None
        and type(part.score) is ScaledDot
        and part.relative is None
        and (part.rotary is None or part.rotary.halves)
    )


def has_room(rooms: Sequence[object]) -> bool:
    """Buffers with a free place that no other state has taken."""
    room = rooms[0]
    return isinstance(room, Room) and room.written[0] == room.length < room.key.shape[-2]


class Turn(NamedTuple):
    """x' = x · cos + (x with its halves swapped) · sin, the sign of the first half's sine being minus."""

    cos: Float[Tensor, " d"]
    sin: Float[Tensor, " d"]

    @classmethod
    def at(cls, rotary: Rotary, position: int, dtype: torch.dtype) -> "Turn":
        angle = rotary.frequency.float() * position
        cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
        return cls(torch.cat([cos, cos]), torch.cat([-sin, sin]))

    def __call__(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        return torch.addcmul(x * self.cos, x.roll(x.shape[-1] // 2, -1), self.sin)


@torch.no_grad()
def step(
    blocks: Sequence[Block], x: Float[Tensor, "1 D"], rooms: Sequence[Room]
) -> tuple[Float[Tensor, "1 D"], tuple[Room, ...]]:
    """One step through all blocks; x is the embedded token."""
    rotary = blocks[0].attention.rotary
    turn = None if rotary is None else Turn.at(rotary, rooms[0].length, x.dtype)
    after = []
    for block, room in zip(blocks, rooms, strict=True):
        x = x + _attend(block.attention, block.attention_norm(x), room, turn)
        x = x + block.feed_forward(block.feed_forward_norm(x))
        room.written[0] = room.length + 1
        after.append(Room(room.key, room.value, room.length + 1, room.written))
    return x, tuple(after)


def _attend(part: MultiHead, x: Float[Tensor, "1 D"], room: Room, turn: Turn | None) -> Float[Tensor, "1 D"]:
    heads, shared = part.heads, part.kv_heads
    queries, keys, _ = part.sizes
    turned, value = part.project(x)[0].split((queries + keys, part.sizes[2]))
    turned = turned.view(heads + shared, -1)
    if turn is not None:
        turned = turn(turned)
    place = room.length
    room.key[0, :, place] = turned[heads:]
    room.value[0, :, place] = value.view(shared, -1)
    query = turned[:heads].view(1, shared, heads // shared, -1)
    context = F.scaled_dot_product_attention(query, room.key[:, :, : place + 1], room.value[:, :, : place + 1])
    return part.out(context.reshape(1, -1))
