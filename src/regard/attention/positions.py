"""Positions. Attention alone processes a set; positions make it a sequence or a grid.

    add      x_t + p_t        vectors and positions have the same width
    concat   [x_t; p_t]       which makes x wider by the width of the positions

Each kind of position has its own file, and is a module from x to x with positions:

    sinusoidal       waves of the position t: any length, nothing to learn
    learned          a vector for each position, up to a maximum
    grid_positions   both for rows and columns: pictures

See `rotary` and `relative` for positions inside the score.
"""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

Combine = Literal["add", "concat"]


def with_positions(
    x: Float[Tensor, "*b T D"], table: Float[Tensor, "#N T P"] | Float[Tensor, "T P"], combine: Combine
) -> Float[Tensor, "*b T E"]:
    table = table.to(x.dtype)
    if combine == "concat":
        return torch.cat([x, table.expand(*x.shape[:-1], -1)], dim=-1)
    if table.shape[-1] != x.shape[-1]:
        raise ValueError(
            f"positions of width {table.shape[-1]} cannot be added to vectors of width {x.shape[-1]}; "
            "make the widths equal, or use combine='concat'"
        )
    return x + table


def known_combine(combine: Combine) -> Combine:
    if combine not in get_args(Combine):
        raise ValueError(f"combine={combine!r} must be one of {', '.join(get_args(Combine))}")
    return combine
