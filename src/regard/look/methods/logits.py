"""Which part of a Transformer made the answer: direct logit attribution.

    logit(y) = w_y · norm(x_0 + Σ_j a_j) + b_y = w_y · S x_0 + Σ_j w_y · S a_j + w_y · β + b_y

a_j is what head, feed-forward or bias j added to the stream (`look/stream.py`), S the norm as a linear map: x − mean(x)
over the deviation that the whole sum had, times γ (RMS norm: no mean, no β). Elhage et al. 2021; Wang et al. 2022,
section 3.1 (arXiv:2211.00593).

What is exact: the parts add up to the logit, with norms first and with norms last. What is not: S is held as it was. A
part also changed the deviation, by which all others were divided, and the heads after it. With norms first that is one
norm, the last; with norms last (Vaswani et al. 2017) a part goes through every norm after it, so those of early layers
are less to be trusted. What a part did through others is not in its number: patching asks for that.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import CallError
from regard.look.stream import Part, Reading


@torch.no_grad()
def direct_logits(
    reading: Reading, norm: nn.Module, output: nn.Linear, answers: Int[Tensor, " T"], instead: Int[Tensor, " T"] | None
) -> list[Part]:
    """Each part's share of the logit of the answer, `added` being T; they add up to it, or to its lead over another."""
    start = reading.states[0]
    parts = [Part("embedding", -1, -1, start)]
    bias = torch.zeros_like(start)
    for one in reading.written:
        heads = [-1] if one.kind == "feed-forward" else range(len(one.parts))
        parts += [Part(one.kind, one.layer, head, x) for head, x in zip(heads, one.parts, strict=True)]
        bias = bias if one.bias is None else bias + one.bias
        if one.norm is not None and one.before_norm is not None:
            parts, bias = _through(one.norm, one.before_norm, parts, bias)
    parts, bias = _through(norm, reading.states[-1], parts, bias)
    direction = output.weight[answers] - (0.0 if instead is None else output.weight[instead])  # T D
    parts.append(Part("bias", -1, -1, bias))
    found = [part._replace(added=(part.added * direction).sum(-1)) for part in parts]
    if output.bias is not None:
        offset = output.bias[answers] - (0.0 if instead is None else output.bias[instead])
        found[-1] = found[-1]._replace(added=found[-1].added + offset)
    return found


def _through(
    norm: nn.Module, whole: Float[Tensor, "T D"], parts: Sequence[Part], bias: Float[Tensor, "T D"]
) -> tuple[list[Part], Float[Tensor, "T D"]]:
    """Each part through the norm as it was for the whole; β has a place among the biases."""
    if isinstance(norm, nn.Identity):
        return list(parts), bias
    if isinstance(norm, nn.LayerNorm):
        scale = (whole.var(-1, correction=0, keepdim=True) + norm.eps).rsqrt()
        scale = scale if norm.weight is None else scale * norm.weight
        found = [part._replace(added=(part.added - part.added.mean(-1, keepdim=True)) * scale) for part in parts]
        bias = (bias - bias.mean(-1, keepdim=True)) * scale
        return found, bias if norm.bias is None else bias + norm.bias
    if isinstance(norm, nn.RMSNorm):
        eps = torch.finfo(whole.dtype).eps if norm.eps is None else norm.eps
        scale = (whole.square().mean(-1, keepdim=True) + eps).rsqrt()
        scale = scale if norm.weight is None else scale * norm.weight
        return [part._replace(added=part.added * scale) for part in parts], bias * scale
    raise CallError(f"a norm of class {type(norm).__name__} cannot be taken apart: LayerNorm and RMSNorm can")
