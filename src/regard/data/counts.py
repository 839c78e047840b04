"""Counts of examples that are read: skipped lines, lengths, and unusual examples that are kept."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from numpy.typing import NDArray
from pydantic import TypeAdapter

from regard.data.pairs import Bad
from regard.data.special_ids import SpecialIds
from regard.errors import RegardError

T = TypeVar("T")
FIRST = 5  # bad lines of a kind that are kept for the report


@dataclass
class ReadReport:
    """Number of pairs, and of skipped lines by kind, with the first few of each."""

    pairs: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[Bad]] = field(default_factory=dict)

    def only_pairs(self, items: Iterable[T | Bad]) -> Iterator[T]:
        """Count all items; yield those that are pairs (or examples of another kind)."""
        for item in items:
            if not isinstance(item, Bad):
                self.pairs += 1
                yield item
            else:
                self.lost[item.kind] += item.lines
                remembered = self.first.setdefault(item.kind, [])
                if len(remembered) < FIRST:
                    remembered.append(item)

    @property
    def bad(self) -> int:
        """Return the number of skipped lines, without blank ones."""
        return sum(count for kind, count in self.lost.items() if kind != "blank")

    @property
    def share(self) -> float:
        """Return the share of bad lines. An example without a label is left out, but is not bad."""
        return (self.bad - self.lost["unlabeled"]) / max(1, self.pairs + self.bad)

    def refuse_if(self, name: str, max_bad: float) -> None:
        """Raise if too many lines were skipped, none is left, or the two sides may be misaligned."""
        if "unpaired" in self.first:
            reason = self.first["unpaired"][0].reason
            raise RegardError(f"{name}: {reason}. A line may be missing anywhere, so all pairs may be misaligned")
        if self.pairs and self.share <= max_bad:
            return
        shown = [str(bad) for kind, bads in self.first.items() if kind != "blank" for bad in bads[:3]]
        listing = "".join(f"\n  {line}" for line in shown)
        if not self.pairs:
            raise RegardError(f"{name}: contains no usable examples{':' if shown else ''}{listing}")
        raise RegardError(
            f"{name}: {self.bad:,} of {self.pairs + self.bad:,} lines ({self.share:.1%}) cannot be used, more than "
            f"data.max_bad={max_bad:g} allows. Repair or remove them, "
            f"or allow them with data.max_bad={math.ceil(100 * self.share) / 100:g}. The first of them:{listing}"
        )


@dataclass
class SideCounts:
    """Counts of one side. `lengths`: of all examples, before any was cut or skipped."""

    tokens: int = 0
    unknown: int = 0
    lengths: Counter[int] = field(default_factory=Counter)

    def add(self, tokens: int, unknown: int = 0, length: int | None = None) -> None:
        """Add an example; `length` is its length in a batch, if it differs from its tokens, e.g. with an end token."""
        self.tokens += tokens
        self.unknown += unknown
        self.lengths[tokens if length is None else length] += 1

    def add_target(self, ids: NDArray[Any], specials: SpecialIds) -> None:
        """Add a target by its ids, with their end token, if there is one."""
        self.add(len(ids) - (specials.end is not None), unknown_in(ids.tolist(), specials.unk), len(ids))


@dataclass
class Remembered:
    """Number of occurrences, and the places of the first few: lines, or names where there are no lines."""

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
    """Counts of one split. `sides`: input and output, or two other sides.

    `odd`: unusual examples by kind, such as `overlong`. `totals`: other numbers, such as the seconds of all recordings.
    `sampled`: the share of the examples that was read.
    """

    read: ReadReport = field(default_factory=ReadReport)
    sides: tuple[SideCounts, SideCounts] = field(default_factory=lambda: (SideCounts(), SideCounts()))
    odd: dict[str, Remembered] = field(default_factory=dict)
    totals: dict[str, float | int] = field(default_factory=dict)
    sampled: float = 1.0

    def note(self, kind: str, line: int = 0, name: str = "") -> None:
        self.odd.setdefault(kind, Remembered()).note(line, name)

    def count(self, kind: str) -> int:
        """Return the number of unusual examples of this kind."""
        return self.odd[kind].count if kind in self.odd else 0

    def add(self, kind: str, value: float | int) -> None:
        self.totals[kind] = self.totals.get(kind, 0) + value


COUNTS = TypeAdapter(Counts)  # after a round trip through JSON


def unknown_in(ids: Collection[int], unknown: int | None) -> int:
    """Count the ids that represent unknown tokens."""
    return 0 if unknown is None else sum(index == unknown for index in ids)
