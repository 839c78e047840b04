"""Positions on a grid: one half of the vector encodes the row, the other half the column.

    p_{r,c} = [row_r; column_c]        each half sinusoidal or learned

Parmar et al. 2018, section 3.1, arXiv:1802.05751.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.learned import Learned
from regard.attention.positions import Combine, known_combine, with_positions
from regard.attention.sinusoidal import sinusoids


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
