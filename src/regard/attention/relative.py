"""Relative positions as a bias on the scores: e_ij = score(q_i, k_j) + b_{j−i}, a table for each head.

ALiBi: b = −slope_h · |i − j|, nothing to learn (Press, Smith, Lewis 2022, section 3, arXiv:2108.12409). The paper
looks at the past only; for self-attention in both directions the distance counts either way.

T5: b learned, one number for each head and bucket of distances; near distances have a bucket each, far ones share,
logarithmically (Raffel et al. 2020, section 2.1, arXiv:1910.10683, and the bucket rule of its published code).

Both return the bias for Q queries and K keys; the last query is aligned with the last key.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class Alibi(nn.Module):
    slopes: Tensor

    def __init__(self, heads: int):
        super().__init__()
        # 2^{−8/n}, 2^{−16/n}, … if n is a power of two; as in the paper's code, what is missing to another number comes
        # from every second slope of the next power.
        power = 2 ** math.floor(math.log2(heads))
        slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
        slopes += [2 ** (-4 * (2 * h + 1) / power) for h in range(heads - power)]
        self.register_buffer("slopes", torch.tensor(slopes), persistent=False)

    def forward(self, Q: int, K: int) -> Float[Tensor, "H Q K"]:
        return -self.slopes.view(-1, 1, 1) * _distance(Q, K, self.slopes.device).abs()


class RelativeBias(nn.Module):
    def __init__(self, heads: int, *, buckets: int = 32, farthest: int = 128, both_ways: bool = True):
        """`both_ways=False` is for causal attention: all buckets are then for the past."""
        super().__init__()
        if buckets < 4 or buckets % 2:
            raise ValueError(f"buckets={buckets} must be even and at least 4")
        if farthest <= buckets // 2:
            raise ValueError(f"farthest={farthest} must be greater than half of buckets={buckets}")
        self.buckets, self.farthest, self.both_ways = buckets, farthest, both_ways
        self.bias = nn.Parameter(torch.empty(heads, buckets))
        nn.init.normal_(self.bias, std=0.02)

    def forward(self, Q: int, K: int) -> Float[Tensor, "H Q K"]:
        return self.bias[:, self._bucket(_distance(Q, K, self.bias.device))]

    def _bucket(self, distance: Int[Tensor, "Q K"]) -> Int[Tensor, "Q K"]:
        """Return buckets: half are for one distance each, the others grow logarithmically up to `farthest`."""
        count, first = self.buckets, torch.zeros_like(distance)
        if self.both_ways:
            count //= 2
            first = (distance > 0) * count
            steps = distance.abs()
        else:
            steps = (-distance).clamp(min=0)
        exact = count // 2
        share = torch.log(steps.clamp(min=1) / exact) / math.log(self.farthest / exact)
        far = exact + (share * (count - exact)).long()
        return first + torch.where(steps < exact, steps, far.clamp(max=count - 1))


def _distance(Q: int, K: int, device: torch.device) -> Int[Tensor, "Q K"]:
    """Return j − i, with the last query aligned with the last key."""
    return torch.arange(K, device=device) - (torch.arange(Q, device=device) + (K - Q)).unsqueeze(1)
