"""One column of a list: what stands in its cells, each once, in the form that batches are made from.

An input that stands beside another one (`inputs/joint.py`) is given such a column, and not files of its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.text_hash import text_hash
from regard.errors import CallError


class Column(ABC):
    """Values are numbered in the order in which they were given."""

    bad: dict[int, str]  # the numbers of those that cannot be read, and why

    @abstractmethod
    def length(self, number: int) -> int:
        """How many vectors it becomes."""

    @abstractmethod
    def source(self, numbers: NDArray[np.int64], rows: NDArray[np.int64], epoch: int) -> Any:
        """What an encoder reads of these. `rows` say apart what is changed differently in an epoch of training."""

    @abstractmethod
    def one(self, number: int) -> Any:
        """The value, as `Input.read` takes it."""

    @abstractmethod
    def hash(self, number: int) -> int:
        """64 bits that tell contents apart, for data that changed and for what stands in two splits."""


class ReadColumn(Column):
    """All items are in memory: of texts, that is little."""

    def __init__(
        self,
        values: Mapping[str, Any],
        read: Callable[[Any], Any],
        length: Callable[[Any], int],
        collate: Callable[[Sequence[Any]], Any],
    ) -> None:
        """`values` by name; `read`, `length` and `collate` are the input's."""
        self._names, self._values = list(values), list(values.values())
        self._length, self._collate = length, collate
        self._items: list[Any] = []
        self.bad = {}
        for number, value in enumerate(self._values):
            try:
                self._items.append(read(value))
            except CallError as problem:
                self._items.append(None)
                self.bad[number] = str(problem)

    def length(self, number: int) -> int:
        return self._length(self._items[number])

    def source(self, numbers: NDArray[np.int64], rows: NDArray[np.int64], epoch: int) -> Any:
        return self._collate([self._items[number] for number in numbers.tolist()])

    def one(self, number: int) -> Any:
        return self._values[number]

    def hash(self, number: int) -> int:
        return text_hash(self._names[number])
