"""Linear layers, attention of short texts and dropout in training on a CPU, by the kernels of `training`.

    y = x Wᵀ + b        y = relu(x W₁ᵀ + b₁) W₂ᵀ + b₂        C = softmax(Q Kᵀ / √d) V        y = x + dropout(z)

Results equal torch's except for rounding. Gradients are written by hand, with biases, relu and sums fused into the
products. torch computes second gradients, and everything that the kernels do not support.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.kernels import training
from regard.kernels.training import Texts, WorkShares


def plain(layer: nn.Module) -> bool:
    """Return whether this is a linear layer without hooks, in training."""
    return (
        type(layer) is nn.Linear
        and layer.training
        and not (layer._forward_pre_hooks or layer._forward_hooks or layer._backward_hooks or layer._backward_pre_hooks)
    )


def apply(layer: nn.Module, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b E"]:
    """Return `layer(x)`."""
    return linear(x, layer.weight, layer.bias, layer.training) if plain(layer) else layer(x)  # pyright: ignore[reportArgumentType]


def linear(
    x: Float[Tensor, "*b D"], weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None, learning: bool
) -> Float[Tensor, "*b E"]:
    if not learning or x.numel() * len(weight) < training.WORTH or not _suits(x, weight, bias):
        return F.linear(x, weight, bias)
    return _Linear.apply(x.reshape(-1, x.shape[-1]), weight, bias).view(*x.shape[:-1], -1)


def relu_between(x: Float[Tensor, "*b D"], widen: nn.Module, narrow: nn.Module) -> Float[Tensor, "*b D"] | None:
    """Return narrow(relu(widen(x))); None if torch must compute it."""
    if not (plain(widen) and plain(narrow)):
        return None
    parts = (widen.weight, widen.bias, narrow.weight, narrow.bias)
    if x.numel() * len(widen.weight) < training.WORTH or not _suits(x, *parts):  # pyright: ignore[reportArgumentType]
        return None
    return _ReluBetween.apply(x.reshape(-1, x.shape[-1]), *parts).view(x.shape)


def attend(
    first: Float[Tensor, "*q E"],
    second: Float[Tensor, "B K F"] | None,
    heads: int,
    real: Bool[Tensor, "B K"] | None = None,
    *,
    causal: bool = False,
    texts: Texts | None = None,
) -> Float[Tensor, "*q D"]:
    """Return the contexts of concatenated queries, keys and values, or of queries and a table of keys and values.

    With `texts`, the table has no padding. Check `attends` first.
    """
    real = None if real is None else real.contiguous()
    second = None if second is None else second.contiguous()
    return _Attend.apply(first.contiguous(), second, heads, real, causal, texts)


def attends(x: Float[Tensor, "B Q D"], memory: Float[Tensor, "B K M"] | None, heads: int) -> bool:
    """Return whether `attend` supports projections of these tensors, and is faster."""
    keys = x.shape[1] if memory is None else memory.shape[1]
    return (
        x.dim() == 3
        and x.numel() * keys >= training.WORTH // 16
        and _suits(x, memory)
        and training.can_attend(keys, x.shape[2] // heads)
    )


def drop(x: Float[Tensor, "*b"] | None, y: Float[Tensor, "*b"], p: float) -> Float[Tensor, "*b"] | None:
    """Return dropout(y), or x + dropout(y); None if torch must compute it. The seed comes from torch's generator."""
    if y.numel() < training.WORTH // 2**8 or not _suits(x, y):
        return None
    return _Drop.apply(x, y, p, int(torch.empty((), dtype=torch.int64).random_(-(2**63), None)))


