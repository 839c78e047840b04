"""The Transformer block: attention and feed-forward, each with a residual connection.

    norm first   x ← x + f(norm(x))        Xiong et al. 2020 (arXiv:2002.04745): easier to train; needs a final norm
    norm last    x ← norm(x + f(x))        Vaswani et al. 2017, section 3.1 (arXiv:1706.03762)

    f, in this order:  self-attention (causal or not),  cross-attention to a memory (optional),  feed-forward

One block serves encoders, decoders, language models and images.
"""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.memory import KeyValue, Memory, PreallocatedCache
from regard.attention.multihead import MultiHead, plain
from regard.attention.positions import Alibi, RelativeBias, Rotary
from regard.attention.score import Role, Score
from regard.attention.trace import tracing
from regard.kernels import gradients, inference
from regard.kernels.inference import apply_norm
from regard.kernels.training import Texts
from regard.layers.feed_forward import Activation, Dropout, FeedForward, NormKind, norm
from regard.layers.packed import has_active_hooks, linear


class BlockParts(nn.Module):
    """The parts of a Transformer block: its attentions, norms and feed-forward, with their sizes.

    See `transformer` for the equations.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        feed_forward: int,
        *,
        cross: bool = False,
        memory_width: int | None = None,
        norm_first: bool = True,
        norm_kind: NormKind = "layer",
        norm_eps: float | None = None,
        bias: bool = True,
        activation: Activation = "relu",
        gated: bool = False,
        dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        attention_dropout: float = 0.0,
        kv_heads: int | None = None,
        score: Callable[[int], Score] | None = None,
        rotary: Rotary | None = None,
        relative: Alibi | RelativeBias | None = None,
    ) -> None:
        """
        cross          also attend to a memory, of width `memory_width` (`width` if not given)
        norm_eps       ε of the norms, if not the default
        bias           whether linear maps and layer norms have one
        dropout        of the output of each f, as in the paper; torch's layers also have `hidden_dropout`,
                       inside the feed-forward, and `attention_dropout`, of attention's weights
        score          returns a score for vectors of a head's width; called once for each attention of the block
        rotary, relative   positions for the self-attention
        """
        super().__init__()
        self.width, self.norm_first = width, norm_first

        def attention(of_memory: int | None) -> MultiHead:
            own = of_memory is None
            return MultiHead(
                width,
                heads,
                memory_width=of_memory,
                kv_heads=kv_heads,
                score=None if score is None else score(width // heads),
                bias=bias,
                dropout=attention_dropout,
                rotary=rotary if own else None,
                relative=relative if own else None,
            )

        def own_norm() -> nn.Module:
            return norm(width, norm_kind, eps=norm_eps, bias=bias)

        self.attention = attention(None)
        self.attention_norm = own_norm()
        self.cross = attention(memory_width or width) if cross else None
        self.cross_norm = own_norm() if cross else None
        self.feed_forward = FeedForward(
            width, feed_forward, activation=activation, gated=gated, bias=bias, dropout=hidden_dropout
        )
        self.feed_forward_norm = own_norm()
        self.dropout = Dropout(dropout)


class Block(BlockParts):
    """Built with the arguments of `BlockParts`."""

    def placed(self, side: Literal["encoder", "decoder"], layer: int) -> "Block":
        """Set the roles of this block's attentions: side and layer."""
        self.attention.role = Role(side, layer)
        if self.cross is not None:
            self.cross.role = Role("cross", layer)
        return self

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        memory: Memory | None = None,
    ) -> Float[Tensor, "B T D"]:
        """`mask` (True = may attend): real vectors of x, `B T`, or keys that each query may attend to, `B T T`."""
        x = self.around(self.attention_norm, x, lambda y: self.attention(y, mask=mask, causal=causal))
        if self.cross is not None and self.cross_norm is not None:
            cross, vectors, real = self.cross, *_parts(memory)
            x = self.around(self.cross_norm, x, lambda y: cross(y, vectors, real))
        return self.around(self.feed_forward_norm, x, self.feed_forward)

    def step(
        self,
        x: Float[Tensor, "N T D"],
        past: KeyValue | PreallocatedCache | None,
        memory: KeyValue | None = None,
        memory_mask: Bool[Tensor, "B K"] | None = None,
    ) -> tuple[Float[Tensor, "N T D"], KeyValue | PreallocatedCache]:
        """Process the next T positions (usually one) after `past`; the memory is from `cross.project_memory`."""
        kept: list[KeyValue | PreallocatedCache] = []

        def attend_to_past(y: Tensor) -> Tensor:
            out, now = self.attention.step(y, past)
            kept.append(now)
            return out

        x = self.around(self.attention_norm, x, attend_to_past)
        if self.cross is not None and self.cross_norm is not None:
            cross = self.cross
            x = self.around(self.cross_norm, x, lambda y: cross(y, memory, memory_mask))
        return self.around(self.feed_forward_norm, x, self.feed_forward), kept[0]

    def around(self, norm: nn.Module, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return self.dropout.added(x, f(norm(x)))
        return norm(self.dropout.added(x, f(x)))


def _parts(memory: Memory | None) -> tuple[Tensor, Tensor | None]:
    if memory is None:
        raise ValueError("this block was built with cross=True: pass a memory")
    return memory.vectors, memory.mask


# A stack of self-attention blocks, as in all Transformer encoders.
#
#     x ← block_N( … block_1(x) … )
#
# In prediction on a CPU with compiled kernels (`native`), sequences of a few dozen vectors take a faster path to the
# same numbers: only the real vectors, concatenated without padding, with packed weights. Masked positions of the
# output are zero then.

LONGEST = 256  # vectors; for longer sequences torch's fused kernel is faster


class Sentences(NamedTuple):
    """Location of the keys of each row, in a batch without padding."""

    sizes: Int[Tensor, " S"]  # rows of each sentence
    first: Int[Tensor, " N"]  # first tile of the sentence of each row
    keys: Int[Tensor, " N"]  # number of keys of that sentence


def apply_blocks(
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
    if torch.is_grad_enabled() or tracing() or not 0 < x.shape[1] <= LONGEST or not inference.available(x):
        return False
    return not any(
        block.training or block.cross is not None or not plain(block.attention) or _has_hooks(block) for block in blocks
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
            or _has_hooks(block)
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


def _has_hooks(block: Block) -> bool:
    return any(map(has_active_hooks, block.modules()))


def _without_padding(
    blocks: list[Block], x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"] | None
) -> Float[Tensor, "B T D"]:
    rows = x.flatten(0, 1).clone() if mask is None else x[mask]
    count = (torch.full((x.shape[0],), x.shape[1]) if mask is None else mask.sum(1)).int()
    tiles = inference.tiles_for(count)
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
    y = apply_norm(block.attention_norm, x) if block.norm_first else x
    query, key, value = linear(attention.project, y).split(block.width, 1)
    tiles = inference.tiles_of(key, value, sentences.sizes)
    context = inference.attend_tiles(query, tiles, attention.heads, sentences.first, sentences.keys)
    x = linear(attention.out, context, out=x, add=True)
    x = x if block.norm_first else apply_norm(block.attention_norm, x)
    y = apply_norm(block.feed_forward_norm, x) if block.norm_first else x
    x = linear(wide.narrow, wide.hidden_layer(y), out=x, add=True)
    return x if block.norm_first else apply_norm(block.feed_forward_norm, x)
