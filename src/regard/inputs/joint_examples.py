"""Rows of two inputs as examples. An input that stands in several rows is kept once, in its column."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.check import Listing
from regard.data.counts import Counts, unknown_in
from regard.data.examples import Example, Examples
from regard.data.joint_source import JointRow
from regard.data.pairs import Bad
from regard.data.text_hash import text_hash
from regard.data.vocabulary import Vocabulary, target_ids
from regard.encoders.joint import Joint
from regard.inputs.column import Column

ROUNDED = 16  # tokens


class JointExamples(Examples):
    def __init__(
        self,
        name: str,
        items: Iterable[JointRow | Bad],
        columns: tuple[Column, Column],
        vocabulary: Vocabulary | None,
        limits: Sequence[int | float] = (np.inf, np.inf, np.inf),
        sampled: float = 1.0,
    ) -> None:
        """
        items        in the order of the file; the values of the columns are numbered as they come up in it
        vocabulary   of the targets; None for what is only measured on
        limits       most vectors of each input, and tokens of a target with its end: what is longer is left out
        sampled      the share of the split that the items are
        """
        self.name, self._columns, self._counts = name, columns, Counts(sampled=sampled)
        self.counts = self._counts.read
        self._places: tuple[dict[str, int], dict[str, int]] = {}, {}
        self.rows: list[JointRow] = list(self.counts.only_pairs(self._usable(item) for item in items))
        numbers = [[places[key] for places, key in zip(self._places, _keys(row), strict=True)] for row in self.rows]
        self._numbers: NDArray[np.int64] = np.array(numbers, np.int64).reshape(-1, 2)
        ids = [] if vocabulary is None else target_ids(vocabulary, [row.target for row in self.rows])
        self._measure(ids, None if vocabulary is None else vocabulary.specials.unk, limits)

    def _usable(self, item: JointRow | Bad) -> JointRow | Bad:
        if isinstance(item, Bad):
            return item
        numbers = [places.setdefault(key, len(places)) for places, key in zip(self._places, _keys(item), strict=True)]
        why = [column.bad.get(number) for column, number in zip(self._columns, numbers, strict=True)]
        reason = why[0] or why[1]
        return item if reason is None else Bad(item.file, item.line, "unreadable", reason)

    def _measure(self, ids: Sequence[NDArray[np.int32]], unknown: int | None, limits: Sequence[int | float]) -> None:
        """How long the rows are, and which of them are left out for it."""
        of_inputs = [self._each(side, self._columns[side].length) for side in (0, 1)] if ids else []
        lengths = [(*row, len(one)) for *row, one in zip(*of_inputs, ids, strict=True)]
        kept = [row for row, sizes in enumerate(lengths) if np.all(np.array(sizes) <= limits)]
        source, target = self._counts.sides
        for (first, second, size), one in zip(lengths, ids, strict=True):
            source.add(first + second)
            target.add(size - 1, unknown_in(one.tolist(), unknown), size)
        for row in sorted(set(range(len(lengths))) - set(kept)):
            self._counts.note("overlong", self.rows[row].line)
        self._kept, self._ids = np.array(kept, np.int64), [ids[row] for row in kept]
        self._lengths = [(lengths[row][0] + lengths[row][1], lengths[row][2]) for row in kept]

    def _each(self, side: int, of: Any) -> list[int]:
        """A number for the input of each row, made once for each value of its column."""
        numbers = self._numbers[:, side].tolist()
        found = {number: of(number) for number in set(numbers)}
        return [found[number] for number in numbers]

    def __len__(self) -> int:
        return len(self._ids)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Rounded up: like questions are of like length, and so are their answers. A batch of one kind of question
        would teach that kind only, and the next one another; shapes-ask learned hardly anything so."""
        source, target = -(-np.array(self._lengths, np.int32).reshape(-1, 2).T // ROUNDED) * ROUNDED
        return source, target

    def source(self, rows: NDArray[np.int64], epoch: int) -> Joint:
        first, second = self._numbers[self._kept[rows]].T
        one, other = self._columns
        return Joint(one.source(first, rows, epoch), other.source(second, rows, epoch))

    def target(self, row: int) -> NDArray[Any]:
        return self._ids[row]

    def digest(self) -> str:
        return blake2b(self.hashes.tobytes(), digest_size=16).hexdigest()

    def targets_read(self) -> Iterator[tuple[str, int]]:
        return ((row.target, row.line) for row in self.rows)

    def examples(self, most: int) -> list[Example]:
        """Evenly spread, as neighbors in a list are often alike."""
        count = len(self.rows)
        return self._examples(range(0, count, max(1, count // most)))[:most]

    def every(self) -> list[Example]:
        return self._examples(range(len(self.rows)))

    def _examples(self, rows: Iterable[int]) -> list[Example]:
        """Each input once, with all its texts."""
        texts: dict[tuple[int, int], list[JointRow]] = {}
        for row in rows:
            first, second = self._numbers[row].tolist()
            texts.setdefault((first, second), []).append(self.rows[row])
        one, other = self._columns
        firsts = {first: one.one(first) for first, _ in texts}
        return [
            Example((firsts[first], other.one(second)), tuple(row.target for row in same), same[0].gold)
            for (first, second), same in texts.items()
        ]

    # ------------------------------------------------------------------------------------------------------- the check
    @property
    def hashes(self) -> NDArray[np.uint64]:
        """Of the first input, by its content (the same picture may have two names), and of what is asked and said."""
        asked = [text_hash(f"{row.second}\t{row.target}") for row in self.rows]
        return np.array([self._each(0, self._columns[0].hash), asked], np.uint64).T

    def listing(self) -> Listing:
        lines = np.array([row.line for row in self.rows], np.int64)
        return Listing(self.name, self._counts, lines, self.hashes)


def _keys(row: JointRow) -> tuple[str, str]:
    return row.name, row.second
