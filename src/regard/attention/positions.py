"""Positions. Attention alone processes a set; positions make it a sequence or a grid.

    add      x_t + p_t        vectors and positions have the same width
    concat   [x_t; p_t]       which makes x wider by the width of the positions

Each kind of position has its own file, and is a module from x to x with positions:

    sinusoidal       waves of the position t: any length, nothing to learn
    learned          a vector for each position, up to a maximum
    grid_positions   both for rows and columns: pictures

See `rotary` and `relative` for positions inside the score.
"""

import math
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

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


# Sinusoidal positions: any length, bounded, nothing to learn.
#
#     PE(t, 2i) = sin(t / 10000^{2i/d})        PE(t, 2i+1) = cos(t / 10000^{2i/d})
#
# Vaswani et al. 2017, section 3.5, arXiv:1706.03762.

_READY = 1024  # positions with precomputed sinusoids; others are computed when needed


def sinusoids(length: int, width: int, *, start: int = 0) -> Float[Tensor, "T D"]:
    """Return PE(t, ·) for t = start … start + length − 1, interleaved. An odd width omits the last cosine."""
    # In float64: the angles of late positions are large, and float32 would lose precision.
    step = torch.arange(start, start + length, dtype=torch.float64)
    even = torch.arange(0, width, 2, dtype=torch.float64)
    angle = step.unsqueeze(1) * 10000 ** (-even / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width].float()


class Sinusoidal(nn.Module):
    """Sinusoids for a sequence of any length."""

    table: Tensor

    def __init__(self, width: int, *, combine: Combine = "add"):
        super().__init__()
        self.width = width
        self.combine: Combine = known_combine(combine)
        self.register_buffer("table", sinusoids(_READY, width), persistent=False)

    def forward(self, x: Float[Tensor, "*b T D"], start: int | Int[Tensor, " N"] = 0) -> Float[Tensor, "*b T E"]:
        """`start`: position of the first of the T vectors (in decoding, the steps so far), for all rows or one
        for each row, with T = 1."""
        if isinstance(start, Tensor):
            last = int(start.max())
            table = self.table if last < _READY else sinusoids(last + 1, self.width).to(x.device)
            return with_positions(x, table[start].unsqueeze(1), self.combine)
        stop = start + x.shape[-2]
        if stop <= _READY:
            table = self.table[start:stop]
        else:
            table = sinusoids(x.shape[-2], self.width, start=start).to(x.device)
        return with_positions(x, table, self.combine)


# Learned positions: a vector for each position up to a maximum.
#
#     x_t + P[t]        P: a table of parameters
#
# Gehring et al. 2017, section 3.1, arXiv:1705.03122.


class Learned(nn.Module):
    """A learned vector for each of `length` positions."""

    def __init__(self, width: int, length: int, *, combine: Combine = "add"):
        super().__init__()
        self.combine: Combine = known_combine(combine)
        self.table = nn.Parameter(torch.empty(length, width))
        nn.init.normal_(self.table, std=0.02)  # as in BERT and GPT-2: well below the size of embeddings

    def forward(self, x: Float[Tensor, "*b T D"], start: int | Int[Tensor, " N"] = 0) -> Float[Tensor, "*b T E"]:
        """`start`: position of the first of the T vectors (in decoding, the steps so far), for all rows or one
        for each row, with T = 1."""
        stop = int(start.max()) + 1 if isinstance(start, Tensor) else start + x.shape[-2]
        if stop > len(self.table):
            raise ValueError(
                f"a sequence reaches position {stop}, but positions were learned up to {len(self.table)}; cut the "
                "sequence, or train with a longer table or with sinusoidal positions"
            )
        table = self.table[start].unsqueeze(1) if isinstance(start, Tensor) else self.table[start:stop]
        return with_positions(x, table, self.combine)


_ROTARY_READY = 2048  # positions with precomputed rotations; others are computed when needed


