"""The encoder output (memory) that decoders attend to: vectors with a mask."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class Memory:
    """K vectors for each batch row, a mask (True = may attend; None = all), and one summary vector.

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
