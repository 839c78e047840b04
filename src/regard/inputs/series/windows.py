"""Windows of series: what the model reads, what it knows of the steps ahead, and what it predicts.

    forecast   reads rows  s … s+L−1    of all columns     predicts rows  s+L … s+L+H−1    of the targets
    convert    reads rows  s … s+L−1    but no target      predicts rows  s+L−H … s+L−1    of the targets

The table is divided by time, at the same moment for all its series. A window belongs to the part that contains all
steps it predicts. What it reads may reach back into the part before, as in use (and as is usual in the literature).
Mean and deviation are those of the training part, so nothing learned or scaled depends on later data. Nothing here
needs torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from regard.errors import CallError, RegardError, nearest
from regard.inputs.series.item import Scaler, SeriesItem, SeriesReader
from regard.inputs.series.panel import Panel, Series, load_panel, refuse_errors
from regard.inputs.series.settings import PatchSettings, WindowSettings
from regard.inputs.series.table import Roles, open_table
from regard.inputs.series.times import as_number, calendar


@dataclass(frozen=True)
class WindowLayout:
    """Layout of windows in the rows of a table, and its columns: targets, past, future, calendar."""

    look_back: int
    horizon: int
    convert: bool
    targets: int
    past: int
    ahead: int  # future and calendar

    @classmethod
    def of(cls, settings: WindowSettings, roles: Roles) -> "WindowLayout":
        return cls(
            settings.look_back, settings.horizon, settings.mode == "convert", len(roles.targets), len(roles.past),
            len(roles.future) + 2 * len(settings.calendar),
        )  # fmt: skip

    @property
    def inputs(self) -> int:
        """Number of columns that are read."""
        return self.past + self.ahead + (0 if self.convert else self.targets)

    @property
    def says_from(self) -> int:
        """First predicted row, counted from the window's first row."""
        return self.look_back - self.horizon if self.convert else self.look_back

    @property
    def rows(self) -> int:
        """Number of rows of a window."""
        return self.says_from + self.horizon


class WindowCut(NamedTuple):
    """N windows, scaled. `known`: what is known of the steps to predict, from `future` columns and the calendar."""

    past: Float[np.ndarray, "N S C"]
    known: Float[np.ndarray, "N T F"]
    target: Float[np.ndarray, "N T M"]


