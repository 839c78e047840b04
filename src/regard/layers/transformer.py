"""The Transformer block: attention and feed-forward, each with a residual connection.

    norm first   x ← x + f(norm(x))        Xiong et al. 2020 (arXiv:2002.04745): easier to train; needs a final norm
    norm last    x ← norm(x + f(x))        Vaswani et al. 2017, section 3.1 (arXiv:1706.03762)

    f, in this order:  self-attention (causal or not),  cross-attention to a memory (optional),  feed-forward

One block serves encoders, decoders, language models and images.
"""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.cache import KeyValue, PreallocatedCache
from regard.attention.memory import Memory
from regard.attention.role import Role
from regard.layers.block_parts import BlockParts


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
