"""Attention with scores of the dot form, for texts that are short: a sentence, not a page.

    a = softmax(scale · q kᵀ + bias),        c = a v
    ∂v = aᵀ ∂c,    ∂e = a · (∂c vᵀ − Σ_j a_j (∂c vᵀ)_j),    ∂q = scale · ∂e k,    ∂k = scale · ∂eᵀ q

FlashAttention goes through the table of scores in blocks, so that it need not be kept. The table of a sentence is
smaller than a block, and most of the kernel's time is spent around it. Here each line of the equation is one operation
on all sentences and heads of a batch. Queries that may attend to nothing get zeros, in value and in gradient.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

SHORTEST = 16  # keys; fewer are filled up, since torch's softmax is several times slower for rows below 16
LONGEST = 32  # queries and keys; above, flash attention is as fast
FEWEST = 128  # sentences times heads; below, flash attention is as fast


def is_short(
    query: Float[Tensor, "B H Q D"], key: Float[Tensor, "B Hkv K D"], bias: Tensor | None, dropout: float
) -> bool:
    """Whether this kernel is for them: on a CPU, in full precision, each head with keys of its own."""
    return (
        query.device.type == "cpu"
        and query.dtype in (torch.float32, torch.float64)
        and query.shape[:2] == key.shape[:2]
        and query.shape[:2].numel() >= FEWEST
        and 1 < query.shape[2] <= LONGEST
        and 0 < key.shape[2] <= LONGEST
        and not (bias is not None and bias.requires_grad)
        and dropout == 0.0
        and not torch.compiler.is_compiling()
    )


def short_dot_attention(
    query: Float[Tensor, "B H Q D"],
    key: Float[Tensor, "B H K D"],
    value: Float[Tensor, "B H K D"],
    bias: Float[Tensor, "#B #H #Q #K"] | None,
    scale: float,
) -> Float[Tensor, "B H Q D"]:
    """`bias` is −∞ where a query may not attend."""
    if (missing := SHORTEST - key.shape[2]) > 0:
        if bias is None:
            bias = query.new_zeros(1, 1, 1, key.shape[2])
        bias = F.pad(bias, (0, missing), value=-torch.inf)
        key, value = F.pad(key, (0, 0, 0, missing)), F.pad(value, (0, 0, 0, missing))
    rows = [x.reshape(-1, *x.shape[2:]) for x in (query, key, value)]
    return _ShortDot.apply(*rows, bias, scale, query.shape[1]).view(*query.shape[:3], -1)


class _ShortDot(torch.autograd.Function):
    """B and H as one dimension, N."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scale: float, heads: int
    ) -> Tensor:
        table = torch.baddbmm(query.new_empty(()), query, key.mT, beta=0, alpha=scale)
        if bias is None:
            torch.softmax(table, -1, out=table)
        else:
            table.unflatten(0, (-1, heads)).add_(bias)
            torch.softmax(table, -1, out=table)
            if (nothing := bias.isneginf().all(-1, keepdim=True)).any():
                table.unflatten(0, (-1, heads)).masked_fill_(nothing, 0.0)
        ctx.save_for_backward(query, key, value, table)
        ctx.scale = scale
        return table @ value

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  (once_differentiable hides the names)
        ctx: Any, *gradients: Tensor
    ) -> tuple[Tensor | None, ...]:
        gradient = gradients[0]
        query, key, value, weights = ctx.saved_tensors
        by_score = torch._softmax_backward_data(gradient @ value.mT, weights, -1, weights.dtype).mul_(ctx.scale)
        return by_score @ key, by_score.mT @ query, weights.mT @ gradient, None, None, None
