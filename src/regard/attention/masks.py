"""Masks: who may attend to whom. Plain bool tensors, True = may attend, to be combined with & and |.

    padding(lengths, K)[b, 0, j]  =  j < lengths[b]
    causal(Q, K)[i, j]            =  j ≤ i + K − Q
    window(Q, K, l, r)[i, j]      =  −l ≤ j − (i + K − Q) ≤ r
    prefix(Q, K, n)[i, j]         =  causal or j < n

Where there are fewer queries than keys, the last query stands beside the last key: that is what decoding with a cache
means. `padding` keeps a dimension of size 1 for the queries, so that `padding(lengths, K) & causal(Q, K)` says what
it seems to say, B×Q×K.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding(lengths: Int[Tensor, "*b"], size: int) -> Bool[Tensor, "*b 1 K"]:
    """The first `lengths` of `size` keys are real, the others fill up the batch."""
    return (torch.arange(size, device=lengths.device) < lengths.unsqueeze(-1)).unsqueeze(-2)


def causal(Q: int, K: int, *, device: torch.device | str | None = None) -> Bool[Tensor, "Q K"]:
    """Nobody sees the future."""
    return _offset(Q, K, device) <= 0


def window(Q: int, K: int, left: int, right: int, *, device: torch.device | str | None = None) -> Bool[Tensor, "Q K"]:
    """At most `left` steps back and `right` steps ahead. Beltagy et al. 2020, section 3.1, arXiv:2004.05150."""
    offset = _offset(Q, K, device)
    return (offset >= -left) & (offset <= right)


def prefix(Q: int, K: int, length: int, *, device: torch.device | str | None = None) -> Bool[Tensor, "Q K"]:
    """Causal, but everybody sees the first `length` keys. Raffel et al. 2020, section 3.2.1, arXiv:1910.10683."""
    return causal(Q, K, device=device) | (torch.arange(K, device=device) < length)


def _offset(Q: int, K: int, device: torch.device | str | None) -> Int[Tensor, "Q K"]:
    """How many steps key j lies ahead of query i."""
    own = torch.arange(Q, device=device) + (K - Q)
    return torch.arange(K, device=device) - own.unsqueeze(-1)