def _suits(*tensors: Tensor | None) -> bool:
    return training.suits(*(one for one in tensors if one is not None))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.bias = bias is not None
        return training.product(x, weight.T, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        dx = _times(gradient, weight) if ctx.needs_input_grad[0] else None
        return dx, *_weight_and_bias(gradient, x, *ctx.needs_input_grad[1:3])


class _ReluBetween(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, widen: Tensor, widen_bias: Tensor | None, narrow: Tensor, narrow_bias: Tensor | None
    ) -> Tensor:
        wide = training.product(x, widen.T, widen_bias, relu=True, out=training.table(len(x), len(widen)))
        ctx.save_for_backward(x, widen, widen_bias, narrow, wide)
        return training.product(wide, narrow.T, narrow_bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, widen, widen_bias, narrow, wide = ctx.saved_tensors
        needs = ctx.needs_input_grad
        if torch.is_grad_enabled():
            wide = F.linear(x, widen, widen_bias).relu()
        narrow_gradients = _weight_and_bias(gradient, wide, *needs[3:5])
        if not any(needs[:3]):
            return None, None, None, *narrow_gradients
        if torch.is_grad_enabled():
            between = (gradient @ narrow) * (wide > 0)
        else:
            between = training.product(gradient, narrow, where=wide, out=training.table(*wide.shape))
        dx = _times(between, widen) if needs[0] else None
        return dx, *_weight_and_bias(between, x, *needs[1:3]), *narrow_gradients


def _times(gradient: Tensor, weight: Tensor) -> Tensor:
    return gradient @ weight if torch.is_grad_enabled() else training.product(gradient, weight)


def _weight_and_bias(
    gradient: Tensor, x: Tensor, weight_wanted: bool, bias_wanted: bool
) -> tuple[Tensor | None, Tensor | None]:
    if torch.is_grad_enabled() or not weight_wanted:
        return gradient.T @ x if weight_wanted else None, gradient.sum(0) if bias_wanted else None
    sums = gradient.new_zeros(gradient.shape[1]) if bias_wanted else None
    return training.transposed_product(gradient, x, sums), sums


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor | None,
        heads: int,
        real: Tensor | None,
        causal: bool,
        texts: Texts | None,
    ) -> Tensor:
        context, weights = training.attend(_parts(first, second), heads, real, causal, texts)
        ctx.save_for_backward(first, second, real, weights)
        ctx.heads, ctx.causal, ctx.texts = heads, causal, texts
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        first, second, real, weights = ctx.saved_tensors
        if torch.is_grad_enabled():
            context = _by_torch(first, second, ctx.heads, real, ctx.causal, ctx.texts)
            tables = (first,) if second is None else (first, second)
            outs = torch.autograd.grad(context, tables, gradient, create_graph=True)
            outs = (*outs, None)[:2]
        else:
            outs = torch.empty_like(first), None if second is None else torch.empty_like(second)
            training.attend_gradient(_parts(first, second), ctx.heads, weights, gradient, ctx.texts, _parts(*outs))
        return *outs, None, None, None, None


def _parts(first: Tensor, second: Tensor | None) -> WorkShares:
    return WorkShares(*first.chunk(3, -1)) if second is None else WorkShares(first, *second.chunk(2, -1))


def _by_torch(
    first: Tensor, second: Tensor | None, heads: int, real: Tensor | None, causal: bool, texts: Texts | None
) -> Tensor:
    """Return the contexts by torch, for second gradients."""
    parts = _parts(first, second)
    if texts is not None:  # the table is one text with a mask that separates its texts
        number = torch.arange(len(texts.rows)).repeat_interleave(texts.rows)
        seen, parts = number[:, None] == number, WorkShares(*(one.unsqueeze(0) for one in parts))
    else:
        seen = torch.ones(parts.query.shape[1], parts.key.shape[1], dtype=torch.bool)
        seen = seen.tril() if causal else seen
        seen = seen if real is None else seen & real[:, None, None]
    query, key, value = (one.unflatten(2, (heads, -1)).transpose(1, 2) for one in parts)
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(-1) * seen
    context = (weights @ value).transpose(1, 2).flatten(2)
    return context if texts is None else context.squeeze(0)


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor | None, y: Tensor, p: float, seed: int) -> Tensor:
        ctx.p, ctx.seed = p, seed
        return training.apply_dropout(x, y, p, seed)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return gradient if ctx.needs_input_grad[0] else None, _Drop.apply(None, gradient, ctx.p, ctx.seed), None, None
