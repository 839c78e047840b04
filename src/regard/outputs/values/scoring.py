"""Scores of a forecaster over all windows of a part: itself and every baseline, by step, target and period.

Every window of the test part is an origin, one step after the other, and none is left out: a rolling back-test. Its
rows by period show whether a good mean hides a bad stretch. Errors are of scaled values, as is usual in the literature;
the table by target also has them in the user's own units.
"""

from typing import Any

import numpy as np
import torch

from regard.attention import Trace
from regard.inputs.series.prepare import Fitted
from regard.inputs.series.series import Panel
from regard.inputs.series.windows import Windows
from regard.metrics.series import Errors
from regard.models.forecaster import Forecaster
from regard.old_job import Scores
from regard.outputs.values.baselines import Linear, baselines

PERIODS = 5
WATCHED = 256  # windows whose attention is held against a known lag


@torch.inference_mode()
def errors(
    model: Forecaster, windows: Windows, panel: Panel, fitted: Fitted, linear: Linear | None, batch: int
) -> tuple[dict[str, Errors], np.ndarray]:
    """The errors of the model and, with `linear`, of the baselines; and the period of every window."""
    lay, device = windows.layout, next(model.parameters()).device
    period = _periods(windows)
    naive = np.array([_naive(fitted, panel, place) for place in range(len(panel.series))])
    found: dict[str, Errors] = {}
    done = 0
    for some in windows.in_order(batch):
        rows = slice(done, done + len(some.past))
        done = rows.stop
        unit, when = naive[windows.owner[windows.starts[rows]]], period[rows]
        there = some.to(device)
        bands = model.predict(there.past, there.known).float().cpu().numpy()
        said = {"": bands[..., model.middle]}
        if linear is not None:
            said |= {name: table.numpy() for name, table in baselines(some, lay, linear, fitted.season)}
        true = some.target.numpy()
        for name, table in said.items():
            one = found.setdefault(name, Errors.empty(PERIODS, lay.horizon, lay.targets))
            one.add(table.astype(np.float64), true.astype(np.float64), unit, when)
        if len(model.quantiles):
            found[""].add_quantiles(bands.astype(np.float64), true, model.quantiles.cpu().double().numpy())
    return found, period


def _periods(windows: Windows) -> np.ndarray:
    """Equal stretches of time, by the first step that is said."""
    times = windows.times[windows.starts + windows.layout.says_from]
    order = np.argsort(np.argsort(times, kind="stable"), kind="stable")
    return order * PERIODS // max(1, len(order))


def _naive(fitted: Fitted, panel: Panel, place: int) -> list[float]:
    """The unit of MASE of a series; one that training has not seen gets the mean of all."""
    name = panel.series[place].name
    if name in fitted.naive:
        return fitted.naive[name]
    known = list(fitted.naive.values()) or [[1.0] * len(fitted.roles.targets)]
    return np.mean(known, axis=0).tolist()


def scores(
    model: Forecaster, windows: Windows, panel: Panel, fitted: Fitted, linear: Linear, batch: int, lag: int | None
) -> Scores:
    """All that `regard evaluate` prints."""
    found, period = errors(model, windows, panel, fitted, linear, batch)
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
    first = windows.times[windows.starts + lay.says_from]
    by_period = [
        {
            "from": panel.labels(first[period == p].min(keepdims=True))[0], "windows": int((period == p).sum()),
            **{name: float(one.mse_by_period()[p]) for name, one in titles.items()},
        }
        for p in range(PERIODS) if (period == p).any()
    ]  # fmt: skip
    details: dict[str, list[dict[str, Any]]] = {
        "mse by step ahead": by_step, "errors by target": by_target, "rolling back-test: mse by period": by_period,
    }  # fmt: skip
    scaled = bool((fitted.scaler.deviation != 1).any())
    notes = {
        "errors": "of values scaled by the training part's mean and deviation" if scaled else "of values as they are"
    }
    if lag is not None:
        attended = attended_lags(model, windows, lag)
        if attended:
            best = max(attended, key=lambda row: row["share of steps"])
            values |= {"lag_planted": float(lag), "lag_attended": float(best["lag"]), "lag_found": best["found"]}
            details["attended lag by layer and head"] = attended
    return Scores(values, notes, details)


@torch.no_grad()
def attended_lags(model: Forecaster, windows: Windows, lag: int) -> list[dict[str, Any]]:
    """Each head of attention over the past: the lag it attends to most often, and how often that and the known one.

    The lag of a step is its own place less the place of the step that it attends to most.
    """
    lay, device = windows.layout, next(model.parameters()).device
    some = windows.batch(np.linspace(0, len(windows) - 1, min(WATCHED, len(windows))).astype(np.int64)).to(device)
    with Trace(model) as seen:
        model.predict(some.past, some.known)
    try:
        names = [name for name in seen.names if is_cross(name)]
    except RuntimeError:  # a model without attention
        return []
    rows: list[dict[str, Any]] = []
    for name in names:
        weights = seen[name]
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


def is_cross(name: str) -> bool:
    """Whether a traced module is attention of the decoder over the past."""
    return name.startswith("decoder.") and (name.endswith(".cross") or name == "decoder.reader.attention")
