"""From settings to windows: read the tables, put them into order, divide them by time, scale them.

What is fitted (which columns play which part, mean and deviation, the step) comes from the training part alone and is
kept in a `Fitted`, which a run saves: prediction needs it, and no training data.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data.check_report import CheckReport, Finding
from regard.data.tables import Role
from regard.errors import RegardError
from regard.files import atomic
from regard.inputs.series.files import Roles, Table, find_roles, read_table
from regard.inputs.series.series import Panel, order
from regard.inputs.series.settings import TableSettings, WindowSettings
from regard.inputs.series.times import Step
from regard.inputs.series.windows import Layout, Scaler, Windows, cut_times, training_rows, windows_of

FITTED = "series.json"  # in the folder of a run
EVER = (-np.inf, np.inf)


@dataclass(frozen=True)
class Fitted:
    """What the training part decided."""

    roles: Roles
    scaler: Scaler
    step: Step
    dates: bool

    def save(self, folder: Path) -> None:
        parts = {"roles": vars(self.roles), "scaler": self.scaler.as_dict(), "step": vars(self.step)}
        atomic.write_text(folder / FITTED, json.dumps({**parts, "dates": self.dates}, ensure_ascii=False, indent=1))

    @classmethod
    def load(cls, folder: Path) -> "Fitted":
        try:
            read = json.loads((folder / FITTED).read_text(encoding="utf-8"))
            columns = {part: tuple(read["roles"][part]) for part in ("targets", "past", "future")}
            roles = Roles(**{**read["roles"], **columns})
            return cls(roles, Scaler.from_dict(read["scaler"]), Step(**read["step"]), read["dates"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RegardError(f"{folder}: the run has lost its scales ({error})") from None


class PreparedWindows(NamedTuple):
    fitted: Fitted
    windows: dict[Role, Windows]

    @property
    def findings(self) -> list[Finding]:
        """What is wrong with the tables, and parts without a window."""
        panels = {id(some.panel): some.panel for some in self.windows.values()}.values()
        found = [finding for panel in panels for finding in panel.findings]
        found += [_too_short(role, some) for role, some in self.windows.items() if not len(some)]
        return sorted(found, key=lambda one: ("error", "warning", "note").index(one.severity))


def prepare_windows(settings: WindowSettings, *, strict: bool = True) -> PreparedWindows:
    """All parts. `strict` refuses what cannot be trained on; without it, the findings say so."""
    roles = find_roles(at(settings.train), settings)
    panel = load_panel(at(settings.train), roles, settings)
    train_end, valid_end, test_end = cut_times(panel, settings)
    rows = training_rows(panel, train_end)
    if not len(rows):
        raise RegardError(f"{panel.where}: data.split={settings.split} leaves no line for training")
    fitted = Fitted(roles, Scaler.fit(rows, settings.scale), panel.step, panel.dates)
    spans = [(-np.inf, train_end), (train_end, valid_end), (valid_end, test_end)]
    layout = Layout.of(settings, len(roles.targets))
    train, valid, test = windows_of(panel, fitted.scaler, layout, settings, spans)
    if settings.valid is not None:
        valid = other_windows(at(settings.valid), fitted, settings, "valid")
    if settings.test is not None:
        test = other_windows(at(settings.test), fitted, settings, "test")
    prepared = PreparedWindows(fitted, {"train": train, "valid": valid, "test": test})
    if strict:
        CheckReport({}, {}, prepared.findings).refuse_if_errors()
    return prepared


def load_panel(
    table: Table, roles: Roles, settings: TableSettings, role: Role = "train", *, without_targets: bool = False
) -> Panel:
    raw = read_table(table, roles, settings.time_format, role=role, without_targets=without_targets)
    return order(raw, roles, settings, role)


def other_windows(table: Table, fitted: Fitted, settings: WindowSettings, role: Role) -> Windows:
    """A table of its own for a part: all of its windows, scaled as the training part was."""
    panel = load_panel(table, fitted.roles, settings, role)
    layout = Layout.of(settings, len(fitted.roles.targets))
    return windows_of(panel, fitted.scaler, layout, settings, [EVER])[0]


def at(where: str) -> Table:
    """What a recipe says is a corpus or a file, never the text of a table."""
    return where if where.startswith("corpus:") else Path(where)


def _too_short(role: Role, some: Windows) -> Finding:
    lay, series = some.layout, some.panel.series
    what = (
        f"not one window of look_back={lay.look_back} and horizon={lay.horizon}: {len(series):,} "
        f"stretch{'es' if len(series) > 1 else ''} without a gap, the longest of {max(map(len, series)):,} steps"
    )
    severity = "error" if role != "test" else "warning"
    return Finding(severity, role, what, 1, some.panel.where, [], "shorten them, give more data, or change data.split")


def windows_report(prepared: PreparedWindows, season: int) -> CheckReport:
    """What `regard check` shows: the parts, the columns, and what is wrong."""
    fitted, parts = prepared.fitted, []
    for role, some in prepared.windows.items():
        begin, end = "–", "–"
        if len(some):
            last = some.times[some.starts + some.layout.rows - 1]
            begin, end = some.panel.labels(np.array([some.first_said.min(), last.max()]))
        parts.append({"part": role, "windows": len(some), "says from": begin, "to": end, "file": some.panel.where})
    train = prepared.windows["train"]
    rows = np.unique((train.starts[:, None] + np.arange(train.layout.rows)).ravel())
    names = [(name, part) for part in ("targets", "past", "future") for name in getattr(fitted.roles, part)]
    values = fitted.scaler.restored(train.rows.double().numpy()[rows][:, : len(names)])
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
