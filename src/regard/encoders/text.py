"""Text to a memory: a contextual vector for each token.

    recurrent     →h_t = f(x_t, →h_{t−1}),   ←h_t = f(x_t, ←h_{t+1}),   memory_t = [→h_t; ←h_t]
    transformer   N blocks of self-attention and feed-forward over x_1 … x_S

Recurrent, both directions: Schuster and Paliwal 1997, as the annotations of Bahdanau et al. 2014, section 3.2
(arXiv:1409.0473). Transformer: Vaswani et al. 2017, section 3.1 (arXiv:1706.03762), with norms first by default.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.errors import CallError
from regard.layers.embedding import Embedding
from regard.layers.feed_forward import Dropout, NormKind, norm
from regard.layers.recurrent import Cell, Recurrent
from regard.layers.transformer import Block, apply_blocks


class RecurrentEncoder(Recurrent):
    """Embedded tokens through recurrent layers, see `layers/recurrent.py`; `width` is that of the memory."""

    def __init__(
        self,
        embedding: Embedding,
        width: int,
        *,
        cell: Cell = "gru",
        depth: int = 1,
        bidirectional: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            embedding.width_out, width, cell=cell, depth=depth, bidirectional=bidirectional, dropout=dropout
        )
        self.embedding = embedding
        self.memory_width = self.summary_width = width

    def forward(self, tokens: Int[Tensor, "B S"], pad: int = 0) -> Memory:  # pyright: ignore[reportIncompatibleMethodOverride]
        mask = tokens != pad  # (B, S)
        states, last = super().forward(self.embedding(tokens), mask)  # (B, S, D), (B, D)
        return Memory(states, mask, last)


class TransformerEncoder(nn.Module):
    """Blocks of self-attention over embedded tokens. The summary is the mean of the memory's vectors."""

    def __init__(self, embedding: Embedding, layers: list[Block], *, final_norm: NormKind | None = "layer") -> None:
        """`final_norm`: blocks with norms first leave their sum without one, so it follows the last of them."""
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(block.placed("encoder", number) for number, block in enumerate(layers))
        width = layers[0].width if layers else embedding.width_out
        self.memory_width = self.summary_width = width
        self.enter = nn.Linear(embedding.width_out, width) if embedding.width_out != width else nn.Identity()
        self.norm = nn.Identity() if final_norm is None else norm(width, final_norm)

    def forward(self, tokens: Int[Tensor, "B S"], pad: int = 0) -> Memory:
        mask = tokens != pad  # (B, S)
        x = self.enter(self.embedding(tokens))  # (B, S, D)
        x = self.norm(apply_blocks(self.layers, x, mask))  # (B, S, D)
        return Memory(x, mask, masked_mean(x, mask))


def masked_mean(x: Float[Tensor, "B K D"], mask: Bool[Tensor, "B K"]) -> Float[Tensor, "B D"]:
    """Return the mean over the unmasked of K vectors; zero where there is none."""
    there = mask.unsqueeze(2).to(x.dtype)  # (B, K, 1)
    return (x * there).sum(1) / there.sum(1).clamp(min=1)


SPREAD = 0.02  # standard deviation of fresh weights, as in BERT


