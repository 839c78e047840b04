"""Fast top-k of logits, and the log-sum-exp normalizer.

With eight thousand words and five beams, plain `topk` and `logsumexp` would take a fifth of a small Transformer's step.

    top        The maximum of each group of neighboring words is cheap. The n best words are all in the n groups with
               the best maxima: any other group has n words of other groups above all of its own. So look into n only.
    normalizer log Σ exp a = max a − log max softmax(a). On a CPU, softmax is one kernel that passes over a row while
               it is in the cache; a sum of exponentials by operations of their own takes half as long again.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.native import kernels

GROUP = 64  # words: four vectors of a processor that has sixteen numbers in each
BLOCK_ELEMENTS = 2**19  # whose softmax is taken at once: a table that is as large as the logits is never made


class Top(NamedTuple):
    value: Float[Tensor, "R n"]  # best first
    row: Int[Tensor, "R n"]  # which of the W
    token: Int[Tensor, "R n"]  # which of the V


def top(logits: Float[Tensor, "R W V"], offset: Float[Tensor, "R W"], count: int) -> Top:
    """The `count` best of offset[w] + logits[w, v] for each of R (fewer, if there are fewer), found exactly."""
    W, V = logits.shape[1:]
    if kernels.available(logits) and min(count, V) <= kernels.most_best():
        best, token = kernels.best(logits.flatten(0, 1), min(count, V))
        value = (best.view(-1, W, best.shape[1]).to(offset.dtype) + offset.unsqueeze(2)).flatten(1)
        value, place = value.topk(min(count, W * V), dim=1)
        return Top(value, place // best.shape[1], token.view(len(value), -1).gather(1, place))
    whole = V // GROUP
    best = logits[:, :, : whole * GROUP].unflatten(2, (whole, GROUP)).amax(3)
    if whole * GROUP < V:
        best = torch.cat([best, logits[:, :, whole * GROUP :].amax(2, keepdim=True)], dim=2)
    groups = best.shape[2]
    place = (best.to(offset.dtype) + offset.unsqueeze(2)).flatten(1).topk(min(count, W * groups), dim=1).indices
    row, group = place // groups, place % groups
    token = group.unsqueeze(2) * GROUP + torch.arange(GROUP, device=logits.device)  # all words of those groups
    beyond = token >= V
    token = token.clamp(max=V - 1)
    value = logits.flatten(1).gather(1, (row.unsqueeze(2) * V + token).flatten(1)).view(token.shape).to(offset.dtype)
    value = (value + offset.gather(1, row).unsqueeze(2)).masked_fill(beyond, -torch.inf).flatten(1)
    value, place = value.topk(min(count, W * V), dim=1)
    return Top(value, row.gather(1, place // GROUP), token.flatten(1).gather(1, place))


def most_probable(logits: Float[Tensor, "N V"]) -> tuple[Float[Tensor, " N"], Int[Tensor, " N"]]:
    """The best one of each row: its number, and which it is."""
    if kernels.available(logits):
        value, token = kernels.best(logits, 1)
        return value.squeeze(1), token.squeeze(1)
    found = top(logits.unsqueeze(1), logits.new_zeros(len(logits), 1), 1)
    return found.value.squeeze(1), found.token.squeeze(1)


def normalizer(logits: Float[Tensor, "N V"]) -> Float[Tensor, " N"]:
    """log Σ_v exp(logits_v)"""
    if kernels.available(logits):
        return kernels.normalizer(logits)
    if logits.device.type != "cpu":
        return logits.logsumexp(1)
    rows = max(1, BLOCK_ELEMENTS // logits.shape[1])
    largest = [F.softmax(block, dim=1, dtype=torch.float32).amax(1) for block in logits.split(rows)]
    return logits.amax(1).float() - torch.cat(largest).log_()
