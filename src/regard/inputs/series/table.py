"""Tables of times and numbers: CSV, TSV, Parquet, a text, columns, a DataFrame, an array or a corpus.

Only the needed columns are kept, as arrays, while lines are streamed. A cell that is empty (or nan, NA, null) is
missing. One that holds anything else but a number is bad. Both become NaN. A column of texts among the covariates
(data.past, data.future) becomes one column of zeros and ones for each of its texts. `notation.py` parses numbers and
dates.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import corpora
from regard.corpora.series import load_series
from regard.data.formats import csv_rows, is_number_table, text_rows, tsv_rows
from regard.data.pairs import SkippedLine, excerpt
from regard.data.tables import parquet_records
from regard.errors import CallError, RegardError, nearest
from regard.files.lines import ending, files_of, is_pattern
from regard.inputs.series.archive import archive_rows, is_archive, load_series_array
from regard.inputs.series.settings import MOST_TEXTS, LabeledSeriesSettings, TableSettings, WindowSettings
from regard.inputs.series.times import (
    as_number,
    date_format,
    has_decimal_commas,
    has_thousands,
    is_other_date,
    with_points,
    without_signs,
)

MISSING = frozenset(("", "?", "nan", "na", "n/a", "null", "none", "-"))
TIMES = ("time", "date", "timestamp", "datetime", "ds")
LOOKED_AT = 100  # lines that show what a column holds
Cells = Sequence[object]
Rows = Iterator[tuple[int, Cells, str]]  # line, cells, error


@dataclass(frozen=True)
class Roles:
    """Roles of the columns of a table, fixed by the training data. No time: a line is a step.

    A column of texts is named once for each text: city=Rome, city=Oslo. `time_format` and `commas` (in numbers) are
    those of the training data.
    """

    time: str | None
    id: str | None
    targets: tuple[str, ...]
    past: tuple[str, ...]
    future: tuple[str, ...]
    label: str | None = None
    time_format: str | None = None
    commas: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.targets, *self.past, *self.future)


@dataclass(frozen=True)
class RawTable:
    """Numbers of a table in line order."""

    where: str
    times: NDArray[np.float64]
    dates: bool
    ids: np.ndarray  # texts
    labels: np.ndarray  # texts, if there is a label column
    values: NDArray[np.float64]  # lines × columns; NaN where there is none
    lines: NDArray[np.int64]
    bad: list[SkippedLine]  # lines that are lost, and cells that are not numbers

    @property
    def bad_share(self) -> float:
        """Share of lines that are lost or have a bad cell."""
        bad = {one.line for one in self.bad}
        return len(bad) / len(bad.union(self.lines.tolist()))


# ------------------------------------------------------------------------------------------------------------- opening
class Opened(NamedTuple):
    """Open table: its name, the names of its columns, its rows, and whether its numbers had decimal commas."""

    where: str
    names: list[str]
    rows: Rows
    commas: bool = False


def open_table(table: Any, field: str = "", roles: Roles | None = None) -> Opened:
    """Open any table, row by row.

    `field` names the setting that gave it, such as data.train=. `roles`: the columns of training, for tables without
    names.
    """
    if isinstance(table, str) and table.startswith(corpora.PREFIX):
        return Opened(table, *_columns(load_series(table)))
    if isinstance(table, str) and "\n" in table:
        rows = ((line.number, fields, line.problem) for line, fields, _ in text_rows(table))
        return Opened("the given text", *_with_header(rows, roles))
    if isinstance(table, Mapping):
        return Opened("the given columns", *_columns(table))
    if hasattr(table, "columns"):  # a DataFrame; its index may be the clock
        frame: Any = table
        index, columns = getattr(frame, "index", None), {str(name): list(frame[name]) for name in frame.columns}
        if index is not None and (index.name or "datetime" in str(index.dtype)):
            columns = {str(index.name or "time"): list(index), **columns}
        return Opened("the given DataFrame", *_columns(columns))
    if isinstance(table, list | tuple) or hasattr(table, "shape"):
        return Opened("the given array", *_columns(_of_array(table, roles)))
    if not isinstance(table, str | Path):
        raise CallError(f"{type(table).__name__} is not a table; give a path, columns by name, a DataFrame or an array")
    if is_pattern(table):
        return _join_tables(table, [open_table(file, field, roles) for file in files_of(table)], field)
    path = Path(table).expanduser()
    if not path.is_file():
        raise CallError(f"{field}{table}: there is no such file")
    match ending(path):
        case ".csv" | ".txt" | ".tsv" | ".tab" as suffix:
            found = tsv_rows(path) if suffix.startswith(".t") and suffix != ".txt" else csv_rows(path)
            rows = ((line.number, fields, line.problem) for line, fields, _ in found)
            return Opened(str(path), *_with_header(rows, roles))
        case ".parquet":
            records = list(parquet_records(path))
            if not records:
                raise RegardError(f"{path}: the table is empty")
            return Opened(str(path), *_columns({name: [record[name] for record in records] for name in records[0]}))
        case ".npy" | ".npz":
            return Opened(str(path), *_columns(_of_array(load_series_array(path), roles)))
        case _ if is_archive(path):
            return Opened(str(path), *archive_rows(path))
        case other:
            if is_number_table(path):
                rows = ((line.number, fields, line.problem) for line, fields, _ in csv_rows(path))
                return Opened(str(path), *_with_header(rows, roles))
            raise CallError(f"{path}: unknown file ending {other!r}; use .csv, .tsv (also compressed) or .parquet")


def _join_tables(pattern: str | Path, tables: Sequence[Opened], field: str) -> Opened:
    """Open several files as one table, with lines numbered through."""
    first = next(iter(tables), None)
    if first is None:
        raise CallError(f"{field}{pattern}: no file matches this pattern")
    for other in tables:
        if other.names != first.names:
            raise CallError(f"{other.where}: its columns ({', '.join(other.names[:5])}) are not those of {first.where}")

    def rows() -> Rows:
        last = 0
        for one in tables:
            number = 0
            for number, cells, problem in one.rows:
                yield last + number, cells, problem
            last += number

    return Opened(str(pattern), first.names, rows(), any(one.commas for one in tables))


def _with_header(rows: Iterator[tuple[int, Sequence[str], str]], roles: Roles | None) -> tuple[list[str], Rows, bool]:
    """Split off the first line as column names, unless it holds only numbers and times."""
    plain = ((line, without_signs(cells), problem) for line, cells, problem in rows)
    ahead = list(islice(plain, LOOKED_AT))
    commas = has_decimal_commas([cells for _, cells, _ in ahead]) or bool(roles and roles.commas)
    thousands = has_thousands(cell for _, cells, _ in ahead for cell in cells) or roles is not None
    ways = {"commas": commas, "thousands": thousands}
    read = ((line, with_points(cells, **ways), problem) for line, cells, problem in chain(ahead, plain))
    for line, fields, problem in read:
        if problem:
            raise RegardError(f"the first line, which names the columns: {problem}")
        if any(str(field).strip() for field in fields):
            if not all(_is_number(field) or time_of(field) is not None or is_other_date(field) for field in fields):
                names = [str(field).strip() or f"column {at}" for at, field in enumerate(fields, 1)]
                return names, read, commas
            return _default_names(len(fields), roles), chain([(line, fields, "")], read), commas
    raise RegardError("the table is empty")


def _default_names(count: int, roles: Roles | None) -> list[str]:
    """Return names for unnamed columns: those of training if there are as many. A time column comes first."""
    columns = () if roles is None else roles.columns
    timed = columns if roles is None or roles.time is None else (roles.time, *columns)
    numbered = [f"column {number + 1}" for number in range(count)]
    return next((list(names) for names in (timed, columns) if len(names) == count), numbered)


def _columns(table: Mapping[str, Any]) -> tuple[list[str], Rows]:
    lengths = {len(column) for column in table.values()}
    if len(lengths) > 1:
        raise CallError(f"the columns have {', '.join(map(str, sorted(lengths)))} cells: they must be of one length")
    return list(table), ((n, cells, "") for n, cells in enumerate(zip(*table.values(), strict=True), 1))


def _of_array(value: Any, roles: Roles | None) -> Mapping[str, Any]:
    values = value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
    if values.ndim not in (1, 2) or values.dtype.kind not in "fiu" or not values.size:
        raise CallError(f"an array of {values.dtype} and shape {values.shape} is not a table: save steps × columns")
    values = values.reshape(len(values), -1)
    size = values.shape[1]
    if roles is not None and size != len(roles.columns):
        wanted = ", ".join(roles.columns)
        raise CallError(f"an array of {size} columns: the model reads {len(roles.columns)}, {wanted}")
    return dict(zip(_default_names(size, roles), values.T.tolist(), strict=True))


# --------------------------------------------------------------------------------------------------------------- roles
def find_roles(table: Any, settings: TableSettings, field: str = "", *, alone: bool = False) -> Roles:
    """Return the roles of the columns, as the settings give them. By default, all columns of numbers are predicted or,
    for labeled series, read. `alone`: the table is one series, and its folder gives its label.
    """
    where, names, rows, commas = open_table(table, field)
    whole = [cells for _, cells, problem in islice(rows, LOOKED_AT) if not problem and len(cells) == len(names)]
    seen = {name: [cells[at] for cells in whole if not _is_missing(cells[at])] for at, name in enumerate(names)}
    numbers = [name for name in names if seen[name] and _is_number(seen[name][0])]
    time = settings.time or next((name for name in names if name.lower() in TIMES), None)
    if isinstance(settings, LabeledSeriesSettings):
        given = {settings.id, settings.label}
        id, label = (None, None) if alone else (settings.id, settings.label)
        parts = {"columns": settings.columns or [name for name in numbers if name not in {time, *given}]}
    else:
        assert isinstance(settings, WindowSettings)
        time = time or _clock(names, seen, settings.time_format, several=settings.id is not None)
        id, label = settings.id, None
        given = {time, id, *settings.past, *settings.future}
        targets = settings.targets or [name for name in numbers if name not in given]
        parts = {"targets": targets, "past": settings.past, "future": settings.future}
    first = next(iter(parts))
    if not parts[first]:
        texts = [name for name in names if name not in {time, *given}]
        told = f" beside {time!r}" if time else ""
        told += f"; {', '.join(texts)} hold{'s' * (len(texts) == 1)} texts" if texts else ""
        raise CallError(f"{where}: no column of numbers{told}; set data.{first}")
    _require(where, names, {"time": [time], "id": [id], "label": [label], **parts})
    spread = {part: _pivot(table, names, seen, part, columns, where) for part, columns in parts.items()}
    targets, past, future = (spread.get(part, ()) for part in ("targets", "past", "future"))
    form = settings.time_format or (date_format(seen[time], time) if time is not None else None)
    return Roles(time, id, targets, past or spread.get("columns", ()), future, label, form, commas)


def _clock(names: list[str], values: Mapping[str, list[object]], form: str | None, *, several: bool) -> str | None:
    """Return the first column if it holds dates, or numbers that rise along with others (in `several` series: any
    numbers).
    """
    form = form or date_format(values[names[0]], names[0])
    times = [time_of(cell, form) for cell in values[names[0]]]
    known = [time for time in times if time is not None]
    if not known or len(known) < len(times):
        return None
    rising = several or all(a[0] < b[0] for a, b in pairwise(known))
    return names[0] if all(date for _, date in known) or (rising and len(names) > 1) else None


def _pivot(
    table: Any, names: list[str], values: Mapping[str, list[object]], part: str, columns: Iterable[str], where: str
) -> tuple[str, ...]:
    """Return the columns, with one column for each text if texts are allowed."""
    found: list[str] = []
    for name in columns:
        if not values[name] or any(_is_number(cell) for cell in values[name]):
            found.append(name)
            continue
        cells = (cells[names.index(name)] for _, cells, problem in open_table(table).rows if not problem)
        texts = sorted({str(cell).strip() for cell in cells if not _is_missing(cell)})
        if part == "targets" or len(texts) > MOST_TEXTS:
            wrong = f"{len(texts)} texts, and at most {MOST_TEXTS} are allowed"
            if part == "targets":
                wrong = "texts; only numbers can be predicted, but texts can be used in data.past or data.future"
            raise CallError(f"{where}: column data.{part}={name!r} holds {wrong}: {', '.join(texts[:3])}, …")
        found += [f"{name}={text}" for text in texts]
    return tuple(found)


def _require(where: str, names: list[str], wanted: Mapping[str, Iterable[str | None]]) -> None:
    for part, columns in wanted.items():
        for name in columns:
            if name is not None and name not in names and name.partition("=")[0] not in names:
                raise CallError(f"{where}: there is no column data.{part}={name!r}{nearest(name, names)}")


# --------------------------------------------------------------------------------------------------------------- cells
def _is_missing(cell: object) -> bool:
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING)


def _number(cell: object) -> float | str:
    """Return the number of a cell, NaN if it is empty, or a message if it is bad."""
    try:
        number = float(cell)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        return float("nan") if _is_missing(cell) else f"{excerpt(str(cell), 30)!r} is not a number"
    return "infinity cannot be learned" if number in (float("inf"), float("-inf")) else number


def _is_number(cell: object) -> bool:
    return isinstance(_number(cell), float)


def time_of(cell: object, form: str | None = None) -> tuple[float, bool] | None:
    """Return the time of a cell and whether it is a date; None if it holds no time."""
    try:
        return as_number(cell, form)
    except (ValueError, OverflowError):
        return None


class _Reader:
    """Return the value of one column in the cells of a line; for `city=Rome`, whether the city is Rome."""

    def __init__(self, name: str, names: list[str]) -> None:
        column, _, self._text = (name, "", "") if name in names else name.partition("=")
        self._place = names.index(column) if column in names else None
        self._whether = column != name

    def __call__(self, cells: Cells) -> float | str:
        if self._place is None:
            return float("nan")
        cell = cells[self._place]
        if self._whether and not _is_missing(cell):
            return float(str(cell).strip() == self._text)
        return _number(cell)


def read_table(table: Any, roles: Roles, *, field: str = "", without_targets: bool = False) -> RawTable:
    """Read all lines of a table. `without_targets`: the target columns may be missing, as they are to be predicted."""
    where, names, rows, _ = open_table(table, field, roles)
    targets = [name for name in roles.targets if name in names] if without_targets else roles.targets
    part = "columns" if roles.label is not None else "past"
    single = {"time": [roles.time], "id": [roles.id], "label": [roles.label]}
    _require(where, names, {**single, "targets": targets, part: roles.past, "future": roles.future})
    time_at, id_at, label_at = (
        None if name is None else names.index(name) for name in (roles.time, roles.id, roles.label)
    )
    readers = [_Reader(name, names) for name in roles.columns]
    times, lines, values, kinds = array("d"), array("q"), array("d"), set()
    ids: list[str] = []
    labels: list[str] = []
    bad: list[SkippedLine] = []
    counts: Counter[str] = Counter()  # lines of each series, if there is no clock
    for line, cells, problem in rows:
        if not problem and len(cells) < 2 and not any(str(cell).strip() for cell in cells):
            continue  # a blank line is skipped
        if not problem and len(cells) != len(names):
            problem = f"{len(cells)} columns where the first line has {len(names)}"
        if problem:
            bad.append(SkippedLine(where, line, "columns", problem))
            continue
        id, label = ("" if at is None else str(cells[at]).strip() for at in (id_at, label_at))
        counts[id] += 1
        try:
            time, is_date = (
                (float(counts[id]), False) if time_at is None else as_number(cells[time_at], roles.time_format)
            )
        except (ValueError, OverflowError) as error:
            bad.append(SkippedLine(where, line, "unreadable", f"{roles.time}: {error}"))
            continue
        kinds.add(is_date)
        found = [read(cells) for read in readers]
        for name, value in zip(roles.columns, found, strict=True):
            if isinstance(value, str):
                bad.append(SkippedLine(where, line, "unreadable", f"{name}: {value}"))
        times.append(time)
        lines.append(line)
        ids.append(id)
        labels.append(label)
        values.extend(float("nan") if isinstance(value, str) else value for value in found)
    if not times:
        first = "".join(f"\n  {one}" for one in bad[:3])
        raise RegardError(f"{where}: no line has a time{':' if bad else ''}{first}")
    if len(kinds) > 1:
        raise RegardError(f"{where}: column {roles.time!r} has both dates and plain numbers; set data.time_format")
    return RawTable(
        where, np.array(times), kinds.pop(), np.array(ids, dtype=np.str_), np.array(labels, dtype=np.str_),
        np.array(values).reshape(len(times), len(roles.columns)), np.array(lines, dtype=np.int64), bad,
    )  # fmt: skip
