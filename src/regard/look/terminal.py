"""An alignment matrix in the terminal: one row a word that was written, one column a word that was read.

Colour cells where the terminal has colours, shades of ASCII where it has not (NO_COLOR, a pipe, a dumb terminal). Where
the matrix is wider than the terminal, each row lists the words most attended to instead.
"""

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

SHADES = " .:-=+*#%@"
CELL = 3  # columns of the terminal that one weight takes


def matrix(weights: np.ndarray, rows: Sequence[str], columns: Sequence[str], console: Console) -> Text:
    """Draw weights (rows × columns, each row a distribution) for this console."""
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (len(rows), len(columns)):
        raise ValueError(f"weights of shape {weights.shape} do not fit {len(rows)} rows and {len(columns)} columns")
    label = max((cell_len(row) for row in rows), default=0)
    if label + 1 + CELL * len(columns) > console.width:
        return _lists(weights, rows, columns, label)
    text = Text(no_wrap=True)
    for line in _upright(columns):
        text.append(" " * (label + 1) + line + "\n", style="dim")
    for row, values in zip(rows, weights, strict=True):
        text.append(" " * (label - cell_len(row)) + row + " ")
        for value in values:
            _cell(text, float(value), coloured=console.color_system is not None and not console.no_color)
        text.append("\n")
    text.right_crop()  # the last line's end is the printer's
    return text


def _upright(columns: Sequence[str]) -> list[str]:
    """The column labels, written downwards, ending at the matrix."""
    height = min(12, max((len(column) for column in columns), default=0))
    cut = [column if len(column) <= height else column[: height - 1] + "…" for column in columns]
    padded = [" " * (height - len(column)) + column for column in cut]
    return ["".join(set_cell_size(" " + column[i], CELL) for column in padded) for i in range(height)]


def _cell(text: Text, value: float, *, coloured: bool) -> None:
    value = min(max(value, 0.0), 1.0)
    if not coloured:
        shade = SHADES[min(int(value * len(SHADES)), len(SHADES) - 1)]
        text.append(shade * (CELL - 1) + " ")
        return
    # From the terminal's own dark to a warm yellow: square root, so that small weights can be told from none.
    strength = value**0.5
    red, green, blue = (int(a + (b - a) * strength) for a, b in ((38, 255), (38, 200), (50, 60)))
    text.append(" " * CELL, style=f"on rgb({red},{green},{blue})")


def _lists(weights: np.ndarray, rows: Sequence[str], columns: Sequence[str], label: int, most: int = 3) -> Text:
    text = Text()
    for row, values in zip(rows, weights, strict=True):
        best = [i for i in np.argsort(-values)[:most] if values[i] >= 0.05]
        seen = ", ".join(f"{columns[i]} {values[i]:.2f}" for i in best)
        text.append(" " * (label - cell_len(row)) + row + " ← ")
        text.append(seen + "\n", style="dim")
    text.right_crop()
    return text
