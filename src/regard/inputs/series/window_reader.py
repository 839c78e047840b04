"""Windows of the user's tables in the form that models read, for prediction. No torch."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import CallError, nearest
from regard.inputs.series.item import SeriesItem, SeriesReader
from regard.inputs.series.panel import Panel, Series, load_panel, refuse_errors
from regard.inputs.series.settings import PatchSettings
from regard.inputs.series.table import open_table
from regard.inputs.series.times import as_number
from regard.inputs.series.windows import Layout, Windows, with_calendar


class WindowReader(SeriesReader):
    def parse(self, words: Sequence[str]) -> list[Any]:
        """Return words of a command line as inputs: files, or corpus:NAME."""
        return [word if word.startswith("corpus:") else Path(word) for word in words]

    def read(self, one: Any) -> SeriesItem:
        """Return the last window of the first series."""
        return one if isinstance(one, SeriesItem) else self.windows_to_predict(one)[0].item(-1)

    def windows_to_predict(self, table: Any, series: str | None = None, at: str | None = None) -> list[Windows]:
        """Return windows for each series of a table: for forecast, the window up to its end or `at`; for convert,
        those that cover it.
        """
        self.refuse_words(table)
        fitted, lay, data = self.fitted, self.layout, self.recipe.data
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
        rows = with_calendar(panel, self.fitted.scaler.scaled(one.values), one.times, list(self.recipe.data.calendar))
        starts = [*range(end - lay.look_back, 0, -lay.horizon), 0] if lay.convert else [end - lay.look_back]
        return Windows(replace(panel, series=(one,)), rows.astype(np.float32), np.unique(starts).astype(np.int64), lay)

    def _lengthened(self, one: Series, end: int, panel: Panel) -> Series:
        """Extend the series by the steps to predict: values of the table where it has them, NaN beyond."""
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
        return Layout.of(self.recipe.data, self.fitted.roles)

    # ---------------------------------------------------------------------------------------------------- explanations
    def firsts(self, steps: int) -> list[int]:
        """Return the span of each patch. Patches start a stride apart; the last may only repeat the last value."""
        s = self.recipe.model
        if not isinstance(s, PatchSettings):
            return super().firsts(steps)
        return [min(place * s.stride, steps) for place in range((steps - s.patch) // s.stride + 2)]

    def restored(self, item: SeriesItem, column: int) -> Any:
        """Return the columns that are read: for convert, without the targets."""
        numbers = item.numbers[:, column].astype(np.float64)
        return self.fitted.scaler.column(numbers, column + (self.layout.targets if self.layout.convert else 0))
