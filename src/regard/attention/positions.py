"""Where things are. Attention by itself sees a set; positions make a sequence, or a grid, of it.

Sinusoidal (Vaswani et al. 2017, section 3.5, arXiv:1706.03762; any length, bounded, nothing to learn):

    PE(t, 2i) = sin(t / 10000^{2i/d})        PE(t, 2i+1) = cos(t / 10000^{2i/d})

Learned (Gehring et al. 2017, section 3.1, arXiv:1705.03122): a vector for each position up to a largest one. On a
grid one half of the vector says the row and the other half the column (Parmar et al. 2018, section 3.1,
arXiv:1802.05751).

All are modules from x to x with positions: added to it, which takes vectors of its own width, or with
`combine="concat"` written beside it, which makes it wider by the width of the positions. See `rotary` and `relative`
for positions inside the score.
"""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

Combine = Literal["add", "concat"]

_READY = 1024  # sinusoids that are computed in advance; those beyond are computed when they are needed


def sinusoids(length: int, width: int, *, start: int = 0) -> Float[Tensor, "T D"]:
    """The table PE(t, ·) for t = start … start + length − 1, interleaved. An odd width leaves out the last cosine."""
    # In double: the angles of late positions are large, and float32 would round them away.
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
        self.combine: Combine = _known(combine)
        self.register_buffer("table", sinusoids(_READY, width), persistent=False)

    def forward(self, x: Float[Tensor, "*b T D"], start: int = 0) -> Float[Tensor, "*b T E"]:
        """`start` is the position of the first of the T vectors: in decoding, the number of steps already taken."""
        stop = start + x.shape[-2]
        if stop <= _READY:
            table = self.table[start:stop]
        else:
            table = sinusoids(x.shape[-2], self.width, start=start).to(x.device)
        return _combined(x, table, self.combine)


class Learned(nn.Module):
    """A learned vector for each of `length` positions."""

    def __init__(self, width: int, length: int, *, combine: Combine = "add"):
        super().__init__()
        self.combine: Combine = _known(combine)
        self.table = nn.Parameter(torch.empty(length, width))
        nn.init.normal_(self.table, std=0.02)  # as in BERT and GPT-2: well below the size of embeddings

    def forward(self, x: Float[Tensor, "*b T D"], start: int = 0) -> Float[Tensor, "*b T E"]:
        """`start` is the position of the first of the T vectors: in decoding, the number of steps already taken."""
        stop = start + x.shape[-2]
        if stop > len(self.table):
            raise ValueError(
                f"a sequence reaches position {stop}, but positions were learned up to {len(self.table)}; cut the "
                "sequence, or train with a longer table or with sinusoidal positions"
            )
        return _combined(x, self.table[start:stop], self.combine)


class SinusoidalGrid(nn.Module):
    """Sinusoids of the row beside sinusoids of the column, for a grid of any size."""

    def __init__(self, width: int, *, combine: Combine = "add"):
        super().__init__()
        self.width = width
        self.combine: Combine = _known(combine)

    def forward(self, x: Float[Tensor, "*b K D"], grid: tuple[int, int]) -> Float[Tensor, "*b K E"]:
        """`grid` is rows × columns; the K vectors go through it row by row."""
        half = self.width // 2
        rows, columns = sinusoids(grid[0], half), sinusoids(grid[1], self.width - half)
        return _combined(x, _on_grid(x, grid, rows, columns).to(x.device), self.combine)


class LearnedGrid(nn.Module):
    """A learned vector for each row beside a learned vector for each column."""

    def __init__(self, width: int, rows: int, columns: int, *, combine: Combine = "add"):
        super().__init__()
        self.combine: Combine = _known(combine)
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
        return _combined(x, _on_grid(x, grid, self.rows[:rows], self.columns[:columns]), self.combine)


class LearnedTextAndGrid(nn.Module):
    """For a text and then a picture: a learned vector for each place of the text, row beside column for each region."""

    def __init__(self, width: int, text: int, grid: tuple[int, int]):
        super().__init__()
        self.text = Learned(width, text)
        self.grid = LearnedGrid(width, *grid)

    @property
    def table(self) -> Float[Tensor, "T D"]:
        return torch.cat([self.text.table, _cells(self.grid.rows, self.grid.columns)])

    def forward(self, x: Float[Tensor, "*b T D"], start: int = 0) -> Float[Tensor, "*b T D"]:
        """`start` is the position of the first of the T vectors: in decoding, the number of steps already taken."""
        table, stop = self.table, start + x.shape[-2]
        if stop > len(table):
            raise ValueError(f"a sequence reaches position {stop}, but a text and its picture have {len(table)}")
        return _combined(x, table[start:stop], "add")


def _known(combine: Combine) -> Combine:
    if combine not in get_args(Combine):
        raise ValueError(f"combine={combine!r} must be one of {', '.join(get_args(Combine))}")
    return combine


def _on_grid(
    x: Float[Tensor, "*b K D"], grid: tuple[int, int], rows: Float[Tensor, "R E"], columns: Float[Tensor, "C F"]
) -> Float[Tensor, "K G"]:
    if grid[0] * grid[1] != x.shape[-2]:
        raise ValueError(
            f"grid={grid[0]}×{grid[1]} has {grid[0] * grid[1]} places, but there are {x.shape[-2]} vectors"
        )
    return _cells(rows, columns)


def _cells(rows: Float[Tensor, "R E"], columns: Float[Tensor, "C F"]) -> Float[Tensor, "K G"]:
    """Row beside column for each cell of the grid, row by row."""
    return torch.cat([rows.repeat_interleave(len(columns), 0), columns.repeat(len(rows), 1)], dim=-1)


def _combined(x: Float[Tensor, "*b T D"], table: Float[Tensor, "T P"], combine: Combine) -> Float[Tensor, "*b T E"]:
    table = table.to(x.dtype)
    if combine == "concat":
        return torch.cat([x, table.expand(*x.shape[:-1], -1)], dim=-1)
    if table.shape[-1] != x.shape[-1]:
        raise ValueError(
            f"positions of width {table.shape[-1]} cannot be added to vectors of width {x.shape[-1]}; "
            "make the widths equal, or use combine='concat'"
        )
    return x + table
