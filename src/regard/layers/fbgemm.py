"""Products with weights in fewer bits, by the kernels of fbgemm, which torch has on x86.

    fp16   y = x Bᵀ              B: weights as floats of 16 bits, made float32 on their way into the product
    int8   y = s t (R − z) Qᵀ    Q: weights as integers, s: a scale for each output
                                 R = round(x / t) + z: x as integers from 0 to 255; t, z by the range of x

Sums are in float32, and of integers exact. Weights are laid out for the kernel once, and serve for any number of rows.
One row has a t and a z of its own. Several rows share them, so they are made equally large first: no row is
rounded more coarsely because another one is large.

Khudia et al. 2021, "FBGEMM", section 3 (arXiv:2101.05615).
"""

import warnings
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

Packed = Any  # an object of torch's own, in C++
LARGER = 1024.0  # so many times as large are x when they are rounded: the kernel takes no t below 6.1e-5


@cache
def available() -> bool:
    """Whether this build of torch and this processor have the kernels."""
    try:
        one = torch.ones(1, 8)
        fp16_product(one, pack_fp16(torch.ones(8, 8)))
        int8_product(one, pack_int8(torch.ones(8, 8, dtype=torch.int8), torch.ones(8)))
    except (RuntimeError, AttributeError):
        return False
    return True


def pack_fp16(weight: Float[Tensor, "E D"]) -> Packed:
    """Of float32 numbers, which 16 bits should hold: up to ±65504."""
    return torch.ops.quantized.linear_prepack_fp16(weight, None)


def fp16_weight(packed: Packed) -> Float[Tensor, "E D"]:
    return torch.ops.quantized.linear_unpack_fp16(packed)[0]


def fp16_product(x: Float[Tensor, "N D"], packed: Packed) -> Float[Tensor, "N E"]:
    return torch.ops.quantized.linear_dynamic_fp16(x, packed)


def pack_int8(weight: Int[Tensor, "E D"], scale: Float[Tensor, " E"]) -> Packed:
    zero = torch.zeros(len(scale), dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch wants to do without such tensors: then `available` says no
        both = torch._make_per_channel_quantized_tensor(weight, scale.double() / LARGER, zero, 0)  # pyright: ignore[reportPrivateImportUsage]
    return torch.ops.quantized.linear_prepack(both, None)


def int8_weight(packed: Packed) -> Float[Tensor, "E D"]:
    return torch.ops.quantized.linear_unpack(packed)[0].dequantize() * LARGER


def int8_product(x: Float[Tensor, "N D"], packed: Packed) -> Float[Tensor, "N E"]:
    if len(x) == 1:
        return torch.ops.quantized.linear_dynamic(x * LARGER, packed, _sums_overflow())
    size = x.abs().amax(1, keepdim=True).clamp_(min=torch.finfo(x.dtype).tiny)
    return torch.ops.quantized.linear_dynamic(x / size * LARGER, packed, _sums_overflow()).mul_(size)


@cache
def _sums_overflow() -> bool:
    """Without VNNI, two products of 8 bits are summed in 16: then x is rounded to 7 bits, so that they fit."""
    return not torch.cpu._is_vnni_supported()
