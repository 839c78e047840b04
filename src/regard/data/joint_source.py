"""Where rows of two inputs and what comes out of them are: a list of three columns, or a corpus of ours.

    data.train=questions.jsonl        .tsv, .csv, .jsonl, .parquet: an image, a question and an answer a line
    data.train=corpus:shapes-questions

Nothing but the list is opened here: what a cell of the first column stands for (a file, most often), its input says.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard.corpora import PREFIX
from regard.corpora.asked import load_asked
from regard.data.files import FileSource
from regard.data.pairs import Bad, Columns, pair_of
from regard.data.splits import places
from regard.data.tables import SPLIT_NAMES, Role
from regard.errors import CallError


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
class JointSource(FileSource):
    def read(self) -> Iterator[JointRow | Bad]:
        """All rows of this split, in the order of the file, and whatever was none."""
        if self.where.startswith(PREFIX):
            for number, one in enumerate(load_asked(self.where, self.role), start=1):
                yield JointRow(*one[:4], self.where, number, one.gold)
            return
        seen: set[str] = set()
        for row in self.cells(self.format_of(self.path), self.path):
            if isinstance(row, Bad):
                yield row
                continue
            *values, split = row.values if self.columns.split else (*row.values, "")
            seen.add(str(split).strip().lower())
            if not self.columns.split or str(split).strip().lower() in SPLIT_NAMES[self.role]:
                yield self._row(values, row.file, row.line)
        if self.columns.split and seen.isdisjoint(SPLIT_NAMES[self.role]):
            raise CallError(
                f"data.split={self.columns.split}: no line of {self.where} says {SPLIT_NAMES[self.role][0]!r}; it has "
                f"{', '.join(sorted(seen)[:6]) or 'nothing'}"
            )

    @property
    def path(self) -> Path:
        path, *more = self.files()
        if more:
            raise CallError(f"{self.name}: takes one list")
        return path

    def _row(self, values: list[Any], file: str, line: int) -> JointRow | Bad:
        first, second, target = values
        a, b, c = self.columns.sides
        number = isinstance(target, int | float) and not isinstance(target, bool)
        asked = pair_of(first, second, file, line, Columns(sides=(a, b)))
        said = pair_of(second, str(target) if number else target, file, line, Columns(sides=(b, c)))
        if isinstance(asked, Bad):
            return asked
        if isinstance(said, Bad):
            return said
        return JointRow(asked.source, asked.source, said.source, said.target, file, line)


def joint_sources(settings: Any) -> dict[Role, JointSource]:
    """Where a data section says that the rows of each role are."""
    brings: tuple[Role, ...] = ("valid", "test") if settings.split else ()
    return {
        role: JointSource(where, role, settings.format, settings.columns)
        for role, where in places(settings, brings).items()
    }
