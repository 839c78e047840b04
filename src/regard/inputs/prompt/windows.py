"""Windows of a long text, in an order that two integers name.

Each epoch cuts the text into windows of `context` tokens, from a place drawn anew, and shuffles them: every token is
predicted once an epoch, and not twice at the same place of its window. A window has one token more than it predicts
from; it is the first of the next window.

Random numbers come from (seed, epoch) alone, and batches do not depend on the number of processes.
"""

import numpy as np
import torch

from regard.data.batches import Batches, seeded
from regard.errors import CallError
from regard.inputs.prompt.store import TextStore
from regard.models.language_model import TextBatch


class TextWindows(Batches[TextBatch | None]):
    """The batches of a store, epoch by epoch: `rows` windows each, the last one perhaps fewer."""

    def __init__(self, store: TextStore, context: int, rows: int, *, seed: int = 0) -> None:
        if len(store) < 2:
            raise CallError(f"{store.name}: has {len(store)} tokens, too few to train on")
        super().__init__(seed=seed)
        self._store, self._context, self._rows = store, min(context, len(store) - 1), rows

    def _plan(self, epoch: int) -> list[np.ndarray]:
        """Where the windows begin."""
        chance, predicted = seeded(self._seed, epoch), len(self._store) - 1
        first = int(chance.integers(min(self._context, predicted - self._context + 1)))
        starts = chance.permutation(np.arange(first, predicted - self._context + 1, self._context))
        return np.split(starts, range(self._rows, len(starts), self._rows))

    def batch(self, rows: np.ndarray, epoch: int = 0) -> TextBatch | None:
        places = rows[:, None] + np.arange(self._context + 1)
        return TextBatch(torch.from_numpy(self._store.ids[places].astype(np.int64))) if len(rows) else None
