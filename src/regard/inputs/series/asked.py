"""The windows of a table that a prediction is asked for: the last of each series, or those that cover it."""

from dataclasses import replace

import numpy as np
import torch

from regard.data.check_report import CheckReport
from regard.errors import CallError, RegardError, nearest
from regard.inputs.series.files import Table
from regard.inputs.series.prepare import Fitted, load_panel
from regard.inputs.series.series import Panel, Series
from regard.inputs.series.settings import WindowSettings
from regard.inputs.series.times import as_number
from regard.inputs.series.windows import Layout, Windows, with_calendar


def asked_windows(
    table: Table, fitted: Fitted, lay: Layout, settings: WindowSettings, series: str | None, at: str | None
) -> list[Windows]:
    """Forecast: one for each series, up to its end or `at`. Convert: those that cover each stretch."""
    if isinstance(table, str) and "\n" not in table and not table.startswith("corpus:"):
        raise CallError(f"{table!r}: give a table as a pathlib.Path, as the text of a CSV, or as columns by name")
    panel = load_panel(table, fitted.roles, settings, "test", without_targets=lay.convert)
    CheckReport({}, {}, list(panel.findings)).refuse_if_errors()
    known = dict.fromkeys(one.name for one in panel.series)
    if series is not None and series not in known:
        raise CallError(f"decoding.series={series!r} is not in {panel.where}{nearest(series, known)}")
    wanted = [one for one in panel.series if series in (None, one.name)]
    if not lay.convert:  # only the end of a series counts, the last of its stretches
        wanted = list({one.name: one for one in wanted}.values())
    found = [_windows(one, panel, fitted, lay, settings, at) for one in wanted if len(one) >= lay.look_back]
    if not found or (not lay.convert and len(found) < len(wanted)):
        short = min(wanted, key=len)
        of = f"series {short.name!r}" if short.name else "the series"
        raise RegardError(
            f"{panel.where}: {of} has {len(short):,} steps without a gap at its end, and the model reads "
            f"data.look_back={lay.look_back}"
        )
    return found


def _windows(
    one: Series, panel: Panel, fitted: Fitted, lay: Layout, settings: WindowSettings, at: str | None
) -> Windows:
    end = len(one) if at is None else _until(one, at, settings, panel)
    if end < lay.look_back:
        raise CallError(
            f"decoding.at={at}: {end:,} steps of {one.name or panel.where} until then, and the model reads "
            f"data.look_back={lay.look_back}"
        )
    one = one if lay.convert else _lengthened(one, end, panel, fitted, lay)
    rows = with_calendar(panel, fitted.scaler.scaled(one.values), one.times, list(settings.calendar))
    if lay.convert:
        starts = np.unique([*range(end - lay.look_back, 0, -lay.horizon), 0])
    else:
        starts = np.array([end - lay.look_back])
    table = torch.from_numpy(rows.astype(np.float32))
    return Windows(replace(panel, series=(one,)), table, starts.astype(np.int64), lay)


def _lengthened(one: Series, end: int, panel: Panel, fitted: Fitted, lay: Layout) -> Series:
    """The series with the steps that are sought: as far as the table has them, and NaN beyond."""
    known = np.concatenate([one.values, one.ahead])
    missing = end + lay.horizon - len(known)
    if missing > 0:
        if fitted.roles.future:
            names = ", ".join(fitted.roles.future)
            raise CallError(
                f"{panel.where}: {names} must be known {lay.horizon} steps ahead: add {missing} lines at the end with "
                "their times and these columns, the others empty"
            )
        known = np.concatenate([known, np.full((missing, known.shape[1]), np.nan)])
    beyond = fitted.step.after(float(one.times[-1]), len(known) - len(one))
    return replace(one, values=known, times=np.concatenate([one.times, beyond]))


def _until(one: Series, at: str, settings: WindowSettings, panel: Panel) -> int:
    try:
        moment, is_date = as_number(at, settings.time_format)
    except ValueError as error:
        raise CallError(f"decoding.at: {error}") from None
    if is_date != panel.dates:
        raise CallError(
            f"decoding.at={at} is {'a date' if is_date else 'a number'}, but the times of the table are not"
        )
    return int(np.searchsorted(one.times, moment, side="right"))
