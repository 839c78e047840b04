"""What every encoder makes and every decoder attends to: a set of vectors with a mask."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class Memory:
    """K vectors a batch row, a mask (True = may attend; None = all of them), and one vector that sums them up.

    `summary` is the *thought vector* of sequence-to-sequence without attention: a recurrent encoder's last state, or
    the mean of the vectors for encoders that have no last state.
    """

    vectors: Float[Tensor, "B K D"]
    mask: Bool[Tensor, "B K"] | None
    summary: Float[Tensor, "B E"]
    grid: tuple[int, int] | None = None  # rows × columns, where the K vectors are regions of an image

    def select(self, rows: Tensor) -> "Memory":
        """Keep, drop, repeat or reorder batch rows."""
        mask = None if self.mask is None else self.mask[rows]
        return Memory(self.vectors[rows], mask, self.summary[rows], self.grid)
