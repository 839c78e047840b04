"""Text into a memory: a vector for each token that knows its neighbours.

    recurrent     →h_t = f(x_t, →h_{t−1}),   ←h_t = f(x_t, ←h_{t+1}),   memory_t = [→h_t; ←h_t]
    transformer   N blocks of self-attention and feed-forward over x_1 … x_S

Recurrent, both directions: Schuster and Paliwal 1997, as the annotations of Bahdanau et al. 2014, section 3.2
(arXiv:1409.0473). Transformer: Vaswani et al. 2017, section 3.1 (arXiv:1706.03762), with norms first by default.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.errors import CallError
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.norm import NormKind, norm
from regard.layers.transformer import Block

Cell = Literal["gru", "lstm"]


class RecurrentEncoder(nn.Module):
    """GRU or LSTM, one direction or two, any depth. `width` is that of the memory: two directions have half of it each.

    The summary is the last state of each direction: the forward one at the last token, the backward one at the first.

    Padding stands at the end, where the forward direction meets it after all that is real. For the backward direction
    each row is turned round within its own length. Packed sequences give the same, but train more slowly on a CPU (a
    layer of width 256, one measurement: GRU 1.6 times, LSTM 1.3 times).
    """

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
        super().__init__()
        if bidirectional and width % 2:
            raise CallError(f"encoder width={width} must be even: two directions have half of it each")
        self.embedding = embedding
        self.memory_width = self.summary_width = width
        kind = nn.GRU if cell == "gru" else nn.LSTM
        own = width // 2 if bidirectional else width
        inputs = [embedding.width_out] + [width] * (depth - 1)
        self.ahead = nn.ModuleList(kind(n, own, batch_first=True) for n in inputs)
        self.back = nn.ModuleList(kind(n, own, batch_first=True) for n in inputs if bidirectional)
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Int[Tensor, "B S"], pad: int = 0) -> Memory:
        mask = tokens != pad
        lengths = mask.sum(1).clamp(min=1)
        turned = _turned_round(lengths, tokens.shape[1])
        x = self.embedding(tokens)
        for layer, ahead in enumerate(self.ahead):
            x = x if layer == 0 else self.dropout(x)
            y = ahead(x)[0]
            if self.back:
                y = torch.cat([y, _reorder(self.back[layer](_reorder(x, turned))[0], turned)], dim=-1)
            x = y
        last = _reorder(x, (lengths - 1).unsqueeze(1)).squeeze(1)
        if self.back:
            own = self.memory_width // 2
            last = torch.cat([last[:, :own], x[:, 0, own:]], dim=-1)
        return Memory(x, mask, last)


class TransformerEncoder(nn.Module):
    """Blocks of self-attention over embedded tokens. The summary is the mean of the memory's vectors."""

    def __init__(self, embedding: Embedding, layers: list[Block], *, final_norm: NormKind | None = "layer") -> None:
        """`final_norm`: blocks with norms first leave their sum without one, so it follows the last of them."""
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)
        width = layers[0].width if layers else embedding.width_out
        self.memory_width = self.summary_width = width
        self.enter = nn.Linear(embedding.width_out, width) if embedding.width_out != width else nn.Identity()
        self.norm = nn.Identity() if final_norm is None else norm(width, final_norm)

    def forward(self, tokens: Int[Tensor, "B S"], pad: int = 0) -> Memory:
        mask = tokens != pad
        x = self.enter(self.embedding(tokens))
        for block in self.layers:
            x = block(x, mask=mask)
        x = self.norm(x)
        return Memory(x, mask, masked_mean(x, mask))


def masked_mean(x: Float[Tensor, "B K D"], mask: Bool[Tensor, "B K"]) -> Float[Tensor, "B D"]:
    """Mean over the K vectors that are there; zero where none is."""
    there = mask.unsqueeze(2).to(x.dtype)
    return (x * there).sum(1) / there.sum(1).clamp(min=1)


def _turned_round(lengths: Int[Tensor, " B"], size: int) -> Int[Tensor, "B S"]:
    """Indices that reverse the first `lengths` places of each row and leave the others where they are."""
    place = torch.arange(size, device=lengths.device)
    mirror = lengths.unsqueeze(1) - 1 - place
    return torch.where(mirror >= 0, mirror, place)


def _reorder(x: Float[Tensor, "B S D"], index: Int[Tensor, "B M"]) -> Float[Tensor, "B M D"]:
    return x.gather(1, index.unsqueeze(2).expand(-1, -1, x.shape[2]))
