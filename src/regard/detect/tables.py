"""Read a table in any format and under any name: its columns, some rows, and the number of rows."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache, partial
from itertools import chain, islice, pairwise
from operator import itemgetter
from pathlib import Path, PurePath
from random import Random
from typing import Any, Literal, NamedTuple

from regard.data.columns import names_columns, require_distinct_names
from regard.data.formats import (
    DELIMITERS,
    SNIFFED,
    find_delimiter,
    flat_record,
    json_rows,
    number_delimiter,
    table_rows,
)
from regard.data.labels import MISSING, list_in, split_labels
from regard.data.tables import SPLIT_NAMES, Role, parquet_records, tmx_records
from regard.files.lines import ending, estimate_lines, files_of, read_lines
from regard.inputs.series.archive import archive_rows, is_archive, load_series_array
from regard.inputs.series.times import (
    UNIX,
    has_decimal_commas,
    has_thousands,
    is_other_date,
    with_points,
    without_signs,
)
from regard.work import with_progress

# Cells with several labels: a;b, a|b, a, b, or a list as written by a program.
#
# A separator is accepted if the parts are short, rarely repeat within a cell, and occur in other combinations
# elsewhere. "Jamaica, West Indies" is one label if no other cell has either part.

SEPARATORS = "|;,"
LABEL_WORDS = 6  # a label is short
_FEWEST = 2  # cells with several parts
_REPEATED = 3  # average occurrences of a label
_LISTS = 0.95  # of all cells
_TWICE = 0.05  # of all cells may have a part twice


def find_separator(cells: Sequence[str]) -> str:
    """Return the separator of the labels in these non-empty cells; empty if each cell is one label."""
    lists = [found for cell in cells if (found := list_in(cell)) is not None]
    if lists and len(lists) >= _LISTS * len(cells):
        return separator_of(lists) if holds_labels(lists) else ""
    return next((one for one in SEPARATORS if _separates(one, cells)), "")


def separator_of(lists: Iterable[Iterable[str]]) -> str:
    """Return a separator that does not occur in these labels."""
    used = {letter for labels in lists for label in labels for letter in label}
    return next((one for one in SEPARATORS + "\x1f" if one not in used), "\x1f")


def label_counts(cells: Iterable[Sequence[str]]) -> tuple[Counter[str], int]:
    """Return how often each label occurs, and how many cells have none."""
    counts, none = Counter[str](), 0
    for labels in cells:
        counts.update({*labels})
        none += not labels
    return counts, none


def _separates(separator: str, cells: Sequence[str]) -> bool:
    if sum(separator in cell for cell in cells) < _FEWEST:
        return False
    parts = [[part for one in cell.split(separator) if (part := one.strip())] for cell in cells]
    company: dict[str, set[frozenset[str]]] = defaultdict(set)
    for some in parts:
        group = frozenset(some)  # once: a cell may be a long document
        for part in group:
            company[part].add(group)
    joined = {part for part, sets in company.items() if any(len(one) > 1 for one in sets)}
    shared = sum(len(company[part]) > 1 for part in joined)
    if not shared or (separator == "," and shared < len(joined) / 2):
        return False
    return holds_labels(parts) and (separator != "," or len(company) <= len({*map(frozenset, parts)}))


def holds_labels(parts: Sequence[Sequence[str]]) -> bool:
    """Return whether there are few different parts, which are short and rarely repeat within a cell."""
    counts = Counter(part for some in parts for part in some)
    twice = sum(len({*some}) < len(some) for some in parts)
    if not counts or twice > _TWICE * len(parts) or max(len(part.split()) for part in counts) > LABEL_WORDS:
        return False
    return len(counts) > 1 and counts.total() >= _REPEATED * len(counts)


# Detect what a column of a table holds, from its name and some of its cells.

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


class ColumnContent(NamedTuple):
    """A column of a table. `key` is its name in settings, or its number from 0 if the table has no header."""

    key: str | int
    kind: Kind
    distinct: int
    filled: int
    separator: str = ""  # of several labels in a cell

    @property
    def name(self) -> str:
        return str(self.key).strip().lower()


def column_of(key: str | int, cells: Sequence[str], *, numbered: bool = False) -> ColumnContent:
    """Return the column of these cells. `numbered`: the column is the first of its table, and counts the rows."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    kind = _kind(str(key).strip().lower(), filled, numbered)
    separator = find_separator(filled) if kind in ("label", "text") else ""
    return ColumnContent(key, "label" if separator else kind, len(set(filled)), len(filled), separator)


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


MOST = 2000  # rows that are examined
MANY = 200_000  # rows in which a few columns are compared


