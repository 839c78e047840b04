"""Attention: mask, softmax, weighted sum.

    e = score(q, k) + bias        a = softmax(e) over the keys that the mask allows        c = Σ_j a_j v_j

Bahdanau, Cho, Bengio 2015, section 3.1, arXiv:1409.0473, in the terms of Vaswani et al. 2017, section 3.2,
arXiv:1706.03762: a query is compared with keys, and the output is the average of the values, weighted by how well
their keys match.

There are two implementations with equal results. Without `need_weights` a fused kernel runs that never stores the table
of weights: torch's `scaled_dot_product_attention` for scores of the dot form, `streaming_attention` for those of the
tanh form. With `need_weights` the table is computed explicitly and returned.

Two guarantees. A query that may attend to nothing gets zeros, in value and in gradient. And NaN is never silent: masked
positions do not influence the result even if they are NaN or infinite, and a NaN in the result raises a ValueError that
names its source (see `check_finite`).
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention import masks
from regard.attention.masks import leading_shape
from regard.attention.score import SMALL, DotForm, Score, TanhForm, at_least_float32, no_autocast
from regard.attention.streaming import fused_dot_attention, streaming_attention
from regard.attention.trace import Scoring, tracing

# Input checks of `attend`: shapes, types and NaN.
#
# Shapes and types are checked on every call: this reads no numbers, so it does not wait for a GPU.


def require_matching(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None, dropout: float
) -> None:
    """Raise a ValueError that names the argument if the arguments of `attend` do not fit each other."""
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(
            f"mask is {_name(mask.dtype)}, but masks are bool and True = may attend. Convert ones and zeros "
            "with mask.bool(), a mask of positions to hide with ~mask; pass numbers to add to the scores as bias"
        )
    for name, x in (("query", query), ("key", key), ("value", value), ("bias", bias)):
        if x is None:
            continue
        if not x.is_floating_point():
            raise ValueError(f"{name} is {_name(x.dtype)}, but attention needs floating point")
        if x.dim() < 2 and x is not bias:
            raise ValueError(f"{name} has shape {tuple(x.shape)}, but must be (..., vectors, width)")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"there are {key.shape[-2]} keys and {value.shape[-2]} values; each key needs its value")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout={dropout} must be at least 0 and below 1")
    try:
        lead = leading_shape(query, key, value)
    except ValueError:
        shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        raise ValueError(f"the leading dimensions do not fit together: {shapes}") from None
    table = (*lead, query.shape[-2], key.shape[-2])
    for name, x in (("mask", mask), ("bias", bias)):
        if x is not None and not _broadcasts(x, table):
            raise ValueError(f"{name} has shape {tuple(x.shape)}, which does not broadcast to (..., Q, K) = {table}")


def clear_hidden(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Set keys and values that no query may see to zero, and queries that may see no key."""
    seen = mask.any(-2).unsqueeze(-1)
    key, value = key.masked_fill(~_any_over_shared(seen, key), 0), value.masked_fill(~_any_over_shared(seen, value), 0)
    if mask.shape[-2] > 1:
        query = query.masked_fill(~_any_over_shared(mask.any(-1, keepdim=True), query), 0)
    return query, key, value


def looks_wrong(context: Tensor) -> bool:
    """Whether the result may contain a NaN: a fast test in one pass."""
    # Zeros count, too: for a query whose scores are all NaN, torch's CPU kernel returns zeros.
    return not bool(context.detach().sum().isfinite()) or bool((context[..., :1] == 0).any())


def require_finite(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, context: Tensor) -> None:
    """Raise a ValueError that names the source of a NaN, if there is one. Hidden positions must be cleared before."""
    arguments = {"query": query, "key": key, "value": value, "bias": bias}
    guilty = [name for name, x in arguments.items() if x is not None and not x.isfinite().all()]
    if guilty:
        raise ValueError(f"NaN or infinity in {' and '.join(guilty)}, at a position that the mask does not hide")
    if not context.isfinite().all():
        raise ValueError(
            f"the scores or their weighted sum overflow {_name(value.dtype)}, though query, key and value are finite"
        )


