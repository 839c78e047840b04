"""Columns of the data: the distinct inputs, in the form that batches are made from, and rows of them as examples.

Pictures and recordings of a split are a column. An input that is used with another one (`inputs/joint.py`) reads a
column of a list, not files.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.examples import Example, Examples
from regard.data.labels import evenly
from regard.data.pairs import ReadCounts, ReadReport, SideCounts
from regard.data.store import text_hash
from regard.data.vocabulary import Vocabulary, target_ids
from regard.encoders.text import JointMemory
from regard.errors import CallError


class InputColumn(ABC):
    numbers: Mapping[str, int]  # of the usable values, by their names

    @abstractmethod
    def why(self, name: str) -> str:
        """Return the reason why a value was rejected."""

    @abstractmethod
    def length(self, number: int) -> int:
        """Return the number of vectors of a value."""

    @abstractmethod
    def source(self, numbers: NDArray[np.int64], rows: NDArray[np.int64], epoch: int) -> Any:
        """Combine values to a batch for the encoder. Different `rows` of one value are augmented differently in an
        epoch.
        """

    @abstractmethod
    def one(self, number: int) -> Any:
        """Return the value as `Input.read` takes it."""

    @abstractmethod
    def hash(self, number: int) -> int:
        """Return a 64-bit content hash, to detect changed data and values that occur in two splits."""


class ReadColumn(InputColumn):
    """Column with all items in memory; texts need little."""

    def __init__(
        self,
        values: Mapping[str, Any],
        read: Callable[[Any], Any],
        length: Callable[[Any], int],
        collate: Callable[[Sequence[Any]], Any],
    ) -> None:
        """Create a column from `values` by name; `read`, `length` and `collate` are methods of the input."""
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


class TargetRow(NamedTuple):
    """Row of a target and the numbers of its inputs in their columns. `gold`: annotations of a corpus."""

    numbers: tuple[int, ...]
    text: str
    line: int
    gold: Any = None


class ColumnExamples(Examples):
    """Examples with a row for each target of an input."""

    def __init__(
        self,
        name: str,
        counts: ReadCounts,
        columns: Sequence[InputColumn],
        targets: Sequence[TargetRow],
        vocabulary: Vocabulary | None,
        limits: Sequence[int | float],
        *,
        scored: bool = False,
    ) -> None:
        """Create examples.

        vocabulary   of the targets; None for scored data only
        limits       most vectors of each column, and tokens of a target with its end token; longer rows are left out
        scored       nothing is left out: longer targets are cut
        """
        self.name, self.counts, self._counts = name, counts.read, counts
        self.columns, self.said, self._vocabulary = columns, targets, vocabulary
        #: The ids of all targets, including those that are left out.
        self.ids = [] if vocabulary is None else target_ids(vocabulary, [one.text for one in targets])
        self.sizes = np.array([[*self._measure(one), len(ids)] for one, ids in zip(targets, self.ids, strict=False)])
        self.sizes = self.sizes.reshape(len(self.ids), len(columns) + 1)
        fits = (self.sizes <= np.array(limits)).all(1)
        self.kept: NDArray[np.int64] = np.flatnonzero(fits | scored)
        self._long, self._most = np.flatnonzero(~fits).tolist(), limits[-1]
        #: The numbers of the inputs of each row: rows × columns.
        self.numbers: NDArray[np.int64] = np.array([targets[row].numbers for row in self.kept], np.int64)
        self.numbers = self.numbers.reshape(-1, len(columns))

    def _measure(self, one: TargetRow) -> list[int]:
        return [column.length(number) for column, number in zip(self.columns, one.numbers, strict=True)]

    def __len__(self) -> int:
        return len(self.kept)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        sizes = self.sizes[self.kept].astype(np.int32)
        return sizes[:, :-1].sum(1, dtype=np.int32), np.minimum(sizes[:, -1], self._most).astype(np.int32)

    def source(self, rows: NDArray[np.int64], epoch: int) -> Any:
        of_each = zip(self.columns, self.numbers[rows].T, strict=True)
        read = [column.source(numbers, rows, epoch) for column, numbers in of_each]
        return read[0] if len(read) == 1 else JointMemory(*read)

    def target(self, row: int) -> NDArray[Any]:
        ids = self.ids[self.kept[row]]
        return ids if len(ids) <= self._most else np.append(ids[: int(self._most) - 1], ids[-1])

    def sides(self) -> tuple[SideCounts, SideCounts]:
        """Return the lengths of the distinct inputs and of the targets, including those that are left out."""
        source, target = SideCounts(), SideCounts()
        for same in self._together:
            source.add(sum(self._measure(same[0])))
        for ids in self.ids:
            target.add_target(ids, self._vocabulary.specials)  # pyright: ignore[reportOptionalMemberAccess]
        return source, target

    def beyond_limits(self) -> list[TargetRow]:
        """Return the rows that are longer than the limits."""
        return [self.said[row] for row in self._long]

    def targets_read(self) -> Iterator[tuple[str, int]]:
        return ((one.text, one.line) for one in self.said)

    @cached_property
    def _together(self) -> list[list[TargetRow]]:
        """Return all targets of each input."""
        found: dict[tuple[int, ...], list[TargetRow]] = {}
        for one in self.said:
            found.setdefault(one.numbers, []).append(one)
        return list(found.values())

    def examples(self, most: int) -> list[Example]:
        """Return evenly spaced rows, as neighbors are often similar."""
        found = evenly(self._together, most)
        parts = {part for same in found for part in enumerate(same[0].numbers)}
        values = {(place, number): self.columns[place].one(number) for place, number in parts}
        inputs = [[values[part] for part in enumerate(same[0].numbers)] for same in found]
        return [
            Example(tuple(one) if len(one) > 1 else one[0], tuple(said.text for said in same), same[0].gold)
            for one, same in zip(inputs, found, strict=True)
        ]

    def every(self) -> list[Example]:
        return self.examples(len(self.said))


class ListedExamples(ColumnExamples):
    """Inputs in memory with their targets; nothing is written to a cache."""

    def __init__(self, name: str, column: ReadColumn, examples: Sequence[Example], vocabulary: Vocabulary) -> None:
        """Create examples; `column` has their inputs by number."""
        if bad := next((name for name in map(str, range(len(examples))) if name not in column.numbers), None):
            raise CallError(column.why(bad))
        said = [TargetRow((n,), text, 0, one.gold) for n, one in enumerate(examples) for text in one.texts]
        super().__init__(name, ReadCounts(ReadReport(len(said))), [column], said, vocabulary, (np.inf, np.inf))

    def digest(self) -> str:
        said = [(self.columns[0].one(one.numbers[0]), one.text) for one in self.said]
        return blake2b(repr(said).encode(), digest_size=16).hexdigest()
