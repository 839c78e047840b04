"""Steps of a decoder without memory for a single text: the same numbers, with little cost beside reading the weights.

With one row, every matrix is read from memory for one vector. A step costs little else, so overhead matters: the
modules around the products can take half of the time of a small model's step. So the parts of all layers are looked up
once and used without their modules: by one call for all blocks (`kernels/single.c`), or by torch without kernels, which
is also the reference in the tests.

    positions   one angle for all layers, computed once a step; queries, keys and values are rotated as one row
    cache       a step writes its key and value into the buffers
    heads       that share a key are queries to it: one call of the fused kernel, without copies, masks or checks

`prepare` returns None for blocks that do not support this. Steps with gradients or recorded attention are excluded.
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
    """All blocks as an array for the kernel, the final norm, and the tensors that they point to."""

    layers: "ctypes.Array[inference.KernelLayer]"
    norm: inference.Norm | None
    sizes: tuple[int, ...]
    tensors: list[list[Tensor]]
    found: list[
        tuple[Tensor, Any, Any]
    ]  # at most one entry: keys of the first layer, and pointers to keys and values of all layers


class Layers(NamedTuple):
    blocks: tuple[Block, ...]
    norm: nn.Module  # after the last block
    rotary: Rotary | None
    compiled: Compiled | None
    hooks: tuple[Mapping[int, Any], ...]  # pre-hooks of `out` in each block: a masked head has one
    swapped: Int[Tensor, " E"]  # partner of each feature of a query or key in its rotation; of a value, the feature


def prepare(blocks: Sequence[Block], norm: nn.Module) -> Layers | None:
    """Return the layers, or None if a block is not supported.

    Blocks must have norms first, no memory, the scaled dot product, and positions that are rotary or outside of
    attention; they must not be in training.
    """
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
    """Return the blocks for the kernel; None without kernels for these layers."""
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
    """Return pointers to the keys and values of each layer. They are valid until a text outgrows its buffers.

    Other threads use the same layers with other buffers, so the cached result is replaced as a whole.
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
    """Return the number of the activation in single.c."""
    if wide.gated:
        return GATED
    return next((number for number, one in enumerate(FUNCTIONS.values()) if one is wide.activation), None)


def _turns(rotary: Rotary, place: int, layers: Layers, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosine and sine for each feature of a row of queries, keys and values; values are not rotated."""
    part = layers.blocks[0].attention
    heads, values = part.heads + part.kv_heads, like.new_zeros(part.sizes[2])
    cos, sin = rotary.at(place).to(like.dtype)
    cos, sin = torch.cat([cos, cos]).repeat(heads), torch.cat([-sin, sin]).repeat(heads)  # negative in the first half
    return torch.cat([cos, values + 1.0]), torch.cat([sin, values])


def has_room(rooms: Sequence[object]) -> bool:
    """Return whether these are buffers with a free position that no other state uses."""
    room = rooms[0]
    return isinstance(room, PreallocatedCache) and room.written[0] == room.length < room.key.shape[-2]


@torch.no_grad()
def step(
    layers: Layers, x: Float[Tensor, "1 D"], rooms: Sequence[PreallocatedCache]
) -> tuple[Float[Tensor, "1 D"], tuple[PreallocatedCache, ...]]:
    """Run one step through all blocks and the final norm; x is the embedded token and may be overwritten."""
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
