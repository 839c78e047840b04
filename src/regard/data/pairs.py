"""Pairs and skipped lines, which every reader yields."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

from numpy.typing import NDArray
from pydantic import TypeAdapter

from regard.data.settings import Column
from regard.data.vocabulary import SpecialIds
from regard.errors import RegardError

BETWEEN = "\t"  # two texts as the source of one target

BadKind = Literal[
    "encoding", "unreadable", "columns", "empty", "blank", "unpaired", "unequal", "not found", "unlabeled"
]


class Pair(NamedTuple):
    """A source and its target, from line or row `line` (from 1) of `file`."""

    source: str
    target: str
    file: str
    line: int

    @property
    def key(self) -> str:
        """Return the first of two texts; held-out examples have first texts that are not in training."""
        return self.source.partition(BETWEEN)[0]


class SkippedLine(NamedTuple):
    """A skipped line with the reason; `lines` counts the lines that are lost with it."""

    file: str
    line: int
    kind: BadKind
    reason: str
    text: str = ""
    lines: int = 1

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file  # a file that is not a list has no lines
        return f"{where}: {self.reason}" + (f": {self.text!r}" if self.text else "")


@dataclass(frozen=True)
class Columns:
    """The requested columns of a table: their names in settings and messages, mapped to a name in the table, a number
    from 0, or None to detect them. Of pairs, the last is the target.

    optional      the one that may be missing, if any
    split         the column that says train, valid or test, where one table has all of them
    target_text   makes text of a target that may be written otherwise: labels may be numbers or lists
    one_to_one    each word of the source has one of the target
    folders       in a folder, the sub-folders name the targets
    conll         of files with a word a line, the columns of the word and of its tag: a number from 0 or, below 0, from
                  the end; of CoNLL-U also a name; None: by the content
    """

    wanted: Mapping[str, Column | None] = field(default_factory=lambda: dict.fromkeys(("source", "target")))
    header: bool | None = None
    optional: str = ""
    split: str | None = None
    target_text: Callable[[object], object] | None = None
    one_to_one: bool = False
    folders: bool = False
    conll: tuple[int | None, int | str | None] = (None, None)

    @property
    def sides(self) -> tuple[str, ...]:
        return tuple(self.wanted)

    @property
    def to_normal_form(self) -> tuple[str, str]:
        """Return the names of source and target; two texts may be the source."""
        return " and ".join(self.sides[:-1]), self.sides[-1]

    @property
    def sought(self) -> dict[str, Column | None]:
        return {**self.wanted} if self.split is None else {**self.wanted, "split": self.split}


def excerpt(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


PLAIN = Columns()


def _join_words(words: object) -> object:
    """Join words or tags that a JSON file has as a list."""
    return " ".join(map(str, words)) if isinstance(words, list) else words


def both_texts(first: object, second: object, file: str, line: int, columns: Columns) -> str | SkippedLine:
    """Return two texts as one source."""
    two = pair_of(first, second, file, line, Columns(dict.fromkeys(columns.sides[:2])))
    return two if isinstance(two, SkippedLine) else BETWEEN.join(" ".join(one.split(BETWEEN)) for one in two[:2])


def pair_of(source: object, target: object, file: str, line: int, columns: Columns = PLAIN) -> Pair | SkippedLine:
    """Return a pair if both sides are non-empty text, else a `SkippedLine`."""
    target = target if columns.target_text is None else columns.target_text(target)
    source, target = (_join_words(one) if columns.one_to_one else one for one in (source, target))
    sides = columns.to_normal_form
    for side, value in zip(sides, (source, target), strict=True):
        if value is None:
            continue
        if not isinstance(value, str):
            return SkippedLine(
                file, line, "columns", f"the {side} is {type(value).__name__}, not text", excerpt(repr(value))
            )
        try:
            value.encode()
        except UnicodeEncodeError as problem:
            half = f"character {problem.start + 1} of the {side} is half of a surrogate pair"
            return SkippedLine(file, line, "encoding", half, excerpt(ascii(value)))
    source, target = source or "", target or ""
    assert isinstance(source, str) and isinstance(target, str)  # noqa: PT018 (for the type checker)
    if not source.strip() or not target.strip():
        if not source.strip() and not target.strip():
            return SkippedLine(file, line, "blank", "blank line")
        empty, other = (sides[0], target) if not source.strip() else (sides[1], source)
        unlabeled = empty == "label" and columns.target_text is not None
        kind, reason = ("unlabeled", "there is no label") if unlabeled else ("empty", f"the {empty} is empty")
        return SkippedLine(file, line, kind, reason, excerpt(other))
    left, right = len(source.split()), len(target.split())
    if columns.one_to_one and left != right:
        return SkippedLine(file, line, "unequal", f"{left} {sides[0]} but {right} {sides[1]}", excerpt(source))
    return Pair(source, target, file, line)


# Counts of examples that are read: skipped lines, lengths, and unusual examples that are kept.

T = TypeVar("T")
FIRST = 5  # bad lines of a kind that are kept for the report


@dataclass
class ReadReport:
    """Number of pairs, and of skipped lines by kind, with the first few of each."""

    pairs: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[SkippedLine]] = field(default_factory=dict)

    def only_pairs(self, items: Iterable[T | SkippedLine]) -> Iterator[T]:
        """Count all items; yield those that are pairs (or examples of another kind)."""
        for item in items:
            if not isinstance(item, SkippedLine):
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
class Occurrences:
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
class ReadCounts:
    """Counts of one split. `sides`: input and output, or two other sides.

    `odd`: unusual examples by kind, such as `overlong`. `totals`: other numbers, such as the seconds of all recordings.
    `sampled`: the share of the examples that was read.
    """

    read: ReadReport = field(default_factory=ReadReport)
    sides: tuple[SideCounts, SideCounts] = field(default_factory=lambda: (SideCounts(), SideCounts()))
    odd: dict[str, Occurrences] = field(default_factory=dict)
    totals: dict[str, float | int] = field(default_factory=dict)
    sampled: float = 1.0

    def note(self, kind: str, line: int = 0, name: str = "") -> None:
        self.odd.setdefault(kind, Occurrences()).note(line, name)

    def count(self, kind: str) -> int:
        """Return the number of unusual examples of this kind."""
        return self.odd[kind].count if kind in self.odd else 0

    def add(self, kind: str, value: float | int) -> None:
        self.totals[kind] = self.totals.get(kind, 0) + value


COUNTS = TypeAdapter(ReadCounts)  # after a round trip through JSON


def unknown_in(ids: Collection[int], unknown: int | None) -> int:
    """Count the ids that represent unknown tokens."""
    return 0 if unknown is None else sum(index == unknown for index in ids)
