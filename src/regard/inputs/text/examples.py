"""Stored pairs of texts as examples: the ids of both sides are on disk, and nothing of them is kept in memory."""

from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.data.examples import Example, Examples
from regard.data.pairs import Pair
from regard.inputs.text.frame import Frame
from regard.inputs.text.pair_store import PairStore
from regard.inputs.text.splits import Split


class PairExamples(Examples):
    def __init__(self, store: PairStore, split: Split, frame: Frame) -> None:
        self.store, self._split, self._frame = store, split, frame
        self.name, self.counts = store.name, store.counts.read

    def __len__(self) -> int:
        return len(self.store)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        return self.store.lengths()

    def source(self, rows: NDArray[np.int64], epoch: int) -> Tensor:
        return self._frame.padded([self.store[int(row)][0] for row in rows])

    def target(self, row: int) -> NDArray[Any]:
        return self.store[row][1]

    def digest(self) -> str:
        return self.store.digest()

    def examples(self, most: int) -> list[Example]:
        """By length, so that those in the middle are of middling length."""
        pairs = islice((item for item in self._split.read() if isinstance(item, Pair)), most)
        return [Example(pair.source, (pair.target,)) for pair in sorted(pairs, key=lambda pair: len(pair.source))]
