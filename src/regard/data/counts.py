"""What is counted while examples are read: what was lost, how long they are, what is odd but kept."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from regard.data.read_report import FIRST, ReadReport


@dataclass
class SideCounts:
    """What was counted on one side: `lengths` of all examples, before any was cut or skipped."""

    tokens: int = 0
    unknown: int = 0
    lengths: Counter[int] = field(default_factory=Counter)

    def add(self, tokens: int, unknown: int = 0, length: int | None = None) -> None:
        """One more; `length` is what it takes in a batch, if that is not its tokens: with an end token, one more."""
        self.tokens += tokens
        self.unknown += unknown
        self.lengths[tokens if length is None else length] += 1


@dataclass
class Remembered:
    """How often something was met, and where the first few times: lines, or names where there are no lines."""

    count: int = 0
    lines: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def note(self, line: int = 0, name: str = "") -> None:
        self.count += 1
        if self.count <= FIRST:
            self.lines += [line] if line else []
            self.names += [name] if name else []


@dataclass
class Counts:
    """Of one split. `sides`: what comes in, and what comes out (or what else there is two of).

    `odd`: what is to be told of examples, by a word for it; those that are `overlong`, for one. `totals`: any other
    number, such as the seconds of all recordings. `sampled`: the share of the examples that was looked at.
    """

    read: ReadReport = field(default_factory=ReadReport)
    sides: tuple[SideCounts, SideCounts] = field(default_factory=lambda: (SideCounts(), SideCounts()))
    odd: dict[str, Remembered] = field(default_factory=dict)
    totals: dict[str, float | int] = field(default_factory=dict)
    sampled: float = 1.0

    def note(self, kind: str, line: int = 0, name: str = "") -> None:
        self.odd.setdefault(kind, Remembered()).note(line, name)

    def count(self, kind: str) -> int:
        """How many are odd in this way."""
        return self.odd[kind].count if kind in self.odd else 0

    def add(self, kind: str, value: float | int) -> None:
        self.totals[kind] = self.totals.get(kind, 0) + value


COUNTS = TypeAdapter(Counts)  # to JSON and back


def unknown_in(ids: Collection[int], unknown: int | None) -> int:
    """How many of the ids stand for what the vocabulary does not know."""
    return 0 if unknown is None else sum(index == unknown for index in ids)
