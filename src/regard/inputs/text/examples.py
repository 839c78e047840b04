"""Stored pairs of texts as examples: the ids of both sides are on disk, and nothing of them is kept in memory."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.examples import Example, Examples
from regard.data.pairs import Pair
from regard.data.splits import Split
from regard.data.store import Store
from regard.inputs.text.frame import Frame


class PairExamples(Examples):
    def __init__(
        self,
        store: Store,
        split: Split[Pair],
        frame: Frame,
        example: Callable[[Pair], Example] = lambda pair: Example(pair.source, (pair.target,)),
    ) -> None:
        self.store, self._split, self._frame, self._example = store, split, frame, example
        self.name, self.counts = store.name, store.counts.read

    def __len__(self) -> int:
        return len(self.store)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        return self.store.row_lengths("source"), self.store.row_lengths("target")

    def source(self, rows: NDArray[np.int64], epoch: int) -> Any:
        return self._frame.padded([self.store.row("source", int(row)) for row in rows])

    def target(self, row: int) -> NDArray[Any]:
        return self.store.row("target", row)

    def digest(self) -> str:
        return self.store.digest()

    def examples(self, most: int) -> list[Example]:
        """By length, so that those in the middle are of middling length."""
        return [
            self._example(pair) for pair in sorted(islice(self._split.good(), most), key=lambda pair: len(pair.source))
        ]

    def targets_read(self) -> Iterator[tuple[str, int]]:
        return ((pair.target, pair.line) for pair in self._split.good())
