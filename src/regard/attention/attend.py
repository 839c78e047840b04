"""Attention: mask, softmax, weighted sum.

    e = score(q, k) + bias        a = softmax(e) over the keys that the mask allows        c = Σ_j a_j v_j

Bahdanau, Cho, Bengio 2015, section 3.1, arXiv:1409.0473, in the words of Vaswani et al. 2017, section 3.2, arXiv:1706.03762: a
query is held against keys, and what comes out is the average of the values, weighted by how well their keys match.

There are two ways through, with equal results. Without `need_weights` a fused kernel runs that never keeps the table of
weights: torch's `scaled_dot_product_attention` for scores of the dot form, `streaming_attention` for those of the tanh form. With
`need_weights` the table is computed in the open, and returned.

Two promises. A query that may attend to nothing gets zeros, in value and in gradient. And no silent NaN: what the mask
hides cannot reach the result even if it is NaN or infinite, and a NaN that does reach it is a ValueError that says where it came
from (see `check_finite`).
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention import masks
from regard.attention.score import DotForm, Score, TanhForm, at_least_float32
from regard.attention.streaming import streaming_attention

# Where scaled_dot_product_attention itself gives zeros, and zero gradients, for rows that are masked altogether.
EMPTY_ROWS_ARE_SAFE_ON = {"cpu"}


def attend(
    score: Score,
    query: Float[Tensor, "*#b Q Dq"],
    key: Float[Tensor, "*#b K Dk"],
    value: Float[Tensor, "*#b K Dv"],
    mask: Bool[Tensor, "*#b #Q #K"] | None = None,
    *,
    bias: Float[Tensor, "*#b #Q #K"] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    need_weights: bool = False,
    prepared: bool = False,
    check_finite: bool = True,
) -> tuple[Float[Tensor, "*b Q Dv"], Float[Tensor, "*b Q K"] | None]:
    """Context for each query and, with `need_weights`, the weights (before dropout, so that rows sum to one).

    mask          True = may attend; broadcasts against `*b Q K`
    bias          added to the scores (relative positions, for example)
    causal        no query sees a later key; with Q ≠ K the last query stands beside the last key
    prepared      `key` has been through `score.prepare`
    check_finite  guard against NaN and infinity, as promised above. Where asking would make a GPU wait, the error is left
                  out unless the weights are computed; the masked positions are always cleared. False leaves both out, for
                  training loops, which look at their loss anyway.
    """
    _require_matching(query, key, value, mask, bias, dropout)
    on_cpu = query.device.type == "cpu"
    # Clearing copies keys and values. Where looking at the result is cheap, and no gradient will flow through the
    # hidden positions, it can wait until there is a NaN.
    patient = on_cpu and not torch.is_grad_enabled()
    if check_finite and mask is not None and not patient:
        query, key, value = _clear_hidden(query, key, value, mask)

    run = _in_the_open if need_weights else _fused
    form = score.normal_form(query, key, prepared=prepared)
    context, weights = run(form, value, mask, bias, causal, dropout)

    if check_finite and (on_cpu or need_weights) and not torch.compiler.is_compiling() and not _is_finite(context):
        if mask is not None and patient:
            query, key, value = _clear_hidden(query, key, value, mask)
            form = score.normal_form(query, key, prepared=prepared)
            context, weights = run(form, value, mask, bias, causal, dropout)
        if not _is_finite(context):
            raise ValueError(_blame(query, key, value, bias))
    return context, weights


def _fused(
    form: DotForm | TanhForm, value: Tensor, mask: Tensor | None, bias: Tensor | None, causal: bool, dropout: float
) -> tuple[Tensor, None]:
    if isinstance(form, TanhForm):
        return streaming_attention(form, value, mask, bias=bias, causal=causal, dropout=dropout), None
    return _fused_dot(form, value, mask, bias, causal, dropout), None


def _in_the_open(
    form: DotForm | TanhForm, value: Tensor, mask: Tensor | None, bias: Tensor | None, causal: bool, dropout: float
) -> tuple[Tensor, Tensor]:
    scores = form.table()
    if bias is not None:
        scores = scores + bias
    mask = _with_causal(mask, causal, *scores.shape[-2:], scores.device)
    if mask is None:
        weights = scores.softmax(-1)
    else:
        # The lowest number instead of −∞ keeps rows without any key free of NaN; the second line makes them zero.
        weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
        weights = weights.masked_fill(~mask, 0)
    context = F.dropout(weights, dropout) @ at_least_float32(value)
    return context.to(value.dtype), weights.to(value.dtype)


def _fused_dot(
    form: DotForm, value: Tensor, mask: Tensor | None, bias: Tensor | None, causal: bool, dropout: float
) -> Tensor:
    """scaled_dot_product_attention, brought into the shapes for which it has a kernel that keeps no table."""
    query, key, scale = form
    Q, K, Dv = query.shape[-2], key.shape[-2], value.shape[-1]
    is_causal = causal and mask is None and bias is None and Q == K
    if causal and not is_causal and Q > 1:
        mask = _with_causal(mask, causal, Q, K, query.device)
    empty = None
    if mask is not None and query.device.type not in EMPTY_ROWS_ARE_SAFE_ON:
        empty = ~mask.any(-1, keepdim=True)
        mask = mask | empty
    if bias is not None:
        bias = bias.to(query.dtype)
        mask = bias if mask is None else torch.where(mask, bias, -torch.inf)

    # The kernels want queries, keys and values of one width; zeros change neither products nor sums.
    width = max(query.shape[-1], Dv)
    query, key, value = (F.pad(x, (0, width - x.shape[-1])) if x.shape[-1] < width else x for x in (query, key, value))

    # And they want exactly two leading dimensions.
    lead = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    # Heads that share keys: *b H G Q D against *b H 1 K D. The kernels can do that without repeating the keys.
    grouped = len(lead) > 1 and lead[-1] > 1 and key.shape[-3:-2] == value.shape[-3:-2] == (1,)
    query = _four_dimensional(query, lead, fold=grouped)
    key = _four_dimensional(key, (*lead[:-1], 1) if grouped else lead, fold=grouped)
    value = _four_dimensional(value, (*lead[:-1], 1) if grouped else lead, fold=grouped)
    if mask is not None:
        if mask.shape[:-2].numel() == 1:
            mask = mask.reshape(1, 1, *mask.shape[-2:])
        else:
            mask = _four_dimensional(mask, lead, fold=grouped)
    context = F.scaled_dot_product_attention(
        query, key, value, mask, dropout, is_causal, scale=scale, enable_gqa=grouped
    )
    context = context[..., :Dv].reshape(*lead, Q, Dv)
    return context if empty is None else context.masked_fill(empty, 0)


def _four_dimensional(x: Tensor, lead: tuple[int, ...], fold: bool) -> Tensor:
    """*b M N → B H M N; with `fold` the last two leading dimensions become H. A view wherever the memory allows one."""
    x = x.expand(*lead, *x.shape[-2:])
    if fold:
        return x.reshape(-1, lead[-2] * lead[-1], *x.shape[-2:])
    if len(lead) < 2:
        return x.reshape(-1, 1, *x.shape[-2:])
    return x.flatten(0, -4) if len(lead) > 2 else x


def _with_causal(mask: Tensor | None, causal: bool, Q: int, K: int, device: torch.device) -> Tensor | None:
    if not causal:
        return mask
    past = masks.causal(Q, K, device=device)
    return past if mask is None else mask & past


def _clear_hidden(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Zero for keys and values that no query may see, and for queries that may see no key."""
    # A mask may have more leading dimensions than a tensor (heads that share keys): visible to one is visible.
    seen = mask.any(-2).unsqueeze(-1)
    key, value = (x.masked_fill(~_reduce_to(seen, x), 0) for x in (key, value))
    if mask.shape[-2] > 1:
        query = query.masked_fill(~_reduce_to(mask.any(-1, keepdim=True), query), 0)
    return query, key, value


