"""From settings to windows: read the tables, put them into order, divide them by time, scale them.

What is fitted (which columns play which part, mean and deviation, the step, the unit of MASE) comes from the training
part alone and is kept in a `Fitted`, which a run saves: prediction needs it, and no training data.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.check_report import CheckReport, Finding
from regard.data.tables import Role
from regard.errors import RegardError
from regard.inputs.series.files import Roles, Table, find_roles, read_table
from regard.inputs.series.series import Panel, order
from regard.inputs.series.times import Step
from regard.inputs.series.windows import Layout, Scaler, Windows, cut_times, naive_errors, training_rows, windows_of
from regard.outputs.values.settings import SeriesDataSettings

EVER = (-np.inf, np.inf)


@dataclass(frozen=True)
class Fitted:
    """What the training part decided."""

    roles: Roles
    scaler: Scaler
    step: Step
    dates: bool
    season: int
    naive: dict[str, list[float]]  # series → mean |x_t − x_{t−season}| of each target, scaled: the unit of MASE

    def as_dict(self) -> dict[str, Any]:
        return {
            "roles": vars(self.roles), "scaler": self.scaler.as_dict(), "step": vars(self.step), "dates": self.dates,
            "season": self.season, "naive": self.naive,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, read: dict[str, Any]) -> "Fitted":
        parts = read["roles"]
        roles = Roles(parts["time"], parts["id"], *(tuple(parts[part]) for part in ("targets", "past", "future")))
        scaler, step = Scaler.from_dict(read["scaler"]), Step(**read["step"])
        return cls(roles, scaler, step, read["dates"], read["season"], read["naive"])


@dataclass(frozen=True)
class PreparedSeries:
    """The windows of each part, and what was fitted."""

    fitted: Fitted
    panels: dict[Role, Panel]
    windows: dict[Role, Windows]
    findings: tuple[Finding, ...]


def prepare_series(settings: SeriesDataSettings, *, strict: bool = True) -> PreparedSeries:
    """All parts. `strict` refuses what cannot be trained on; without it, the findings say so."""
    roles = find_roles(_table(settings.train), settings)
    panel = load_panel(_table(settings.train), roles, settings)
    train_end, valid_end, test_end = cut_times(panel, settings)
    rows = training_rows(panel, train_end)
    if not len(rows):
        raise RegardError(f"{panel.where}: data.split={settings.split} leaves no line for training")
    scaler = Scaler.fit(rows, settings.scale)
    season = settings.season or panel.step.season()
    naive = naive_errors(panel, scaler, len(roles.targets), season, train_end)
    fitted = Fitted(roles, scaler, panel.step, panel.dates, season, naive)

    layout = Layout.of(settings, len(roles.targets))
    spans = [(-np.inf, train_end), (train_end, valid_end), (valid_end, test_end)]
    train, valid, test = windows_of(panel, scaler, layout, settings, spans)
    panels: dict[Role, Panel] = {"train": panel, "valid": panel, "test": panel}
    windows: dict[Role, Windows] = {"train": train, "valid": valid, "test": test}
    findings = list(panel.findings)
    if settings.valid is not None:
        panels["valid"], windows["valid"] = other_table(_table(settings.valid), fitted, settings, "valid")
        findings += panels["valid"].findings
    if settings.test is not None:
        panels["test"], windows["test"] = other_table(_table(settings.test), fitted, settings, "test")
        findings += panels["test"].findings
    findings += _too_short(windows, panels)
    if strict:
        CheckReport({}, {}, findings).refuse_if_errors()
    return PreparedSeries(fitted, panels, windows, tuple(findings))


def load_panel(
    table: Table, roles: Roles, settings: SeriesDataSettings, role: Role = "train", *, without_targets: bool = False
) -> Panel:
    raw = read_table(table, roles, settings.time_format, role=role, without_targets=without_targets)
    return order(raw, roles, settings, role)


def other_table(table: Table, fitted: Fitted, settings: SeriesDataSettings, role: Role) -> tuple[Panel, Windows]:
    """A table of its own for a part: all of its windows, scaled as the training part was."""
    panel = load_panel(table, fitted.roles, settings, role)
    layout = Layout.of(settings, len(fitted.roles.targets))
    return panel, windows_of(panel, fitted.scaler, layout, settings, [EVER])[0]


def _table(where: str) -> Table:
    """What a recipe says is a corpus or a file, never the text of a table."""
    return where if where.startswith("corpus:") else Path(where)


def _too_short(windows: dict[Role, Windows], panels: dict[Role, Panel]) -> list[Finding]:
    found = []
    for role, some in windows.items():
        if not len(some):
            lay, where = some.layout, panels[role].where
            longest = max(len(one) for one in panels[role].series)
            what = (
                f"not one window of look_back={lay.look_back} and horizon={lay.horizon}: {len(panels[role].series):,} "
                f"stretch{'es' if len(panels[role].series) > 1 else ''} without a gap, the longest of {longest:,} steps"
            )
            severity = "error" if role != "test" else "warning"
            found.append(
                Finding(severity, role, what, 1, where, [], "shorten them, give more data, or change data.split")
            )
    return found


def series_report(prepared: PreparedSeries, estimates: dict[str, str]) -> CheckReport:
    """What `regard check` shows: the parts, the columns, and what is wrong."""
    fitted, parts = prepared.fitted, []
    for role, some in prepared.windows.items():
        panel, lay = prepared.panels[role], some.layout
        begin, end = "–", "–"
        if len(some):
            begin = panel.labels(some.times[some.starts + lay.says_from].min(keepdims=True))[0]
            end = panel.labels(some.times[some.starts + lay.rows - 1].max(keepdims=True))[0]
        parts.append({"part": role, "windows": len(some), "says from": begin, "to": end, "file": panel.where})
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
    series = {one.name for one in prepared.panels["train"].series}
    about = f"columns of the training part (step: {fitted.step}; season: {fitted.season}; series: {len(series)})"
    findings = sorted(prepared.findings, key=lambda one: ("error", "warning", "note").index(one.severity))
    return CheckReport({}, {}, findings, estimates, {"parts": parts, about: columns})