@dataclass(frozen=True)
class TableSample:
    """A table. `header`: whether the first line only names the columns. `delimiter`: None where a format has none.

    `rows` are the first, consecutive ones; `spread` are sampled from the whole file; `read` iterates over all. Of a
    short file, `rows` and `spread` are all rows.
    """

    path: Path
    columns: list[ColumnContent]
    rows: list[list[str]]
    spread: list[list[str]]
    count: int  # rows of the whole file
    header: bool
    delimiter: str | None
    read: Callable[[], Iterator[list[str]]]
    problems: Sequence[str] = ()  # of unreadable lines
    lists: Mapping[str | int, Callable[[], Iterator[list[str]]]] = field(default_factory=dict)  # of columns of lists

    def cells(self, column: ColumnContent) -> list[str]:
        """Return the cells of the sampled rows."""
        at = self.columns.index(column)
        return [row[at] for row in self.spread]

    def all_cells(self, *columns: ColumnContent, most: int | None = None) -> Iterator[tuple[str, ...]]:
        """Yield the cells of every row of the file, or of the first `most` rows."""
        places = [self.columns.index(column) for column in columns]
        rows = self.rows if self.count == len(self.rows) or (most or MANY) <= MOST else self.read()
        count = min(self.count, most or self.count)
        read = with_progress(islice(rows, most), f"looking at {self.path}", total=count)
        return (tuple(row[at] for at in places) for row in read)

    def labels(self, column: ColumnContent) -> Iterator[list[str]]:
        """Yield the labels of every row of the file, from a column of lists or with a separator."""
        if column.key in self.lists:
            return self.lists[column.key]()
        cells = (split_labels(cell, column.separator) for (cell,) in self.all_cells(column))
        return ([part for one in some if (part := one.strip()) and part not in MISSING] for some in cells)

    def counts(self, column: ColumnContent) -> Counter[str]:
        """Count each text of a column in the whole file."""
        return Counter(cell.strip() for (cell,) in self.all_cells(column))


def read_table(path: Path, *, listing: bool = False) -> TableSample | None:
    """Read the table in a file; None if it holds none. `listing`: it may be a list of files, so commas may be
    delimiters.

    A large file is read through only once.
    """
    return _read_table(path, listing, tuple((file.stat().st_size, file.stat().st_mtime_ns) for file in files_of(path)))


@lru_cache(maxsize=4)
def _read_table(path: Path, listing: bool, seen: tuple[tuple[int, int], ...]) -> TableSample | None:
    files = files_of(path)
    if ending(path) in (".jsonl", ".ndjson", ".json"):
        return _records(path, lambda: (row for file in files for _, row in json_rows(file) if row is not None))
    if ending(path) in (".parquet", ".arrow"):
        return _records(path, lambda: chain.from_iterable(map(parquet_records, files)))
    if ending(path) == ".tmx":
        return _records(path, lambda: chain.from_iterable(map(tmx_records, files)))
    if is_archive(files[0]):
        return _records(path, lambda: chain.from_iterable(map(_archive_records, files)))
    if ending(path) in (".npy", ".npz"):
        array = load_series_array(path)
        called = [f"column {at}" for at in range(1, array.shape[1] + 1)]
        return _records(path, lambda: (dict(zip(called, row.tolist(), strict=True)) for row in array))
    ahead = list(islice(read_lines(files[0]), MOST + 1))
    good = [line for line in ahead if not line.problem and line.text.strip()]
    lines = [line.text for line in good]
    delimiter = _delimiter(lines, ".csv" if listing and ending(path) == ".txt" else ending(path))
    if delimiter is None:
        return None
    rows = [row.fields for row in table_rows(good, delimiter) if row.fields]
    width = max({len(row) for row in rows}, key=[len(row) for row in rows].count)
    rows = [row for row in rows if len(row) == width]
    ways = _ways(rows)
    plain = _in_plain(rows, ways)
    require_distinct_names(str(path), plain)
    header = names_columns(plain)
    named = [name.strip() or f"column {at}" for at, name in enumerate(rows[0], 1)]
    names: list[str | int] = [*named] if header else [*range(width)]
    first = plain[header:]
    spread, count = first, len(first)

    def read() -> Iterator[list[str]]:
        for file in files:
            found = table_rows(read_lines(file), delimiter)
            filled = (row.fields for row in found if not row.line.problem and len(row.fields) == width)
            yield from islice((row for row in filled if any(map(str.strip, row))), header, None)

    if len(ahead) > MOST or len(files) > 1:
        some, count = sampled(with_progress(read(), f"looking at {path}", total=estimate_lines(files)))
        spread = _in_plain(some, ways)
    columns = [
        column_of(name, [row[at] for row in spread], numbered=not at and _number_rows(first))
        for at, name in enumerate(names)
    ]
    problems = [f"line {line.number}: {line.problem}" for line in ahead if line.problem]
    return _with_many_classes(TableSample(path, columns, first, spread, count, header, delimiter, read, problems))


