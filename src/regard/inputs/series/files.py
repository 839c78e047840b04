"""A table of times and numbers, from CSV, TSV, Parquet, a text, plain columns or a corpus: what is no number is named.

Only the columns that play a part are kept, as arrays, while lines stream by. A cell that is empty (or says nan, NA,
null) is missing; one that holds anything else but a number is bad, and both are NaN from here on.
"""

import csv
import io
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import corpora
from regard.corpora.series import load_series
from regard.data.formats import csv_rows
from regard.data.pairs import Bad, excerpt
from regard.errors import CallError, RegardError, nearest
from regard.files.lines import read_lines
from regard.inputs.series.settings import LabeledSeriesSettings, WindowSettings
from regard.inputs.series.times import as_number

MISSING = frozenset(("", "nan", "na", "n/a", "null", "none", "-"))
TIMES = ("time", "date", "timestamp", "datetime", "ds")
Rows = Iterator[tuple[int, Sequence[object], str]]  # line, cells, what is wrong with it
Table = Path | str | Mapping[str, Any]  # a file, the text of a CSV, or columns


@dataclass(frozen=True)
class Roles:
    """Which columns of a table play which part; known once, from the training data. No time: a line is a step."""

    time: str | None
    id: str | None
    targets: tuple[str, ...]
    past: tuple[str, ...]
    future: tuple[str, ...]
    label: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.targets, *self.past, *self.future)


@dataclass(frozen=True)
class RawTable:
    """The numbers of a table in the order of its lines."""

    where: str
    times: NDArray[np.float64]
    dates: bool
    ids: np.ndarray  # texts
    labels: np.ndarray  # texts, where a column says them
    values: NDArray[np.float64]  # lines × columns; NaN where there is none
    lines: NDArray[np.int64]
    bad: list[Bad]  # lines that are lost, and cells that are no numbers

    @property
    def bad_share(self) -> float:
        """Of all lines, those that are lost or have a bad cell."""
        bad = {one.line for one in self.bad}
        return len(bad) / len(bad.union(self.lines.tolist()))


def open_table(table: Table, role: str = "train") -> tuple[str, list[str], Rows]:
    """(what it is called, the names of its columns, its rows)"""
    if isinstance(table, Mapping):
        return "the given columns", *_columns(table)
    if isinstance(table, str) and table.startswith(corpora.PREFIX):
        return table, *_columns(load_series(table))
    if isinstance(table, str) and "\n" in table:
        return "the given text", *_csv((n, fields, "") for n, fields in enumerate(csv.reader(io.StringIO(table)), 1))
    path = Path(table).expanduser()
    if not path.is_file():
        raise CallError(f"data.{role}={table}: there is no such file")
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".zst")]
    match suffixes[-1].lower() if suffixes else "":
        case ".csv" | ".txt":
            return str(path), *_csv((line.number, fields, line.problem) for line, fields, _ in csv_rows(path))
        case ".tsv" | ".tab":
            return str(path), *_csv((line.number, line.text.split("\t"), line.problem) for line in read_lines(path))
        case ".parquet":
            return str(path), *_parquet(path)
        case other:
            raise CallError(f"{path}: the ending {other!r} says no format; use .csv, .tsv (also .gz, .zst) or .parquet")


def _csv(rows: Iterator[tuple[int, Sequence[str], str]]) -> tuple[list[str], Rows]:
    for _, fields, problem in rows:
        if problem:
            raise RegardError(f"the first line, which names the columns: {problem}")
        if any(field.strip() for field in fields):
            return [field.strip() for field in fields], rows
    raise RegardError("the table is empty")


def _columns(table: Mapping[str, Any]) -> tuple[list[str], Rows]:
    lengths = {len(column) for column in table.values()}
    if len(lengths) > 1:
        raise CallError(f"the columns have {', '.join(map(str, sorted(lengths)))} cells: they must be of one length")
    return list(table), ((n, cells, "") for n, cells in enumerate(zip(*table.values(), strict=True), 1))


def _parquet(path: Path) -> tuple[list[str], Rows]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise CallError(f"{path} needs pyarrow, which is not installed: pip install 'regard[parquet]'") from None
    try:
        table = parquet.read_table(path)
    except (ArrowException, OSError) as problem:
        raise RegardError(f"{path}: is not a complete Parquet file ({problem})") from None
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return table.column_names, ((n, cells, "") for n, cells in enumerate(rows, 1))


def find_roles(table: Table, settings: WindowSettings) -> Roles:
    """The parts that columns play, as the settings say; by default, all that begin with a number are targets."""
    where, names, rows = open_table(table)
    by_default = next((name for name in names if name.lower() in TIMES), names[0])
    time = settings.time or by_default
    others = {time, settings.id, *settings.past, *settings.future}
    targets = settings.targets or _numeric(names, rows, others)
    if not targets:
        raise CallError(f"{where}: there is no column of numbers to predict beside {time!r}; name data.targets")
    roles = Roles(time, settings.id, tuple(targets), tuple(settings.past), tuple(settings.future))
    _require(where, names, roles, roles.columns)
    return roles


