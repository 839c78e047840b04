"""Steps of a single text through a decoder on its own: the same numbers, with little beside reading the weights.

With one row, every matrix is read from memory for one vector. That is all the work there is to a step, and whatever
else is done makes it slower: half of the time of a small model's step can be the modules around the products. So the
parts of all layers are found once, at the start, and used without their modules: where there are kernels for them, by
one call for all blocks (`kernels/single.c`); elsewhere by torch, which is also what that call is tested against.

    positions   one angle for all layers, computed once a step; queries and keys are turned as one row, values with them
    cache       a step writes its key and value to their place in the buffers
    heads       that share a key are so many queries to it: one call of the fused kernel, no copies, no masks, no checks

`prepare` says which blocks can go this way. Steps through which a gradient flows, or at which somebody looks, cannot.
"""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.memory import PreallocatedCache
from regard.attention.positions import Rotary
from regard.attention.scores import ScaledDot
from regard.kernels import inference
from regard.layers.feed_forward import FUNCTIONS, FeedForward
from regard.layers.quantized import matrix
from regard.layers.transformer import Block

GATED = len(FUNCTIONS)  # the functions of single.c have the order of FUNCTIONS; after them comes the gated form


class Compiled(NamedTuple):
    """All blocks as one array for the kernel, the norm after them, and the tensors that they point to."""

    layers: "ctypes.Array[inference.KernelLayer]"
    norm: inference.Norm | None
    sizes: tuple[int, ...]
    tensors: list[list[Tensor]]
    found: list[tuple[Tensor, Any, Any]]  # at most one: the first layer's keys, and where keys and values of all lie


class Layers(NamedTuple):
    blocks: tuple[Block, ...]
    norm: nn.Module  # after the last block
    rotary: Rotary | None
    compiled: Compiled | None
    hooks: tuple[Mapping[int, Any], ...]  # before `out` of each block: a masked head has one there
    swapped: Int[Tensor, " E"]  # of each feature of a query or key, the one that it turns with; a value's is itself


def prepare(blocks: Sequence[Block], norm: nn.Module) -> Layers | None:
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
    hooks = tuple(block.attention.out._forward_pre_hooks for block in blocks)
    return Layers(tuple(blocks), norm, first.rotary, _compile_blocks(blocks, norm), hooks, swapped)


def _compile_blocks(blocks: Sequence[Block], norm: nn.Module) -> Compiled | None:
    """None, where there are no kernels, or none for these layers."""
    last = _norm(norm)
    if not inference.available() or (last is None and not isinstance(norm, nn.Identity)):
        return None
    layers, tensors = [], []
    attention, wide = blocks[0].attention, blocks[0].feed_forward
    for block in blocks:
        norms = [_norm(one) for one in (block.attention_norm, block.feed_forward_norm)]
        parts = (block.attention.project, block.attention.out, block.feed_forward.widen, block.feed_forward.narrow)
        matrices = [matrix(one) for one in parts]
        if None in norms or None in matrices or _function(block.feed_forward) != _function(wide):
            return None
        layers.append(inference.KernelLayer(*norms, *matrices))
        tensors += [one.tensors for one in (*norms, *matrices) if one is not None]
    function, (queries, _, values) = _function(wide), attention.sizes
    if function is None:
        return None
    sizes = (
        attention.width, attention.heads, attention.kv_heads, queries // attention.heads, values // attention.kv_heads,
        wide.narrow.in_features, function,
    )  # fmt: skip
    return Compiled((inference.KernelLayer * len(layers))(*layers), last, sizes, tensors, [])


def _places(compiled: Compiled, rooms: Sequence[PreallocatedCache]) -> Sequence[Any]:
    """Where the keys and the values of each layer lie. They stay there, unless a text outgrows its room.

    Other threads step through the same layers with rooms of their own, so that what is found is replaced as a whole.
    """
    found = compiled.found[0] if compiled.found else None
    if found is None or found[0] is not rooms[0].key:
        keys, values = [room.key for room in rooms], [room.value for room in rooms]
        found = (rooms[0].key, inference.pointers(keys), inference.pointers(values))
        compiled.found[:] = [found]
    return found[1:]


