"""Rows of two inputs and a target: where they are, and as examples.

    data.train=questions.jsonl        .tsv, .csv, .jsonl, .parquet: an image, a question and an answer a line
    data.train=corpus:shapes-questions

Only the list is opened here. The first input interprets the cells of the first column (most often file names).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.corpora import PREFIX
from regard.corpora.asked import load_asked
from regard.data.check import Listing
from regard.data.counts import Counts
from regard.data.files import Source
from regard.data.pairs import Bad, Columns, pair_of
from regard.data.store import text_hash
from regard.data.vocabulary import Vocabulary
from regard.inputs.column import Column, ColumnExamples, Said


class JointRow(NamedTuple):
    """Row of two inputs. `name` is equal for rows with the same first input. `first` is a cell of the list or an item
    of a corpus.
    """

    name: str
    first: Any
    second: str
    target: str
    file: str
    line: int
    gold: Any = None

    @property
    def key(self) -> str:
        """Split off validation rows whose first inputs do not occur in training."""
        return self.name


@dataclass(frozen=True)
class JointSource(Source[JointRow]):
    def read(self) -> Iterator[JointRow | Bad]:
        if self.where.startswith(PREFIX):
            for number, one in enumerate(load_asked(self.where, self.role), start=1):
                yield JointRow(*one[:4], self.where, number, one.gold)
            return
        for row in self.cells(self.path):
            yield row if isinstance(row, Bad) else self._row(row.values, row.file, row.line)

    def _row(self, values: Sequence[Any], file: str, line: int) -> JointRow | Bad:
        first, second, target = values
        a, b, c = self.columns.sides
        number = isinstance(target, int | float) and not isinstance(target, bool)
        asked = pair_of(first, second, file, line, Columns({a: None, b: None}))
        said = pair_of(second, str(target) if number else target, file, line, Columns({b: None, c: None}))
        if isinstance(asked, Bad):
            return asked
        if isinstance(said, Bad):
            return said
        return JointRow(asked.source, asked.source, said.source, said.target, file, line)


ROUNDED = 16  # tokens


class JointExamples(ColumnExamples):
    def __init__(
        self,
        name: str,
        items: Iterable[JointRow | Bad],
        columns: tuple[Column, Column],
        vocabulary: Vocabulary | None,
        limits: Sequence[int | float],
        sampled: float,
        *,
        scored: bool = False,
    ) -> None:
        """Create examples. `sampled`: share of the split in the items, in file order. `scored`: keep long items."""
        counts = Counts(sampled=sampled)
        rows = list(counts.read.only_pairs(_usable(item, columns) for item in items))
        said = [Said(_numbers(row, columns), row.target, row.line, row.gold) for row in rows]
        super().__init__(name, counts, columns, said, vocabulary, limits, scored=scored)
        self._asked = [row.second for row in rows]
        counts.sides = self.sides()
        for one in self.beyond_limits():
            counts.note("overlong", one.line)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Round lengths up. Questions of equal length are often of one kind, and so are their answers. Batches of one
        kind of question would teach that kind only; without rounding, shapes-ask learned hardly anything.
        """
        source, target = (-(-lengths // ROUNDED) * ROUNDED for lengths in super().lengths())
        return source, target

    def digest(self) -> str:
        return blake2b(self.hashes.tobytes(), digest_size=16).hexdigest()

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """Hash of the first input's content (one picture may have two names), and of the second input and target."""
        firsts = {number: self.columns[0].hash(number) for number in {one.numbers[0] for one in self.said}}
        rows = zip(self.said, self._asked, strict=True)
        found = [(firsts[one.numbers[0]], text_hash(f"{asked}\t{one.text}")) for one, asked in rows]
        return np.array(found, np.uint64).reshape(-1, 2)

    def listing(self) -> Listing:
        """Return the data for the data check."""
        return Listing(self.name, self._counts, np.array([one.line for one in self.said], np.int64), self.hashes)


def _usable(item: JointRow | Bad, columns: Sequence[Column]) -> JointRow | Bad:
    if isinstance(item, Bad):
        return item
    names = zip(columns, (item.name, item.second), strict=True)
    why = next((column.why(name) for column, name in names if name not in column.numbers), None)
    return item if why is None else Bad(item.file, item.line, "unreadable", why)


def _numbers(row: JointRow, columns: Sequence[Column]) -> tuple[int, ...]:
    return columns[0].numbers[row.name], columns[1].numbers[row.second]
