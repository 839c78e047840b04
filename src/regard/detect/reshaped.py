"""Rewrite tables of several series, so that one column names the series of each row.

shop,2024-01,2024-02      →   series,time,value                a time in each column
A,5,7                         A,2024-01,5
date,store,item,sales     →   series,date,store,item,sales     several columns tell the series apart
2024-01-01,A,milk,5           A · milk,2024-01-01,A,milk,5
1  0.3  0.5  0.4          →   series,label,value               a label and a whole series in each line, as in the
2  0.1  0.2  0.3              line 1,1,0.3                        UCR archive
V1,V2,V3                  →   series,value                     a name and a whole series in each line, as in M4
M1,8000,8350                  M1,8000
Date;Time;CO              →   time,CO                          a day and an hour in two columns
10/03/2004;18:00;2,6          10/03/2004 18:00,"2,6"
"""

import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.formats import QUESTIONS, csv_rows, is_number_table, question_rows
from regard.data.tables import Role
from regard.detect.detected import Hints
from regard.detect.files import files_in, parts_of, role_of
from regard.detect.listed import NEAR
from regard.detect.rewritten import normalize_encoding
from regard.detect.tables import MANY, ColumnContent, TableSample, as_number, is_number, is_time, read_table
from regard.errors import CallError
from regard.files import atomic
from regard.files.lines import PACKED, ending

RESHAPED = "data-reshaped"  # the folder of copies in a run
SERIES, BETWEEN = "series", " · "
_FEWEST_TIMES = 6
_FEWEST_STEPS = 16
_MOST_NAMES = 3  # columns that together name a series
_HOUR = re.compile(r"([01]?\d|2[0-3])(:[0-5]\d(:[0-5]\d)?|\.[0-5]\d\.[0-5]\d)")
_YEAR = re.compile(r"(1[6-9]|20)\d\d")
Rows = Iterator[Sequence[str]]