class Rotary(nn.Module):
    """Rotary positions.

        (x'_{2i}, x'_{2i+1}) = (x_{2i}, x_{2i+1}) turned by t / 10000^{2i/d}      so that q'_s · k'_t depends on s −
        t only

    Su et al. 2021, "RoFormer", section 3.2, arXiv:2104.09864. Queries and keys are rotated by an angle that grows
    with their position; the dot product of two then depends on the distance only. Pairs are neighbors, as in the
    paper, or with `halves` feature i and feature i + d/2, as in LLaMA files: the same up to the order of features.
    """

    frequency: Tensor
    turns: Tensor

    def __init__(self, head_width: int, *, base: float = 10000.0, halves: bool = False):
        super().__init__()
        self.halves = halves
        if head_width % 2:
            raise ValueError(f"head_width={head_width} must be even for rotary positions: features turn in pairs")
        even = torch.arange(0, head_width, 2, dtype=torch.float64)
        self.register_buffer("frequency", (base ** (-even / head_width)).float(), persistent=False)
        self.register_buffer("turns", self._turns(0, _ROTARY_READY), persistent=False)

    def _turns(self, start: int, stop: int) -> Float[Tensor, "2 T h"]:
        """Return cosines and sines. Angles are float32 for any vectors: bfloat16 cannot represent position 257."""
        step = torch.arange(start, stop, device=self.frequency.device, dtype=torch.float32)
        angle = step.unsqueeze(1) * self.frequency.float()
        return torch.stack([angle.cos(), angle.sin()])

    def at(self, place: int) -> Float[Tensor, "2 h"]:
        """Return cosines and sines of one position."""
        turns, row = self.row(place)
        return turns[:, row]

    def row(self, place: int) -> tuple[Float[Tensor, "2 T h"], int]:
        """Return a table that contains the position, and its index there."""
        return (self.turns, place) if place < _ROTARY_READY else (self._turns(place, place + 1), 0)

    def forward(self, x: Float[Tensor, "*b T d"], start: int = 0) -> Float[Tensor, "*b T d"]:
        """Rotate T vectors, the first of which is at position `start`."""
        if x.shape[-1] != 2 * len(self.frequency):
            raise ValueError(
                f"vectors have width {x.shape[-1]}, but rotary positions were built for {2 * len(self.frequency)}"
            )
        stop = start + x.shape[-2]
        turns = self.turns[:, start:stop] if stop <= _ROTARY_READY else self._turns(start, stop)
        cos, sin = turns.to(x.dtype).unbind()
        if self.halves:
            first, second = x.chunk(2, dim=-1)
            return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)
        first, second = x[..., 0::2], x[..., 1::2]
        return torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1).flatten(-2)


class Alibi(nn.Module):
    """Relative positions as a bias on the scores: e_ij = score(q_i, k_j) + b_{j−i}, a table for each head.

    ALiBi: b = −slope_h · |i − j|, nothing to learn (Press, Smith, Lewis 2022, section 3, arXiv:2108.12409). The
    paper looks at the past only; for self-attention in both directions the distance counts either way.

    T5: b learned, one number for each head and bucket of distances; near distances have a bucket each, far ones
    share, logarithmically (Raffel et al. 2020, section 2.1, arXiv:1910.10683, and the bucket rule of its published
    code).

    Both return the bias for Q queries and K keys; the last query is aligned with the last key.
    """

    slopes: Tensor

    def __init__(self, heads: int):
        super().__init__()
        # 2^{−8/n}, 2^{−16/n}, … if n is a power of two; as in the paper's code, what is missing to another number comes
        # from every second slope of the next power.
        power = 2 ** math.floor(math.log2(heads))
        slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
        slopes += [2 ** (-4 * (2 * h + 1) / power) for h in range(heads - power)]
        self.register_buffer("slopes", torch.tensor(slopes), persistent=False)

    def forward(self, Q: int, K: int) -> Float[Tensor, "H Q K"]:
        return -self.slopes.view(-1, 1, 1) * _distance(Q, K, self.slopes.device).abs()


class RelativeBias(nn.Module):
    def __init__(self, heads: int, *, buckets: int = 32, farthest: int = 128, both_ways: bool = True):
        """`both_ways=False` is for causal attention: all buckets are then for the past."""
        super().__init__()
        if buckets < 4 or buckets % 2:
            raise ValueError(f"buckets={buckets} must be even and at least 4")
        if farthest <= buckets // 2:
            raise ValueError(f"farthest={farthest} must be greater than half of buckets={buckets}")
        self.buckets, self.farthest, self.both_ways = buckets, farthest, both_ways
        self.bias = nn.Parameter(torch.empty(heads, buckets))
        nn.init.normal_(self.bias, std=0.02)

    def forward(self, Q: int, K: int) -> Float[Tensor, "H Q K"]:
        return self.bias[:, self._bucket(_distance(Q, K, self.bias.device))]

    def _bucket(self, distance: Int[Tensor, "Q K"]) -> Int[Tensor, "Q K"]:
        """Return buckets: half are for one distance each, the others grow logarithmically up to `farthest`."""
        count, first = self.buckets, torch.zeros_like(distance)
        if self.both_ways:
            count //= 2
            first = (distance > 0) * count
            steps = distance.abs()
        else:
            steps = (-distance).clamp(min=0)
        exact = count // 2
        share = torch.log(steps.clamp(min=1) / exact) / math.log(self.farthest / exact)
        far = exact + (share * (count - exact)).long()
        return first + torch.where(steps < exact, steps, far.clamp(max=count - 1))


