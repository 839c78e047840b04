"""Series from series: the steps ahead, or one series from others over the same time.

table → windows → encoder → Memory → decoder or head → loss                            (training)
table → its last window → encoder → Memory → the steps ahead → the user's units         (prediction)
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.cost.units import count
from regard.data.check_report import CheckReport
from regard.errors import CallError, RegardError, nearest
from regard.files import atomic
from regard.inputs.series.files import Table
from regard.inputs.series.prepare import Fitted, PreparedSeries, load_panel, other_table, prepare_series, series_report
from regard.inputs.series.series import Series
from regard.inputs.series.times import labels
from regard.inputs.series.windows import Layout, WindowBatches, Windows
from regard.look import AttentionRecord, heat_map
from regard.models.forecaster import Forecaster
from regard.old_job import PLAIN, Output, Picture, Prediction, Scores, Wish
from regard.outputs.values import looking as forecast_looking
from regard.outputs.values.baselines import Linear
from regard.outputs.values.build import build_forecaster
from regard.outputs.values.drawing import draw, svg
from regard.outputs.values.inputs import Asked, asked_windows
from regard.outputs.values.result import Forecast, SeriesForecast, as_csv
from regard.outputs.values.scoring import errors, scores
from regard.outputs.values.settings import ForecastRecipe
from regard.settings.recipe import Recipe

FITTED, LINEAR = "series.json", "linear.safetensors"
PICTURES, WIDEST = 2, 60  # of validation windows in the report; most columns of a picture of attention there
DRAWN = "Past, prediction and what did happen. Shades: intervals between the outer quantiles, where there are any."


class Forecasting:
    """The job, under one recipe. `prepare` (training) or `restore` (prediction) brings what was fitted."""

    def __init__(self, recipe: Recipe, fitted: Fitted | None = None, linear: Linear | None = None) -> None:
        assert isinstance(recipe, ForecastRecipe)
        self.recipe = recipe
        self._fitted, self._linear = fitted, linear
        self._prepared: PreparedSeries | None = None

    def under(self, recipe: Recipe) -> "Forecasting":
        return Forecasting(recipe, self._fitted, self._linear)

    # ------------------------------------------------------------------------------------------------------ training
    def prepare(self, cache: Path) -> None:
        self._prepared = prepare_series(self.recipe.data)
        self._fitted = self._prepared.fitted
        self._linear = Linear.fit(self._prepared.windows["train"], self._prepared.windows["valid"])

    def check(self, cache: Path) -> CheckReport:
        prepared = prepare_series(self.recipe.data, strict=False)
        lay = prepared.windows["train"].layout
        with torch.device("meta"):
            model = build_forecaster(self.recipe.model, lay)
        batches = WindowBatches(prepared.windows["train"], self.recipe.training.max_tokens)
        size = sum(weight.numel() for weight in model.parameters())
        return series_report(
            prepared,
            {"parameters": count(size), "batches in an epoch": f"{batches.len_epoch(0):,} of {batches.size:,} windows"},
        )

    def build(self) -> Forecaster:
        torch.manual_seed(self.recipe.training.seed)
        return build_forecaster(self.recipe.model, self.layout)

    def batches(self) -> WindowBatches:
        training = self.recipe.training
        return WindowBatches(self.data.windows["train"], training.max_tokens, seed=training.seed)

    def fingerprint(self) -> str:
        return self.data.windows["train"].digest()

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Errors over all validation windows; `loss` is what training makes small."""
        assert isinstance(model, Forecaster)
        found, _ = errors(
            model, self.data.windows["valid"], self.data.panels["valid"], self.fitted, None, self.recipe.decoding.batch
        )
        means = found[""].means()
        return {"loss": means["pinball" if len(model.quantiles) else model.loss], **means}

    def sample(self, model: nn.Module) -> str:
        """The first target of a validation window: what was said, and what did happen."""
        one = self._validation(model, 1)[0]
        few = np.linspace(0, len(one.times) - 1, min(6, len(one.times))).astype(int)
        said = "  ".join(f"{one.values[step, 0]:.4g}" for step in few)
        true = "  ".join(f"{one.actual[step, 0]:.4g}" for step in few)
        return f"{one.targets[0]}, {one.times[0]} to {one.times[-1]}\n→ {said}\n= {true}"

    def watch(self, model: nn.Module, most: int) -> list[AttentionRecord]:
        """A few validation windows, from first to last; of a model that does not attend, nothing."""
        assert isinstance(model, Forecaster)
        windows, records = self.data.windows["valid"], []
        for number in sorted({int(one) for one in np.linspace(0, len(windows) - 1, most)}):
            row = self._seen(model, windows, number)
            asked, told = (f"{times[0]} to {times[-1]}" for times in (row.past, row.ahead))
            with suppress(CallError):
                records.append(forecast_looking.look(model, self.layout, row, name="", input=asked, output=told))
        return records

    def pictures(self, model: nn.Module) -> list[Picture]:
        """Validation windows with what was predicted; where the last of them looked."""
        assert isinstance(model, Forecaster)
        some = self._validation(model, PICTURES)
        found = [Picture("Predictions for validation windows", svg(draw(some)), DRAWN)]
        if self.layout.look_back <= WIDEST:
            windows = self.data.windows["valid"]
            row = self._seen(model, windows, len(windows) - 1)
            try:
                record = forecast_looking.look(model, self.layout, row, name="", input="", output="")
            except CallError:
                return found
            matrix = record.matrix()
            title = f"Where the steps from {row.ahead[0]} looked"
            html = heat_map(matrix.weights, matrix.rows.labels, matrix.columns.labels, title)
            found.append(Picture(title, html, "Rows: steps that were predicted; columns: steps that were read."))
        return found

    # ---------------------------------------------------------------------------------------------------- the folder
    def save(self, folder: Path) -> None:
        atomic.write_text(folder / FITTED, json.dumps(self.fitted.as_dict(), ensure_ascii=False, indent=1))
        self.linear.save(folder / LINEAR)

    def restore(self, folder: Path) -> None:
        try:
            self._fitted = Fitted.from_dict(json.loads((folder / FITTED).read_text(encoding="utf-8")))
            self._linear = Linear.load(folder / LINEAR)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RegardError(f"{folder}: the run has lost its scales or its baseline ({error})") from None

    # ---------------------------------------------------------------------------------------------------- prediction
    def inputs(self, words: Sequence[str]) -> list[Path]:
        """Words on a command line are files."""
        return [Path(word) for word in words]

    def predict(
        self, model: nn.Module, inputs: Sequence[Table], *, prefix: str = "", attention: bool = False
    ) -> list[Prediction]:
        """For each table (a Path, the text of a CSV, or columns by name) the steps of all its series."""
        assert isinstance(model, Forecaster)
        if prefix:
            raise CallError("a forecast has no prefix: decoding.at=TIME says from when on")
        if attention:
            raise CallError("a forecast is looked at by `regard look` or `run.look`")
        return [self._predict(model, table) for table in inputs]

    def look(self, model: nn.Module, text: Any, wish: Wish = PLAIN) -> AttentionRecord:
        """Which past times each step attended to: of decoding.series, or the first; at decoding.at, or the end."""
        assert isinstance(model, Forecaster)
        if wish.method != "raw" or wish.output is not None or wish.gold is not None:
            raise CallError("a forecast is looked at as it is: method, target and gold are for text")
        asked = self._asked(text)[0]
        row = self._seen(model, asked.windows, len(asked.windows) - 1)
        title = f"{asked.series.name} {row.past[0]} to {row.past[-1]}".strip()
        return forecast_looking.look(
            model, self.layout, row, name=wish.name, input=title, output=f"{row.ahead[0]} to {row.ahead[-1]}"
        )

    def score(self, model: nn.Module, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Prediction]:
        raise CallError("a forecast is scored against what did happen: regard evaluate RUN data.test=FILE")

    # ---------------------------------------------------------------------------------------------------- evaluation
    def evaluate(self, model: nn.Module, *, alignments: bool = False) -> Scores:
        """MSE, MAE, MASE, pinball of the test part, with the baselines beside them, by step, target and period."""
        assert isinstance(model, Forecaster)
        settings = self.recipe.data
        if settings.test is not None:
            table = Path(settings.test) if not settings.test.startswith("corpus:") else settings.test
            panel, windows = other_table(table, self.fitted, settings, "test")
            CheckReport({}, {}, list(panel.findings)).refuse_if_errors()
        else:
            prepared = self._prepared or prepare_series(settings)
            panel, windows = prepared.panels["test"], prepared.windows["test"]
        if not len(windows):
            raise CallError("there is not one window to test on: give data.test=FILE, or a test part in data.split")
        return scores(model, windows, panel, self.fitted, self.linear, self.recipe.decoding.batch, settings.lag)

    # ------------------------------------------------------------------------------------------------------- helpers
    def _asked(self, table: Table) -> list[Asked]:
        if isinstance(table, str) and "\n" not in table and not table.startswith("corpus:"):
            raise CallError(f"{table!r}: give a table as a pathlib.Path, as the text of a CSV, or as columns by name")
        settings = self.recipe.data
        panel = load_panel(table, self.fitted.roles, settings, "test", without_targets=settings.mode == "convert")
        CheckReport({}, {}, list(panel.findings)).refuse_if_errors()
        how = self.recipe.decoding
        if how.series is not None and how.series not in {one.name for one in panel.series}:
            names = dict.fromkeys(one.name for one in panel.series)
            raise CallError(f"decoding.series={how.series!r} is not in {panel.where}{nearest(how.series, names)}")
        return asked_windows(panel, self.fitted, self.layout, settings, how)

    def _predict(self, model: Forecaster, table: Table) -> Forecast:
        found = tuple(self._said(model, asked.windows, asked.series) for asked in self._asked(table))
        roles = self.fitted.roles
        text = as_csv(found, roles.time, roles.id)
        name = str(table) if isinstance(table, Path) else ""
        return Forecast(name, [Output(text, 0.0, 0.0)], None, found)

    @torch.inference_mode()
    def _said(self, model: Forecaster, windows: Windows, series: Series, only: int | None = None) -> SeriesForecast:
        """What the model says for windows of one series, joined along time; later windows only add what is new."""
        lay, device, scaler = self.layout, next(model.parameters()).device, self.fitted.scaler
        numbers = range(len(windows)) if only is None else [only]
        bands, times, done = [], [], -np.inf
        for number in numbers:
            batch = windows.batch(np.array([number])).to(device)
            said = model.predict(batch.past, batch.known)[0].float().cpu().numpy()
            when = windows.times[windows.starts[number] + lay.says_from :][: lay.horizon]
            new = when > done
            done = when[-1]
            bands.append(said[new])
            times.append(when[new])
        last = numbers[-1]
        start = int(windows.starts[last])
        own = windows.rows[start : start + lay.look_back, : lay.targets].double().numpy()
        true = windows.rows[start + lay.says_from : start + lay.rows, : lay.targets].double().numpy()
        said = np.concatenate(bands).astype(np.float64)
        known = ~np.isnan(true).any(axis=1)
        bands = scaler.restored(said.swapaxes(1, 2)).swapaxes(1, 2)
        return SeriesForecast(
            series.name, labels(np.concatenate(times), self.fitted.dates), self.fitted.roles.targets,
            bands[..., model.middle], tuple(self.recipe.model.quantiles),
            bands if len(model.quantiles) else bands[..., :0],
            [] if lay.convert else labels(windows.times[start : start + lay.look_back], self.fitted.dates),
            scaler.restored(own[:0] if lay.convert else own),
            scaler.restored(true[known] if len(bands) == len(true) else true[:0]),
        )  # fmt: skip

    def _validation(self, model: nn.Module, most: int) -> list[SeriesForecast]:
        assert isinstance(model, Forecaster)
        windows, panel = self.data.windows["valid"], self.data.panels["valid"]
        numbers = np.linspace(0, len(windows) - 1, min(most, len(windows))).astype(int)
        owners = windows.owner[windows.starts[numbers]]
        return [
            self._said(model, windows, panel.series[owner], int(number))
            for number, owner in zip(numbers, owners, strict=True)
        ]

    def _seen(self, model: Forecaster, windows: Windows, number: int) -> forecast_looking.Seen:
        lay, roles = self.layout, self.fitted.roles
        target = 0 if self.recipe.decoding.target is None else self._target(self.recipe.decoding.target)
        column = lay.targets if lay.convert else target  # what is drawn under the weights
        start = int(windows.starts[number])
        signal = windows.rows[start : start + lay.look_back, column].double().numpy()
        if column < len(roles.columns):
            signal = signal * self.fitted.scaler.deviation[column] + self.fitted.scaler.mean[column]
        times = labels(windows.times[start : start + lay.rows], self.fitted.dates)
        batch = windows.batch(np.array([number])).to(next(model.parameters()).device)
        return forecast_looking.Seen(batch, times[: lay.look_back], times[lay.says_from :], signal, target)

    def _target(self, name: str) -> int:
        targets = self.fitted.roles.targets
        if name not in targets:
            raise CallError(f"decoding.target={name!r} is not one of the targets{nearest(name, targets)}")
        return targets.index(name)

    @property
    def layout(self) -> Layout:
        return Layout.of(self.recipe.data, len(self.fitted.roles.targets))

    @property
    def fitted(self) -> Fitted:
        assert self._fitted is not None, "prepare or restore comes first"
        return self._fitted

    @property
    def linear(self) -> Linear:
        assert self._linear is not None, "prepare or restore comes first"
        return self._linear

    @property
    def data(self) -> PreparedSeries:
        assert self._prepared is not None, "prepare comes first"
        return self._prepared
