"""The tiling of `streaming` and `tanh_table`: blocks of rows and queries, spans of keys, and a tile of tanh values for
each.

Forward and backward visit the same blocks, with the same masks and the same dropout, which is sampled again from its
seed.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from regard.native import kernels

# Elements in a tile of tanh values. On a CPU: four megabytes of float32, spread over the caches of the cores.
# Smaller tiles are no faster on one thread, and make several threads wait for each other more often. Elsewhere: enough
# work for one launch of a kernel.
TILE_ON_CPU, TILE_ELSEWHERE = 2**20, 2**25


class Block(NamedTuple):
    """Some rows of the batch and some of their queries."""

    rows: slice
    queries: slice

    def of(self, table: Tensor) -> Tensor:
        """Return the part of a table B×Q×K in the block; B and Q may be 1."""
        rows = self.rows if table.shape[0] > 1 else slice(None)
        queries = self.queries if table.shape[1] > 1 else slice(None)
        return table[rows, queries]


class Plan:
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

    def blocks(self) -> Iterator[Block]:
        for row in range(0, self.B, self.rows):
            for query in range(0, self.Q, self.queries):
                yield Block(slice(row, row + self.rows), slice(query, query + self.queries))

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
        if kernels.available(query, key, weight):
            return kernels.tanh_scores(query, key, weight)
        table = query.new_empty(*query.shape[:2], self.K)
        for span in self.spans():
            table[..., span] = self.tanh(query, key[:, span]) @ weight
        return table

    def finish(self, scores: Tensor, bias: Tensor | None, block: Block, span: slice = slice(None)) -> Tensor:
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

    def add(self, block: Block, span: slice, tanh: Tensor, d_scores: Tensor) -> None:
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
