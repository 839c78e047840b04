"""The table of scores of the tanh form, without more memory than the table itself.

    e_ij = wᵀ tanh(q_i + k_j)

To inspect attention, the table Q×K is needed; the direct equation makes an intermediate tensor of Q×K×D, which autograd
keeps. Here, as in `streaming`, one tile of tanh values is computed at a time, and again for the gradient.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.masks import leading_shape
from regard.kernels import inference

# The tiling of `streaming` and `tanh_table`: blocks of rows and queries, spans of keys, and a tile of tanh values for
# each.
#
# Forward and backward visit the same blocks, with the same masks and the same dropout, which is sampled again from
# its seed.

# Elements in a tile of tanh values. On a CPU: four megabytes of float32, spread over the caches of the cores.
# Smaller tiles are no faster on one thread, and make several threads wait for each other more often. Elsewhere: enough
# work for one launch of a kernel.
TILE_ON_CPU, TILE_ELSEWHERE = 2**20, 2**25


class StreamBlock(NamedTuple):
    """Some rows of the batch and some of their queries."""

    rows: slice
    queries: slice

    def of(self, table: Tensor) -> Tensor:
        """Return the part of a table B×Q×K in the block; B and Q may be 1."""
        rows = self.rows if table.shape[0] > 1 else slice(None)
        queries = self.queries if table.shape[1] > 1 else slice(None)
        return table[rows, queries]


class StreamPlan:
    """The tiling of one call: forward and backward visit the same blocks, with the same masks and dropout."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        dropout: float = 0.0,
        seed: int = 0,
    ):
        (self.B, self.Q, D), self.K = query.shape, key.shape[1]
        pairs = max(1, (TILE_ON_CPU if query.device.type == "cpu" else TILE_ELSEWHERE) // D)
        self.keys = max(1, min(self.K, math.isqrt(2 * pairs)))
        self.queries = max(1, min(self.Q, pairs // self.keys))
        self.rows = max(1, min(self.B, pairs // (self.keys * self.queries)))
        self._tile: Tensor | None = None
        self.mask, self.causal, self.dropout = mask, causal, dropout
        self.generator = torch.Generator(query.device).manual_seed(seed) if dropout else None

    def blocks(self) -> Iterator[StreamBlock]:
        for row in range(0, self.B, self.rows):
            for query in range(0, self.Q, self.queries):
                yield StreamBlock(slice(row, row + self.rows), slice(query, query + self.queries))

    def spans(self) -> Iterator[slice]:
        for key in range(0, self.K, self.keys):
            yield slice(key, key + self.keys)

    def tanh(self, query: Tensor, key: Tensor) -> Tensor:
        """Return tanh(q_i + k_j) for a block of queries and a span of keys, always in the same buffer."""
        shape = (query.shape[0], query.shape[1], key.shape[1], key.shape[2])
        if self._tile is None:
            self._tile = query.new_empty(self.rows * self.queries * self.keys * query.shape[2])
        tile = self._tile[: query.shape[0] * query.shape[1] * key.shape[1] * key.shape[2]].view(shape)
        return torch.add(query.unsqueeze(2), key.unsqueeze(1), out=tile).tanh_()

    def table(self, query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
        """Return wᵀ tanh(q_i + k_j) for a block of queries with all keys."""
        if inference.available(query, key, weight):
            return inference.tanh_scores(query, key, weight)
        table = query.new_empty(*query.shape[:2], self.K)
        for span in self.spans():
            table[..., span] = self.tanh(query, key[:, span]) @ weight
        return table

    def finish(self, scores: Tensor, bias: Tensor | None, block: StreamBlock, span: slice = slice(None)) -> Tensor:
        """Add the bias, and −∞ where the queries may not attend, in place."""
        if bias is not None:
            scores += block.of(bias)[..., span]
        if self.mask is not None:
            scores.masked_fill_(~block.of(self.mask)[..., span], -torch.inf)
        if self.causal:
            last = torch.arange(self.Q, device=scores.device)[block.queries] + (self.K - self.Q)
            scores.masked_fill_(torch.arange(self.K, device=scores.device)[span] > last.unsqueeze(-1), -torch.inf)
        return scores

    def drop(self, weights: Tensor) -> Tensor:
        """Apply dropout to a block of weights: factors 0 or 1/(1 − p), the same in forward and backward."""
        if not self.dropout:
            return weights
        keep = 1 - self.dropout
        return torch.empty_like(weights).bernoulli_(keep, generator=self.generator).div_(keep).mul_(weights)


class TanhGradients:
    """Gradients summed over tiles, from the gradients de of the scores; without the factor w for queries and keys."""

    def __init__(self, query: Tensor, key: Tensor, weight: Tensor):
        self.query, self.key, self.weight = map(torch.zeros_like, (query, key, weight))

    def add(self, block: StreamBlock, span: slice, tanh: Tensor, d_scores: Tensor) -> None:
        """Add the gradients of one tile, which is overwritten by de · t²."""
        self.weight += d_scores.flatten() @ tanh.flatten(0, 2)
        tanh.square_().mul_(d_scores.unsqueeze(-1))
        self.query[block] += d_scores.sum(2).unsqueeze(-1) - tanh.sum(2)
        self.key[block.rows, span] += d_scores.sum(1).unsqueeze(-1) - tanh.sum(1)


def flat(x: Tensor, lead: torch.Size) -> Tensor:
    """Broadcast the leading dimensions to `lead` and flatten them to one."""
    return x.expand(*lead, *x.shape[-2:]).reshape(-1, *x.shape[-2:])


def flat_table(x: Tensor, lead: torch.Size, K: int) -> Tensor:
    """Do the same for a mask or a bias; a leading size of 1 stays 1."""
    x = x.expand(*x.shape[:-2], x.shape[-2], K)
    return flat(x, lead) if x.shape[:-2].numel() > 1 else x.reshape(1, *x.shape[-2:])


def tanh_table(
    query: Float[Tensor, "*#b Q D"], key: Float[Tensor, "*#b K D"], weight: Float[Tensor, " D"]
) -> Float[Tensor, "*b Q K"]:
    lead = leading_shape(query, key)
    query, key = flat(query, lead), flat(key, lead)
    if not torch.is_grad_enabled() and inference.available(query, key, weight):
        table = inference.tanh_scores(query, key, weight)
    else:
        table = _TanhTable.apply(query, key, weight)
    return table.reshape(*lead, query.shape[-2], key.shape[-2])


class _TanhTable(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, query: Float[Tensor, "B Q D"], key: Float[Tensor, "B K D"], weight: Float[Tensor, " D"]
    ) -> Float[Tensor, "B Q K"]:
        plan = StreamPlan(query, key)
        table = query.new_empty(plan.B, plan.Q, plan.K)
        for rows, queries in plan.blocks():
            table[rows, queries] = plan.table(query[rows, queries], key[rows], weight)
        ctx.save_for_backward(query, key, weight)
        return table

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Float[Tensor, "B Q K"]):  # pyright: ignore[reportIncompatibleMethodOverride]
        query, key, weight = ctx.saved_tensors
        plan, found = StreamPlan(query, key), TanhGradients(query, key, weight)
        for block in plan.blocks():
            for span in plan.spans():
                tanh = plan.tanh(query[block], key[block.rows, span])
                found.add(block, span, tanh, gradient[block.rows, block.queries, span].contiguous())
        return found.query.mul_(weight), found.key.mul_(weight), found.weight
