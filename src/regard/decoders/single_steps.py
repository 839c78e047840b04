"""Steps of a single text through a decoder on its own: the same numbers, with little beside reading the weights.

With one row, every matrix is read from memory for one vector. That is all the work there is to a step, and whatever
else is done makes it slower: half of the time of a small model's step can be the modules around the products. Against
the general way of `Block.step`:

    layers      the products of all layers are found once, at the start, and used without their modules
    positions   one angle for all layers, computed once a step; queries and keys are turned as one row, values with them
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
from jaxtyping import Float, Int
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
    swapped: Int[Tensor, " E"]  # of each feature of a query or key, the one that it turns with; a value's is itself


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
    width, turned = first.sizes[0] // first.heads, first.sizes[0] + first.sizes[1]
    device = None if first.rotary is None else first.rotary.frequency.device
    swapped = torch.arange(sum(first.sizes), device=device)
    swapped[:turned] = swapped[:turned].view(-1, width).roll(width // 2, 1).flatten()
    layers = tuple(_layer(block) for block in blocks)
    return Layers(layers, first.rotary, first.heads, first.kv_heads, first.sizes, swapped)


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


def _turns(rotary: Rotary, place: int, layers: Layers, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine for each number of a row of queries, keys and values; values are not turned."""
    angle = rotary.frequency.float() * place
    heads, values = layers.heads + layers.kv_heads, like.new_zeros(layers.sizes[2])
    cos, sin = angle.cos().to(like.dtype), angle.sin().to(like.dtype)
    cos, sin = torch.cat([cos, cos]).repeat(heads), torch.cat([-sin, sin]).repeat(heads)  # a first half's has a minus
    return torch.cat([cos, values + 1.0]), torch.cat([sin, values])


def has_room(rooms: Sequence[object]) -> bool:
    """Buffers with a free place that no other state has taken."""
    room = rooms[0]
    return isinstance(room, PreallocatedCache) and room.written[0] == room.length < room.key.shape[-2]


@torch.no_grad()
def step(
    all_layers: Layers, x: Float[Tensor, "1 D"], rooms: Sequence[PreallocatedCache]
) -> tuple[Float[Tensor, "1 D"], tuple[PreallocatedCache, ...]]:
    """One step through all blocks; x is the embedded token."""
    layers, rotary, heads, shared, sizes, _ = all_layers
    place, after = rooms[0].length, []
    cos, sin = (None, None) if rotary is None else _turns(rotary, place, all_layers, x)
    for layer, room in zip(layers, rooms, strict=True):
        row = layer.project(layer.norm(x))
        if cos is not None and sin is not None:  # x · cos + (x with its halves swapped) · sin
            row = torch.addcmul(row * cos, row.index_select(1, all_layers.swapped), sin)
        query, key, value = row.split(sizes, 1)
        room.key.select(2, place).copy_(key.view(1, shared, -1))
        room.value.select(2, place).copy_(value.view(1, shared, -1))
        context = F.scaled_dot_product_attention(
            query.view(1, shared, heads // shared, -1),
            room.key.narrow(2, 0, place + 1),
            room.value.narrow(2, 0, place + 1),
        ).reshape(1, -1)
        x = x + (layer.out(context) if layer.hooks else layer.out_product(context))
        x = x + layer.narrow(layer.between(layer.widen(layer.second_norm(x))))
        room.written[0] = place + 1
        after.append(PreallocatedCache(room.key, room.value, place + 1, room.written))
    return x, tuple(after)
