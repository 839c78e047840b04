"""Linear layers whose weights are kept in fewer bits, because reading them is what a step of a language model costs.

    int8   W ≈ s · Q       Q: integers from −127 to 127;   s = max |W| / 127, one for each output
    bf16   W ≈ B           B: 8 bits of precision instead of 24

One scale for each output: Jacob et al. 2018, section 2.1 (arXiv:1712.05877), without an offset. Products are summed in
float32. A few rows are rounded to bf16 and multiplied with the small weights (int8: `torch._weight_int8pack_mm`; bf16:
laid out for the processor, in place of the plain form, where that is measured to be faster). Many rows, as of a prompt,
read the weights once for all of them: there the weights are made float32 again.

This changes what a model says, a little, and is done only when somebody asks for it.
"""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.multihead import MultiHead
from regard.errors import CallError
from regard.layers.feed_forward import FeedForward
from regard.layers.packed import pack, packed_is_faster, packs, product

Precision = Literal["int8", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
FEW_ROWS = 8  # up to which the small weights are multiplied as they are


class QuantizedLinear(nn.Module):
    """In place of an `nn.Linear`, for prediction only."""

    kept: Tensor  # Q or B
    scale: Tensor

    def __init__(self, layer: nn.Linear, precision: Precision) -> None:
        super().__init__()
        self.in_features, self.out_features, self.bias = layer.in_features, layer.out_features, layer.bias
        weight = layer.weight.detach()
        scale = torch.ones(len(weight), dtype=torch.bfloat16, device=weight.device)
        if precision == "int8":
            # The kernel takes the scale in bf16: rounded first, it is the same here and there.
            scale = (weight.abs().amax(1) / 127).clamp(min=1e-12).bfloat16()
            kept = (weight / scale.float().unsqueeze(1)).round().clamp(-127, 127).to(torch.int8)
        else:
            kept = weight.bfloat16()
        self.register_buffer("kept", kept, persistent=False)
        self.register_buffer("scale", scale, persistent=False)

    @property
    def weight(self) -> Float[Tensor, "E D"]:
        """As float32: what the layer computes with, up to the rounding of its input."""
        kept = self.kept.to_dense() if self.kept.is_mkldnn else self.kept
        return kept.float() if kept.is_floating_point() else kept * self.scale.float().unsqueeze(1)

    def forward(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b E"]:
        rows = x.reshape(-1, x.shape[-1])
        if len(rows) > FEW_ROWS or x.device.type != "cpu":
            return F.linear(x, self.weight, self.bias)
        if self._packs():
            self.kept = pack(self.kept, rows=1)
        y = few_rows(rows.bfloat16(), self.kept, self.scale).float()
        return (y if self.bias is None else y + self.bias).view(*x.shape[:-1], -1)

    def _packs(self) -> bool:
        if self.kept.is_mkldnn or not self.kept.is_floating_point() or not packs(self.kept.dtype):
            return False
        return packed_is_faster(self.out_features, self.in_features, 1, torch.get_num_threads(), self.kept.dtype)


def few_rows(x: Float[Tensor, "N D"], kept: Float[Tensor, "E D"] | Int[Tensor, "E D"], scale: Tensor) -> Tensor:
    if kept.is_mkldnn:
        return product(x, kept, None)
    if kept.is_floating_point():
        return F.linear(x, kept)
    return torch._weight_int8pack_mm(x, kept, scale)  # pyright: ignore[reportPrivateImportUsage]


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
    for module, name in parts:
        setattr(module, name, QuantizedLinear(getattr(module, name), precision))