def _archive_records(path: Path) -> Iterator[dict[str, Any]]:
    names, rows = archive_rows(path)
    return (dict(zip(names, cells, strict=True)) for _, cells, problem in rows if not problem)


def sampled(rows: Iterable[Any]) -> tuple[list[Any], int]:
    """Return at most twice `MOST_EXAMPLES` rows in their order, sampled with a fixed seed, and the number of all
    rows. Rows at
    equal distances could be of one class alone, where classes alternate."""
    some, chance, count, most = list[tuple[int, Any]](), Random(0).random, 0, 2 * MOST
    for count, row in enumerate(rows, 1):
        if count <= most:
            some.append((count, row))
        elif (place := int(chance() * count)) < most:
            some[place] = (count, row)
    return [row for _, row in sorted(some, key=itemgetter(0))], count


def _ways(rows: Sequence[Sequence[str]]) -> dict[str, bool]:
    """Return how numbers are written in these rows."""
    plain = [without_signs(row) for row in rows]
    return {"commas": has_decimal_commas(plain), "thousands": has_thousands(cell for row in plain for cell in row)}


def _in_plain(rows: Sequence[Sequence[str]], ways: dict[str, bool]) -> list[list[str]]:
    return [[str(cell) for cell in with_points(without_signs(row), **ways)] for row in rows]


def _delimiter(lines: Sequence[str], suffix: str) -> str | None:
    """Return the delimiter. Tabs do not occur in sentences, so they count in any file, as do separators of numbers.
    Commas and similar marks count only if the ending indicates a table, perhaps of one column."""
    table = suffix in (".csv", ".tsv", ".tab")
    found = number_delimiter(lines[:SNIFFED]) or find_delimiter(lines, DELIMITERS if table else "\t", agree=0.9)
    return found or (("," if suffix == ".csv" else "\t") if table and lines else None)


def _records(path: Path, records: Callable[[], Iterator[dict[str, Any]]]) -> TableSample | None:
    rest = records()
    first = [flat_record(record) for record in islice(rest, MOST)]
    rest = map(flat_record, with_progress(rest, f"looking at {path}", total=estimate_lines(files_of(path))))
    spread, count = sampled(chain(first, rest))
    spread = first if count == len(first) else spread
    names = list(dict.fromkeys(name for record in (*first, *spread) for name in record))
    if not names:
        return None

    def row_of(record: dict[str, Any]) -> list[str]:
        return [_cell(record.get(name)) for name in names]

    def read() -> Iterator[list[str]]:
        return (row_of(flat_record(record)) for record in records())

    rows, some = [*map(row_of, first)], [*map(row_of, spread)]
    columns = [
        column_of(name, [row[at] for row in some], numbered=not at and _number_rows(rows))
        for at, name in enumerate(names)
    ]

    def lists_of(name: str) -> Iterator[list[str]]:
        values = (flat_record(record).get(name) for record in records())
        return ([*map(str, value)] if isinstance(value, list) else [str(value)] if value else [] for value in values)

    held = list(dict.fromkeys(name for one in spread for name, value in one.items() if isinstance(value, list)))
    if len(held) == 1 and holds_labels([*islice(lists_of(held[0]), MOST)]):  # several are words and their tags
        columns = [column._replace(kind="label") if column.key == held[0] else column for column in columns]
    lists: dict[str | int, Callable[[], Iterator[list[str]]]] = {name: partial(lists_of, name) for name in held}
    return _with_many_classes(TableSample(path, columns, rows, some, count, True, None, read, lists=lists))


def _with_many_classes(table: TableSample) -> TableSample:
    """Mark a column that is called a label as one, however many classes it has, if they occur twice on average."""
    names = {column.name for column in table.columns}
    columns = [*table.columns]
    for at, column in enumerate(table.columns):
        named = column.name.rpartition(".")[2] in LABELS and (column.name != "target" or SOURCES.isdisjoint(names))
        if not named or column.kind not in ("text", "id", "number") or not is_short(cells := table.cells(column)):
            continue
        counts = table.counts(column)
        counts.pop("", None)
        if len(counts) <= counts.total() / 2 and (column.kind != "number" or number_classes(cells)):
            columns[at] = column._replace(kind="label", distinct=len(counts), filled=counts.total())
    return replace(table, columns=columns)


def _number_rows(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first column counts consecutive rows."""
    return counts_rows([row[0].strip() for row in rows if row[0].strip()])


def _cell(value: Any) -> str:
    """Return a cell as text; a list, such as words and their tags, is joined."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)
