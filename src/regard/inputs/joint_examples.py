"""Rows of two inputs as examples. An input that stands in several rows is kept once, in its column."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.examples import Example, Examples
from regard.data.joint_source import JointRow
from regard.data.pairs import Bad
from regard.data.read_report import ReadReport
from regard.encoders.joint import Joint
from regard.inputs.base import Vocabulary
from regard.inputs.column import Column
from regard.special_tokens import END


class JointTable:
    """The rows of one source that can be used, and the two columns that they point into."""

    def __init__(
        self, name: str, items: Sequence[JointRow | Bad], columns: tuple[Column, Column], kinds: Sequence[str]
    ) -> None:
        """`items` in the order of the file; the values of the columns are numbered as they come up in it."""
        self.name, self.columns, self.kinds = name, columns, kinds
        self.counts = ReadReport()
        self._places: tuple[dict[str, int], dict[str, int]] = {}, {}
        self.rows: list[JointRow] = list(self.counts.only_pairs(self._usable(item) for item in items))
        self.numbers: NDArray[np.int64] = np.array(
            [[places[key] for places, key in zip(self._places, _keys(row), strict=True)] for row in self.rows], np.int64
        ).reshape(-1, 2)

    def _usable(self, item: JointRow | Bad) -> JointRow | Bad:
        if isinstance(item, Bad):
            return item
        numbers = [places.setdefault(key, len(places)) for places, key in zip(self._places, _keys(item), strict=True)]
        why = [column.bad[number] for column, number in zip(self.columns, numbers, strict=True) if number in column.bad]
        return Bad(item.file, item.line, "unreadable", why[0]) if why else item

    def lengths(self, side: int) -> NDArray[np.int32]:
        """How many vectors one input of each row becomes."""
        lengths = {number: self.columns[side].length(number) for number in set(self.numbers[:, side].tolist())}
        return np.array([lengths[number] for number in self.numbers[:, side].tolist()], np.int32)

    def hashes(self, side: int) -> list[int]:
        """What tells the contents of one input of each row apart."""
        found = {number: self.columns[side].hash(number) for number in set(self.numbers[:, side].tolist())}
        return [found[number] for number in self.numbers[:, side].tolist()]

    def examples(self, rows: Iterable[int]) -> list[Example]:
        """Each input once, with all its texts."""
        texts: dict[tuple[int, int], list[int]] = {}
        for row in rows:
            texts.setdefault((int(self.numbers[row, 0]), int(self.numbers[row, 1])), []).append(row)
        firsts = {first: self.columns[0].one(first) for first, _ in texts}
        return [
            Example(
                (firsts[first], self.columns[1].one(second)), tuple(self.rows[row].target for row in same),
                self.rows[same[0]].gold,
            )
            for (first, second), same in texts.items()
        ]  # fmt: skip


class JointExamples(Examples):
    def __init__(self, table: JointTable, vocabulary: Vocabulary, max_length: int) -> None:
        """Rows with a text of more than `max_length` tokens, the end token included, are left out."""
        self.table, self.name, self.counts = table, table.name, table.counts
        end = END if vocabulary.specials.end is None else vocabulary.specials.end
        ids = [np.array([*one, end], np.int32) for one in vocabulary.encode_batch([row.target for row in table.rows])]
        self.unknown = int(sum((one == vocabulary.specials.unk).sum() for one in ids))
        self.text_lengths: NDArray[np.int32] = np.array([len(one) for one in ids], np.int32)
        self.source_lengths: list[NDArray[np.int32]] = [table.lengths(side) for side in (0, 1)]
        long = self.text_lengths > max_length
        for kind, lengths in zip(table.kinds, self.source_lengths, strict=True):
            long |= (lengths > max_length) if kind == "text" else False
        self.kept = np.flatnonzero(~long)
        self._ids = [ids[row] for row in self.kept.tolist()]

    def __len__(self) -> int:
        return len(self._ids)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        first, second = self.source_lengths
        return (first + second)[self.kept], self.text_lengths[self.kept]

    def source(self, rows: NDArray[np.int64], epoch: int) -> Joint:
        first, second = self.table.numbers[self.kept[rows]].T
        one, other = self.table.columns
        return Joint(one.source(first, rows, epoch), other.source(second, rows, epoch))

    def target(self, row: int) -> NDArray[Any]:
        return self._ids[row]

    def digest(self) -> str:
        rows = zip(self.table.hashes(0), self.table.hashes(1), (row.target for row in self.table.rows), strict=True)
        return blake2b(repr(list(rows)).encode(), digest_size=16).hexdigest()

    def targets_read(self) -> Iterator[tuple[str, int]]:
        return ((row.target, row.line) for row in self.table.rows)

    def examples(self, most: int) -> list[Example]:
        """Evenly spread, as neighbors in a list are often alike."""
        count = len(self.table.rows)
        return self.table.examples(range(0, count, max(1, count // most)))[:most]


def _keys(row: JointRow) -> tuple[str, str]:
    return row.name, row.second
