"""Forecasts of series from model outputs for windows, in the units of the table. Needs no torch.

Windows of one series are joined along time; later windows only add new steps."""

import csv
import io
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from regard.errors import CallError, nearest
from regard.files import atomic
from regard.inputs.series.item import SeriesItem
from regard.inputs.series.times import labels
from regard.inputs.series.windows import WindowReader
from regard.look.axis import Axis, axis
from regard.look.records import OutputView
from regard.look.render import SUFFIXES
from regard.tasks.result import Candidate, Prediction, ReportPicture
from regard.work import before_step

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Predictions for a table: the steps of every series as arrays, CSV, JSON or a figure.

INK, SAID, BAND, TRUE = "#44403c", "#1d4e89", "#8ab8f0", "#c2410c"
MOST = 12  # maximum panels of a figure
SHOWN = 2  # horizons of the past drawn before the prediction
PICTURES = tuple(suffix for suffix in SUFFIXES if suffix in (".png", ".svg", ".pdf"))


@dataclass(frozen=True)
class SeriesForecast:
    """Steps of one series: T steps, M targets, P quantiles (none: P = 0). `past` and `actual` are for figures."""

    name: str
    times: list[str]
    targets: tuple[str, ...]
    values: np.ndarray  # T M
    quantiles: tuple[float, ...]
    bands: np.ndarray  # T M P
    past_times: list[str]
    past: np.ndarray  # S M; empty if the targets' past is not read
    actual: np.ndarray  # up to T M: actual values, if the table has them

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"series": self.name, "times": self.times}
        found["values"] = {name: self.values[:, m].tolist() for m, name in enumerate(self.targets)}
        if self.quantiles:
            found["quantiles"] = {
                name: {f"{q:g}": self.bands[:, m, p].tolist() for p, q in enumerate(self.quantiles)}
                for m, name in enumerate(self.targets)
            }
        return found

    def said(self, target: int) -> OutputView:
        """Return the values of one target, with its widest band."""
        values, bands, few = self.values[:, target], self.bands[:, target], self.quantiles
        low, high = (bands[:, 0], bands[:, -1]) if len(few) > 1 else (values[:0], values[:0])
        band = f"{few[0]:g} to {few[-1]:g}" if len(few) > 1 else ""
        true = self.actual[:, target] if len(self.actual) else values[:0]
        numbers: dict[str, Any] = {
            name: tuple(some.tolist())
            for name, some in {"values": values, "low": low, "high": high, "actual": true}.items()
        }
        return OutputView("values", tuple(self.times), band=band, **numbers)


@dataclass(frozen=True)
class Forecast(Prediction):
    """All series of one table. `text` is CSV, one line for each step of each series."""

    series: tuple[SeriesForecast, ...] = ()

    def __getitem__(self, name: str) -> SeriesForecast:
        for one in self.series:
            if one.name == name:
                return one
        raise KeyError(f"no series {name!r}; there are: {', '.join(one.name for one in self.series)}")

    def as_dict(self) -> dict[str, Any]:
        return {"input": self.input, "series": [one.as_dict() for one in self.series]}

    def save(self, path: str | Path) -> Path:
        """Save as a .png, .svg or .pdf file."""
        path = Path(path)
        if path.suffix not in PICTURES:
            raise CallError(f"{path}: the name of a picture must end with {', '.join(PICTURES)}")
        figure = draw(self.series)
        return atomic.write_with(path, lambda part: figure.savefig(part, format=path.suffix[1:], dpi=150))