class Windows:
    """Windows that start at `starts`, in scaled rows of all series of a panel, one after the other."""

    def __init__(
        self, panel: Panel, rows: Float[np.ndarray, "R C"], starts: Int[np.ndarray, " N"], layout: WindowLayout
    ) -> None:
        self.panel, self.rows, self.starts, self.layout = panel, rows, starts, layout
        self.times: Float[np.ndarray, " R"] = np.concatenate([one.times for one in panel.series])
        owner = np.repeat(np.arange(len(panel.series)), [len(one) for one in panel.series])
        self.owner: Int[np.ndarray, " N"] = owner[starts]  # the series of each window
        self.first_said: Float[np.ndarray, " N"] = self.times[starts + layout.says_from]

    def __len__(self) -> int:
        return len(self.starts)

    def cut(self, numbers: NDArray[np.int64]) -> WindowCut:
        lay, first = self.layout, self.starts[numbers][:, None]
        read = self.rows[first + np.arange(lay.look_back)]
        said = self.rows[first + np.arange(lay.says_from, lay.rows)]
        size = self.rows.shape[1]
        past = read[..., lay.targets if lay.convert else 0 :]
        return WindowCut(past, said[..., size - lay.ahead :], said[..., : lay.targets])

    def item(self, number: int) -> SeriesItem:
        lay, start, one = self.layout, int(self.starts[number]), self.cut(np.array([number]))
        read, said = self.times[start : start + lay.look_back], self.times[start + lay.says_from : start + lay.rows]
        name = self.panel.series[self.owner[number]].name
        return SeriesItem(name, read, one.past[0], said, one.known[0], one.target[0])

    def spread(self, most: int) -> "Windows":
        """Return at most `most` windows, evenly spaced."""
        return Windows(self.panel, self.rows, self.starts[:: max(1, -(-len(self) // most))], self.layout)

    def sample_examples(self, most: int) -> list[SeriesItem]:
        """Return evenly spaced windows, from first to last; always the same."""
        return [self.item(int(number)) for number in np.unique(np.linspace(0, len(self) - 1, most).astype(int))]

    def digest(self) -> str:
        """Hash of what the windows read and predict."""
        seen = blake2b(self.starts.tobytes(), digest_size=10)
        seen.update(self.rows[self.rows_read()].tobytes())
        return seen.hexdigest()

    def rows_read(self) -> Int[np.ndarray, " U"]:
        """Return the rows that any window reads or predicts, in order."""
        change = np.zeros(len(self.rows) + 1, np.int64)
        np.add.at(change, self.starts, 1)
        np.add.at(change, self.starts + self.layout.rows, -1)
        return np.flatnonzero(np.cumsum(change[:-1]))


def cut_times(panel: Panel, settings: WindowSettings) -> tuple[float, float, float]:
    """Return the ends of the training, validation and test part (each the first time beyond it)."""
    times = np.unique(np.concatenate([one.times for one in panel.series]))
    split = list(settings.split)
    if sum(split) <= 1 + 1e-9:
        for part, other in ((1, settings.valid), (2, settings.test)):
            if other is not None:  # it has a separate file and leaves its share to training
                split[0], split[part] = split[0] + split[part], 0.0
        sizes = [round(share * len(times)) for share in split]
    else:
        sizes = [int(size) for size in split]
    ends = np.minimum(np.cumsum(sizes), len(times))
    beyond = np.append(times, np.inf)
    return float(beyond[ends[0]]), float(beyond[ends[1]]), float(beyond[ends[2]])


def with_calendar(panel: Panel, values: NDArray[np.float64], times: NDArray[np.float64], what: list[Any]) -> NDArray:
    """Return the columns of a table together with those of the calendar."""
    if what and not panel.dates:
        raise RegardError(f"{panel.where}: data.calendar={','.join(what)} needs dates, but its times are numbers")
    return np.concatenate([values, calendar(times, what)], axis=1)


def windows_of(
    panel: Panel, scaler: Scaler, layout: WindowLayout, settings: WindowSettings, spans: list[tuple[float, float]]
) -> list[Windows]:
    """Return the windows of each span of time: those that predict no step outside of it."""
    rows, first, starts = [], 0, [[] for _ in spans]
    for one in panel.series:
        columns = scaler.scaled(one.values)
        rows.append(with_calendar(panel, columns, one.times, list(settings.calendar)))
        candidates = np.arange(max(0, len(one) - layout.rows + 1))
        begins = one.times[candidates + layout.says_from] if len(candidates) else candidates
        ends = one.times[candidates + layout.rows - 1] if len(candidates) else candidates
        for place, (low, high) in enumerate(spans):
            starts[place].append(first + candidates[(begins >= low) & (ends < high)])
        first += len(one)
    table = np.concatenate(rows).astype(np.float32)
    return [Windows(panel, table, np.concatenate(some).astype(np.int64), layout) for some in starts]


class WindowReader(SeriesReader):
    """Windows of the user's tables in the form that models read, for prediction. No torch."""

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
        one = one if lay.convert else self._extend_series(one, end, panel)
        rows = with_calendar(panel, self.fitted.scaler.scaled(one.values), one.times, list(self.recipe.data.calendar))
        starts = [*range(end - lay.look_back, 0, -lay.horizon), 0] if lay.convert else [end - lay.look_back]
        return Windows(replace(panel, series=(one,)), rows.astype(np.float32), np.unique(starts).astype(np.int64), lay)

    def _extend_series(self, one: Series, end: int, panel: Panel) -> Series:
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
    def layout(self) -> WindowLayout:
        return WindowLayout.of(self.recipe.data, self.fitted.roles)

    # ---------------------------------------------------------------------------------------------------- explanations
    def firsts(self, steps: int) -> list[int]:
        """Return the span of each patch. Patches start a stride apart; the last may only repeat the last value."""
        s = self.recipe.model
        if not isinstance(s, PatchSettings):
            return super().firsts(steps)
        return [min(place * s.stride, steps) for place in range((steps - s.patch) // s.stride + 2)]

    def unscale(self, item: SeriesItem, column: int) -> Any:
        """Return the columns that are read: for convert, without the targets."""
        numbers = item.numbers[:, column].astype(np.float64)
        return self.fitted.scaler.column(numbers, column + (self.layout.targets if self.layout.convert else 0))
