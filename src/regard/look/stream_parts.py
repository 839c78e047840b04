"""The residual stream as a sum of contributions, at any layer, with fixed norms.

    x_l = token + position + Σ_{parts before layer l} a_j + biases         norm(x) = S x + β,  S x = Σ_j S a_j

S is the norm as a linear map: x − mean(x) over the deviation of the whole sum, times γ (RMS norm: no mean, no β).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import CallError
from regard.look.stream import Reading


class Part(NamedTuple):
    """A contribution to the stream: `decoder.2.3` is head 3 of layer 2. Head −1: parts without heads."""

    kind: str
    layer: int
    head: int
    added: Tensor  # T D

    @property
    def name(self) -> str:
        if self.layer < 0:
            return self.kind
        return f"{self.kind}.{self.layer}" + ("" if self.head < 0 else f".{self.head}")


def stream_parts(reading: Reading, layer: int) -> tuple[list[Part], Float[Tensor, "T D"]]:
    """Return the contributions to the state before this layer (or after the last), and biases."""
    start, tokens = reading.states[0], reading.tokens
    parts = [Part("token", -1, -1, start if tokens is None else tokens)]
    if tokens is not None:
        parts.append(Part("position", -1, -1, start - tokens))
    bias = torch.zeros_like(start)
    for one in reading.written:
        if one.layer >= layer:
            break
        heads = [-1] if one.kind == "feed-forward" else range(len(one.parts))
        parts += [Part(one.kind, one.layer, head, x) for head, x in zip(heads, one.parts, strict=True)]
        bias = bias if one.bias is None else bias + one.bias
        if one.norm is not None and one.before_norm is not None:
            parts, bias = through(one.norm, one.before_norm, parts, bias)
    return parts, bias


def through(
    norm: nn.Module, whole: Float[Tensor, "T D"], parts: Sequence[Part], bias: Float[Tensor, "T D"]
) -> tuple[list[Part], Float[Tensor, "T D"]]:
    """Apply the norm of the whole sum to each part; β is one of the biases."""
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
