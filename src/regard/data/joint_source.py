"""Where rows of two inputs and what comes out of them are: a list of three columns, or a corpus of ours.

    data.train=questions.jsonl        .tsv, .csv, .jsonl, .parquet: an image, a question and an answer a line
    data.train=corpus:shapes-questions

Nothing but the list is opened here: what a cell of the first column stands for (a file, most often), its input says.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from regard.corpora import PREFIX
from regard.corpora.asked import load_asked
from regard.data.files import Source
from regard.data.pairs import Bad, Columns, pair_of


class JointRow(NamedTuple):
    """`name` says which rows have the same first input. `first` is a cell of the list, or what a corpus has."""

    name: str
    first: Any
    second: str
    target: str
    file: str
    line: int
    gold: Any = None

    @property
    def key(self) -> str:
        """What is held out for validation is asked about inputs never seen."""
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
