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
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.multihead import MultiHead
from regard.errors import CallError
from regard.kernels import inference
from regard.layers import packed
from regard.layers.feed_forward import FeedForward
from regard.layers.packed import fastest

# Numbers of bf16 in 12 bits.
#
#     ±1.m · 2^e      bf16: 1 bit for the sign, 8 for e, 7 for m;     here 4 for e, where 0 means that the number is 0
#
# All numbers of a row share a power of two, such that the largest has the largest e. Numbers smaller than 2^-14 of
# that, one in thousands, become 2^-14 of it or 0, whichever is nearer; all others are unchanged bf16.
#
# Eight numbers are three of 32 bits, the first in the upper bits. The rows of a panel are two halves of so many as a
# processor has lanes; of four inputs, an output of the first half and its neighbor in the second make eight numbers.

LARGEST = 15  # of 4 bits
RAISED = 2.0**112  # as in kernels/panels.h


def pack_bf12(weight: Float[Tensor, "E D"]) -> tuple[Int[Tensor, "E D"], Float[Tensor, " E"]]:
    """Return codes (16 bits, the upper 4 empty), and the power of two of each row, divided by RAISED."""
    bits = weight.bfloat16().view(torch.int16)
    exponent = bits >> 7 & 0xFF
    largest = exponent.amax(1, keepdim=True)
    zero = (largest - LARGEST).clamp(min=1)  # the exponent of bf16 that none has here any more
    exponent -= zero
    size = (exponent << 7 | bits & 0x7F).masked_fill_(exponent == 0, 1 << 7).masked_fill_(exponent < 0, 0)
    scale = (
        (zero.int() + 15 << 23).view(torch.float32).masked_fill(largest == 0xFF, torch.nan)
    )  # NaN for rows with NaN or infinity
    return size | bits >> 4 & 0x800, scale.squeeze(1)


def floats(codes: Int[Tensor, "E D"], scale: Float[Tensor, " E"]) -> Float[Tensor, "E D"]:
    bits = codes.int()
    return ((bits & 0x800) << 20 | (bits & 0x7FF) << 16).view(torch.float32) * RAISED * scale.unsqueeze(1)


def pack_panels(codes: Int[Tensor, "E D"], columns: int) -> Int[Tensor, "P F 3 L"]:
    """Return P panels of `columns` rows, with F times four inputs."""
    halves = codes.int().view(-1, 2, columns // 2, codes.shape[1] // 4, 4)
    a, b, c, d, e, f, g, h = halves.permute(4, 1, 0, 3, 2).flatten(0, 1)
    return torch.stack([a << 20 | b << 8 | c >> 4, c << 28 | d << 16 | e << 4 | f >> 8, f << 24 | g << 12 | h], dim=2)


def unpack_words(words: Int[Tensor, "P F 3 L"]) -> Int[Tensor, "E D"]:
    first, second, third = words.unbind(2)
    codes = torch.stack([
        first >> 20, first >> 8, first << 4 | second >> 28 & 0xF, second >> 16,
        second >> 4, second << 8 | third >> 24 & 0xFF, third >> 12, third,
    ])  # fmt: skip
    panels, fours, _, lanes = words.shape
    rows = (codes & 0xFFF).view(4, 2, panels, fours, lanes).permute(2, 1, 4, 3, 0)
    return rows.reshape(panels * 2 * lanes, fours * 4).short()


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
        self.columns = inference.panel_width() if inference.available(weight) else 1
        weight = F.pad(weight, (0, -self.in_features % inference.FOUR, 0, -self.out_features % self.columns))
        parts = [_quantize(rows, precision, self.columns) for rows in weight.split(BLOCK)]
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
            rows = floats(self.kept if self.columns == 1 else unpack_words(self.kept), self.scale)
        return rows[: self.out_features, : self.in_features]

    def matrix(self) -> inference.PackedMatrix:
        """Return the matrix in the form of the kernels."""
        kind = inference.BYTES if self.precision == "int8" else inference.TWELVES
        return inference.matrix(self.kept, kind, self.out_features, self.in_features, self.scale, self.bias, self.ahead)

    def forward(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b E"]:
        with_gradient = x.requires_grad and torch.is_grad_enabled()  # the kernels have none
        if self.columns == 1 or with_gradient or not inference.available(x) or self.kept.device != x.device:
            return F.linear(x, self.weight, self.bias)
        rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
        return inference.linear_kept(rows, self.matrix()).view(*x.shape[:-1], -1)


def _quantize(weight: Float[Tensor, "E D"], precision: Precision, columns: int) -> tuple[Tensor, Float[Tensor, " E"]]:
    """Return Q or B, and the scale of each output."""
    if precision == "bf16":
        codes, scale = pack_bf12(weight)
        return codes if columns == 1 else pack_panels(codes, columns), scale
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
    for layer, kept in zip(small, packed.copy_to_large_pages([layer.kept for layer in small]), strict=True):
        layer.kept = kept
    _choose_ahead(small)


@torch.no_grad()
def _choose_ahead(layers: Sequence[QuantizedLinear]) -> None:
    """Choose the prefetch distance for weights in a step of one text, by timing with weights outside of caches."""
    if sum(layer.nbytes for layer in layers) < packed.WORTH_IT or not inference.available(layers[0].scale):
        return

    def step(ahead: int) -> None:
        for layer in layers:
            layer.ahead = ahead
            layer(torch.ones(1, layer.in_features))

    chosen = AHEAD[fastest([[partial(step, ahead)] * ROUNDS for ahead in AHEAD])]
    for layer in layers:
        layer.ahead = chosen


# One row times a matrix: y = x Wᵀ + b, whose cost is reading W from memory.
#
# Some matrix libraries read it with one core if x has only one row, others in an order that suits many rows. The
# kernel of `kernels/panels.h` reads W in memory order, row by row, with prefetching, and all cores share the work.


def one_row(layer: nn.Module, x: Float[Tensor, "1 D"]) -> Float[Tensor, "1 E"]:
    """Return `layer(x)`, without autograd."""
    known = isinstance(layer, nn.Linear | QuantizedLinear)
    if known and not (layer._forward_pre_hooks or layer._forward_hooks) and inference.available(x):
        kept = matrix(layer)
        if kept is not None:
            return inference.linear_kept(x, kept)
    return layer(x)


def matrix(layer: nn.Module) -> inference.PackedMatrix | None:
    """Return a linear layer in the form of the kernels, or None if they do not support it."""
    if isinstance(layer, QuantizedLinear):
        return layer.matrix() if layer.columns > 1 and layer.kept.device.type == "cpu" else None
    if type(layer) is not nn.Linear or not inference.available(layer.weight) or not layer.weight.is_contiguous():
        return None
    return inference.matrix(layer.weight, inference.FLOATS, layer.out_features, layer.in_features, bias=layer.bias)
