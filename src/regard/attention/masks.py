"""Masks: which keys a query may attend to. Bool tensors, True = may attend; combine them with & and |.

    padding(lengths, K)[b, 0, j]  =  j < lengths[b]
    causal(Q, K)[i, j]            =  j ≤ i + K − Q
    window(Q, K, l, r)[i, j]      =  −l ≤ j − (i + K − Q) ≤ r
    prefix(Q, K, n)[i, j]         =  causal or j < n

With fewer queries than keys, the last query is aligned with the last key, as in decoding with a cache. `padding` has a
dimension of size 1 for the queries, so `padding(lengths, K) & causal(Q, K)` is B×Q×K.
"""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar, Token
from functools import partial
from itertools import zip_longest
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Size, Tensor, nn
from torch.utils.hooks import RemovableHandle


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


# Mask heads of a model from outside, to see what it predicts without them.
#
#     y = [ξ_1 head_1; …; ξ_H head_H] W_o,      ξ_h = 0 for a masked head, 1 for the others
#
# Michel et al. 2019, section 2.2, arXiv:1905.10650.
#
#     with HeadMask({model.decoder.layers[2].cross: [3]}):
#         model(batch)
#
# A head is masked in every implementation of attention, fused or explicit, all steps at once or one by one, since the
# mask changes the input of W_o. An attention with one head and no W_o reads `masked_heads` itself, and its context is
# then zero. Only the thread (or async task) of the `with` block is affected. A trace has zero weights for masked
# heads.

_active: ContextVar[tuple["HeadMask", ...]] = ContextVar("regard_head_mask", default=())


@runtime_checkable
class ManyHeads(Protocol):
    """An attention with several heads and an output layer."""

    heads: int
    out: nn.Module


class HeadMask:
    def __init__(self, heads: Mapping[nn.Module, Sequence[int]]) -> None:
        """`heads`: the heads of each attention to mask, counted from 0."""
        for module, numbers in heads.items():
            most = module.heads if isinstance(module, ManyHeads) else 1
            for number in numbers:
                if not 0 <= number < most:
                    raise ValueError(f"head {number} is not one of 0 to {most - 1}")
        self.heads = {module: sorted(set(numbers)) for module, numbers in heads.items() if numbers}
        self._token: Token[tuple[HeadMask, ...]] | None = None
        self._hooks: list[RemovableHandle] = []

    def __enter__(self) -> "HeadMask":
        self._token = _active.set((*_active.get(), self))
        for module, numbers in self.heads.items():
            if isinstance(module, ManyHeads):
                self._hooks.append(module.out.register_forward_pre_hook(partial(self._before_out, module, numbers)))
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._token is not None
        _active.reset(self._token)
        for hook in self._hooks:
            hook.remove()
        self._token, self._hooks = None, []

    def _before_out(self, attention: ManyHeads, numbers: list[int], layer: nn.Module, inputs: tuple[Any, ...]) -> Any:
        if self not in _active.get():  # the model also runs in another thread, where no head is masked
            return None
        parts = inputs[0].unflatten(-1, (attention.heads, -1))
        return _without(parts, -2, numbers).flatten(-2)


def masked_heads(module: nn.Module) -> list[int]:
    """Return the heads of an attention that are masked now."""
    return sorted({number for mask in _active.get() for number in mask.heads.get(module, ())})


def shown_weights(module: nn.Module, weights: Tensor) -> Tensor:
    """Return the weights for display: zero for masked heads, which have no effect."""
    numbers = masked_heads(module)
    if not numbers:
        return weights
    return _without(weights, -3, numbers) if isinstance(module, ManyHeads) else torch.zeros_like(weights)


def _without(x: Tensor, dim: int, numbers: list[int]) -> Tensor:
    return x.index_fill(dim, torch.tensor(numbers, device=x.device), 0.0)


# Broadcast of the leading dimensions `*b` of several tensors.


def leading_shape(*tensors: Tensor) -> Size:
    """Return the broadcast `*b` of tensors "*b N D": sizes must be equal or 1, counted from the right.

    `torch.broadcast_shapes` also handles symbolic sizes, and imports sympy for it, which takes half a second.
    """
    lead: list[int] = []
    for sizes in zip_longest(*(tensor.shape[-3::-1] for tensor in tensors), fillvalue=1):
        size = next((size for size in sizes if size != 1), 1)
        if any(one not in (1, size) for one in sizes):
            raise ValueError(f"the leading dimensions do not fit together: {[tuple(x.shape) for x in tensors]}")
        lead.append(size)
    return Size(reversed(lead))
