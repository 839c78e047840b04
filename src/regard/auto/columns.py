"""Detect what a column of a table holds, from its name and some of its cells."""

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import islice, pairwise
from pathlib import PurePath
from typing import Literal, NamedTuple

from regard.auto.several_labels import LABEL_WORDS, find_separator
from regard.data.tables import SPLIT_NAMES, Role
from regard.inputs.series.notation import is_other_date
from regard.inputs.series.times import UNIX

Kind = Literal["picture", "recording", "time", "number", "id", "label", "tags", "text", "split", "empty", "unused"]
PICTURES = frozenset((".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff"))
RECORDINGS = frozenset((".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif", ".au"))
SPLITS: dict[str, Role] = {name: role for role, names in SPLIT_NAMES.items() for name in names}
_TIMES = ("time", "date", "timestamp", "datetime", "ds", "day", "month", "year", "hour", "ts", "epoch", "unixtime")
_IDS = ("id", "idx", "index", "key", "no", "nr", "number", "row", "uid", "guid", "uuid")
LABELS = (
    "label", "class", "category", "intent", "sentiment", "topic", "genre", "emotion", "target", "language", "lang", "y",
    "labels", "classes", "categories", "intents", "topics", "genres", "emotions", "tags",
)  # fmt: skip
RATINGS = ("stars", "rating", "ratings", "score", "overall", "grade")
SOURCES = frozenset(("source", "src", "input", "prompt", "question"))  # beside which a target is a text
MOST_NUMBERS = 20  # different ones with fractions that may be classes
_MOST = 0.95  # of all cells must have the same kind


class Column(NamedTuple):
    """A column of a table. `key` is its name in settings, or its number from 0 if the table has no header."""

    key: str | int
    kind: Kind
    distinct: int
    filled: int
    separator: str = ""  # of several labels in a cell

    @property
    def name(self) -> str:
        return str(self.key).strip().lower()


def column_of(key: str | int, cells: Sequence[str], *, numbered: bool = False) -> Column:
    """Return the column of these cells. `numbered`: the column is the first of its table, and counts the rows."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    kind = _kind(str(key).strip().lower(), filled, numbered)
    separator = find_separator(filled) if kind in ("label", "text") else ""
    return Column(key, "label" if separator else kind, len(set(filled)), len(filled), separator)


def _kind(name: str, cells: list[str], numbered: bool) -> Kind:
    if not cells:
        return "empty"
    if _share(cells, lambda cell: PurePath(cell.partition("#")[0]).suffix.lower() in PICTURES):  # a.jpg#0
        return "picture"
    if _share(cells, lambda cell: PurePath(cell).suffix.lower() in RECORDINGS):
        return "recording"
    distinct = len(set(cells))
    if _share(cells, lambda cell: cell.lower() in SPLITS):
        return "split"
    if _share(cells, is_number):
        if distinct > 1 and (name in _TIMES or _share(cells, UNIX.fullmatch)):
            return "time"
        if name in _IDS or (numbered and distinct == len(cells) > 3):
            return "id"
        return "label" if name in LABELS and distinct <= len(cells) / 2 and number_classes(cells) else "number"
    if _share(cells, is_time):
        return "time"
    if is_short(cells) and (distinct <= 2 or (distinct <= len(cells) / 3 and distinct <= 1000)):
        return "label"
    if (
        distinct == len(cells)
        and all(len(cell.split()) == 1 for cell in cells)
        and (name in _IDS or _share(cells, _has_digit))
    ):
        return "id"
    return "text"


def _share(cells: list[str], test: Callable[[str], object]) -> bool:
    """Return whether nearly all cells pass a test. Stops at too many failures, because dates are slow to reject."""
    missed = (cell for cell in cells if not test(cell))
    return next(islice(missed, int((1 - _MOST) * len(cells)), None), None) is None


def _has_digit(cell: str) -> bool:
    return any(letter.isdigit() for letter in cell)


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.lower() in ("?", "nan", "na", "n/a", "null", "none", "-")
    return True


def as_number(cell: str) -> float:
    """Return the number in a cell; NaN for a missing one, in any notation."""
    try:
        return float(cell.replace(",", "."))
    except ValueError:
        return math.nan


def is_time(cell: str) -> bool:
    try:
        datetime.fromisoformat(cell)
    except ValueError:
        return is_other_date(cell)
    return not cell.isdigit() or len(cell) == 8


def counts_rows(cells: Sequence[str]) -> bool:
    """Return whether the cells are increasing whole numbers: row numbers, from which nothing can be learned."""
    try:
        numbers = [float(cell) for cell in cells]
    except ValueError:
        return False
    steps = [after - before for before, after in pairwise(numbers)]
    return len(steps) > 0 and all(number == int(number) for number in numbers) and len(set(steps)) == 1 and steps[0] > 0


def number_classes(cells: Iterable[str]) -> bool:
    """Return whether numbers can be class ids: they are whole, or few."""
    different = {cell for cell in cells if is_number(cell)}
    return len(different) <= MOST_NUMBERS or all(as_number(cell).is_integer() for cell in different)


def is_short(cells: Sequence[str]) -> bool:
    """Return whether nearly all cells have no more words than a label."""
    words = sorted(len(cell.split()) for cell in cells)
    return not words or words[int(len(words) * 0.95)] <= LABEL_WORDS


def are_tags(words: Sequence[str], tags: Sequence[str]) -> bool:
    """Return whether the second column has a tag for each word of the first: equally many, few different ones, in
    capitals."""
    pairs = [(one.split(), other.split()) for one, other in zip(words, tags, strict=True)]
    if not pairs or any(len(one) != len(other) for one, other in pairs):
        return False
    many = [tag for _, found in pairs for tag in found]
    capital = sum(tag.isascii() and tag == tag.upper() for tag in many)  # most scripts have no capital letters
    return len(many) >= 3 * len(pairs) and len(set(many)) <= max(2, len(many) / 10) and capital >= _MOST * len(many)