def _any_over_shared(seen: Tensor, x: Tensor) -> Tensor:
    """Return `any` of `seen` over the leading dimensions that x shares (such as keys shared by heads)."""
    seen = seen.reshape(*(1,) * (x.dim() - seen.dim()), *seen.shape)
    extra = seen.dim() - x.dim()
    for dim in range(seen.dim() - 2):
        if dim < extra or x.shape[dim - extra] == 1:
            seen = seen.any(dim, keepdim=True)
    return seen.reshape(seen.shape[extra:])


def _broadcasts(x: Tensor, shape: tuple[int, ...]) -> bool:
    return x.dim() <= len(shape) and all(n in (1, m) for n, m in zip(x.shape[::-1], shape[::-1], strict=False))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def attend(
    score: Score,
    query: Float[Tensor, "*q Q Dq"],
    key: Float[Tensor, "*k K Dk"],
    value: Float[Tensor, "*v _ Dv"],
    mask: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    need_weights: bool = False,
    prepared: bool = False,
    check_finite: bool = True,
) -> tuple[Float[Tensor, "*b Q Dv"], Float[Tensor, "*b Q K"] | None]:
    """Return the context of each query and, with `need_weights`, the weights (before dropout, so rows sum to one).

    Leading dimensions broadcast: *b is the common shape of *q, *k and *v.

    mask          bool, True = may attend; broadcasts to `*b Q K`
    bias          finite numbers added to the scores (by relative positions, for example); broadcasts to `*b Q K`
    causal        no query sees a later key; with Q ≠ K the last query is aligned with the last key
    dropout       of weights; always applied, so set it to 0 outside training
    prepared      `key` has been through `score.prepare`
    check_finite  guarantee the NaN check. Where it would make a GPU wait, the error is skipped unless weights
                  are needed; masked positions are still cleared. False skips both: for training loops,
                  which check their loss anyway.
    """
    require_matching(query, key, value, mask, bias, dropout)
    mask, bias = (x if x is None else torch.atleast_2d(x) for x in (mask, bias))

    def run() -> tuple[Tensor, Tensor | None]:
        form = score.normal_form(query, key, prepared=prepared)
        if need_weights:
            return _explicit_attention(score, form, value, mask, bias, causal, dropout)
        if isinstance(form, TanhForm) and form.peak_elements() <= SMALL:
            return _explicit_attention(score, form, value, mask, bias, causal, dropout)[0], None
        if isinstance(form, DotForm):
            return fused_dot_attention(form, value, mask, bias=bias, causal=causal, dropout=dropout), None
        return streaming_attention(form, value, mask, bias=bias, causal=causal, dropout=dropout), None

    if not check_finite:
        return run()
    on_cpu = query.device.type == "cpu"
    # Clearing copies keys and values. Where checking the result is cheap and no gradient will pass through the
    # hidden positions, it is delayed until there is a NaN.
    put_off = on_cpu and not torch.is_grad_enabled()
    if mask is not None and not put_off:
        query, key, value = clear_hidden(query, key, value, mask)
    context, weights = run()
    if torch.compiler.is_compiling() or not (on_cpu or need_weights) or not looks_wrong(context):
        return context, weights
    if mask is not None and put_off:
        query, key, value = clear_hidden(query, key, value, mask)
        context, weights = run()
    require_finite(query, key, value, bias, context)
    return context, weights


def _explicit_attention(
    score: Score,
    form: DotForm | TanhForm,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    causal: bool,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    with no_autocast(value.device):
        scores = form.table()  # (..., Q, K)
        if bias is not None:
            scores = scores + bias
        if causal:
            past = masks.causal(*scores.shape[-2:], device=scores.device)
            mask = past if mask is None else mask & past
        if (trace := tracing()) is not None:
            trace.note_scores(Scoring(score, form, mask, bias))
        if mask is None:
            weights = scores.softmax(-1)  # (..., Q, K)
        else:
            # The lowest number instead of −∞ avoids NaN in rows without any key; then they become zero.
            weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
            weights = weights.masked_fill(~mask, 0)
        context = F.dropout(weights, dropout) @ at_least_float32(value)  # (..., Q, Dv)
    return context.to(value.dtype), weights
