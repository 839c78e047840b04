"""What a column of a table holds, by its name and some of its cells."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice, pairwise
from pathlib import PurePath
from typing import Literal, NamedTuple

from regard.data.tables import SPLIT_NAMES, Role
from regard.inputs.series.notation import is_other_date
from regard.inputs.series.times import UNIX

Kind = Literal["picture", "recording", "time", "number", "id", "label", "tags", "text", "split", "empty", "unused"]
PICTURES = frozenset((".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff"))
RECORDINGS = frozenset((".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif", ".au"))
SPLITS: dict[str, Role] = {name: role for role, names in SPLIT_NAMES.items() for name in names}
_TIMES = ("time", "date", "timestamp", "datetime", "ds", "day", "month", "year", "hour", "ts", "epoch", "unixtime")
_IDS = ("id", "idx", "index", "key", "no", "nr", "number", "row", "uid", "guid", "uuid")
LABELS = ("label", "class", "category", "intent", "sentiment", "topic", "genre", "target", "language", "lang", "y")
_MOST = 0.95  # of all cells have to agree on what they are
_LABEL_WORDS = 6  # a label is short


class Column(NamedTuple):
    """`key` is how settings call it: by name, or by number from 0 where the table has no header."""

    key: str | int
    kind: Kind
    distinct: int
    filled: int

    @property
    def name(self) -> str:
        return str(self.key).strip().lower()


def column_of(key: str | int, cells: Sequence[str], *, first: bool = False) -> Column:
    """`first`: of its table. Numbers that count the rows stand there."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    return Column(key, _kind(str(key).strip().lower(), filled, first), len(set(filled)), len(filled))


def _kind(name: str, cells: list[str], first: bool) -> Kind:
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
        if name in _IDS or (first and distinct == len(cells) > 3 and _counts(cells)):
            return "id"
        return "label" if name in LABELS and distinct <= len(cells) / 2 else "number"
    if _share(cells, is_time):
        return "time"
    words = sorted(len(cell.split()) for cell in cells)
    short = words[int(len(words) * 0.95)] <= _LABEL_WORDS
    if short and (distinct <= 2 or (distinct <= len(cells) / 3 and distinct <= 1000)):
        return "label"
    if distinct == len(cells) and words[-1] == 1 and (name in _IDS or _share(cells, _has_digit)):
        return "id"
    return "text"


def _share(cells: list[str], test: Callable[[str], object]) -> bool:
    """Whether nearly all cells pass a test, which ends when too many have not: dates take long to refuse."""
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
    """NaN for one that is missing, however that is written."""
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


def _counts(cells: list[str]) -> bool:
    """Whole numbers that go up: the number of a row, and nothing to learn from."""
    try:
        numbers = [float(cell) for cell in cells]
    except ValueError:
        return False
    steps = [after - before for before, after in pairwise(numbers)]
    return all(number == int(number) for number in numbers) and len(set(steps)) == 1 and steps[0] > 0


def are_tags(words: Sequence[str], tags: Sequence[str]) -> bool:
    """Whether the second column has a tag for each word of the first: as many, few different ones, in capitals."""
    pairs = [(one.split(), other.split()) for one, other in zip(words, tags, strict=True)]
    if not pairs or any(len(one) != len(other) for one, other in pairs):
        return False
    many = [tag for _, found in pairs for tag in found]
    capital = sum(tag.isascii() and tag == tag.upper() for tag in many)  # most scripts have no other letters
    return len(many) >= 3 * len(pairs) and len(set(many)) <= max(2, len(many) / 10) and capital >= _MOST * len(many)
