"""Examples that are held in memory, for inputs whose data is small or made: nothing is written to a cache."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.examples import Example, Examples
from regard.data.read_report import ReadReport


class ListedExamples(Examples):
    def __init__(
        self,
        name: str,
        examples: Sequence[Example],
        items: Sequence[Any],
        targets: Sequence[Sequence[int] | NDArray[Any]],
        length: Callable[[Any], int],
        collate: Callable[[Sequence[Any]], Any],
    ) -> None:
        """`items` and `targets` are those of the examples, in their order; `length` and `collate` are the input's."""
        self.name, self.counts = name, ReadReport(len(examples))
        self._examples, self._items, self._length, self._collate = list(examples), list(items), length, collate
        self._targets = [np.array(ids, np.int64) for ids in targets]

    def __len__(self) -> int:
        return len(self._items)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        sources = [self._length(item) for item in self._items]
        return np.array(sources, np.int32), np.array([len(ids) for ids in self._targets], np.int32)

    def source(self, rows: NDArray[np.int64], epoch: int) -> Any:
        return self._collate([self._items[row] for row in rows.tolist()])

    def target(self, row: int) -> NDArray[Any]:
        return self._targets[row]

    def digest(self) -> str:
        return blake2b(repr([(one.input, one.texts) for one in self._examples]).encode(), digest_size=16).hexdigest()

    def examples(self, most: int) -> list[Example]:
        return self._examples[:most]
