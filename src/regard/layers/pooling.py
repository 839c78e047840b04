"""Pooling: many vectors into one.

    mean        c = Σ_i h_i / K
    max         c_d = max_i h_id                       Collobert et al. 2011, section 3.3.2 (arXiv:1103.0398)
    summary     the encoder's own summary: BERT's pooler, if it has one
    cls, last   the vector of the first token, which represents all of them: Devlin et al. 2018 (arXiv:1810.04805),
                section 3; the last state of a recurrent encoder, of each direction
    attention   c = Σ_i a_i h_i,   a = softmax over i of score(q, h_i)     with one learned query q: Yang et al. 2016,
                "Hierarchical Attention Networks", eq. 5 to 7 (aclanthology.org/N16-1174), by any score

Yang et al. score by qᵀ tanh(W h_i + b); `additive` is wᵀ tanh(W_q q + W h_i), the same up to names: a constant query
gives the bias, and w is their query. Padding is ignored in all of them, and no vector at all gives zeros.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.layer import Attention
from regard.attention.memory import Memory
from regard.attention.score import Role, Score

Kind = Literal["mean", "max", "cls", "last", "summary"]


class Pooling(nn.Module):
    """Pooling without parameters. `last` and `summary` are the memory's own summary."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, memory: Memory) -> Float[Tensor, "B D"]:
        x, mask = memory.vectors, memory.mask
        if self.kind in ("last", "summary"):
            return memory.summary
        if self.kind == "cls":
            return x[:, 0]
        mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
        return _mean(x, mask) if self.kind == "mean" else _max(x, mask)


class AttentionPooling(nn.Module):
    """One learned query attends to all vectors."""

    def __init__(self, score: Score, width: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(width))
        self.attention = Attention(score, width, width)
        self.attention.role = Role("pooling")
        nn.init.normal_(self.query, std=width**-0.5)

    def forward(self, memory: Memory) -> Float[Tensor, "B D"]:
        query = self.query.expand(memory.vectors.shape[0], 1, -1)
        mask = None if memory.mask is None else memory.mask.unsqueeze(1)
        return self.attention(query, memory.vectors, mask).squeeze(1)


class Attended(nn.Module):
    """Self-attention of the vectors, C = attend(H, H, H), before C is pooled.

    The attention layer of the lectures' Keras example, between the LSTM and the pooling: queries, keys and values are
    the states themselves, and only the score has parameters.
    """

    def __init__(self, attention: Attention, pooling: nn.Module) -> None:
        super().__init__()
        self.own, self.pooling = attention, pooling
        self.own.role = Role("encoder")

    def forward(self, memory: Memory) -> Float[Tensor, "B D"]:
        mask = None if memory.mask is None else memory.mask.unsqueeze(1)
        vectors = self.own(memory.vectors, memory.vectors, mask)
        return self.pooling(Memory(vectors, memory.mask, memory.summary, memory.grid))


def attends(pooling: nn.Module) -> bool:
    """Whether this pooling uses attention."""
    return isinstance(pooling.pooling if isinstance(pooling, Attended) else pooling, AttentionPooling)


def _mean(x: Float[Tensor, "B K D"], mask: Bool[Tensor, "B K"]) -> Float[Tensor, "B D"]:
    there = mask.unsqueeze(2).to(x.dtype)
    return (x * there).sum(1) / there.sum(1).clamp(min=1)


def _max(x: Float[Tensor, "B K D"], mask: Bool[Tensor, "B K"]) -> Float[Tensor, "B D"]:
    hidden = x.masked_fill(~mask.unsqueeze(2), torch.finfo(x.dtype).min)
    return hidden.amax(1).masked_fill(~mask.any(1, keepdim=True), 0)
