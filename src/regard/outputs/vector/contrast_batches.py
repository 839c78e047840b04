"""Batches for losses that hold each pair against the others of its batch: a lone pair would learn nothing."""

import numpy as np
from numpy.typing import NDArray

from regard.data.examples import ExampleBatches


class ContrastBatches(ExampleBatches):
    """Batches of two pairs at least, if there are two; a pair that was left alone joins another batch."""

    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        plan = super()._plan(epoch)
        lone, others = [rows for rows in plan if len(rows) == 1], [rows for rows in plan if len(rows) > 1]
        if not others:
            return [np.concatenate(lone)] if lone else []
        for place, rows in enumerate(lone):
            others[place % len(others)] = np.concatenate([others[place % len(others)], rows])
        return others
