"""Steps of a single text through a decoder on its own: the same numbers, with little beside reading the weights.

With one row, every matrix is read from memory for one vector. That is all the work there is to a step, and whatever
else is done makes it slower: half of the time of a small model's step can be the modules around the products. Against
the general way of `Block.step`:

    layers      the products of all layers are found once, at the start, and used without their modules
    positions   one angle for all layers, computed once a step
    cache       a step writes its key and value to their place in the buffers
    heads       that share a key are so many queries to it: one call of the fused kernel, no copies, no masks, no checks
    products    of one row with a matrix are shared out among the cores (`one_row`)
    norm        on a CPU, the factor of RMS norm is a number of Python's: three operations instead of six

`prepare` says which blocks can go this way. Steps through which a gradient flows, or at which somebody looks, cannot.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.cache import PreallocatedCache
from regard.attention.rotary import Rotary
from regard.attention.scaled_dot import ScaledDot
from regard.layers.one_row import product_of
from regard.layers.transformer import Block


class Layer(NamedTuple):
    """What a step needs of one block. `hooks` are those before `out`: a masked head has one there."""

    norm: Callable[[Tensor], Tensor]
    project: Callable[[Tensor], Tensor]
    out: nn.Module
    out_product: Callable[[Tensor], Tensor]
    hooks: Mapping[int, Any]
    second_norm: Callable[[Tensor], Tensor]
    widen: Callable[[Tensor], Tensor]
    between: Callable[[Tensor], Tensor]
    narrow: Callable[[Tensor], Tensor]


class Layers(NamedTuple):
    layers: tuple[Layer, ...]
    rotary: Rotary | None
    heads: int
    kv_heads: int
    sizes: tuple[int, int, int]


def prepare(blocks: Sequence[Block]) -> Layers | None:
    """None, if a block goes another way: it must have norms first, no memory, the scaled dot product, and positions
    that are rotary or outside of attention, and it must not be in training."""
    first = blocks[0].attention
    same = (first.sizes, first.heads, first.kv_heads)
    for block in blocks:
        part = block.attention
        plain = block.norm_first and block.cross is None and type(part.score) is ScaledDot and part.relative is None
        turned = part.rotary is first.rotary and (part.rotary is None or part.rotary.halves)
        if not (plain and turned) or block.training or (part.sizes, part.heads, part.kv_heads) != same:
            return None
    return Layers(tuple(_layer(block) for block in blocks), first.rotary, first.heads, first.kv_heads, first.sizes)


def _layer(block: Block) -> Layer:
    part, wide = block.attention, block.feed_forward
    return Layer(
        _norm(block.attention_norm), product_of(part.project),
        part.out, product_of(part.out), part.out._forward_pre_hooks,
        _norm(block.feed_forward_norm), product_of(wide.widen), wide.between, product_of(wide.narrow),
    )  # fmt: skip


def _norm(module: nn.Module) -> Callable[[Tensor], Tensor]:
    if not isinstance(module, nn.RMSNorm) or module.weight.device.type != "cpu" or module.eps is None:
        return module
    weight, eps, width = module.weight, module.eps, module.weight.numel()

    def rms(x: Float[Tensor, "1 D"]) -> Float[Tensor, "1 D"]:
        row = x[0]
        return (x * weight).mul_((float(row.dot(row)) / width + eps) ** -0.5)

    return rms


def has_room(rooms: Sequence[object]) -> bool:
    """Buffers with a free place that no other state has taken."""
    room = rooms[0]
    return isinstance(room, PreallocatedCache) and room.written[0] == room.length < room.key.shape[-2]


@torch.no_grad()
def step(
    all_layers: Layers, x: Float[Tensor, "1 D"], rooms: Sequence[PreallocatedCache]
) -> tuple[Float[Tensor, "1 D"], tuple[PreallocatedCache, ...]]:
    """One step through all blocks; x is the embedded token."""
    layers, rotary, heads, shared, sizes = all_layers
    place, after = rooms[0].length, []
    turned, half = sizes[0] + sizes[1], sizes[0] // heads // 2
    if rotary is not None:  # x · cos + (x with its halves swapped) · sin, the first half's sine with a minus
        angle = rotary.frequency.float() * place
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        cos, sin = torch.cat([cos, cos]), torch.cat([-sin, sin])
    for layer, room in zip(layers, rooms, strict=True):
        row = layer.project(layer.norm(x))[0]
        both = row[:turned].view(heads + shared, -1)  # queries and keys
        if rotary is not None:
            both = torch.addcmul(both * cos, both.roll(half, -1), sin)  # pyright: ignore[reportPossiblyUnboundVariable]
        room.key[0].select(1, place).copy_(both[heads:])
        room.value[0].select(1, place).copy_(row[turned:].view(shared, -1))
        context = F.scaled_dot_product_attention(
            both[:heads].view(1, shared, heads // shared, -1),
            room.key.narrow(2, 0, place + 1),
            room.value.narrow(2, 0, place + 1),
        ).reshape(1, -1)
        x = x + (layer.out(context) if layer.hooks else layer.out_product(context))
        x = x + layer.narrow(layer.between(layer.widen(layer.second_norm(x))))
        room.written[0] = place + 1
        after.append(PreallocatedCache(room.key, room.value, place + 1, room.written))
    return x, tuple(after)
