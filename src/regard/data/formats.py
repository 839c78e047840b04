"""Readers of text files: each yields pairs, and a `Bad` for every line that is none."""

import csv
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

from regard.data.pairs import PLAIN, Bad, Columns, Pair, excerpt, pair_of, record_pair
from regard.data.settings import Column
from regard.errors import CallError, nearest
from regard.files.jsonl import read_jsonl
from regard.files.lines import Line, read_lines

P = TypeVar("P")
Row = tuple[Line, list[str], int]  # a line, its fields, and how many lines they take


def read_parallel(source: Path, target: Path, columns: Columns = PLAIN) -> Iterator[Pair | Bad]:
    """Line i of one file belongs to line i of the other. Surplus lines of the longer one are reported as one `Bad`."""
    last = 0
    left, right = read_lines(source), read_lines(target)
    for one, other in zip_longest(left, right):
        if one is None or other is None:
            longer, shorter, rest = (source, target, left) if other is None else (target, source, right)
            surplus = 1 + sum(1 for _ in rest)
            yield Bad(
                str(longer),
                last + 1,
                "unpaired",
                f"{longer} has {last + surplus:,} lines, {shorter} has {last:,}: lines do not pair up",
                lines=surplus,
            )
            return
        last = one.number
        spoiled = (source, one) if one.problem else (target, other)
        if spoiled[1].problem:
            yield unreadable(*spoiled)
        else:
            yield pair_of(one.text, other.text, str(source), last, columns)


def read_tsv(path: Path, columns: Columns) -> Iterator[Pair | Bad]:
    """Tabs separate columns, and quotes mean nothing. The first line says how many columns there are."""
    rows = ((line, [] if line.problem else line.text.split("\t"), 1) for line in read_lines(path))
    return _table(path, columns, rows)


def read_csv(path: Path, columns: Columns) -> Iterator[Pair | Bad]:
    """Commas separate columns; a field in double quotes may hold commas, line feeds, and quotes written twice."""
    return _table(path, columns, csv_rows(path))


def csv_rows(path: Path) -> Iterator[Row]:
    """(first line, or the first that is unreadable; fields; number of lines) of each record."""
    unreadable: list[Line] = []

    def texts() -> Iterator[str]:
        for line in read_lines(path):
            if line.problem:
                unreadable.append(line)
            yield line.text + "\n"

    # strict: a quote that is never closed is an error, and not a field that swallows the rest of the file
    reader = csv.reader(texts(), strict=True)
    while True:
        start = reader.line_num + 1
        try:
            fields = next(reader)
            line = Line(start, ",".join(fields))
        except StopIteration:
            return
        except csv.Error as problem:
            fields, line = [], Line(start, "", f"not CSV ({problem}): a quote that is not closed or not doubled?")
        if unreadable:
            line = unreadable[0]
            unreadable.clear()
        yield line, fields, reader.line_num - start + 1


def _table(path: Path, columns: Columns, rows: Iterator[Row]) -> Iterator[Pair | Bad]:
    for found in cells(path, rows, lambda first: _places(path, columns, first)):
        if isinstance(found, Bad):
            yield found
            continue
        (source, target), fields, number = found
        yield pair_of(fields[source], fields[target], str(path), number, columns)


def cells(
    path: Path, rows: Iterator[Row], places: Callable[[list[str]], tuple[P, bool]]
) -> Iterator[tuple[P, list[str], int] | Bad]:
    """Each row as (places, fields, its line), or what is wrong with it.

    `places` of the first row says where the columns of interest are, and whether that row only names them.
    """
    known: tuple[P] | None = None
    width = 0
    for line, fields, lines in rows:
        if line.problem:
            yield unreadable(path, line, lines)
            continue
        if not any(field.strip() for field in fields):
            yield Bad(str(path), line.number, "blank", "blank line", lines=lines)
            continue
        if known is None:
            found, is_header = places(fields)
            known, width = (found,), len(fields)
            if is_header:
                continue
        if len(fields) != width:
            reason = f"{len(fields)} column{'s' if len(fields) != 1 else ''} where the first line has {width}"
            yield Bad(str(path), line.number, "columns", reason, excerpt(line.text), lines)
            continue
        yield known[0], fields, line.number


def _places(path: Path, columns: Columns, first: list[str]) -> tuple[list[int], bool]:
    given = dict(zip(columns.sides, (columns.source, columns.target), strict=True))
    places, header = find_places(path, first, given, columns.header)
    return [place for place in places if place is not None], header


def find_places(
    path: Path, first: list[str], given: Mapping[str, Column | None], header: bool | None, optional: str = ""
) -> tuple[list[int | None], bool]:
    """The number of each column in the first line, None for one that is `optional` and not there; and whether that
    line only names them. `given`: a name, a number from 0, or None, by what the column is called in the settings."""
    names = [name.strip() for name in first]
    named = any(isinstance(column, str) for column in given.values())
    numbered = not named and any(column is not None for column in given.values())
    if header is not False and not named and not numbered:
        named = set(given) - {optional} <= set(names)
    places: list[int | None] = []
    for number, (side, column) in enumerate(given.items()):
        name, place = str(side if column is None else column), number if column is None else column
        may_miss = side == optional and column is None
        if named and name in names:
            places.append(names.index(name))
        elif isinstance(place, int) and not named and place < len(names) and not (may_miss and numbered):
            places.append(place)
        elif may_miss:
            places.append(None)
        elif named:
            raise CallError(f"{path}: there is no column data.{side}={name!r}{nearest(name, names)}")
        else:
            raise CallError(
                f"{path}: data.{side}={place} (columns count from 0), but the first line has {len(names)} "
                f"column{'s' if len(names) != 1 else ''}: {excerpt(' | '.join(names))!r}"
            )
    return places, named or bool(header)


def read_pairs_jsonl(path: Path, columns: Columns) -> Iterator[Pair | Bad]:
    for line, record in read_jsonl(path):
        yield unreadable(path, line) if record is None else record_pair(record, columns, str(path), line.number)


def unreadable(path: Path, line: Line, lines: int = 1) -> Bad:
    return Bad(str(path), line.number, line.kind, line.problem, excerpt(line.text), lines)
