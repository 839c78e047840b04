"""Quantized linear layers: weights in fewer bits, because reading them is the main cost of a language model's step.

    int8   W ≈ s · Q       Q: integers from −127 to 127;   s = max |W| / 127, one for each output
    bf16   W ≈ B           a sign, an exponent and 7 bits of each number, in 12 bits: 8 bits of precision instead of 24

One scale for each output: Jacob et al. 2018, section 2.1 (arXiv:1712.05877), without an offset. Inputs and sums stay
float32: a few inputs of the last matrix of a feed-forward are so large (Sun et al. 2024, section 2, arXiv:2402.17762)
that 8 bits would lose the others. The kernels of `native` convert numbers to float32 in registers for one row, or one
panel at a time for many rows (or sum up bytes, for one row that is encoded in 24 bits, `panels.h`). Weights are stored
in the order in which the kernels read them. Without kernels (no compiler, GPUs), all weights of a layer are converted
to float32 for each product: the same numbers, less memory, but more time.

This changes the predictions of a model slightly, and happens only on request.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.multihead import MultiHead
from regard.errors import CallError
from regard.layers import large_pages, twelve_bits
from regard.layers.fastest import fastest
from regard.layers.feed_forward import FeedForward
from regard.native import kernels

Precision = Literal["int8", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
AHEAD = (0, 8192)  # bytes
ROUNDS = 3
BLOCK = 1024  # outputs converted at a time, so that the temporary copy stays in caches


class QuantizedLinear(nn.Module):
    """Replacement of an `nn.Linear`, for prediction only, on the same device."""

    kept: Tensor  # Q or B, in panels with the kernels' number of outputs
    scale: Tensor
    ahead = 0  # bytes of `kept` that are prefetched

    def __init__(self, layer: nn.Linear, precision: Precision) -> None:
        super().__init__()
        self.in_features, self.out_features, self.bias = layer.in_features, layer.out_features, layer.bias
        self.precision: Precision = precision
        weight = layer.weight.detach()
        self.columns = kernels.panel_width() if kernels.available(weight) else 1
        weight = F.pad(weight, (0, -self.in_features % kernels.FOUR, 0, -self.out_features % self.columns))
        parts = [_kept(rows, precision, self.columns) for rows in weight.split(BLOCK)]
        kept, scale = (torch.cat(part) for part in zip(*parts, strict=True))
        self.register_buffer("kept", kept, persistent=False)
        self.register_buffer("scale", scale, persistent=False)

    @property
    def nbytes(self) -> int:
        """Return the number of bytes that a product reads."""
        return self.kept.nbytes

    @property
    def weight(self) -> Float[Tensor, "E D"]:
        """Return the weight as float32, as the layer uses it."""
        if self.precision == "int8":
            rows = self.kept.transpose(1, 2).flatten(0, 1).flatten(1) * self.scale.unsqueeze(1)
        else:
            rows = twelve_bits.floats(self.kept if self.columns == 1 else twelve_bits.unpacked(self.kept), self.scale)
        return rows[: self.out_features, : self.in_features]

    def matrix(self) -> kernels.Matrix:
        """Return the matrix in the form of the kernels."""
        kind = kernels.BYTES if self.precision == "int8" else kernels.TWELVES
        return kernels.matrix(self.kept, kind, self.out_features, self.in_features, self.scale, self.bias, self.ahead)

    def forward(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b E"]:
        with_gradient = x.requires_grad and torch.is_grad_enabled()  # the kernels have none
        if self.columns == 1 or with_gradient or not kernels.available(x) or self.kept.device != x.device:
            return F.linear(x, self.weight, self.bias)
        rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
        return kernels.linear_kept(rows, self.matrix()).view(*x.shape[:-1], -1)


def _kept(weight: Float[Tensor, "E D"], precision: Precision, columns: int) -> tuple[Tensor, Float[Tensor, " E"]]:
    """Return Q or B, and the scale of each output."""
    if precision == "bf16":
        codes, scale = twelve_bits.coded(weight)
        return codes if columns == 1 else twelve_bits.packed(codes, columns), scale
    scale = (weight.abs().amax(1) / 127).clamp(min=1e-12)
    numbers = (weight / scale.unsqueeze(1)).round().to(torch.int8)
    return numbers.view(-1, columns, numbers.shape[1] // 4, 4).transpose(1, 2).contiguous(), scale


def quantize(model: nn.Module, precision: Precision) -> None:
    """Quantize the linear layers of self-attention and feed-forward, and the output layer, in place."""
    parts: list[tuple[nn.Module, str]] = []
    for module in model.modules():
        if isinstance(module, FeedForward):
            parts += [(module, "widen"), (module, "narrow")]
        elif isinstance(module, MultiHead) and module.memory_width is None:
            parts += [(module, "project"), (module, "out")]
    if not parts:
        raise CallError(f"quantize={precision!r}: this model has no Transformer layers to quantize")
    if isinstance(getattr(model, "output", None), nn.Linear):
        parts.append((model, "output"))
    small = [QuantizedLinear(getattr(module, name), precision) for module, name in parts]
    for (module, name), layer in zip(parts, small, strict=True):
        setattr(module, name, layer)
    for layer, kept in zip(small, large_pages.copied([layer.kept for layer in small]), strict=True):
        layer.kept = kept
    _choose_ahead(small)


@torch.no_grad()
def _choose_ahead(layers: Sequence[QuantizedLinear]) -> None:
    """Choose the prefetch distance for weights in a step of one text, by timing with weights outside of caches."""
    if sum(layer.nbytes for layer in layers) < large_pages.WORTH_IT or not kernels.available(layers[0].scale):
        return

    def step(ahead: int) -> None:
        for layer in layers:
            layer.ahead = ahead
            layer(torch.ones(1, layer.in_features))

    chosen = AHEAD[fastest([[partial(step, ahead)] * ROUNDS for ahead in AHEAD])]
    for layer in layers:
        layer.ahead = chosen
