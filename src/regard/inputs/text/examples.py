"""Stored pairs of texts as examples: the ids of both sides are on disk, and nothing of them is kept in memory."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.examples import Example, Examples
from regard.data.pairs import Pair
from regard.inputs.text.frame import Frame
from regard.inputs.text.pair_store import PairStore
from regard.inputs.text.splits import Split


class PairExamples(Examples):
    def __init__(
        self,
        store: PairStore,
        split: Split,
        frame: Frame,
        example: Callable[[Pair], Example] = lambda pair: Example(pair.source, (pair.target,)),
    ) -> None:
        self.store, self._split, self._frame, self._example = store, split, frame, example
        self.name, self.counts = store.name, store.counts.read

    def __len__(self) -> int:
        return len(self.store)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        return self.store.lengths()

    def source(self, rows: NDArray[np.int64], epoch: int) -> Any:
        return self._frame.padded([self.store[int(row)][0] for row in rows])

    def target(self, row: int) -> NDArray[Any]:
        return self.store[row][1]

    def digest(self) -> str:
        return self.store.digest()

    def examples(self, most: int) -> list[Example]:
        """By length, so that those in the middle are of middling length."""
        return [self._example(pair) for pair in sorted(islice(self._pairs(), most), key=lambda pair: len(pair.source))]

    def targets_read(self) -> Iterator[tuple[str, int]]:
        return ((pair.target, pair.line) for pair in self._pairs())

    def _pairs(self) -> Iterator[Pair]:
        return (item for item in self._split.read() if isinstance(item, Pair))
