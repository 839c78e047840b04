"""Scores of a forecaster and every baseline over all windows of a part, by step, target and period.

Every window of the test part is an origin, one step after the other: a rolling back-test. Its rows by period show
whether a good mean hides a bad period. Errors are of scaled values, as is usual in the literature; the table by target
also has them in the user's units.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.attention import Trace
from regard.errors import RegardError
from regard.files import atomic
from regard.inputs.series.item import Fitted, Scaler
from regard.inputs.series.prepare import SeriesBatch, in_order
from regard.inputs.series.windows import WindowLayout, Windows
from regard.metrics.series import Errors
from regard.models.forecaster import Forecaster
from regard.tasks.batched import device_of
from regard.tasks.result import Scores

BASELINES = "baselines.safetensors"  # file in the folder of a run

PENALTIES = (1e-1, 1e1, 1e2, 1e3, 1e4, 1e5)
MOST_FEATURES = 2048  # maximum inputs of the linear map; of longer windows, the last steps
MOST_ROWS = 60_000  # maximum equations of the linear map; windows that overlap strongly add little
AT_ONCE = 512


@dataclass(frozen=True)
class Linear:
    """Baselines of a forecast: the last value, the last season, and a linear map of the look-back.

        last       ŷ_{t+h} = y_t
        seasonal   ŷ_{t+h} = y_{t+h−k·season},  k the least that reaches the past
        linear     ŷ = y_t + W (x − y_t) + b     ridge regression in closed form, fitted on the training part
        mean       ŷ = the mean of the training part (only if the targets' past is not read: convert)

    The linear map is the closed form of NLinear (Zeng et al. 2022, section 4, arXiv:2205.13504): the last value is
    subtracted and added again, with one map for all targets. If other columns are read too, x is all of them and
    each target has a separate map. Of several penalties, the one with the least error on the validation part is
    used.

    The map and its penalty are fitted on at most `MOST_ROWS` rows, of evenly chosen windows.
    """

    weight: Float[Tensor, "F Y"]  # the last row is the bias
    own: bool  # one map for all targets, each from its past

    @classmethod
    def fit(cls, train: Windows, valid: Windows) -> "Linear":
        lay = train.layout
        own = not lay.convert and lay.inputs == lay.targets
        gram = moment = None
        for x, y in (_pair(batch, lay, own) for batch in _some(train, own)):
            gram = x.T @ x if gram is None else gram.addmm_(x.T, x)
            moment = x.T @ y if moment is None else moment.addmm_(x.T, y)
        assert gram is not None
        assert moment is not None
        ridge = torch.eye(len(gram), dtype=gram.dtype)
        ridge[-1, -1] = 0  # the bias has no penalty
        found = [torch.linalg.solve(gram + penalty * ridge, moment) for penalty in PENALTIES]
        errors = [0.0] * len(found)
        for x, y in (_pair(batch, valid.layout, own) for batch in _some(valid, own)):
            errors = [
                error + float((y - x @ weight).square().sum()) for error, weight in zip(errors, found, strict=True)
            ]
        return cls(found[errors.index(min(errors))], own)

    def predict(self, batch: SeriesBatch, lay: WindowLayout) -> Float[Tensor, "B T M"]:
        said = (_features(batch, lay, self.own) @ self.weight).to(batch.target.dtype)
        if self.own:
            said = said.view(-1, lay.targets, lay.horizon).transpose(1, 2)
        else:
            said = said.view(-1, lay.horizon, lay.targets)
        return said + _level(batch, lay)


@dataclass(frozen=True)
class Baselines:
    """Baselines fitted on the training part: the linear map, and the unit of MASE of each series and target."""

    linear: Linear
    season: int
    naive: dict[str, list[float]]  # series → mean |x_t − x_{t−season}| of each target, scaled

    @classmethod
    def fit(cls, train: Windows, valid: Windows, scaler: Scaler, season: int) -> "Baselines":
        return cls(Linear.fit(train, valid), season, naive_errors(train, scaler, season))

    def naive_of(self, series: str, targets: int) -> list[float]:
        """Return the MASE units of a series; a series not in the training data gets the mean of all."""
        known = list(self.naive.values()) or [[1.0] * targets]
        return self.naive.get(series) or np.mean(known, axis=0).tolist()

    def said(self, batch: SeriesBatch, lay: WindowLayout) -> Iterator[tuple[str, Float[Tensor, "B T M"]]]:
        """Yield the name and the prediction of each baseline for a batch."""
        yield "linear", self.linear.predict(batch, lay)
        if lay.convert:
            yield "mean", torch.zeros_like(batch.target)
            return
        own = batch.past[..., : lay.targets]
        yield "last", own[:, -1:].expand(-1, lay.horizon, -1)
        if 1 < self.season <= own.shape[1]:
            ahead = torch.arange(lay.horizon) % self.season
            yield "seasonal", own[:, own.shape[1] - self.season + ahead]

    def save(self, folder: Path) -> None:
        about = {"own": self.linear.own, "season": self.season, "naive": self.naive}
        atomic.write_tensors(folder / BASELINES, {"weight": self.linear.weight}, {"about": json.dumps(about)})

    @classmethod
    def load(cls, folder: Path) -> "Baselines":
        try:
            with safe_open(folder / BASELINES, "pt") as file:
                about, weight = json.loads(file.metadata()["about"]), file.get_tensor("weight")
            return cls(Linear(weight, about["own"]), about["season"], about["naive"])
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise RegardError(f"{folder}: cannot read the baselines of the run ({error})") from None


def naive_errors(train: Windows, scaler: Scaler, season: int) -> dict[str, list[float]]:
    """Return the mean error of predicting the value of a season ago, over the steps that training windows read or
    predict.
    """
    sums: dict[str, list[np.ndarray]] = {}
    end = train.times[train.starts + train.layout.rows - 1].max()
    for one in train.panel.series:
        values = scaler.scaled(one.values)[one.times <= end, : train.layout.targets]
        if len(values) > season:
            sums.setdefault(one.name, []).append(np.abs(values[season:] - values[:-season]))
    return {name: np.concatenate(parts).mean(axis=0).tolist() for name, parts in sums.items()}


def _some(windows: Windows, own: bool) -> Iterator[SeriesBatch]:
    """Yield all windows in order, or evenly chosen ones that give `MOST_ROWS` rows."""
    most = MOST_ROWS // (windows.layout.targets if own else 1)
    chosen = np.linspace(0, len(windows) - 1, min(len(windows), max(1, most))).astype(np.int64)
    for start in range(0, len(chosen), AT_ONCE):
        yield SeriesBatch.of(windows, chosen[start : start + AT_ONCE])


def _level(batch: SeriesBatch, lay: WindowLayout) -> Float[Tensor, "B 1 M"]:
    """Return the last value of each target; zero if it is unknown."""
    if lay.convert:
        return torch.zeros(len(batch.past), 1, lay.targets)
    return batch.past[:, -1:, : lay.targets]


def _features(batch: SeriesBatch, lay: WindowLayout, own: bool) -> Float[Tensor, "R F"]:
    """Return rows of features, one for each window or each target of each window. Uses double precision: the
    equations are nearly singular.
    """
    past = batch.past.double()
    if own:
        x = (past - past[:, -1:]).transpose(1, 2).flatten(0, 1)
    else:
        if not lay.convert:
            past = torch.cat([past[..., : lay.targets] - _level(batch, lay), past[..., lay.targets :]], dim=-1)
        steps = max(1, min(past.shape[1], MOST_FEATURES // past.shape[2]))
        x = torch.cat([past[:, -steps:].flatten(1), batch.known.double().flatten(1)], dim=1)
    return torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)


def _pair(batch: SeriesBatch, lay: WindowLayout, own: bool) -> tuple[Tensor, Tensor]:
    y = (batch.target - _level(batch, lay)).double()
    return _features(batch, lay, own), y.transpose(1, 2).flatten(0, 1) if own else y.flatten(1)


PERIODS = 5
SHOWN = {"linear": "ridge regression", "mean": "the mean", "last": "the last value", "seasonal": "the last season"}
WATCHED = 256  # windows whose attention is compared with a known lag


@torch.inference_mode()
def errors(
    model: Forecaster, windows: Windows, baselines: Baselines, batch: int, *, beside: bool = False
) -> tuple[dict[str, Errors], np.ndarray]:
    """Return the errors of the model (with `beside`, also of the baselines), and the period of every window."""
    lay, device = windows.layout, device_of(model)
    period = _periods(windows)
    naive = np.array([baselines.naive_of(one.name, lay.targets) for one in windows.panel.series])
    found: dict[str, Errors] = {}
    done = 0
    for some in in_order(windows, batch):
        rows = slice(done, done + len(some.past))
        done = rows.stop
        there = some.to(device)
        bands = model.predict(there.past, there.known).float().cpu().numpy()
        said = {"": bands[..., model.middle]}
        if beside:
            said |= {name: table.numpy() for name, table in baselines.said(some, lay)}
        true = some.target.numpy()
        for name, table in said.items():
            one = found.setdefault(name, Errors.empty(PERIODS, lay.horizon, lay.targets))
            one.add(table.astype(np.float64), true.astype(np.float64), naive[windows.owner[rows]], period[rows])
        if len(model.quantiles):
            found[""].add_quantiles(bands.astype(np.float64), true, model.quantiles.cpu().double().numpy())
    return found, period


@torch.inference_mode()
def window_errors(
    model: Forecaster | None, windows: Windows, baselines: Baselines, batch: int
) -> dict[str, Float[np.ndarray, " N"]]:
    """Return the mean squared error of each window, of the model, or without one, of the baselines."""
    lay, found = windows.layout, dict[str, list[np.ndarray]]()
    for some in in_order(windows, batch):
        if model is None:
            said = dict(baselines.said(some, lay))
        else:
            there = some.to(device_of(model))
            said = {"model": model.predict(there.past, there.known).float().cpu()[..., model.middle]}
        for name, table in said.items():
            errors = (some.target.double() - table.double()).square().mean((1, 2))
            found.setdefault(name, []).append(errors.numpy())
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _periods(windows: Windows) -> np.ndarray:
    """Return equal periods of time, by the first predicted step."""
    order = np.argsort(np.argsort(windows.first_said, kind="stable"), kind="stable")
    return order * PERIODS // max(1, len(order))


def scores(
    model: Forecaster, windows: Windows, fitted: Fitted, baselines: Baselines, batch: int, lag: int | None
) -> Scores:
    """Return all scores that `regard evaluate` prints."""
    found, period = errors(model, windows, baselines, batch, beside=True)
    lay, targets = windows.layout, fitted.roles.targets
    values = found[""].means()
    for name, one in found.items():
        if name:
            values |= {f"{metric}_{name}": value for metric, value in one.means().items() if metric != "mase"}
    values["windows"] = float(len(windows))
    titles = {name or "model": one for name, one in found.items()}
    steps = np.unique(np.linspace(1, lay.horizon, min(8, lay.horizon)).round().astype(int))
    by_step = [
        {"step": int(step), **{name: float(one.mse_by_step()[step - 1]) for name, one in titles.items()}}
        for step in steps
    ]
    (mse, mae), (mse_linear, _) = found[""].by_target(), found["linear"].by_target()
    by_target = [
        {
            "target": name, "mse": float(mse[m]), "mae": float(mae[m]), "mse linear": float(mse_linear[m]),
            "mae in its units": float(mae[m] * fitted.scaler.deviation[m]),
        }
        for m, name in enumerate(targets)
    ]  # fmt: skip
    first = windows.first_said
    by_period = [
        {
            "from": windows.panel.labels(first[period == p].min(keepdims=True))[0], "windows": int((period == p).sum()),
            **{name: float(one.mse_by_period()[p]) for name, one in titles.items()},
        }
        for p in range(PERIODS) if (period == p).any()
    ]  # fmt: skip
    details: dict[str, list[dict[str, Any]]] = {
        "mse by step ahead": by_step, "errors by target": by_target, "rolling back-test: mse by period": by_period,
    }  # fmt: skip
    scaled = bool((fitted.scaler.deviation != 1).any())
    notes = {"errors": "values scaled by the training part's mean and deviation" if scaled else "unscaled values"}
    if lag is not None:
        attended = attended_lags(model, windows, lag)
        if attended:
            best = max(attended, key=lambda row: row["share of steps"])
            values |= {"lag_planted": float(lag), "lag_attended": float(best["lag"]), "lag_found": best["found"]}
            details["attended lag by layer and head"] = attended
    return Scores(values, notes, details)


@torch.no_grad()
def attended_lags(model: Forecaster, windows: Windows, lag: int) -> list[dict[str, Any]]:
    """Return the lag that each head attends to most often over the past, and how often it attends to that and to the
    known lag.

    The lag of a step is its position minus the position of the step that it attends to most.
    """
    lay, device = windows.layout, device_of(model)
    some = SeriesBatch.of(windows, np.linspace(0, len(windows) - 1, min(WATCHED, len(windows))).astype(np.int64)).to(
        device
    )
    with Trace(model) as seen:
        model.predict(some.past, some.known)
    try:
        names = [name for name in seen.names if seen.role(name).kind == "cross"]
    except RuntimeError:  # a model without attention
        return []
    rows: list[dict[str, Any]] = []
    for name in names:
        weights = seen[name] if seen[name].ndim == 4 else seen[name].unsqueeze(1)  # of one head
        step = lay.says_from + torch.arange(lay.horizon, device=device)
        reachable = (step >= lag) & (step - lag < lay.look_back)
        lags = (step - weights.argmax(-1))[..., reachable]
        for head in range(weights.shape[1]):
            sizes, counts = lags[:, head].flatten().unique(return_counts=True)
            most = int(counts.argmax())
            rows.append(
                {
                    "attention": name, "head": head, "lag": int(sizes[most]),
                    "share of steps": float(counts[most] / counts.sum()),
                    "found": float((lags[:, head] == lag).float().mean()),
                }
            )  # fmt: skip
    return rows
