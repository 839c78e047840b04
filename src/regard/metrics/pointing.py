"""The pointing game: whether the region of largest weight is in the right box. Zhang et al. 2016, section 4.2
(arXiv:1608.00507), whose 15 pixels of tolerance are left out: a region is larger than that.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Box = tuple[float, float, float, float]  # top, left, bottom, right, in the units of the picture's size


class Pointed(NamedTuple):
    """`chance`: how often a blind pick of a region would be a hit."""

    hit: bool
    chance: float


def pointed(
    weights: Float[np.ndarray, " K"], grid: tuple[int, int], size: tuple[int, int], boxes: Sequence[Box]
) -> Pointed:
    """Whether the middle of the most attended region lies in one of the boxes.

    `size`: height and width of the picture, in pixels; 1 and 1 where boxes are shares of it.
    """
    (rows, columns), (height, width) = grid, size
    row, column = np.divmod(np.arange(rows * columns), columns)
    down, right = (row + 0.5) * height / rows, (column + 0.5) * width / columns
    inside = np.zeros(rows * columns, bool)
    for top, left, bottom, end in boxes:
        inside |= (down >= top) & (down < bottom) & (right >= left) & (right < end)
    return Pointed(bool(inside[weights.argmax()]), float(inside.mean()))


def pointing_scores(found: Sequence[Pointed]) -> dict[str, float]:
    """Return the scores in percent; empty without boxes."""
    if not found:
        return {}
    return {
        "pointing": 100 * float(np.mean([one.hit for one in found])),
        "pointing_uniform": 100 * float(np.mean([one.chance for one in found])),
    }
