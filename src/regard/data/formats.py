"""Tables in text files (TSV, CSV, JSON), row by row: the cells that are sought, and a `Bad` for what is no row.

`columns.py` says which columns are sought and finds them; the first rows are read ahead for that.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.columns import SAMPLE, find_columns
from regard.data.json_rows import json_rows
from regard.data.pairs import Bad, Columns, excerpt
from regard.files.lines import Line, read_lines

DELIMITERS = "\t,;|"
SNIFFED = 50  # lines by which a delimiter is known


class Cells(NamedTuple):
    """The cells of a row that were sought, in their order; None for one that is not there."""

    values: tuple[Any, ...]
    file: str
    line: int


class Row(NamedTuple):
    """All fields of a record, its first line (or the first that is unreadable), and how many lines it takes."""

    line: Line
    fields: list[str]
    lines: int = 1


def tsv_rows(path: Path) -> Iterator[Row]:
    """Tabs separate columns, and quotes mean nothing."""
    return (Row(line, [] if line.problem else line.text.split("\t")) for line in read_lines(path))


def csv_rows(path: Path) -> Iterator[Row]:
    """Commas (or semicolons, tabs, bars: whatever the first lines agree on) separate columns; a field in double quotes
    may hold separators, line feeds, and quotes written twice."""
    broken: list[Line] = []

    def texts() -> Iterator[str]:
        for line in read_lines(path):
            if line.problem:
                broken.append(line)
            yield line.text + "\n"

    first = [line.text for line in islice(read_lines(path), SNIFFED) if line.text.strip() and not line.problem]
    # strict: a quote that is never closed is an error, and not a field that swallows the rest of the file
    delimiter = find_delimiter(first) or ","
    reader = csv.reader(texts(), strict=True, delimiter=delimiter, quoting=quoting(delimiter))
    while True:
        start = reader.line_num + 1
        try:
            fields = next(reader)
            line = Line(start, ",".join(fields))
        except StopIteration:
            return
        except csv.Error as problem:
            fields, line = [], Line(start, "", f"not CSV ({problem}): a quote that is not closed or not doubled?")
        if broken:
            line = broken[0]
            broken.clear()
        yield Row(line, fields, reader.line_num - start + 1)


def find_delimiter(lines: Sequence[str], among: str = DELIMITERS, agree: float = 0.5) -> str | None:
    """The one that cuts the most lines, and so large a share of them at least, into equally many cells, two or more;
    None, if none does. Those of prose have a space behind them; commas that only stand between digits are those of
    numbers, where another one cuts as well."""
    best: tuple[float, bool, int, str | None] = (agree, False, 1, None)
    decimal = not any(re.search(r"(?<!\d),|,(?!\d)", line) for line in lines)
    for delimiter in sorted(among, key=lambda one: one == ",") if decimal else among:
        if decimal and delimiter == "," and best[-1] is not None:
            break
        widths = [len(row) for row in csv.reader(lines, delimiter=delimiter, quoting=quoting(delimiter)) if row]
        usual = max(set(widths), key=widths.count) if widths else 1
        spaced = sum(line.count(delimiter + " ") for line in lines) > sum(line.count(delimiter) for line in lines) / 2
        found = (widths.count(usual) / max(1, len(widths)), not spaced, usual)
        if usual > 1 and found > best[:-1]:
            best = (*found, delimiter)
    return best[-1]


def quoting(delimiter: str) -> Any:
    """Beside tabs and bars, quotes mean nothing."""
    return csv.QUOTE_NONE if delimiter in "\t|" else csv.QUOTE_MINIMAL


def is_tab_table(path: Path) -> bool:
    """Whether nearly all lines have equally many columns, two or more: tabs are no part of sentences."""
    lines = [line.text for line in islice(read_lines(path), SNIFFED) if line.text.strip() and not line.problem]
    return find_delimiter(lines, "\t", agree=0.9) is not None


def table_cells(path: Path, rows: Iterator[Row], columns: Columns) -> Iterator[Cells | Bad]:
    """Of rows as files have them. The first good one says how many columns there are."""
    ahead = list(islice(rows, SAMPLE))
    good = [row.fields for row in ahead if not row.line.problem and any(field.strip() for field in row.fields)]
    places, header = find_columns(str(path), good, columns) if good else ([], False)
    width = len(good[0]) if good else 0
    for line, fields, lines in chain(ahead, rows):
        if line.problem:
            yield unreadable(path, line, lines)
        elif not any(field.strip() for field in fields):
            yield Bad(str(path), line.number, "blank", "blank line", lines=lines)
        elif header:
            header = False
        elif len(fields) != width:
            reason = f"{len(fields)} column{'s' if len(fields) != 1 else ''} where the first line has {width}"
            yield Bad(str(path), line.number, "columns", reason, excerpt(line.text), lines)
        else:
            cells = tuple(None if place is None else fields[place] for place in places)
            yield Cells(cells, str(path), line.number)


def jsonl_cells(path: Path, columns: Columns) -> Iterator[Cells | Bad]:
    found = json_rows(path)
    records = ((line.number, unreadable(path, line) if record is None else record) for line, record in found)
    return record_cells(str(path), records, columns)


def record_cells(
    file: str, records: Iterable[tuple[int, dict[str, Any] | Bad]], columns: Columns
) -> Iterator[Cells | Bad]:
    """Of JSON objects or rows of a data set. A dot in a name goes into objects: translation.en."""
    rest = iter(records)
    ahead = list(islice(rest, SAMPLE))
    flat = [flat_record(record) for _, record in ahead if not isinstance(record, Bad)]
    names = _names(file, flat, columns) if flat else ()
    for line, record in chain(ahead, rest):
        if isinstance(record, Bad):
            yield record
            continue
        values = tuple(None if name is None else _inside(record, name) for name in names)
        lost = [n for n, value in enumerate(values) if value is _MISSING]
        if lost and (side := list(columns.sought)[lost[0]]) != columns.optional:
            has = excerpt(", ".join(map(str, record)) or "none")
            reason = f"no field {names[lost[0]]!r}; it has {has} (set data.{side})"
            yield Bad(file, line, "columns", reason)
        else:
            yield Cells(tuple(None if value is _MISSING else value for value in values), file, line)


_MISSING = object()


def _names(file: str, records: list[dict[str, Any]], columns: Columns) -> tuple[str | None, ...]:
    keys = list(dict.fromkeys(key for record in records for key in record))
    rows = [[str(record.get(key, "")) for key in keys] for record in records]
    named = replace(
        columns,
        wanted={side: None if column is None else str(column) for side, column in columns.wanted.items()},
        header=True,
    )
    places, _ = find_columns(file, [keys, *rows], named)
    return tuple(None if place is None else keys[place] for place in places)


def flat_record(record: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Objects inside of it by a dot in the name: translation.en."""
    found: dict[str, Any] = {}
    for key, value in record.items():
        found |= flat_record(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
    return found


def _inside(record: dict[str, Any], name: str) -> Any:
    if name in record:
        return record[name]
    value: Any = record
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return _MISSING
        value = value[part]
    return value


def unreadable(path: Path, line: Line, lines: int = 1) -> Bad:
    return Bad(str(path), line.number, line.kind, line.problem, excerpt(line.text), lines)
