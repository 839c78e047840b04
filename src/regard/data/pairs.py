"""Pairs and skipped lines, which every reader yields."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from regard.data.settings import Column

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


class Bad(NamedTuple):
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
    def pair(self) -> tuple[str, str]:
        """Return the names of source and target; two texts may be the source."""
        return " and ".join(self.sides[:-1]), self.sides[-1]

    @property
    def sought(self) -> dict[str, Column | None]:
        return {**self.wanted} if self.split is None else {**self.wanted, "split": self.split}


def excerpt(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


PLAIN = Columns()


def _joined(words: object) -> object:
    """Join words or tags that a JSON file has as a list."""
    return " ".join(map(str, words)) if isinstance(words, list) else words


def both_texts(first: object, second: object, file: str, line: int, columns: Columns) -> str | Bad:
    """Return two texts as one source."""
    two = pair_of(first, second, file, line, Columns(dict.fromkeys(columns.sides[:2])))
    return two if isinstance(two, Bad) else BETWEEN.join(" ".join(one.split(BETWEEN)) for one in two[:2])


def pair_of(source: object, target: object, file: str, line: int, columns: Columns = PLAIN) -> Pair | Bad:
    """Return a pair if both sides are non-empty text, else a `Bad`."""
    target = target if columns.target_text is None else columns.target_text(target)
    source, target = (_joined(one) if columns.one_to_one else one for one in (source, target))
    sides = columns.pair
    for side, value in zip(sides, (source, target), strict=True):
        if value is None:
            continue
        if not isinstance(value, str):
            return Bad(file, line, "columns", f"the {side} is {type(value).__name__}, not text", excerpt(repr(value)))
        try:
            value.encode()
        except UnicodeEncodeError as problem:
            half = f"character {problem.start + 1} of the {side} is half of a surrogate pair"
            return Bad(file, line, "encoding", half, excerpt(ascii(value)))
    source, target = source or "", target or ""
    assert isinstance(source, str) and isinstance(target, str)  # noqa: PT018 (for the type checker)
    if not source.strip() or not target.strip():
        if not source.strip() and not target.strip():
            return Bad(file, line, "blank", "blank line")
        empty, other = (sides[0], target) if not source.strip() else (sides[1], source)
        unlabeled = empty == "label" and columns.target_text is not None
        kind, reason = ("unlabeled", "there is no label") if unlabeled else ("empty", f"the {empty} is empty")
        return Bad(file, line, kind, reason, excerpt(other))
    left, right = len(source.split()), len(target.split())
    if columns.one_to_one and left != right:
        return Bad(file, line, "unequal", f"{left} {sides[0]} but {right} {sides[1]}", excerpt(source))
    return Pair(source, target, file, line)