def _distance(Q: int, K: int, device: torch.device) -> Int[Tensor, "Q K"]:
    """Return j − i, with the last query aligned with the last key."""
    return torch.arange(K, device=device) - (torch.arange(Q, device=device) + (K - Q)).unsqueeze(1)


# Positions on a grid: one half of the vector encodes the row, the other half the column.
#
#     p_{r,c} = [row_r; column_c]        each half sinusoidal or learned
#
# Parmar et al. 2018, section 3.1, arXiv:1802.05751.


class SinusoidalGrid(nn.Module):
    """Sinusoids of the row and of the column, concatenated, for a grid of any size."""

    def __init__(self, width: int, *, combine: Combine = "add"):
        super().__init__()
        self.width = width
        self.combine: Combine = known_combine(combine)

    def forward(self, x: Float[Tensor, "*b K D"], grid: tuple[int, int]) -> Float[Tensor, "*b K E"]:
        """`grid` is rows × columns; the K vectors go through it row by row."""
        half = self.width // 2
        rows, columns = sinusoids(grid[0], half), sinusoids(grid[1], self.width - half)
        return with_positions(x, _on_grid(x, grid, rows, columns).to(x.device), self.combine)


class LearnedGrid(nn.Module):
    """A learned vector for each row and one for each column, concatenated."""

    def __init__(self, width: int, rows: int, columns: int, *, combine: Combine = "add"):
        super().__init__()
        self.combine: Combine = known_combine(combine)
        self.rows = nn.Parameter(torch.empty(rows, width // 2))
        self.columns = nn.Parameter(torch.empty(columns, width - width // 2))
        nn.init.normal_(self.rows, std=0.02)
        nn.init.normal_(self.columns, std=0.02)

    def forward(self, x: Float[Tensor, "*b K D"], grid: tuple[int, int]) -> Float[Tensor, "*b K E"]:
        """`grid` is rows × columns; the K vectors go through it row by row."""
        rows, columns = grid
        if rows > len(self.rows) or columns > len(self.columns):
            raise ValueError(
                f"the grid is {rows}×{columns}, but positions were learned for {len(self.rows)}×{len(self.columns)}"
            )
        return with_positions(x, _on_grid(x, grid, self.rows[:rows], self.columns[:columns]), self.combine)


class LearnedTextAndGrid(nn.Module):
    """Positions of a text followed by a picture: a vector for each text position, row and column of a region."""

    def __init__(self, width: int, text: int, grid: tuple[int, int]):
        super().__init__()
        self.text = Learned(width, text)
        self.grid = LearnedGrid(width, *grid)

    @property
    def table(self) -> Float[Tensor, "T D"]:
        return torch.cat([self.text.table, _cells(self.grid.rows, self.grid.columns)])

    def forward(self, x: Float[Tensor, "*b T D"], start: int | Int[Tensor, " N"] = 0) -> Float[Tensor, "*b T D"]:
        """`start`: position of the first of the T vectors (in decoding, the steps so far), for all rows or one
        for each row, with T = 1."""
        table, stop = self.table, int(start.max()) + 1 if isinstance(start, Tensor) else start + x.shape[-2]
        if stop > len(table):
            raise ValueError(f"a sequence reaches position {stop}, but a text and its picture have {len(table)}")
        return with_positions(x, table[start].unsqueeze(1) if isinstance(start, Tensor) else table[start:stop], "add")


def _on_grid(
    x: Float[Tensor, "*b K D"], grid: tuple[int, int], rows: Float[Tensor, "R E"], columns: Float[Tensor, "C F"]
) -> Float[Tensor, "K G"]:
    if grid[0] * grid[1] != x.shape[-2]:
        raise ValueError(f"grid={grid[0]}×{grid[1]} has {grid[0] * grid[1]} cells, but there are {x.shape[-2]} vectors")
    return _cells(rows, columns)


def _cells(rows: Float[Tensor, "R E"], columns: Float[Tensor, "C F"]) -> Float[Tensor, "K G"]:
    """Return the concatenated row and column vectors of each cell of the grid, row by row."""
    return torch.cat([rows.repeat_interleave(len(columns), 0), columns.repeat(len(rows), 1)], dim=-1)