def find_labeled_roles(table: Table, settings: LabeledSeriesSettings, *, alone: bool, role: str = "train") -> Roles:
    """The same for series with labels. `alone`: the table is one series, and its label is said by its folder."""
    where, names, rows = open_table(table, role)
    time = settings.time or next((name for name in names if name.lower() in TIMES), None)
    id, label = (None, None) if alone else (settings.id, settings.label)
    columns = settings.columns or _numeric(names, rows, {time, settings.id, settings.label})
    if not columns:
        raise CallError(f"{where}: there is no column of numbers to read; name data.columns")
    roles = Roles(time, id, (), tuple(columns), (), label)
    _require(where, names, roles, roles.columns)
    return roles


def _numeric(names: list[str], rows: Rows, others: Collection[str | None]) -> list[str]:
    first = next((cells for _, cells, problem in rows if not problem and len(cells) == len(names)), ())
    return [name for name, cell in zip(names, first, strict=False) if name not in others and _is_number(cell)]


def _is_number(cell: object) -> bool:
    return isinstance(_number(cell), float)


def _require(where: str, names: list[str], roles: Roles, columns: Sequence[str]) -> None:
    wanted = {part: [name] if name else [] for part, name in vars(roles).items() if part in ("time", "id", "label")}
    wanted |= {part: [n for n in getattr(roles, part) if n in columns] for part in ("targets", "past", "future")}
    for part, columns in wanted.items():
        for name in columns:
            if name not in names:
                part = "columns" if roles.label is not None and part == "past" else part
                raise CallError(f"{where}: there is no column data.{part}={name!r}{nearest(name, names)}")


def _number(cell: object) -> float | str:
    """The number of a cell, NaN if it is empty; a text says what is wrong with it."""
    if cell is None:
        return float("nan")
    if isinstance(cell, str) and cell.strip().lower() in MISSING:
        return float("nan")
    try:
        number = float(cell)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        return f"{excerpt(str(cell), 30)!r} is no number"
    return "infinity is no value to learn" if number in (float("inf"), float("-inf")) else number


def read_table(
    table: Table, roles: Roles, form: str | None, *, role: str = "train", without_targets: bool = False
) -> RawTable:
    """All lines of a table. `without_targets`: those columns may be missing (they are what is sought)."""
    where, names, rows = open_table(table, role)
    needed = [name for name in roles.columns if not (without_targets and name in roles.targets and name not in names)]
    _require(where, names, roles, needed)
    time_at, id_at, label_at = (
        None if name is None else names.index(name) for name in (roles.time, roles.id, roles.label)
    )
    places = [names.index(name) if name in needed else None for name in roles.columns]
    times, lines, values, kinds = array("d"), array("q"), array("d"), set()
    ids: list[str] = []
    labels: list[str] = []
    bad: list[Bad] = []
    counts: Counter[str] = Counter()  # lines of each series, where there is no clock
    for line, cells, problem in rows:
        if not problem and len(cells) == 1 and not str(cells[0]).strip():
            continue  # a blank line: nothing is lost with it
        if not problem and len(cells) != len(names):
            problem = f"{len(cells)} columns where the first line has {len(names)}"
        if problem:
            bad.append(Bad(where, line, "columns", problem))
            continue
        id, label = ("" if at is None else str(cells[at]).strip() for at in (id_at, label_at))
        counts[id] += 1
        try:
            time, is_date = (float(counts[id]), False) if time_at is None else as_number(cells[time_at], form)
        except (ValueError, OverflowError) as error:
            bad.append(Bad(where, line, "unreadable", f"{roles.time}: {error}"))
            continue
        kinds.add(is_date)
        found = [float("nan") if place is None else _number(cells[place]) for place in places]
        for name, value in zip(roles.columns, found, strict=True):
            if isinstance(value, str):
                bad.append(Bad(where, line, "unreadable", f"{name}: {value}"))
        times.append(time)
        lines.append(line)
        ids.append(id)
        labels.append(label)
        values.extend(float("nan") if isinstance(value, str) else value for value in found)
    if not times:
        first = "".join(f"\n  {one}" for one in bad[:3])
        raise RegardError(f"{where}: there is not one line with a time in it{':' if bad else ''}{first}")
    if len(kinds) > 1:
        raise RegardError(f"{where}: column {roles.time!r} has dates and plain numbers; data.time_format says which")
    return RawTable(
        where, np.array(times), kinds.pop(), np.array(ids, dtype=np.str_), np.array(labels, dtype=np.str_),
        np.array(values).reshape(len(times), len(roles.columns)), np.array(lines, dtype=np.int64), bad,
    )  # fmt: skip
