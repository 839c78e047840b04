"""Batches of windows of series, for training and for scores."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batches import Batches, seeded
from regard.inputs.series.windows import Windows


@dataclass(frozen=True)
class SeriesBatch:
    """B windows, as `Cut` has them."""

    past: Float[Tensor, "B S C"]
    known: Float[Tensor, "B T F"]
    target: Float[Tensor, "B T M"]

    @classmethod
    def of(cls, windows: Windows, numbers: NDArray[np.int64]) -> "SeriesBatch":
        return cls(*map(torch.from_numpy, windows.cut(numbers)))

    def to(self, device: torch.device | str) -> "SeriesBatch":
        return SeriesBatch(self.past.to(device), self.known.to(device), self.target.to(device))


def in_order(windows: Windows, size: int) -> Iterator[SeriesBatch]:
    """All windows, each once, `size` at a time."""
    for start in range(0, len(windows), size):
        yield SeriesBatch.of(windows, np.arange(start, min(start + size, len(windows))))


class WindowBatches(Batches[SeriesBatch | None]):
    """A batch has max_tokens // rows of a window of them."""

    def __init__(self, windows: Windows, max_tokens: int, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self._windows, lay = windows, windows.layout
        self.size = max(1, max_tokens // (lay.look_back + lay.horizon))

    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        order = seeded(self._seed, epoch).permutation(len(self._windows))
        return np.split(order, range(self.size, len(order), self.size)) if len(order) else []

    def batch(self, rows: NDArray[np.int64], epoch: int = 0) -> SeriesBatch | None:
        return SeriesBatch.of(self._windows, rows) if len(rows) else None
