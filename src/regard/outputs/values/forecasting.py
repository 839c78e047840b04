"""Forecasts of series from model outputs for windows, in the units of the table. Needs no torch.

Windows of one series are joined along time; later windows only add new steps."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from regard.errors import CallError, nearest
from regard.inputs.series.item import SeriesItem
from regard.inputs.series.times import labels
from regard.inputs.series.window_reader import WindowReader
from regard.look.axis import Axis, axis
from regard.outputs.result import Candidate
from regard.outputs.values.result import Forecast, SeriesForecast, as_csv
from regard.work import before_step

AT_ONCE = 256  # windows per batch
FEW = 6  # numbers of a forecast in one line of text

UNSCORED = "a forecast is scored against the actual values: regard evaluate RUN data.test=FILE"


class LookedAt(NamedTuple):
    """A window and the target whose steps are explained."""

    item: SeriesItem
    target: int


class Line(NamedTuple):
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
        restored = fitted.scaler.restored
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
    def line(self, one: Any, output: Any) -> Line:
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
        return Line(LookedAt(item, target), text, found)

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


def named(item: SeriesItem, input: WindowReader) -> str:
    """Return the name of the input for a record."""
    first, last = labels(item.times[[0, -1]], input.fitted.dates)
    return f"{item.name} {first} to {last}".strip()


def find_target(name: str, targets: Sequence[str]) -> int:
    if name not in targets:
        raise CallError(f"decoding.target={name!r} is not one of the targets{nearest(name, targets)}")
    return list(targets).index(name)
