"""Masks: which keys a query may attend to. Bool tensors, True = may attend; combine them with & and |.

    padding(lengths, K)[b, 0, j]  =  j < lengths[b]
    causal(Q, K)[i, j]            =  j ≤ i + K − Q
    window(Q, K, l, r)[i, j]      =  −l ≤ j − (i + K − Q) ≤ r
    prefix(Q, K, n)[i, j]         =  causal or j < n

With fewer queries than keys, the last query is aligned with the last key, as in decoding with a cache. `padding` has a
dimension of size 1 for the queries, so `padding(lengths, K) & causal(Q, K)` is B×Q×K.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding(lengths: Int[Tensor, "*b"], size: int) -> Bool[Tensor, "*b 1 K"]:
    """Return the mask of real keys: the first `lengths` of `size` keys; the others are padding."""
    return (torch.arange(size, device=lengths.device) < lengths.unsqueeze(-1)).unsqueeze(-2)


def causal(Q: int, K: int, *, device: torch.device | str | None = None) -> Bool[Tensor, "Q K"]:
    """Return the causal mask: a query sees no later key."""
    return _offset(Q, K, device) <= 0


def window(Q: int, K: int, left: int, right: int, *, device: torch.device | str | None = None) -> Bool[Tensor, "Q K"]:
    """At most `left` keys back and `right` ahead. Beltagy et al. 2020, section 3.1, arXiv:2004.05150."""
    offset = _offset(Q, K, device)
    return (offset >= -left) & (offset <= right)


def prefix(Q: int, K: int, length: int, *, device: torch.device | str | None = None) -> Bool[Tensor, "Q K"]:
    """Causal, with the first `length` keys visible to all. Raffel et al. 2020, section 3.2.1, arXiv:1910.10683."""
    return causal(Q, K, device=device) | (torch.arange(K, device=device) < length)


def _offset(Q: int, K: int, device: torch.device | str | None) -> Int[Tensor, "Q K"]:
    """Return how many steps key j is ahead of query i."""
    own = torch.arange(Q, device=device) + (K - Q)
    return torch.arange(K, device=device) - own.unsqueeze(-1)
