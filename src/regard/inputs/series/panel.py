"""A table of series in order: sorted, with regular steps and gaps handled as set, and a report of problems.

    refuse   gaps and empty cells are errors
    fill     every step gets the last value at or before it, so that no value comes from the future
    split    a series ends where a gap begins, and another one starts after it; lines with an empty cell are a gap
    ignore   a line is a step, regardless of the clock; lines with an empty cell are left out

Unsorted lines are sorted. Of lines with the same time, the last is kept; under `refuse`, they are errors.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.check_report import CheckReport, Finding, Severity, by_severity
from regard.data.pairs import FIRST
from regard.data.tables import Role
from regard.errors import RegardError
from regard.inputs.series.settings import TableSettings
from regard.inputs.series.table import RawTable, Roles, read_table, time_of
from regard.inputs.series.times import Step, Times, find_step, labels

NEAR = 1e-3  # share of a step by which a regular time may be off
MOST_FILLED = 20  # ratio of filled steps to lines above which the step must be wrong


@dataclass(frozen=True)
class Series:
    """Series, or a stretch of it without a gap: one step from row to row.

    ahead    steps × columns, at times whose targets are not known yet: targets and past are NaN
    place    the steps in which the label can be seen, if a corpus knows them
    """

    name: str
    times: Times
    values: NDArray[np.float64]  # steps × columns
    label: str = ""
    place: range | None = None
    ahead: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    lines: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # of the file

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True)
class Panel:
    """All series of a table, and the problems found."""

    where: str
    dates: bool
    step: Step
    series: tuple[Series, ...]
    findings: tuple[Finding, ...] = ()

    def labels(self, times: Times) -> list[str]:
        return labels(times, self.dates)


def load_panel(
    source: Any,
    roles: Roles,
    settings: TableSettings,
    role: Role = "train",
    *,
    field: str | None = None,
    without_targets: bool = False,
) -> Panel:
    """Read the series of a table. `field`: the setting that gave it, by default that of the
    recipe; see `read_table`.
    """
    field = f"data.{role}=" if field is None else field
    table = read_table(source, roles, field=field, without_targets=without_targets)
    notes = _Notes(table, role, settings)
    notes.bad()
    whole = [_one(table, rows, roles, notes) for rows in _by_id(table)]
    steps = [find_step(one.times, table.dates) for one in whole]
    step = Counter(steps).most_common(1)[0][0]
    for one, its_own in zip(whole, steps, strict=True):
        if its_own != step and len(one) > 2:
            what = f"series {one.name!r} has a step of {its_own}, most have one of {step}"
            notes.add("error", what, 1, one.lines[:1], "give each frequency a table of its own")
    if settings.gaps == "ignore":
        step = Step("rows", step.size) if step.unit in ("seconds", "number") else replace(step, unit="rows")
    parts = [part for one in whole for part in _regular(one, step, settings, notes)]
    notes.constant(roles, parts)
    notes.first_row(roles)
    if not any(len(part) for part in parts):
        raise RegardError(f"{table.where}: no line is left: every line has an empty cell")
    return Panel(table.where, table.dates, step, tuple(parts), tuple(by_severity(notes.found)))


def refuse_errors(findings: Iterable[Finding]) -> None:
    """Raise the first error that makes the data unusable for a model."""
    CheckReport({}, {}, list(findings)).refuse_if_errors()


class _Notes:
    """Problems found, each kind once, with the first lines."""

    def __init__(self, table: RawTable, role: Role, settings: TableSettings) -> None:
        self.table, self.settings = table, settings
        self.role: Role = role
        self.found: list[Finding] = []

    def add(self, severity: Severity, what: str, count: int, lines: Sequence[int] | NDArray, advice: str) -> None:
        first = [int(line) for line in lines[:FIRST]]
        self.found.append(Finding(severity, self.role, what, count, self.table.where, first, advice))

    def gap(self, what: str, count: int, lines: NDArray) -> None:
        """Add an error under `refuse`, else a warning that describes the handling."""
        done = {
            "refuse": "choose data.gaps=fill, split or ignore (see docs/forecast.md)",
            "fill": "filled with the previous value",
            "split": "the series is split at each gap",
            "ignore": "the clock is ignored: a line is a step, and lines with an empty cell are left out",
        }
        how = self.settings.gaps
        self.add("error" if how == "refuse" else "warning", what, count, lines, done[how])

    def bad(self) -> None:
        table, most = self.table, self.settings.max_bad
        kinds: dict[str, list] = {}
        for one in table.bad:
            kinds.setdefault(one.reason.split(":")[0] if one.kind == "unreadable" else one.kind, []).append(one)
        share = table.bad_share
        for bads in kinds.values():
            lines = np.array([one.line for one in bads])
            severe = "error" if share > most or self.settings.gaps == "refuse" else "warning"
            advice = "they count as missing" if severe == "warning" else "correct them"
            if share > most:
                advice += f"; {share:.1%} of all lines are bad, data.max_bad allows {most:.1%}"
            elif severe == "error":
                advice += ", or let them count as missing: data.gaps=fill, split or ignore"
            self.add(severe, f"{bads[0].reason}{' (the first)' if len(bads) > 1 else ''}", len(bads), lines, advice)

    def first_row(self, roles: Roles) -> None:
        """Warn about column names that look like data, such as 186.3 or 2024-05-14."""
        names = [name for name in (roles.time, roles.id, *roles.columns) if name is not None]
        years = [name for name in names if len(name) == 4 and name.isdecimal()]
        if self.role == "train" and any(time_of(name) is not None for name in names if name not in years):
            what = f"the first row of data became column names: {', '.join(names[:5])}"
            self.add("warning", what, 1, [1], "write a first line that names the columns")

    def constant(self, roles: Roles, parts: Sequence[Series]) -> None:
        if self.role != "train":
            return
        values = np.concatenate([part.values for part in parts])
        for place, name in enumerate(roles.columns):
            column = values[:, place]
            column = column[~np.isnan(column)]
            if len(column) and column.min() == column.max():
                what = f"column {name!r} never changes: it is {column[0]:g} throughout"
                self.add("warning", what, 1, [], "leave it out; it contains no information")


def _by_id(table: RawTable) -> Iterator[NDArray[np.int64]]:
    """Return the rows of each series, in order of first appearance."""
    _, first, series, sizes = np.unique(table.ids, return_index=True, return_inverse=True, return_counts=True)
    rows = np.split(np.argsort(series, kind="stable"), np.cumsum(sizes)[:-1])
    yield from (rows[place] for place in np.argsort(first))


def _one(table: RawTable, rows: NDArray[np.int64], roles: Roles, notes: _Notes) -> Series:
    """Return one series: sorted, one line per time, with lines of known future separated."""
    times = table.times[rows]
    back = np.flatnonzero(np.diff(times) < 0)
    if len(back):
        what = f"{len(back):,} time{'s' if len(back) > 1 else ''} earlier than the line before"
        notes.add("warning", what, len(back), table.lines[rows[back + 1]], "the lines are sorted by time")
        rows = rows[np.argsort(times, kind="stable")]
        times = table.times[rows]
    again = np.flatnonzero(np.diff(times) == 0)
    if len(again):
        severity: Severity = "error" if notes.settings.gaps == "refuse" else "warning"
        what = f"{len(again):,} time{'s' if len(again) > 1 else ''} given twice"
        advice = "the last line of each is used" if severity == "warning" else "remove one of each"
        advice += "" if roles.id else "; if there are several series, name the column that identifies them: data.id="
        notes.add(severity, what, len(again), table.lines[rows[again + 1]], advice)
        rows = np.delete(rows, again)
        times = table.times[rows]
    values = table.values[rows]
    end = len(rows)
    if roles.future:  # lines at the end that contain only what is known ahead
        own = len(roles.targets) + len(roles.past)
        known = np.isnan(values[:, :own]).sum(axis=1) == own
        known &= np.isnan(values[:, own:]).sum(axis=1) == 0
        end -= len(known) if known.all() else int(np.argmin(known[::-1]))
    labels = list(dict.fromkeys(table.labels[rows].tolist()))
    if len(labels) > 1:
        what = f"series {str(table.ids[rows[0]])!r} has several labels: {', '.join(labels[:3])}"
        notes.add("error", what, 1, table.lines[rows[:1]], "a series has one label, the same in all its lines")
    name, lines = str(table.ids[rows[0]]), table.lines[rows[:end]]
    return Series(name, times[:end], values[:end], labels[0], ahead=values[end:], lines=lines)


def _regular(one: Series, step: Step, settings: TableSettings, notes: _Notes) -> Iterator[Series]:
    """Return the series as stretches without gaps."""
    places = step.places(one.times)
    apart = np.diff(places)
    steps = np.round(apart)
    odd = np.abs(apart - steps) > NEAR
    wide = ~odd & (steps > 1)
    of = f" of {one.name!r}" if one.name else ""
    if settings.gaps != "ignore":
        if odd.any():
            what = f"{odd.sum():,} time{'s' if odd.sum() > 1 else ''}{of} off the step of {step}"
            if odd.sum() > 0.1 * len(apart):
                sizes, counts = np.unique(np.round(np.diff(one.times), 6), return_counts=True)
                usual = ", ".join(f"{counts[n]:,} × {sizes[n]:g}" for n in np.argsort(-counts)[:3])
                what += f": mixed frequencies (lines apart: {usual}{' seconds' if notes.table.dates else ''})"
            notes.gap(what, int(odd.sum()), one.lines[1:][odd])
        if wide.any():
            missing = int((steps[wide] - 1).sum())
            what = f"{missing:,} missing step{'s' if missing > 1 else ''} of {step} in {wide.sum():,} gaps{of}"
            notes.gap(what, int(wide.sum()), one.lines[1:][wide])
    empty = np.isnan(one.values[:, _count_values(one.values)]).any(axis=1)
    # Bad cells are already reported.
    untold = one.lines[empty & ~np.isin(one.lines, [bad.line for bad in notes.table.bad])]
    if len(untold):
        notes.gap(f"{len(untold):,} line{'s' if len(untold) > 1 else ''}{of} with an empty cell", len(untold), untold)
    if settings.gaps == "fill":
        yield _fill_gaps(one, step, places, notes)
        return
    kept = np.flatnonzero(~empty)
    if settings.gaps == "ignore":
        cuts = np.array([], dtype=np.int64)
    else:
        cuts = np.flatnonzero(np.abs(np.diff(places[kept]) - 1) > NEAR) + 1
    stretches = np.split(kept, cuts)
    for number, rows in enumerate(stretches):
        if len(rows):
            ahead = one.ahead if number == len(stretches) - 1 else one.ahead[:0]
            yield replace(one, times=one.times[rows], values=one.values[rows], lines=one.lines[rows], ahead=ahead)


def _count_values(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Columns that have at least one number: a target to predict has none, and is not missing."""
    return np.isnan(values).sum(axis=0) < len(values)


def _fill_gaps(one: Series, step: Step, places: NDArray[np.float64], notes: _Notes) -> Series:
    """Return every step of the clock, with the last value at or before it."""
    size = int(np.floor(places[-1] - places[0] + NEAR)) + 1
    if size > MOST_FILLED * len(one) + 1000:
        raise RegardError(
            f"{notes.table.where}: filling the gaps of a step of {step} would make {size:,} steps of {len(one):,} "
            "lines; check the times, or choose data.gaps=split"
        )
    row = np.searchsorted(places - places[0], np.arange(size) + NEAR, side="right") - 1
    values = one.values[row]
    for column in np.flatnonzero(_count_values(one.values)):
        known = ~np.isnan(values[:, column])
        last = np.maximum.accumulate(np.where(known, np.arange(size), -1))
        values[:, column] = np.where(last >= 0, values[np.maximum(last, 0), column], np.nan)
    start = int(np.argmax(~np.isnan(values[:, _count_values(one.values)]).any(axis=1)))
    first = one.times[0]
    times = np.concatenate([[first], step.after(float(first), size - 1)])
    return replace(one, times=times[start:], values=values[start:], lines=one.lines[row][start:])
