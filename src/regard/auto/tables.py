"""Some rows of a table as they stand in its file, whatever it is called and however it is written."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard.auto.columns import Column, column_of
from regard.data.columns import names_columns
from regard.data.formats import DELIMITERS, find_delimiter, flat_record, quoting
from regard.data.json_rows import is_document, json_rows
from regard.data.tables import parquet_records
from regard.data.tmx import tmx_records
from regard.files.lines import raw_lines, read_lines
from regard.inputs.series.notation import has_decimal_commas, has_thousands, with_points, without_signs

MOST = 2000  # rows that are looked at
_PACKED = (".gz", ".zst")


@dataclass(frozen=True)
class Table:
    """`header`: whether the first line only names the columns. `delimiter`: None where a format has none."""

    path: Path
    columns: list[Column]
    rows: list[list[str]]
    count: int  # rows of the whole file, about
    header: bool
    delimiter: str | None
    problems: Sequence[str] = ()  # of lines that cannot be read
    lists: frozenset[str] = frozenset()  # columns that hold several things

    def cells(self, column: Column) -> list[str]:
        at = self.columns.index(column)
        return [row[at] for row in self.rows]


def ending(path: Path) -> str:
    """Of the name, without that of a packer: .csv of a.csv.gz."""
    return (Path(path.stem).suffix if path.suffix in _PACKED else path.suffix).lower()


def read_table(path: Path, *, listing: bool = False) -> Table | None:
    """The table in a file; None if it holds none. `listing`: it lies beside files, so commas may be those of a list."""
    if ending(path) in (".jsonl", ".ndjson", ".json"):
        rows = (row for _, row in json_rows(path) if row is not None)
        found = list(islice(rows, MOST))
        whole = len(found) + sum(1 for _ in rows) if is_document(path) else None  # it is in memory already
        return _records(path, found, whole)
    if ending(path) == ".parquet":
        return _records(path, list(islice(parquet_records(path), MOST)))
    if ending(path) == ".tmx":
        return _records(path, list(islice(tmx_records(path), MOST)))
    ahead = list(islice(read_lines(path), MOST + 1))
    lines = [line.text + "\n" for line in ahead if not line.problem and line.text.strip()]
    delimiter = _delimiter(lines, ".csv" if listing and ending(path) == ".txt" else ending(path))
    if delimiter is None:
        return None
    rows = [row for row in csv.reader(lines, delimiter=delimiter, quoting=quoting(delimiter)) if row]
    width = max({len(row) for row in rows}, key=[len(row) for row in rows].count)
    rows = [row for row in rows if len(row) == width]
    plain = [without_signs(row) for row in rows]
    cells = [cell for row in plain for cell in row]
    ways = {"commas": has_decimal_commas(cells), "thousands": has_thousands(cells)}
    plain = [[str(cell) for cell in with_points(row, **ways)] for row in plain]
    header = names_columns(plain)
    named = [name.strip() or f"column {at}" for at, name in enumerate(rows[0], 1)]
    names: list[str | int] = [*named] if header else [*range(width)]
    body = plain[header:]
    columns = [column_of(name, [row[at] for row in body], first=at == 0) for at, name in enumerate(names)]
    count = len(body)
    if len(ahead) > MOST:  # a row may take several lines
        count = round(len(plain) / len(lines) * sum(not raw.isspace() for raw in raw_lines(path))) - header
    problems = [f"line {line.number}: {line.problem}" for line in ahead if line.problem]
    return Table(path, columns, body, count, header, delimiter, problems)


def _delimiter(lines: Sequence[str], suffix: str) -> str | None:
    """Tabs are no part of sentences, so they count in any file; commas and the like only where the ending says that
    there is a table, perhaps of one column."""
    table = suffix in (".csv", ".tsv", ".tab")
    found = find_delimiter(lines, DELIMITERS if table else "\t", agree=0.9)
    return found or (("," if suffix == ".csv" else "\t") if table and lines else None)


def _records(path: Path, records: Sequence[dict[str, Any]], count: int | None = None) -> Table | None:
    flat = [flat_record(record) for record in records]
    names = list(dict.fromkeys(name for record in flat for name in record))
    if not names:
        return None
    rows = [[_cell(record.get(name)) for name in names] for record in flat]
    columns = [column_of(name, [row[at] for row in rows], first=at == 0) for at, name in enumerate(names)]
    lines = [json.dumps(record, ensure_ascii=False, default=str) + "\n" for record in records]
    lists = frozenset(name for record in flat for name, value in record.items() if isinstance(value, list))
    return Table(path, columns, rows, count or _count(path, lines, len(rows)), True, None, lists=lists)


def _cell(value: Any) -> str:
    """A list, such as words and their tags, as text."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


def _count(path: Path, lines: Sequence[str], rows: int) -> int:
    """How many rows there are: those that were read, or what the size of the file makes likely."""
    if len(lines) < MOST or path.suffix in _PACKED:
        return rows
    usual = sum(len(line.encode()) for line in lines) / len(lines)
    return max(rows, round(path.stat().st_size / usual))
