"""Windows of a long text, in an order that two integers name.

Each epoch cuts the text into windows of `context` tokens, from a place drawn anew, and shuffles them: every token is
predicted once an epoch, and not twice at the same place of its window. A window has one token more than it predicts
from; it is the first of the next window.

Random numbers come from (seed, epoch) alone, and batches do not depend on the number of processes.
"""

from collections.abc import Iterator

import numpy as np
import torch

from regard.errors import CallError
from regard.inputs.prompt.store import TextStore
from regard.models.language_model import TextBatch


class TextWindows:
    """The batches of a store, epoch by epoch: `rows` windows each, the last one perhaps fewer."""

    def __init__(self, store: TextStore, context: int, rows: int, *, seed: int = 0) -> None:
        if len(store) < 2:
            raise CallError(f"{store.name}: has {len(store)} tokens, too few to train on")
        self._store, self._context, self._rows, self._seed = store, min(context, len(store) - 1), rows, seed
        self._planned: tuple[int, np.ndarray] | None = None

    def plan(self, epoch: int) -> np.ndarray:
        """Where each window of an epoch begins, in the order of the epoch. The last one asked for is remembered."""
        if self._planned is None or self._planned[0] != epoch:
            chance = np.random.Generator(np.random.Philox(np.random.SeedSequence([self._seed, epoch])))
            predicted = len(self._store) - 1
            first = int(chance.integers(min(self._context, predicted - self._context + 1)))
            starts = np.arange(first, predicted - self._context + 1, self._context)
            self._planned = (epoch, chance.permutation(starts))
        return self._planned[1]

    def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[TextBatch | None]:
        """The batches of an epoch from the start-th on; process `rank` of `world` takes every world-th row of each."""
        plan = self.plan(number)
        for place in range(start * self._rows, len(plan), self._rows):
            rows = plan[place : place + self._rows][rank::world]
            yield self.windows(rows) if len(rows) else None

    def len_epoch(self, number: int) -> int:
        return -(-len(self.plan(number)) // self._rows)

    def windows(self, starts: np.ndarray) -> TextBatch:
        places = starts[:, None] + np.arange(self._context + 1)
        return TextBatch(torch.from_numpy(self._store.ids[places].astype(np.int64)))
