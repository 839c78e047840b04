"""The table of scores of the tanh form, without more memory than the table itself.

    e_ij = wᵀ tanh(q_i + k_j)

To inspect attention, the table Q×K is needed; the direct equation makes an intermediate tensor of Q×K×D, which autograd
keeps. Here, as in `streaming`, one tile of tanh values is computed at a time, and again for the gradient.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.leading_shape import leading_shape
from regard.attention.streaming_plan import Plan, TanhGradients, flat
from regard.native import kernels


def tanh_table(
    query: Float[Tensor, "*#b Q D"], key: Float[Tensor, "*#b K D"], weight: Float[Tensor, " D"]
) -> Float[Tensor, "*b Q K"]:
    lead = leading_shape(query, key)
    query, key = flat(query, lead), flat(key, lead)
    if not torch.is_grad_enabled() and kernels.available(query, key, weight):
        table = kernels.tanh_scores(query, key, weight)
    else:
        table = _TanhTable.apply(query, key, weight)
    return table.reshape(*lead, query.shape[-2], key.shape[-2])


class _TanhTable(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, query: Float[Tensor, "B Q D"], key: Float[Tensor, "B K D"], weight: Float[Tensor, " D"]
    ) -> Float[Tensor, "B Q K"]:
        plan = Plan(query, key)
        table = query.new_empty(plan.B, plan.Q, plan.K)
        for rows, queries in plan.blocks():
            table[rows, queries] = plan.table(query[rows, queries], key[rows], weight)
        ctx.save_for_backward(query, key, weight)
        return table

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Float[Tensor, "B Q K"]):  # pyright: ignore[reportIncompatibleMethodOverride]
        query, key, weight = ctx.saved_tensors
        plan, found = Plan(query, key), TanhGradients(query, key, weight)
        for block in plan.blocks():
            for span in plan.spans():
                tanh = plan.tanh(query[block], key[block.rows, span])
                found.add(block, span, tanh, gradient[block.rows, block.queries, span].contiguous())
        return found.query.mul_(weight), found.key.mul_(weight), found.weight
