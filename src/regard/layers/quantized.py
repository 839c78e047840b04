"""Linear layers whose weights are kept in fewer bits, because reading them is what a step of a language model costs.

    int8   W ≈ s · Q       Q: integers from −127 to 127;   s = max |W| / 127, one for each output
    fp16   W ≈ B           11 bits of precision instead of 24: what was trained in bf16, with 8, stays as it is

One scale for each output: Jacob et al. 2018, section 2.1 (arXiv:1712.05877), without an offset. Where the kernels of
`fbgemm` run, they make the products, for one row and for many; what comes in is rounded to 8 bits for int8, row by row,
and stays float32 for fp16. The last matrix of a feed-forward is kept as fp16 for int8, too: a few of the numbers that
come into it are so large (Sun et al. 2024, section 2, arXiv:2402.17762) that 8 bits would leave nothing of the others.

Elsewhere (other processors, GPUs) weights are made float32 again for each product: that saves memory, and no time.

This changes what a model says, a little, and is done only when somebody asks for it.
"""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.multihead import MultiHead
from regard.errors import CallError
from regard.layers import fbgemm
from regard.layers.feed_forward import FeedForward

Precision = Literal["int8", "fp16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
LARGEST = torch.finfo(torch.float16).max


class QuantizedLinear(nn.Module):
    """In place of an `nn.Linear`, for prediction only, on the device where that is."""

    kept: Tensor | None  # Q or B, where they are not packed
    scale: Tensor | None

    def __init__(self, layer: nn.Linear, precision: Precision) -> None:
        super().__init__()
        self.in_features, self.out_features, self.bias = layer.in_features, layer.out_features, layer.bias
        self.precision: Precision = precision
        weight, scale = layer.weight.detach(), None
        if precision == "int8":
            scale = (weight.abs().amax(1) / 127).clamp(min=1e-12)
            kept = (weight / scale.unsqueeze(1)).round().to(torch.int8)
        else:
            kept = weight.clamp(-LARGEST, LARGEST).half()
        self.packed: fbgemm.Packed | None = None
        if weight.device.type == "cpu" and weight.dtype == torch.float32 and fbgemm.available():
            self.packed = fbgemm.pack_fp16(kept.float()) if scale is None else fbgemm.pack_int8(kept, scale)
        self.register_buffer("kept", kept if self.packed is None else None, persistent=False)
        self.register_buffer("scale", scale if self.packed is None else None, persistent=False)

    @property
    def nbytes(self) -> int:
        """What a product reads."""
        return self.in_features * self.out_features * (1 if self.precision == "int8" else 2)

    @property
    def weight(self) -> Float[Tensor, "E D"]:
        """As float32: what the layer computes with."""
        if self.packed is not None:
            return fbgemm.fp16_weight(self.packed) if self.precision == "fp16" else fbgemm.int8_weight(self.packed)
        assert self.kept is not None
        return self.kept.float() if self.scale is None else self.kept * self.scale.unsqueeze(1)

    def forward(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b E"]:
        rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
        y = self._product(rows)
        if self.bias is not None:
            y = y + self.bias
        return y if x.dim() == 2 else y.view(*x.shape[:-1], -1)

    def _product(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N E"]:
        if self.packed is None or (x.requires_grad and torch.is_grad_enabled()):  # the kernels have no gradient
            return F.linear(x, self.weight)
        return fbgemm.fp16_product(x, self.packed) if self.precision == "fp16" else fbgemm.int8_product(x, self.packed)


def quantize(model: nn.Module, precision: Precision) -> None:
    """The linear layers of self-attention and feed-forward, and the output layer, in place."""
    parts: list[tuple[nn.Module, str, Precision]] = []
    for module in model.modules():
        if isinstance(module, FeedForward):
            parts.append((module, "widen", precision))
            parts.append((module, "narrow", "fp16"))
        elif isinstance(module, MultiHead) and module.memory_width is None:
            parts.append((module, "project", precision))
            parts.append((module, "out", precision))
    if not parts:
        raise CallError(f"quantize={precision!r}: this model has no Transformer layers, whose weights could be kept so")
    if isinstance(getattr(model, "output", None), nn.Linear):
        parts.append((model, "output", precision))
    for module, name, kept_as in parts:
        setattr(module, name, QuantizedLinear(getattr(module, name), kept_as))
