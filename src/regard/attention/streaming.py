"""Attention with scores of the tanh form, exact and in memory linear in Q and K.

    e_ij = wᵀ tanh(q_i + k_j) + bias_ij,     a_i = softmax_j(e_i),     c_i = Σ_j a_ij v_j

The direct equation needs a tensor of Q×K×D, and keeps it for the backward pass. The idea of Dao et al. 2022,
"FlashAttention", arXiv:2205.14135 (and of Rabe, Staats 2021, arXiv:2112.05682) is to compute a block at a time, to
keep only the log-sum-exp L_i of each row, and to compute the block again for the gradient. They do it
for dot products; here it is for tanh. With t = tanh(q_i + k_j) and g the gradient of c,

    a_ij  = exp(e_ij − L_i)                     δ_i  = Σ_j a_ij (g_i·v_j) = g_i·c_i
    de_ij = a_ij (g_i·v_j − δ_i)                dw   = Σ_ij de_ij t_ij
    dq_i  = w ⊙ Σ_j de_ij (1 − t_ij²)           dk_j = w ⊙ Σ_i de_ij (1 − t_ij²)          dv_j = Σ_i a_ij g_i

Where we differ: blocks of queries see all their keys before the softmax (a block of rows × K scores is small), so
that no running maximum is needed; only the tile of tanh values, queries × keys × D, is cut along the keys too. The
tile is sized to stay in cache, which is what makes this faster than the direct form and not only smaller.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from regard.attention import masks
from regard.attention.masks import leading_shape
from regard.attention.score import DotForm, TanhForm, at_least_float32, no_autocast
from regard.attention.tanh_table import StreamPlan, TanhGradients, flat, flat_table


def streaming_attention(
    form: TanhForm,
    value: Float[Tensor, "*#b K Dv"],
    mask: Bool[Tensor, "*#m #Q #K"] | None = None,
    *,
    bias: Float[Tensor, "*#m #Q #K"] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Float[Tensor, "*b Q Dv"]:
    """Return softmax(form + bias) value. Rows that may attend to nothing are zero, in value and in gradient."""
    Q, K = form.query.shape[-2], form.key.shape[-2]
    lead = leading_shape(form.query, form.key, value)

    # Sampled on the CPU even if the tensors are on another device, to avoid a synchronization.
    seed = int(torch.randint(2**62, (), device="cpu")) if dropout else 0
    with no_autocast(value.device):
        context = _StreamingAttention.apply(
            flat(at_least_float32(form.query), lead),
            flat(at_least_float32(form.key), lead),
            at_least_float32(form.weight),
            flat(at_least_float32(value), lead),
            None if bias is None else flat_table(at_least_float32(bias), lead, K).expand(-1, Q, K),
            None if mask is None else flat_table(mask, lead, K),
            causal,
            dropout,
            seed,
        )
    return context.to(value.dtype).reshape(*lead, Q, value.shape[-1])


class _StreamingAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx,
        query: Float[Tensor, "B Q D"],
        key: Float[Tensor, "B K D"],
        weight: Float[Tensor, " D"],
        value: Float[Tensor, "B K Dv"],
        bias: Float[Tensor, "#B Q K"] | None,
        mask: Bool[Tensor, "#B #Q K"] | None,
        causal: bool,
        dropout: float,
        seed: int,
    ) -> Float[Tensor, "B Q Dv"]:
        plan = StreamPlan(query, key, mask, causal, dropout, seed)
        context = query.new_zeros(*query.shape[:2], value.shape[2])
        log_sum = query.new_zeros(query.shape[:2])
        for block in plan.blocks():
            rows, queries = block
            scores = plan.finish(plan.table(query[rows, queries], key[rows], weight), bias, block)
            total = scores.logsumexp(-1)
            # A row without any key has a total of −∞. With +∞ in its place its weights exp(e − L) are zero, not NaN.
            total.masked_fill_(total == -torch.inf, torch.inf)
            weights = scores.sub_(total.unsqueeze(-1)).exp_()
            context[rows, queries] = torch.bmm(plan.drop(weights), value[rows])
            log_sum[rows, queries] = total
        ctx.save_for_backward(query, key, weight, value, bias, mask, context, log_sum)
        ctx.options = (causal, dropout, seed)
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Float[Tensor, "B Q Dv"]):  # pyright: ignore[reportIncompatibleMethodOverride]
        query, key, weight, value, bias, mask, context, log_sum = ctx.saved_tensors
        plan = StreamPlan(query, key, mask, *ctx.options)
        found, d_value = TanhGradients(query, key, weight), torch.zeros_like(value)
        d_bias = torch.zeros_like(bias) if ctx.needs_input_grad[4] else None
        delta = (gradient * context).sum(-1, keepdim=True)
        for block in plan.blocks():
            rows, queries = block
            d_weights = torch.bmm(gradient[rows, queries], value[rows].mT)
            factors = plan.drop(torch.ones_like(d_weights))
            weights = torch.empty_like(d_weights)
            for span in plan.spans():
                tanh = plan.tanh(query[rows, queries], key[rows, span])
                scores = plan.finish(tanh @ weight, bias, block, span)
                weights[..., span] = scores.sub_(log_sum[rows, queries].unsqueeze(-1)).exp_()
                d_scores = d_weights[..., span].mul_(factors[..., span]).sub_(delta[rows, queries])
                d_scores = d_scores.mul_(weights[..., span]).contiguous()
                if d_bias is not None:
                    block.of(d_bias)[..., span] += d_scores if d_bias.shape[0] > 1 else d_scores.sum(0, keepdim=True)
                found.add(block, span, tanh, d_scores)
            d_value[rows] += torch.bmm(weights.mul_(factors).mT, gradient[rows, queries])
        d_query, d_key = found.query.mul_(weight), found.key.mul_(weight)
        return d_query, d_key, found.weight, d_value, d_bias, None, None, None, None


# Devices whose kernel gives zeros, and zero gradients, to queries that may attend to nothing; elsewhere we do it.
EMPTY_ROWS_ARE_SAFE_ON = {"cpu"}


def fused_dot_attention(
    form: DotForm,
    value: Float[Tensor, "*#b K Dv"],
    mask: Bool[Tensor, "*#m #Q #K"] | None = None,
    *,
    bias: Float[Tensor, "*#m #Q #K"] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Float[Tensor, "*b Q Dv"]:
    """Attention with scores of the dot form, by torch's fused kernels.

        c = softmax(scale · q kᵀ + bias) v

    `F.scaled_dot_product_attention` (FlashAttention: Dao et al. 2022, arXiv:2205.14135) is linear in memory, but
    only for certain shapes; for others it falls back to the table of Q×K, silently. This module brings every call
    into a shape that has a kernel. Two cases still use the table, because torch has no other kernel: dropout of
    weights on a CPU, and a bias that is learned.
    """
    query, key, scale = form
    Q, K, Dv = query.shape[-2], key.shape[-2], value.shape[-1]

    # The kernel's causal flag aligns the *first* query with the first key, and cannot be combined with a mask.
    kernel_causal = causal and Q == K and mask is None and bias is None
    if causal and not kernel_causal and Q > 1:
        past = masks.causal(Q, K, device=query.device)
        mask = past if mask is None else mask & past
    empty = None
    if mask is not None and query.device.type not in EMPTY_ROWS_ARE_SAFE_ON:
        empty = ~mask.any(-1, keepdim=True)
        mask = mask | empty
    if bias is not None:
        bias = bias.to(query.dtype)
        mask = bias if mask is None else torch.where(mask, bias, -torch.inf)

    # Kernels need queries, keys and values of one width; padding with zeros changes no product or sum.
    width = max(query.shape[-1], Dv)
    query, key, value = (F.pad(x, (0, width - x.shape[-1])) if x.shape[-1] < width else x for x in (query, key, value))

    # And exactly two leading dimensions. Heads that share keys have shapes *b Hkv G Q D and *b Hkv 1 K D; kernels can
    # do that without repeating the keys if Hkv and G are made one dimension.
    lead = leading_shape(query, key, value)
    grouped = len(lead) > 1 and lead[-1] > 1 and key.dim() > 2 and key.shape[-3] == 1 and value.shape[-3] == 1
    shared = (*lead[:-1], 1) if grouped else lead
    query, key, value = _two_leading(query, lead, grouped), *(_two_leading(x, shared, grouped) for x in (key, value))
    if mask is not None:
        mask = (
            _two_leading(mask, lead, grouped) if mask.shape[:-2].numel() > 1 else mask.reshape(1, 1, *mask.shape[-2:])
        )
    context = F.scaled_dot_product_attention(
        query, key, value, mask, dropout, kernel_causal, scale=scale, enable_gqa=grouped
    )
    context = context[..., :Dv].reshape(*lead, Q, Dv)
    return context if empty is None else context.masked_fill(empty, 0)


def _two_leading(x: Float[Tensor, "*#b M N"] | Bool[Tensor, "*#b M N"], lead: tuple[int, ...], grouped: bool) -> Tensor:
    """*b M N → B H M N, where H is the last leading dimension, or the last two. A view wherever memory allows one."""
    x = x.expand(*lead, *x.shape[-2:])
    if grouped:
        return x.reshape(math.prod(lead[:-2]), lead[-2] * lead[-1], *x.shape[-2:])
    if len(lead) < 2:
        return x.reshape(math.prod(lead), 1, *x.shape[-2:])
    return x.reshape(math.prod(lead[:-1]), lead[-1], *x.shape[-2:])
