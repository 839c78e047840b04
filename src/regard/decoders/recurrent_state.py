"""What a recurrent decoder carries from step to step, as a value of its own."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoders.decoder import share, stacked


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

    @property
    def joins(self) -> bool:
        return not self.watch

    def join(self, other: "RecurrentState") -> "RecurrentState":
        def both(mine: Tensor | None, theirs: Tensor | None, dim: int) -> Tensor | None:
            return None if mine is None or theirs is None else stacked(mine, theirs, dim=dim)

        cell = None if self.cell is None or other.cell is None else torch.cat([self.cell, other.cell], 1)
        return replace(
            self,
            hidden=torch.cat([self.hidden, other.hidden], 1),
            cell=cell,
            fed=both(self.fed, other.fed, 1),
            key=both(self.key, other.key, 1),
            value=both(self.value, other.value, 1),
            mask=both(self._real(), other._real(), 2),
            summary=both(self.summary, other.summary, 1),
        )

    def _real(self) -> Bool[Tensor, "B 1 K"] | None:
        """The mask, also where there is none because all vectors are real."""
        if self.mask is not None or self.key is None:
            return self.mask
        return torch.ones(len(self.key), 1, self.key.shape[1], dtype=torch.bool, device=self.device)

    def packed(self) -> Tensor | tuple[Tensor, Tensor]:
        """As nn.GRU and nn.LSTM want it."""
        return self.hidden if self.cell is None else (self.hidden, self.cell)
