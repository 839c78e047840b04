"""A stack of self-attention blocks, as in all Transformer encoders.

    x ← block_N( … block_1(x) … )

In prediction on a CPU with compiled kernels (`native`), sequences of a few dozen vectors take a faster path to the same
numbers: only the real vectors, concatenated without padding, with packed weights. Masked positions of the output are
zero then.
"""

from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.multihead import MultiHead
from regard.attention.trace import tracing
from regard.attention.trained import plain
from regard.layers.packed import linear, listened
from regard.layers.transformer import Block
from regard.native import gradients, kernels
from regard.native.norms import normed
from regard.native.training import Texts

LONGEST = 256  # vectors; for longer sequences torch's fused kernel is faster


class Sentences(NamedTuple):
    """Location of the keys of each row, in a batch without padding."""

    sizes: Int[Tensor, " S"]  # rows of each sentence
    first: Int[Tensor, " N"]  # first tile of the sentence of each row
    keys: Int[Tensor, " N"]  # number of keys of that sentence


def through(
    blocks: Iterable[nn.Module], x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"] | None = None
) -> Float[Tensor, "B T D"]:
    layers = [cast(Block, block) for block in blocks]
    if layers and _suits(layers, x):
        return _without_padding(layers, x, mask)
    if layers and mask is not None and _trains(layers, x, mask):
        return _trained_without_padding(layers, x, mask)
    for block in layers:
        x = block(x, mask=mask)
    return x


def _suits(blocks: list[Block], x: Float[Tensor, "B T D"]) -> bool:
    if torch.is_grad_enabled() or tracing() or not 0 < x.shape[1] <= LONGEST or not kernels.available(x):
        return False
    return not any(
        block.training or block.cross is not None or not plain(block.attention) or _hooked(block) for block in blocks
    )


def _trains(blocks: list[Block], x: Float[Tensor, "B T D"], mask: Tensor) -> bool:
    """Whether the training kernels support everything between the norms."""
    if (
        not x.is_cuda
        and mask.shape == x.shape[:2]
        and not tracing()
        and gradients.attends(x, None, blocks[0].attention.heads)
    ):
        return not any(
            not block.training
            or block.cross is not None
            or not plain(block.attention)
            or block.attention.dropout
            or _hooked(block)
            for block in blocks
        )
    return False


def _trained_without_padding(
    blocks: list[Block], x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]
) -> Float[Tensor, "B T D"]:
    """Apply the blocks to the real vectors only: the gradient of the others is zero anyway."""
    place, texts = mask.flatten().nonzero().squeeze(1), Texts.of(mask)
    rows = x.flatten(0, 1).index_select(0, place)
    for block in blocks:
        attention = block.attention

        def attend(y: Tensor, attention: MultiHead = attention) -> Tensor:
            context = gradients.attend(gradients.apply(attention.project, y), None, attention.heads, texts=texts)
            return gradients.apply(attention.out, context)

        rows = block.around(block.attention_norm, rows, attend)
        rows = block.around(block.feed_forward_norm, rows, block.feed_forward)
    return x.new_zeros(x.shape).flatten(0, 1).index_copy(0, place, rows).view(x.shape)


def _hooked(block: Block) -> bool:
    return any(map(listened, block.modules()))


def _without_padding(
    blocks: list[Block], x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"] | None
) -> Float[Tensor, "B T D"]:
    rows = x.flatten(0, 1).clone() if mask is None else x[mask]
    count = (torch.full((x.shape[0],), x.shape[1]) if mask is None else mask.sum(1)).int()
    tiles = kernels.tiles_for(count)
    first = (tiles.cumsum(0) - tiles).int()
    sentences = Sentences(count, *(part.repeat_interleave(count) for part in (first, count)))
    for block in blocks:
        rows = _block(block, rows, sentences)
    if mask is None:
        return rows.view(x.shape)
    result = torch.zeros_like(x)
    result[mask] = rows
    return result


def _block(block: Block, x: Float[Tensor, "N D"], sentences: "Sentences") -> Float[Tensor, "N D"]:
    """Apply the block to x in place."""
    attention, wide = block.attention, block.feed_forward
    y = normed(block.attention_norm, x) if block.norm_first else x
    query, key, value = linear(attention.project, y).split(block.width, 1)
    tiles = kernels.tiles_of(key, value, sentences.sizes)
    context = kernels.attend_tiles(query, tiles, attention.heads, sentences.first, sentences.keys)
    x = linear(attention.out, context, out=x, add=True)
    x = x if block.norm_first else normed(block.attention_norm, x)
    y = normed(block.feed_forward_norm, x) if block.norm_first else x
    x = linear(wide.narrow, wide.widened(y), out=x, add=True)
    return x if block.norm_first else normed(block.feed_forward_norm, x)
