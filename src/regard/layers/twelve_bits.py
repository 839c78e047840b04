"""Numbers of bf16 in 12 bits.

    ±1.m · 2^e      bf16: 1 bit for the sign, 8 for e, 7 for m;     here 4 for e, where 0 means that the number is 0

All numbers of a row share a power of two, such that the largest has the largest e. Numbers smaller than 2^-14 of that,
one in thousands, become 2^-14 of it or 0, whichever is nearer; all others are unchanged bf16.

Eight numbers are three of 32 bits, the first in the upper bits. The rows of a panel are two halves of so many as a
processor has lanes; of four inputs, an output of the first half and its neighbor in the second make eight numbers.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

LARGEST = 15  # of 4 bits
RAISED = 2.0**112  # as in native/panels.h


def coded(weight: Float[Tensor, "E D"]) -> tuple[Int[Tensor, "E D"], Float[Tensor, " E"]]:
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


def packed(codes: Int[Tensor, "E D"], columns: int) -> Int[Tensor, "P F 3 L"]:
    """Return P panels of `columns` rows, with F times four inputs."""
    halves = codes.int().view(-1, 2, columns // 2, codes.shape[1] // 4, 4)
    a, b, c, d, e, f, g, h = halves.permute(4, 1, 0, 3, 2).flatten(0, 1)
    return torch.stack([a << 20 | b << 8 | c >> 4, c << 28 | d << 16 | e << 4 | f >> 8, f << 24 | g << 12 | h], dim=2)


def unpacked(words: Int[Tensor, "P F 3 L"]) -> Int[Tensor, "E D"]:
    first, second, third = words.unbind(2)
    codes = torch.stack([
        first >> 20, first >> 8, first << 4 | second >> 28 & 0xF, second >> 16,
        second >> 4, second << 8 | third >> 24 & 0xFF, third >> 12, third,
    ])  # fmt: skip
    panels, fours, _, lanes = words.shape
    rows = (codes & 0xFFF).view(4, 2, panels, fours, lanes).permute(2, 1, 4, 3, 0)
    return rows.reshape(panels * 2 * lanes, fours * 4).short()
