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
from regard.attention.fused_dot import fused_dot_attention
from regard.attention.input_checks import clear_hidden, looks_wrong, require_finite, require_matching
from regard.attention.score import SMALL, DotForm, Score, TanhForm, at_least_float32, no_autocast
from regard.attention.scoring import Scoring
from regard.attention.streaming import streaming_attention
from regard.attention.trace import tracing


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
            return _in_the_open(score, form, value, mask, bias, causal, dropout)
        if isinstance(form, TanhForm) and form.held() <= SMALL:
            return _in_the_open(score, form, value, mask, bias, causal, dropout)[0], None
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


def _in_the_open(
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
            trace.scored(Scoring(score, form, mask, bias))
        if mask is None:
            weights = scores.softmax(-1)  # (..., Q, K)
        else:
            # The lowest number instead of −∞ avoids NaN in rows without any key; then they become zero.
            weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
            weights = weights.masked_fill(~mask, 0)
        context = F.dropout(weights, dropout) @ at_least_float32(value)  # (..., Q, Dv)
    return context.to(value.dtype), weights
