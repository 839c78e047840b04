"""Mask heads of a model from outside, to see what it predicts without them.

    y = [ξ_1 head_1; …; ξ_H head_H] W_o,      ξ_h = 0 for a masked head, 1 for the others

Michel et al. 2019, section 2.2, arXiv:1905.10650.

    with HeadMask({model.decoder.layers[2].cross: [3]}):
        model(batch)

A head is masked in every implementation of attention, fused or explicit, all steps at once or one by one, since the
mask changes the input of W_o. An attention with one head and no W_o reads `masked_heads` itself, and its context is
then zero. Only the thread (or async task) of the `with` block is affected. A trace has zero weights for masked heads.
"""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar, Token
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

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
