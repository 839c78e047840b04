"""Scores of a forecaster and every baseline over all windows of a part, by step, target and period.

Every window of the test part is an origin, one step after the other: a rolling back-test. Its rows by period show
whether a good mean hides a bad period. Errors are of scaled values, as is usual in the literature; the table by target
also has them in the user's units.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from regard.attention import Trace
from regard.inputs.series.item import Fitted
from regard.inputs.series.window_batches import SeriesBatch, in_order
from regard.inputs.series.windows import Windows
from regard.metrics.series import Errors
from regard.models.forecaster import Forecaster
from regard.outputs.batched import device_of
from regard.outputs.result import Scores
from regard.outputs.values.baselines import Baselines

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