def as_csv(series: tuple[SeriesForecast, ...], time: str, id: str | None) -> str:
    """Return the table as CSV: the id, if there is one; the time; each target, and its quantiles as target_0.1, ..."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    first = series[0]
    names = [name for target in first.targets for name in (target, *(f"{target}_{q:g}" for q in first.quantiles))]
    writer.writerow([*([id] if id else []), time, *names])
    for one in series:
        for t, when in enumerate(one.times):
            numbers = [n for m in range(len(one.targets)) for n in (one.values[t, m], *one.bands[t, m])]
            writer.writerow([*([one.name] if id else []), when, *(f"{number:.6g}" for number in numbers)])
    return out.getvalue().rstrip("\n")


def draw(series: Sequence[SeriesForecast]) -> "Figure":
    """Draw a panel for each target of each series, up to twelve."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # optional for a service without torch
    from matplotlib.figure import Figure

    panels = [(one, m) for one in series for m in range(len(one.targets))][:MOST]
    columns = 1 if len(panels) < 3 else 2
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(9.0 if columns == 1 else 13.0, 2.6 * rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for place, (axes, (one, m)) in enumerate(zip(grid, panels, strict=False)):
        _panel(axes, one, m, legend=place == 0)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    return figure


def _panel(axes, one: SeriesForecast, m: int, *, legend: bool) -> None:
    shown = min(len(one.past), SHOWN * len(one.times))
    past, labels = one.past[len(one.past) - shown :], [*one.past_times[len(one.past_times) - shown :], *one.times]
    ahead = np.arange(shown, shown + len(one.times))
    if shown:
        axes.plot(np.arange(shown), past[:, m], color=INK, lw=1.3, label="past")
    for p in range(len(one.quantiles) // 2):
        low, high = one.bands[:, m, p], one.bands[:, m, -1 - p]
        name = f"{one.quantiles[p]:g} to {one.quantiles[-1 - p]:g}"
        axes.fill_between(ahead, low, high, color=BAND, alpha=0.35, lw=0, label=name)
    # joined to the last known value, so that there is no visible gap
    joined = np.concatenate([past[-1:, m], one.values[:, m]]) if shown else one.values[:, m]
    axes.plot(np.arange(shown - (1 if shown else 0), shown + len(ahead)), joined, color=SAID, lw=1.8, label="predicted")
    if len(one.actual):
        axes.plot(ahead[: len(one.actual)], one.actual[:, m], color=TRUE, lw=1.2, ls="--", label="actual")
    if shown:
        axes.axvline(shown - 0.5, color=INK, lw=0.6, alpha=0.5)
    ticks = np.unique(np.linspace(0, len(labels) - 1, 5).round().astype(int))
    axes.set_xticks(ticks, [labels[tick] for tick in ticks], fontsize=8)
    axes.set_title(f"{one.name}: {one.targets[m]}" if one.name else one.targets[m], fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    if legend:
        axes.legend(frameon=False, fontsize=8, ncols=4)


def draw_series(what: str, series: Sequence[SeriesForecast]) -> ReportPicture:
    """Return the figure for a page."""
    out = io.BytesIO()
    draw(series).savefig(out, format="svg")
    address = f"data:image/svg+xml;base64,{b64encode(out.getvalue()).decode()}"  # an image keeps its styles
    note = "Past, prediction and actual values. Shaded: intervals between the outer quantiles, if predicted."
    return ReportPicture(f"Predictions for {what}", f'<img class="paper" alt="predictions" src="{address}">', note)


AT_ONCE = 256  # windows per batch
FEW = 6  # numbers of a forecast in one line of text

UNSCORED = "a forecast is scored against the actual values: regard evaluate RUN data.test=FILE"


class LookedAt(NamedTuple):
    """A window and the target whose steps are explained."""

    item: SeriesItem
    target: int


class TargetForecast(NamedTuple):
    """The forecast of a target, in one line of text."""

    looked_at: LookedAt
    text: str
    forecast: SeriesForecast


@dataclass(frozen=True)
class Forecasting:
    """Forecasting with any backend. `values`: scaled model outputs for windows: N T M P."""

    recipe: Any
    input: WindowReader
    values: Callable[[Sequence[SeriesItem]], Float[np.ndarray, "N T M P"]]

    def forecast(self, one: Any) -> Forecast:
        """Return the steps of all series of a table: a Path, the text of a CSV, or columns by name."""
        how, roles = self.recipe.decoding, self.input.fitted.roles
        groups = [[one]] if isinstance(one, SeriesItem) else [
            [windows.item(number) for number in range(len(windows))]
            for windows in self.input.windows_to_predict(one, how.series, how.at)
        ]  # fmt: skip
        found = tuple(map(self.said, groups))
        text = as_csv(found, roles.time or "line", roles.id)
        return Forecast(self.input.name(one), [Candidate(text)], None, found)

    def said(self, items: Sequence[SeriesItem]) -> SeriesForecast:
        """Return the forecast for windows of one series."""
        fitted, last, convert = self.input.fitted, items[-1], self.input.layout.convert
        quantiles, targets = tuple(self.recipe.model.quantiles), fitted.roles.targets
        bands, times, done = [], [], -np.inf
        for said, item in zip(self.values(items), items, strict=True):
            new = item.ahead > done
            done = item.ahead[-1]
            bands.append(said.astype(np.float64)[new])
            times.append(item.ahead[new])
        restored = fitted.scaler.unscale
        table = restored(np.concatenate(bands).swapaxes(1, 2)).swapaxes(1, 2)  # T M P
        own, true = (some.astype(np.float64) for some in (last.numbers[:, : len(targets)], last.later))
        true = true[~np.isnan(true).any(axis=1)] if len(items) == 1 else true[:0]
        return SeriesForecast(
            last.name, labels(np.concatenate(times), fitted.dates), targets,
            table[..., quantiles.index(0.5) if quantiles else 0], quantiles,
            table if quantiles else table[..., :0],
            [] if convert else labels(last.times, fitted.dates), own[:0] if convert else restored(own), restored(true),
        )  # fmt: skip

    # --------------------------------------------------------------------------------------------------------- looking
    def line(self, one: Any, output: Any) -> TargetForecast:
        """Return the forecast at decoding.at (or the end) of decoding.series and decoding.target (or the first)."""
        if output is not None:
            raise CallError("look cannot explain given numbers as a forecast; remove output")
        how = self.recipe.decoding
        own = isinstance(one, SeriesItem)
        item = one if own else self.input.windows_to_predict(one, how.series, how.at)[0].item(-1)
        found = self.said([item])
        target = 0 if how.target is None else find_target(how.target, found.targets)
        few = [*(f"{value:.4g}" for value in found.values[:FEW, target]), *(["…"] if len(found.times) > FEW else [])]
        text = f"{found.targets[target]}, {found.times[0]} to {found.times[-1]}: {', '.join(few)}"
        return TargetForecast(LookedAt(item, target), text, found)

    def axes(self, looked_at: LookedAt) -> dict[str, Axis]:
        """Return the axes: rows are steps ahead of one target, columns the steps that were read."""
        item, target = looked_at
        ahead = axis(labels(item.ahead, self.input.fitted.dates))
        source = self.input.axis(item, 0 if self.input.layout.convert else target)
        return {"target": ahead, "source": source, "read": ahead}


def windows_at_once(items: Sequence[SeriesItem], input: Any) -> Iterator[Sequence[SeriesItem]]:
    for start in range(0, len(items), AT_ONCE):
        some = items[start : start + AT_ONCE]
        before_step(sum(map(input.length, some)))
        yield some


def record_input(item: SeriesItem, input: WindowReader) -> str:
    """Return the name of the input for a record."""
    first, last = labels(item.times[[0, -1]], input.fitted.dates)
    return f"{item.name} {first} to {last}".strip()


def find_target(name: str, targets: Sequence[str]) -> int:
    if name not in targets:
        raise CallError(f"decoding.target={name!r} is not one of the targets{nearest(name, targets)}")
    return list(targets).index(name)
