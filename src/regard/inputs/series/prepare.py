"""From settings to windows: read the tables, order them, split them by time, scale them.

Roles and scales are fitted on the training part alone and stored in a `Fitted` (`item.py`) with the run. Prediction
needs it, but no training data.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batches import BatchList, random_generator
from regard.data.check_report import CheckReport, Finding, by_severity
from regard.data.tables import Role
from regard.errors import RegardError
from regard.inputs.series.item import Fitted, Scaler
from regard.inputs.series.panel import load_panel, refuse_errors
from regard.inputs.series.settings import WindowSettings
from regard.inputs.series.table import find_roles
from regard.inputs.series.windows import WindowLayout, Windows, cut_times, windows_of

EVER = (-np.inf, np.inf)


class PreparedWindows(NamedTuple):
    fitted: Fitted
    windows: dict[Role, Windows]

    @property
    def findings(self) -> list[Finding]:
        """Problems of the tables, and parts without a window."""
        panels = {id(some.panel): some.panel for some in self.windows.values()}.values()
        found = [finding for panel in panels for finding in panel.findings]
        found += [_too_short(role, some) for role, some in self.windows.items() if not len(some)]
        return by_severity(found)


def prepare_windows(settings: WindowSettings, *, strict: bool = True) -> PreparedWindows:
    """Prepare all parts. `strict` raises on unusable data; otherwise the problems are in the findings."""
    roles = find_roles(settings.train, settings, "data.train=")
    panel = load_panel(settings.train, roles, settings)
    train_end, valid_end, test_end = cut_times(panel, settings)
    rows = np.concatenate([one.values[one.times < train_end] for one in panel.series])
    if not len(rows):
        raise RegardError(f"{panel.where}: data.split={settings.split} leaves no lines for training")
    fitted = Fitted(roles, Scaler.fit(rows, settings.scale), panel.step, panel.dates)
    spans = [(-np.inf, train_end), (train_end, valid_end), (valid_end, test_end)]
    train, valid, test = windows_of(panel, fitted.scaler, WindowLayout.of(settings, roles), settings, spans)
    if settings.valid is not None:
        valid = other_windows(settings.valid, fitted, settings, "valid")
    if settings.test is not None:
        test = other_windows(settings.test, fitted, settings, "test")
    prepared = PreparedWindows(fitted, {"train": train, "valid": valid, "test": test})
    if strict:
        refuse_errors(prepared.findings)
    return prepared


def other_windows(where: str, fitted: Fitted, settings: WindowSettings, role: Role) -> Windows:
    """Read a separate table for a part: all of its windows, scaled as the training part."""
    panel = load_panel(where, fitted.roles, settings, role)
    return windows_of(panel, fitted.scaler, WindowLayout.of(settings, fitted.roles), settings, [EVER])[0]


def _too_short(role: Role, some: Windows) -> Finding:
    lay, series = some.layout, some.panel.series
    what = (
        f"not one window of look_back={lay.look_back} and horizon={lay.horizon}: {len(series):,} "
        f"stretch{'es' if len(series) > 1 else ''} without a gap, the longest of {max(map(len, series)):,} steps"
    )
    severity = "error" if role != "test" else "warning"
    return Finding(severity, role, what, 1, some.panel.where, [], "shorten them, give more data, or change data.split")


def windows_report(prepared: PreparedWindows, season: int) -> CheckReport:
    """Return the report of `regard check`: the parts, the columns, and the problems."""
    fitted, parts = prepared.fitted, []
    for role, some in prepared.windows.items():
        begin, end = "–", "–"
        if len(some):
            last = some.times[some.starts + some.layout.rows - 1]
            begin, end = some.panel.labels(np.array([some.first_said.min(), last.max()]))
        parts.append({"part": role, "windows": len(some), "says from": begin, "to": end, "file": some.panel.where})
    train = prepared.windows["train"]
    names = [(name, part) for part in ("targets", "past", "future") for name in getattr(fitted.roles, part)]
    values = fitted.scaler.unscale(train.rows.astype(np.float64)[train.rows_read()][:, : len(names)])
    columns = [
        {
            "column": name, "part": part, "mean": f"{column.mean():.4g}", "deviation": f"{column.std():.4g}",
            "least": f"{column.min():.4g}", "most": f"{column.max():.4g}",
        }
        for (name, part), column in zip(names, values.T, strict=True) if len(column)
    ]  # fmt: skip
    series = {one.name for one in train.panel.series}
    about = f"columns of the training part (step: {fitted.step}; season: {season}; series: {len(series)})"
    return CheckReport({}, {}, prepared.findings, {}, {"parts": parts, about: columns})


# Batches of windows of series, for training and for scores.


@dataclass(frozen=True)
class SeriesBatch:
    """B windows, as `Cut` has them."""

    past: Float[Tensor, "B S C"]
    known: Float[Tensor, "B T F"]
    target: Float[Tensor, "B T M"]

    @classmethod
    def of(cls, windows: Windows, numbers: NDArray[np.int64]) -> "SeriesBatch":
        return cls(*map(torch.from_numpy, windows.cut(numbers)))

    def to(self, device: torch.device | str) -> "SeriesBatch":
        return SeriesBatch(self.past.to(device), self.known.to(device), self.target.to(device))


def in_order(windows: Windows, size: int) -> Iterator[SeriesBatch]:
    """All windows, each once, `size` at a time."""
    for start in range(0, len(windows), size):
        yield SeriesBatch.of(windows, np.arange(start, min(start + size, len(windows))))


class WindowBatches(BatchList[SeriesBatch | None]):
    """A batch has max_tokens // rows of a window of them."""

    def __init__(self, windows: Windows, max_tokens: int, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self._windows, lay = windows, windows.layout
        self.size = max(1, max_tokens // (lay.look_back + lay.horizon))

    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        order = random_generator(self._seed, epoch).permutation(len(self._windows))
        return np.split(order, range(self.size, len(order), self.size)) if len(order) else []

    def batch(self, rows: NDArray[np.int64], epoch: int = 0) -> SeriesBatch | None:
        return SeriesBatch.of(self._windows, rows) if len(rows) else None
