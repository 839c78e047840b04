"""The windows that a prediction is asked for: the last of each series, or those that cover it."""

from dataclasses import dataclass

import numpy as np
import torch

from regard.errors import CallError, RegardError
from regard.inputs.series.prepare import Fitted
from regard.inputs.series.series import Panel, Series
from regard.inputs.series.times import as_number
from regard.inputs.series.windows import Layout, Windows, with_calendar
from regard.outputs.values.settings import ForecastOutputSettings, SeriesDataSettings


@dataclass(frozen=True)
class Asked:
    """A series, and the windows that are predicted for it."""

    series: Series
    windows: Windows


def asked_windows(
    panel: Panel, fitted: Fitted, lay: Layout, settings: SeriesDataSettings, how: ForecastOutputSettings
) -> list[Asked]:
    """Forecast: a window for each series, up to its end or decoding.at. Convert: windows that cover each stretch."""
    wanted = [one for one in panel.series if how.series in (None, one.name)]
    if not lay.convert:  # only the end of a series counts, the last of its stretches
        wanted = list({one.name: one for one in wanted}.values())
    found = [_windows(one, panel, fitted, lay, settings, how) for one in wanted if len(one) >= lay.look_back]
    if not found or (not lay.convert and len(found) < len(wanted)):
        short = min(wanted, key=len)
        of = f"series {short.name!r}" if short.name else "the series"
        raise RegardError(
            f"{panel.where}: {of} has {len(short):,} steps without a gap at its end, and the model reads "
            f"data.look_back={lay.look_back}"
        )
    return found


def _windows(
    one: Series, panel: Panel, fitted: Fitted, lay: Layout, settings: SeriesDataSettings, how: ForecastOutputSettings
) -> Asked:
    end = len(one) if how.at is None else _until(one, how.at, settings, panel)
    if end < lay.look_back:
        raise CallError(
            f"decoding.at={how.at}: {end:,} steps of {one.name or panel.where} until then, and the model reads "
            f"data.look_back={lay.look_back}"
        )
    values, times = one.values, one.times
    if not lay.convert:
        values, times = _lengthened(one, end, panel, fitted, lay)
    rows = with_calendar(panel, fitted.scaler.scaled(values), times, list(settings.calendar))
    if lay.convert:
        starts = np.unique([*range(end - lay.look_back, 0, -lay.horizon), 0])
    else:
        starts = np.array([end - lay.look_back])
    table = torch.from_numpy(rows.astype(np.float32))
    return Asked(one, Windows(table, starts.astype(np.int64), lay, times, np.zeros(len(times), dtype=np.int64)))


def _lengthened(one: Series, end: int, panel: Panel, fitted: Fitted, lay: Layout) -> tuple[np.ndarray, np.ndarray]:
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
    times = one.times
    beyond = len(known) - len(times)
    if beyond > 0:
        times = np.concatenate([times, fitted.step.after(float(times[-1]), beyond)])
    return known, times


def _until(one: Series, at: str, settings: SeriesDataSettings, panel: Panel) -> int:
    try:
        moment, is_date = as_number(at, settings.time_format)
    except ValueError as error:
        raise CallError(f"decoding.at: {error}") from None
    if is_date != panel.dates:
        raise CallError(
            f"decoding.at={at} is {'a date' if is_date else 'a number'}, but the times of the table are not"
        )
    return int(np.searchsorted(one.times, moment, side="right"))
