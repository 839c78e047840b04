"""Linear layers whose weights are kept in fewer bits, because reading them is what a step of a language model costs.

    int8   W ≈ s · Q       Q: integers from −127 to 127;   s = max |W| / 127, one for each output
    bf16   W ≈ B           the upper 16 bits of each number: 8 bits of precision instead of 24

One scale for each output: Jacob et al. 2018, section 2.1 (arXiv:1712.05877), without an offset. What comes in stays
float32, and so do sums: a few of the numbers that come into the last matrix of a feed-forward are so large (Sun et al.
2024, section 2, arXiv:2402.17762) that 8 bits would leave nothing of the others. The kernels of `native` make numbers
float32 while they are in registers, for one row, or a panel at a time, for many (or sum up bytes, for one row that is
written down with 24 bits, `panels.h`); weights lie in the order in which they read them. Where there are none (no
compiler, GPUs), all weights of a layer are made float32 again for each product: the same numbers; that saves memory,
and costs time.

This changes what a model says, a little, and is done only when somebody asks for it.
"""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.multihead import MultiHead
from regard.errors import CallError
from regard.layers import large_pages
from regard.layers.feed_forward import FeedForward
from regard.native import kernels

Precision = Literal["int8", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


class QuantizedLinear(nn.Module):
    """In place of an `nn.Linear`, for prediction only, on the device where that is."""

    kept: Tensor  # Q or B, in panels of so many outputs as the kernels have
    scale: Tensor | None

    def __init__(self, layer: nn.Linear, precision: Precision) -> None:
        super().__init__()
        self.in_features, self.out_features, self.bias = layer.in_features, layer.out_features, layer.bias
        self.precision: Precision = precision
        weight, scale = layer.weight.detach(), None
        self.columns = kernels.panel_width() if kernels.available(weight) else 1
        weight = F.pad(weight, (0, -self.in_features % kernels.FOUR, 0, -self.out_features % self.columns))
        if precision == "int8":
            scale = (weight.abs().amax(1) / 127).clamp(min=1e-12)
            numbers = (weight / scale.unsqueeze(1)).round().to(torch.int8)
        else:
            numbers = weight.bfloat16()
        beside = 4 // numbers.itemsize  # inputs that make 32 bits
        panels = numbers.view(-1, self.columns, numbers.shape[1] // beside, beside).transpose(1, 2)
        self.register_buffer("kept", panels.contiguous(), persistent=False)
        self.register_buffer("scale", scale, persistent=False)

    @property
    def nbytes(self) -> int:
        """What a product reads."""
        return self.kept.nbytes

    @property
    def weight(self) -> Float[Tensor, "E D"]:
        """As float32: what the layer computes with."""
        rows = self.kept.transpose(1, 2).flatten(0, 1).flatten(1).float()
        rows = rows if self.scale is None else rows * self.scale.unsqueeze(1)
        return rows[: self.out_features, : self.in_features]

    def matrix(self) -> kernels.Matrix:
        """As the kernels see it."""
        kind = kernels.HALVES if self.scale is None else kernels.BYTES
        return kernels.matrix(self.kept, kind, self.out_features, self.in_features, self.scale, self.bias)

    def forward(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b E"]:
        with_gradient = x.requires_grad and torch.is_grad_enabled()  # the kernels have none
        if self.columns == 1 or with_gradient or not kernels.available(x) or self.kept.device != x.device:
            return F.linear(x, self.weight, self.bias)
        rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
        return kernels.linear_kept(rows, self.matrix()).view(*x.shape[:-1], -1)


def quantize(model: nn.Module, precision: Precision) -> None:
    """The linear layers of self-attention and feed-forward, and the output layer, in place."""
    parts: list[tuple[nn.Module, str]] = []
    for module in model.modules():
        if isinstance(module, FeedForward):
            parts += [(module, "widen"), (module, "narrow")]
        elif isinstance(module, MultiHead) and module.memory_width is None:
            parts += [(module, "project"), (module, "out")]
    if not parts:
        raise CallError(f"quantize={precision!r}: this model has no Transformer layers, whose weights could be kept so")
    if isinstance(getattr(model, "output", None), nn.Linear):
        parts.append((model, "output"))
    small = [QuantizedLinear(getattr(module, name), precision) for module, name in parts]
    for (module, name), layer in zip(parts, small, strict=True):
        setattr(module, name, layer)
    for layer, kept in zip(small, large_pages.copied([layer.kept for layer in small]), strict=True):
        layer.kept = kept