class Bert(nn.Module):
    """A bidirectional encoder (BERT): text, or a pair of texts, to a memory.

        x_t = norm(E[y_t] + position_t + segment[type_t]);    N blocks of self-attention;    summary = tanh(W x_0 +
        b)

    Devlin et al. 2018, "BERT", section 3 (arXiv:1810.04805): post-norm blocks, exact GELU, learned positions, a
    vector for each segment (question and document, first and second sentence), and a pooled vector of the first
    token, [CLS]. Each of these is an argument, so that other encoders (norms first, sinusoidal positions, no
    segments) are the same class. Without a pooler the summary is the mean of the memory's vectors.
    """

    def __init__(
        self,
        embedding: Embedding,
        layers: list[Block],
        *,
        embedding_norm: nn.Module | None = None,
        final_norm: nn.Module | None = None,
        token_types: int = 0,
        pooler: bool = False,
        dropout: float = 0.0,
    ) -> None:
        """
        embedding        words and positions; its dropout should be 0, as dropout follows types and norm
        embedding_norm   of the sum of words, positions and types
        final_norm       after the last block, for blocks with norms first
        token_types      number of segment types with a vector; 0: no types
        """
        super().__init__()
        width = layers[0].width
        self.embedding = embedding
        self.types = nn.Embedding(token_types, width) if token_types else None
        self.embedding_norm = embedding_norm or nn.Identity()
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(block.placed("encoder", number) for number, block in enumerate(layers))
        self.norm = final_norm or nn.Identity()
        self.pooler = nn.Linear(width, width) if pooler else None
        if embedding.pad is None:
            raise ValueError("an encoder needs an id for padding, to mask it in attention")
        self.pad = embedding.pad
        self.memory_width = self.summary_width = width
        self._reset_parameters()

    def forward(self, tokens: Int[Tensor, "B S"], types: Int[Tensor, "B S"] | None = None) -> Memory:
        """`types`: the segment of each token; all 0 by default."""
        mask = tokens != self.pad  # (B, S)
        x = self.embedding(tokens)  # (B, S, D)
        if self.types is not None:
            x = x + (self.types.weight[0] if types is None else self.types(types))
        elif types is not None:
            raise ValueError("this encoder was built without token_types: remove types")
        x = self.dropout(self.embedding_norm(x))
        x = self.norm(apply_blocks(self.layers, x, mask))
        return Memory(x, mask, masked_mean(x, mask) if self.pooler is None else self.pool(x))

    def pool(self, vectors: Float[Tensor, "B S D"]) -> Float[Tensor, "B D"]:
        assert self.pooler is not None
        return torch.tanh(self.pooler(vectors[:, 0]))

    def freeze(self, layers: int) -> None:
        """Freeze the first `layers` layers and the embeddings."""
        for part in (self.embedding, self.types, self.embedding_norm, *self.layers[:layers]):
            if part is not None:
                part.requires_grad_(False)

    @torch.no_grad()
    def _reset_parameters(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=SPREAD)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        self.embedding.table.weight[self.pad].zero_()


# Two inputs in one memory: the vectors of both are concatenated, and may attend to each other.
#
#     x = [a_1 + u; …; a_K + u; b_1 + v; …; b_S + v]            memory = norm(blocks(x))
#
# a and b are what two encoders made of a picture and a question; u and v are learned to distinguish the vectors of
# one from those of the other. As ViLT (Kim et al. 2021, section 3.1, arXiv:2102.03334), whose words come first.
# Without blocks the memory is x itself, and what attends to it is the first that sees both.
#
# The summary is the mean of the memory; without blocks, which make one of two, it is both summaries concatenated, so
# that a decoder begins with the whole question.
#
# Any decoder can attend to this memory: it makes no difference which vectors are regions and which are words.


@dataclass(frozen=True)
class JointMemory:
    """The inputs of two encoders."""

    first: Any
    second: Any

    def to(self, device: torch.device | str) -> "JointMemory":
        return JointMemory(self.first.to(device), self.second.to(device))


class JointEncoder(nn.Module):
    def __init__(
        self, first: Any, second: Any, layers: Sequence[Block] = (), *, final_norm: NormKind | None = None
    ) -> None:
        """`first` and `second` make a `Memory` each, of one width (`memory_width`).

        `final_norm`: blocks with norms first leave their sum without one, so it follows the last of them."""
        super().__init__()
        widths = [encoder.memory_width for encoder in (first, second)]
        if widths[0] != widths[1]:
            raise CallError(f"vectors of width {widths[0]} and of width {widths[1]} do not fit; use the same width")
        self.first, self.second = first, second
        self.memory_width = widths[0]
        self.summary_width = widths[0] if layers else first.summary_width + second.summary_width
        self.kinds = nn.Parameter(torch.randn(2, widths[0]) * 0.02)
        self.vectors = nn.Identity()  # what gradients by the input are taken of
        self.layers = nn.ModuleList(block.placed("encoder", number) for number, block in enumerate(layers))
        self.norm = norm(widths[0], final_norm) if layers and final_norm is not None else nn.Identity()

    def forward(self, source: JointMemory) -> Memory:
        memories = (self.first(source.first), self.second(source.second))
        x = torch.cat([one.vectors + kind for one, kind in zip(memories, self.kinds, strict=True)], dim=1)  # (B, K, D)
        mask = torch.cat([_mask(one) for one in memories], dim=1)  # (B, K), K = K1 + K2
        if memories[0].mask is not None:  # padding between the two goes to the end, as everywhere
            order = mask.logical_not().int().argsort(dim=1, stable=True)
            x, mask = x.gather(1, order.unsqueeze(2).expand_as(x)), mask.gather(1, order)
        x = self.vectors(x)
        if not self.layers:
            return Memory(x, mask, torch.cat([one.summary for one in memories], dim=1))
        x = self.norm(apply_blocks(self.layers, x, mask))
        return Memory(x, mask, masked_mean(x, mask))


def _mask(memory: Memory) -> Bool[Tensor, "B K"]:
    return memory.vectors.new_ones(memory.vectors.shape[:2], dtype=torch.bool) if memory.mask is None else memory.mask
