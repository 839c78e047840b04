"""What a recurrent decoder carries from step to step, as a value of its own."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoders.decoder import share


@dataclass(frozen=True)
class RecurrentState:
    """N = B · copies rows, and what they share of the memory."""

    hidden: Float[Tensor, "L N D"]
    cell: Float[Tensor, "L N D"] | None  # LSTM
    fed: Float[Tensor, "N E"] | None  # f_{t−1}, with input feeding
    key: Float[Tensor, "B K Dk"] | None  # prepared for the score
    value: Float[Tensor, "B K Dv"] | None
    mask: Bool[Tensor, "B 1 K"] | None
    summary: Float[Tensor, "B S"] | None  # the context of `constant`
    copies: int
    watch: bool
    weights: Float[Tensor, "N K"] | None = None  # where the last step looked, if `watch`

    @property
    def rows(self) -> int:
        return self.hidden.shape[1]

    @property
    def device(self) -> torch.device:
        return self.hidden.device

    def select(self, rows: Int[Tensor, " M"]) -> "RecurrentState":
        memory_rows, copies = share(rows, self.rows // self.copies, self.copies)

        def of_memory(x: Tensor | None) -> Tensor | None:
            return x if x is None or memory_rows is None else x[memory_rows]

        return RecurrentState(
            hidden=self.hidden[:, rows],
            cell=None if self.cell is None else self.cell[:, rows],
            fed=None if self.fed is None else self.fed[rows],
            key=of_memory(self.key),
            value=of_memory(self.value),
            mask=of_memory(self.mask),
            summary=of_memory(self.summary),
            copies=copies,
            watch=self.watch,
            weights=None if self.weights is None else self.weights[rows],
        )

    def packed(self) -> Tensor | tuple[Tensor, Tensor]:
        """As nn.GRU and nn.LSTM want it."""
        return self.hidden if self.cell is None else (self.hidden, self.cell)