def wide_to_long(data: str, hints: Hints, into: Path, report: Callable[[str], None]) -> str:
    """Return where a readable table is: its own path, or a copy in `into`."""
    path = Path(data).expanduser()
    if path.is_dir() and (asked := _questions_of_pictures(path)):
        report(f"{path} has questions and their answers in two files: copies with both, in {into}")
        for role, rows in asked.items():
            into.mkdir(parents=True, exist_ok=True)
            atomic.write_text(into / f"{role}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        return str(into)
    if hints.data or hints.said - {"values", "label"}:
        return data
    if path.is_dir():
        return _reshaped_parts(path, into, report)
    if not path.is_file() or not _may_be_table(path):
        return data
    table = read_table(path)
    if table is None:
        return data
    if side := _pixels(table):
        report(f"{path} has a label and the pixels of a picture in each line: a copy as arrays, in {into}")
        return _as_arrays({"": path}, into, side)
    names = [str(column.key) for column in table.columns] if table.header else (table.rows or [[]])[0]
    if first := _first_time(names, table):
        report(f"{path} has a time in each column: a copy with a line for each, in {into}")
        return _write(path, into, lambda rows: _long(rows, first))
    if ids := _names_of_series(table):
        names = " and ".join(str(column.key) for column in ids)
        report(f"{path}: {names} say which series a line belongs to; a copy where one column does, in {into}")
        at = [table.columns.index(column) for column in ids]
        return _write(path, into, lambda rows: _join_row(rows, at))
    if _is_series_a_line(table):
        report(f"{path} has a label and a whole series in each line: a copy with a line for each step, in {into}")
        return _write(path, into, lambda rows: _steps(rows, header=table.header))
    if hints.said == {"label"}:
        return data
    if _is_named_series_a_line(table):
        report(f"{path} has a name and a whole series in each line: a copy with a line for each step, in {into}")
        return _write(path, into, lambda rows: _named_steps(rows, header=table.header))
    if clock := _day_and_hour(table):
        report(f"{path} has days and hours in two columns: a copy with both in one, in {into}")
        return _write(path, into, lambda rows: _timed(rows, *clock))
    return data


def _reshaped_parts(place: Path, into: Path, report: Callable[[str], None]) -> str:
    """Rewrite a folder whose parts have a label and a whole series in each line."""
    try:
        parts: dict[Role, Path] = {role: path for role, path in parts_of(place).by_role.items() if path.is_file()}
    except CallError:  # several datasets: `detect` raises the error
        return str(place)
    train = parts.get("train")
    table = read_table(train) if train is not None and _may_be_table(train) else None
    if table is None:
        return str(place)
    header = table.header
    if side := _pixels(table):
        report(f"{place} has a label and the pixels of a picture in each line: a copy as arrays, in {into}")
        alike: dict[Role, Path] = {role: path for role, path in parts.items() if _pixels(read_table(path)) == side}
        return _as_arrays(alike, into, side)
    if not _is_series_a_line(table):
        return str(place)
    report(f"{place} has a label and a whole series in each line: copies with a line for each step, in {into}")
    for role, path in parts.items():
        _write(path, into, lambda rows: _steps(rows, header=header), role)
    return str(into)


def usual_test_part(settings: Any, run: Path, into: Path, report: Callable[[str], None]) -> str | None:
    """Convert test data like the training data of a run; None if it needs no conversion."""
    if not (where := getattr(settings, "test", None)):
        return None
    place = normalize_encoding(where, into / "utf8", report)
    if (run / RESHAPED).is_dir():
        place = wide_to_long(place, Hints(), into / "reshaped", report)
    return place if place != where else None


def _questions_of_pictures(place: Path) -> dict[str, list[dict[str, str]]]:
    """Read questions and answers in the VQA format, by the part in their names: a file of questions, a file of
    annotations, and pictures whose names end in a number."""
    files, halves = files_in(place), dict[str, dict[str, Path]]()
    for name in files.of(frozenset((".json",))) if files.pictures else ():
        half = next((half for half in QUESTIONS if half in name.lower()), None)
        if half is not None:
            halves.setdefault(role_of(Path(name).name) or "train", {})[half] = place / name
    numbers = {re.findall(r"\d+", name)[-1].lstrip("0"): name for name in files.pictures if re.search(r"\d", name)}
    found: dict[str, list[dict[str, str]]] = {}
    for role, both in halves.items():
        rows = question_rows(*(both[half] for half in QUESTIONS)) if len(both) == len(QUESTIONS) else ()
        for row in rows:
            if name := numbers.get(row["image"].lstrip("0")):
                found.setdefault(role, []).append(row | {"image": str((place / name).absolute())})
    return found if "train" in found else {}


def _pixels(table: TableSample | None) -> int:
    """Return the side of square gray pictures, if a line is a label and pixels (pixel1, pixel2, ... or 1x1, ...); else
    0."""
    names = [str(column.key) for column in table.columns] if table is not None and table.header else ["", ""]
    side = math.isqrt(len(names) - 1)
    whole = names[0].lower() in ("label", "class", "y") and side > 1 and side * side == len(names) - 1
    return side if whole and all(re.fullmatch(r"(pixel|px?)_?\d+|\d+x\d+", name) for name in names[1:]) else 0


def _as_arrays(parts: Mapping[Role, Path] | Mapping[str, Path], into: Path, side: int) -> str:
    """Write an .npz of x_train, y_train, x_test, ...; for a single file, of x and y."""
    found: dict[str, np.ndarray] = {}
    for role, path in parts.items():
        rows = (row.fields for row in islice(csv_rows(path), 1, None) if len(row.fields) == side * side + 1)
        table = np.array([[*map(int, row)] for row in rows], dtype=np.int64)
        pictures, part = table[:, 1:].astype(np.uint8).reshape(-1, side, side), f"_{role}".rstrip("_")
        found |= {f"x{part}": pictures, f"y{part}": table[:, 0]}
    into.mkdir(parents=True, exist_ok=True)
    np.savez(into / "pictures.npz", **found)  # pyright: ignore[reportArgumentType]
    return str(into / "pictures.npz")


def _is_series_a_line(table: TableSample) -> bool:
    """Return whether a column of classes is followed by many numbers, of which neighbors are similar, under no names
    but positions."""
    first, *rest = table.columns
    named = table.header and any(not re.search(r"\d$", str(column.key)) for column in rest)
    if named or len(rest) < _FEWEST_STEPS or any(column.kind != "number" for column in rest):
        return False
    if first.kind not in ("label", "number") or not 1 < first.distinct <= len(table.rows) / 4:
        return False
    series = [np.array([as_number(cell) for cell in row[1:] if _is_given(cell)]) for row in table.rows]
    long = [one for one in series if len(one) >= _FEWEST_TIMES]
    apart, spread = ([measure(one) for one in long] for measure in (lambda one: np.abs(np.diff(one)).mean(), np.std))
    return bool(long) and bool(np.mean(apart) < NEAR * np.mean(spread))


def _is_named_series_a_line(table: TableSample) -> bool:
    """Return whether a column of names is followed by numbers under numbered names; shorter series end with empty
    cells."""
    first, *rest = table.columns
    if not table.header or first.kind not in ("id", "text", "label") or first.distinct < len(table.rows):
        return False
    counted = [re.fullmatch(r"\D*(\d+)", str(column.key)) for column in rest]
    places = [int(found[1]) for found in counted if found]
    in_order = len(places) == len(rest) >= _FEWEST_STEPS and places == [*range(places[0], places[0] + len(rest))]
    return in_order and all(column.kind in ("number", "id", "empty") for column in rest)


def _day_and_hour(table: TableSample) -> tuple[int, int] | None:
    """Return the positions of a column of days, which repeat, and of one of hours and minutes."""
    columns = [*enumerate(table.columns)] if table.header else []
    days = [at for at, column in columns if column.kind == "time" and column.distinct < column.filled]
    hours = [
        at
        for at, one in columns
        if one.filled and all(_HOUR.fullmatch(cell.strip()) for cell in table.cells(one) if cell)
    ]
    return (days[0], hours[0]) if len(days) == 1 and len(hours) == 1 and days != hours else None


def _is_given(cell: str) -> bool:
    """Return whether a cell has a value. Shorter series are padded with empty cells or NaN."""
    return math.isfinite(as_number(cell))


def _first_time(names: Sequence[str], table: TableSample) -> int:
    """Return the position of the first column that is a time, if all columns after it are times and hold numbers; else
    0."""
    times = [is_time(name.strip()) or bool(_YEAR.fullmatch(name.strip())) for name in names]
    first = times.index(True) if True in times else 0
    cells = [cell.strip() for row in table.rows[not table.header :] for cell in row[first:]]
    whole = 0 < first <= len(times) - _FEWEST_TIMES and all(times[first:])
    return first if whole and all(not cell or is_number(cell) for cell in cells) else 0


def _names_of_series(table: TableSample) -> Sequence[ColumnContent]:
    """Return the fewest columns, two or more, with which each time occurs once in each series."""
    times = [column for column in table.columns if column.kind == "time"]
    if not table.header or len(times) != 1:
        return ()
    numbers = [column for column in table.columns if column.kind == "number"]
    may = [
        column
        for column in table.columns
        if column.distinct <= len(table.spread) / 10
        and (column.kind == "label" or (column in numbers[:-1] and all(map(str.isdigit, table.cells(column)))))
    ]
    clock, *cells = zip(*table.all_cells(times[0], *may, most=MANY), strict=True)
    if len({*clock}) > len(clock) / 2:  # times hardly repeat
        return ()
    for several in range(1, _MOST_NAMES + 1):
        for ids in combinations(may, several):
            if len({*zip(clock, *(cells[may.index(one)] for one in ids), strict=True)}) == len(clock):
                return ids if several > 1 or ids[0].kind == "number" else ()  # a single name column needs no conversion
    return ()


def _long(rows: Rows, first: int) -> Rows:
    _, *times = next(rows)[first - 1 :]
    yield SERIES, "time", "value"
    for row in rows:
        yield from ((BETWEEN.join(row[:first]), *one) for one in zip(times, row[first:], strict=False))


def _join_row(rows: Rows, at: Sequence[int]) -> Rows:
    yield SERIES, *next(rows)
    for row in rows:
        yield BETWEEN.join(row[place] for place in at if place < len(row)), *row


def _steps(rows: Rows, *, header: bool) -> Rows:
    yield SERIES, "label", "value"
    for number, (label, *values) in enumerate(islice(rows, header, None), 1):
        label = f"{float(label):g}" if is_number(label) else label  # 1 of 1.0000000e+00
        yield from ((f"line {number}", label, value) for value in values if _is_given(value))


def _named_steps(rows: Rows, *, header: bool) -> Rows:
    yield SERIES, "value"
    for name, *values in islice(rows, header, None):
        yield from ((name, value) for value in values if _is_given(value))


def _timed(rows: Rows, day: int, hour: int) -> Rows:
    for number, row in enumerate(rows):
        if max(day, hour) < len(row) and row[day].strip():
            both = f"{row[day].strip()} {row[hour].strip().replace('.', ':')}" if number else "time"
            yield both, *(cell for at, cell in enumerate(row) if at not in (day, hour))


def _may_be_table(path: Path) -> bool:
    return ending(path) in (".csv", ".tsv", ".tab") or is_number_table(path)


def _write(path: Path, into: Path, change: Callable[[Rows], Rows], name: str = "") -> str:
    file = into / (name or (path.stem if path.suffix.lower() in PACKED else path.name))
    file = file.with_suffix(".csv")
    file.parent.mkdir(parents=True, exist_ok=True)

    def write(part: Path) -> None:
        with part.open("w", encoding="utf-8", newline="") as out:
            rows = (row.fields for row in csv_rows(path) if not row.line.problem and any(map(str.strip, row.fields)))
            csv.writer(out, lineterminator="\n").writerows(change(rows))

    atomic.write_with(file, write)
    return str(file)
