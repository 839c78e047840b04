"""The general attention layer, built up step by step.

    one query                      c = attend(q, X, X)
    many queries                   C = attend(Q, X, X)
    separate keys and values       C = attend(Q, f_k(X), f_v(X))              the width of C is that of the values
    projected queries              C = attend(f_q(Y), f_k(X), f_v(X))         `Attention`; cross-attention if Y ≠ X
    queries from the input         C = attend(f_q(X), f_k(X), f_v(X))         `SelfAttention`
    nothing to learn               C = softmax(X Xᵀ / √d) X                   `self_attention`
    masked, many heads             see `masks` and `multihead`

f_q, f_k, f_v are linear, networks with a hidden layer (`hidden=`), or the identity (width None). Vaswani et al.
2017, section 3.2, arXiv:1706.03762, for the terms query, key and value; Xu et al. 2015, arXiv:1502.03044, and
Bahdanau et al. 2015, arXiv:1409.0473, for earlier layers of this kind.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.masks import masked_heads
from regard.attention.score import Role, Score
from regard.attention.scores import ScaledDot
from regard.attention.trace import tracing


def self_attention(x: Float[Tensor, "*b K D"], mask: Tensor | None = None) -> Float[Tensor, "*b K D"]:
    """Return softmax(X Xᵀ / √d) X: every vector becomes a weighted average of similar vectors."""
    context, _ = attend(ScaledDot(), x, x, x, mask)
    return context


def projection(width: int, out: int | None, hidden: int | None = None) -> nn.Module:
    """Return a linear layer, a network with one hidden layer if `hidden` is given, or the identity if `out` is None."""
    if out is None:
        return nn.Identity()
    if hidden is None:
        return nn.Linear(width, out, bias=False)
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out))


class Attention(nn.Module):
    """attend(f_q(x), f_k(memory), f_v(memory))

    query_width, memory_width    of the inputs
    key_width                    of f_q and f_k, as compared by the score; None: no f_q and f_k
    value_width                  of f_v and of the output; None: no f_v, the memory itself is averaged
    hidden                       of the networks f; None makes them linear
    """

    def __init__(
        self,
        score: Score,
        query_width: int,
        memory_width: int,
        key_width: int | None = None,
        value_width: int | None = None,
        *,
        hidden: int | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.score, self.dropout = score, dropout
        self.role: Role | None = None
        self.query = projection(query_width, key_width, hidden)
        self.key = projection(memory_width, key_width, hidden)
        self.value = projection(memory_width, value_width, hidden)

    def forward(
        self,
        x: Float[Tensor, "*b Q Dx"],
        memory: Float[Tensor, "*m K Dm"],
        mask: Tensor | None = None,
        *,
        causal: bool = False,
    ) -> Float[Tensor, "*b Q Dv"]:
        trace, value = tracing(), self.value(memory)
        context, weights = attend(
            self.score, self.query(x), self.key(memory), value, mask, causal=causal,
            dropout=self.dropout if self.training else 0.0, need_weights=trace is not None,
            check_finite=not self.training,
        )  # fmt: skip
        if trace is not None and weights is not None:
            trace.keep(self, weights, value)
        return torch.zeros_like(context) if masked_heads(self) else context


class CrossAttention(Attention):
    """Scaled dot attention of one sequence to another, with queries, keys and values of one width."""

    def __init__(self, query_width: int, memory_width: int, width: int, *, dropout: float = 0.0):
        super().__init__(ScaledDot(), query_width, memory_width, width, width, dropout=dropout)


class SelfAttention(nn.Module):
    """Attention of a sequence to itself: queries, keys and values are all made from x. One head; see `MultiHead`."""

    def __init__(self, width: int, *, score: Score | None = None, dropout: float = 0.0):
        super().__init__()
        self.attention = Attention(ScaledDot() if score is None else score, width, width, width, width, dropout=dropout)

    def forward(
        self, x: Float[Tensor, "*b K D"], mask: Tensor | None = None, *, causal: bool = False
    ) -> Float[Tensor, "*b K D"]:
        return self.attention(x, x, mask, causal=causal)