def _reduce_to(seen: Tensor, x: Tensor) -> Tensor:
    """`any` over the leading dimensions in which x is shared, so that the result broadcasts to x."""
    seen = seen.reshape(*(1,) * (x.dim() - seen.dim()), *seen.shape)
    extra = seen.dim() - x.dim()
    for dim in range(seen.dim() - 2):
        if dim < extra or x.shape[dim - extra] == 1:
            seen = seen.any(dim, keepdim=True)
    return seen.reshape(seen.shape[extra:])


def _is_finite(context: Tensor) -> bool:
    # One pass that reads and writes nothing back; only if the sum is not finite, which may be overflow, look closely.
    return bool(context.detach().sum().isfinite()) or bool(context.isfinite().all())


def _blame(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> str:
    arguments = {"query": query, "key": key, "value": value, "bias": bias}
    guilty = [name for name, x in arguments.items() if x is not None and not x.isfinite().all()]
    if guilty:
        return f"NaN or infinity in {' and '.join(guilty)}, at a position that the mask does not hide"
    return (
        "the scores or their weighted sum overflow "
        + str(value.dtype).removeprefix("torch.")
        + ", though all inputs are finite"
    )


def _require_matching(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None, dropout: float
) -> None:
    """Shapes and types only: nothing here looks at numbers, so nothing here waits for a GPU."""
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(
            f"mask is {str(mask.dtype).removeprefix('torch.')}, but masks are bool with True = may attend. A mask of ones "
            "and zeros becomes one by mask.bool(), a mask that says what to leave out by ~mask, and a float mask that is "
            "added to the scores is called bias here"
        )
    for name, x in (("query", query), ("key", key), ("value", value), ("bias", bias)):
        if x is None:
            continue
        if not x.is_floating_point():
            raise ValueError(f"{name} is {str(x.dtype).removeprefix('torch.')}, but attention needs floating point")
        if x.dim() < 2 and name != "bias":
            raise ValueError(f"{name} has shape {tuple(x.shape)}; at least two dimensions are needed, vectors × width")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"there are {key.shape[-2]} keys and {value.shape[-2]} values; each key needs its value")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout={dropout} must be at least 0 and below 1")
    try:
        lead = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    except RuntimeError:
        shapes = ", ".join(f"{n} {tuple(x.shape)}" for n, x in (("query", query), ("key", key), ("value", value)))
        raise ValueError(f"the leading dimensions do not fit together: {shapes}") from None
    full = (*lead, query.shape[-2], key.shape[-2])
    for name, x in (("mask", mask), ("bias", bias)):
        if x is not None and not _broadcasts(x.shape, full):
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, which does not broadcast to {full}: ... × queries × keys"
            )


def _broadcasts(shape: torch.Size, full: tuple[int, ...]) -> bool:
    return len(shape) <= len(full) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(full), strict=False))