def _norm(module: nn.Module) -> inference.Norm | None:
    if (
        not isinstance(module, nn.LayerNorm | nn.RMSNorm)
        or module.eps is None
        or not inference.available(module.weight)
    ):
        return None
    shift = module.bias if isinstance(module, nn.LayerNorm) else None
    return inference.norm_weights(module.weight, shift, module.eps, rms=isinstance(module, nn.RMSNorm))


def _function(wide: FeedForward) -> int | None:
    """Its number in single.c."""
    if wide.gated:
        return GATED
    return next((number for number, one in enumerate(FUNCTIONS.values()) if one is wide.activation), None)


def _turns(rotary: Rotary, place: int, layers: Layers, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine for each number of a row of queries, keys and values; values are not turned."""
    part = layers.blocks[0].attention
    heads, values = part.heads + part.kv_heads, like.new_zeros(part.sizes[2])
    cos, sin = rotary.at(place).to(like.dtype)
    cos, sin = torch.cat([cos, cos]).repeat(heads), torch.cat([-sin, sin]).repeat(heads)  # a first half's has a minus
    return torch.cat([cos, values + 1.0]), torch.cat([sin, values])


def has_room(rooms: Sequence[object]) -> bool:
    """Buffers with a free place that no other state has taken."""
    room = rooms[0]
    return isinstance(room, PreallocatedCache) and room.written[0] == room.length < room.key.shape[-2]


@torch.no_grad()
def step(
    layers: Layers, x: Float[Tensor, "1 D"], rooms: Sequence[PreallocatedCache]
) -> tuple[Float[Tensor, "1 D"], tuple[PreallocatedCache, ...]]:
    """One step through all blocks and the norm after them; x is the embedded token, and may be changed."""
    place, compiled = rooms[0].length, layers.compiled
    if compiled is None or any(layers.hooks) or not inference.available(x):
        x = _by_torch(layers, x, rooms, place)
    else:
        x = x.contiguous()
        turns = None if layers.rotary is None else layers.rotary.row(place)
        keys, values = _places(compiled, rooms)
        inference.single_step(
            compiled.layers, compiled.norm, compiled.sizes, keys, values, rooms[0].key.shape[2], place, turns, x
        )
    for room in rooms:
        room.written[0] = place + 1
    return x, tuple(PreallocatedCache(room.key, room.value, place + 1, room.written) for room in rooms)


def _by_torch(
    layers: Layers, x: Float[Tensor, "1 D"], rooms: Sequence[PreallocatedCache], place: int
) -> Float[Tensor, "1 D"]:
    cos, sin = (None, None) if layers.rotary is None else _turns(layers.rotary, place, layers, x)
    for block, room in zip(layers.blocks, rooms, strict=True):
        part, wide = block.attention, block.feed_forward
        row = part.project(block.attention_norm(x))
        if cos is not None and sin is not None:  # x · cos + (x with its halves swapped) · sin
            row = torch.addcmul(row * cos, row.index_select(1, layers.swapped), sin)
        query, key, value = row.split(part.sizes, 1)
        room.key.select(2, place).copy_(key.view(1, part.kv_heads, -1))
        room.value.select(2, place).copy_(value.view(1, part.kv_heads, -1))
        context = F.scaled_dot_product_attention(
            query.view(1, part.kv_heads, part.heads // part.kv_heads, -1),
            room.key.narrow(2, 0, place + 1),
            room.value.narrow(2, 0, place + 1),
        ).reshape(1, -1)
        x = x + part.out(context)
        x = x + wide.narrow(wide.between(wide.widen(block.feed_forward_norm(x))))
    return layers.norm(x)
