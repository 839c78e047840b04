"""One column of the data: what comes in, each once, in the form that batches are made from.

Pictures and recordings of a split are a column. An input that stands beside another one (`inputs/joint.py`) is given
the values of a column of a list, and not files of its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.store import text_hash
from regard.errors import CallError


class Column(ABC):
    numbers: Mapping[str, int]  # of the values that can be used, by their names

    @abstractmethod
    def why(self, name: str) -> str:
        """Why a value has no number."""

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
        self._values, self._length, self._collate = values, length, collate
        self._items, self._bad = dict[str, Any](), dict[str, str]()
        for name, value in values.items():
            try:
                self._items[name] = read(value)
            except CallError as problem:
                self._bad[name] = str(problem)
        self._names = list(self._items)
        self.numbers = {name: number for number, name in enumerate(self._names)}

    def why(self, name: str) -> str:
        return self._bad[name]

    def length(self, number: int) -> int:
        return self._length(self._items[self._names[number]])

    def source(self, numbers: NDArray[np.int64], rows: NDArray[np.int64], epoch: int) -> Any:
        return self._collate([self._items[self._names[number]] for number in numbers.tolist()])

    def one(self, number: int) -> Any:
        return self._values[self._names[number]]

    def hash(self, number: int) -> int:
        return text_hash(self._names[number])
