"""Read a table in any format and under any name: its columns, some rows, and the number of rows."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any

from regard.auto.columns import LABELS, SOURCES, Column, column_of, counts_rows, is_short, number_classes
from regard.auto.several_labels import holds_labels
from regard.data.columns import names_columns, require_distinct_names
from regard.data.formats import DELIMITERS, SNIFFED, find_delimiter, flat_record, number_delimiter, table_rows
from regard.data.json_rows import json_rows
from regard.data.label_writing import MISSING, split_labels
from regard.data.tables import parquet_records
from regard.data.tmx import tmx_records
from regard.files.lines import ending, read_lines
from regard.files.shards import files_of
from regard.inputs.series.archive import archive_rows, is_archive, load_series_array
from regard.inputs.series.notation import has_decimal_commas, has_thousands, with_points, without_signs

MOST = 2000  # rows that are examined
MANY = 200_000  # rows in which a few columns are compared


@dataclass(frozen=True)
class Table:
    """A table. `header`: whether the first line only names the columns. `delimiter`: None where a format has none.

    `rows` are the first, consecutive ones; `spread` are sampled from the whole file; `read` iterates over all. Of a
    short file, `rows` and `spread` are all rows.
    """

    path: Path
    columns: list[Column]
    rows: list[list[str]]
    spread: list[list[str]]
    count: int  # rows of the whole file
    header: bool
    delimiter: str | None
    read: Callable[[], Iterator[list[str]]]
    problems: Sequence[str] = ()  # of unreadable lines
    lists: Mapping[str | int, Callable[[], Iterator[list[str]]]] = field(default_factory=dict)  # of columns of lists

    def cells(self, column: Column) -> list[str]:
        """Return the cells of the sampled rows."""
        at = self.columns.index(column)
        return [row[at] for row in self.spread]

    def all_cells(self, *columns: Column, most: int | None = None) -> Iterator[tuple[str, ...]]:
        """Yield the cells of every row of the file, or of the first `most` rows."""
        places = [self.columns.index(column) for column in columns]
        rows = self.rows if self.count == len(self.rows) or (most or MANY) <= MOST else self.read()
        return (tuple(row[at] for at in places) for row in islice(rows, most))

    def labels(self, column: Column) -> Iterator[list[str]]:
        """Yield the labels of every row of the file, from a column of lists or with a separator."""
        if column.key in self.lists:
            return self.lists[column.key]()
        cells = (split_labels(cell, column.separator) for (cell,) in self.all_cells(column))
        return ([part for one in some if (part := one.strip()) and part not in MISSING] for some in cells)

    def counts(self, column: Column) -> Counter[str]:
        """Count each text of a column in the whole file."""
        return Counter(cell.strip() for (cell,) in self.all_cells(column))


def read_table(path: Path, *, listing: bool = False) -> Table | None:
    """Read the table in a file; None if it holds none. `listing`: it may be a list of files, so commas may be
    delimiters.

    A large file is read through only once.
    """
    return _read_table(path, listing, tuple((file.stat().st_size, file.stat().st_mtime_ns) for file in files_of(path)))


@lru_cache(maxsize=4)
def _read_table(path: Path, listing: bool, seen: tuple[tuple[int, int], ...]) -> Table | None:
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
        some, count = sampled(read())
        spread = _in_plain(some, ways)
    columns = [
        column_of(name, [row[at] for row in spread], numbered=not at and _number_rows(first))
        for at, name in enumerate(names)
    ]
    problems = [f"line {line.number}: {line.problem}" for line in ahead if line.problem]
    return _with_many_classes(Table(path, columns, first, spread, count, header, delimiter, read, problems))


def _archive_records(path: Path) -> Iterator[dict[str, Any]]:
    names, rows = archive_rows(path)
    return (dict(zip(names, cells, strict=True)) for _, cells, problem in rows if not problem)


def sampled(rows: Iterable[Any]) -> tuple[list[Any], int]:
    """Return at most twice `MOST` rows in their order, sampled with a fixed seed, and the number of all rows. Rows at
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


def _records(path: Path, records: Callable[[], Iterator[dict[str, Any]]]) -> Table | None:
    rest = records()
    first = [flat_record(record) for record in islice(rest, MOST)]
    spread, count = sampled(chain(first, map(flat_record, rest)))
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
    return _with_many_classes(Table(path, columns, rows, some, count, True, None, read, lists=lists))


def _with_many_classes(table: Table) -> Table:
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
