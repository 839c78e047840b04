"""Text to a memory: a contextual vector for each token.

    recurrent     →h_t = f(x_t, →h_{t−1}),   ←h_t = f(x_t, ←h_{t+1}),   memory_t = [→h_t; ←h_t]
    transformer   N blocks of self-attention and feed-forward over x_1 … x_S

Recurrent, both directions: Schuster and Paliwal 1997, as the annotations of Bahdanau et al. 2014, section 3.2
(arXiv:1409.0473). Transformer: Vaswani et al. 2017, section 3.1 (arXiv:1706.03762), with norms first by default.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.layers.embedding import Embedding
from regard.layers.norm import NormKind, norm
from regard.layers.recurrent import Cell, Recurrent
from regard.layers.stack import through
from regard.layers.transformer import Block


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
        mask = tokens != pad
        states, last = super().forward(self.embedding(tokens), mask)
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
        mask = tokens != pad
        x = self.enter(self.embedding(tokens))
        x = self.norm(through(self.layers, x, mask))
        return Memory(x, mask, masked_mean(x, mask))


def masked_mean(x: Float[Tensor, "B K D"], mask: Bool[Tensor, "B K"]) -> Float[Tensor, "B D"]:
    """Return the mean over the unmasked of K vectors; zero where there is none."""
    there = mask.unsqueeze(2).to(x.dtype)
    return (x * there).sum(1) / there.sum(1).clamp(min=1)
