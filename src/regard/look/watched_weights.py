"""Compute the weights of an attention that returns none, from its arguments.

    A = softmax(scale · q kᵀ + bias),   bias = −∞ where a mask forbids

`fused_weights` takes the arguments of `torch.nn.functional.scaled_dot_product_attention`, `module_weights` those of
`torch.nn.MultiheadAttention`. Both compute the weights that the kernel does not return, without changing its
output. Fully masked rows are zero. Dropout is ignored.

    B batch   H heads   Q queries   R requested rows   K keys   E width of a head
"""

import inspect
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.masks import leading_shape
from regard.errors import CallError


class WeightRequest(NamedTuple):
    """Requested heads and rows of a pass; None: all. Negative rows count from the end."""

    heads: Sequence[int] | None = None
    rows: Sequence[int] | None = None

    def heads_of(self, there: int) -> list[int]:
        if self.heads is None:
            return list(range(there))
        for head in self.heads:
            if not 0 <= head < there:
                raise CallError(f"heads={list(self.heads)}: this attention has the heads 0 to {there - 1}")
        return list(self.heads)

    def rows_of(self, there: int) -> list[int]:
        """Return the requested rows in order. Rows that a pass does not have are skipped (a decoding step has one)."""
        if self.rows is None:
            return list(range(there))
        return sorted({row % there for row in self.rows if -there <= row < there})

    def of(self, weights: Tensor) -> Tensor:
        """Return the requested part of B H Q K."""
        if self.heads is not None:
            weights = weights[:, self.heads_of(weights.shape[1])]
        return weights if self.rows is None else weights[:, :, self.rows_of(weights.shape[2])]


def fused_weights(
    request: WeightRequest,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return B H R K in float32."""
    if attn_mask is not None and type(attn_mask) not in (Tensor, nn.Parameter):
        # Only the kernel can read a mask of a separate class (torch.nn.attention.bias). With the identity as values,
        # the kernel's output is the weights.
        eye = torch.eye(key.shape[-2], dtype=value.dtype, device=value.device).expand(*key.shape[:-1], key.shape[-2])
        exact = F.scaled_dot_product_attention(
            query, key, eye, attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
        )
        return request.of(with_heads(exact.float()))
    Q, K = query.shape[-2], key.shape[-2]
    if enable_gqa:  # each key is shared by a group of adjacent heads
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)
    batch = leading_shape(query, key)
    q, k = (with_heads(x.expand(*batch, *x.shape[-2:])) for x in (query, key))
    heads, rows = request.heads_of(q.shape[1]), request.rows_of(Q)
    q, k = q[:, heads][:, :, rows].float(), k[:, heads].float()
    with torch.autocast(query.device.type, enabled=False):
        scores = q @ k.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if attn_mask is not None:
        bias = with_heads(attn_mask.expand(*batch, Q, K))[:, heads][:, :, rows]
        scores = scores.masked_fill(~bias, -torch.inf) if bias.dtype == torch.bool else scores + bias
    if is_causal:  # as in the kernel: the first query sees the first key
        later = torch.arange(K, device=q.device) > torch.tensor(rows, device=q.device).unsqueeze(-1)
        scores = scores.masked_fill(later, -torch.inf)
    return scores.softmax(-1).masked_fill(scores.amax(-1, keepdim=True) == -torch.inf, 0.0)


def module_weights(request: WeightRequest, module: nn.MultiheadAttention, *args: object, **kwargs: object) -> Tensor:
    """Return B H R K of a module called with these arguments."""
    given = inspect.signature(nn.MultiheadAttention.forward).bind(module, *args, **kwargs).arguments
    query, key, value = given["query"], given["key"], given["value"]
    masks = {name: given.get(name) for name in ("key_padding_mask", "attn_mask")}
    if query.is_nested:  # nested tensor: nn.TransformerEncoder makes one from a padding mask
        lengths = torch.tensor([len(one) for one in query.unbind()], device=query.device)
        query = key = value = query.to_padded_tensor(0.0)
        masks["key_padding_mask"] = torch.arange(query.shape[1], device=query.device) >= lengths.unsqueeze(-1)
    if query.dim() == 3 and module.batch_first:
        query, key, value = (x.transpose(0, 1) for x in (query, key, value))
    rows = request.rows_of(len(query))
    masks = {name: _additive(mask, query) for name, mask in masks.items()}
    if request.rows is not None:
        query = query[rows]
        masks["attn_mask"] = None if masks["attn_mask"] is None else masks["attn_mask"][..., rows, :]
    separate = not module._qkv_same_embed_dim
    weights = function_weights(
        query, key, value, module.embed_dim, module.num_heads, module.in_proj_weight, module.in_proj_bias,
        module.bias_k, module.bias_v, module.add_zero_attn, 0.0, module.out_proj.weight, module.out_proj.bias,
        use_separate_proj_weight=separate, q_proj_weight=module.q_proj_weight if separate else None,
        k_proj_weight=module.k_proj_weight if separate else None,
        v_proj_weight=module.v_proj_weight if separate else None, **masks,
    )  # fmt: skip
    return weights[:, request.heads_of(module.num_heads)]


def function_weights(*args: object, **kwargs: object) -> Tensor:
    """Return B H Q K of `torch.nn.functional.multi_head_attention_forward`, called with these arguments.

    Keys that it adds (bias, zeros) have no token and are dropped, so rows may sum to less than one."""
    given = inspect.signature(F.multi_head_attention_forward).bind(*args, **kwargs).arguments
    given |= {"training": False, "need_weights": True, "average_attn_weights": False, "is_causal": False}
    _, weights = F.multi_head_attention_forward(**given)
    assert weights is not None
    weights = (weights if weights.dim() == 4 else weights[None])[..., : len(given["key"])].float()
    masked = given.get("attn_mask") is not None or given.get("key_padding_mask") is not None
    return weights.nan_to_num(0.0) if masked else weights


def _additive(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """Convert masks of torch.nn to an additive one. Two masks must both be boolean (True: masked) or additive."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=like.dtype, device=mask.device).masked_fill(mask, -torch.inf)


def with_heads(x: Tensor) -> Tensor:
    """Reshape the leading dimensions to B H; a single one is the batch."""
    if x.dim() == 2:
        return x[None, None]
    return x.unsqueeze(1) if x.dim() == 3 else x.flatten(1, -3)
