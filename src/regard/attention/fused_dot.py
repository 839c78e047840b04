"""Attention with scores of the dot form, by torch's fused kernels.

    c = softmax(scale · q kᵀ + bias) v

`F.scaled_dot_product_attention` (FlashAttention: Dao et al. 2022, arXiv:2205.14135) is linear in memory, but only for
certain shapes; for others it falls back to the table of Q×K, silently. This module brings every call into a shape that
has a kernel. Two cases still use the table, because torch has no other kernel: dropout of weights on a CPU, and a bias
that is learned.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention import masks
from regard.attention.leading_shape import leading_shape
from regard.attention.score import DotForm

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
