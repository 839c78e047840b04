"""A table as it stands in its file, whatever it is called and however it is written: its columns, some rows, and how
many rows there are."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regard.auto.columns import Column, column_of
from regard.data.columns import names_columns, require_distinct_names
from regard.data.formats import DELIMITERS, SNIFFED, find_delimiter, flat_record, number_delimiter, table_rows
from regard.data.json_rows import json_rows
from regard.data.tables import parquet_records
from regard.data.tmx import tmx_records
from regard.files.lines import ending, read_lines
from regard.files.shards import files_of
from regard.inputs.series.archive import archive_rows, is_archive, load_series_array
from regard.inputs.series.notation import has_decimal_commas, has_thousands, with_points, without_signs

MOST = 2000  # rows that are looked at
MANY = 200_000  # rows of which a few columns are compared


@dataclass(frozen=True)
class Table:
    """`header`: whether the first line only names the columns. `delimiter`: None where a format has none.

    `rows` are the first ones, which follow each other; `spread` are taken evenly from the whole file; `read` goes
    through all. Of a short file, `rows` and `spread` are all rows."""

    path: Path
    columns: list[Column]
    rows: list[list[str]]
    spread: list[list[str]]
    count: int  # rows of the whole file
    header: bool
    delimiter: str | None
    read: Callable[[], Iterator[list[str]]]
    problems: Sequence[str] = ()  # of lines that cannot be read
    lists: frozenset[str] = frozenset()  # columns that hold several things

    def cells(self, column: Column) -> list[str]:
        """Of rows from the whole file."""
        at = self.columns.index(column)
        return [row[at] for row in self.spread]

    def all_cells(self, *columns: Column, most: int | None = None) -> Iterator[tuple[str, ...]]:
        """Of every row of the file, or of so many that follow each other from the first one."""
        places = [self.columns.index(column) for column in columns]
        rows = self.rows if self.count == len(self.rows) or (most or MANY) <= MOST else self.read()
        return (tuple(row[at] for at in places) for row in islice(rows, most))

    def counts(self, column: Column) -> Counter[str]:
        """How often each text stands in a column, of the whole file."""
        return Counter(cell.strip() for (cell,) in self.all_cells(column))


def read_table(path: Path, *, listing: bool = False) -> Table | None:
    """The table in a file; None if it holds none. `listing`: it lies beside files, so commas may be those of a list.

    A large file is read through once, however often it is asked for."""
    return _read_table(path, listing, tuple((file.stat().st_size, file.stat().st_mtime_ns) for file in files_of(path)))


@lru_cache(maxsize=4)
def _read_table(path: Path, listing: bool, seen: tuple[tuple[int, int], ...]) -> Table | None:
    files = files_of(path)
    if ending(path) in (".jsonl", ".ndjson", ".json"):
        return _records(path, lambda: (row for file in files for _, row in json_rows(file) if row is not None))
    if ending(path) == ".parquet":
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
        some, count = evenly(read())
        spread = _in_plain(some, ways)
    columns = [column_of(name, [row[at] for row in spread], first=at == 0) for at, name in enumerate(names)]
    problems = [f"line {line.number}: {line.problem}" for line in ahead if line.problem]
    return Table(path, columns, first, spread, count, header, delimiter, read, problems)


def _archive_records(path: Path) -> Iterator[dict[str, Any]]:
    names, rows = archive_rows(path)
    return (dict(zip(names, cells, strict=True)) for _, cells, problem in rows if not problem)


def evenly(rows: Iterable[Any]) -> tuple[list[Any], int]:
    """Some rows at equal distances, at most twice `MOST`, and how many rows there are."""
    some, step, count = [], 1, 0
    for count, row in enumerate(rows, 1):
        if (count - 1) % step == 0:
            some.append(row)
            if len(some) > 2 * MOST:
                some, step = some[::2], 2 * step
    return some, count


def _ways(rows: Sequence[Sequence[str]]) -> dict[str, bool]:
    """How numbers are written in these rows."""
    plain = [without_signs(row) for row in rows]
    return {"commas": has_decimal_commas(plain), "thousands": has_thousands(cell for row in plain for cell in row)}


def _in_plain(rows: Sequence[Sequence[str]], ways: dict[str, bool]) -> list[list[str]]:
    return [[str(cell) for cell in with_points(without_signs(row), **ways)] for row in rows]


def _delimiter(lines: Sequence[str], suffix: str) -> str | None:
    """Tabs are no part of sentences, so they count in any file, as does what separates numbers; commas and the like
    only where the ending says that there is a table, perhaps of one column."""
    table = suffix in (".csv", ".tsv", ".tab")
    found = number_delimiter(lines[:SNIFFED]) or find_delimiter(lines, DELIMITERS if table else "\t", agree=0.9)
    return found or (("," if suffix == ".csv" else "\t") if table and lines else None)


def _records(path: Path, records: Callable[[], Iterator[dict[str, Any]]]) -> Table | None:
    rest = records()
    first = [flat_record(record) for record in islice(rest, MOST)]
    spread, count = evenly(chain(first, map(flat_record, rest)))
    spread = first if count == len(first) else spread
    names = list(dict.fromkeys(name for record in (*first, *spread) for name in record))
    if not names:
        return None

    def row_of(record: dict[str, Any]) -> list[str]:
        return [_cell(record.get(name)) for name in names]

    def read() -> Iterator[list[str]]:
        return (row_of(flat_record(record)) for record in records())

    rows, some = [*map(row_of, first)], [*map(row_of, spread)]
    columns = [column_of(name, [row[at] for row in some], first=at == 0) for at, name in enumerate(names)]
    lists = frozenset(name for record in spread for name, value in record.items() if isinstance(value, list))
    return Table(path, columns, rows, some, count, True, None, read, lists=lists)


def _cell(value: Any) -> str:
    """A list, such as words and their tags, as text."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)
