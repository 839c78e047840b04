"""Windows of the tables that are given: for training, for testing, and those that something is to be said of."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from regard.data.check_report import CheckReport
from regard.data.tables import Role
from regard.errors import CallError, nearest
from regard.inputs.series.input import SeriesInput
from regard.inputs.series.panel import Panel, Series, load_panel, refuse_errors
from regard.inputs.series.prepare import PreparedWindows, other_windows, prepare_windows, windows_report
from regard.inputs.series.table import open_table
from regard.inputs.series.times import as_number
from regard.inputs.series.windows import Layout, Windows, with_calendar


class WindowData(SeriesInput):
    def windows(self, *, strict: bool = True) -> dict[Role, Windows]:
        """Those of train, valid and test, and with them the parts that columns play, and their scales."""
        prepared = prepare_windows(self.data, strict=strict)
        self._fitted = prepared.fitted
        return prepared.windows

    def report(self, windows: dict[Role, Windows]) -> CheckReport:
        return windows_report(PreparedWindows(self.fitted, windows), self.season)

    def test_windows(self) -> Windows:
        """Those of the test part, or of a table of its own."""
        if self.data.test is None:
            windows = prepare_windows(self.data).windows["test"]
        else:
            windows = other_windows(self.data.test, self.fitted, self.data, "test")
            refuse_errors(windows.panel.findings)
        if not len(windows):
            raise CallError("there is not one window to test on: give data.test=FILE, or a test part in data.split")
        return windows

    @property
    def has_test_data(self) -> bool:
        return True  # a part of the table is for it

    def windows_to_predict(self, table: Any, series: str | None = None, at: str | None = None) -> list[Windows]:
        """For each series of a table: forecast, the window up to its end or `at`; convert, those that cover it."""
        self.refuse_words(table)
        fitted, lay, data = self.fitted, self.layout, self.data
        names = open_table(table, roles=fitted.roles)[1]
        roles = self.timed(fitted.roles, names)
        panel = load_panel(table, roles, data, "test", field="", without_targets=lay.convert)
        refuse_errors(panel.findings)
        known = dict.fromkeys(one.name for one in panel.series)
        if series is not None and series not in known:
            raise CallError(f"decoding.series={series!r} is not in {panel.where}{nearest(series, known)}")
        wanted = [one for one in panel.series if series in (None, one.name)]
        if not lay.convert:  # only the end of a series counts, the last of its stretches
            wanted = list({one.name: one for one in wanted}.values())
        found = [self._windows(one, panel, at) for one in wanted if len(one) >= lay.look_back]
        if not found or (not lay.convert and len(found) < len(wanted)):
            short = min(wanted, key=len)
            of = f"series {short.name!r}" if short.name else "the series"
            raise CallError(
                f"{panel.where}: {of} has {len(short):,} steps without a gap at its end, and the model reads "
                f"data.look_back={lay.look_back}"
            )
        return found

    def _windows(self, one: Series, panel: Panel, at: str | None) -> Windows:
        lay = self.layout
        end = len(one) if at is None else self._until(one, at, panel)
        if end < lay.look_back:
            raise CallError(
                f"decoding.at={at}: {end:,} steps of {one.name or panel.where} until then, and the model reads "
                f"data.look_back={lay.look_back}"
            )
        one = one if lay.convert else self._lengthened(one, end, panel)
        rows = with_calendar(panel, self.fitted.scaler.scaled(one.values), one.times, list(self.data.calendar))
        starts = [*range(end - lay.look_back, 0, -lay.horizon), 0] if lay.convert else [end - lay.look_back]
        table = torch.from_numpy(rows.astype(np.float32))
        return Windows(replace(panel, series=(one,)), table, np.unique(starts).astype(np.int64), lay)

    def _lengthened(self, one: Series, end: int, panel: Panel) -> Series:
        """The series with the steps that are sought: as far as the table has them, and NaN beyond."""
        known = np.concatenate([one.values, one.ahead]) if len(one.ahead) else one.values
        missing, future = end + self.layout.horizon - len(known), self.fitted.roles.future
        if missing > 0:
            if future:
                raise CallError(
                    f"{panel.where}: {', '.join(future)} must be known {self.layout.horizon} steps ahead: add "
                    f"{missing} lines at the end with their times and these columns, the others empty"
                )
            known = np.concatenate([known, np.full((missing, known.shape[1]), np.nan)])
        beyond = self.fitted.step.after(float(one.times[-1]), len(known) - len(one))
        return replace(one, values=known, times=np.concatenate([one.times, beyond]))

    def _until(self, one: Series, at: str, panel: Panel) -> int:
        try:
            moment, is_date = as_number(at, self.fitted.roles.time_format)
        except ValueError as error:
            raise CallError(f"decoding.at: {error}") from None
        if is_date != panel.dates:
            kind = "a date" if is_date else "a number"
            raise CallError(f"decoding.at={at} is {kind}, but the times of the table are not")
        return int(np.searchsorted(one.times, moment, side="right"))

    @property
    def layout(self) -> Layout:
        return Layout.of(self.data, self.fitted.roles)

    @property
    def season(self) -> int:
        """Steps of the season that baselines repeat."""
        return self.data.season or self.fitted.step.season()
